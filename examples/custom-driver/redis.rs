//! The part of Redis' protocol that the driver needs.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// An instance that does not answer within this time counts as unreachable.
const PATIENCE: Duration = Duration::from_secs(2);

/// The role that an instance reports.
#[derive(Debug)]
pub enum Replication {
    /// It takes writes.
    Primary,
    /// It copies another instance.
    Replica {
        /// `HOST:PORT` of its source.
        of: String,
        /// It has everything that its source had when it connected, and follows.
        in_step: bool,
    },
}

/// Sends a command and reads its answer, which is a line or a text of a known length.
pub async fn ask(address: &str, command: &str) -> Result<String> {
    let asking = async {
        let mut stream = BufReader::new(TcpStream::connect(address).await?);
        stream.write_all(format!("{command}\r\n").as_bytes()).await?;
        let mut line = String::new();
        stream.read_line(&mut line).await?;
        let (kind, rest) = line.split_at_checked(1).ok_or(ErrorKind::UnexpectedEof)?;
        match kind {
            "+" => Ok(rest.trim_end().to_owned()),
            "$" => {
                let length = rest.trim_end().parse::<usize>().map_err(Error::other)?;
                let mut text = vec![0; length];
                stream.read_exact(&mut text).await?;
                String::from_utf8(text).map_err(Error::other)
            }
            _ => Err(Error::other(format!("{command}: {}", rest.trim_end()))),
        }
    };
    timeout(PATIENCE, asking).await?
}

/// Queries the role of an instance.
pub async fn replication(address: &str) -> Result<Replication> {
    let text = ask(address, "INFO replication").await?;
    let field = |name: &str| {
        text.lines().filter_map(|line| line.split_once(':')).find(|(key, _)| *key == name).map(|(_, value)| value)
    };
    match field("role") {
        Some("master") => Ok(Replication::Primary),
        Some(_) => Ok(Replication::Replica {
            of: format!("{}:{}", field("master_host").unwrap_or_default(), field("master_port").unwrap_or_default()),
            in_step: field("master_link_status") == Some("up"),
        }),
        None => Err(ErrorKind::InvalidData.into()),
    }
}
