//! Where recovery begins, and when it begins again: with the newest snapshot that is sound, or
//! with the log alone, and without each transaction that turns out not to have been committed.

use super::{ReplayError, ReplaySummary};
use lockstep_durability::command_log::{LogEnd, LogPosition};
use lockstep_durability::recovery::{
    BeginFault, Candidate, Outcome, RecoveryLog, Surveyed, begin_with_first,
};
use lockstep_durability::snapshot::Manifest;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::TransactionId;
use std::collections::BTreeSet;

/// The surroundings of a recovery.
pub trait RecoveryHost {
    /// The partitions of a host with the catalog in force.
    type State;

    /// The log is read, to learn what there is to replay.
    fn begin_survey(&mut self) {}

    /// That is known now.
    fn end_survey(&mut self, _outcome: &Outcome) {}

    /// A host as a snapshot has it; without one, an empty host.
    ///
    /// # Errors
    /// The snapshot is damaged, or is not one that a host can begin with.
    fn load(&mut self, manifest: Option<&Manifest>) -> Result<Self::State, BeginFault>;

    /// Replays the log onto a state, up to its end.
    ///
    /// # Errors
    /// See [`ReplayError`]; the state is void then.
    fn replay(
        &mut self,
        state: Self::State,
        end: LogPosition,
        outcome: &Outcome,
    ) -> Result<(Self::State, ReplaySummary), ReplayError>;

    /// Everything was replayed without the given transactions, which turned out not to be
    /// committed. Gives those of which other hosts have found the same; replay begins again without
    /// them.
    ///
    /// # Errors
    /// Another host is lost: the text for the user.
    fn agree(&mut self, _: &BTreeSet<TransactionId>) -> Result<BTreeSet<TransactionId>, String> {
        Ok(BTreeSet::new())
    }
}

/// What a recovery gives.
pub struct Recovered<S> {
    /// The host.
    pub state: S,
    /// What the log said, without the transactions that turned out not to be committed.
    pub outcome: Outcome,
    /// Where the log ends.
    pub end: LogEnd,
    /// By partition, the log has every entry with a greater number.
    pub reach: Vec<u64>,
    /// Bytes of the log after the snapshot.
    pub log_bytes: u64,
    /// What replay did.
    pub replayed: ReplaySummary,
    /// How often replay began again.
    pub restarts: u64,
    /// It began with a snapshot.
    pub from_snapshot: bool,
    /// Newer snapshots that were not used, and why.
    pub passed_over: Vec<String>,
}

/// Recovers a host from the first of some snapshots that is sound, or from the log alone. A damaged
/// snapshot is passed over only if the log after an older one has all that it had. The next run of
/// the host is later than `started_ms`, because a run may have left no entry, and snapshots that
/// are gone by now.
///
/// # Errors
/// The text for the user: which file is damaged, or which entry cannot run.
pub fn recover<H: RecoveryHost>(
    host: &mut H,
    log: &RecoveryLog<'_>,
    partitions: u32,
    found: &[Candidate],
    started_ms: u64,
) -> Result<Recovered<H::State>, String> {
    let sound = found.iter().filter_map(|one| one.manifest.as_ref().ok());
    let sources = sound.flat_map(|manifest| &manifest.positions).map(|position| position.source);
    let saved = sources.max().unwrap_or_default();
    let last = LogSource { incarnation: saved.incarnation.max(started_ms), ..saved };
    let (mut recovered, problems) = begin_with_first(found, |manifest, passed| {
        host.begin_survey();
        let surveyed = log.survey(partitions, manifest, passed, last)?;
        assert_eq!(surveyed.outcome.tails.len(), partitions as usize, "each partition has a log");
        host.end_survey(&surveyed.outcome);
        replay_from(host, manifest, surveyed)
    })?;
    recovered.passed_over = problems;
    Ok(recovered)
}

/// Loads what replay begins with, and replays; once more without each transaction that was not
/// committed after all.
fn replay_from<H: RecoveryHost>(
    host: &mut H,
    manifest: Option<&Manifest>,
    surveyed: Surveyed,
) -> Result<Recovered<H::State>, BeginFault> {
    let Surveyed { mut outcome, end, log_bytes, reach } = surveyed;
    let (mut restarts, mut found) = (0, BTreeSet::new());
    let (state, replayed) = loop {
        let state = host.load(manifest)?;
        match host.replay(state, end.position, &outcome) {
            Ok(done) => {
                let others = host.agree(&found).map_err(BeginFault::Log)?;
                let new: Vec<TransactionId> = others.difference(&found).copied().collect();
                if new.is_empty() {
                    break done;
                }
                for transaction in new {
                    outcome.leave_out(transaction);
                    assert!(found.insert(transaction), "it was not known here");
                }
                assert!(others.iter().all(|one| found.contains(one)), "all hosts leave out these");
                restarts += 1;
            }
            Err(ReplayError::Stopped(problem)) => return Err(BeginFault::Log(problem)),
            Err(ReplayError::NotCommitted(transaction)) => {
                assert!(outcome.leave_out(transaction), "each restart leaves out one more");
                found.insert(transaction);
                restarts += 1;
            }
        }
    };
    Ok(Recovered {
        state,
        outcome,
        end,
        reach,
        log_bytes,
        replayed,
        restarts,
        from_snapshot: manifest.is_some(),
        passed_over: Vec::new(),
    })
}
