//! A database that runs as one of Bitnami's charts lays it out comes into a `MySQLCluster`, by the commands of docs/how-to/import.md, while clients write
//! to it, and while pods of every side are killed.

use serde_json::json;

use super::mysql::{IMAGE, MySql};
use super::support::harness::{eventually, kubectl};
use super::support::rows::{Writers, lost, numbers, reached, run};
use super::{get_in, kubectl_in};

/// A release of one of Bitnami's charts.
struct BitnamiRelease {
    /// The name of the chart.
    chart: &'static str,
    /// The objects of the release, and the image in them.
    objects: &'static str,
    from: &'static str,
    image: &'static str,
    /// The first fields of the cluster.
    spec: &'static str,
    /// The privilege that the import needs.
    privilege: &'static str,
}

const MARIADB: BitnamiRelease = BitnamiRelease {
    chart: "mariadb",
    objects: include_str!("../../examples/mysql/bitnami-like.yaml"),
    from: "docker.io/library/mariadb:10.11.19",
    image: IMAGE,
    spec: "",
    privilege: "BINLOG REPLAY",
};
const MYSQL: BitnamiRelease = BitnamiRelease {
    chart: "mysql",
    objects: include_str!("../../examples/mysql/bitnami-like-mysql.yaml"),
    from: "docker.io/library/mysql:9.7",
    image: "localhost/mysql:9.7",
    spec: "  flavor: mysql\n",
    privilege: "REPLICATION_APPLIER",
};
const PAGE: &str = include_str!("../../docs/how-to/import.md");

/// The command of the page after this heading.
fn command(heading: &str) -> String {
    let section = PAGE.split(&format!("# {heading}\n")).nth(1).unwrap_or_else(|| panic!("{heading}"));
    let block = section.split("```sh\n").nth(1).unwrap_or_else(|| panic!("{heading}"));
    block.split("```").next().unwrap().to_owned()
}

