//! Lets a replica receive without acknowledging. Redis has no such setting, and `WAIT` counts each replica that acknowledges. So it
//! follows through this relay, which turns each acknowledgement into 0.

use std::io::{self, ErrorKind};
use std::net::Ipv4Addr;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::server::line;

/// The longest word of a replica, in bytes: its handshake and its acknowledgements are short.
const WORD: usize = 1 << 10;

/// A relay. It ends with this value.
pub struct Relay {
    pub port: u16,
    task: JoinHandle<()>,
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Relay {
    /// To a host and a port.
    pub async fn to(host: &str, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let own = listener.local_addr()?.port();
        let host = host.to_owned();
        let task = tokio::spawn(async move {
            let mut open = JoinSet::new();
            while let Ok((replica, _)) = listener.accept().await {
                // A replica has one connection.
                open.abort_all();
                let host = host.clone();
                open.spawn(async move {
                    // It connects again.
                    let _ = relayed(replica, &host, port).await;
                });
            }
        });
        Ok(Self { port: own, task })
    }
}

async fn relayed(replica: TcpStream, host: &str, port: u16) -> io::Result<()> {
    let primary = TcpStream::connect((host, port)).await?;
    primary.set_nodelay(true)?;
    let ((mut from, to), (says, mut hears)) = (primary.into_split(), replica.into_split());
    tokio::select! {
        done = tokio::io::copy(&mut from, &mut hears) => done.map(|_| ()),
        done = silenced(says, to) => done,
    }
}

/// The messages of a replica, with each acknowledgement as 0.
async fn silenced(from: OwnedReadHalf, mut to: OwnedWriteHalf) -> io::Result<()> {
    let mut from = BufReader::new(from);
    loop {
        // While it loads a copy it sends empty lines.
        if from.fill_buf().await?.first() == Some(&b'\n') {
            from.consume(1);
            to.write_all(b"\n").await?;
            continue;
        }
        let mut words = Vec::new();
        for _ in 0..length(&line(&mut from).await?, '*')? {
            let mut word = vec![0; length(&line(&mut from).await?, '$')? + 2];
            from.read_exact(&mut word).await?;
            word.truncate(word.len() - 2);
            words.push(word);
        }
        let is = |n: usize, name: &str| {
            words.get(n).is_some_and(|word: &Vec<u8>| word.eq_ignore_ascii_case(name.as_bytes()))
        };
        if is(0, "REPLCONF") && is(1, "ACK") {
            words = [&b"REPLCONF"[..], b"ACK", b"0"].map(<[u8]>::to_vec).into();
        }
        let mut command = format!("*{}\r\n", words.len()).into_bytes();
        for word in &words {
            command.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
            command.extend_from_slice(word);
            command.extend_from_slice(b"\r\n");
        }
        to.write_all(&command).await?;
    }
}

fn length(line: &str, kind: char) -> io::Result<usize> {
    let length = line.strip_prefix(kind).and_then(|length| length.parse().ok());
    length.filter(|length| *length <= WORD).ok_or_else(|| ErrorKind::InvalidData.into())
}
