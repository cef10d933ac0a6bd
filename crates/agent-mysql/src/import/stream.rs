//! The statements that `mariadb-binlog` prints, as the steps of an import. Its comments name the events, and with them the position that each
//! transaction ends at.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};

use super::source::is_hidden;
use crate::flavor::Flavor;
use crate::gtid::{self, Gtid};

/// The delimiter that `mariadb-binlog` asks its reader to use.
const DELIMITER: &[u8] = b"/*!*/;";
/// The longest statement, in bytes. A row of the largest packet has 1 GiB, in base 64.
const LIMIT: usize = 3 << 29;

/// The writes that a source has, or that the cluster has of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writes {
    /// Of MariaDB: the newest write of each domain.
    Domains(BTreeMap<u32, Gtid>),
    /// Of MySQL: all up to a position of a binary log. With GTIDs or without, a source has only one order of its writes.
    Log {
        /// The number at the end of the name of the binary log.
        number: u64,
        /// The position in it, in bytes.
        position: u64,
    },
}

impl Writes {
    /// No writes.
    pub fn none(flavor: Flavor) -> Self {
        match flavor {
            Flavor::Mariadb => Self::Domains(BTreeMap::new()),
            Flavor::Mysql => Self::Log { number: 0, position: 0 },
        }
    }

    /// Reads the GTIDs of a position such as `0-1-15,7-2-3`.
    pub fn domains(text: &str) -> Option<Self> {
        let gtids = gtid::list(text)?;
        Some(Self::Domains(gtids.into_iter().map(|gtid| (gtid.domain, gtid)).collect()))
    }

    /// The writes up to a position of a binary log such as `binlog.000012`. `None` if its name has no number.
    pub fn log(file: &str, position: u64) -> Option<Self> {
        let number = file.rsplit_once('.')?.1.parse().ok()?;
        Some(Self::Log { number, position })
    }

    /// Adds the writes up to the end of a transaction.
    pub fn pass(&mut self, mark: &Mark) {
        match self {
            Self::Domains(domains) => {
                let newest = domains.entry(mark.gtid.domain).or_insert(mark.gtid);
                if mark.gtid.number > newest.number {
                    *newest = mark.gtid;
                }
            }
            Self::Log { .. } => *self = Self::log(&mark.file, mark.position).unwrap_or_else(|| self.clone()),
        }
    }

    /// How much these writes lack of others: transactions of MariaDB, or bytes of the binary log of MySQL, about if they are in another
    /// file. 0 says exactly that they lack nothing.
    pub fn behind(&self, written: &Self) -> u64 {
        match (self, written) {
            (Self::Domains(applied), Self::Domains(written)) => {
                let of = |domain| applied.get(domain).map_or(0, |gtid| gtid.number);
                written.iter().map(|(domain, gtid)| gtid.number.saturating_sub(of(domain))).sum()
            }
            (Self::Log { number, position }, Self::Log { number: last, position: end }) => {
                match last.checked_sub(*number) {
                    None => 0,
                    Some(0) => end.saturating_sub(*position),
                    Some(files) => (files - 1).saturating_mul(FULL).saturating_add(*end).max(1),
                }
            }
            _ => u64::MAX,
        }
    }

    /// The unit of [`Writes::behind`] for people, and how many of it a small transaction has.
    pub fn unit(&self) -> (&'static str, u64) {
        match self {
            Self::Domains(_) => ("writes", 1),
            Self::Log { .. } => ("bytes of its binary log", 500),
        }
    }
}

/// The size at which MySQL begins the next binary log, in bytes.
const FULL: u64 = 1 << 30;

/// Where a transaction ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The binary log.
    pub file: String,
    /// The position after the transaction in it.
    pub position: u64,
    /// The number of the transaction, in MariaDB.
    pub gtid: Gtid,
}

/// What an import does next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// A transaction begins. One with a statement that commits by itself, such as `CREATE TABLE … AS SELECT`, has the position of its beginning.
    Begin(Option<u64>),
    /// A statement of a transaction, or a setting of the session.
    Run(Vec<u8>),
    /// The transaction ends.
    Commit(Mark),
    /// A statement that commits by itself, such as `CREATE TABLE`.
    Alone(Vec<u8>, Mark),
    /// A statement that commits by itself, and is not taken: accounts, events and the server's own tables come at the cut-over, or not.
    Skip(Mark),
}

/// How many steps wait to be applied at most, and how many bytes they have. A larger one waits alone.
const WAITING: usize = 4096;
const ROOM: u32 = 64 << 20;

