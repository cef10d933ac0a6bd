//! Fields of a chart's objects that controllers fill. A chart that writes such a field expects it to be filled. To apply the chart's text
//! would empty the field, and the controller would fill it again, without end. So these fields are not applied.

use serde_json::{Map, Value};

use crate::object::Gvk;

/// Annotations by which cert-manager's injector fills the CA of a webhook, a definition or an `APIService` (cert-manager 1.18,
/// `pkg/controller/cainjector`).
const CA_INJECTED: [&str; 3] =
    ["cert-manager.io/inject-apiserver-ca", "cert-manager.io/inject-ca-from", "cert-manager.io/inject-ca-from-secret"];

/// Removes from an object the fields that a controller fills.
pub fn leave_out(gvk: &Gvk, body: &mut Map<String, Value>) {
    match (&*gvk.group, &*gvk.kind) {
        // The rules are those of the roles that the aggregation rule selects.
        ("rbac.authorization.k8s.io", "ClusterRole") if body.get("aggregationRule").is_some_and(Value::is_object) => {
            body.shift_remove("rules");
        }
        // The token controller fills it.
        ("", "Secret") if is_empty_token(body) => {
            body.shift_remove("data");
        }
        ("admissionregistration.k8s.io", "MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration")
            if is_injected(body) =>
        {
            for webhook in body.get_mut("webhooks").and_then(Value::as_array_mut).into_iter().flatten() {
                without_bundle(webhook.get_mut("clientConfig"));
            }
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") if is_injected(body) => {
            let conversion = body.get_mut("spec").and_then(|spec| spec.get_mut("conversion"));
            let webhook = conversion.and_then(|conversion| conversion.get_mut("webhook"));
            without_bundle(webhook.and_then(|webhook| webhook.get_mut("clientConfig")));
        }
        ("apiregistration.k8s.io", "APIService") if is_injected(body) => without_bundle(body.get_mut("spec")),
        _ => {}
    }
}

fn is_empty_token(body: &Map<String, Value>) -> bool {
    let is_token = body.get("type").and_then(Value::as_str) == Some("kubernetes.io/service-account-token");
    is_token && body.get("data").is_some_and(|data| data.is_null() || data.as_object().is_some_and(Map::is_empty))
}

fn is_injected(body: &Map<String, Value>) -> bool {
    let annotations = body.get("metadata").and_then(|m| m.get("annotations"));
    annotations.is_some_and(|annotations| CA_INJECTED.iter().any(|name| annotations.get(name).is_some()))
}

fn without_bundle(config: Option<&mut Value>) {
    if let Some(config) = config.and_then(Value::as_object_mut) {
        config.shift_remove("caBundle");
    }
}

#[cfg(test)]
mod tests {
    use super::leave_out;
    use crate::object::Gvk;
    use serde_json::{Value, json};

    #[test]
    fn what_controllers_fill_is_left_out_and_the_rest_stays() {
        let injected = json!({"annotations": {"cert-manager.io/inject-ca-from": "ns/cert"}});
        let role = |rule: Value| json!({"aggregationRule": rule, "rules": []});
        for (group, kind, body, expected) in [
            ("rbac.authorization.k8s.io", "ClusterRole", role(json!({})), json!({"aggregationRule": {}})),
            ("rbac.authorization.k8s.io", "ClusterRole", role(json!(null)), role(json!(null))),
            (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
                json!({"metadata": injected, "webhooks": [{"clientConfig": {"caBundle": "Cg==", "service": {}}}]}),
                json!({"metadata": injected, "webhooks": [{"clientConfig": {"service": {}}}]}),
            ),
            (
                "admissionregistration.k8s.io",
                "ValidatingWebhookConfiguration",
                json!({"metadata": {}, "webhooks": [{"clientConfig": {"caBundle": "Cg=="}}]}),
                json!({"metadata": {}, "webhooks": [{"clientConfig": {"caBundle": "Cg=="}}]}),
            ),
            (
                "apiextensions.k8s.io",
                "CustomResourceDefinition",
                json!({"metadata": injected, "spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": "Cg=="}}}}}),
                json!({"metadata": injected, "spec": {"conversion": {"webhook": {"clientConfig": {}}}}}),
            ),
            (
                "apiregistration.k8s.io",
                "APIService",
                json!({"metadata": injected, "spec": {"caBundle": "", "group": "g"}}),
                json!({"metadata": injected, "spec": {"group": "g"}}),
            ),
            (
                "",
                "Secret",
                json!({"type": "kubernetes.io/service-account-token", "data": {}}),
                json!({"type": "kubernetes.io/service-account-token"}),
            ),
            ("", "Secret", json!({"type": "Opaque", "data": {}}), json!({"type": "Opaque", "data": {}})),
        ] {
            let mut left = body.as_object().unwrap().clone();
            leave_out(&Gvk::new(group, "v1", kind), &mut left);
            assert_eq!(Value::Object(left), expected, "{kind}");
        }
    }
}
