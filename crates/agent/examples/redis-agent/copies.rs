//! Copies of the data: given to another member, and taken from one. Redis makes them for its replicas; the agent passes one on.

use std::io::{self, ErrorKind, Write as _};
use std::sync::Arc;
use std::time::Duration;

use http::Response;
use http_body_util::BodyExt as _;
use hyper::body::Bytes;
use tillerman_agent::client::Client;
use tillerman_agent::contract::{Busy, Reason, Refusal, Role, Seed};
use tillerman_agent::server::{Body, in_parts};
use tillerman_agent::store::{FoundData, Identity};
use tillerman_agent::stored::{DATA, VERSION};
use tillerman_agent::tls::TlsFiles;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::member::{FILES, RedisMember, SHORT, failed, refused};
use crate::server::{Connection, line};

/// How long a part may take.
const STALLS: Duration = Duration::from_secs(120);
/// The size of a part in bytes.
const PART: usize = 256 << 10;

/// A copy of the data, as Redis gives it to a replica.
pub async fn copy(member: Arc<RedisMember>) -> Result<Response<Body>, Refusal> {
    let (identity, running) = member.facts(|facts| (facts.identity.clone(), facts.running.clone()));
    let identity = identity.ok_or_else(|| Refusal::new(Reason::OtherData, "there is no data to copy"))?;
    let server = running.ok_or_else(|| Refusal::new(Reason::DatabaseDown, "Redis does not run"))?;
    let Ok(guard) = Arc::clone(&member.copies).try_lock_owned() else {
        return Err(Refusal::new(Reason::Busy, "another copy is being made"));
    };
    let info = server.info(SHORT).await.map_err(|error| refused(&error))?;
    if info.follows() && !info.is_linked() {
        return Err(Refusal::new(Reason::Busy, "it follows no source, and Redis gives no copy of it"));
    }
    let mut connection = server.connect().await.map_err(|error| refused(&error))?;
    let begun = timeout(SHORT, connection.ask(&["PSYNC", "?", "-1"])).await;
    let begun = begun.map_err(|_| Refusal::new(Reason::DatabaseDown, "Redis does not answer"))?;
    begun.map_err(|error| refused(&error))?;
    let (sender, parts) = mpsc::channel(2);
    tokio::spawn(async move {
        if let Err(error) = send(connection, &sender).await {
            // The receiver may have gone.
            let _ = sender.send(Err(error)).await;
        }
        drop(guard);
    });
    let response = Response::builder().header(DATA, identity.data).header(VERSION, info.get("redis_version"));
    response.body(in_parts(parts)).map_err(|error| failed(&error.to_string()))
}

/// The copy, whose length Redis says. Before that it sends empty lines.
async fn send(mut connection: Connection, parts: &mpsc::Sender<io::Result<Bytes>>) -> io::Result<()> {
    let from = &mut connection.0;
    let stalls = |_| io::Error::from(ErrorKind::TimedOut);
    while timeout(STALLS, from.fill_buf()).await.map_err(stalls)??.first() == Some(&b'\n') {
        from.consume(1);
    }
    let length = line(from).await?;
    let mut left: u64 =
        length.strip_prefix('$').and_then(|length| length.parse().ok()).ok_or(ErrorKind::InvalidData)?;
    while left > 0 {
        let mut part = vec![0; PART.min(usize::try_from(left).unwrap_or(PART))];
        timeout(STALLS, from.read_exact(&mut part)).await.map_err(stalls)??;
        left -= part.len() as u64;
        let sent = timeout(STALLS, parts.send(Ok(part.into()))).await.map_err(stalls)?;
        sent.map_err(|_| io::Error::from(ErrorKind::BrokenPipe))?;
    }
    Ok(())
}

