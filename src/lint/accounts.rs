//! Values that choose the service account of a pod together with one of its images: whoever may set both runs a program of their own with the
//! rights of any account of the namespace.
//!
//! A name that nobody has is put into the values whose names suggest an account or an image. Where both come out in one pod, they choose.

use super::twice::pod_path;
use crate::chart::{Chart, Values, values};
use crate::crd::{Evidence, each_value};
use crate::rbac::{nest, objects};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::LazyLock;

const ACCOUNT: &str = "planted-account";
const IMAGE: &str = "planted-image";

static ACCOUNTS: LazyLock<Regex> = LazyLock::new(|| Regex::new("(?i)service_?account").expect("the pattern is valid"));
static IMAGES: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("(?i)image|repository|registry|(^|[.])tag$").expect("the pattern is valid"));
/// Values beside those, which choose neither.
static OTHERS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new("(?i)polic|secret|annotation|label").expect("the pattern is valid"));

/// The warnings: for each template, the values that choose. The chart is rendered with its defaults and with each of
/// its values files; `pinned` are the values that win over those of a custom resource.
pub fn chosen(chart: &Chart, files: &[Evidence], pinned: &Values) -> Vec<String> {
    let (mut accounts, mut images) = (Vec::new(), Vec::new());
    each_value(chart, &mut |path, value| {
        let name = path.join(".");
        if !(value.is_string() || value.is_null()) || OTHERS.is_match(&name) {
            return;
        }
        if ACCOUNTS.is_match(&name) {
            accounts.push(path.to_vec());
        } else if IMAGES.is_match(&name) {
            images.push(path.to_vec());
        }
    });
    let mut found = BTreeSet::new();
    if accounts.is_empty() || images.is_empty() {
        return Vec::new();
    }
    let none = Values::new();
    for base in std::iter::once(&none).chain(files.iter().map(|file| &file.values)) {
        // All images at once: which of them it is does not matter.
        let planted = |paths: &[Vec<String>], text: &str, values: &mut Values| {
            for path in paths {
                values::merge(values, nest(path, text.into()));
            }
        };
        for account in &accounts {
            let mut all = base.clone();
            planted(&images, IMAGE, &mut all);
            planted(std::slice::from_ref(account), ACCOUNT, &mut all);
            values::merge(&mut all, pinned.clone());
            // A chart that does not render so says nothing.
            let made = objects(chart, &all).unwrap_or_default();
            let chosen = made.iter().filter(|object| chooses(&object.pair.kind, &object.body));
            found.extend(chosen.map(|object| (object.file.clone(), account.join("."))));
        }
    }
    let sentence = |(file, account): (String, String)| {
        format!(
            "{file}: values choose the service account of a pod ({account}) and an image of the same pod: an editor of \
             a custom resource can run their own program with the rights of any account of the namespace. Pin \
             {account} with overrideValues"
        )
    };
    found.into_iter().map(sentence).collect()
}

/// Whether a planted account and a planted image are in the pod of an object.
fn chooses(kind: &str, body: &serde_json::Map<String, Value>) -> bool {
    let Some(path) = pod_path(kind) else { return false };
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let keys = rest.split('.').filter(|key| !key.is_empty());
    let Some(pod) = keys.fold(body.get(first), |value, key| value?.get(key)) else { return false };
    let has = |value: &Value, text: &str| value.as_str().is_some_and(|value| value.contains(text));
    let containers = ["containers", "initContainers"].iter().filter_map(|key| pod[*key].as_array()).flatten();
    has(&pod["serviceAccountName"], ACCOUNT) && containers.into_iter().any(|container| has(&container["image"], IMAGE))
}

#[cfg(test)]
mod tests {
    use super::chosen;
    use crate::chart::{self, Chart, ChartLimits, File, Values};
    use crate::crd::Evidence;
    use serde_json::json;

    fn of(template: &str) -> Chart {
        let values = "account: {name: '', annotations: {a: b}}\nimage: {repository: web, tag: '1', pullPolicy: Always}\nother: x\non: false\n";
        let file = |name: &str, text: &str| File { name: name.to_owned(), data: text.as_bytes().to_vec().into() };
        let files = vec![
            file("Chart.yaml", "apiVersion: v2\nname: web\nversion: 0.1.0\n"),
            file("values.yaml", &values.replace("account", "serviceAccount")),
            file("templates/a.yaml", template),
        ];
        chart::load_files(files, &ChartLimits::default()).unwrap()
    }

    fn pod(account: &str, image: &str) -> String {
        format!(
            "kind: Pod\napiVersion: v1\nmetadata: {{name: a}}\nspec: {{serviceAccountName: \"{account}\", containers: [{{image: \"{image}\"}}]}}\n"
        )
    }

    #[test]
    fn an_account_is_found_only_beside_an_image_of_the_same_pod() {
        let (account, image) =
            ("{{ .Values.serviceAccount.name }}", "{{ .Values.image.repository }}:{{ .Values.image.tag }}");
        let found = |template: &str| chosen(&of(template), &[], &Values::new()).len();
        let both = pod(account, image);
        assert_eq!(found(&both), 1);
        assert_eq!(found(&pod(account, "web:1")), 0);
        assert_eq!(found(&pod("own", image)), 0);
        assert_eq!(found(&pod("{{ .Values.other }}", image)), 0);
        assert_eq!(found(&format!("{}---\n{}", pod(account, "web:1"), pod("own", image))), 0);
        let job = "kind: CronJob\napiVersion: batch/v1\nmetadata: {name: a}\nspec: {jobTemplate: {spec: {template: {spec: {serviceAccountName: \
                   \"{{ .Values.serviceAccount.name }}\", initContainers: [{image: \"x:{{ .Values.image.tag }}\"}]}}}}}\n";
        assert_eq!(found(job), 1);
        let text = chosen(&of(&both), &[], &Values::new()).remove(0);
        assert!(
            text.starts_with("templates/a.yaml: ") && text.ends_with("Pin serviceAccount.name with overrideValues"),
            "{text}"
        );
    }

    #[test]
    fn what_is_pinned_is_not_chosen_and_values_files_show_what_is_off_by_default() {
        let both = pod("{{ .Values.serviceAccount.name }}", "{{ .Values.image.tag }}");
        let pinned = |values: serde_json::Value| values.as_object().cloned().unwrap();
        for values in [json!({"serviceAccount": {"name": ""}}), json!({"image": {"tag": "1"}})] {
            assert_eq!(chosen(&of(&both), &[], &pinned(values)), [""; 0]);
        }
        let off = of(&format!("{{{{ if .Values.on }}}}\n{both}{{{{ end }}}}\n"));
        assert_eq!(chosen(&off, &[], &Values::new()), [""; 0]);
        let file = Evidence { name: "ci/on-values.yaml".to_owned(), values: pinned(json!({"on": true})) };
        assert_eq!(chosen(&off, &[file], &Values::new()).len(), 1);
    }
}
