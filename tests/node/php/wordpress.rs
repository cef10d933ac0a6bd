//! Sites of `WordPress`: of Debian's packages, where public images have it (php-images.sh).

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::services::{redis, serve, shared_claim};
use super::{Answer, BASE64, Load, Stage, get, request};
use crate::eventually;
use crate::harness::kubectl;
use base64::Engine as _;

const HOST: &str = "blog.example.com";
const IMAGE: &str = "localhost/wordpress:6.1";
/// The next version of `WordPress`, on the next PHP.
const NEXT: &str = "localhost/wordpress:6.8";
/// A picture of one dot.
const PICTURE: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// A site, which differs from the defaults by these fields.
fn site(stage: &Stage, database: &Value) {
    site_with(stage, "blog", &json!({"database": database}));
}

/// A site of this name with more fields.
fn site_with(stage: &Stage, name: &str, more: &Value) {
    let mut spec = json!({"host": format!("{name}.example.com"), "title": "Ada's blog: $(DB_PASSWORD) \"quoted\"", "admin": {"email": "ada@example.com"},
        "image": IMAGE, "nginx": {"image": IMAGE}, "externalRequests": false,
        "uploads": {"size": "1Gi", "onDelete": "Delete"}, "login": {"attemptsPerMinute": 30}});
    spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    stage.create(("apps.tillerman.dev/v1alpha1", "WordPress"), name, &spec);
}

/// A browser: it keeps cookies.
struct Browser {
    address: String,
    host: String,
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn new(stage: &Stage) -> Self {
        Self::of(stage, "blog")
    }

    fn of(stage: &Stage, site: &str) -> Self {
        let address = format!("{}:80", stage.address(site));
        Self { address, host: format!("{site}.example.com"), cookies: BTreeMap::new() }
    }

