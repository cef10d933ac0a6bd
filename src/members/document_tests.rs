use super::{Drivers, Members, OnOrphan, OnRemove, ScaleEvent, Set};
use crate::object::{Object, parse_manifest};
use crate::render::Hook;
use crate::render::order;

const SET: &str = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {serviceName: db-peer}\n";
const JOB: &str = "apiVersion: batch/v1\nkind: Job\nmetadata: {name: join, annotations: {helm.sh/hook: 'after-ready, bootstrap'}}\n\
                   spec: {template: {spec: {containers: [{name: a}, {name: b}]}}}\n";

fn members(name: &str, spec: &str) -> String {
    format!(
        "apiVersion: tillerman.dev/v1alpha1\nkind: Members\nmetadata: {{name: {name}, annotations: {{helm.sh/hook: members}}}}\n\
         spec: {spec}\n"
    )
}

fn sorted(documents: &[&str]) -> (Vec<Hook>, Vec<Object>) {
    let text = documents.join("\n---\n");
    let sorted = order::sort(&[("c/templates/a.yaml".to_owned(), text)]).unwrap();
    let objects = sorted.manifests.iter().flat_map(|m| parse_manifest(&m.text).unwrap()).collect();
    (sorted.unknown, objects)
}

fn read(documents: &[&str]) -> Result<Option<Members>, String> {
    let (unknown, objects) = sorted(documents);
    Members::read(&unknown, &objects, "ns", &Drivers::new())
}

#[test]
fn a_document_and_its_jobs_are_read_and_come_back_from_the_annotation() {
    let document = members("m", "{target: {kind: StatefulSet, name: db}, size: 3, driver: jobs, progressDeadline: 2m}");
    let found = read(&[SET, &document, JOB]).unwrap().unwrap();
    let set = &found.sets[0];
    assert_eq!((set.name.as_str(), set.target.as_str(), set.size, set.driver.as_str()), ("m", "db", 3, "jobs"));
    assert_eq!((set.on_remove, set.on_orphan), (OnRemove::Delete, OnOrphan::Refuse));
    assert_eq!((set.progress_deadline, set.service.as_str()), (120, "db-peer"));
    let hook = &found.hooks[0];
    assert_eq!((hook.set.as_str(), hook.name.as_str()), ("m", "join"));
    assert_eq!(hook.events, [ScaleEvent::AfterReady, ScaleEvent::Bootstrap]);
    assert_eq!(Members::decode(&found.encode().unwrap()), Some(found));
    assert_eq!(Members::decode("no"), None);
}

