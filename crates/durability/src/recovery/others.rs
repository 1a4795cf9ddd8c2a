//! The logs of partitions that other hosts have, as far as recovery needs them: what they say of
//! transactions over several partitions.
//!
//! A host that is one of several has the logs of its own partitions only. Whether a transaction is
//! committed follows from the logs of all partitions that take part in it; so the hosts give each
//! other [`Fact`]s, which are those entries without what they do.

use super::Survey;
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_txn::log_entry::{Entry, EntryBody, Vote, WriterRound};
use lockstep_types::{PartitionId, TransactionId};

/// The logs of partitions that other hosts have.
#[derive(Debug, Clone, Default)]
pub struct Others {
    /// By partition, whether this host has its log. What its command log has of others is left
    /// out: it is of a copy that does not count any more.
    pub own: Vec<bool>,
    /// By partition, what the log of another host says, in its order.
    pub facts: Vec<Vec<Fact>>,
    /// By partition, the transaction of the snapshot that the log which counts goes on from: those
    /// up to it are decided in all logs, and what is left of that log may have nothing of them.
    pub settled: Vec<TransactionId>,
}

/// What one entry says of a transaction over several partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fact {
    /// Which.
    pub transaction: TransactionId,
    /// What it says.
    pub what: Said,
}

/// See [`Fact`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Said {
    /// The partition ran its part of a round, and voted.
    Part {
        /// The round.
        round: u32,
        /// Its vote.
        vote: Vote,
        /// With the vote, who votes.
        participants: Vec<PartitionId>,
    },
    /// It ran what is one entry at each partition: a change of the catalog, or the beginning of a
    /// snapshot.
    Whole {
        /// It is a change of the catalog.
        is_change: bool,
    },
    /// It voted again.
    Vote(Vote),
    /// The transaction is committed, with what these partitions logged.
    Commit(Vec<WriterRound>),
    /// It is aborted.
    Abort,
}

impl Fact {
    /// What an entry says; `None` for one of the partition alone.
    pub fn of(entry: &Entry<'_>) -> Option<Fact> {
        let transaction = entry.header.transaction;
        if transaction.partition() != PartitionId::MULTI {
            return None;
        }
        let what = match &entry.body {
            EntryBody::Fragments(fragments) => Said::Part {
                round: fragments.round,
                vote: fragments.vote,
                participants: fragments.participants().collect(),
            },
            EntryBody::Call(call) => Said::Part {
                round: 1,
                vote: call.vote,
                participants: call.participants().collect(),
            },
            EntryBody::Snapshot(_) => Said::Whole { is_change: false },
            EntryBody::Schema { .. } => Said::Whole { is_change: true },
            EntryBody::Vote(vote) => Said::Vote(*vote),
            EntryBody::Commit(commit) => Said::Commit(commit.writers().collect()),
            EntryBody::Abort => Said::Abort,
            EntryBody::Command(_)
            | EntryBody::Statements
            | EntryBody::Load(_)
            | EntryBody::Effects(_)
            | EntryBody::Epoch(_)
            | EntryBody::Build(_)
            | EntryBody::Withdrawn => return None,
        };
        Some(Fact { transaction, what })
    }

    /// Appends the byte form.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.put_varint(self.transaction.0);
        match &self.what {
            Said::Part { round, vote, participants } => {
                out.put_u8(0);
                out.put_varint(u64::from(*round));
                out.put_u8(number_of(*vote));
                out.put_varint(participants.len() as u64);
                participants.iter().for_each(|one| out.put_varint(u64::from(one.0)));
            }
            Said::Whole { is_change } => {
                out.put_u8(1);
                out.put_u8(u8::from(*is_change));
            }
            Said::Vote(vote) => {
                out.put_u8(2);
                out.put_u8(number_of(*vote));
            }
            Said::Commit(writers) => {
                out.put_u8(3);
                out.put_varint(writers.len() as u64);
                for writer in writers {
                    out.put_varint(u64::from(writer.partition.0));
                    out.put_varint(u64::from(writer.round));
                }
            }
            Said::Abort => out.put_u8(4),
        }
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// The bytes are no fact: what is wrong.
    pub fn read(input: &mut ByteReader<'_>) -> Result<Fact, String> {
        let cut = |_: EndOfBytes| "what another host says of its log is cut off".to_string();
        let transaction = TransactionId(input.varint().map_err(cut)?);
        let what = match input.u8().map_err(cut)? {
            0 => Said::Part {
                round: small(input)?,
                vote: vote_of(input.u8().map_err(cut)?)?,
                participants: list(input, |input| small(input).map(PartitionId))?,
            },
            1 => Said::Whole { is_change: input.u8().map_err(cut)? != 0 },
            2 => Said::Vote(vote_of(input.u8().map_err(cut)?)?),
            3 => Said::Commit(list(input, |input| {
                Ok(WriterRound { partition: PartitionId(small(input)?), round: small(input)? })
            })?),
            4 => Said::Abort,
            other => return Err(format!("another host says {other} of its log, which is unknown")),
        };
        Ok(Fact { transaction, what })
    }
}

fn small(input: &mut ByteReader<'_>) -> Result<u32, String> {
    let number = input.varint().ok().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| "a number of what another host says is not of 32 bits".to_string())
}

