//! Charts that ask to be rendered again at a time.

use crate::harness::{Space, eventually, eventually_within};
use serde_json::{Value, json};

/// A chart whose object is to be recreated after so many seconds.
const TEMPLATE: &str = "apiVersion: v1
kind: ConfigMap
metadata:
  name: {{ .Release.Name }}
  annotations:
    tillerman.dev/renew-after: {{ add (now | unixEpoch) .Values.seconds | quote }}
data:
  made: {{ now | unixEpoch | quote }}
";

fn watches(space: &Space) -> std::path::PathBuf {
    let folder = space.file("renewed", "").with_file_name("renewed-chart");
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    std::fs::write(folder.join("Chart.yaml"), "apiVersion: v2\nname: renewed\nversion: 1.0.0\n").unwrap();
    std::fs::write(folder.join("values.yaml"), "seconds: 25\n").unwrap();
    std::fs::write(folder.join("templates/all.yaml"), TEMPLATE).unwrap();
    let entry = "- group: test.tillerman.dev\n  version: v1\n  kind: Web\n  chart:";
    space.file("watches.yaml", &format!("{entry} {}\n", folder.display()))
}

fn due(space: &Space, revision: u64) -> Result<Value, String> {
    let secret = space.get(&format!("secret/sh.helm.release.v1.a.v{revision}"))?;
    Ok(secret["metadata"]["annotations"]["tillerman.dev/render-after"].clone())
}

/// Waits for a time, in seconds since 1970.
fn until(at: i64) {
    eventually_within(60, "the time", || match jiff::Timestamp::now().as_second() {
        now if now >= at => Ok(()),
        now => Err(format!("{now}, {at}")),
    });
}

/// The operator waits for it without a request, also over a restart, and a time that is over asks for nothing.
#[test]
fn a_chart_is_rendered_again_when_the_time_comes_that_it_named() {
    let space = Space::new("renewed");
    let watches = watches(&space);
    let operator = space.operator(&watches, &["--reconcile-period=1h"]);
    space.apply("Web", "a", &json!({}));
    space.wait("web/a", "Deployed", "True");
    let made = |space: &Space| {
        space.get("configmap/a").map(|map| map["data"]["made"].as_str().unwrap().parse::<i64>().unwrap())
    };
    let first = made(&space).unwrap();
    let at: i64 = due(&space, 1).unwrap().as_str().unwrap().parse().unwrap();
    let before = operator.settle();
    until(at - 1);
    assert_eq!(operator.sent(), before, "nothing is asked of the API server before its time");
    space.wait_field("web/a", "/status/release/revision", &json!(2));
    let second = made(&space).unwrap();
    assert!(second >= at, "not before its time: {second}, {at}");
    assert_eq!(due(&space, 1).unwrap(), Value::Null, "only the newest revision has a time");

    // The time comes while there is no operator.
    space.wait("web/a", "Deployed", "True");
    let at: i64 = due(&space, 2).unwrap().as_str().unwrap().parse().unwrap();
    operator.kill();
    until(at + 1);
    assert_eq!(made(&space).unwrap(), second);
    let _operator = space.operator(&watches, &["--reconcile-period=1h"]);
    space.wait_field("web/a", "/status/release/revision", &json!(3));
    assert!(made(&space).unwrap() > at && second > first);

    // A time in the past asks for nothing, or it would never end.
    space.apply("Web", "a", &json!({"seconds": -5}));
    eventually("it is rendered with that", || match space.get("configmap/a")?["metadata"]["annotations"].clone() {
        told if made(&space)?
            > told["tillerman.dev/renew-after"].as_str().unwrap_or_default().parse().unwrap_or(i64::MAX) =>
        {
            Ok(())
        }
        told => Err(told.to_string()),
    });
    // The time of revision 3 may come before or after that of the change, so the newest revision is any.
    let generation = space.get("web/a").unwrap()["metadata"]["generation"].clone();
    space.wait_field("web/a", "/status/observedGeneration", &generation);
    let revision = space.get("web/a").unwrap()["status"]["release"]["revision"].as_u64().unwrap();
    assert_eq!(due(&space, revision).unwrap(), Value::Null);
}
