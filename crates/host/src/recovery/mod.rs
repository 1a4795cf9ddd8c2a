//! Recovery: the entries of a log run again, so that a host has what it had.
//!
//! [`begin::recover`] chooses what recovery begins with. [`replay`] takes what a survey of the log
//! found ([`lockstep_durability::recovery`]) and the entries of each partition. Each partition is
//! replayed up to the next change of the catalog ([`PartitionReplay::run`]), whether at the same
//! time or one after the other; then the change is made, carried out by a coordinator at all of
//! them, and they go on. Everything runs through the functions that ran it first, so the same state
//! comes out, slot by slot.
//!
//! No partition waits for another between two changes of the catalog: what the others decided is
//! known from the survey, and what they sent is in the partition's own log.

pub mod assembly;
pub mod begin;
mod partition;
mod pieces;
pub(crate) mod runner;

pub use begin::{Recovered, RecoveryHost, recover};
pub use partition::{LoggedChange, PartitionReplay, ReplayContext};
pub use pieces::{LogPieces, PartitionLog, ReplayFaults};
pub use runner::EntrySources;

use crate::catalog::HostCatalog;
use lockstep_durability::recovery::Outcome;
use lockstep_site::{Coordinator, SchemaTask, Site, change_quiet_sites};
use lockstep_types::TransactionId;
use std::fmt;

/// Why replay ends before the log does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayError {
    /// A partition that had voted yes on a transaction cannot repeat its part after what turned
    /// out to be aborted: it would have voted no next. Replay begins again without it.
    NotCommitted(TransactionId),
    /// Replay cannot go on: the text for the user.
    Stopped(String),
}

impl fmt::Display for ReplayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplayError::NotCommitted(transaction) => {
                write!(f, "transaction {} was not committed", transaction.0)
            }
            ReplayError::Stopped(problem) => f.write_str(problem),
        }
    }
}

impl std::error::Error for ReplayError {}

/// The surroundings of a replay.
pub trait ReplayHost {
    /// The origin of a call that a site keeps.
    type Origin;
    /// An answer that a site keeps.
    type Answer;
    /// A catalog, as schema changes bring it to sites.
    type Catalog: Clone;
    /// The code of procedures that are no transactions.
    type Outside;
    /// The log of a partition.
    type Log: PartitionLog;

    /// The catalog in force.
    fn catalog(&self) -> &HostCatalog<Self::Outside>;

    /// Replays each partition up to its next change of the catalog, by [`PartitionReplay::run`].
    /// Gives what each of them gave, in order.
    fn run_partitions(
        &mut self,
        partitions: &mut [ReplayOf<Self>],
        outcome: &Outcome,
    ) -> Vec<Result<Option<LoggedChange>, ReplayError>>;

    /// Works a change of the catalog out again; nothing only where a fault loses it.
    ///
    /// # Errors
    /// It cannot be made: why.
    fn make_change(
        &mut self,
        change: &LoggedChange,
    ) -> Result<Option<SchemaTask<Self::Catalog>>, String>;

    /// A coordinator to carry a change out, which nobody else uses.
    fn coordinator(&self) -> Coordinator<(), Self::Catalog>;

    /// A change was carried out at all partitions: its catalog is in force.
    fn put_in_force(&mut self, catalog: Self::Catalog);
}

/// The sites of a host that replays.
pub type SiteOf<H> =
    Site<<H as ReplayHost>::Origin, <H as ReplayHost>::Answer, <H as ReplayHost>::Catalog>;

/// A partition of a host that replays.
pub type ReplayOf<H> = PartitionReplay<
    <H as ReplayHost>::Origin,
    <H as ReplayHost>::Answer,
    <H as ReplayHost>::Catalog,
    <H as ReplayHost>::Log,
>;

/// What replay did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplaySummary {
    /// Entries that ran again.
    pub replayed: u64,
    /// Changes of the catalog among them, each counted once.
    pub schema_changes: u64,
    /// Entries of what was not committed, or withdrawn.
    pub left_out: u64,
}