/// Takes steps to the one who applies them.
#[derive(Clone, Debug)]
pub struct Steps {
    sender: mpsc::Sender<(Step, OwnedSemaphorePermit)>,
    room: Arc<Semaphore>,
}

/// A queue of steps. Each comes with the room that it takes.
pub fn steps() -> (Steps, mpsc::Receiver<(Step, OwnedSemaphorePermit)>) {
    let (sender, receiver) = mpsc::channel(WAITING);
    (Steps { sender, room: Arc::new(Semaphore::new(ROOM as usize)) }, receiver)
}

impl Steps {
    /// Waits for room, and adds a step. Returns whether somebody still takes them.
    pub async fn send(&self, step: Step) -> bool {
        let size = match &step {
            Step::Run(text) | Step::Alone(text, _) => u32::try_from(text.len()).unwrap_or(ROOM).min(ROOM),
            _ => 0,
        };
        let room = tokio::select! {
            room = Arc::clone(&self.room).acquire_many_owned(size) => room,
            () = self.closed() => return false,
        };
        match room {
            Ok(room) => self.sender.send((step, room)).await.is_ok(),
            Err(_) => false,
        }
    }

    /// Waits until nobody takes them.
    pub async fn closed(&self) {
        self.sender.closed().await;
    }
}

/// Reads the lines.
#[derive(Debug, Default)]
pub struct Reader {
    delimits: bool,
    statement: Vec<u8>,
    at: Mark,
    begun: bool,
    /// Where the transaction begins, if it has a statement that commits by itself.
    alone: Option<u64>,
    /// Whether the rows that follow are of the server's own tables.
    own: bool,
}

impl Reader {
    /// Reads from this binary log on.
    pub fn new(file: &str) -> Self {
        Self { at: Mark { file: file.to_owned(), ..Mark::default() }, ..Self::default() }
    }

    /// Takes the next line, with its end. The error is a sentence.
    pub fn line(&mut self, line: &[u8]) -> Result<Option<Step>, String> {
        if self.statement.is_empty() {
            if line.starts_with(b"#") {
                self.comment(&String::from_utf8_lossy(line));
                return Ok(None);
            }
            if line.starts_with(b"DELIMITER ") {
                self.delimits = line.trim_ascii_end().ends_with(DELIMITER);
                return Ok(None);
            }
            if line.trim_ascii().is_empty() {
                return Ok(None);
            }
        }
        self.statement.extend_from_slice(line);
        if self.statement.len() > LIMIT {
            return Err("a statement in the binary log of the source is too long".to_owned());
        }
        let delimiter = if self.delimits { DELIMITER } else { b";" };
        let whole = self.statement.trim_ascii_end();
        let Some(text) = whole.strip_suffix(delimiter) else { return Ok(None) };
        let text = text.trim_ascii().to_vec();
        self.statement.clear();
        self.step(text)
    }

    /// `#261130 16:22:10 server id 1  end_log_pos 386 CRC32 0xcfa09eef  GTID 0-1-15 trans`
    fn comment(&mut self, line: &str) {
        let Some((_, rest)) = line.split_once(" end_log_pos ") else { return };
        let mut words = rest.split_whitespace();
        let position = words.next().and_then(|number| number.parse().ok()).unwrap_or_default();
        if position > 0 {
            self.at.position = position;
        }
        let words: Vec<&str> = words.collect();
        let words = if words.first() == Some(&"CRC32") { words.get(2..).unwrap_or_default() } else { &words };
        match words {
            ["Rotate", "to", file, ..] => (*file).clone_into(&mut self.at.file),
            ["GTID", gtid, flags @ ..] => {
                self.alone = flags.contains(&"ddl").then_some(self.at.position);
                if let Some(&[gtid]) = gtid::list(gtid).as_deref() {
                    (self.at.gtid, self.begun) = (gtid, false);
                }
            }
            ["Table_map:", table, ..] => {
                let database = table.split('.').next().unwrap_or_default().trim_matches('`');
                self.own = is_hidden(database);
            }
            _ => {}
        }
    }

