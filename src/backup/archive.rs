//! Stores what was written after a copy, without a gap: logs that the agents of the members give.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::BackupError;
use super::copy::{Agents, Heard, headers, parts};
use super::place::StorePlace;
use super::record::{Log, Of, Record, log_stem};
use super::shelf::{self, Condition};
use crate::agent::contract::{LOG, Role};
use crate::agent::position::Position;
use crate::agent::stored::{DATA, TIMES, WRITES};

/// How often a run asks the members again while they do not have everything that the primary had, and the pause
/// between.
const PASSES: u32 = 10;
const AGAIN: Duration = Duration::from_millis(200);
/// Logs of one run. More are left to the next one.
const LOGS: usize = 1000;

/// Where an archive ends: a small document beside the logs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct End {
    /// The identity of the data.
    pub data: String,
    /// The stored logs, with the position before the first log.
    pub has: Position,
    /// At this time, every write that had been acknowledged was stored.
    pub seen: Timestamp,
}

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Archived {
    /// The logs that were stored.
    pub names: Vec<String>,
    /// Where the archive ends.
    pub end: End,
}

/// The name of the document that says where an archive ends.
pub fn end_name(prefix: &str, data: &str) -> String {
    format!("{}end", log_stem(prefix, data))
}

/// The writes that a fail-over keeps: those of the primary that members which acknowledge have, too. A write that only one member has may
/// be taken back.
pub fn acknowledged(heard: &[Heard]) -> Option<Position> {
    let mut primaries = heard.iter().filter(|own| own.state.role == Role::Primary);
    let primary = &primaries.next().filter(|_| primaries.next().is_none())?.state;
    let replicas = heard.iter().map(|own| &own.state).filter(|state| state.role == Role::Replica && state.acknowledges);
    match primary.acks {
        0 => Some(primary.has.clone()),
        1 => Some(primary.has.common(&replicas.fold(Position::none(), |all, own| all.with(&own.got)))),
        _ => Some(replicas.fold(primary.has.clone(), |all, own| all.common(&own.got))),
    }
}

/// Stores what is not stored yet. With `after_gap`, an archive whose continuation no member has begins again.
pub async fn archive(
    agents: &Agents,
    place: &StorePlace,
    prefix: &str,
    after_gap: bool,
) -> Result<Archived, BackupError> {
    let seen = Timestamp::now();
    let mut heard = agents.heard().await?;
    let data = heard[0].state.data.clone().unwrap_or_default();
    let document = end_name(prefix, &data);
    // Each write that was acknowledged before is among them; those that are under way are, too.
    let all = heard.iter().find(|own| own.state.role == Role::Primary).map(|own| own.state.has.clone());
    let mut names = Vec::new();
    let mut known: Option<End> = shelf::read_document(place, &document).await?;
    for pass in 1..=PASSES {
        let until = acknowledged(&heard);
        let until = until.ok_or_else(|| BackupError::Agent("exactly one primary has to answer".into()))?;
        let (donor, after) = donor(&heard, known.as_ref(), after_gap && pass == 1)?;
        let before = known.map_or(Timestamp::UNIX_EPOCH, |end| end.seen);
        let mut end = End { data: data.clone(), has: after, seen: before };
        store(agents, place, prefix, donor, &until, &mut end, &mut names).await?;
        let is_complete = all.as_ref().is_some_and(|all| end.has.contains(all));
        if is_complete {
            end.seen = seen;
        }
        if is_complete || pass == PASSES {
            shelf::write_document(place, &document, &end).await?;
            return Ok(Archived { names, end });
        }
        known = Some(end);
        // A replica has not received or applied everything yet.
        tokio::time::sleep(AGAIN).await;
        heard = agents.heard().await?;
    }
    unreachable!("the last pass returns")
}