/// Replays the entries of all partitions of a host; `logs` are those of `sites`, and have
/// everything after the state of each. Gives the sites, ready for new entries.
///
/// # Errors
/// See [`ReplayError`]; the state is void then.
pub fn replay<H: ReplayHost>(
    host: &mut H,
    sites: Vec<SiteOf<H>>,
    logs: Vec<H::Log>,
    outcome: &Outcome,
) -> Result<(Vec<SiteOf<H>>, ReplaySummary), ReplayError> {
    assert_eq!(sites.len(), logs.len(), "each partition has a log");
    assert!(sites.len() <= outcome.tails.len(), "the survey was of the logs of these partitions");
    let partitions = sites.into_iter().zip(logs);
    let mut partitions: Vec<ReplayOf<H>> =
        partitions.map(|(site, log)| PartitionReplay::new(site.partition(), site, log)).collect();
    let mut summary = ReplaySummary::default();
    while let Some(change) = replay_to_change(host, &mut partitions, outcome)? {
        let version = host.catalog().version();
        let has_all = partitions.len() == outcome.tails.len();
        apply_change(host, &mut partitions, (&change, has_all))?;
        assert!(host.catalog().version() >= version, "catalog versions grow");
        summary.schema_changes += 1;
    }
    let version = host.catalog().version();
    let mut sites = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let tail = &outcome.tails[partition.partition().index()];
        let (mut site, counts) = partition.finish();
        summary.replayed += counts.replayed;
        summary.left_out += counts.left_out;
        let (source, last) = (outcome.next_source(), tail.transaction.max(outcome.last_multi));
        site.go_on_behind((source, tail.sequence), last, version);
        sites.push(site);
    }
    Ok((sites, summary))
}

/// Replays every partition up to its next change of the catalog, which all of them have; `None` if
/// they have come to their ends.
fn replay_to_change<H: ReplayHost>(
    host: &mut H,
    partitions: &mut [ReplayOf<H>],
    outcome: &Outcome,
) -> Result<Option<LoggedChange>, ReplayError> {
    let ended = host.run_partitions(partitions, outcome);
    assert_eq!(ended.len(), partitions.len(), "each partition has run");
    // A transaction that is to be left out may be why another partition fails.
    let is_other = |end: &Result<_, ReplayError>| matches!(end, Err(ReplayError::Stopped(_)));
    let (stopped, rest): (Vec<_>, Vec<_>) = ended.into_iter().partition(is_other);
    let stops = rest.into_iter().collect::<Result<Vec<_>, _>>()?;
    if let Some(Err(error)) = stopped.into_iter().next() {
        return Err(error);
    }
    let change = stops.into_iter().flatten().reduce(|first, next| {
        // The partitions have stopped at the same change, unless a log was cut before it.
        if next.header.transaction < first.header.transaction { next } else { first }
    });
    let Some(change) = change else { return Ok(None) };
    match partitions.iter().find(|partition| !partition.is_stopped_at(&change)) {
        None => Ok(Some(change)),
        Some(partition) => Err(ReplayError::Stopped(format!(
            "the log of partition {} ends before a change of the catalog (transaction {}) that \
             other partitions have: its last entries are missing",
            partition.partition(),
            change.header.transaction.0
        ))),
    }
}

/// Makes a change of the catalog and carries it out at all partitions. A host that has some of them
/// only carries it out at each alone, with what the log says that others have given.
fn apply_change<H: ReplayHost>(
    host: &mut H,
    partitions: &mut [ReplayOf<H>],
    (change, has_all): (&LoggedChange, bool),
) -> Result<(), ReplayError> {
    let stopped = |problem: String| {
        ReplayError::Stopped(format!(
            "the change of the catalog of transaction {} cannot be replayed: {problem}",
            change.header.transaction.0
        ))
    };
    if let Some(task) = host.make_change(change).map_err(stopped)? {
        if task.catalog_version != change.catalog_version {
            return Err(stopped(format!(
                "it makes version {} of the catalog, and made version {}",
                task.catalog_version, change.catalog_version
            )));
        }
        let next = task.catalog.clone();
        if has_all {
            let mut sites: Vec<&mut SiteOf<H>> =
                partitions.iter_mut().map(PartitionReplay::site).collect();
            let (coordinator, now_us) = (host.coordinator(), change.header.timestamp_us);
            change_quiet_sites(&mut sites, coordinator, task, now_us).map_err(stopped)?;
        } else {
            for partition in partitions.iter_mut() {
                partition.change_alone(change, &task).map_err(stopped)?;
            }
        }
        host.put_in_force(next);
        assert_eq!(host.catalog().version(), change.catalog_version, "the change is in force");
    }
    partitions.iter_mut().for_each(PartitionReplay::follow_catalog);
    Ok(())
}
