//! An agent of Redis for `driver: primary` (docs/design/primary.md), on the parts of the library that know no database:
//! the contract, the connections, the files beside the data, and TLS. It needs no client of Kubernetes:
//!
//! ```text
//! cargo build --release -p tillerman-agent --example redis-agent
//! ```
//!
//! README.md says what it promises. All settings are variables of the environment.

mod copies;
mod member;
mod orders;
mod relay;
mod server;
mod streams;

use std::env::var;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use member::{FILES, RedisMember, SHORT, Settings};
use tillerman_agent::contract::{MemberState, Refusal, Role, Verb};
use tillerman_agent::names::is_member;
use tillerman_agent::routes::{self, Routes, answer};
use tillerman_agent::server::{Answers, Asked, Body, serve};
use tillerman_agent::store::{FoundData, Identity, is_identity};
use tillerman_agent::tls::{Tls, TlsFiles};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

/// A replica serves if its primary has sent something within this many seconds.
const LAG: f64 = 10.0;

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let done = runtime.map_err(|error| error.to_string()).and_then(|runtime| runtime.block_on(run()));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// A variable; its default if it is empty or not set.
fn setting<T: FromStr>(name: &str, default: Option<&str>) -> Result<T, String> {
    let given = var(name).ok().filter(|text| !text.is_empty());
    let text = given.or(default.map(str::to_owned)).ok_or_else(|| format!("{name} is not set"))?;
    text.parse().map_err(|_| format!("{name} is not valid: {text:?}"))
}

fn settings() -> Result<Settings, String> {
    let path = |name: &str| setting::<PathBuf>(name, None);
    let tls = if var("INSECURE_HTTP").is_ok_and(|text| text == "yes") {
        None
    } else {
        let (certificate, key) = (path("TLS_CERTIFICATE")?, path("TLS_KEY")?);
        Some(Tls { certificate, key, authorities: path("TLS_CA")? })
    };
    let settings = Settings {
        member: setting("HOSTNAME", None)?,
        volume: setting("VOLUME", Some("/data"))?,
        listen: setting("LISTEN", Some("0.0.0.0:7360"))?,
        listen_health: var("LISTEN_HEALTH").ok().map(|_| setting::<SocketAddr>("LISTEN_HEALTH", None)).transpose()?,
        tls,
        program: setting("REDIS_SERVER", Some("redis-server"))?,
        bind: setting("BIND", Some("*"))?,
        port: setting("PORT", Some("6379"))?,
        password: path("PASSWORD_FILE")?,
        secret: path("REPLICATION_PASSWORD_FILE")?,
        grace: Duration::from_secs(setting("GRACE", Some("20"))?),
        primary: var("PRIMARY").unwrap_or_default(),
        epoch: setting("EPOCH", Some("0"))?,
        data: var("DATA").unwrap_or_default(),
    };
    if !is_member(&settings.member) {
        return Err("HOSTNAME is not a DNS label".to_owned());
    }
    if !settings.bind.bytes().all(|b| b.is_ascii_alphanumeric() || b"*.:- ".contains(&b)) {
        return Err("BIND is not a list of addresses".to_owned());
    }
    if !settings.data.is_empty() && !is_identity(&settings.data) {
        return Err("DATA is not a valid identity of data".to_owned());
    }
    Ok(settings)
}

/// Runs until it is asked to end.
async fn run() -> Result<(), String> {
    let member = Arc::new(RedisMember::new(settings()?)?);
    let listens = |error: std::io::Error| format!("the agent cannot listen: {error}");
    let listener = TcpListener::bind(member.settings.listen).await.map_err(listens)?;
    let mut ends = signal(SignalKind::terminate()).map_err(|error| format!("signals cannot be received: {error}"))?;
    let owner = Arc::clone(&member);
    let tls = move || owner.tls.as_ref().map(TlsFiles::server);
    tokio::spawn(serve(listener, tls, Arc::new(Routes(Arc::clone(&member)))));
    if let Some(address) = member.settings.listen_health {
        let listener = TcpListener::bind(address).await.map_err(listens)?;
        tokio::spawn(serve(listener, || None, Arc::new(Probes(Arc::clone(&member)))));
    }
    create(&member)?;
    tokio::spawn(member::keep_running(Arc::clone(&member)));
    tokio::spawn(orders::keep_confirmed(Arc::clone(&member)));
    ends.recv().await;
    end(&member).await;
    Ok(())
}