    fn step(&mut self, text: Vec<u8>) -> Result<Option<Step>, String> {
        let words = words(&text);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        Ok(match words.as_slice() {
            ["START", "TRANSACTION", ..] | ["BEGIN", ..] => {
                self.begun = true;
                Some(Step::Begin(self.alone))
            }
            ["COMMIT", ..] => {
                self.begun = false;
                Some(Step::Commit(self.at.clone()))
            }
            // `mariadb-binlog` adds it, with a comment, where it does not know how a transaction ends.
            ["ROLLBACK", ..] if !self.begun || text.ends_with(b"*/") => None,
            ["ROLLBACK"] => {
                return Err(
                    "the source has rolled a transaction back that also changed tables without transactions".to_owned()
                );
            }
            // The transaction gets a number of the cluster.
            [first, "SET", ..] if first.starts_with("/*M!") => None,
            // A command for the client that reads this.
            [first, ..] if first.starts_with("/*!\\C") => None,
            ["BINLOG", ..] => (!std::mem::take(&mut self.own)).then_some(Step::Run(text)),
            ["SET", "PASSWORD" | "DEFAULT" | "ROLE", ..] => Some(Step::Skip(self.at.clone())),
            ["SET" | "USE", ..] => Some(Step::Run(commits_alone(text))),
            // Code in a comment, such as `/*!50003 SET @OLD_COMPLETION_TYPE=…*/`.
            [first, "SET", ..] if first.starts_with("/*!") => Some(Step::Run(text)),
            _ if self.begun => Some(Step::Run(text)),
            words if is_own(words) => Some(Step::Skip(self.at.clone())),
            _ => Some(Step::Alone(without_definer(&text).into_owned(), self.at.clone())),
        })
    }
}

/// The import ends its transactions itself, whatever the session of the source did.
fn commits_alone(text: Vec<u8>) -> Vec<u8> {
    match String::from_utf8(text) {
        Ok(text) => text.replace("@@session.autocommit=0", "@@session.autocommit=1").into_bytes(),
        Err(error) => error.into_bytes(),
    }
}

/// Removes the definers of views, triggers, routines and events: the administrator defines them here. To create them for others, the import
/// would need a privilege with which a source could use the accounts of the cluster.
pub fn without_definer(text: &[u8]) -> Cow<'_, [u8]> {
    const DEFINER: &[u8] = b"DEFINER=";
    let find = |text: &[u8]| text.windows(DEFINER.len()).position(|part| part.eq_ignore_ascii_case(DEFINER));
    let (mut rest, mut kept, mut from) = (text, Vec::new(), 0);
    while let Some(at) = find(&rest[from..]).map(|at| from + at) {
        let after = at + DEFINER.len();
        let Some(length) = account_length(&rest[after..]) else {
            from = after;
            continue;
        };
        kept.extend_from_slice(&rest[..at]);
        (rest, from) = (&rest[after + length..], 0);
    }
    if kept.is_empty() && rest.len() == text.len() {
        return Cow::Borrowed(text);
    }
    kept.extend_from_slice(rest);
    Cow::Owned(kept)
}

/// The length of `` `user`@`host` `` at the start of a text. A session with `ANSI_QUOTES` has other quotes. A quote in a name is doubled.
fn account_length(text: &[u8]) -> Option<usize> {
    let name = |text: &[u8]| {
        let quote = text.first().filter(|byte| b"`\"'".contains(byte))?;
        let mut at = 1;
        loop {
            let end = at + text.get(at..)?.iter().position(|byte| byte == quote)?;
            if text.get(end + 1) != Some(quote) {
                return Some(end + 1);
            }
            at = end + 2;
        }
    };
    let user = name(text)?;
    let host = text.get(user..)?.strip_prefix(b"@")?;
    Some(user + 1 + name(host)?)
}

/// The first words of a statement in capital letters, without comments.
pub fn words(text: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(&text[..text.len().min(4000)]).into_owned();
    let (mut rest, mut kept) = (text.trim_start(), String::new());
    while rest.starts_with("-- ") || rest.starts_with('#') {
        rest = rest.split_once('\n').map_or("", |(_, rest)| rest.trim_start());
    }
    let is_comment = |rest: &str, at: &usize| !rest[at + 2..].starts_with(['!', 'M']);
    while let Some(at) = rest.find("/*").filter(|at| is_comment(rest, at)) {
        kept.push_str(&rest[..at]);
        kept.push(' ');
        rest = rest[at + 2..].split_once("*/").map_or("", |(_, rest)| rest);
    }
    kept.push_str(rest);
    kept.split_whitespace().take(12).map(str::to_uppercase).collect()
}

