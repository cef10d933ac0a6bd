//! Connections to a database: of the agent to its own, over the local socket, and of an import over the network. Each statement has a time after which the connection is given up:
//! a database can hang.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use mysql_async::prelude::{AsQuery, Queryable as _};
use mysql_async::{
    BinlogStream, BinlogStreamRequest, Conn, Error, Opts, OptsBuilder, QueryResult, Row, SslOpts, TextProtocol, Value,
};

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
    /// Connects. The version of the database says which one it is.
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
            .max_allowed_packet(Some(PACKET))
            .ssl_opts(authorities);
        let mut sql = open(options, Flavor::Mariadb, within).await?;
        let version = sql.rows("SELECT @@version AS version", within).await?;
        sql.flavor = Flavor::of(&version.first().map(|row| row.text("version")).unwrap_or_default());
        sql.run(sql.flavor.session(), within).await?;
        Ok(sql)
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

/// The largest packet that is received, in bytes: the most that a database can send. A row of a binary log can be larger than
/// `max_allowed_packet` of its server.
const PACKET: usize = 1 << 30;

async fn connect(options: OptsBuilder, flavor: Flavor, within: Duration) -> Result<Sql, SqlError> {
    open(options.init(vec![flavor.session()]), flavor, within).await
}

async fn open(options: OptsBuilder, flavor: Flavor, within: Duration) -> Result<Sql, SqlError> {
    let options = options.stmt_cache_size(0);
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

    /// Runs a query whose rows are read one by one, so that a table of any size fits. After an error the connection has to be dropped.
    pub async fn stream(&mut self, query: impl AsQuery + 'static, within: Duration) -> Result<SqlRows<'_>, SqlError> {
        let connection = self.connection.as_mut().ok_or(SqlError::Lost)?;
        let answer = tokio::time::timeout(within, connection.query_iter(query)).await;
        Ok(SqlRows(answer.map_err(|_| SqlError::Late)?.map_err(|error| of(&error))?))
    }

    /// Reads a binary log of MySQL from a position on, as a replica with this number.
    pub async fn binary_log(mut self, server: u32, file: &str, position: u64) -> Result<BinlogStream, SqlError> {
        let connection = self.connection.take().ok_or(SqlError::Lost)?;
        let request = BinlogStreamRequest::new(server).with_filename(file.as_bytes()).with_pos(position);
        connection.get_binlog_stream(request).await.map_err(|error| of(&error))
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

/// The rows of a query.
pub struct SqlRows<'a>(QueryResult<'a, 'static, TextProtocol>);

impl SqlRows<'_> {
    /// The next row; `None` after the last.
    pub async fn next(&mut self, within: Duration) -> Result<Option<RowFields>, SqlError> {
        let answer = tokio::time::timeout(within, self.0.next()).await;
        Ok(answer.map_err(|_| SqlError::Late)?.map_err(|error| of(&error))?.map(RowFields))
    }
}

/// What an error of the client says, without texts of the database.
pub fn of(error: &Error) -> SqlError {
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
        match self.at(name).and_then(|at| self.0.as_ref(at)) {
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

    /// A field as the database sent it by its position from 0; `None` if there is no such field, or it is `NULL`.
    pub fn bytes(&self, at: usize) -> Option<&[u8]> {
        match self.0.as_ref(at) {
            Some(Value::Bytes(bytes)) => Some(bytes),
            _ => None,
        }
    }

    /// The position of a field by its name.
    pub fn at(&self, name: &str) -> Option<usize> {
        self.0.columns_ref().iter().position(|column| column.name_str().eq_ignore_ascii_case(name))
    }

    /// A number by the name of its field; `None` if it is none.
    pub fn number(&self, name: &str) -> Option<u64> {
        self.text(name).parse().ok()
    }
}