/// The member that may create data does so if there is none.
fn create(member: &RedisMember) -> Result<(), String> {
    let Settings { primary, member: name, data, epoch, .. } = &member.settings;
    let text = |error: std::io::Error| error.to_string();
    if primary != name || !data.is_empty() || member.volume.found(&FILES).map_err(text)? != FoundData::Nothing {
        return Ok(());
    }
    let identity = Identity { data: member::random()?, ..Identity::default() };
    std::fs::create_dir(member.volume.arriving()).map_err(text)?;
    member.volume.adopt(&identity).map_err(text)?;
    member.obey(|obeyed| obeyed.epoch = obeyed.epoch.max(*epoch)).map_err(|refusal| refusal.message)?;
    member.change(|facts| (facts.identity, facts.wanted) = (Some(identity), true));
    Ok(())
}

/// Continues as the primary until the operator, which sees that the pod ends, has made another member the primary; then ends Redis. One
/// whose writes are not all acknowledged is killed.
async fn end(member: &Arc<RedisMember>) {
    let until = Instant::now() + (member.settings.grace / 3).min(Duration::from_secs(10));
    let is_in_office = |state: &MemberState| match state.role {
        Role::Primary => state.acks > 0 && !state.acknowledging.is_empty(),
        Role::Fenced => true,
        Role::Replica | Role::Waiting => false,
    };
    while Instant::now() < until && is_in_office(&member.state().await) {
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // No order begins from here on.
    let _guard = member.orders.lock().await;
    let waits = member.facts(|facts| facts.role == Role::Primary && facts.acks > 0);
    let is_clean = !waits || orders::demote(member, member.settings.grace / 2).await.is_ok();
    let running = member.facts(|facts| facts.running.clone());
    member.change(|facts| facts.wanted = false);
    if let Some(server) = running.filter(|_| is_clean) {
        // It closes the connection instead of an answer.
        let _ = server.ask(&["SHUTDOWN", "NOSAVE", "NOW", "FORCE"], SHORT).await;
        let _ = tokio::time::timeout(member.settings.grace, server.ended()).await;
    }
    let _ = member.ended().await;
}

impl routes::Member for RedisMember {
    async fn state(self: Arc<Self>) -> MemberState {
        RedisMember::state(&self).await
    }
    async fn leaves(self: Arc<Self>, start: &str) {
        self.wait_until(|facts| (facts.start != start).then_some(())).await;
    }
    async fn obey(self: Arc<Self>, verb: Verb) -> Result<MemberState, Refusal> {
        orders::obey(self, verb).await
    }
    async fn copy(self: Arc<Self>) -> Result<Response<Body>, Refusal> {
        copies::copy(self).await
    }
}

/// The requests of the kubelet.
struct Probes(Arc<RedisMember>);

impl Answers for Probes {
    async fn answer(self: Arc<Self>, asked: Asked) -> Response<Body> {
        match asked.path.as_str() {
            // One that waits for an order is well. A restart would not help.
            "/healthz" => answer(200, "text/plain", b"ok".to_vec()),
            "/readyz" if self.0.state().await.serves(LAG) => answer(200, "text/plain", b"ok".to_vec()),
            "/readyz" => answer(503, "text/plain", b"not ready".to_vec()),
            _ => answer(404, "text/plain", b"not found".to_vec()),
        }
    }
}
