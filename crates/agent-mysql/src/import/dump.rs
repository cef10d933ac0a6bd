//! The copy of a MySQL, over connections: its image has no program that copies data as statements. Everything is of one snapshot. Values become
//! literals here, by the types of their columns, so that no value can be a statement.

use super::copy::Progress;
use super::json::decimals;
use super::moment::snapshot;
use super::record::{name, quoted};
use super::source::{Database, databases, hidden};
use super::stream::{Mark, Writes, without_definer};
use super::{ANSWER, of_cluster, of_source};
use crate::seed::STALLS;
use crate::sql::{Address, RowFields, Sql, SqlError};

/// How many bytes, and how many rows, one statement has about.
const BYTES: usize = 1 << 20;
const ROWS: u32 = 1000;

/// Copies all databases of clients. Returns the position of the copy, and its writes. The error is a sentence.
pub async fn dump(source: &Address, target: &Address, progress: &mut Progress<'_>) -> Result<(Mark, Writes), String> {
    let mut from = source.connect(ANSWER).await.map_err(of_source)?;
    let mut to = target.connect(ANSWER).await.map_err(of_cluster)?;
    let before = fingerprint(&mut from).await.map_err(of_source)?;
    let at = snapshot(&mut from).await?;
    // Texts arrive as they are stored.
    for statement in [
        "SET SESSION character_set_results = binary, time_zone = '+00:00', net_write_timeout = 3600, sql_quote_show_create = 1",
        "SAVEPOINT copy",
    ] {
        from.run(statement, ANSWER).await.map_err(of_source)?;
    }
    let databases = databases(&mut from).await.map_err(of_source)?;
    let mut tables = Vec::new();
    let mut objects = Vec::new();
    for database in &databases {
        tables.extend(tables_of(&mut from, &database.name).await.map_err(of_source)?);
        for kind in [Kind::Procedure, Kind::Function, Kind::View, Kind::Trigger] {
            objects.extend(objects_of(&mut from, kind, &database.name).await?);
        }
    }
    // The definitions of what is not a table are not a part of the snapshot.
    if fingerprint(&mut from).await.map_err(of_source)? != before {
        return Err("a statement has changed tables of the source when the copy began".to_owned());
    }
    begins(&mut to, &databases).await.map_err(of_cluster)?;
    for (database, table) in &tables {
        copy_table(&mut from, &mut to, database, table, progress).await?;
    }
    let (views, others): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object.kind == Kind::View);
    let (triggers, routines): (Vec<_>, Vec<_>) = others.into_iter().partition(|object| object.kind == Kind::Trigger);
    for object in &routines {
        object.create(&mut to).await.map_err(|error| object.failed(error))?;
    }
    create_views(&mut to, views).await?;
    // A trigger must not run for rows that are copied.
    for object in &triggers {
        object.create(&mut to).await.map_err(|error| object.failed(error))?;
    }
    Ok(at)
}

/// Creates the databases, and sets the session for tables: parents of foreign keys may come later, 0 is a value, and so are dates that the
/// source has.
async fn begins(to: &mut Sql, databases: &[Database]) -> Result<(), SqlError> {
    let settings = "SET SESSION foreign_key_checks = 0, unique_checks = 0, time_zone = '+00:00', sql_mode = 'NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES'";
    to.run(settings, ANSWER).await?;
    for database in databases {
        let statement = format!(
            "CREATE DATABASE {} CHARACTER SET '{}' COLLATE '{}'",
            name(&database.name),
            quoted(&database.charset),
            quoted(&database.collation)
        );
        to.run(statement, STALLS).await?;
    }
    Ok(())
}

/// What changes if tables, views, routines or triggers are created, changed or removed.
async fn fingerprint(from: &mut Sql) -> Result<Vec<String>, SqlError> {
    let hidden = hidden();
    let query = format!(
        "SELECT CONCAT_WS('|', 't', TABLE_SCHEMA, TABLE_NAME, CREATE_TIME) AS line FROM information_schema.TABLES WHERE TABLE_SCHEMA NOT IN ({hidden}) \
         UNION ALL SELECT CONCAT_WS('|', 'v', TABLE_SCHEMA, TABLE_NAME, SHA2(VIEW_DEFINITION, 224)) FROM information_schema.VIEWS WHERE TABLE_SCHEMA NOT IN ({hidden}) \
         UNION ALL SELECT CONCAT_WS('|', 'r', ROUTINE_SCHEMA, ROUTINE_NAME, ROUTINE_TYPE, LAST_ALTERED) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA NOT IN ({hidden}) \
         UNION ALL SELECT CONCAT_WS('|', 'g', TRIGGER_SCHEMA, TRIGGER_NAME, CREATED) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA NOT IN ({hidden})"
    );
    let mut lines: Vec<String> = from.rows(query, STALLS).await?.iter().map(|row| row.text("line")).collect();
    lines.sort_unstable();
    Ok(lines)
}

