//! Controls access to the metrics: the API server reports who a token belongs to, and whether they may `get` the path,
//! as in controller-runtime (`pkg/metrics/filters`).

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::http::header::AUTHORIZATION;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use crate::cluster::client::{self, Cluster};
use crate::cluster::discovery::Resource;
use crate::cluster::error::ApiError;
use crate::object::{Gvk, ObjectId};

/// How long a positive answer is cached.
const ALLOWED: Duration = Duration::from_secs(60);
/// How long a negative answer is cached.
const DENIED: Duration = Duration::from_secs(10);
/// The maximum number of cached answers.
const REMEMBERED: usize = 1000;
/// The maximum number of concurrent reviews: strangers must not load the API server.
const ASKED: usize = 4;

/// Asks the API server, and caches its answers.
pub struct Guard {
    cluster: Cluster,
    asking: Semaphore,
    answers: Mutex<HashMap<[u8; 32], (Answer, Instant)>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Allowed,
    Unknown,
    Denied(String),
}

impl Guard {
    /// Uses the operator's own rights: `create` of `tokenreviews` and `subjectaccessreviews`.
    pub fn new(cluster: Cluster) -> Arc<Self> {
        Arc::new(Self { cluster, asking: Semaphore::new(ASKED), answers: Mutex::default() })
    }

    async fn ask(&self, token: &str, path: &str) -> Result<Answer, ApiError> {
        let key: [u8; 32] = Sha256::new().chain_update(path).chain_update([0]).chain_update(token).finalize().into();
        if let Some(answer) = self.remembered(&key) {
            return Ok(answer);
        }
        let _permit = self.asking.acquire().await;
        if let Some(answer) = self.remembered(&key) {
            return Ok(answer);
        }
        let answer = self.review(token, path).await?;
        let until = Instant::now() + if answer == Answer::Allowed { ALLOWED } else { DENIED };
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= REMEMBERED {
            answers.clear();
        }
        answers.insert(key, (answer.clone(), until));
        Ok(answer)
    }

    fn remembered(&self, key: &[u8; 32]) -> Option<Answer> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        answers.get(key).filter(|(_, until)| *until > Instant::now()).map(|(answer, _)| answer.clone())
    }

    async fn review(&self, token: &str, path: &str) -> Result<Answer, ApiError> {
        let review = self.create("authentication.k8s.io", "TokenReview", json!({"token": token})).await?;
        let status = &review["status"];
        if status["authenticated"] != true {
            return Ok(Answer::Unknown);
        }
        let user = &status["user"];
        let spec = json!({"user": user["username"], "uid": user["uid"], "groups": user["groups"], "extra": user["extra"],
            "nonResourceAttributes": {"path": path, "verb": "get"}});
        let review = self.create("authorization.k8s.io", "SubjectAccessReview", spec).await?;
        if review["status"]["allowed"] == true {
            return Ok(Answer::Allowed);
        }
        Ok(Answer::Denied(user["username"].as_str().unwrap_or_default().to_owned()))
    }

    async fn create(&self, group: &str, kind: &str, spec: Value) -> Result<Value, ApiError> {
        let gvk = Gvk::new(group, "v1", kind);
        let plural = format!("{}s", kind.to_lowercase());
        let body = json!({"apiVersion": gvk.api_version(), "kind": kind, "spec": spec});
        let id = ObjectId { gvk: gvk.clone(), namespace: None, name: "".into() };
        let resource = Resource { gvk, plural: plural.into(), namespaced: false };
        self.cluster.create(&resource, &id, &body, client::Returned::Object).await
    }
}

/// Passes an allowed request on, and rejects any other.
pub async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    let header = request.headers().get(AUTHORIZATION).and_then(|h| h.to_str().ok()).unwrap_or_default();
    let token = header.split_once(' ').filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let Some((_, token)) = token.filter(|(_, token)| !token.trim().is_empty()) else {
        return (StatusCode::UNAUTHORIZED, "Unauthorized").into_response();
    };
    let answer = guard.ask(token.trim(), request.uri().path()).await;
    match answer {
        Ok(Answer::Allowed) => next.run(request).await,
        Ok(Answer::Unknown) => (StatusCode::UNAUTHORIZED, "Unauthorized").into_response(),
        Ok(Answer::Denied(user)) => {
            (StatusCode::FORBIDDEN, format!("Authorization denied for user {user}")).into_response()
        }
        Err(error) => {
            tracing::warn!(error = error.whole(), "cannot check who is allowed to read the metrics");
            (StatusCode::INTERNAL_SERVER_ERROR, "Authentication failed").into_response()
        }
    }
}