/// Begins to replace the data by a copy.
pub fn begin(member: &Arc<RedisMember>, order: &Seed) -> Result<(), Refusal> {
    let request = serde_json::to_string(order).map_err(|error| failed(&error.to_string()))?;
    let facts = member.facts(Clone::clone);
    if let Some(running) = facts.seeding {
        let is_same = running == request;
        return if is_same { Ok(()) } else { Err(Refusal::new(Reason::Busy, "another copy is being made")) };
    }
    match facts.identity {
        Some(identity) if identity.seeded.as_deref() == Some(&request) => return Ok(()),
        Some(_) if facts.role == Role::Primary => return Err(Refusal::new(Reason::HasData, "it is the primary")),
        Some(_) if facts.start.is_empty() || order.discard.as_deref() != Some(&facts.start) => {
            return Err(Refusal::new(Reason::HasData, "it has data, and `discard` is not its start"));
        }
        Some(_) => {}
        None => match member.volume.found(&FILES) {
            Ok(FoundData::Nothing) => {}
            Ok(FoundData::Foreign(why)) => return Err(Refusal::new(Reason::HasData, &why)),
            Ok(FoundData::Ours(_)) => return Err(failed("data appeared that the agent did not put there")),
            Err(error) => return Err(failed(&error.to_string())),
        },
    }
    member.change(|facts| {
        facts.seeding = Some(request.clone());
        facts.busy = Some(Busy { work: "seed".to_owned(), done: 0, of: None });
    });
    let (member, order) = (Arc::clone(member), order.clone());
    tokio::spawn(async move {
        let done = take(&member, &order, request).await;
        let _ = std::fs::remove_dir_all(member.volume.arriving());
        member.change(|facts| {
            (facts.seeding, facts.busy) = (None, None);
            // Without data the operator would take a problem for foreign files. It orders the same again.
            facts.problem = done.err().filter(|_| facts.identity.is_some());
        });
    });
    Ok(())
}

async fn take(member: &Arc<RedisMember>, order: &Seed, request: String) -> Result<(), String> {
    let text = |error: io::Error| error.to_string();
    let arriving = member.volume.arriving();
    member.volume.sweep().map_err(text)?;
    std::fs::create_dir(&arriving).map_err(text)?;
    let client = Client { tls: member.tls.as_ref().map(TlsFiles::client) };
    let copy = client.copy(&order.donor, STALLS).await.map_err(|error| error.to_string())?;
    let header = |name: &str| copy.headers().get(name).and_then(|value| value.to_str().ok()).map(str::to_owned);
    if header(DATA).as_deref() != Some(&order.data) {
        return Err("the donor has other data".to_owned());
    }
    let version = header(VERSION);
    let mut file = std::fs::File::create(arriving.join("dump.rdb")).map_err(text)?;
    let mut body = copy.into_body();
    while let Some(frame) = timeout(STALLS, body.frame()).await.map_err(|_| "the donor sends nothing")? {
        let frame = frame.map_err(|error| format!("the copy is not complete: {error}"))?;
        if let Ok(part) = frame.into_data() {
            file.write_all(&part).map_err(text)?;
            member.change(|facts| facts.busy.iter_mut().for_each(|busy| busy.done += part.len() as u64));
        }
    }
    let identity = Identity { data: order.data.clone(), seeded: Some(request), version, ..Identity::default() };
    let _guard = member.orders.lock().await;
    if let Some(discard) = &order.discard {
        if member.facts(|facts| facts.start != *discard) {
            return Err("Redis has restarted, and its data may have changed".to_owned());
        }
        member.ended().await.map_err(|refusal| refusal.message)?;
        member.volume.discard().map_err(text)?;
        member.change(|facts| facts.identity = None);
    }
    member.forget();
    member.volume.adopt(&identity).map_err(text)?;
    member.obey(|obeyed| obeyed.promoted = None).map_err(|refusal| refusal.message)?;
    member.change(|facts| (facts.identity, facts.wanted, facts.problem) = (Some(identity), true, None));
    let _ = timeout(STALLS, member.wait_until(|facts| facts.running.clone())).await;
    Ok(())
}
