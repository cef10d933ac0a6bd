//! The events of a binary log of MySQL, as the steps of an import (`libs/mysql/binlog/event` of MySQL has their form). Everything in them is
//! hostile input: what an event does not have is an error, and never a panic.

use std::collections::BTreeMap;

use data_encoding::BASE64;
use futures::StreamExt as _;
use mysql_async::binlog::events::{Event, TransactionPayloadEvent};

use super::ANSWER;
use super::record::{Record, name, quoted};
use super::source::is_hidden;
use super::stream::{Mark, Step, Steps, is_own, without_definer, words};
use crate::sql::{Address, SqlError, of};

/// The length of the header of an event.
const HEADER: usize = 19;
/// The most tables of one statement, and the most bytes of their descriptions.
const TABLES: usize = 4096;
const DESCRIBED: usize = 16 << 20;
/// The table of an event of rows that has none, and only ends a statement.
const NO_TABLE: u64 = (1 << 48) - 1;
/// The flag of an event of rows that ends its statement.
const ENDS: u8 = 1;
/// The flag of the header of a statement that needs no default database.
const NO_USE: u16 = 8;
/// The flag of the header of an event that a reader who does not know it may ignore.
const IGNORABLE: u16 = 0x80;

// The kinds of events.
const QUERY: u8 = 2;
const STOP: u8 = 3;
const ROTATE: u8 = 4;
const FORMAT: u8 = 15;
const XID: u8 = 16;
const TABLE_MAP: u8 = 19;
const INCIDENT: u8 = 26;
const HEARTBEAT: u8 = 27;
const ROWS_QUERY: u8 = 29;
const GTID: u8 = 33;
const ANONYMOUS: u8 = 34;
const PREVIOUS: u8 = 35;
const XA_PREPARE: u8 = 38;
const PAYLOAD: u8 = 40;
const HEARTBEAT_2: u8 = 41;
const GTID_TAGGED: u8 = 42;
/// Events of rows: of the first version, of the second, and those with parts of JSON.
const ROWS: [u8; 7] = [23, 24, 25, 30, 31, 32, 39];
/// What a statement depends on, which no statement that is taken does.
const OF_STATEMENTS: [u8; 3] = [5, 13, 14];
/// About groups of members.
const OF_GROUPS: [u8; 2] = [36, 37];

/// An event without its checksum.
pub struct Raw<'a> {
    kind: u8,
    flags: u16,
    time: u32,
    server: u32,
    /// The position after it; 0: it is in no file.
    end: u64,
    data: &'a [u8],
}

impl<'a> Raw<'a> {
    fn of(event: &'a Event) -> Self {
        let header = event.header();
        Self {
            kind: header.event_type_raw(),
            flags: header.flags_raw(),
            time: header.timestamp(),
            server: header.server_id(),
            end: u64::from(header.log_pos()),
            data: event.data(),
        }
    }

    /// The event as a file has it. `data` replaces its own.
    fn bytes(&self, data: &[u8]) -> Result<Vec<u8>, String> {
        let size = u32::try_from(HEADER + data.len()).map_err(|_| BROKEN)?;
        let end = u32::try_from(self.end).unwrap_or_default();
        let mut bytes = Vec::with_capacity(HEADER + data.len());
        bytes.extend(self.time.to_le_bytes());
        bytes.push(self.kind);
        for number in [self.server, size, end] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(self.flags.to_le_bytes());
        bytes.extend_from_slice(data);
        Ok(bytes)
    }
}

const BROKEN: &str = "the binary log of the source has an event that is not complete";
const STATEMENTS: &str = "a session of the source writes statements instead of rows: its binlog_format has to be ROW";

/// Between which events of a transaction the reader is.
#[derive(Debug, Default, PartialEq, Eq)]
enum Inside {
    /// Between two transactions.
    #[default]
    Nothing,
    /// After the event that numbers a transaction, which ends at this position.
    Numbered(u64),
    /// After its beginning, which becomes a step with what follows: the numbering ended at this position.
    Begun(u64),
    /// In it.
    Transaction,
}