async fn tables_of(from: &mut Sql, database: &str) -> Result<Vec<(String, String)>, SqlError> {
    let query = format!(
        "SELECT TABLE_NAME AS name FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{}' AND TABLE_TYPE = 'BASE TABLE' ORDER BY 1",
        quoted(database)
    );
    Ok(from.rows(query, STALLS).await?.iter().map(|row| (database.to_owned(), row.text("name"))).collect())
}

async fn copy_table(
    from: &mut Sql,
    to: &mut Sql,
    database: &str,
    table: &str,
    progress: &mut Progress<'_>,
) -> Result<(), String> {
    let full = format!("{}.{}", name(database), name(table));
    let shown = format!("{database}.{table}");
    let there = |error: SqlError| match error {
        // `ER_TABLE_DEF_CHANGED`, `ER_NO_SUCH_TABLE`
        SqlError::Server(1412 | 1146) => format!("the table {shown} was changed at the source while it was copied"),
        error => format!("the table {shown} of the source: {error}"),
    };
    let here = |error: SqlError| format!("the table {shown} here: {error}");
    let definition = from.rows(format!("SHOW CREATE TABLE {full}"), STALLS).await.map_err(there)?;
    let statement = definition
        .first()
        .and_then(|row| row.bytes(1))
        .ok_or_else(|| format!("the table {shown} has no definition"))?;
    to.run(format!("USE {}", name(database)), ANSWER).await.map_err(here)?;
    to.run(statement.to_vec(), STALLS).await.map_err(here)?;
    let columns = format!(
        "SELECT COLUMN_NAME AS name, DATA_TYPE AS type FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = '{}' AND TABLE_NAME = '{}' \
         AND GENERATION_EXPRESSION = '' ORDER BY ORDINAL_POSITION",
        quoted(database),
        quoted(table)
    );
    let columns = from.rows(columns, STALLS).await.map_err(there)?;
    let kinds: Vec<Literal> = columns.iter().map(|row| Literal::of(&row.text("type"))).collect();
    let names: Vec<String> = columns.iter().map(|row| name(&row.text("name"))).collect();
    let fields: Vec<String> = names.iter().zip(&kinds).map(|(name, kind)| kind.reads(name)).collect();
    // Even a table of generated columns alone has rows.
    let query = format!("SELECT {} FROM {full}", if fields.is_empty() { "1".to_owned() } else { fields.join(", ") });
    let head = format!("INSERT INTO {full} ({}) VALUES ", names.join(", ")).into_bytes();
    let (mut statement, mut count) = (head.clone(), 0);
    let mut rows = from.stream(query, STALLS).await.map_err(there)?;
    loop {
        let row = rows.next(STALLS).await.map_err(there)?;
        if count > 0 && (row.is_none() || count >= ROWS || statement.len() >= BYTES) {
            let full = std::mem::replace(&mut statement, head.clone());
            to.run(full, STALLS).await.map_err(here)?;
            count = 0;
        }
        let Some(row) = row else { break };
        statement.extend_from_slice(if count > 0 { b",(" } else { b"(" });
        count += 1;
        for (at, kind) in kinds.iter().enumerate() {
            if at > 0 {
                statement.push(b',');
            }
            let value = row.bytes(at);
            progress.done(value.map_or(0, <[u8]>::len)).await?;
            kind.write(value, &mut statement)
                .ok_or_else(|| format!("the table {shown} has a value that is not of its type"))?;
        }
        statement.push(b')');
    }
    drop(rows);
    // A statement that changes the table need not wait for the end of the copy.
    from.run("ROLLBACK TO SAVEPOINT copy", ANSWER).await.map_err(there)
}

/// How a value of a column is read and written, so that it is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Literal {
    /// As a number.
    Number,
    /// As a number with an exponent: without one, it would be a decimal.
    Double,
    /// A single precision number, which is shown with fewer digits than it has, as a double.
    Float,
    /// As the number that is stored: of bits, or of the names of an enumeration, which can be ambiguous.
    Stored,
    /// As its bytes. A text keeps its character set.
    Bytes,
    /// As a text, which JSON has to be.
    Json,
}