/// Records of earlier versions have these bytes.
#[test]
fn the_form_of_a_record_stays_the_same() {
    let head = r#"{"name":"m","target":"db","size":3,"driver":"#;
    let middle = r#","on_remove":"Delete","on_orphan":"Refuse","progress_deadline":600,"service":"db-peer""#;
    let table = [
        ("driver: jobs", r#""jobs""#, ""),
        ("driver: jobs, paused: true, version: '1'", r#""jobs""#, r#","paused":true,"version":"1""#),
        (
            "driver: etcd, etcd: {peerURL: 'http://$(POD).p:1', clientURL: 'http://$(POD).p:2', version: 3.6.1}",
            r#""etcd""#,
            r#","etcd":{"peerURL":"http://$(POD).p:1","clientURL":"http://$(POD).p:2","version":"3.6.1"},"version":"3.6.1""#,
        ),
        (
            "driver: primary, primary: {agentURL: 'http://$(POD).p:1'}, paused: true",
            r#""primary""#,
            r#","primary":{"agentURL":"http://$(POD).p:1"},"paused":true"#,
        ),
        ("driver: example.com/db, settings: {a: 1}", r#"{"own":"example.com/db"}"#, r#","settings":{"a":1}"#),
    ];
    for (spec, driver, rest) in table {
        let found =
            read(&[SET, &members("m", &format!("{{target: {{name: db}}, size: 3, {spec}}}"))]).unwrap().unwrap();
        let written = format!("{head}{driver}{middle}{rest}}}");
        assert_eq!(serde_json::to_string(&found.sets[0]).unwrap(), written);
        assert_eq!(serde_json::from_str::<Set>(&written).unwrap(), found.sets[0]);
        let later = written.replace(r#""size""#, r#""unknown":{"a":1},"size""#);
        assert_eq!(serde_json::from_str::<Set>(&later).unwrap(), found.sets[0], "of a later version");
    }
    assert!(serde_json::from_str::<Set>(&format!("{head}\"mysql\"{middle}}}")).is_err());
}

#[test]
fn a_chart_without_a_document_has_no_members_whatever_other_hooks_are_called() {
    assert_eq!(read(&[SET, JOB]), Ok(None));
    let other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a, annotations: {helm.sh/hook: crd-install}}\n";
    let document = members("m", "{target: {name: db}, size: 1, driver: jobs}");
    assert_eq!(read(&[SET, &document, other]).unwrap().unwrap().hooks, []);
}

#[test]
fn volumes_grow_where_the_driver_knows_how_full_they_are() {
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: db}\nspec: {volumeClaimTemplates: [{metadata: {name: data}}]}\n";
    let of = |claim: &str, driver: &str| {
        let grow = format!("volumes: {{grow: {{claim: {claim}, max: 2Gi}}}}");
        read(&[set, &members("m", &format!("{{target: {{name: db}}, size: 3, {driver}, {grow}}}"))])
    };
    let primary = "driver: primary, primary: {agentURL: 'http://$(POD).p:7360'}";
    let found = of("data", primary).unwrap().unwrap();
    assert_eq!(found.sets[0].grow.as_ref().unwrap().max, 2 << 30);
    assert_eq!(Members::decode(&found.encode().unwrap()), Some(found));
    assert_eq!(
        of("logs", primary).unwrap_err(),
        "Members m: spec.volumes.grow.claim: StatefulSet db has no claim template logs"
    );
    let etcd = "driver: etcd, etcd: {peerURL: 'http://$(POD).p:2380', clientURL: 'http://$(POD).p:2379', configMap: c}";
    assert!(of("data", etcd).unwrap().unwrap().sets[0].grow.is_some());
    assert_eq!(
        of("data", "driver: jobs").unwrap_err(),
        "Members m: with driver: jobs, volumes cannot grow by themselves; remove spec.volumes.grow"
    );
}

#[test]
fn a_driver_is_one_of_ours_or_has_a_domain() {
    let of = |more: &str| read(&[SET, &members("m", &format!("{{target: {{name: db}}, size: 3, {more}}}"))]);
    let unknown = |name: &str| {
        let choice = "it must be etcd, jobs or primary, or a driver of the program's own, such as example.com/database";
        Err(format!("Members m: spec.driver {name:?} is unknown; {choice}"))
    };
    assert_eq!(of("driver: mysql"), unknown("mysql"));
    assert_eq!(of("driver: Example.com/db"), unknown("Example.com/db"));
    assert_eq!(of("driver: example.com/db/x"), unknown("example.com/db/x"));
    let own = of("driver: example.com/db, settings: {a: 1}").unwrap().unwrap();
    assert_eq!((own.sets[0].driver.as_str(), &own.sets[0].settings.fields()["a"]), ("example.com/db", &1.into()));
    assert_eq!(Members::decode(&own.encode().unwrap()), Some(own));
    let error = |more: &str| of(more).unwrap_err();
    assert_eq!(error("driver: example.com/db, settings: 3"), "Members m: spec.settings is not an object");
    let primary =
        of("driver: primary, primary: {agentURL: 'http://$(POD).p:7360', onDiverged: Keep}").unwrap().unwrap();
    assert_eq!(
        (primary.sets[0].driver.as_str(), &primary.sets[0].settings.fields()["onDiverged"]),
        ("primary", &"Keep".into())
    );
    assert_eq!(Members::decode(&primary.encode().unwrap()), Some(primary));
    let of_others = "Members m: spec.settings is only for a driver of the program's own";
    assert_eq!(error("driver: jobs, settings: {a: 1}"), of_others);
}

#[test]
fn what_is_wrong_of_a_database_with_a_primary_is_said() {
    let of = |spec: &str| members("m", spec);
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    let table: Vec<(Vec<String>, &str)> = vec![
        (
            vec![of("{target: {name: db}, size: 3, driver: jobs, primary: {}}")],
            "Members m: spec.primary is only for driver: primary",
        ),
        (
            vec![of("{target: {name: db}, size: 3, driver: primary, primary: 1}")],
            "Members m: spec.primary is not an object",
        ),
        (
            vec![of("{target: {name: db}, size: 3, driver: primary}")],
            "Members m: spec.primary: missing field `agentURL`",
        ),
        (
            vec![
                of("{target: {name: db}, size: 3, driver: primary, primary: {agentURL: 'http://$(POD).p:7360'}}"),
                map("db-roles"),
            ],
            "Members m: the chart has ConfigMap db-roles, which the driver writes: leave it out, or name another in \
             spec.primary.configMap",
        ),
    ];
    for (documents, error) in table {
        let documents: Vec<&str> = [SET].into_iter().chain(documents.iter().map(String::as_str)).collect();
        assert_eq!(read(&documents).unwrap_err(), error);
    }
}

#[test]
fn what_is_wrong_is_said_in_words() {
    let good = "{target: {name: db}, size: 3, driver: jobs}";
    let deletes = SET.replace("db-peer", "db-peer, persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}");
    let autoscaler = "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: h}\n\
                      spec: {scaleTargetRef: {kind: StatefulSet, name: db}}\n";
    let of = |spec: &str| members("m", spec);
    let etcd = "{target: {name: db}, size: 3, driver: etcd, etcd: {peerURL: 'http://$(POD).p:2380', clientURL: 'http://$(POD).p:2379'}}";
    let map = |name: &str| format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n");
    assert!(read(&[SET, &of(etcd), &map("other")]).is_ok());
    let table: Vec<(Vec<String>, &str)> = vec![
        (vec![of("{}")], "Members m: spec.target.name, the StatefulSet of the members, is missing"),
        (vec![of("{target: {name: x}, size: 3, driver: jobs}")], "Members m: the chart has no StatefulSet x"),
        (vec![of("{target: {name: db}, driver: jobs}")], "Members m: spec.size, the number of members, is missing"),
        (
            vec![of("{target: {name: db}, size: 0, driver: jobs}")],
            "Members m: spec.size is not a whole number from 1 to 100",
        ),
        (
            vec![of("{target: {name: db}, size: x, driver: jobs}")],
            "Members m: spec.size is not a whole number from 1 to 100",
        ),
        (
            vec![of("{target: {name: db}, size: 3}")],
            "Members m: spec.driver is missing; it must be etcd, jobs or primary",
        ),
        (
            vec![of("{target: {kind: Deployment, name: db}, size: 3, driver: jobs}")],
            "Members m: spec.target.kind \"Deployment\" is unknown; it must be StatefulSet",
        ),
        (
            vec![of("{target: {name: db}, size: 3, driver: jobs, replicas: 2}")],
            "Members m: spec.replicas is unknown; the fields are target, size, driver, volumes, progressDeadline, \
             etcd, primary, settings, paused, sleep, version",
        ),
        (
            vec![of("{target: {name: db}, size: 3, driver: jobs, volumes: {onOrphan: Wipe}}")],
            "Members m: spec.volumes.onOrphan \"Wipe\" is unknown; it must be Refuse or Adopt",
        ),
        (
            vec![of("{target: {name: db}, size: 3, driver: jobs, etcd: {}}")],
            "Members m: spec.etcd is only for driver: etcd",
        ),
        (vec![of(good), members("other", good)], "Members m and other are both for StatefulSet db: it can have one"),
        (
            vec![of(good).replace("hook: members", "hook: 'members,bootstrap'")],
            "Members m: its annotation helm.sh/hook is members and nothing else",
        ),
        (
            vec![of(good).replace(", annotations: {helm.sh/hook: members}", "")],
            "Members m lacks the annotation helm.sh/hook: members",
        ),
        (
            vec![of(good).replace("v1alpha1", "v2")],
            "Members m: a hook members is of tillerman.dev/v1alpha1, Kind=Members",
        ),
        (
            vec![of(good), autoscaler.to_owned()],
            "Members m: HorizontalPodAutoscaler h sets the replicas of StatefulSet db, which the operator steps",
        ),
        (
            vec![of(good), JOB.replace("kind: Job", "kind: Pod")],
            "scale hook Pod join: a scale hook is a Job of batch/v1",
        ),
        (
            vec![of(good), JOB.replace("bootstrap", "pre-install")],
            "scale hook Job join: \"pre-install\" is not an event of scale hooks; an event of Helm's needs a document \
             of its own, because Helm ignores this one",
        ),
        (
            vec![of("{target: {name: db}, size: 3, driver: jobs, paused: 1}")],
            "Members m: spec.paused must be true or false",
        ),
        (vec![of("{target: {name: db}, size: 3, driver: jobs, version: 3}")], "Members m: spec.version is not a text"),
        (
            vec![members("ready", "{target: {name: db}, size: 3, driver: etcd}")],
            "Members ready: with driver: etcd, the name of the document cannot be ready",
        ),
        (vec![of(etcd), JOB.to_owned()], "scale hook Job join: no Members document has driver: jobs"),
        (vec![of("{target: {name: db}, size: 3, driver: etcd}")], "Members m: spec.etcd: missing field `peerURL`"),
        (
            vec![of(etcd), map("db-initial-cluster")],
            "Members m: the chart has ConfigMap db-initial-cluster, which the driver writes: leave it out, or name another in \
             spec.etcd.configMap",
        ),
        (
            vec![of(good), JOB.replace("{helm.sh", "{tillerman.dev/exit-code-container: c, helm.sh")],
            "scale hook Job join: it has no container \"c\"",
        ),
    ];
    for (documents, expected) in table {
        let mut all = vec![SET];
        all.extend(documents.iter().map(String::as_str));
        assert_eq!(read(&all).unwrap_err(), expected);
    }
    let refused = read(&[&deletes, &of(good)]).unwrap_err();
    assert!(refused.contains("whenScaled: Delete"), "{refused}");
}
