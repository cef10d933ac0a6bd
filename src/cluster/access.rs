//! Asks the API server whether a user has a right (`SubjectAccessReview`). A list of all rights of a user
//! (`SelfSubjectRulesReview`) may be incomplete, says the API itself.

use serde_json::{Value, json};

use super::client::Cluster;
use super::error::{ApiError, Sent};

/// A ServiceAccount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub namespace: String,
    pub name: String,
}

impl Account {
    /// The user that the API server takes it for.
    pub fn user(&self) -> String {
        format!("system:serviceaccount:{}:{}", self.namespace, self.name)
    }

    /// The groups that the user is in.
    fn groups(&self) -> [String; 3] {
        let all = "system:serviceaccounts".to_owned();
        let here = format!("{all}:{}", self.namespace);
        [all, here, "system:authenticated".to_owned()]
    }
}

impl std::fmt::Display for Account {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Service account {} of namespace {}", self.name, self.namespace)
    }
}

/// A question about one right.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// Its subject, as a field of the review's `spec`.
    attributes: (&'static str, Value),
}

impl Question {
    /// About a verb on a resource, which may be a subresource (`pods/log`). Without a name: on all of them. Without a
    /// namespace: in the whole cluster.
    pub fn of(verb: &str, group: &str, resource: &str, name: &str, namespace: Option<&str>) -> Self {
        let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
        let attributes = json!({"verb": verb, "group": group, "version": "*", "resource": resource,
            "subresource": subresource, "name": name, "namespace": namespace.unwrap_or_default()});
        Self { attributes: ("resourceAttributes", attributes) }
    }

    /// About a verb on a path that is not a resource.
    pub fn url(verb: &str, path: &str) -> Self {
        Self { attributes: ("nonResourceAttributes", json!({"verb": verb, "path": path})) }
    }
}

impl Cluster {
    /// Whether a ServiceAccount has a right. The caller needs `create` of `subjectaccessreviews`.
    ///
    /// # Errors
    /// The API server does not answer, or refuses the question.
    pub async fn allows(&self, account: &Account, question: &Question) -> Result<bool, ApiError> {
        let what = format!("ask for the rights of {}", account.user());
        let (name, attributes) = &question.attributes;
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {"user": account.user(), "groups": account.groups(), *name: attributes},
        });
        let request = http::Request::post("/apis/authorization.k8s.io/v1/subjectaccessreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        let request = request.map_err(|e| ApiError::Unreachable { what: what.clone(), message: e.to_string() })?;
        let answer = self.client().request::<Value>(request).await;
        let answer = answer.map_err(|e| ApiError::from_kube(&what, &e, Sent::Nothing))?;
        Ok(answer.pointer("/status/allowed") == Some(&Value::Bool(true)))
    }

    /// The rules that we have in a namespace: the `status` of a `SelfSubjectRulesReview`. Every user may ask for their own.
    ///
    /// # Errors
    /// The API server does not answer, or refuses the question.
    pub async fn rules(&self, namespace: &str) -> Result<Value, ApiError> {
        let what = format!("ask for the operator's own rights in namespace {namespace}");
        let body = json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": namespace},
        });
        let request = http::Request::post("/apis/authorization.k8s.io/v1/selfsubjectrulesreviews")
            .header(http::header::CONTENT_TYPE, "application/json")
            .body(body.to_string().into_bytes());
        let request = request.map_err(|e| ApiError::Unreachable { what: what.clone(), message: e.to_string() })?;
        let answer = self.client().request::<Value>(request).await;
        let mut answer = answer.map_err(|e| ApiError::from_kube(&what, &e, Sent::Nothing))?;
        Ok(answer.get_mut("status").map(Value::take).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, Question};
    use serde_json::json;

    #[test]
    fn a_subresource_is_asked_for_as_such() {
        let (field, asked) = Question::of("get", "", "pods/log", "", Some("a")).attributes;
        assert_eq!(field, "resourceAttributes");
        assert_eq!(
            asked,
            json!({"verb": "get", "group": "", "version": "*", "resource": "pods", "subresource": "log", "name": "", "namespace": "a"})
        );
        assert_eq!(Question::url("get", "/metrics").attributes.0, "nonResourceAttributes");
    }

    #[test]
    fn a_service_account_is_a_user_in_three_groups() {
        let account = Account { namespace: "a".to_owned(), name: "b".to_owned() };
        assert_eq!(account.user(), "system:serviceaccount:a:b");
        assert!(account.groups().contains(&"system:serviceaccounts:a".to_owned()));
    }
}