impl Literal {
    fn of(kind: &str) -> Self {
        match kind.to_ascii_lowercase().as_str() {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "decimal" | "year" => Self::Number,
            "double" => Self::Double,
            "float" => Self::Float,
            "bit" | "enum" | "set" => Self::Stored,
            "json" => Self::Json,
            _ => Self::Bytes,
        }
    }

    /// What is selected of a column.
    fn reads(self, column: &str) -> String {
        match self {
            Self::Float => format!("CAST({column} AS DOUBLE)"),
            Self::Stored => format!("{column} + 0"),
            _ => column.to_owned(),
        }
    }

    /// Writes the literal of a value. `None` if the value is not of the type.
    fn write(self, value: Option<&[u8]>, to: &mut Vec<u8>) -> Option<()> {
        let Some(value) = value else {
            to.extend_from_slice(b"NULL");
            return Some(());
        };
        match self {
            Self::Number | Self::Double | Self::Float | Self::Stored => {
                let is_digit = |byte: &u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
                if value.is_empty() || !value.iter().all(is_digit) || !value.iter().any(u8::is_ascii_digit) {
                    return None;
                }
                to.extend_from_slice(value);
                let is_double = matches!(self, Self::Double | Self::Float);
                if is_double && !value.contains(&b'e') {
                    to.extend_from_slice(b"e0");
                }
            }
            Self::Bytes => hex(value, to),
            Self::Json => {
                let decimals = decimals(value);
                if !decimals.is_empty() {
                    to.extend_from_slice(b"JSON_REPLACE(");
                }
                to.extend_from_slice(b"_utf8mb4 ");
                hex(value, to);
                for (path, number) in &decimals {
                    to.extend_from_slice(b",_utf8mb4 ");
                    hex(path.as_bytes(), to);
                    to.push(b',');
                    to.extend_from_slice(number.as_bytes());
                }
                if !decimals.is_empty() {
                    to.push(b')');
                }
            }
        }
        Some(())
    }
}

/// Writes bytes as a literal.
fn hex(bytes: &[u8], to: &mut Vec<u8>) {
    let digits = b"0123456789abcdef";
    to.reserve(bytes.len() * 2 + 3);
    to.extend_from_slice(b"x'");
    to.extend(bytes.iter().flat_map(|byte| [digits[usize::from(byte >> 4)], digits[usize::from(byte & 15)]]));
    to.push(b'\'');
}

/// What a database has beside tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A procedure.
    Procedure,
    /// A function.
    Function,
    /// A view.
    View,
    /// A trigger.
    Trigger,
    /// An event.
    Event,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Self::Procedure => "PROCEDURE",
            Self::Function => "FUNCTION",
            Self::View => "VIEW",
            Self::Trigger => "TRIGGER",
            Self::Event => "EVENT",
        }
    }

    /// The names of a database, in an order in which they can be created.
    fn lists(self, database: &str) -> String {
        let (column, from) = match self {
            Self::Procedure | Self::Function => {
                ("ROUTINE_NAME", format!("ROUTINES WHERE ROUTINE_TYPE = '{}' AND ROUTINE_SCHEMA", self.word()))
            }
            Self::View => ("TABLE_NAME", "VIEWS WHERE TABLE_SCHEMA".to_owned()),
            Self::Trigger => ("TRIGGER_NAME", "TRIGGERS WHERE TRIGGER_SCHEMA".to_owned()),
            Self::Event => ("EVENT_NAME", "EVENTS WHERE EVENT_SCHEMA".to_owned()),
        };
        let order = if self == Self::Trigger {
            "EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER"
        } else {
            "1"
        };
        format!("SELECT {column} AS name FROM information_schema.{from} = '{}' ORDER BY {order}", quoted(database))
    }

    fn definition(self) -> &'static str {
        match self {
            Self::Procedure => "Create Procedure",
            Self::Function => "Create Function",
            Self::View => "Create View",
            Self::Trigger => "SQL Original Statement",
            Self::Event => "Create Event",
        }
    }
}

/// One of them, with the settings of the session that created it.
#[derive(Clone, Debug)]
pub struct Object {
    kind: Kind,
    database: String,
    name: String,
    settings: String,
    statement: Vec<u8>,
}