/// Makes steps of events.
#[derive(Debug, Default)]
pub struct Events {
    at: Mark,
    inside: Inside,
    /// Whether the events are those of a compressed transaction, which have no positions in the file.
    packed: bool,
    /// The descriptions of the tables of a statement by their numbers; `None` if a table does not come.
    tables: BTreeMap<u64, Option<Vec<u8>>>,
    described: usize,
    /// The end of the last transaction.
    ended: Option<Mark>,
    /// The settings of the session that the last step has set.
    set: Vec<u8>,
}

impl Events {
    /// Reads from a position of this binary log on.
    pub fn new(file: &str, position: u64) -> Self {
        Self { at: Mark { file: file.to_owned(), position, ..Mark::default() }, ..Self::default() }
    }

    /// Takes the next event. The error is a sentence.
    pub fn take(&mut self, event: &Raw<'_>) -> Result<Vec<Step>, String> {
        if event.end > 0 && !self.packed {
            // A file can be larger than the numbers of positions.
            if event.end < self.at.position && event.kind != FORMAT {
                return Err("the binary log of the source is larger than 4 GiB: FLUSH BINARY LOGS there, delete this resource, and import again".to_owned());
            }
            self.at.position = event.end;
        }
        let mut steps = Vec::new();
        match event.kind {
            ROTATE => self.rotates(event.data)?,
            FORMAT if self.inside == Inside::Nothing => {
                self.settles(&mut steps);
                steps.push(format(event)?);
                // A description leaves open which GTID the next transaction has. It is one of the cluster.
                steps.push(Step::Run(b"SET SESSION gtid_next = 'AUTOMATIC'".to_vec()));
            }
            PREVIOUS if self.inside == Inside::Nothing => steps.push(self.skips()),
            GTID | ANONYMOUS | GTID_TAGGED => {
                if self.inside != Inside::Nothing {
                    return Err("the binary log of the source has a transaction without its end".to_owned());
                }
                (self.inside, self.packed) = (Inside::Numbered(self.at.position), false);
                self.forget();
            }
            PAYLOAD => self.packed = true,
            QUERY => return self.statement(event),
            TABLE_MAP => self.describes(event)?,
            kind if ROWS.contains(&kind) => self.rows(event, &mut steps)?,
            XID if matches!(self.inside, Inside::Begun(_) | Inside::Transaction) => {
                self.begins(&mut steps);
                steps.push(self.commits());
            }
            XA_PREPARE => return Err(XA.to_owned()),
            INCIDENT => {
                return Err("the source says that its binary log lacks writes: delete this resource, and import again"
                    .to_owned());
            }
            STOP | HEARTBEAT | HEARTBEAT_2 | ROWS_QUERY => {}
            kind if OF_GROUPS.contains(&kind) || OF_STATEMENTS.contains(&kind) || event.flags & IGNORABLE != 0 => {}
            kind => {
                return Err(format!(
                    "the binary log of the source has an event of the kind {kind}, which is not known here"
                ));
            }
        }
        Ok(steps)
    }

    fn forget(&mut self) {
        self.tables.clear();
        self.described = 0;
    }

    fn commits(&mut self) -> Step {
        (self.inside, self.packed) = (Inside::Nothing, false);
        self.forget();
        self.ended = Some(self.at.clone());
        Step::Commit(self.at.clone())
    }

    /// What comes next cannot be done in a transaction of the cluster, which may have some of the source: those that have ended are committed.
    fn settles(&mut self, steps: &mut Vec<Step>) {
        steps.extend(self.ended.take().map(Step::Skip));
    }

    fn rotates(&mut self, data: &[u8]) -> Result<(), String> {
        let file = data.get(8..).and_then(|name| std::str::from_utf8(name).ok()).ok_or(BROKEN)?;
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if file.len() > 250 || !file.chars().all(is_name) || super::stream::Writes::log(file, 0).is_none() {
            return Err("the binary log of the source has a name without a number".to_owned());
        }
        if file != self.at.file {
            self.at = Mark { file: file.to_owned(), position: 4, ..Mark::default() };
        }
        Ok(())
    }