fn runs(namespace: &str, heading: &str, release: &BitnamiRelease) {
    let BitnamiRelease { chart, image, spec, .. } = release;
    let images = format!(
        "{spec}  image: {image}\n  agentImage: localhost/tillerman-agent:test\n  storage: {{size: 1Gi, onDelete: Delete}}\n  import:"
    );
    let script = command(heading).replace("  import:", &images);
    let script = script.replace("shop-mariadb", &format!("shop-{chart}"));
    let script = script.replace("mariadb-root-password", &format!("{chart}-root-password"));
    let script = format!("kubectl() {{ command kubectl -n {namespace} \"$@\"; }}\n{script}");
    let done = std::process::Command::new("bash").args(["-euo", "pipefail", "-c", &script]).output().unwrap();
    let printed = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{heading}: {printed}");
    eprintln!("{heading}: {printed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_of_bitnamis_layout_comes_under_writers_and_kills_and_loses_nothing() {
    comes(&MARIADB).await;
}

/// The same with MySQL itself, whose release has the labels of a cluster's pods.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs MySQL: make mysql-node"]
async fn a_release_of_mysql_itself_comes_under_writers_and_kills_and_loses_nothing() {
    comes(&MYSQL).await;
}

async fn comes(release: &BitnamiRelease) {
    let mut my = MySql::named(&format!("import-{}", release.chart), "shop");
    let namespace = my.namespace.clone();
    let source = format!("shop-{}", release.chart);
    let objects = release.objects.replace(release.from, release.image);
    kubectl(&["-n", &namespace, "apply", "-f", "-"], Some(&objects)).unwrap();
    kubectl_in(&namespace, &["rollout", "status", &format!("statefulset/{source}"), "--timeout=180s"]).unwrap();
    let service = get_in(&namespace, &["service", &source]).unwrap();
    let address = service["spec"]["clusterIP"].as_str().unwrap().to_owned();
    let at_source = reached(&address, "shop", "shop-writes");
    let writers = Writers::start(std::slice::from_ref(&at_source), 4).await;
    writers.more(2000).await;

    runs(&namespace, "1. Copy and follow", release);
    my.knows_password();
    let import = || {
        my.get(&["mysql", "shop"]).map(|cluster| cluster["status"]["import"].as_str().unwrap_or_default().to_owned())
    };
    let says = |part: &str| {
        eventually(&format!("status.import says {part:?}"), || {
            let message = import()?;
            if message.contains(part) { Ok(message) } else { Err(message) }
        })
    };
    says("were compared and are equal");
    // Each side is killed while it follows.
    let pods = |selector: &str| {
        let pods = get_in(&namespace, &["pods", "-l", selector]).unwrap();
        pods["items"]
            .as_array()
            .unwrap()
            .iter()
            .map(|pod| pod["metadata"]["name"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    let of_source = format!("statefulset.kubernetes.io/pod-name={source}-0");
    for selector in ["app.kubernetes.io/component=import", "tillerman.dev/role=primary", &of_source] {
        for pod in pods(selector) {
            my.kill(&pod);
        }
        writers.more(1000).await;
        eprintln!("after the end of {selector}: {}", import().unwrap());
    }
    kubectl(&["-n", super::mysql::OPERATOR.0, "delete", "pods", "--all", "--wait=false"], None).unwrap();
    writers.more(1000).await;
    says("were compared and are equal");
    writers.longest_gap();
    writers.more(500).await;

    runs(&namespace, "2. Cut over", release);
    eprintln!("{}", says("done: "));
    let mut keys = writers.keys();
    my.has_all(&keys).await;
    assert!(keys.len() > 5000, "{}", keys.len());
    // The account of the application came along, with its password.
    let service = my.get(&["service", "shop-primary"]).unwrap();
    let here = reached(service["spec"]["clusterIP"].as_str().unwrap(), "shop", "shop-writes");
    let count = "SELECT COUNT(*) FROM app.t";
    assert_eq!(numbers(&here, count).await, numbers(&at_source, count).await);

    let later = writers.beside(std::slice::from_ref(&here), 2);
    assert_eq!(writers.stop().await, keys);
    later.more(500).await;
    if release.chart == "mariadb" {
        my.patch(&json!({"import": {"wayBack": true}}));
        says("the way back is open until");
        for selector in ["app.kubernetes.io/component=import", "tillerman.dev/role=primary", &of_source] {
            for pod in pods(selector) {
                my.kill(&pod);
            }
            later.more(500).await;
        }
        says("the way back is open until");
        runs(&namespace, "The way back", release);
        let message = says("rolled back: ");
        keys.extend(later.stop().await);
        eprintln!("{} writes acknowledged; {message}", keys.len());
        assert_eq!(lost(&at_source, &keys).await, Vec::<u64>::new());
        run(&at_source, "INSERT INTO app.t VALUES (0, 'the source takes writes')").await.unwrap();
    } else {
        later.stop().await;
    }

    runs(&namespace, "3. Remove the import", release);
    eventually("the import is gone", || {
        let left = my.get(&["deployments", "-l", "app.kubernetes.io/name=mysql-import"])?;
        if left["items"] == json!([]) { Ok(()) } else { Err(left.to_string()) }
    });
    my.kubectl(&["wait", "mysql/shop", "--for=condition=Ready", "--timeout=60s"]).unwrap();
    let replays = format!(
        "SELECT COUNT(*) FROM information_schema.USER_PRIVILEGES WHERE PRIVILEGE_TYPE = '{}' AND GRANTEE = '''root''@''%'''",
        release.privilege
    );
    let since = std::time::Instant::now();
    while numbers(&my.writes(), &replays).await != [0] {
        // The kubelet brings a changed ConfigMap to a pod within two minutes.
        assert!(since.elapsed().as_secs() < 150, "the privilege of the import stays");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
}