/// Reads the objects of a database. The session has to read texts as they are stored. The error is a sentence.
pub async fn objects_of(from: &mut Sql, kind: Kind, database: &str) -> Result<Vec<Object>, String> {
    let mut objects = Vec::new();
    for row in from.rows(kind.lists(database), STALLS).await.map_err(of_source)? {
        let own = row.text("name");
        let shown = format!("the {} {database}.{own} of the source", kind.word().to_lowercase());
        let query = format!("SHOW CREATE {} {}.{}", kind.word(), name(database), name(&own));
        let rows = from.rows(query, STALLS).await.map_err(|error| format!("{shown}: {error}"))?;
        let row = rows.first().ok_or_else(|| format!("{shown} has no definition"))?;
        let statement = row.at(kind.definition()).and_then(|at| row.bytes(at));
        let statement = statement.ok_or_else(|| format!("{shown} has no definition that the account can read"))?;
        objects.push(Object {
            kind,
            database: database.to_owned(),
            name: own,
            settings: settings(row, kind),
            statement: without_definer(statement).into_owned(),
        });
    }
    Ok(objects)
}

fn settings(row: &RowFields, kind: Kind) -> String {
    // The definition of a view is in the character set of the server's own texts.
    let client = if kind == Kind::View { "utf8mb4".to_owned() } else { row.text("character_set_client") };
    let mut settings = vec![("sql_mode", row.text("sql_mode")), ("character_set_client", client)];
    settings.push(("collation_connection", row.text("collation_connection")));
    if kind == Kind::Event {
        settings.push(("time_zone", row.text("time_zone")));
    }
    let settings: Vec<String> = settings.iter().map(|(name, value)| format!("{name} = '{}'", quoted(value))).collect();
    format!("SET SESSION {}", settings.join(", SESSION "))
}

impl Object {
    /// Creates it. An event that is there is replaced.
    pub async fn create(&self, to: &mut Sql) -> Result<(), SqlError> {
        to.run("SET NAMES utf8mb4", ANSWER).await?;
        to.run(format!("USE {}", name(&self.database)), ANSWER).await?;
        if self.kind == Kind::Event {
            to.run(format!("DROP EVENT IF EXISTS {}", name(&self.name)), STALLS).await?;
        }
        to.run(self.settings.as_str(), ANSWER).await?;
        to.run(self.statement.clone(), STALLS).await
    }

    /// The error of [`Object::create`] as a sentence.
    pub fn failed(&self, error: SqlError) -> String {
        format!(
            "the {} {}.{} cannot be created here: {error}",
            self.kind.word().to_lowercase(),
            self.database,
            self.name
        )
    }
}

/// Creates views, those that others read first.
async fn create_views(to: &mut Sql, mut views: Vec<Object>) -> Result<(), String> {
    loop {
        let (count, mut failed, mut why) = (views.len(), Vec::new(), None);
        for view in views {
            match view.create(to).await {
                Ok(()) => {}
                Err(error @ SqlError::Server(_)) => {
                    why.get_or_insert(view.failed(error));
                    failed.push(view);
                }
                Err(error) => return Err(of_cluster(error)),
            }
        }
        match why {
            None => return Ok(()),
            Some(why) if failed.len() == count => {
                return Err(format!("{why}: drop it at the source if it does not work there"));
            }
            Some(_) => views = failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Literal;

    #[test]
    fn values_become_literals_of_their_types() {
        for (kind, value, expected) in [
            ("int", Some("-5"), Some("-5")),
            ("decimal", Some("1.10"), Some("1.10")),
            ("double", Some("1.1"), Some("1.1e0")),
            ("double", Some("1e300"), Some("1e300")),
            ("float", Some("-0"), Some("-0e0")),
            ("enum", Some("2"), Some("2")),
            ("varchar", Some("a'\\"), Some("x'61275c'")),
            ("blob", Some(""), Some("x''")),
            ("datetime", None, Some("NULL")),
            ("json", Some("[1.5]"), Some("_utf8mb4 x'5b312e355d'")),
            ("json", Some("[1.50]"), Some("JSON_REPLACE(_utf8mb4 x'5b312e35305d',_utf8mb4 x'245b305d',1.50)")),
            ("int", Some("1); DROP TABLE t"), None),
            ("bit", Some(""), None),
            ("year", Some("-"), None),
        ] {
            let mut written = Vec::new();
            let done = Literal::of(kind).write(value.map(str::as_bytes), &mut written);
            assert_eq!(done.map(|()| String::from_utf8(written).unwrap()).as_deref(), expected, "{kind} {value:?}");
        }
        assert_eq!(Literal::of("FLOAT").reads("`f`"), "CAST(`f` AS DOUBLE)");
        assert_eq!(Literal::of("bit").reads("`b`"), "`b` + 0");
    }
}