    fn describes(&mut self, event: &Raw<'_>) -> Result<(), String> {
        let mut rest = Fields(event.data);
        let (number, _flags, length) = (rest.number(6)?, rest.number(2)?, rest.number(1)?);
        let database = String::from_utf8_lossy(rest.bytes(length)?);
        let kept = if is_hidden(&database) { None } else { Some(event.bytes(event.data)?) };
        self.described += event.data.len();
        self.tables.insert(number, kept);
        if self.tables.len() > TABLES || self.described > DESCRIBED {
            return Err("a statement of the source changes too many tables".to_owned());
        }
        Ok(())
    }

    /// Each event of rows becomes a statement of its own, with the description of its table: a statement of the source can be larger than what
    /// the cluster takes at once.
    fn rows(&mut self, event: &Raw<'_>, steps: &mut Vec<Step>) -> Result<(), String> {
        self.begins(steps);
        if self.inside != Inside::Transaction {
            return Err(BROKEN.to_owned());
        }
        let number = Fields(event.data).number(6)?;
        let flags = *event.data.get(6).ok_or(BROKEN)?;
        if number != NO_TABLE
            && let Some(table) = self.tables.get(&number).ok_or(BROKEN)?
        {
            let mut data = event.data.to_vec();
            data[6] |= ENDS;
            steps.push(replays(&[table.as_slice(), &event.bytes(&data)?].concat()));
        }
        if flags & ENDS != 0 {
            self.forget();
        }
        Ok(())
    }

    fn statement(&mut self, event: &Raw<'_>) -> Result<Vec<Step>, String> {
        let query = Query::read(event.data)?;
        let statement = without_definer(query.text);
        let words = words(&statement);
        let words: Vec<&str> = words.iter().map(|word| word.trim_end_matches(';')).collect();
        let mut steps = Vec::new();
        match (words.as_slice(), &self.inside) {
            (["XA", ..], _) => return Err(XA.to_owned()),
            (_, Inside::Nothing) => return Err(BROKEN.to_owned()),
            (["BEGIN"], Inside::Numbered(start)) => {
                let start = *start;
                self.sets(&mut steps, query.settings.of_rows());
                self.inside = Inside::Begun(start);
            }
            (["CREATE", "TABLE", ..], Inside::Begun(start)) => {
                let (start, text) = (*start, of_select(query.text).ok_or(STATEMENTS)?.to_vec());
                self.prepares(event, &query, &mut steps);
                self.inside = Inside::Transaction;
                steps.extend([Step::Begin(Some(start)), Step::Run(text)]);
            }
            (["DROP", "TEMPORARY", ..] | ["DROP", "/*!40005", "TEMPORARY", ..], inside) => {
                if let Inside::Numbered(_) = inside {
                    steps.push(self.skips());
                }
            }
            (words, Inside::Begun(_) | Inside::Transaction) => {
                self.begins(&mut steps);
                match words {
                    ["COMMIT"] => steps.push(self.commits()),
                    ["SAVEPOINT", ..] | ["ROLLBACK", "TO", ..] => steps.push(Step::Run(query.text.to_vec())),
                    ["ROLLBACK"] => return Err(ROLLBACK.to_owned()),
                    _ => return Err(STATEMENTS.to_owned()),
                }
            }
            (words, Inside::Numbered(_)) if is_own(words) || query.is_hidden() => steps.push(self.skips()),
            (["SET", "PASSWORD" | "DEFAULT" | "ROLE", ..], _) => steps.push(self.skips()),
            (["CREATE" | "ALTER" | "DROP" | "RENAME" | "TRUNCATE", ..], Inside::Numbered(_)) => {
                if query.error != 0 {
                    return Err("a statement that changes tables failed in part at the source".to_owned());
                }
                self.prepares(event, &query, &mut steps);
                self.inside = Inside::Nothing;
                steps.push(Step::Alone(statement.to_vec(), self.at.clone()));
            }
            (["INSERT" | "UPDATE" | "DELETE" | "REPLACE" | "LOAD", ..], _) => return Err(STATEMENTS.to_owned()),
            _ => return Err("the binary log of the source has a statement that is not known here".to_owned()),
        }
        Ok(steps)
    }