/// Stores the logs of a member up to there.
async fn store(
    agents: &Agents,
    place: &StorePlace,
    prefix: &str,
    donor: &Heard,
    until: &Position,
    end: &mut End,
    names: &mut Vec<String>,
) -> Result<(), BackupError> {
    while names.len() < LOGS {
        let path = format!("{LOG}?after={}&until={until}", end.has);
        let answer = agents.client.stream(&donor.url, &path, agents.timeout).await;
        let answer = answer.map_err(|error| BackupError::Agent(error.to_string()))?;
        let wrong = |why: &str| BackupError::Agent(format!("{}: {why}", donor.url));
        let headers = headers(&answer).map_err(|why| wrong(&why))?;
        if headers.get(DATA) != Some(&end.data) {
            return Err(wrong("it has other data now"));
        }
        if answer.status() == http::StatusCode::NO_CONTENT {
            break;
        }
        let log = log(&headers, &end.data, &end.has).map_err(|why| wrong(&why))?;
        if end.has.contains(&log.writes) || !until.contains(&log.writes) {
            return Err(wrong("it sends writes that were not requested"));
        }
        let writes = log.writes.clone();
        let record = Record::begun(Timestamp::now(), Of::Log(log));
        let name = record.name(prefix);
        let saved = shelf::save_stream(place, &name, &record, parts(answer.into_body(), donor.url.clone()), |_| {});
        Box::pin(saved).await?;
        names.push(name);
        end.has = end.has.clone().with(&writes);
        shelf::write_document(place, &end_name(prefix, &end.data), end).await?;
    }
    Ok(())
}

/// The member to ask, and the position after which its logs are wanted: the end of the archive, or the position before
/// the oldest log.
fn donor<'a>(heard: &'a [Heard], known: Option<&End>, after_gap: bool) -> Result<(&'a Heard, Position), BackupError> {
    let runs = || heard.iter().filter(|own| !own.state.start.is_empty() && !own.state.diverged);
    let primary = heard.iter().find(|own| own.state.role == Role::Primary);
    let oldest = || {
        let oldest = runs().min_by_key(|own| own.state.purged.count());
        oldest.ok_or_else(|| BackupError::Agent("no member has a database that runs".into()))
    };
    let Some(known) = known else {
        let oldest = oldest()?;
        return Ok((oldest, oldest.state.purged.clone()));
    };
    if let Some(primary) = primary.filter(|own| !own.state.has.contains(&known.has)) {
        return Err(BackupError::Agent(format!(
            "the archive has writes up to {}, and the primary {} only {}: the later writes were lost, and the archive \
             no longer fits the data. Take a copy, and archive with another prefix",
            known.has, primary.state.member, primary.state.has
        )));
    }
    let fits = runs().filter(|own| known.has.contains(&own.state.purged));
    // A replica, where one has as much as the others.
    let best = fits.max_by_key(|own| (own.state.has.count(), own.state.role == Role::Replica));
    match best {
        Some(best) => Ok((best, known.has.clone())),
        None if after_gap => {
            let oldest = oldest()?;
            Ok((oldest, oldest.state.purged.clone()))
        }
        None => Err(BackupError::Agent(format!(
            "the archive ends at {}, and the oldest log of a member begins after {}: the writes between them are lost. \
             Take a copy, and continue after the gap with --after-gap",
            known.has,
            oldest()?.state.purged
        ))),
    }
}

/// The facts about a log in the headers.
fn log(headers: &BTreeMap<String, String>, data: &str, after: &Position) -> Result<Log, String> {
    let field = |name: &str| headers.get(name).ok_or_else(|| format!("the log does not have {name}"));
    let writes = field(WRITES)?.parse::<Position>()?;
    let time = |text: &str| Timestamp::from_second(text.parse().ok()?).ok();
    let times = field(TIMES)?.split_once('-').and_then(|(first, last)| Some((time(first)?, time(last)?)));
    let (first, last) = times.ok_or("its times are not valid")?;
    Ok(Log { data: data.to_owned(), after: after.clone(), writes, first, last })
}