    fn send(&mut self, line: &str, head: &str, body: &str) -> Result<Answer, String> {
        let cookies: Vec<_> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let head = format!(
            "Host: {}\r\nCookie: {}\r\nContent-Length: {}\r\n{head}",
            self.host,
            cookies.join("; "),
            body.len()
        );
        let answer = request(&self.address, &format!("{line} HTTP/1.1"), &head, body)?;
        for line in answer.text.split("\r\n\r\n").next().unwrap_or_default().lines() {
            let Some((name, value)) = line.split_once(": ") else { continue };
            if name.eq_ignore_ascii_case("set-cookie")
                && let Some((name, value)) = value.split(';').next().unwrap_or_default().split_once('=')
            {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        Ok(answer)
    }

    fn get(&mut self, path: &str) -> Result<Answer, String> {
        self.send(&format!("GET {path}"), "", "")
    }

    /// Waits for an answer that fits.
    fn page(&mut self, path: &str, fits: impl Fn(&Answer) -> bool) -> Answer {
        eventually(path, || match self.get(path) {
            Ok(answer) if fits(&answer) => Ok(answer),
            other => Err(format!("{other:?}").chars().take(2000).collect::<String>()),
        })
    }

    /// Sends the form of the login, as its page asks for it.
    fn log_in(&mut self, password: &str) -> Answer {
        let form = self.page("/wp-login.php", |answer| answer.status == 200);
        assert!(form.text.contains("name=\"log\"") && form.text.contains("name=\"pwd\""), "{form:?}");
        let body = format!("log=admin&pwd={password}&wp-submit=Log+In&redirect_to=%2Fwp-admin%2F&testcookie=1");
        self.send("POST /wp-login.php", "Content-Type: application/x-www-form-urlencoded\r\n", &body).unwrap()
    }

    /// A request of the pages of the administrator to the API of `WordPress`.
    fn api(&mut self, path: &str, head: &str, body: &str) -> Value {
        let nonce = self.get("/wp-admin/admin-ajax.php?action=rest-nonce").unwrap();
        let nonce = body_of(&nonce).trim().to_owned();
        let head = format!("X-WP-Nonce: {nonce}\r\n{head}");
        let answer = self.send(&format!("POST /index.php?rest_route=/wp/v2/{path}"), &head, body).unwrap();
        assert_eq!(answer.status, 201, "{answer:?}");
        let text = body_of(&answer);
        let (from, to) = (text.find('{').unwrap(), text.rfind('}').unwrap());
        serde_json::from_str(&text[from..=to]).unwrap_or_else(|why| panic!("{why}: {answer:?}"))
    }
}

/// What an answer brings. The lengths of its parts are not removed.
fn body_of(answer: &Answer) -> String {
    let body = answer.text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    // One part at a time: a line with its length comes first.
    if !answer.text.to_lowercase().contains("transfer-encoding: chunked") {
        return body.to_owned();
    }
    let (mut whole, mut rest) = (String::new(), body);
    while let Some((length, below)) = rest.split_once("\r\n") {
        let Ok(length @ 1..) = usize::from_str_radix(length.trim(), 16) else { break };
        let part = below.get(..length).unwrap_or(below);
        whole += part;
        rest = below.get(length + 2..).unwrap_or_default();
    }
    whole
}

fn path_of(url: &Value) -> String {
    path_of_site(url, "blog")
}

fn path_of_site(url: &Value, site: &str) -> String {
    url.as_str().unwrap().strip_prefix(&format!("http://{site}.example.com")).unwrap().to_owned()
}

fn password(stage: &Stage, site: &str) -> String {
    let secret = stage.place.get(&["secret", &format!("{site}-admin")]).unwrap();
    String::from_utf8(BASE64.decode(secret["data"]["password"].as_str().unwrap()).unwrap()).unwrap()
}

fn is_ready(stage: &Stage) {
    stage.ready("wordpress", "blog", |condition| condition["status"] == "True");
}

/// Changes fields of a site.
fn patch(stage: &Stage, site: &str, spec: &Value) {
    let patch = json!({"spec": spec}).to_string();
    stage.place.kubectl(&["patch", "wordpress", site, "--type=merge", "-p", &patch]).unwrap();
}

/// Runs an operation once. Returns what its Job said.
fn operate(stage: &Stage, site: &str, name: &str) -> String {
    let _ = ends(stage, site, name, "Succeeded");
    stage
        .place
        .kubectl(&[
            "logs",
            "-l",
            &format!("app.kubernetes.io/instance={site},app.kubernetes.io/component={name}"),
            "--tail=-1",
        ])
        .unwrap()
}

/// Runs an operation that is refused. Returns what the status of the site says about it.
fn refused(stage: &Stage, site: &str, name: &str) -> String {
    ends(stage, site, name, "Refused")
}

/// Runs an operation until it has this result. Returns its status.
fn ends(stage: &Stage, site: &str, name: &str, result: &str) -> String {
    static REQUESTS: AtomicU32 = AtomicU32::new(1);
    let request = format!("{name}@{}", REQUESTS.fetch_add(1, Ordering::Relaxed));
    let annotation = format!("tillerman.dev/operation={request}");
    stage.place.kubectl(&["annotate", "--overwrite", "wordpress", site, &annotation]).unwrap();
    eventually(name, || {
        let status = stage.place.get(&["wordpress", site])?["status"].clone();
        let operation = &status["operations"][name];
        let done = status["lastHandledOperation"] == request.as_str() && operation["result"] == result;
        if done { Ok(operation.to_string()) } else { Err(operation.to_string()) }
    })
}

/// What a program says that has `WordPress` of a site.
fn php(stage: &Stage, site: &str, code: &str) -> String {
    let code = format!("require '/usr/src/wordpress/wp-load.php'; {code}");
    stage.place.kubectl(&["exec", &format!("deployment/{site}"), "-c", "php", "--", "php", "-r", &code]).unwrap()
}

/// Paths that a fresh installation leaves open.
fn closed(browser: &mut Browser) {
    for path in [
        "/xmlrpc.php",
        "/xmlrpc.php/x",
        "/wp-cron.php",
        "/wp-config.php",
        "/wp-admin/install.php",
        "/wp-admin/setup-config.php",
        "/wp-admin/upgrade.php",
        "/wp-content/uploads/a.php",
        "/wp-content/uploads/2026/01/a.PhP/x",
        "/wp-content/cache/a.php",
    ] {
        assert_eq!(browser.get(path).unwrap().status, 403, "{path}");
    }
    assert_eq!(browser.get("/wp-content/plugins/none.php").unwrap().status, 404);
}

/// A client can try only so many passwords.
fn limited(stage: &Stage) {
    let mut browser = Browser::new(stage);
    let body = "log=admin&pwd=wrong";
    let head = "Content-Type: application/x-www-form-urlencoded\r\n";
    let statuses: Vec<u16> =
        (0..12).map(|_| browser.send("POST /wp-login.php/x", head, body).unwrap().status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
}

/// A site is installed, an administrator writes a post with a picture, its pod is killed, and `WordPress` is upgraded: the post stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_post_outlives_its_pod_and_an_upgrade() {
    let stage = Stage::new("wordpress-post");
    let start = Instant::now();
    stage.database(1, &["blog"]);
    site(&stage, &json!({"cluster": "db"}));
    is_ready(&stage);
    let mut browser = Browser::new(&stage);
    browser.page("/wp-login.php", |answer| answer.status == 200);
    eprintln!("login page with a database: {:.1} s after apply", start.elapsed().as_secs_f32());
    let home = browser.page("/", |answer| answer.status == 200);
    assert!(home.text.contains("Ada&#039;s blog: $(DB_PASSWORD) &quot;quoted&quot;"), "{home:?}");

    closed(&mut browser);
    let wrong = browser.log_in("wrong");
    assert!(wrong.status == 200 && !wrong.text.contains("wordpress_logged_in"), "{wrong:?}");
    let password = password(&stage, "blog");
    let logged_in = browser.log_in(&password);
    assert!(
        logged_in.status == 302 && browser.cookies.keys().any(|name| name.starts_with("wordpress_logged_in")),
        "{logged_in:?}"
    );
    let head = "Content-Type: application/json\r\n";
    let post = json!({"title": "Of Ada", "content": "A picture is below. <a href=\"http://blog.example.com/of-ada\">More</a>", "status": "publish"}).to_string();
    let post = path_of(&browser.api("posts", head, &post)["link"]);
    // The picture is a text here, because a test of its content needs no more.
    let picture = format!("{PICTURE}\n");
    let head = "Content-Type: text/plain\r\nContent-Disposition: attachment; filename=\"dot.txt\"\r\n";
    let file = path_of(&browser.api("media", head, &picture)["source_url"]);
    let shows = |answer: &Answer| answer.status == 200 && answer.text.contains("A picture is below.");
    browser.page(&post, shows);
    assert!(browser.page(&file, |answer| answer.status == 200).text.contains(PICTURE), "{file}");
    // Plugins come with the image only.
    let plugins = browser.page("/wp-admin/plugins.php", |answer| answer.status == 200);
    assert!(!plugins.text.contains("plugin-install.php"), "the administrator can install no code");

    // The name of the pod that is ready.
    let serving = |stage: &Stage| {
        let pods = stage.place.get(&["pods", "-l", "app.kubernetes.io/name=wordpress"]).unwrap()["items"].clone();
        let is_ready = |pod: &&Value| {
            let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
            conditions.iter().any(|one| one["type"] == "Ready" && one["status"] == "True")
        };
        let ready = pods.as_array().unwrap().iter().find(is_ready);
        ready.map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
    };
    let before = serving(&stage).unwrap();
    let killed = Instant::now();
    stage.place.kubectl(&["delete", "pod", &before, "--grace-period=0", "--force"]).unwrap();
    eventually("another pod serves", || match serving(&stage) {
        Some(now) if now != before => Ok(()),
        other => Err(format!("{other:?}")),
    });
    browser.page(&post, shows);
    eprintln!("post after its pod was killed: {:.1} s", killed.elapsed().as_secs_f32());
    browser.page(&file, |answer| answer.status == 200);
    assert_eq!(browser.page("/wp-admin/profile.php", |answer| answer.status != 502).status, 200, "the session is kept");

    let version = "SELECT CAST(option_value AS UNSIGNED) FROM blog.wp_options WHERE option_name = 'db_version'";
    let old = stage.number(version).await;
    let patch = json!({"spec": {"image": NEXT, "nginx": {"image": NEXT}}}).to_string();
    let upgraded = Instant::now();
    stage.place.kubectl(&["patch", "wordpress", "blog", "--type=merge", "-p", &patch]).unwrap();
    is_ready(&stage);
    let new = stage.number(version).await;
    eprintln!("upgrade of the tables from {old} to {new}: {:.1} s", upgraded.elapsed().as_secs_f32());
    assert!(new > old, "{old} {new}");
    let page = browser.page(&post, shows);
    assert!(page.status == 200, "{page:?}");
    let profile = browser.page("/wp-admin/profile.php", |answer| answer.status == 200);
    assert!(profile.text.contains("Version 6.8"), "{profile:?}");

    // WordPress' own tasks.
    stage.place.kubectl(&["create", "job", "once", "--from=cronjob/blog-cron"]).unwrap();
    stage.place.kubectl(&["wait", "job/once", "--for=condition=Complete", "--timeout=120s"]).unwrap();

    // Another address, and another password.
    let patch =
        json!({"spec": {"replace": {"from": format!("http://{HOST}"), "to": "https://new.example.com"}}}).to_string();
    stage.place.kubectl(&["patch", "wordpress", "blog", "--type=merge", "-p", &patch]).unwrap();
    is_ready(&stage);
    let links = "SELECT COUNT(*) FROM blog.wp_posts WHERE post_content LIKE '%https://new.example.com/of-ada%'";
    assert_eq!(stage.number(links).await, 0);
    operate(&stage, "blog", "replace");
    assert_eq!(stage.number(links).await, 1);
    let given = "another $(password) 'of' \"Ada\" \\1";
    let given = format!("--from-literal=password={given}");
    stage.place.kubectl(&["create", "secret", "generic", "given", &given]).unwrap();
    let patch = json!({"spec": {"admin": {"secretName": "given"}}}).to_string();
    stage.place.kubectl(&["patch", "wordpress", "blog", "--type=merge", "-p", &patch]).unwrap();
    is_ready(&stage);
    operate(&stage, "blog", "password");
    let answer = browser.get("/wp-admin/profile.php").unwrap();
    assert_eq!(answer.status, 302, "the session has ended: {answer:?}");
    let mut browser = Browser::new(&stage);
    assert_eq!(browser.log_in("another+%24%28password%29+%27of%27+%22Ada%22+%5C1").status, 302);

    // An earlier version refuses the tables, and the site stays.
    let patch = json!({"spec": {"image": IMAGE, "nginx": {"image": IMAGE}}}).to_string();
    stage.place.kubectl(&["patch", "wordpress", "blog", "--type=merge", "-p", &patch]).unwrap();
    let refused = stage.ready("wordpress", "blog", |condition| {
        condition["status"] == "False" && condition["message"].to_string().contains("earlier version")
    });
    eprintln!("{}", refused["message"]);
    browser.page(&post, shows);

    limited(&stage);
    stage.had_its_rights();
}

/// A site is copied in one operation, under its own address and without the persons of the first; later it is copied again.
#[tokio::test(flavor = "multi_thread")]
async fn a_site_is_a_copy_of_another_without_its_persons() {
    let stage = Stage::new("wordpress-clone");
    stage.database(1, &["blog", "staging"]);
    site(&stage, &json!({"cluster": "db"}));
    site_with(&stage, "staging", &json!({"database": {"cluster": "db"}, "clone": {"from": "log", "anonymize": true}}));
    let refused = stage.ready("wordpress", "staging", |condition| {
        condition["message"].as_str().unwrap_or_default().contains("there is no site log in this namespace")
    });
    eprintln!("{}", refused["message"]);
    stage.ready("wordpress", "blog", |condition| condition["status"] == "True");
    let mut browser = Browser::new(&stage);
    assert_eq!(browser.log_in(&password(&stage, "blog")).status, 302);
    let head = "Content-Type: application/json\r\n";
    let text = json!({"title": "Of Ada", "content": format!("See http://{HOST}/of-ada, and not http://{HOST}munity/."), "status": "publish"});
    let post = browser.api("posts", head, &text.to_string());
    let (id, path) = (post["id"].to_string(), path_of(&post["link"]));
    let head = "Content-Type: text/plain\r\nContent-Disposition: attachment; filename=\"dot.txt\"\r\n";
    let file = path_of(&browser.api("media", head, PICTURE)["source_url"]);
    php(&stage, "blog", &format!("wp_insert_user(['user_login' => 'grace', 'user_email' => 'grace@example.com', 'user_pass' => 'gracepass', 'role' => 'editor', 'first_name' => 'Grace']);
        wp_insert_comment(['comment_post_ID' => {id}, 'comment_author' => 'Visitor V', 'comment_author_email' => 'v@example.com', 'comment_author_IP' => '192.0.2.7', 'comment_content' => 'A comment', 'comment_approved' => 1]);
        update_option('probe', ['at' => 'http://{HOST}/x', 'json' => json_encode(['http://{HOST}/y']), 'inner' => serialize(['http://{HOST}/zz'])]);"));

    let start = Instant::now();
    patch(&stage, "staging", &json!({"clone": {"from": "blog"}}));
    stage.ready("wordpress", "staging", |condition| condition["status"] == "True");
    eprintln!("a copy: {:.1} s", start.elapsed().as_secs_f32());
    eprintln!("{}", stage.place.kubectl(&["logs", "job/staging-install"]).unwrap());
    let mut copy = Browser::of(&stage, "staging");
    let page = copy.page(&path, |answer| answer.status == 200);
    assert!(
        page.text.contains("See http://staging.example.com/of-ada, and not http://blog.example.communi"),
        "{page:?}"
    );
    assert!(page.text.contains("A comment") && !page.text.contains("Visitor V"), "{page:?}");
    assert!(page.text.contains("X-Robots-Tag: noindex, nofollow") && page.text.contains("noindex"), "{page:?}");
    assert!(copy.page("/robots.txt", |answer| answer.status == 200).text.contains("Disallow: /\n"));
    assert!(copy.page(&file, |answer| answer.status == 200).text.contains(PICTURE));
    let probe = php(
        &stage,
        "staging",
        "$p = get_option('probe'); echo $p['at'], json_decode($p['json'])[0], unserialize($p['inner'])[0];",
    );
    assert_eq!(probe, "http://staging.example.com/xhttp://staging.example.com/yhttp://staging.example.com/zz");
    for left in [
        "wp_users WHERE CONCAT(user_login, user_email, user_nicename, display_name) LIKE '%grace%' OR user_email LIKE '%ada@%'",
        "wp_usermeta WHERE meta_value LIKE '%Grace%' OR meta_key = 'session_tokens'",
        "wp_comments WHERE comment_author_email <> '' OR comment_author_IP <> ''",
    ] {
        assert_eq!(stage.number(&format!("SELECT COUNT(*) FROM staging.{left}")).await, 0, "{left}");
        assert!(stage.number(&format!("SELECT COUNT(*) FROM blog.{left}")).await > 0, "the source stays: {left}");
    }
    let accounts = php(
        &stage,
        "staging",
        "foreach (get_users() as $user) echo $user->user_login, ' ', $user->roles[0], ';'; var_dump(wp_mail('a@example.com', 'a', 'b'));",
    );
    assert_eq!(accounts.trim(), "admin administrator;user-2 editor;bool(false)");
    assert_eq!(copy.log_in(&password(&stage, "staging")).status, 302);
    assert!(!Browser::of(&stage, "staging").log_in(&password(&stage, "blog")).text.contains("wordpress_logged_in"));

    // Again: what staging has is replaced, also its files.
    let head = "Content-Type: application/json\r\n";
    let own =
        path_of_site(&copy.api("posts", head, r#"{"title": "Of staging", "status": "publish"}"#)["link"], "staging");
    let new = path_of(&browser.api("posts", head, r#"{"title": "Of later", "status": "publish"}"#)["link"]);
    let says = operate(&stage, "staging", "clone");
    eprintln!("{says}");
    copy.page(&new, |answer| answer.status == 200);
    assert_eq!(copy.get(&own).unwrap().status, 404);
    assert_eq!(Browser::of(&stage, "staging").log_in(&password(&stage, "staging")).status, 302);
    let blog = browser.page(&path, |answer| answer.status == 200);
    assert!(blog.text.contains("http://blog.example.com/of-ada") && blog.text.contains("Visitor V"), "{blog:?}");

    // The copy outlives its source.
    stage.place.kubectl(&["delete", "wordpress", "blog", "--timeout=120s"]).unwrap();
    patch(&stage, "staging", &json!({"image": NEXT, "nginx": {"image": NEXT}}));
    stage.ready("wordpress", "staging", |condition| condition["status"] == "True");
    copy.page(&path, |answer| answer.status == 200);
    stage.had_its_rights();
}

/// A site is deleted with its database and its uploads, made again and restored: it is as it was at the time of the backup.
#[test]
fn a_site_is_deleted_and_restored() {
    let stage = Stage::new("wordpress-restore");
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "backups", "namespace": stage.place.name()},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    kubectl(&["create", "-f", "-"], Some(&claim.to_string())).unwrap();
    let own = json!({"own": true, "image": "localhost/mariadb:10.11.19", "agentImage": "localhost/tillerman-agent:test",
        "storage": {"size": "1Gi", "onDelete": "Delete"}});
    let more = json!({"database": own, "backup": {"claimName": "backups", "maxBackups": 2}});
    site_with(&stage, "blog", &more);
    is_ready(&stage);
    let mut browser = Browser::new(&stage);
    assert_eq!(browser.log_in(&password(&stage, "blog")).status, 302);
    let head = "Content-Type: application/json\r\n";
    // Bytes, a text that SQL has a use for, and no value.
    php(
        &stage,
        "blog",
        "global $wpdb; $wpdb->query('CREATE TABLE wp_odd (id INT PRIMARY KEY AUTO_INCREMENT, b BLOB, t TEXT, n INT, bits BIT(4), twice INT AS (n * 2))');
        $text = 'a' . chr(39) . 'b' . chr(92) . 'c' . PHP_EOL . '-- end' . PHP_EOL . ';';
        $wpdb->query($wpdb->prepare('INSERT INTO wp_odd (b, t, n, bits) VALUES (UNHEX(%s), UNHEX(%s), 7, 5), (NULL, NULL, NULL, NULL)',
            bin2hex(implode(array_map('chr', range(0, 255)))), bin2hex($text)));",
    );
    let odd = "global $wpdb; foreach ($wpdb->get_results('SELECT id, HEX(b), HEX(t), n, bits + 0, twice FROM wp_odd') as $row) echo json_encode($row), ';';";
    let odd_before = php(&stage, "blog", odd);
    assert!(odd_before.contains("0A2D2D20656E640A") && odd_before.contains("FDFEFF"), "{odd_before}");
    let post =
        path_of(&browser.api("posts", head, r#"{"title": "Of Ada", "content": "Kept", "status": "publish"}"#)["link"]);
    let picture = "Content-Type: text/plain\r\nContent-Disposition: attachment; filename=\"dot.txt\"\r\n";
    let file = path_of(&browser.api("media", picture, PICTURE)["source_url"]);
    let start = Instant::now();
    let says = operate(&stage, "blog", "backup");
    eprintln!("{says} in {:.1} s", start.elapsed().as_secs_f32());
    let first = says.split(':').next().unwrap();
    let later = path_of(&browser.api("posts", head, r#"{"title": "Of later", "status": "publish"}"#)["link"]);

    stage.place.kubectl(&["delete", "wordpress", "blog", "--timeout=120s"]).unwrap();
    eventually("the volumes are gone", || {
        let left = stage.place.kubectl(&["get", "pvc", "-o", "name"])?;
        if left.trim() == "persistentvolumeclaim/backups" { Ok(()) } else { Err(left) }
    });
    site_with(&stage, "blog", &more);
    is_ready(&stage);
    let mut browser = Browser::new(&stage);
    assert_eq!(browser.page(&post, |answer| answer.status != 502 && answer.status != 503).status, 404);
    let start = Instant::now();
    eprintln!("{} in {:.1} s", operate(&stage, "blog", "restore"), start.elapsed().as_secs_f32());
    assert!(browser.page(&post, |answer| answer.status == 200).text.contains("Kept"));
    assert!(browser.page(&file, |answer| answer.status == 200).text.contains(PICTURE));
    assert_eq!(browser.get(&later).unwrap().status, 404, "it is as it was at the time of the backup");
    assert_eq!(php(&stage, "blog", odd), odd_before);
    assert_eq!(browser.log_in(&password(&stage, "blog")).status, 302, "with the password of the new Secret");

    // The newest two are kept, so that the first is gone.
    operate(&stage, "blog", "backup");
    operate(&stage, "blog", "backup");
    patch(&stage, "blog", &json!({"backup": {"restoreFrom": first}}));
    is_ready(&stage);
    let failed = refused(&stage, "blog", "restore");
    assert!(failed.contains(&format!("There is no backup {first} in the folder blog")), "{failed}");
    assert!(browser.page(&post, |answer| answer.status == 200).text.contains("Kept"), "nothing was touched");
    stage.had_its_rights();
}

/// Objects are in Redis for all requests; a server that does not answer costs time, and no page; a change in the meantime is not lost.
#[test]
fn objects_are_in_redis_and_pages_do_without_it() {
    let stage = Stage::new("wordpress-cache");
    stage.place.kubectl(&["create", "secret", "generic", "cache", "--from-literal=password=battery0staple"]).unwrap();
    serve(&stage, &[("cache", redis(), &[6379])]);
    stage.database(1, &["blog"]);
    let cache = json!({"redis": {"host": "cache", "secret": "cache"}});
    site_with(&stage, "blog", &json!({"database": {"cluster": "db"}, "cache": cache}));
    is_ready(&stage);
    let redis = |command: &str| {
        let script = format!("redis-cli -a \"$PASSWORD\" --no-auth-warning {command}");
        stage.place.kubectl(&["exec", "cache", "--", "sh", "-c", &script]).unwrap()
    };
    let mut browser = Browser::new(&stage);
    browser.page("/", |answer| answer.status == 200);
    let names = redis("--scan --pattern 'wp:*'");
    assert!(names.lines().count() > 20 && names.contains(":options:alloptions"), "{names}");
    let queries = "echo get_num_queries(), ' queries, ', $wp_object_cache->cache_misses, ' misses;';";
    eprintln!("{} objects; the second time: {}", names.lines().count(), php(&stage, "blog", queries));
    assert!(
        !redis(&format!("mget {} | tr -d '\\0'", names.lines().collect::<Vec<_>>().join(" ")))
            .contains("battery0staple")
    );
    php(&stage, "blog", "update_option('blogname', 'Renamed');");
    assert!(browser.page("/", |answer| answer.status == 200).text.contains("<title>Renamed"));

    // The server keeps what it has, and does not answer.
    redis("client pause 12000 all");
    let start = Instant::now();
    php(&stage, "blog", "update_option('blogname', 'Renamed again');");
    let page = browser.get("/").unwrap();
    eprintln!("a change and a page without Redis: {:.1} s", start.elapsed().as_secs_f32());
    assert!(page.status == 200 && page.text.contains("<title>Renamed again"), "{page:?}");
    eventually("Redis answers", || if redis("ping").trim() == "PONG" { Ok(()) } else { Err("no answer".to_owned()) });
    eventually("pages use it again", || {
        let page = browser.get("/")?;
        assert!(page.status == 200 && page.text.contains("<title>Renamed again"), "{page:?}");
        let marked = stage.place.kubectl(&["exec", "deployment/blog", "-c", "php", "--", "ls", "/tmp"])?;
        if marked.contains("object-cache-failed") { Err(marked) } else { Ok(()) }
    });
    // What another request of the pod has not changed since comes from Redis.
    php(&stage, "blog", "wp_cache_set('probe', 'of one');");
    assert_eq!(php(&stage, "blog", "echo wp_cache_get('probe');"), "of one");
    stage.place.kubectl(&["delete", "pod", "cache", "--grace-period=0", "--force"]).unwrap();
    for _ in 0..5 {
        assert_eq!(browser.get("/").unwrap().status, 200, "without a server");
    }
    assert_eq!(browser.log_in(&password(&stage, "blog")).status, 302);
    stage.had_its_rights();
}

/// Readers and writers of comments see no failed answer while a migration fails, and while `WordPress` and PHP are upgraded. Each comment that
/// was accepted is in the database.
#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_loses_no_request_and_no_comment() {
    const SECONDS: u64 = 100;
    let stage = Stage::new("wordpress-load");
    let volume = shared_claim(&stage);
    stage.database(1, &["blog"]);
    // One client sends more comments than WordPress takes from one.
    let plugin = |more: &str| json!([{"name": "load.php", "code": format!("<?php add_filter('comment_flood_filter', '__return_false', 99); {more}")}]);
    site_with(
        &stage,
        "blog",
        &json!({"database": {"cluster": "db"}, "replicas": 2, "muPlugins": plugin(""), "nginx": {"image": IMAGE, "accessLog": false},
            "uploads": {"existingClaim": "files", "accessMode": "ReadWriteMany"}}),
    );
    is_ready(&stage);
    let mut browser = Browser::new(&stage);
    browser.page("/wp-login.php", |answer| answer.status == 200);
    assert_eq!(browser.log_in(&password(&stage, "blog")).status, 302);
    let picture = "Content-Type: text/plain\r\nContent-Disposition: attachment; filename=\"dot.txt\"\r\n";
    let file = path_of(&browser.api("media", picture, PICTURE)["source_url"]);
    let address = stage.address("blog");
    let sent = std::sync::Arc::new(AtomicU32::new(0));
    let load = Load::of(5, move |client| match client {
        0 | 1 => {
            let text = format!("Comment+{}", sent.fetch_add(1, Ordering::Relaxed));
            let body = format!("comment_post_ID=1&author=Ada&email=ada%40example.com&comment={text}");
            let head = format!(
                "Host: {HOST}\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n",
                body.len()
            );
            match request(&format!("{address}:80"), "POST /wp-comments-post.php HTTP/1.1", &head, &body) {
                Ok(answer) if answer.status == 302 => "comments".to_owned(),
                other => format!("failed: {}", format!("{other:?}").chars().take(300).collect::<String>()),
            }
        }
        _ => {
            let path = if client == 4 { &file } else { "/" };
            match get(&address, HOST, path) {
                Ok(answer) if answer.status == 200 && answer.text.contains("content=\"WordPress 6.1") => {
                    "pages of 6.1".to_owned()
                }
                Ok(answer) if answer.status == 200 && answer.text.contains("content=\"WordPress 6.8") => {
                    "pages of 6.8".to_owned()
                }
                Ok(answer) if answer.status == 200 && answer.text.contains(PICTURE) => "files".to_owned(),
                other => format!("failed: {}", format!("{other:?}").chars().take(300).collect::<String>()),
            }
        }
    });
    let more = |what: &str| {
        let before = load.count(what);
        eventually(what, || if load.count(what) > before + 20 { Ok(()) } else { Err(load.count(what).to_string()) });
    };
    let start = Instant::now();
    more("pages of 6.1");
    let fails = plugin("if (defined('WP_INSTALLING')) { fwrite(STDERR, 'A plugin refuses the upgrade.'); exit(3); }");
    patch(&stage, "blog", &json!({"image": NEXT, "nginx": {"image": NEXT}, "muPlugins": fails}));
    let failed = stage.ready("wordpress", "blog", |condition| {
        condition["status"] == "False" && condition["message"].to_string().contains("A plugin refuses the upgrade.")
    });
    eprintln!("{}", failed["message"]);
    more("pages of 6.1");
    more("comments");
    assert_eq!(load.count("pages of 6.8"), 0, "a failed migration leaves the old pods");
    patch(&stage, "blog", &json!({"muPlugins": plugin("")}));
    is_ready(&stage);
    more("pages of 6.8");
    more("comments");
    eventually("the load lasts", || {
        let passed = start.elapsed().as_secs();
        if passed >= SECONDS { Ok(()) } else { Err(passed.to_string()) }
    });
    let passed = start.elapsed().as_secs_f32();
    let seen = load.stop();
    eprintln!("{passed:.0} s: {seen:?}");
    let failed: Vec<_> = seen.iter().filter(|(what, _)| what.starts_with("failed")).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(
        stage.number("SELECT COUNT(*) FROM blog.wp_comments WHERE comment_content LIKE 'Comment %'").await,
        seen["comments"]
    );
    stage.had_its_rights();
    stage.place.kubectl(&["delete", "wordpresses", "--all", "--timeout=90s"]).unwrap();
    let _ = kubectl(&["delete", "pv", &volume, "--wait=false"], None);
}

/// One object makes the site and its database; both go with it.
#[test]
fn a_site_has_a_database_of_its_own() {
    let stage = Stage::new("wordpress-own");
    let start = Instant::now();
    site(
        &stage,
        &json!({"own": true, "image": "localhost/mariadb:10.11.19", "agentImage": "localhost/tillerman-agent:test",
            "storage": {"size": "1Gi", "onDelete": "Delete"}}),
    );
    is_ready(&stage);
    let mut browser = Browser::new(&stage);
    browser.page("/wp-login.php", |answer| answer.status == 200);
    eprintln!("login page with its own database: {:.1} s after apply", start.elapsed().as_secs_f32());
    let revision = stage.place.get(&["wordpress", "blog"]).unwrap()["status"]["release"]["revision"].clone();
    assert_eq!(revision, 1, "one revision suffices");
    assert_eq!(browser.log_in(&password(&stage, "blog")).status, 302);
    stage.place.kubectl(&["delete", "wordpress", "blog", "--timeout=120s"]).unwrap();
    eventually("the database is gone, too", || {
        let left = stage.place.kubectl(&["get", "mysqlclusters,statefulsets,deployments", "-o", "name"])?;
        if left.trim().is_empty() { Ok(()) } else { Err(left) }
    });
    stage.had_its_rights();
}