/// Whether a statement is about accounts, events or databases of the server, or changes nothing that a copy has.
pub fn is_own(words: &[&str]) -> bool {
    match words {
        ["GRANT" | "REVOKE" | "FLUSH" | "ANALYZE" | "OPTIMIZE" | "REPAIR" | "INSTALL" | "UNINSTALL", ..] => true,
        ["CREATE" | "ALTER" | "DROP" | "RENAME", rest @ ..] => {
            let objects = [
                "TABLE",
                "TABLES",
                "DATABASE",
                "SCHEMA",
                "VIEW",
                "INDEX",
                "TRIGGER",
                "PROCEDURE",
                "FUNCTION",
                "PACKAGE",
                "SEQUENCE",
                "SERVER",
                "USER",
                "ROLE",
                "EVENT",
                "INSTANCE",
            ];
            let Some(at) = rest.iter().position(|word| objects.contains(word)) else { return false };
            let name = rest[at + 1..].iter().find(|word| !["IF", "NOT", "EXISTS"].contains(word));
            let name = name.map_or("", |name| name.trim_start_matches('`'));
            match rest[at] {
                "USER" | "ROLE" | "EVENT" | "SERVER" | "INSTANCE" => true,
                "TABLE" => name.split_once('.').is_some_and(|(database, _)| is_hidden(database.trim_end_matches('`'))),
                "DATABASE" | "SCHEMA" => is_hidden(name.trim_end_matches('`')),
                _ => false,
            }
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::{Mark, Reader, Step, Writes, is_own, without_definer, words};
    use crate::flavor::Flavor;
    use crate::gtid;

    const PRINTED: &str = "/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/;\nDELIMITER /*!*/;\n# at 4\n/*!\\C utf8mb4 *//*!*/;\n\
#700101  0:00:00 server id 1  end_log_pos 0 CRC32 0x1 \tRotate to bin.000001  pos: 4\n\
#261130 16:22:00 server id 1  end_log_pos 256 CRC32 0x2 \tStart: binlog v 4\nBINLOG '\nFORMAT\n'/*!*/;\n# at 2128\n\
#261130 16:22:00 server id 1  end_log_pos 386 CRC32 0x3 \tGTID 0-1-9 trans\n/*M!100001 SET @@session.gtid_seq_no=9*//*!*/;\n\
START TRANSACTION\n/*!*/;\n#261130 16:22:00 server id 1  end_log_pos 496 CRC32 0x4 \tTable_map: `app`.`t` mapped to number 22\n\nBINLOG '\nROWS\n'/*!*/;\n\
# Number of rows: 1\n#261130 16:22:00 server id 1  end_log_pos 571 CRC32 0x5 \tXid = 16\nCOMMIT/*!*/;\n\
#261130 16:22:08 server id 1  end_log_pos 658 CRC32 0x6 \tGTID 0-1-10\nSTART TRANSACTION\n/*!*/;\n\
#261130 16:22:08 server id 1  end_log_pos 786 CRC32 0x7 \tTable_map: `mysql`.`global_priv` mapped to number 7\nBINLOG '\nOWN\n'/*!*/;\n\
#261130 16:22:08 server id 1  end_log_pos 921 CRC32 0x8 \tQuery\tthread_id=9\nSET TIMESTAMP=1796055728/*!*/;\nCOMMIT\n/*!*/;\n\
#261130 16:22:10 server id 1  end_log_pos 1524 CRC32 0x9 \tGTID 7-1-14 ddl\n/*M!100001 SET @@session.gtid_domain_id=7*//*!*/;\n\
#261130 16:22:10 server id 1  end_log_pos 1624 CRC32 0xa \tQuery\tthread_id=11\nuse `app`/*!*/;\ncreate table u (\n# a comment; it stays\n  id int)\n/*!*/;\n\
#261130 16:22:10 server id 1  end_log_pos 1673 CRC32 0xb \tRotate to bin.000002  pos: 4\n\
#261130 16:22:10 server id 1  end_log_pos 386 GTID 7-1-15 ddl\n#261130 16:22:10 server id 1  end_log_pos 450 Query\n\
CREATE DEFINER=`TABLE`@`%` USER u3 identified by 'x'\n/*!*/;\nDELIMITER ;\n# End of log file\nROLLBACK /* added by mysqlbinlog */;\n";

    #[test]
    fn what_is_printed_becomes_steps() {
        let mut reader = Reader::new("");
        let steps = PRINTED.split_inclusive('\n').filter_map(|line| reader.line(line.as_bytes()).unwrap());
        let mark = |file: &str, position, gtid: &str| Mark {
            file: file.to_owned(),
            position,
            gtid: gtid::list(gtid).unwrap()[0],
        };
        let run = |text: &str| Step::Run(text.into());
        let expected = [
            run("/*!50530 SET @@SESSION.PSEUDO_SLAVE_MODE=1*/"),
            run("BINLOG '\nFORMAT\n'"),
            Step::Begin(None),
            run("BINLOG '\nROWS\n'"),
            Step::Commit(mark("bin.000001", 571, "0-1-9")),
            Step::Begin(None),
            run("SET TIMESTAMP=1796055728"),
            Step::Commit(mark("bin.000001", 921, "0-1-10")),
            run("use `app`"),
            Step::Alone(
                "create table u (\n# a comment; it stays\n  id int)".into(),
                mark("bin.000001", 1624, "7-1-14"),
            ),
            Step::Skip(mark("bin.000002", 450, "7-1-15")),
        ];
        assert_eq!(steps.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn accounts_and_events_are_not_taken() {
        for (statement, expected) in [
            ("CREATE USER a", true),
            ("/* who */ create or replace definer=`EVENT`@`%` EVENT e ON SCHEDULE EVERY 1 DAY DO DROP TABLE t", true),
            ("grant all on *.* to a", true),
            ("-- a user\n# of\n ALTER /* no user */ TABLE t ADD c int", false),
            ("-- USER", false),
            ("CREATE /*!50000 USER */ a", true),
            ("DROP ROLE r", true),
            ("CREATE DEFINER=`root`@`%` TRIGGER `user` BEFORE INSERT ON t FOR EACH ROW SET @a = 1", false),
            ("CREATE TABLE user (id int)", false),
            ("ALTER TABLE event ADD COLUMN role int", false),
            ("CREATE ALGORITHM=UNDEFINED SQL SECURITY DEFINER VIEW role AS SELECT 1", false),
            ("CREATE TABLE IF NOT EXISTS tillerman.import (id INT)", true),
            ("ALTER TABLE `tillerman`.`import` ADD COLUMN a INT", true),
            ("CREATE TABLE tillerman (id INT)", false),
            ("CREATE TABLE shop.t AS SELECT * FROM mysql.user", false),
            ("CREATE DATABASE IF NOT EXISTS tillerman", true),
            ("DROP DATABASE `tillerman`", true),
            ("CREATE DATABASE tillerman2", false),
            ("DROP TABLE `user` /* generated by server */", false),
        ] {
            let words = words(statement.as_bytes());
            assert_eq!(is_own(&words.iter().map(String::as_str).collect::<Vec<_>>()), expected, "{statement}");
        }
    }

    #[test]
    fn definers_are_removed() {
        for (text, expected) in [
            ("CREATE DEFINER=`root`@`%` TRIGGER t", "CREATE  TRIGGER t"),
            ("/*!50013 DEFINER=`a``b`@`local``host` SQL SECURITY DEFINER */", "/*!50013  SQL SECURITY DEFINER */"),
            ("create definer=`a`@`b` view v; create definer=`a`@`b` view w", "create  view v; create  view w"),
            ("CREATE DEFINER=\"a\"@\"%\" PROCEDURE p", "CREATE  PROCEDURE p"),
            ("DEFINER=a DEFINER='a'@`b` c", "DEFINER=a  c"),
            ("DEFINER=`a`", "DEFINER=`a`"),
            ("DEFINER=`a`@", "DEFINER=`a`@"),
            ("no one", "no one"),
        ] {
            assert_eq!(without_definer(text.as_bytes()), expected.as_bytes(), "{text}");
        }
    }

    #[test]
    fn positions_are_compared_by_domain() {
        let [some, more] = ["0-1-15,7-2-3", "0-9-20,7-2-3,8-1-1"].map(|text| Writes::domains(text).unwrap());
        assert_eq!((some.behind(&more), more.behind(&some)), (6, 0));
        assert_eq!(Writes::domains(""), Some(Writes::none(Flavor::Mariadb)));
        assert_eq!(Writes::domains("0-1"), None);
    }

    #[test]
    fn positions_are_compared_by_binary_log() {
        let of = |file: &str, position| Writes::log(file, position).unwrap();
        for (applied, written, expected) in [
            (of("b.000009", 157), of("b.000009", 157), 0),
            (of("b.000009", 157), of("b.000009", 160), 3),
            (of("b.000009", 400), of("b.000009", 157), 0),
            (of("b.000010", 4), of("b.000009", 157), 0),
            (of("b.000009", 400), of("b.000010", 157), 157),
            (of("b.999999", 400), of("b.1000001", 157), (1 << 30) + 157),
            (Writes::none(Flavor::Mysql), of("b.000001", 4), 4),
            (Writes::none(Flavor::Mariadb), of("b.000001", 4), u64::MAX),
        ] {
            assert_eq!(applied.behind(&written), expected, "{applied:?} {written:?}");
        }
        assert_eq!((Writes::log("b", 4), Writes::log("b.x", 4)), (None, None));
        let mut writes = of("b.000009", 157);
        writes.pass(&Mark { file: "b.000010".to_owned(), position: 200, ..Mark::default() });
        assert_eq!(writes, of("b.000010", 200));
    }
}
