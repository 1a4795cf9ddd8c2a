//! What must hold: within a session the messages that a side delivers are a prefix of those that
//! the other side offered, in order, each once.

use lockstep_link::SessionId;
use std::collections::{BTreeMap, BTreeSet};

/// One direction of a session: the messages that its sender offered, and how many of them the
/// receiver has delivered.
#[derive(Debug, Default)]
struct Direction {
    offered: Vec<Vec<u8>>,
    delivered: usize,
}

/// What each side was given, by sessions.
#[derive(Debug, Default)]
pub struct Judge {
    /// By the side that offers.
    sessions: BTreeMap<SessionId, [Direction; 2]>,
    current: [Option<SessionId>; 2],
    over: [BTreeSet<SessionId>; 2],
    /// Datagrams that were sent, by their sender, and those that were delivered.
    datagrams_sent: [u64; 2],
    datagrams_seen: [BTreeSet<u64>; 2],
}

impl Judge {
    pub fn began(&mut self, side: usize, session: SessionId) -> Result<(), String> {
        if let Some(present) = self.current[side] {
            return Err(format!("session {session} began within session {present}"));
        }
        if self.over[side].contains(&session) {
            return Err(format!("session {session} began a second time"));
        }
        self.current[side] = Some(session);
        self.sessions.entry(session).or_default();
        Ok(())
    }

    pub fn ended(&mut self, side: usize, session: SessionId) -> Result<(), String> {
        if self.current[side] != Some(session) {
            return Err(format!("session {session} ended within {:?}", self.current[side]));
        }
        self.restarted(side);
        Ok(())
    }

    /// The side is another process: what it knew is gone.
    pub fn restarted(&mut self, side: usize) {
        self.over[side].extend(self.current[side].take());
    }

    pub fn offered(&mut self, side: usize, number: u64, bytes: Vec<u8>) -> Result<(), String> {
        let session = self.current[side].ok_or("a message was taken without a session")?;
        let directions = self.sessions.get_mut(&session).ok_or("no such session")?;
        let direction = &mut directions[side];
        direction.offered.push(bytes);
        match number == direction.offered.len() as u64 {
            true => Ok(()),
            false => Err(format!("message {number} is offered {}", direction.offered.len())),
        }
    }

    pub fn delivered(&mut self, side: usize, number: u64, bytes: &[u8]) -> Result<(), String> {
        let session = self.current[side].ok_or("a message was delivered without a session")?;
        let directions = self.sessions.get_mut(&session).ok_or("no such session")?;
        let direction = &mut directions[1 - side];
        direction.delivered += 1;
        let expected = direction.delivered as u64;
        if number != expected {
            return Err(format!("message {number} was delivered as number {expected}"));
        }
        match direction.offered.get(direction.delivered - 1) {
            Some(offered) if offered == bytes => Ok(()),
            Some(_) => Err(format!("message {number} is not what was offered as {number}")),
            None => Err(format!("message {number} was never offered")),
        }
    }

    /// Gives the number that a datagram has to carry.
    pub fn next_datagram(&mut self, side: usize) -> u64 {
        self.datagrams_sent[side] += 1;
        self.datagrams_sent[side]
    }

    pub fn datagram(&mut self, side: usize, bytes: &[u8]) -> Result<(), String> {
        let number = bytes.first_chunk().map(|chunk| u64::from_be_bytes(*chunk));
        let number = number.ok_or("a datagram is too short")?;
        if number > self.datagrams_sent[1 - side] {
            return Err(format!("datagram {number} was never sent"));
        }
        match self.datagrams_seen[side].insert(number) {
            true => Ok(()),
            false => Err(format!("datagram {number} was delivered twice")),
        }
    }

    /// Both sides are in one session, with everything delivered.
    pub fn at_rest(&self) -> Result<(), String> {
        let [Some(a), Some(b)] = self.current else {
            return Err(format!("no session once faults stopped: {:?}", self.current));
        };
        if a != b {
            return Err(format!("the sides are in sessions {a} and {b}"));
        }
        let directions = self.sessions.get(&a).ok_or("no such session")?;
        for (side, direction) in directions.iter().enumerate() {
            let (offered, delivered) = (direction.offered.len(), direction.delivered);
            if offered != delivered {
                return Err(format!("of {offered} messages of side {side} {delivered} came"));
            }
        }
        Ok(())
    }
}
