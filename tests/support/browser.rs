//! A real browser: Chromium without a window, driven by the `WebDriver` protocol over plain HTTP.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::harness::{eventually, free_port};

/// The key of an element in answers of the protocol (W3C, `WebDriver` 1).
const ELEMENT: &str = "element-6066-11e4-a52e-4f735466cecf";

/// A browser; ended when dropped.
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
}

impl Browser {
    /// Starts one.
    pub fn start() -> Self {
        let port = free_port();
        let mut driver = Command::new("chromedriver");
        driver.arg(format!("--port={port}")).stdout(Stdio::null()).stderr(Stdio::null());
        let driver = driver.spawn().expect("chromedriver is installed: tests/cluster/build-tools.sh browser");
        let mut browser = Self { driver, port, session: String::new() };
        eventually("chromedriver is ready", || {
            let status = browser.send("GET", "/status", None)?;
            if status["ready"] == true { Ok(()) } else { Err(status.to_string()) }
        });
        // Root has no sandbox, and containers have a small /dev/shm.
        let args =
            ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1280,900"];
        let wanted = json!({"capabilities": {"alwaysMatch": {"goog:chromeOptions": {"args": args}}}});
        let session = browser.send("POST", "/session", Some(&wanted)).unwrap();
        browser.session = format!("/session/{}", session["sessionId"].as_str().unwrap());
        browser
    }

    fn send(&self, method: &str, path: &str, body: Option<&Value>) -> Result<Value, String> {
        let link = format!("http://127.0.0.1:{}{path}", self.port);
        let agent: ureq::Agent = ureq::Agent::config_builder().http_status_as_error(false).build().into();
        let answer = match (method, body) {
            ("GET", _) => agent.get(&link).call(),
            ("DELETE", _) => agent.delete(&link).call(),
            (_, body) => {
                let body = body.unwrap_or(&Value::Null).to_string();
                agent.post(&link).header("content-type", "application/json").send(body.as_str())
            }
        };
        let text = answer.map_err(|e| e.to_string())?.body_mut().read_to_string().map_err(|e| e.to_string())?;
        let mut answer: Value = serde_json::from_str(&text).map_err(|e| format!("{e}: {text}"))?;
        let value = answer["value"].take();
        match value["error"].as_str() {
            Some(error) => Err(format!("{error}: {}", value["message"].as_str().unwrap_or_default())),
            None => Ok(value),
        }
    }

    fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.send("POST", &format!("{}{path}", self.session), Some(body))
    }

    /// Opens an address.
    pub fn open(&self, link: &str) {
        self.post("/url", &json!({"url": link})).unwrap();
    }

    /// The result of a script, which returns it.
    pub fn script(&self, script: &str) -> Value {
        self.post("/execute/sync", &json!({"script": script, "args": []})).unwrap()
    }

    /// The text of an element, as a person sees it.
    pub fn text(&self, css: &str) -> Result<String, String> {
        let found = self.post("/element", &json!({"using": "css selector", "value": css}))?;
        let element = found[ELEMENT].as_str().ok_or("not an element")?;
        let text = self.send("GET", &format!("{}/element/{element}/text", self.session), None)?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an element has a text in it; its whole text.
    pub fn wait_text(&self, css: &str, wanted: &str) -> String {
        eventually(&format!("{css} has {wanted:?}"), || {
            let text = self.text(css)?;
            if text.contains(wanted) { Ok(text) } else { Err(text) }
        })
    }

    /// Clicks the link with a text.
    pub fn follow(&self, text: &str) {
        let found = self.post("/element", &json!({"using": "link text", "value": text})).unwrap();
        let element = found[ELEMENT].as_str().unwrap();
        self.post(&format!("/element/{element}/click"), &json!({})).unwrap();
    }

    /// Presses keys, one after the other, as the protocol writes them.
    pub fn press(&self, keys: &[char]) {
        let strokes = |key: &char| [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})];
        let strokes: Vec<Value> = keys.iter().flat_map(strokes).collect();
        self.post("/actions", &json!({"actions": [{"type": "key", "id": "keys", "actions": strokes}]})).unwrap();
    }

    /// A command of Chromium's own protocol.
    pub fn command(&self, command: &str, params: &Value) {
        self.post("/goog/cdp/execute", &json!({"cmd": command, "params": params})).unwrap();
    }

    /// Makes the window as wide as a device.
    pub fn resize(&self, width: u32, height: u32) {
        let params = json!({"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false});
        self.command("Emulation.setDeviceMetricsOverride", &params);
    }

    /// Runs no script of the pages that are opened from now.
    pub fn without_scripts(&self) {
        self.command("Emulation.setScriptExecutionDisabled", &json!({"value": true}));
    }

    /// Lets pages see that the user prefers a colour scheme: `dark` or `light`.
    pub fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        self.command("Emulation.setEmulatedMedia", &json!({"features": features}));
    }

    /// Lets pages see that they are printed, or shown again.
    pub fn print(&self, is_printed: bool) {
        self.command("Emulation.setEmulatedMedia", &json!({"media": if is_printed { "print" } else { "" }}));
    }

    /// What axe-core finds wrong with the page, each in a line.
    pub fn violations(&self, axe: &str) -> Vec<String> {
        self.script(axe);
        let script = "const end = arguments[arguments.length - 1]; \
                      axe.run().then((found) => end(found.violations), (error) => end([{id: String(error), nodes: []}]));";
        let found = self.post("/execute/async", &json!({"script": script, "args": []})).unwrap();
        let line = |violation: &Value| format!("{}: {}", violation["id"], violation["nodes"][0]["html"]);
        found.as_array().into_iter().flatten().map(line).collect()
    }

    /// Writes a picture of the window.
    pub fn picture(&self, file: &Path) {
        let picture = self.send("GET", &format!("{}/screenshot", self.session), None).unwrap();
        std::fs::write(file, STANDARD.decode(picture.as_str().unwrap()).unwrap()).unwrap();
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.send("DELETE", &self.session, None);
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