    /// The transaction has begun, if that is not a step yet.
    fn begins(&mut self, steps: &mut Vec<Step>) {
        if let Inside::Begun(_) = self.inside {
            self.inside = Inside::Transaction;
            steps.push(Step::Begin(None));
        }
    }

    fn skips(&mut self) -> Step {
        (self.inside, self.ended) = (Inside::Nothing, None);
        Step::Skip(self.at.clone())
    }

    /// Sets what rows depend on, if it is not set already.
    fn sets(&mut self, steps: &mut Vec<Step>, set: Vec<u8>) {
        if !set.is_empty() && self.set != set {
            steps.push(Step::Run(set.clone()));
            self.set = set;
        }
    }

    /// Gives the session what it had at the source for a statement.
    fn prepares(&mut self, event: &Raw<'_>, query: &Query<'_>, steps: &mut Vec<Step>) {
        self.settles(steps);
        steps.push(Step::Run(b"SET NAMES utf8mb4".to_vec()));
        if !query.database.is_empty() && event.flags & NO_USE == 0 {
            steps.push(Step::Run(format!("USE {}", name(&query.database)).into_bytes()));
        }
        steps.push(Step::Run(query.settings.of_statement(event.time)));
        self.set.clear();
    }
}

const ROLLBACK: &str = "the source has rolled a transaction back that also changed tables without transactions";
const XA: &str = "the source has transactions of XA, which an import cannot follow";

/// The table of `CREATE TABLE … AS SELECT`, whose rows follow in the same transaction. MySQL writes it with words that the statement of a
/// client does not have.
fn of_select(text: &[u8]) -> Option<&[u8]> {
    let text = text.trim_ascii_end().strip_suffix(b"START TRANSACTION")?;
    Some(text.trim_ascii_end())
}

/// A description of the format says which checksums the events have: here they have none.
fn format(event: &Raw<'_>) -> Result<Step, String> {
    // The length of a header, after the version of the log, that of the server, and a time.
    if event.data.get(56) != Some(&19) {
        return Err("the binary log of the source has a format that is not known here".to_owned());
    }
    Ok(replays(&event.bytes(&[event.data, &[0; 5]].concat())?))
}

fn replays(events: &[u8]) -> Step {
    Step::Run(format!("BINLOG '\n{}'", BASE64.encode(events)).into_bytes())
}

/// What is left of an event.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, length: u64) -> Result<&'a [u8], String> {
        let length = usize::try_from(length).map_err(|_| BROKEN)?;
        let (first, rest) = self.0.split_at_checked(length).ok_or(BROKEN)?;
        self.0 = rest;
        Ok(first)
    }

    /// A number of at most 8 bytes.
    fn number(&mut self, length: u64) -> Result<u64, String> {
        Ok(self.bytes(length)?.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }
}

/// A statement in a binary log.
#[derive(Debug)]
struct Query<'a> {
    text: &'a [u8],
    database: String,
    error: u64,
    settings: Settings,
}

/// The settings of the session that ran a statement.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    flags: Option<u64>,
    mode: Option<u64>,
    increment: (u64, u64),
    /// The character set of the client, the collation of the connection, and that of the server.
    charsets: Option<[u64; 3]>,
    zone: Option<String>,
    names_of_times: Option<u64>,
    collation: Option<u64>,
    micros: u64,
    explicit_defaults: Option<u64>,
    utf8mb4: Option<u64>,
    /// The databases that the statement changes.
    databases: Vec<String>,
}

