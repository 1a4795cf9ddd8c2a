//! What a host does before it serves: reads its command log, and has its partitions run again
//! what is committed.

use super::{HostState, PartitionSource, ReplayError, ReplaySettings, replay};
use crate::clock;
use crate::log::Data;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{LogEnd, LogReader, TornTail};
use lockstep_durability::recovery::{LogTail, Outcome, Survey};
use lockstep_env::Disk;
use lockstep_types::{PartitionId, TransactionId};
use std::sync::Arc;

/// What was brought back.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecoverySummary {
    /// Entries of the command log that ran again.
    pub replayed: u64,
    /// Entries of what was not committed, or withdrawn.
    pub left_out: u64,
    /// Where the log was cut off, because what stood there was never known to be durable.
    pub torn: Option<TornTail>,
    /// How long it took.
    pub elapsed_ms: u64,
}

/// A host as its directory has it.
pub(crate) struct Recovered<H, A> {
    pub state: HostState<H, A>,
    /// Where the command log ends.
    pub end: LogEnd,
    /// The end of each partition's log.
    pub tails: Vec<LogTail>,
    /// The last transaction id that the coordinator gave.
    pub last_multi: TransactionId,
    pub summary: RecoverySummary,
}

/// Brings back what a directory holds.
///
/// # Errors
/// The log is damaged, or cannot be replayed; the text says where and what can be done.
pub(crate) fn recover<H: Send, A: Send>(
    data: &Data,
    settings: &ReplaySettings<'_>,
) -> Result<Recovered<H, A>, String> {
    let started_us = clock::now_us();
    let (mut outcome, end) = survey(data)?;
    let (state, replayed) = loop {
        let empty = HostState::empty(settings).map_err(|error| error.to_string())?;
        let sources = (0..data.cluster.partition_count)
            .map(|partition| source(data, partition))
            .collect::<Result<Vec<_>, _>>()?;
        match replay(empty, sources, &outcome, settings) {
            Ok(done) => break done,
            Err(ReplayError::NotCommitted(transaction)) => outcome.leave_out(transaction),
            Err(ReplayError::Stopped(problem)) => {
                let directory = data.disk.shown("");
                return Err(format!(
                    "the command log in {directory} cannot be replayed: {problem}. Nothing was \
                     changed."
                ));
            }
        }
    };
    let summary = RecoverySummary {
        replayed: replayed.replayed,
        left_out: replayed.left_out,
        torn: end.torn.clone(),
        elapsed_ms: ((clock::now_us() - started_us) / 1000) as u64,
    };
    let last_multi = outcome.last_multi;
    Ok(Recovered { state, end, tails: outcome.tails, last_multi, summary })
}

fn open(data: &Data) -> Result<LogReader, String> {
    let (disk, cluster): (Arc<dyn Disk>, ClusterId) =
        (Arc::clone(&data.disk), data.cluster.cluster);
    LogReader::open(disk, cluster).map_err(|error| error.to_string())
}

/// Reads the log to its end.
fn survey(data: &Data) -> Result<(Outcome, LogEnd), String> {
    let count = data.cluster.partition_count;
    let mut survey = Survey::new(&vec![0; count as usize]);
    let mut reader = open(data)?;
    while let Some(block) = reader.next_block().map_err(|error| error.to_string())? {
        let (partition, position) = (block.partition, block.position);
        let read = match partition < count {
            true => survey.read(PartitionId(partition), block.body).map_err(|e| e.to_string()),
            false => Err(format!("entries of partition {partition} of a cluster with {count}")),
        };
        read.map_err(|problem| {
            let file = lockstep_durability::command_log::file_name(position.segment);
            format!(
                "{}, block at byte {}: {problem}. The file is not damaged on the disk, but what \
                 it holds does not follow on what was before; restore the host from a snapshot. \
                 Nothing was changed.",
                data.disk.shown(&file),
                position.offset
            )
        })?;
    }
    Ok((survey.finish(), reader.into_end()))
}

/// One partition's entries, read from the log by a reader of its own.
struct LogSource {
    reader: LogReader,
}

fn source(data: &Data, partition: u32) -> Result<Box<dyn PartitionSource>, String> {
    let reader = open(data)?.of_partition(partition);
    Ok(Box::new(LogSource { reader }))
}

impl PartitionSource for LogSource {
    fn next(&mut self) -> Result<Option<&[u8]>, String> {
        let block = self.reader.next_block().map_err(|error| error.to_string())?;
        Ok(block.map(|block| block.body))
    }
}
