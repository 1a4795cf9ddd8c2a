//! Digests of leader and follower, compared where both have one for the same position.

use lockstep_txn::EntryReader;
use lockstep_txn::log_entry::EntryBody;
use lockstep_txn::replica::Piece;
use lockstep_types::PartitionId;
use std::collections::VecDeque;
use std::fmt;

/// Digests of each side that wait for the other one.
const DIGESTS_KEPT: usize = 256;
/// Pieces that are kept to say what ran where digests differ.
const PIECES_KEPT: usize = 64;
/// Procedures that are named.
const NAMES_MAX: usize = 8;

/// A copy that is not equal to its leader.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Whose copies.
    pub partition: PartitionId,
    /// The last entry after which both were equal.
    pub after: u64,
    /// The entry after which they are not.
    pub position: u64,
    /// What ran in between: procedures and statements, in order, each once, and not too many.
    pub ran: Vec<String>,
}

impl fmt::Display for Divergence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Divergence { partition, after, position, ran } = self;
        let (first, ran) = (after + 1, ran.join(", "));
        write!(
            f,
            "the copy of partition {partition} differs from its leader: entries {first} to \
             {position} of its log did not do the same ({ran})"
        )
    }
}

/// What is known of both sides.
#[derive(Debug)]
pub(super) struct DigestTrail {
    own: VecDeque<(u64, u64)>,
    leader: VecDeque<(u64, u64)>,
    /// The last position at which both were equal, and the first one at which they were not.
    equal: u64,
    differs: Option<u64>,
    /// What was applied since.
    recent: VecDeque<Piece>,
}

impl DigestTrail {
    pub(super) fn new(position: u64) -> DigestTrail {
        DigestTrail {
            own: VecDeque::new(),
            leader: VecDeque::new(),
            equal: position,
            differs: None,
            recent: VecDeque::new(),
        }
    }

    /// This copy has applied a piece, and has a digest now.
    pub(super) fn note_own(&mut self, piece: Piece, digest: u64) {
        keep(&mut self.own, piece.last(), digest);
        self.recent.push_back(piece);
        if self.recent.len() > PIECES_KEPT {
            self.recent.pop_front();
        }
        self.compare();
    }

    /// The leader has a digest of a position.
    pub(super) fn note_leader(&mut self, position: u64, digest: u64) {
        keep(&mut self.leader, position, digest);
        self.compare();
    }

    fn compare(&mut self) {
        while let (Some(own), Some(leader)) = (self.own.front(), self.leader.front()) {
            if own.0 != leader.0 {
                // Later positions follow on both sides.
                let earlier = if own.0 < leader.0 { &mut self.own } else { &mut self.leader };
                earlier.pop_front();
                continue;
            }
            if self.differs.is_none() {
                match own.1 == leader.1 {
                    true => self.equal = own.0,
                    false => self.differs = Some(own.0),
                }
            }
            self.own.pop_front();
            self.leader.pop_front();
        }
        while self.recent.front().is_some_and(|piece| piece.last() <= self.equal) {
            self.recent.pop_front();
        }
        assert!(self.differs.is_none_or(|at| at > self.equal), "what differs comes after");
    }

    pub(super) fn divergence(&self, partition: PartitionId) -> Option<Divergence> {
        let position = self.differs?;
        let mut ran = Vec::new();
        for piece in self.recent.iter().filter(|piece| piece.before() < position) {
            let mut reader = EntryReader::new(&piece.bytes);
            while let (Ok(Some(entry)), true) = (reader.read(), ran.len() < NAMES_MAX) {
                let name = match &entry.body {
                    EntryBody::Command(command) => command.procedure,
                    EntryBody::Call(call) => call.procedure,
                    EntryBody::Load(load) => load.procedure,
                    EntryBody::Statements => "statements",
                    EntryBody::Fragments(_) => "fragments of a transaction",
                    EntryBody::Effects(_) => "effects of a call",
                    _ => continue,
                };
                if !ran.iter().any(|listed| listed == name) {
                    ran.push(name.to_string());
                }
            }
        }
        Some(Divergence { partition, after: self.equal, position, ran })
    }
}

fn keep(digests: &mut VecDeque<(u64, u64)>, position: u64, digest: u64) {
    assert!(
        digests.back().is_none_or(|(last, _)| *last <= position),
        "positions of one side ascend"
    );
    digests.push_back((position, digest));
    if digests.len() > DIGESTS_KEPT {
        digests.pop_front();
    }
}
