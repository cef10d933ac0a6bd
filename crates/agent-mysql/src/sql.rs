//! The agent's connection to its database, over the local socket. Each statement has a time after which the connection is given up:
//! a database can hang.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error, Opts, OptsBuilder, Row, Value};

use super::accounts::AGENT;
use super::flavor::Flavor;

/// How the agent logs in: with a password that is new at each start of the database.
#[derive(Clone)]
pub struct Login {
    socket: PathBuf,
    password: String,
    flavor: Flavor,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.socket.display())
    }
}

/// Why a statement did not succeed. Texts of the database contain values of the data, so only its number is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SqlError {
    /// The time is over. Whether it is done is not known.
    #[error("the database does not answer")]
    Late,
    /// The database refused it.
    #[error("error {0} of the database")]
    Server(u16),
    /// The connection ended.
    #[error("the connection to the database ended")]
    Lost,
}

/// A connection.
pub struct Sql {
    connection: Option<Conn>,
    /// Which database it is.
    pub flavor: Flavor,
}

impl Login {
    /// The account of the agent.
    pub fn new(socket: &Path, password: String, flavor: Flavor) -> Self {
        Self { socket: socket.to_owned(), password, flavor }
    }

    /// The socket of the database.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Which database it is.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The password.
    pub fn password(&self) -> &str {
        &self.password
    }

    /// Connects.
    pub async fn connect(&self, within: Duration) -> Result<Sql, SqlError> {
        let options = OptsBuilder::default()
            .socket(Some(self.socket.display().to_string()))
            .user(Some(AGENT))
            .pass(Some(self.password.clone()))
            .stmt_cache_size(0)
            .init(vec![self.flavor.session()]);
        match tokio::time::timeout(within, Conn::new(Opts::from(options))).await {
            Ok(Ok(connection)) => Ok(Sql { connection: Some(connection), flavor: self.flavor }),
            Ok(Err(error)) => Err(of(&error)),
            Err(_) => Err(SqlError::Late),
        }
    }
}

impl Sql {
    /// Whether it can still be used.
    pub fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Runs a statement.
    pub async fn run(&mut self, statement: &str, within: Duration) -> Result<(), SqlError> {
        self.rows(statement, within).await.map(|_| ())
    }

    /// Runs a query, and returns its rows.
    pub async fn rows(&mut self, query: &str, within: Duration) -> Result<Vec<RowFields>, SqlError> {
        // A connection whose answer did not arrive cannot be used again.
        let mut connection = self.connection.take().ok_or(SqlError::Lost)?;
        match tokio::time::timeout(within, connection.query::<Row, _>(query)).await {
            Err(_) => Err(SqlError::Late),
            Ok(answer) => {
                let answer = answer.map(|rows| rows.into_iter().map(RowFields).collect()).map_err(|error| of(&error));
                if answer != Err(SqlError::Lost) {
                    self.connection = Some(connection);
                }
                answer
            }
        }
    }
}

fn of(error: &Error) -> SqlError {
    match error {
        Error::Server(error) => SqlError::Server(error.code),
        _ => SqlError::Lost,
    }
}

/// A row.
#[derive(Debug, PartialEq)]
pub struct RowFields(Row);

impl RowFields {
    /// A field by its name; empty if there is no such field, or it is `NULL`.
    pub fn text(&self, name: &str) -> String {
        let columns = self.0.columns_ref();
        let at = columns.iter().position(|column| column.name_str().eq_ignore_ascii_case(name));
        match at.and_then(|at| self.0.as_ref(at)) {
            Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
            None | Some(Value::NULL) => String::new(),
            Some(Value::Int(number)) => number.to_string(),
            Some(Value::UInt(number)) => number.to_string(),
            Some(other) => other.as_sql(true),
        }
    }

    /// A number by the name of its field; `None` if it is none.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}
