//! Sends the pages.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, HOST, HeaderName, HeaderValue, ORIGIN,
    REFERRER_POLICY, SET_COOKIE, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use futures::{Stream, stream};
use tokio::net::TcpListener;
use tokio::sync::watch::Receiver;
use tokio_util::sync::CancellationToken;

use super::access::{Access, Asked, Door, TOKEN};
use super::address::{Route, Subject, parameters};
use super::fleet::FleetFilter;
use super::pages::{ICON, Pages, SCRIPT, STYLE};
use super::source::{PageError, PageSource};
use crate::server::connections::{self, Service, pieces};

/// Scripts, styles, images and requests come from this program alone, and nothing is written into a page.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// The headers of every answer.
const HEADERS: [(HeaderName, &str); 8] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "no-referrer"),
    (CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("permissions-policy"), "camera=(), geolocation=(), microphone=()"),
];

/// The lifetime of a connection. A browser that follows a page connects again; a client that never reads is cut off.
const LIFETIME: Duration = Duration::from_secs(60);
/// The shortest time between two messages about changes: of a fleet in motion, nobody can read more.
const CALM: Duration = Duration::from_millis(500);

const HTML: &str = "text/html; charset=utf-8";

/// The pages of a source behind a door.
pub struct Site<S> {
    door: Door,
    pages: Pages,
    source: S,
}

impl<S: PageSource> Site<S> {
    /// The pages of a source.
    pub fn new(door: Door, source: S) -> Arc<Self> {
        Arc::new(Self { door, pages: Pages::default(), source })
    }

    /// Serves them until cancelled.
    pub async fn serve(self: Arc<Self>, listener: TcpListener, stop: CancellationToken) {
        let app = Router::new().fallback(answer::<S>).with_state(self);
        let service = Service { lifetime: LIFETIME, ..Service::default() };
        connections::serve(listener, service, app, stop).await;
    }

    async fn route(&self, path: &str, query: &str) -> Reply {
        match Route::of(path) {
            Some(Route::Style) => Reply::text("text/css; charset=utf-8", STYLE),
            Some(Route::Script) => Reply::text("text/javascript; charset=utf-8", SCRIPT),
            Some(Route::Icon) => Reply::text("image/svg+xml", ICON),
            Some(Route::Fleet) => {
                self.html(self.source.fleet().await, |fleet| self.pages.fleet(&fleet, &FleetFilter::of(query)))
            }
            Some(Route::Release(name, screen)) => {
                let data = self.source.release(name.clone(), screen).await;
                self.html(data, |data| self.pages.release(&name, screen, &data))
            }
            Some(Route::Operator) => self.html(self.source.operator().await, |found| {
                self.pages.operator(&found.document, found.namespace.as_deref())
            }),
            Some(Route::Rollouts) => self.html(self.source.rollouts().await, |found| {
                self.pages.rollouts(&found.document, found.namespace.as_deref(), found.version)
            }),
            Some(Route::Follow(subject)) => self.follow(subject, query).await,
            None => self.message(404, "This page does not exist."),
        }
    }

    fn html<T>(&self, data: Result<T, PageError>, page: impl FnOnce(T) -> String) -> Reply {
        match data {
            Ok(data) => Reply { status: 200, kind: HTML, body: whole(page(data)), cookie: None },
            Err(why) => self.message(502, &why.0),
        }
    }

    fn message(&self, status: u16, text: &str) -> Reply {
        let title = if status == 404 { "Not found" } else { "This cannot be shown" };
        Reply { status, kind: HTML, body: whole(self.pages.message(title, text)), cookie: None }
    }

    async fn follow(&self, subject: Subject, query: &str) -> Reply {
        let seen = parameters(query).get("seen").and_then(|seen| seen.parse().ok()).unwrap_or(0);
        match self.source.follow(subject).await {
            Ok(changes) => {
                let body = Body::from_stream(messages(changes, seen));
                Reply { status: 200, kind: "text/event-stream", body, cookie: None }
            }
            Err(why) => self.message(502, &why.0),
        }
    }

    async fn reply(&self, request: &Parts) -> Reply {
        let query = request.uri.query().unwrap_or_default();
        let token = parameters(query).remove(TOKEN);
        let headers = &request.headers;
        let asked = Asked {
            method: request.method.as_str(),
            host: only(headers, HOST.as_str()),
            origin: text(headers, ORIGIN.as_str()),
            site: text(headers, "sec-fetch-site"),
            cookie: text(headers, COOKIE.as_str()),
            token: token.as_deref(),
        };
        match self.door.decide(&asked) {
            Access::Allowed => self.route(request.uri.path(), query).await,
            Access::Enter(cookie) => {
                Reply { status: 200, kind: HTML, body: whole(self.pages.entered()), cookie: Some(cookie) }
            }
            Access::Refused(status, why) => self.message(status, why),
        }
    }
}

/// An answer without the headers that all answers have.
struct Reply {
    status: u16,
    kind: &'static str,
    body: Body,
    cookie: Option<String>,
}

impl Reply {
    fn text(kind: &'static str, text: &'static str) -> Self {
        Self { status: 200, kind, body: Body::from(text), cookie: None }
    }
}

/// A body in parts: for a client that does not read, a connection holds one part.
fn whole(page: String) -> Body {
    Body::from_stream(stream::iter(pieces(Bytes::from(page)).map(Ok::<_, Infallible>)))
}

async fn answer<S: PageSource>(State(site): State<Arc<Site<S>>>, request: Request) -> Response {
    // The body of a request is never read.
    let (parts, _) = request.into_parts();
    let reply = site.reply(&parts).await;
    let mut response = Response::new(reply.body);
    *response.status_mut() = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(reply.kind));
    if let Some(cookie) = reply.cookie.and_then(|cookie| HeaderValue::from_str(&cookie).ok()) {
        headers.insert(SET_COOKIE, cookie);
    }
    response
}

/// A header that is there at least once; one that cannot be read counts as the empty text.
fn text<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    headers.get(name).map(|value| value.to_str().unwrap_or_default())
}

/// A header that is there exactly once.
fn only<'h>(headers: &'h HeaderMap, name: &str) -> Option<&'h str> {
    if headers.get_all(name).iter().count() == 1 { text(headers, name) } else { None }
}

/// Server-sent events with the number of each change that the page has not seen.
fn messages(changes: Receiver<u64>, seen: u64) -> impl Stream<Item = Result<Bytes, Infallible>> {
    stream::unfold((changes, seen, true), |(mut changes, seen, is_first)| async move {
        if is_first {
            // Without a first byte, the browser does not know that it is connected.
            return Some((Ok(Bytes::from_static(b"retry: 1000\n\n")), (changes, seen, false)));
        }
        let now = *changes.wait_for(|now| *now != seen).await.ok()?;
        tokio::time::sleep(CALM).await;
        let now = now.max(*changes.borrow_and_update());
        Some((Ok(Bytes::from(format!("event: change\ndata: {now}\n\n"))), (changes, now, false)))
    })
}
