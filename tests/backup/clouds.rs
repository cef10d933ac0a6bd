//! A server with the protocol of Azure's storage: Azurite, on Node.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::etcd::{V36, cluster};
use crate::program::{Process, Test, fails, json, ok, snapshot, tool, until};
use crate::proxy::{PROXY, large, uploads_are_killed};

/// The key of the account of Azure, and a different key.
const KEY: &str = "dGhlLXNlY3JldC1rZXk=";
const WRONG: &str = "YW5vdGhlci1zZWNyZXQ=";

/// A server with one container, which has a certificate of an authority of its own.
struct Azurite {
    address: String,
    ca: String,
    _process: Process,
}

/// Makes an authority and the server's certificate.
const CERTIFICATES: &str = r#". tests/cluster/lib.sh; member_certs "$1" "$2""#;

/// Makes a container: no program of ours does. The request is signed as Azure's "Shared Key" has it.
const CONTAINER: &str = r#"
const [address, ca, key] = process.argv.slice(1);
const date = new Date().toUTCString(), version = "2021-08-06";
const text = `PUT${"\n".repeat(12)}x-ms-date:${date}\nx-ms-version:${version}\n/account/account/backups\nrestype:container`;
const sign = require("crypto").createHmac("sha256", Buffer.from(key, "base64")).update(text).digest("base64");
const [host, port] = address.split(":");
require("https").request({host, port, ca: require("fs").readFileSync(ca), method: "PUT",
    path: "/account/backups?restype=container", headers: {"x-ms-date": date, "x-ms-version": version,
    "Content-Length": 0, Authorization: `SharedKey account:${sign}`}},
    answer => { console.log(answer.statusCode); answer.pipe(process.stderr); }).end();
"#;

impl Azurite {
    fn start(test: &Test) -> Self {
        let file = |name: &str| test.path(name).display().to_string();
        let host = test.address(2);
        let names = format!("IP:127.0.0.1,IP:{host},IP:{}", test.address(PROXY));
        let made = Command::new("bash").args(["-ec", CERTIFICATES, "bash", &file(""), &names]).output();
        assert!(made.expect("bash is there").status.success(), "no certificates");
        // Its own port.
        let address = format!("{host}:10000");
        let log = fs::File::create(test.path("azurite.log")).expect("the folder can be written");
        let process = Command::new(tool("azurite/node_modules/.bin/azurite-blob"))
            .args(["--blobHost", &host, "--cert", &file("member.crt"), "--key", &file("member.key")])
            .args(["--skipApiVersionCheck", "--disableTelemetry", "--location", &file("azurite")])
            .env("AZURITE_ACCOUNTS", format!("account:{KEY}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let process = Process(process.expect("the server starts"));
        until("the server listens", || TcpStream::connect(&address).is_ok());
        let mut node = Command::new("node");
        assert_eq!(ok(node.args(["-e", CONTAINER, &address, &file("ca.crt"), KEY])).trim(), "201");
        Self { address, ca: file("ca.crt"), _process: process }
    }

    fn snapshot(&self, arguments: &[&str]) -> Command {
        self.at(&self.address, "backups", arguments)
    }

    fn at(&self, address: &str, container: &str, arguments: &[&str]) -> Command {
        let mut command = snapshot(arguments);
        command.args(["--store", &format!("az://{container}/folder")]).env("AWS_CA_BUNDLE", &self.ca).envs([
            ("AZURE_STORAGE_ACCOUNT_NAME", "account"),
            ("AZURE_STORAGE_ACCOUNT_KEY", KEY),
            ("AZURE_STORAGE_ENDPOINT", &format!("https://{address}/account")),
        ]);
        command
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_goes_to_azure_and_back() {
    let test = Test::new();
    let azurite = Azurite::start(&test);
    goes_and_comes_back(&test, |arguments| azurite.snapshot(arguments)).await;
}

/// Stored in parts, listed, read back, fetched as it was, not overwritten, and deleted when there are enough newer ones.
pub async fn goes_and_comes_back(test: &Test, of_cloud: impl Fn(&[&str]) -> Command) {
    let member = large(test).await;
    let names = || -> Vec<String> {
        let all = json(&mut of_cloud(&["list"]));
        let all = all.as_array().expect("it is a list").iter().inspect(|one| assert_eq!(one["state"], "good"));
        all.map(|one| one["name"].as_str().expect("it has a name").to_owned()).collect()
    };
    let save = ["save", "--endpoints", &member.url];
    let label = |saved: &Value| saved["name"].as_str().expect("it has a name").to_owned();
    let first = json(&mut of_cloud(&save));
    let old = label(&first);
    assert_eq!(names(), [&*old]);
    let new = label(&json(&mut of_cloud(&save)));
    assert_eq!(names(), [&*new, &*old]);
    assert!(first["record"]["size"].as_u64() > Some(20_000_000), "more than a part: {first}");
    assert_eq!(json(&mut of_cloud(&["verify"]))["name"], *new);

    let (to, none) = (test.path("fetched.db").display().to_string(), test.path("none").display().to_string());
    ok(&mut of_cloud(&["fetch", &old, "--to", &to, "--data-dir", &none]));
    let fetched = json(&mut snapshot(["status", &to]));
    for field in ["sha256", "size", "revision", "keys", "hash"] {
        assert_eq!(fetched[field], first["record"][field], "{field}");
    }

    let error = fails(of_cloud(&save).args(["--name", &old]));
    assert!(error.contains(&format!("there is a backup {old} already")), "{error}");
    assert_eq!(json(&mut of_cloud(&["verify", &old]))["record"], first["record"]);
    ok(&mut of_cloud(&["prune", "--keep", "1"]));
    assert_eq!(names(), [&*new]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_to_azure_that_is_killed_leaves_nothing_that_counts_as_a_backup() {
    let test = Test::new();
    let azurite = Azurite::start(&test);
    // How many bytes there are in all differs with TLS.
    let at = |address: &str, arguments: &[&str]| azurite.at(address, "backups", arguments);
    uploads_are_killed(&test, &azurite.address, &[], at).await;
}

/// Also when one object is requested.
#[tokio::test(flavor = "multi_thread")]
async fn azure_reports_a_missing_container() {
    let test = Test::new();
    let azurite = Azurite::start(&test);
    let members = cluster(&test, V36, 1).await;
    for arguments in [&["save", "--endpoints", &members[0].url][..], &["list"], &["verify"], &["verify", "one"]] {
        let error = fails(&mut azurite.at(&azurite.address, "nocontainer", arguments));
        assert!(error.contains("there is no such bucket"), "{arguments:?}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_key_of_azure_is_reported_and_not_shown() {
    let test = Test::new();
    let azurite = Azurite::start(&test);
    let save = ["save", "--endpoints", &cluster(&test, V36, 1).await[0].url];
    for arguments in [&save[..], &["list"], &["verify"]] {
        let error = fails(azurite.snapshot(arguments).env("AZURE_STORAGE_ACCOUNT_KEY", WRONG));
        assert!(error.contains("access denied: the keys are wrong"), "{error}");
        assert!(!error.contains(WRONG) && !error.contains(KEY), "{error}");
    }
}
