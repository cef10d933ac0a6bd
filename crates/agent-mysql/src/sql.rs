//! Connections to a database: of the agent to its own, over the local socket, and of an import over the network. Each statement has a time after which the connection is given up:
//! a database can hang.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql_async::prelude::{AsQuery, Queryable as _};
use mysql_async::{Conn, Error, Opts, OptsBuilder, Row, SslOpts, Value};

use tokio::time::error::Elapsed;

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

/// Where a database is on the network, and how to log in.
#[derive(Clone)]
pub struct Address {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The account.
    pub user: String,
    /// The password.
    pub password: String,
    /// A file with the authorities that sign its certificate. `None`: the connection is not encrypted.
    pub authorities: Option<PathBuf>,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({}:{})", self.host, self.port)
    }
}

impl Address {
    /// Connects to a database of MariaDB.
    pub async fn connect(&self, within: Duration) -> Result<Sql, SqlError> {
        let authorities = self
            .authorities
            .clone()
            .map(|file| SslOpts::default().with_root_certs(vec![file.into()]).with_disable_built_in_roots(true));
        let options = OptsBuilder::default()
            .ip_or_hostname(self.host.clone())
            .tcp_port(self.port)
            .prefer_socket(false)
            .user(Some(self.user.clone()))
            .pass(Some(self.password.clone()))
            .ssl_opts(authorities);
        connect(options, Flavor::Mariadb, within).await
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
            .pass(Some(self.password.clone()));
        connect(options, self.flavor, within).await
    }
}

async fn connect(options: OptsBuilder, flavor: Flavor, within: Duration) -> Result<Sql, SqlError> {
    let options = options.stmt_cache_size(0).init(vec![flavor.session()]);
    match tokio::time::timeout(within, Conn::new(Opts::from(options))).await {
        Ok(Ok(connection)) => Ok(Sql { connection: Some(connection), flavor }),
        Ok(Err(error)) => Err(of(&error)),
        Err(_) => Err(SqlError::Late),
    }
}

impl Sql {
    /// Whether it can still be used.
    pub fn is_open(&self) -> bool {
        self.connection.is_some()
    }

    /// Runs a statement.
    pub async fn run(&mut self, statement: impl AsQuery, within: Duration) -> Result<(), SqlError> {
        let mut connection = self.connection.take().ok_or(SqlError::Lost)?;
        let answer = tokio::time::timeout(within, connection.query_drop(statement)).await;
        self.keep(connection, answer)
    }

    /// Runs a query, and returns its rows.
    pub async fn rows(&mut self, query: impl AsQuery, within: Duration) -> Result<Vec<RowFields>, SqlError> {
        let mut connection = self.connection.take().ok_or(SqlError::Lost)?;
        let answer = tokio::time::timeout(within, connection.query::<Row, _>(query)).await;
        Ok(self.keep(connection, answer)?.into_iter().map(RowFields).collect())
    }

    /// Whether a query returns a row. The others are read, and none is kept.
    pub async fn returns_row(&mut self, query: impl AsQuery, within: Duration) -> Result<bool, SqlError> {
        let mut connection = self.connection.take().ok_or(SqlError::Lost)?;
        let answer = tokio::time::timeout(within, connection.query_first::<Row, _>(query)).await;
        Ok(self.keep(connection, answer)?.is_some())
    }

    /// A connection whose answer did not arrive cannot be used again.
    fn keep<T>(&mut self, connection: Conn, answer: Result<Result<T, Error>, Elapsed>) -> Result<T, SqlError> {
        let answer = answer.map_err(|_| SqlError::Late)?.map_err(|error| of(&error));
        if !matches!(answer, Err(SqlError::Lost)) {
            self.connection = Some(connection);
        }
        answer
    }
}

fn of(error: &Error) -> SqlError {
    if let Error::Server(error) = error {
        return SqlError::Server(error.code);
    }
    tracing::debug!(%error, "the connection to a database ended");
    SqlError::Lost
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

    /// The first field; empty if there is none.
    pub fn first(&self) -> String {
        self.0.columns_ref().first().map(|column| self.text(&column.name_str())).unwrap_or_default()
    }

    /// A number by the name of its field; `None` if it is none.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}
