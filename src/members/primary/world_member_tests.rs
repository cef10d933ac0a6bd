//! A database with its agent, in the small world.

use crate::agent::contract::Role;

/// A write: the server that took it, and its number in the log.
pub(super) type Write = (u32, u64);

/// A database with its agent.
#[derive(Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they are independent facts")]
pub(super) struct SimulatedMember {
    pub data: Option<String>,
    pub epoch: u64,
    /// The number of the last order.
    pub number: u64,
    pub role: Role,
    pub starts: u32,
    /// The earlier starts that ended in order, the newest first.
    pub continues: Vec<u32>,
    /// The database waits for an order before it starts: it was a primary that waits for acknowledgements.
    pub held: bool,
    pub writable: bool,
    pub source: Option<u32>,
    pub acknowledges: bool,
    pub acks: u32,
    /// How many acknowledgements everything has.
    pub reported: u32,
    /// The length of the log when more acknowledgements were requested.
    pub marker: usize,
    pub admitted: Vec<String>,
    /// The writes that it received, and the part that it has applied.
    pub log: Vec<Write>,
    pub applied: usize,
    pub diverged: bool,
    /// It cannot take writes back that the next primary lacks.
    pub stuck: bool,
}

impl SimulatedMember {
    /// Its database has a write that it cannot take back.
    pub fn diverges(&mut self) {
        self.stuck = true;
    }
}
