//! Keys, passwords and certificates: where they come from, and that they are shown nowhere. `program::end` looks at every output.

use std::fs;
use std::process::Command;

use crate::etcd::{Seat, V36, cluster};
use crate::program::{Test, fails, json, ok, snapshot, until};
use crate::s3::{Gateway, RIGHT};

#[tokio::test(flavor = "multi_thread")]
async fn wrong_keys_and_buckets_are_reported_in_plain_words() {
    let test = Test::new();
    let gateway = Gateway::start(&test);
    let members = cluster(&test, V36, 1).await;
    let endpoint = format!("http://{}", gateway.address);
    let bare = |arguments: &[&str], store: &str| {
        let mut command = snapshot(arguments);
        command.args(["--store", store, "--s3-endpoint", &endpoint]);
        command
    };
    let save = ["save", "--endpoints", members[0].url.as_str()];
    let right = Gateway::credentials(&test, RIGHT);
    let wrong = Gateway::credentials(&test, "another-secret");

    // The files of AWS's command line, as coreos's awsSecret has them.
    ok(bare(&save, "s3://backups/folder").env("AWS_SHARED_CREDENTIALS_FILE", &right));
    ok(bare(&["list"], "s3://backups/folder").env("AWS_SHARED_CREDENTIALS_FILE", &right));

    for arguments in [&save[..], &["list"], &["verify"]] {
        let error = fails(bare(arguments, "s3://backups/folder").env("AWS_SHARED_CREDENTIALS_FILE", &wrong));
        assert!(error.contains("access denied"), "{error}");
        let error = fails(bare(arguments, "s3://nobucket/folder").env("AWS_SHARED_CREDENTIALS_FILE", &right));
        assert!(error.contains("there is no such bucket"), "{error}");
    }
    let error = fails(bare(&["list"], "s3://backups/folder").env("AWS_SHARED_CREDENTIALS_FILE", "/nowhere/file"));
    assert!(error.contains("/nowhere/file: No such file"), "{error}");
    let nobody = fails(&mut Gateway::at(&format!("{}:1", test.address(9)), &["list"]));
    assert!(nobody.contains("Connection refused"), "{nobody}");
    for (url, because) in [
        ("s3://user:another-secret@backups/x", "a URL without user, query and fragment"),
        ("s3:///folder", "it names no bucket"),
        ("file://folder", "its path is not absolute"),
        ("ftp://backups/x", "must be one of s3, gs, az and file"),
        ("backups", "it has no scheme"),
        ("file:///nowhere/at/all", "nowhere/at/all"),
    ] {
        let error = fails(snapshot(["list"]).args(["--store", url]));
        assert!(error.contains(because), "{url}: {error}");
    }
}

/// Makes an authority, a certificate for members and one for clients.
const CERTIFICATES: &str = r#". tests/cluster/lib.sh; member_certs "$1" "$2""#;

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_with_certificates_and_passwords_is_backed_up() {
    let test = Test::new();
    let seat = Seat::new(&test, 0);
    let file = |name: &str| test.path(name).display().to_string();
    let names = format!("IP:127.0.0.1,IP:{}", seat.host);
    let made =
        Command::new("bash").args(["-ec", CERTIFICATES, "bash", &file(""), &names]).output().expect("bash is there");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let flags: Vec<_> = [("cert", "member.crt"), ("key", "member.key"), ("trusted-ca", "ca.crt")]
        .map(|(flag, name)| format!("--{flag}-file={}", file(name)))
        .into_iter()
        .chain(["--client-cert-auth".to_owned()])
        .collect();
    let member = seat.start(&test, V36, &seat.initial(), "https", &flags);
    let save = || {
        let mut command = snapshot(["save", "--endpoints", &member.url, "--store"]);
        command.arg(format!("file://{}", test.path("store").display()));
        command.args(["--cacert", &file("ca.crt")]);
        command
    };
    let with_certificate = || {
        let mut command = save();
        command.env("ETCDCTL_CERT", file("client.crt")).env("ETCDCTL_KEY", file("client.key"));
        command
    };
    until("it answers", || with_certificate().output().expect("it starts").status.success());
    let error = fails(save().args(["--call-timeout", "3s"]));
    assert!(error.contains("no member can give a snapshot"), "{error}");

    let identity = etcd_client::Identity::from_pem(
        fs::read(file("client.crt")).expect("it was made"),
        fs::read(file("client.key")).expect("it was made"),
    );
    let ca = etcd_client::Certificate::from_pem(fs::read(file("ca.crt")).expect("it was made"));
    let tls = etcd_client::TlsOptions::new().ca_certificate(ca).identity(identity);
    let options = etcd_client::ConnectOptions::new().with_tls(tls);
    let mut client = etcd_client::Client::connect([&member.url], Some(options)).await.expect("it is a URL");
    client.user_add("root", "the-password", None).await.expect("there are no users yet");
    client.user_grant_role("root", "root").await.expect("root is there");
    client.auth_enable().await.expect("root has its role");

    let error = fails(&mut with_certificate());
    assert!(error.contains("needs the role root"), "{error}");
    let error = fails(with_certificate().env("ETCDCTL_USER", "root:another-secret"));
    assert!(error.contains("authentication failed"), "{error}");
    let error = fails(with_certificate().args(["--user", "root:another-secret"]));
    assert!(error.contains("takes the name only"), "{error}");
    assert!(fails(with_certificate().args(["--user", "root"])).contains("no password"));

    fs::write(file("password"), "the-password\n").expect("it can be written");
    ok(with_certificate().args(["--user", "root", "--password-file", &file("password")]));
    ok(with_certificate().args(["--user", "root"]).env("ETCDCTL_PASSWORD", "the-password"));
    let saved = json(with_certificate().env("ETCDCTL_USER", "root:the-password"));
    assert_eq!(saved["record"]["state"], "verified");
}

/// Members of two clusters make no backup, and one that is away does not stop the others.
#[tokio::test(flavor = "multi_thread")]
async fn members_that_are_away_are_left_out_and_those_of_another_cluster_are_refused() {
    let test = Test::new();
    let one = cluster(&test, V36, 1).await;
    let other = Test::new();
    let two = cluster(&other, V36, 1).await;
    let store = format!("file://{}", test.path("store").display());
    let save = |endpoints: String| {
        let mut command = snapshot(["save", "--call-timeout", "2s", "--store", &store, "--endpoints"]);
        command.arg(endpoints);
        command
    };
    let error = fails(&mut save(format!("{},{}", one[0].url, two[0].url)));
    assert!(error.contains("different clusters"), "{error}");
    let away = format!("http://{}:2379", test.address(99));
    ok(&mut save(format!("{away},{}", one[0].url)));
    // It is there, but says nothing.
    two[0].process.signal("STOP");
    let error = fails(&mut save(format!("{away},{}", two[0].url)));
    assert!(error.contains("no answer to a linearizable read within 2s"), "{error}");
    two[0].process.signal("CONT");
}
