//! The program: it starts, answers, and ends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Response;
use rustix::process::{Pid, WaitOptions, getpid, waitpid};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::command::Flags;
use super::create::create;
use super::declare::keep_declared;
use super::facts::Wanted;
use super::hung::keep_answering;
use super::keeper::{SHORT, keep_confirmed, keep_open, keep_running};
use super::live::keep_live;
use super::logs::give;
use super::member::DatabaseMember;
use super::metrics;
use super::orders::obey;
use super::release::keep_acknowledged;
use super::renewed::keep_renewed;
use super::roles::{complete, demote};
use super::scheduler::keep_scheduled;
use super::seed::{copy_out, dump_out};
use super::zones::keep_zones;
use tillerman_agent::contract::{MemberState, Refusal, Role, Verb};
use tillerman_agent::routes::{self, Routes, answer};
use tillerman_agent::server::{Answers, Asked, Body, serve};
use tillerman_agent::tls::TlsFiles;

/// How long a process that has ended stays for the tasks that wait for it.
const REAP: Duration = Duration::from_secs(1);

/// The maximum time that a primary that is asked to end waits for a new primary.
const HAND_OVER: Duration = Duration::from_secs(10);
/// The maximum time that a replica that is asked to end applies the writes that it has received.
const COMPLETE: Duration = Duration::from_secs(10);
/// How often it looks whether a member acknowledges.
const HAND_OVER_LOOK: Duration = Duration::from_millis(200);

/// Runs until it is asked to end. The error is a sentence.
pub async fn run(flags: Flags) -> Result<(), String> {
    flags.check()?;
    let listens = |error: std::io::Error| format!("the agent cannot listen: {error}");
    let files = flags.tls().map(|tls| TlsFiles::read(&tls)).transpose().map_err(|error| error.to_string())?;
    let listener = TcpListener::bind(flags.listen).await.map_err(listens)?;
    let health = match flags.listen_health {
        Some(address) => Some(TcpListener::bind(address).await.map_err(listens)?),
        None => None,
    };
    let (mut ends, mut interrupts) = signals().map_err(|error| format!("signals cannot be received: {error}"))?;
    if getpid().is_init() {
        tokio::spawn(reap());
    }
    let member = Arc::new(DatabaseMember::new(flags, files)?);
    let owner = Arc::clone(&member);
    let tls = move || owner.tls.as_ref().map(TlsFiles::server);
    tokio::spawn(serve(listener, tls, Arc::new(Routes(Arc::clone(&member)))));
    if let Some(health) = health {
        tokio::spawn(serve(health, || None, Arc::new(Probes(Arc::clone(&member)))));
    }
    tokio::spawn(begin(Arc::clone(&member)));
    tokio::spawn(Arc::clone(&member).keep_asking());
    tokio::spawn(keep_answering(Arc::clone(&member)));
    tokio::spawn(keep_running(Arc::clone(&member)));
    tokio::spawn(keep_open(Arc::clone(&member)));
    tokio::spawn(keep_confirmed(Arc::clone(&member)));
    tokio::spawn(keep_acknowledged(Arc::clone(&member)));
    tokio::spawn(keep_declared(Arc::clone(&member)));
    tokio::spawn(keep_scheduled(Arc::clone(&member)));
    tokio::spawn(keep_zones(Arc::clone(&member)));
    tokio::spawn(keep_renewed(Arc::clone(&member)));
    tokio::spawn(keep_live(Arc::clone(&member)));
    tracing::info!(member = member.flags.member, "the agent answers");
    tokio::select! {
        _ = ends.recv() => {}
        _ = interrupts.recv() => {}
    }
    end(&member).await;
    Ok(())
}

fn signals() -> std::io::Result<(tokio::signal::unix::Signal, tokio::signal::unix::Signal)> {
    Ok((signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?))
}

/// The member that may create data does so if there is none.
async fn begin(member: Arc<DatabaseMember>) {
    let flags = &member.flags;
    let is_empty = member.facts(|facts| facts.identity.is_none() && facts.problem.is_none());
    if !is_empty || flags.primary != flags.member || !flags.data.is_empty() {
        return;
    }
    let guard = member.orders.lock().await;
    let created = create(&member).await;
    match created {
        Ok(identity) => {
            let stored = member.obey(|obeyed| obeyed.epoch = obeyed.epoch.max(flags.epoch));
            member.change(|facts| {
                (facts.identity, facts.wanted) = (Some(identity), Wanted::Keeping);
                facts.problem = stored.err().map(|refusal| refusal.message);
            });
        }
        Err(why) => {
            tracing::error!(why, "the data cannot be created");
            member.change(|facts| facts.problem = Some(format!("the data cannot be created: {why}")));
        }
    }
    drop(guard);
}

/// Continues as the primary until the operator, which sees that the pod ends, has made another member the primary. Nobody takes over while
/// no member acknowledges, or if the operator is away.
async fn hand_over(member: &Arc<DatabaseMember>, within: Duration) {
    let end = Instant::now() + within;
    while Instant::now() < end {
        let (role, acks) = member.facts(|facts| (facts.role, facts.acks));
        let looks = role == Role::Primary && acks > 0;
        let acknowledges = looks && member.measure(SHORT).await.is_ok_and(|seen| !seen.acknowledging.is_empty());
        if !is_in_office(role, acks, acknowledges) {
            return;
        }
        let changed = member.wait_until(|facts| (facts.role != role).then_some(()));
        let _ = tokio::time::timeout(HAND_OVER_LOOK, changed).await;
    }
}

