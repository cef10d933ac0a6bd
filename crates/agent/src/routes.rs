//! The paths of the contract (docs/design/primary.md#requests), for a member of any database.

use std::future::Future;
use std::sync::Arc;

use http::{Method, Response};

use super::contract::{COPY, DUMP, LOG, MemberState, Reason, Refusal, STATE, Verb, asked_while};
use super::server::{Answers, Asked, Body, whole};

/// A member of a database, which answers the operator.
pub trait Member: Send + Sync + 'static {
    /// Its report about itself, within two seconds, also when the database hangs.
    fn state(self: Arc<Self>) -> impl Future<Output = MemberState> + Send;

    /// Returns when the start of the database has changed. The operator then hears at once that a database has ended. A
    /// member that does not know returns at once.
    fn leaves(self: Arc<Self>, _start: &str) -> impl Future<Output = ()> + Send {
        async {}
    }

    /// Obeys an order. It is finished even if no client waits for the answer now.
    fn obey(self: Arc<Self>, verb: Verb) -> impl Future<Output = Result<MemberState, Refusal>> + Send;

    /// A copy of the data.
    fn copy(self: Arc<Self>) -> impl Future<Output = Result<Response<Body>, Refusal>> + Send;

    /// A copy as statements. A database may have no such thing.
    fn dump(self: Arc<Self>) -> impl Future<Output = Result<Response<Body>, Refusal>> + Send {
        async { Err(Refusal::new(Reason::Impossible, "this database gives no copies as statements")) }
    }

    /// Writes of one log, with the query of the request. A database may keep no logs.
    fn log(self: Arc<Self>, _query: &str) -> impl Future<Output = Result<Response<Body>, Refusal>> + Send {
        async { Err(Refusal::new(Reason::Impossible, "this database gives no logs")) }
    }
}

/// Answers the operator and other agents.
#[derive(Debug)]
pub struct Routes<M>(pub Arc<M>);

impl<M: Member> Answers for Routes<M> {
    async fn answer(self: Arc<Self>, asked: Asked) -> Response<Body> {
        let member = Arc::clone(&self.0);
        let done = match (&asked.method, asked.path.as_str()) {
            (&Method::GET, STATE) => {
                if let Some((start, within)) = asked_while(&asked.query) {
                    let _ = tokio::time::timeout(within, Arc::clone(&member).leaves(start)).await;
                }
                Ok(json(200, &member.state().await))
            }
            (&Method::GET, COPY) => member.copy().await,
            (&Method::GET, DUMP) => member.dump().await,
            (&Method::GET, LOG) => member.log(&asked.query).await,
            (&Method::POST, _) => match verb(&asked) {
                Ok(verb) => member.obey(verb).await.map(|state| json(200, &state)),
                Err(error) => Err(Refusal::new(Reason::Invalid, &error)),
            },
            _ => Err(Refusal::new(Reason::Invalid, "the path or the method is unknown")),
        };
        done.unwrap_or_else(|refusal| json(refusal.reason.status(), &refusal))
    }
}

fn verb(asked: &Asked) -> Result<Verb, String> {
    match (asked.path.strip_prefix("/v1/"), &asked.body) {
        (Some(name), Some(body)) => Verb::read(name, body).map_err(|error| error.to_string()),
        (Some(_), None) => Err("the request is too large".to_owned()),
        (None, _) => Err("the path is unknown".to_owned()),
    }
}

fn json(status: u16, content: &impl serde::Serialize) -> Response<Body> {
    answer(status, "application/json", serde_json::to_vec(content).unwrap_or_default())
}

/// An answer that is complete.
pub fn answer(status: u16, kind: &'static str, text: Vec<u8>) -> Response<Body> {
    let response = Response::builder().status(status).header("content-type", kind);
    response.body(whole(text)).expect("a status and a type are a response")
}