impl<'a> Query<'a> {
    fn read(data: &'a [u8]) -> Result<Self, String> {
        let mut rest = Fields(data);
        let _session = rest.number(4)?;
        let _seconds = rest.number(4)?;
        let (length, error, settings) = (rest.number(1)?, rest.number(2)?, rest.number(2)?);
        let settings = Settings::read(rest.bytes(settings)?)?;
        let database = std::str::from_utf8(rest.bytes(length)?).map_err(|_| BROKEN)?.to_owned();
        let _end = rest.number(1)?;
        Ok(Self { text: rest.0, database, error, settings })
    }

    /// Whether it changes a database of the server or the agent.
    fn is_hidden(&self) -> bool {
        let databases = &self.settings.databases;
        databases.iter().any(|name| is_hidden(name)) || (databases.is_empty() && is_hidden(&self.database))
    }
}

impl Settings {
    fn read(data: &[u8]) -> Result<Self, String> {
        let (mut rest, mut is) = (Fields(data), Self { increment: (1, 1), ..Self::default() });
        while !rest.0.is_empty() {
            match rest.number(1)? {
                0 => is.flags = Some(rest.number(4)?),
                1 => is.mode = Some(rest.number(8)?),
                // A catalogue.
                2 => drop(text(&mut rest).and_then(|_| rest.bytes(1))?),
                3 => is.increment = (rest.number(2)?, rest.number(2)?),
                4 => is.charsets = Some([rest.number(2)?, rest.number(2)?, rest.number(2)?]),
                5 => is.zone = Some(text(&mut rest)?),
                6 => drop(text(&mut rest)?),
                7 => is.names_of_times = Some(rest.number(2)?),
                8 => is.collation = Some(rest.number(2)?),
                9 | 17 => drop(rest.number(8)?),
                10 => drop(rest.number(4)?),
                // Who runs it.
                11 => drop((text(&mut rest)?, text(&mut rest)?)),
                12 => {
                    let count = rest.number(1)?;
                    for _ in 0..if count == 254 { 0 } else { count } {
                        let end = rest.0.iter().position(|byte| *byte == 0).ok_or(BROKEN)?;
                        is.databases.push(String::from_utf8_lossy(rest.bytes(end as u64)?).into_owned());
                        rest.bytes(1)?;
                    }
                }
                13 => is.micros = rest.number(3)?,
                16 => is.explicit_defaults = Some(rest.number(1)?),
                18 => is.utf8mb4 = Some(rest.number(2)?),
                // Whether a table needs a primary key, or is encrypted: what the cluster says counts.
                19 | 20 => drop(rest.number(1)?),
                // Later settings are after those that are known.
                _ => break,
            }
        }
        Ok(is)
    }

    /// What the values of rows depend on: generated columns.
    fn of_rows(&self) -> Vec<u8> {
        let mut set = Vec::new();
        set.extend(self.mode.map(|mode| format!("sql_mode = {mode}")));
        set.extend(self.zone.as_ref().map(|zone| format!("time_zone = '{}'", quoted(zone))));
        if set.is_empty() { Vec::new() } else { format!("SET SESSION {}", set.join(", SESSION ")).into_bytes() }
    }

    /// Everything that a statement which changes tables depends on.
    fn of_statement(&self, time: u32) -> Vec<u8> {
        let mut set = vec![format!("timestamp = {time}.{:06}", self.micros)];
        if let Some(flags) = self.flags {
            let is = |flag: u64| u8::from(flags & flag != 0);
            set.push(format!("foreign_key_checks = {}", 1 - is(1 << 26)));
            set.push(format!("unique_checks = {}", 1 - is(1 << 27)));
            set.push(format!("sql_auto_is_null = {}", is(1 << 14)));
        }
        set.extend(self.mode.map(|mode| format!("sql_mode = {mode}")));
        let (increment, offset) = self.increment;
        set.extend([format!("auto_increment_increment = {increment}"), format!("auto_increment_offset = {offset}")]);
        if let Some([client, connection, server]) = self.charsets {
            set.push(format!("character_set_client = {client}"));
            set.push(format!("collation_connection = {connection}"));
            set.push(format!("collation_server = {server}"));
        }
        set.extend(self.zone.as_ref().map(|zone| format!("time_zone = '{}'", quoted(zone))));
        set.push(format!("lc_time_names = {}", self.names_of_times.unwrap_or_default()));
        set.push(match self.collation {
            Some(collation) => format!("collation_database = {collation}"),
            None => "collation_database = DEFAULT".to_owned(),
        });
        set.extend(self.explicit_defaults.map(|on| format!("explicit_defaults_for_timestamp = {on}")));
        set.extend(self.utf8mb4.map(|collation| format!("default_collation_for_utf8mb4 = {collation}")));
        format!("SET SESSION {}", set.join(", SESSION ")).into_bytes()
    }
}