fn list<T>(
    input: &mut ByteReader<'_>,
    read: impl Fn(&mut ByteReader<'_>) -> Result<T, String>,
) -> Result<Vec<T>, String> {
    let count = small(input)? as usize;
    if count > input.remaining() {
        return Err("a list of what another host says is cut off".to_string());
    }
    (0..count).map(|_| read(input)).collect()
}

fn number_of(vote: Vote) -> u8 {
    match vote {
        Vote::None => 0,
        Vote::Yes => 1,
        Vote::No => 2,
    }
}

fn vote_of(number: u8) -> Result<Vote, String> {
    match number {
        0 => Ok(Vote::None),
        1 => Ok(Vote::Yes),
        2 => Ok(Vote::No),
        other => Err(format!("{other} is no vote")),
    }
}

impl Survey {
    /// Notes what the log of another host's partition says next.
    pub fn note_fact(&mut self, partition: PartitionId, fact: &Fact) {
        let transaction = fact.transaction;
        self.last_multi = self.last_multi.max(transaction);
        match &fact.what {
            Said::Part { round, vote, participants } => {
                self.note_part(partition, transaction, *round);
                self.vote(partition, transaction, *vote, participants.iter().copied());
            }
            Said::Whole { is_change } => {
                self.note_part(partition, transaction, super::WHOLE);
                if *is_change {
                    self.vote(partition, transaction, Vote::None, std::iter::empty());
                }
            }
            Said::Vote(vote) => self.vote(partition, transaction, *vote, std::iter::empty()),
            Said::Commit(writers) => self.commit(transaction, writers.iter().copied()),
            Said::Abort => self.abort(partition, transaction),
        }
    }

    /// The last transaction over several partitions so far.
    pub(super) fn last_multi(&self) -> TransactionId {
        self.last_multi
    }
}

/// What of others was read: as far as the own log, so that little has to be remembered.
pub(super) struct OthersRead<'a> {
    others: &'a Others,
    next: Vec<usize>,
}

impl<'a> OthersRead<'a> {
    pub(super) fn new(others: &'a Others) -> OthersRead<'a> {
        OthersRead { others, next: vec![0; others.facts.len()] }
    }

    /// Whether the own log counts for a partition.
    pub(super) fn is_own(&self, partition: u32) -> bool {
        self.others.own.get(partition as usize).copied().unwrap_or(false)
    }

    /// Notes what others say of transactions up to one; of all without a limit.
    pub(super) fn follow(&mut self, survey: &mut Survey, limit: Option<TransactionId>) {
        for (number, (facts, next)) in self.others.facts.iter().zip(&mut self.next).enumerate() {
            while let Some(fact) = facts.get(*next)
                && limit.is_none_or(|limit| fact.transaction <= limit)
            {
                survey.note_fact(PartitionId(number as u32), fact);
                *next += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recovery::Outcome;

    fn multi(number: u32) -> TransactionId {
        TransactionId::new(1_700_000_000_000, number, PartitionId::MULTI)
    }

    fn fact(number: u32, what: Said) -> Fact {
        Fact { transaction: multi(number), what }
    }

    fn part(vote: Vote, participants: &[u32]) -> Said {
        let participants = participants.iter().copied().map(PartitionId).collect();
        Said::Part { round: 1, vote, participants }
    }

    fn of_all() -> Vec<Fact> {
        let writer = |partition| WriterRound { partition: PartitionId(partition), round: 3 };
        vec![
            fact(1, part(Vote::Yes, &[0, 1])),
            fact(2, Said::Whole { is_change: true }),
            fact(2, Said::Whole { is_change: false }),
            fact(3, Said::Vote(Vote::No)),
            fact(4, Said::Commit(vec![writer(0), writer(7)])),
            fact(5, Said::Abort),
        ]
    }

    #[test]
    fn facts_are_read_back_and_cut_ones_refused() {
        for one in of_all() {
            let mut bytes = Vec::new();
            one.write(&mut bytes);
            assert_eq!(Fact::read(&mut ByteReader::new(&bytes)), Ok(one));
            for end in 0..bytes.len() {
                assert!(Fact::read(&mut ByteReader::new(&bytes[..end])).is_err());
            }
        }
    }

    /// What three partitions at three hosts say leads to one outcome, in whichever order they are
    /// read.
    #[test]
    fn a_transaction_counts_if_all_partitions_that_vote_say_yes() {
        let logs: [Vec<Fact>; 3] = [
            vec![fact(1, part(Vote::Yes, &[0, 1])), fact(2, part(Vote::Yes, &[0, 2]))],
            vec![fact(1, part(Vote::Yes, &[0, 1])), fact(3, part(Vote::Yes, &[1, 2]))],
            vec![fact(3, part(Vote::Yes, &[1, 2])), fact(3, Said::Vote(Vote::No))],
        ];
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
            let mut survey = Survey::new(&[0; 3]);
            for number in order {
                let partition = PartitionId(number as u32);
                logs[number].iter().for_each(|fact| survey.note_fact(partition, fact));
            }
            let outcome: Outcome = survey.finish();
            let counts = |number| outcome.replays(PartitionId(0), multi(number));
            assert_eq!([counts(1), counts(2), counts(3)], [true, false, false], "{order:?}");
            assert_eq!(outcome.last_multi, multi(3));
        }
    }
}
