//! What is pruned, and what never is (docs/design/applying.md D1).

use std::path::PathBuf;

use crate::harness::{Space, definition, established, eventually, kubectl};
use serde_json::{Value, json};

/// A chart of this test.
fn chart(space: &Space, template: &str) -> PathBuf {
    let file = space.file("Chart.yaml", "apiVersion: v2\nname: pruned\nversion: 1.0.0\n");
    let folder = file.parent().unwrap().to_owned();
    std::fs::create_dir_all(folder.join("templates")).unwrap();
    std::fs::write(folder.join("templates/all.yaml"), template).unwrap();
    folder
}

fn names(space: &Space, kind: &str) -> Vec<String> {
    let text = space.kubectl(&["get", kind, "-o", "json"]).unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap().to_owned()).collect()
}

/// D1.
#[test]
fn a_services_endpoint_slice_and_a_users_copy_survive() {
    let space = Space::new("d1");
    let template = "apiVersion: v1\nkind: Service\nmetadata: {name: app-web}\nspec:\n  selector: {app: web}\n  ports: [{port: 80}]\n\
        {{- if .Values.slice }}\n---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: app-own}\n\
        addressType: IPv4\nendpoints: []\n{{- end }}\n";
    let folder = chart(&space, template).display().to_string();
    let operator = space.operator(&space.watches(&[("Web", &folder)]), &[]);
    space.apply("Web", "app", &json!({"slice": true}));
    space.wait("web/app", "Deployed", "True");
    let made = eventually("the service has a slice", || {
        let made = names(&space, "endpointslices").into_iter().find(|n| n.starts_with("app-web-"));
        made.ok_or("there is none")
    });
    let object = format!("endpointslice/{made}");
    let label = "/metadata/labels/helm.sdk.operatorframework.io~1chart";
    assert_eq!(space.get(&object).unwrap().pointer(label), Some(&json!("pruned")), "it carries our label");
    let mut copy = space.get("endpointslice/app-own").unwrap();
    for field in ["uid", "resourceVersion", "creationTimestamp", "managedFields"] {
        copy["metadata"].as_object_mut().unwrap().remove(field);
    }
    copy["metadata"]["name"] = json!("mine");
    kubectl(&["apply", "-f", "-"], Some(&copy.to_string())).unwrap();
    operator.settle();
    space.apply("Web", "app", &json!({"slice": false}));
    space.wait_gone("endpointslice/app-own");
    operator.settle();
    assert_eq!(names(&space, "endpointslices").len(), 2);
    space.get(&object).unwrap();
    space.get("endpointslice/mine").unwrap();
}

/// A registration that leads nowhere. The API server recreates it for the definition when it is deleted, also when the test fails:
/// no namespace of another test could end while it is there.
struct Away(String);

impl Drop for Away {
    fn drop(&mut self) {
        let _ = kubectl(&["delete", &self.0], None);
    }
}

/// D1.
#[test]
fn objects_of_an_api_whose_server_is_away_are_not_taken_for_gone() {
    let space = Space::new("d1-away");
    let group = format!("{}.tillerman.dev", space.name);
    kubectl(&["apply", "--server-side", "-f", "-"], Some(&definition(&group, "Part"))).unwrap();
    established(&format!("crd/parts.{group}"));
    let template = format!("apiVersion: {group}/v1\nkind: Part\nmetadata: {{name: app-part}}\nspec: {{a: b}}\n");
    let folder = chart(&space, &template).display().to_string();
    let watches = space.watches(&[("Web", &folder)]);
    let operator = space.operator(&watches, &[]);
    space.apply("Web", "app", &json!({}));
    space.wait("web/app", "Deployed", "True");
    operator.settle();
    operator.kill();
    // The group is served by somebody who is not there.
    let service = json!({"metadata": {"labels": {"kube-aggregator.kubernetes.io/automanaged": null}}, "spec": {
        "service": {"name": "nobody", "namespace": space.name}, "insecureSkipTLSVerify": true}});
    let api = format!("apiservice/v1.{group}");
    kubectl(&["patch", &api, "--type=merge", "-p", &service.to_string()], None).unwrap();
    let away = Away(api);
    let path = format!("/apis/{group}/v1");
    eventually("the API is away", || match kubectl(&["get", "--raw", &path], None) {
        Err(why) if why.contains("ServiceUnavailable") || why.contains("unable to handle") => Ok(()),
        answer => Err(format!("{answer:?}")),
    });
    let operator = space.operator(&watches, &[]);
    space.delete("web/app");
    eventually("the operator has asked for the kind", || {
        space.get("web/app").expect("it waits for its objects");
        let asked = space.requests().iter().filter(|r| r.contains(&path)).count();
        if asked > 1 { Ok(()) } else { Err(format!("{asked} times")) }
    });
    // It may be away for ever: the message says who waits and what to do.
    let told = space.wait("web/app", "Irreconcilable", "True")["message"].to_string();
    assert!(told.contains("Part") && told.contains(&format!("delete the APIService of {group}/v1")), "{told}");
    space.get("secret/sh.helm.release.v1.app.v1").expect("their record stays");
    drop(away);
    space.wait_gone("web/app");
    space.wait_gone(&format!("parts.{group}/app-part"));
    drop(operator);
    kubectl(&["delete", &format!("crd/parts.{group}"), "--wait=false"], None).unwrap();
}
