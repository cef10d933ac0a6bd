//! Google's storage. Its own server is not available, and the one for tests (fake-gcs-server) has neither uploads in parts nor
//! the lists of the XML interface. That interface is S3's, except for authentication. So a program in between checks the token, and signs
//! the requests for an S3-compatible server.

use std::fs;
use std::net::TcpStream;
use std::process::{Command, Stdio};

use crate::clouds::goes_and_comes_back;
use crate::etcd::{V36, cluster};
use crate::program::{Process, Test, fails, snapshot, until};
use crate::proxy::{LAST, uploads_are_killed};
use crate::s3::{BUCKET, Gateway, KEY, RIGHT};

const TOKEN: &str = "the-token-of-google";
const WRONG: &str = "another-token";

/// `FROM TO KEY SECRET TOKEN`: asks TO with S3's signature (version 4) for who has the token.
const SIGNER: &str = r#"
const [from, to, key, secret, token] = process.argv.slice(1), http = require("http"), crypto = require("crypto");
const hmac = (key, text) => crypto.createHmac("sha256", key).update(text).digest();
const encode = text => encodeURIComponent(text).replace(/[!'()*]/g, c => "%" + c.charCodeAt(0).toString(16).toUpperCase());
const signed = (method, url) => {
    const {pathname, searchParams} = new URL(url, `http://${to}`), now = new Date().toISOString().replace(/[-:]|\.\d+/g, "");
    const query = [...searchParams].map(pair => pair.map(encode).join("=")).sort().join("&");
    const headers = {host: to, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": now}, names = Object.keys(headers).join(";");
    const path = decodeURIComponent(pathname).split("/").map(encode).join("/");
    const asked = [method, path, query, ...Object.entries(headers).map(pair => pair.join(":")), "", names, "UNSIGNED-PAYLOAD"].join("\n");
    const scope = [now.slice(0, 8), "us-east-1", "s3", "aws4_request"];
    const text = ["AWS4-HMAC-SHA256", now, scope.join("/"), crypto.createHash("sha256").update(asked).digest("hex")].join("\n");
    const signature = hmac(scope.reduce(hmac, "AWS4" + secret), text).toString("hex");
    return {...headers, authorization: `AWS4-HMAC-SHA256 Credential=${key}/${scope.join("/")}, SignedHeaders=${names}, Signature=${signature}`};
};
const [address, port] = from.split(":"), [host, gateway] = to.split(":");
http.createServer((asked, answer) => {
    if (asked.headers.authorization !== `Bearer ${token}`) {
        asked.resume();
        answer.writeHead(401, {"www-authenticate": "Bearer"});
        answer.end("<?xml version='1.0'?><Error><Code>AuthenticationRequired</Code></Error>");
        return;
    }
    const headers = {...asked.headers, ...signed(asked.method, asked.url)};
    const forwarded = http.request({host, port: gateway, method: asked.method, path: asked.url, headers}, got => {
        answer.writeHead(got.statusCode, got.headers);
        got.pipe(answer);
    });
    asked.pipe(forwarded);
}).listen(port, address);
"#;

struct Google {
    address: String,
    _gateway: Gateway,
    _signer: Process,
}

impl Google {
    fn start(test: &Test) -> Self {
        let gateway = Gateway::start(test);
        let address = format!("{}:8080", test.address(3));
        let log = fs::File::create(test.path("signer.log")).expect("the folder can be written");
        let signer = Command::new("node")
            .args(["-e", SIGNER, &address, &gateway.address, KEY, RIGHT, TOKEN])
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let signer = Process(signer.expect("node starts"));
        until("it listens", || TcpStream::connect(&address).is_ok());
        Self { address, _gateway: gateway, _signer: signer }
    }

    fn snapshot(&self, arguments: &[&str]) -> Command {
        Self::at(&self.address, BUCKET, arguments)
    }

    fn at(address: &str, bucket: &str, arguments: &[&str]) -> Command {
        let mut command = snapshot(arguments);
        command.args(["--store", &format!("gs://{bucket}/folder")]);
        command.envs([("GOOGLE_BASE_URL", &*format!("http://{address}")), ("GOOGLE_BEARER_TOKEN", TOKEN)]);
        command
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_goes_to_google_and_back() {
    let test = Test::new();
    let google = Google::start(&test);
    goes_and_comes_back(&test, |arguments| google.snapshot(arguments)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upload_to_google_that_is_killed_leaves_nothing_that_counts_as_a_backup() {
    let test = Test::new();
    let google = Google::start(&test);
    let at = |address: &str, arguments: &[&str]| Google::at(address, BUCKET, arguments);
    uploads_are_killed(&test, &google.address, &LAST, at).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn google_reports_a_wrong_token_and_a_missing_bucket() {
    let test = Test::new();
    let google = Google::start(&test);
    let save = ["save", "--endpoints", &cluster(&test, V36, 1).await[0].url];
    for arguments in [&save[..], &["list"], &["verify"], &["verify", "one"]] {
        let error = fails(google.snapshot(arguments).env("GOOGLE_BEARER_TOKEN", WRONG));
        assert!(error.contains("access denied: the keys are wrong, or lack the permission"), "{arguments:?}: {error}");
        assert!(!error.contains(WRONG) && !error.contains(TOKEN), "{error}");
        let error = fails(&mut Google::at(&google.address, "nobucket", arguments));
        assert!(error.contains("there is no such bucket"), "{arguments:?}: {error}");
    }
}