/// Deletes the logs that every kept copy has: no restore needs them. Returns their names.
pub async fn prune(place: &StorePlace, prefix: &str, dry_run: bool) -> Result<Vec<String>, BackupError> {
    let backups = shelf::list(place, Some(prefix)).await?;
    let good = backups.iter().filter(|backup| backup.condition == Condition::Good);
    let mut kept: BTreeMap<&str, Position> = BTreeMap::new();
    for copy in good.filter_map(|backup| backup.record.as_ref()?.copy()) {
        let common = kept.remove(copy.data.as_str()).map(|known| known.common(&copy.position));
        kept.insert(&copy.data, common.unwrap_or_else(|| copy.position.clone()));
    }
    let mut names = Vec::new();
    for (data, position) in kept {
        for (name, record) in shelf::logs(place, prefix, data).await? {
            if record.log().is_some_and(|log| position.contains(&log.writes)) {
                if !dry_run {
                    shelf::remove(place, &name).await?;
                }
                names.push(name);
            }
        }
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::{End, acknowledged, donor};
    use crate::agent::contract::{MemberState, Role};
    use crate::backup::copy::Heard;
    use jiff::Timestamp;

    fn member(name: &str, role: Role, has: &str, purged: &str) -> Heard {
        let (has, purged): (crate::agent::position::Position, _) = (has.parse().unwrap(), purged.parse().unwrap());
        let acknowledges = role == Role::Replica;
        let state = MemberState {
            member: name.into(),
            start: "s".into(),
            role,
            acks: u32::from(role == Role::Primary),
            got: has.clone(),
            has,
            purged,
            acknowledges,
            ..MemberState::default()
        };
        Heard { url: format!("http://{name}"), state }
    }

    #[test]
    fn only_what_a_fail_over_keeps_is_stored() {
        let mut all = vec![
            member("p", Role::Primary, "0-1:1-20", ""),
            member("a", Role::Replica, "0-1:1-15", ""),
            member("b", Role::Replica, "0-1:1-18", ""),
        ];
        let shown = |all: &[super::Heard]| acknowledged(all).map(|position| position.to_string());
        assert_eq!(shown(&all).as_deref(), Some("0-1:1-18"));
        all[2].state.acknowledges = false;
        assert_eq!(shown(&all).as_deref(), Some("0-1:1-15"));
        all[0].state.acks = 0;
        assert_eq!(shown(&all).as_deref(), Some("0-1:1-20"));
        // With two, both have it.
        all[0].state.acks = 2;
        all[2].state.acknowledges = true;
        assert_eq!(shown(&all).as_deref(), Some("0-1:1-15"));
        assert_eq!(shown(&all[1..]), None);
        all[1].state.role = Role::Primary;
        assert_eq!(shown(&all), None, "two primaries");
    }

    #[test]
    fn a_member_that_has_what_follows_is_asked() {
        let mut all = vec![
            member("p", Role::Primary, "0-1:1-20", "0-1:1-5"),
            member("a", Role::Replica, "0-1:1-20", "0-1:1-12"),
            member("b", Role::Replica, "0-1:1-18", "0-1:1-8"),
        ];
        let asked_of = |all: &[Heard], known: Option<&str>, after_gap| {
            let end = known.map(|has| End { data: "d".into(), has: has.parse().unwrap(), seen: Timestamp::UNIX_EPOCH });
            match donor(all, end.as_ref(), after_gap) {
                Ok((own, after)) => format!("{} {after}", own.state.member),
                Err(error) => error.to_string(),
            }
        };
        let asked = |known: Option<&str>, after_gap| asked_of(&all, known, after_gap);
        assert_eq!(asked(None, false), "p 0-1:1-5");
        assert_eq!(asked(Some("0-1:1-15"), false), "a 0-1:1-15");
        assert_eq!(asked(Some("0-1:1-9"), false), "p 0-1:1-9");
        let gap = asked(Some("0-1:1-3"), false);
        assert!(gap.contains("ends at 0-1:1-3") && gap.contains("begins after 0-1:1-5"), "{gap}");
        assert_eq!(asked(Some("0-1:1-3"), true), "p 0-1:1-5");
        assert!(asked(Some("0-1:1-21"), true).contains("were lost"));
        // A member that diverged, and one whose database does not run, are not asked.
        all[1].state.diverged = true;
        assert_eq!(asked_of(&all, Some("0-1:1-15"), false), "p 0-1:1-15");
        all[0].state.start.clear();
        assert_eq!(asked_of(&all, Some("0-1:1-15"), false), "b 0-1:1-15");
        assert_eq!(asked_of(&all, None, false), "b 0-1:1-8");
    }
}
