//! Proposals of this member on their way to the leader, and those of others at the leader.
//!
//! A member sends what is pending in order, from the oldest on, until it is applied or its time is
//! over. The log may hold a proposal twice; it is applied once, and never after a later one of the
//! same process.

use super::{Event, Member};
use crate::apply::Verdict;
use crate::command::Command;
use crate::error::{ClusterError, FormatError};
use crate::ids::Incarnation;
use crate::message::{Body, Envelope, Forwarded, Proposal};

/// The number of a proposal of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProposalId(pub u64);

/// How a proposal ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProposalOutcome {
    /// It was applied, with this verdict.
    Ended(Verdict),
    /// It was applied, and the verdict is not known: this member took a later state as a whole.
    Applied,
    /// It was not applied in time. Whether it will be is not known.
    Unknown,
    /// The log held something that is not a command.
    Malformed(FormatError),
}

impl From<Verdict> for ProposalOutcome {
    fn from(verdict: Verdict) -> ProposalOutcome {
        ProposalOutcome::Ended(verdict)
    }
}

pub(super) struct Pending {
    sequence: u64,
    command: Command,
    bytes: Vec<u8>,
    deadline_us: u64,
    /// The term in which this member appended it as the leader.
    appended_in: Option<u64>,
}

/// Bytes of proposals in one message, about.
const FORWARD_BYTES: usize = 64 << 10;

impl Member {
    /// Proposes a command. [`Event::ProposalEnded`] has the outcome.
    ///
    /// # Errors
    /// Too many proposals are pending.
    pub fn propose(&mut self, command: Command, now_us: u64) -> Result<ProposalId, ClusterError> {
        let limit = self.config.options.pending_proposals_max as usize;
        if self.pending.len() >= limit {
            return Err(ClusterError::TooManyProposals { limit });
        }
        let sequence = self.next_sequence;
        self.next_sequence += 1;
        self.pending.push_back(Pending {
            sequence,
            bytes: command.encode(),
            command,
            deadline_us: now_us + self.config.options.proposal_timeout_us,
            appended_in: None,
        });
        self.send_proposals(now_us);
        Ok(ProposalId(sequence))
    }

    /// Proposes a command, unless the same one is pending.
    pub fn propose_once(&mut self, command: Command, now_us: u64) {
        if !self.pending.iter().any(|pending| pending.command == command) {
            // At the limit, the next tick proposes it.
            let _ = self.propose(command, now_us);
        }
    }

    /// Sends what is pending to the leader, or appends it if this member leads.
    pub(super) fn send_proposals(&mut self, now_us: u64) {
        self.next_forward_us = now_us + self.config.options.proposal_retry_us;
        if self.core.leads() {
            let term = self.core.term();
            for pending in &mut self.pending {
                if pending.appended_in == Some(term) {
                    continue;
                }
                let proposal = Proposal {
                    from: self.identity.id,
                    incarnation: self.config.incarnation,
                    sequence: pending.sequence,
                    command: pending.bytes.clone(),
                };
                if !self.core.propose(proposal.encode()) {
                    return;
                }
                pending.appended_in = Some(term);
            }
            return;
        }
        let Some(leader) = self.core.leader().filter(|_| !self.pending.is_empty()) else { return };
        let mut bytes = 0;
        let fits = |pending: &&Pending| {
            bytes += pending.bytes.len();
            bytes - pending.bytes.len() <= FORWARD_BYTES
        };
        let batch = self.pending.iter().take_while(fits);
        let batch: Vec<Forwarded> = batch.map(|p| (p.sequence, p.bytes.clone())).collect();
        self.send(leader.host(), Some(leader), &Body::Forward(batch));
    }

    /// Appends what another member forwarded, if this member leads.
    pub(super) fn take_forwarded(&mut self, envelope: Envelope, proposals: Vec<Forwarded>) {
        if !self.core.leads() {
            return;
        }
        if self.appended_term != self.core.term() {
            // What an earlier term appended may be lost.
            self.appended_term = self.core.term();
            self.appended.clear();
        }
        for (sequence, command) in proposals {
            let number = (envelope.incarnation, sequence);
            let newest = self.appended.get(&envelope.from.host());
            if newest.is_some_and(|newest| *newest >= number) {
                continue;
            }
            let Envelope { from, incarnation, .. } = envelope;
            let proposal = Proposal { from, incarnation, sequence, command };
            if !self.core.propose(proposal.encode()) {
                return;
            }
            self.appended.insert(from.host(), number);
        }
    }

    pub(super) fn expire_proposals(&mut self, now_us: u64) {
        while let Some(first) = self.pending.front().filter(|first| first.deadline_us <= now_us) {
            let id = ProposalId(first.sequence);
            self.pending.pop_front();
            let outcome = ProposalOutcome::Unknown;
            self.effects.events.push(Event::ProposalEnded { id, outcome });
        }
    }

    pub(super) fn end_proposal(&mut self, sequence: u64, outcome: ProposalOutcome) {
        if let Some(at) = self.pending.iter().position(|pending| pending.sequence == sequence) {
            assert_eq!(at, 0, "proposals of a process are applied in order");
            self.pending.pop_front();
            let id = ProposalId(sequence);
            self.effects.events.push(Event::ProposalEnded { id, outcome });
        }
    }

    /// This member took a later state as a whole, which has its proposals up to there.
    pub(super) fn end_proposals_up_to(&mut self, last: (Incarnation, u64)) {
        if last.0 != self.config.incarnation {
            return;
        }
        while let Some(first) = self.pending.front().filter(|first| first.sequence <= last.1) {
            let sequence = first.sequence;
            self.end_proposal(sequence, ProposalOutcome::Applied);
        }
    }
}