/// Whether another member can be expected to take over from one that ends. `acknowledges`: whether any member does.
fn is_in_office(role: Role, acks: u32, acknowledges: bool) -> bool {
    match role {
        Role::Primary => acks > 0 && acknowledges,
        // It was demoted, and may have writes that the next primary lacks.
        Role::Fenced => true,
        Role::Replica | Role::Waiting => false,
    }
}

/// Ends the database. One whose commits still wait for acknowledgements is killed: asked to end, it would keep them,
/// and could no longer take them back.
async fn end(member: &Arc<DatabaseMember>) {
    tracing::info!("the agent ends");
    let grace = Duration::from_secs(member.flags.grace);
    hand_over(member, (grace / 3).min(HAND_OVER)).await;
    member.change(|facts| facts.stopping = true);
    let half = u64::try_from(grace.as_millis() / 2).unwrap_or(u64::MAX);
    let waits = member.facts(|facts| facts.role == Role::Primary && facts.acks > 0);
    let clean = !waits || demote(member, half).await.is_ok();
    // While the lock of orders is held, nothing lets the database receive again.
    let complete = complete(member, Duration::from_millis(half).min(COMPLETE)).await;
    let replica = member.facts(|facts| (facts.running.clone(), facts.start.clone(), facts.continues.clone()));
    let processes = member.facts(|facts| [facts.running.clone(), facts.starting.clone()]);
    for process in processes.iter().flatten() {
        if clean {
            process.terminate().await;
            if tokio::time::timeout(grace, process.ended()).await.is_ok() {
                continue;
            }
        }
        process.kill().await;
        process.ended().await;
    }
    if let (Some(_orders), (Some(database), start, continued)) = (complete, replica)
        && database.has_ended_in_order()
        && let Err(why) = member.keep_start(&start, &continued)
    {
        tracing::warn!(why, "cannot store the fact that the database ended cleanly");
    }
}

/// Waits for processes that nobody else waits for, as the first process of a container has to. Those that the agent started are waited
/// for where they were started, and at once.
async fn reap() {
    let Ok(mut ended) = signal(SignalKind::child()) else { return };
    let mut before = BTreeSet::new();
    loop {
        if before.is_empty() {
            ended.recv().await;
        }
        tokio::time::sleep(REAP).await;
        let now = ended_children();
        for process in before.intersection(&now).filter_map(|number| Pid::from_raw(*number)) {
            let _ = waitpid(Some(process), WaitOptions::NOHANG);
        }
        before = now;
    }
}

/// The children that have ended, and that nobody has waited for.
fn ended_children() -> BTreeSet<i32> {
    let own = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else { return BTreeSet::new() };
    let ended = |number: &i32| {
        let text = std::fs::read_to_string(format!("/proc/{number}/stat")).unwrap_or_default();
        // The name before it is in brackets, and may have brackets in it.
        let mut fields = text.rsplit(") ").next().unwrap_or_default().split(' ');
        fields.next() == Some("Z") && fields.next() == Some(&own)
    };
    let numbers = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(ended).collect()
}

impl routes::Member for DatabaseMember {
    async fn state(self: Arc<Self>) -> MemberState {
        DatabaseMember::state(&self).await
    }
    async fn leaves(self: Arc<Self>, start: &str) {
        self.wait_until(|facts| (facts.start != start).then_some(())).await;
    }
    async fn obey(self: Arc<Self>, verb: Verb) -> Result<MemberState, Refusal> {
        obey(self, verb).await
    }
    async fn copy(self: Arc<Self>) -> Result<Response<Body>, Refusal> {
        copy_out(&self).await
    }
    async fn dump(self: Arc<Self>) -> Result<Response<Body>, Refusal> {
        dump_out(&self).await
    }
    async fn log(self: Arc<Self>, query: &str) -> Result<Response<Body>, Refusal> {
        give(&self, query).await
    }
}

/// The requests of the kubelet and Prometheus.
struct Probes(Arc<DatabaseMember>);

impl Answers for Probes {
    async fn answer(self: Arc<Self>, asked: Asked) -> Response<Body> {
        let ready = match asked.path.as_str() {
            "/metrics" => return answer(200, metrics::TYPE, metrics::metrics(&self.0).await.into_bytes()),
            // A database that waits for an order is well, and one that hangs is the agent's matter. To restart the container would help nobody.
            "/healthz" => true,
            "/readyz" => {
                let answers = self.0.facts(|facts| facts.hung.is_none());
                answers && self.0.state().await.serves(self.0.flags.ready_lag)
            }
            _ => return answer(404, "text/plain", b"not found".to_vec()),
        };
        if ready { answer(200, "text/plain", b"ok".to_vec()) } else { answer(503, "text/plain", b"not ready".to_vec()) }
    }
}

#[cfg(test)]
mod tests {
    use super::is_in_office;
    use tillerman_agent::contract::Role;

    #[test]
    fn a_primary_that_ends_waits_for_another_one_if_there_can_be_one() {
        for (role, acks, acknowledges, expected) in [
            (Role::Primary, 1, true, true),
            (Role::Primary, 1, false, false),
            (Role::Primary, 0, true, false),
            (Role::Fenced, 0, false, true),
            (Role::Replica, 1, true, false),
            (Role::Waiting, 1, true, false),
        ] {
            assert_eq!(is_in_office(role, acks, acknowledges), expected, "{role:?} {acks} {acknowledges}");
        }
    }
}