/// A text with its length before it.
fn text(rest: &mut Fields<'_>) -> Result<String, String> {
    let length = rest.number(1)?;
    Ok(String::from_utf8_lossy(rest.bytes(length)?).into_owned())
}

/// Reads the binary log from where the record ends, and does not stop. The error is a sentence.
pub async fn read(source: Address, server: u32, record: Record, steps: Steps) -> Result<(), String> {
    let said = |error: SqlError| match error {
        // `ER_SOURCE_FATAL_ERROR_READING_BINLOG`
        SqlError::Server(1236) => format!(
            "the source no longer has its binary log from {} {} on: delete this resource, and import again",
            record.file, record.position
        ),
        error => format!("the source ended the stream of its binary log: {error}"),
    };
    let mut sql = source.connect(ANSWER).await.map_err(said)?;
    sql.run("SET @source_binlog_checksum = 'NONE'", ANSWER).await.map_err(said)?;
    let position = record.position.max(4);
    let mut log = sql.binary_log(server, &record.file, position).await.map_err(said)?;
    let mut events = Events::new(&record.file, position);
    loop {
        let event = tokio::select! {
            event = log.next() => event,
            () = steps.closed() => return Ok(()),
        };
        let event = event.ok_or_else(|| said(SqlError::Lost))?.map_err(|error| said(of(&error)))?;
        // The client passes over one that it cannot read.
        if event.header().event_type_raw() == PAYLOAD && event.read_event::<TransactionPayloadEvent<'_>>().is_err() {
            return Err(BROKEN.to_owned());
        }
        for step in events.take(&Raw::of(&event))? {
            if !steps.send(step).await {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BASE64, Events, Query, Raw, STATEMENTS, XA};
    use crate::import::stream::{Mark, Step};

    fn raw(kind: u8, end: u64, data: &[u8]) -> Raw<'_> {
        Raw { kind, flags: 0, time: 7, server: 2, end, data }
    }

    /// A statement in a database, with the settings of its session.
    fn query(database: &str, settings: &[u8], text: &str) -> Vec<u8> {
        let length = u16::try_from(settings.len()).unwrap().to_le_bytes();
        let head = [&[1, 0, 0, 0, 0, 0, 0, 0, u8::try_from(database.len()).unwrap(), 0, 0], length.as_slice()].concat();
        [head.as_slice(), settings, database.as_bytes(), b"\0", text.as_bytes()].concat()
    }

    /// The description of a table, and a change of its rows.
    fn table(number: u8, database: &str) -> Vec<u8> {
        let length = u8::try_from(database.len()).unwrap();
        [&[number, 0, 0, 0, 0, 0, 1, 0, length], database.as_bytes(), b"\0\x01t\0"].concat()
    }

    fn rows(number: u8, ends: u8) -> Vec<u8> {
        vec![number, 0, 0, 0, 0, 0, ends, 0, 2, 0, 9]
    }

    fn take(events: &[(u8, u64, Vec<u8>)]) -> Result<Vec<Step>, String> {
        let (mut reader, mut steps) = (Events::new("b.000001", 4), Vec::new());
        for (kind, end, data) in events {
            steps.extend(reader.take(&raw(*kind, *end, data))?);
        }
        Ok(steps)
    }

    fn mark(file: &str, position: u64) -> Mark {
        Mark { file: file.to_owned(), position, ..Mark::default() }
    }

    fn run(text: &str) -> Step {
        Step::Run(text.into())
    }

    /// The kinds of the events in a step.
    fn replayed(step: &Step) -> Vec<u8> {
        let Step::Run(text) = step else { panic!("{step:?}") };
        let text = text.strip_prefix(b"BINLOG '\n").and_then(|text| text.strip_suffix(b"'")).unwrap();
        let (bytes, mut kinds, mut at) = (BASE64.decode(text).unwrap(), Vec::new(), 0);
        while at < bytes.len() {
            kinds.push(bytes[at + 4]);
            at += u32::from_le_bytes(bytes[at + 9..at + 13].try_into().unwrap()) as usize;
        }
        assert_eq!(at, bytes.len());
        kinds
    }

    #[test]
    fn a_transaction_becomes_rows_between_a_beginning_and_an_end() {
        let begin = query("app", b"\x01\x20\0\0\0\0\0\0\0\x05\x06SYSTEM", "BEGIN");
        let steps = take(&[
            (33, 100, vec![]),
            (2, 150, begin.clone()),
            (19, 180, table(5, "app")),
            (19, 190, table(6, "MySQL")),
            (30, 200, rows(5, 0)),
            (30, 210, rows(6, 0)),
            (32, 220, rows(5, 1)),
            (16, 240, vec![0; 8]),
            // A compressed one has the position of the whole.
            (34, 300, vec![]),
            (40, 400, vec![]),
            (2, 3, begin),
            (16, 5, vec![0; 8]),
        ])
        .unwrap();
        let [set, begin, first, second, commit, rest @ ..] = steps.as_slice() else { panic!("{steps:?}") };
        assert_eq!((set, begin), (&run("SET SESSION sql_mode = 32, SESSION time_zone = 'SYSTEM'"), &Step::Begin(None)));
        // Rows of the server's own tables do not come, and each event has the description of its table.
        assert_eq!((replayed(first), replayed(second)), (vec![19, 30], vec![19, 32]));
        assert_eq!(commit, &Step::Commit(mark("b.000001", 240)));
        assert_eq!(rest, [Step::Begin(None), Step::Commit(mark("b.000001", 400))]);
    }

    #[test]
    fn statements_come_alone_with_the_settings_of_their_session() {
        let settings = b"\0\0\0\0\x04\x01\x20\0\0\0\0\0\0\0\x06\x03std\x04\x08\0\x1f\0\xff\0\x0c\x01app\0\x0d\x01\0\0";
        let set = run(
            "SET SESSION timestamp = 7.000001, SESSION foreign_key_checks = 0, SESSION unique_checks = 1, SESSION sql_auto_is_null = 0, \
             SESSION sql_mode = 32, SESSION auto_increment_increment = 1, SESSION auto_increment_offset = 1, SESSION character_set_client = 8, SESSION collation_connection = 31, SESSION collation_server = 255, \
             SESSION lc_time_names = 0, SESSION collation_database = DEFAULT",
        );
        let steps = take(&[
            (34, 100, vec![]),
            (2, 150, query("a`b", settings, "CREATE DEFINER=\"r\"@\"%\" VIEW v AS SELECT 1")),
            (33, 200, vec![]),
            (2, 250, query("", b"", "CREATE USER a")),
            (33, 300, vec![]),
            (2, 350, query("app", b"\x0c\x01TillerMan\0", "DROP TABLE tillerman.import")),
            (33, 400, vec![]),
            (2, 410, query("", b"", "BEGIN")),
            (2, 450, query("", b"", "CREATE TABLE `u` (\n  `id` int\n) START TRANSACTION")),
            (19, 460, table(5, "app")),
            (30, 470, rows(5, 1)),
            (16, 500, vec![0; 8]),
            (4, 600, b"\x04\0\0\0\0\0\0\0b.000002".to_vec()),
            (35, 157, vec![]),
        ])
        .unwrap();
        let names = || run("SET NAMES utf8mb4");
        assert_eq!(
            steps[..4],
            [
                names(),
                run("USE `a``b`"),
                set,
                Step::Alone(b"CREATE  VIEW v AS SELECT 1".to_vec(), mark("b.000001", 150))
            ]
        );
        assert_eq!(steps[4..6], [Step::Skip(mark("b.000001", 250)), Step::Skip(mark("b.000001", 350))]);
        assert_eq!(steps[6], names());
        assert_eq!(steps[8..10], [Step::Begin(Some(400)), run("CREATE TABLE `u` (\n  `id` int\n)")]);
        assert_eq!(replayed(&steps[10]), [19, 30]);
        assert_eq!(steps[11..], [Step::Commit(mark("b.000001", 500)), Step::Skip(mark("b.000002", 157))]);
    }

    #[test]
    fn the_next_file_is_described_after_what_has_ended() {
        let mut format = vec![0; 57];
        format[56] = 19;
        let begin = query("", b"", "BEGIN");
        let events =
            [(15, 0, format.clone()), (33, 100, vec![]), (2, 150, begin), (16, 200, vec![0; 8]), (15, 126, format)];
        let steps = take(&events).unwrap();
        let automatic = run("SET SESSION gtid_next = 'AUTOMATIC'");
        assert_eq!((replayed(&steps[0]), &steps[1]), (vec![15], &automatic));
        assert_eq!(steps[3..5], [Step::Commit(mark("b.000001", 200)), Step::Skip(mark("b.000001", 200))]);
        assert_eq!((replayed(&steps[5]), &steps[6]), (vec![15], &automatic));
    }

    #[test]
    fn what_cannot_be_followed_is_an_error() {
        let (number, begin) = ((33, 100, vec![]), (2, 150, query("", b"", "BEGIN")));
        for (events, expected) in [
            (vec![number.clone(), (2, 200, query("", b"", "INSERT INTO t VALUES (1)"))], STATEMENTS),
            (vec![number.clone(), begin.clone(), (2, 200, query("", b"", "DROP TABLE t"))], STATEMENTS),
            (vec![number.clone(), (2, 200, query("", b"", "XA START 'a'"))], XA),
            (vec![number.clone(), begin.clone(), (38, 200, vec![])], XA),
            (vec![number.clone(), begin.clone(), (33, 200, vec![])], "a transaction without its end"),
            (vec![number.clone(), (2, 200, query("", b"", "CALL p()"))], "a statement that is not known"),
            (vec![number.clone(), begin.clone(), (30, 200, rows(5, 1))], "not complete"),
            (vec![(30, 200, rows(5, 1))], "not complete"),
            (vec![begin.clone()], "not complete"),
            (vec![number.clone(), begin, (19, 200, vec![1, 0])], "not complete"),
            (vec![(16, 200, vec![])], "of the kind 16"),
            (vec![(99, 200, vec![])], "of the kind 99"),
            (vec![(26, 200, vec![])], "lacks writes"),
            (vec![(15, 200, vec![0; 57])], "has a format that is not known"),
            (vec![(4, 0, b"\x04\0\0\0\0\0\0\0../b'.1".to_vec())], "has a name without a number"),
            (vec![number, (33, 50, vec![])], "larger than 4 GiB"),
        ] {
            let error = take(&events).unwrap_err();
            assert!(error.contains(expected), "{error}: {expected}");
        }
    }

    #[test]
    fn a_part_of_an_event_is_an_error_and_no_panic() {
        let whole = query("app", b"\x0c\x02a\0b\0\x05\x03UTC\x0b\x01a\x01b", "BEGIN");
        for length in 0..whole.len() {
            let _ = Query::read(&whole[..length]);
            let mut changed = whole.clone();
            for value in [0, 1, 0x7f, 0xff] {
                changed[length] = value;
                let _ = Query::read(&changed);
            }
        }
        for kind in 0..=255 {
            for length in 0..60 {
                let mut events = Events::new("b.000001", 4);
                for first in [(33, vec![]), (2, query("", b"", "BEGIN")), (19, table(5, "app"))] {
                    events.take(&raw(first.0, 0, &first.1)).unwrap();
                }
                let _ = events.take(&raw(kind, 9, &vec![5; length]));
            }
        }
    }
}
