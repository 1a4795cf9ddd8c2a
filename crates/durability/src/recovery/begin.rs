//! Where recovery begins: the newest snapshot that is sound, if the log has what comes after it.
//!
//! A damaged snapshot is passed over only if the log after an older one, or the log alone, has
//! all that the damaged one had. How a snapshot is loaded and a log replayed is the caller's.

use super::others::OthersRead;
use super::{Others, Outcome, Point, Replaced, Survey, SurveyError};
use crate::ClusterId;
use crate::command_log::{Block, FOLDER, LogEnd, LogPosition, LogReader, file_name};
use crate::directory::SNAPSHOT_FOLDER;
use crate::snapshot::{
    ContentKind, Manifest, PartitionPosition, SnapshotError, saved_transaction, scan,
};
use lockstep_env::{Disk, DiskErrorKind};
use lockstep_txn::log_entry::LogSource;
use lockstep_types::{PartitionId, TransactionId};
use std::cmp::Reverse;

/// A snapshot of a host's directory, sound or not.
#[derive(Debug, Clone)]
pub struct Candidate {
    /// Its name.
    pub nonce: String,
    /// When it was taken; the greatest number where that cannot be told.
    pub transaction: i64,
    /// By partition, the last entry that it has, if that is known.
    pub sequences: Option<Vec<u64>>,
    /// Its manifest, or what is wrong with it.
    pub manifest: Result<Manifest, String>,
}

impl Candidate {
    /// Whether all that it has, as far as that is known, comes before a point.
    pub fn is_before(&self, point: &Point) -> bool {
        // Of a damaged one nothing may be known: then nobody knows what it had.
        let is_known = self.transaction != i64::MAX;
        let key = TransactionId(self.transaction as u64).time_key();
        let fits = |sequences: &Vec<u64>| sequences.iter().zip(&point.cut).all(|(a, b)| a <= b);
        (!is_known || key <= point.limit_key) && self.sequences.as_ref().is_none_or(fits)
    }

    /// When it was taken, milliseconds since 1970, if that is known.
    pub fn time_ms(&self) -> Option<i64> {
        let is_known = self.transaction != i64::MAX;
        is_known.then(|| TransactionId(self.transaction as u64).time_ms())
    }
}

/// Why recovery cannot begin with a snapshot, or with the log alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BeginFault {
    /// The snapshot is not to be used; the text says why, unless nobody needs to hear of it.
    Snapshot(Option<String>),
    /// It has numbers that entries of a later run have too: it is of another history.
    OtherHistory(String),
    /// The log cannot be read, does not reach, or cannot be replayed.
    Log(String),
}

/// The snapshots that recovery could begin with, and those of which nobody knows because they are
/// damaged; newest first. One of several hosts, with copies of its `own` partitions, begins with
/// what it keeps of all of these.
///
/// # Errors
/// The folder cannot be read.
pub fn candidates(
    disk: &dyn Disk,
    cluster: ClusterId,
    partitions: u32,
    own: Option<&[bool]>,
) -> Result<Vec<Candidate>, SnapshotError> {
    let has_all = |manifest: &Manifest| match (&manifest.part, own) {
        (None, None) => true,
        (Some(part), Some(own)) if part.is_own => {
            let mut own = (0..).zip(own).filter(|(_, is_own)| **is_own);
            own.all(|(number, _)| part.partitions.contains(&number))
        }
        _ => false,
    };
    let mut candidates = Vec::new();
    for found in scan(disk, SNAPSHOT_FOLDER)? {
        let missing = found.missing().next().map(|file| {
            let shown = disk.shown(&format!("{SNAPSHOT_FOLDER}/{}", file.name));
            let problem = format!("it is not there with the {} bytes of the manifest", file.bytes);
            SnapshotError::refused(shown, problem, "restore the file from a copy").to_string()
        });
        match found.manifest {
            Ok(manifest) => {
                let is_whole_host = manifest.content == ContentKind::Native
                    && has_all(&manifest)
                    && manifest.cluster == cluster
                    && manifest.positions.len() == partitions as usize;
                if !is_whole_host {
                    continue;
                }
                let positions = manifest.positions.iter();
                candidates.push(Candidate {
                    nonce: found.nonce,
                    transaction: manifest.transaction,
                    sequences: Some(positions.map(|position| position.sequence).collect()),
                    manifest: missing.map_or(Ok(manifest), Err),
                });
            }
            // One that was not finished does not exist.
            Err(error) if error.disk == Some(DiskErrorKind::NotFound) => {}
            Err(error) => candidates.push(Candidate {
                transaction: saved_transaction(disk, SNAPSHOT_FOLDER, &found.nonce),
                nonce: found.nonce,
                sequences: None,
                manifest: Err(error.to_string()),
            }),
        }
    }
    candidates.sort_by_key(|candidate| Reverse(candidate.transaction));
    Ok(candidates)
}

/// Begins with the first candidate that fits, or with the log alone; `begin` is told which, and
/// which ones were passed over before. Gives with it what is wrong with those.
///
/// # Errors
/// The text for the user, which says why newer snapshots were passed over too.
pub fn begin_with_first<T>(
    found: &[Candidate],
    mut begin: impl FnMut(Option<&Manifest>, &[&Candidate]) -> Result<T, BeginFault>,
) -> Result<(T, Vec<String>), String> {
    let (mut problems, mut passed) = (Vec::new(), Vec::new());
    for candidate in found {
        let begun = match &candidate.manifest {
            Err(problem) => Err(BeginFault::Snapshot(Some(problem.clone()))),
            Ok(manifest) => begin(Some(manifest), &passed),
        };
        match begun {
            Ok(begun) => return Ok((begun, problems)),
            Err(BeginFault::Snapshot(Some(problem))) => {
                problems.push(problem);
                passed.push(candidate);
            }
            Err(BeginFault::Snapshot(None)) => {}
            Err(BeginFault::OtherHistory(problem)) => problems.push(problem),
            Err(BeginFault::Log(problem)) => return Err(with_problems(problem, problems)),
        }
    }
    match begin(None, &passed) {
        Ok(begun) => Ok((begun, problems)),
        Err(BeginFault::Log(problem) | BeginFault::OtherHistory(problem)) => {
            Err(with_problems(problem, problems))
        }
        Err(BeginFault::Snapshot(_)) => unreachable!("there is no snapshot to refuse"),
    }
}

/// What stops recovery, and why it did not begin with newer snapshots.
fn with_problems(problem: String, mut problems: Vec<String>) -> String {
    problems.push(problem);
    problems.join("\n")
}

/// What one reading of the whole log tells.
#[derive(Debug, Clone)]
pub struct Surveyed {
    /// What happened.
    pub outcome: Outcome,
    /// Where the log ends.
    pub end: LogEnd,
    /// How many bytes of it follow the snapshot.
    pub log_bytes: u64,
    /// By partition, the log has every entry with a greater number than this: a snapshot that has
    /// the entries up to here is one that recovery can begin with.
    pub reach: Vec<u64>,
}

/// What the blocks of one partition have told so far.
#[derive(Clone, Copy, Default)]
struct Run {
    source: LogSource,
    /// The entries that follow each other without a gap: the number before the first, and the last.
    before: u64,
    last: u64,
}

impl Run {
    /// Adds a block.
    fn add(&mut self, block: &Block<'_>) -> Fit {
        let (earlier, later) = (self.source, block.source);
        let next = self.last + 1;
        if self.last > 0 && later.epoch < earlier.epoch {
            return Fit::Replaced;
        }
        let replaces = later.epoch > earlier.epoch && (1..next).contains(&block.first_sequence);
        let follows =
            block.first_sequence == next || (replaces && block.first_sequence > self.before);
        if self.last == 0 || !follows {
            self.before = block.first_sequence.saturating_sub(1);
        }
        self.last = last_sequence(block);
        self.source = later;
        match (replaces, later.incarnation >= earlier.incarnation) {
            (true, _) => Fit::Replaces,
            (false, is_later) if is_later || later.epoch > earlier.epoch => Fit::Follows,
            (false, _) => Fit::Earlier,
        }
    }
}

/// How a block fits those of its partition before it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fit {
    Follows,
    /// It is of an earlier run of the same epoch.
    Earlier,
    /// It begins a later epoch with numbers that entries before it have too.
    Replaces,
    /// It is of an earlier epoch: nothing of it counts that is not there already.
    Replaced,
}

fn last_sequence(block: &Block<'_>) -> u64 {
    block.first_sequence.saturating_add(u64::from(block.entries)).saturating_sub(1)
}

/// Why a block does not fit a snapshot, if it does not: both are of runs that went apart.
fn mismatch(block: &Block<'_>, saved: &PartitionPosition, manifest: &Manifest) -> Option<String> {
    let nonce = &manifest.nonce;
    if block.source > saved.source && block.first_sequence <= saved.sequence {
        return Some(format!(
            "snapshot {nonce} is of a run whose changes the command log does not have, and a later \
             run went on without them: it is not used"
        ));
    }
    let (earlier, later) = (block.source, saved.source);
    // What an earlier epoch has beyond the snapshot was replaced.
    let went_on = earlier.epoch == later.epoch && earlier < later;
    (went_on && last_sequence(block) > saved.sequence).then(|| {
        format!(
            "snapshot {nonce} is of a run that went on elsewhere than the command log, which was \
             written by another process at the same time: it is not used"
        )
    })
}

/// Reads the whole log, after a snapshot that was taken at `after`, or after nothing: once, or
/// again where an epoch replaces entries of another ([`Replaced`]). Of partitions that `others`
/// have, what those say is read with it.
///
/// # Errors
/// The log cannot be read, or is not of the same history as the snapshot.
pub fn survey_log(
    disk: &dyn Disk,
    open: impl Fn() -> Result<LogReader, String>,
    mut survey: Survey,
    (behind, manifest): (&[PartitionPosition], Option<&Manifest>),
    others: Option<&Others>,
) -> Result<Surveyed, BeginFault> {
    let begin = || open().map_err(BeginFault::Log);
    let saved = (behind, manifest, others);
    let keeps_replaced = survey.faults.keep_old_tail();
    if let Some(surveyed) = survey_once(disk, begin()?, survey.clone(), saved, keeps_replaced)? {
        return Ok(surveyed);
    }
    let replaced = Replaced::find(begin()?);
    survey.pass_over(replaced.map_err(|error| BeginFault::Log(error.to_string()))?);
    let surveyed = survey_once(disk, begin()?, survey, saved, true)?;
    Ok(surveyed.expect("what was replaced is known"))
}

/// Reads the whole log; gives nothing where entries are met that replace others, unless it is known
/// which.
fn survey_once(
    disk: &dyn Disk,
    mut reader: LogReader,
    mut survey: Survey,
    (behind, manifest, others): (&[PartitionPosition], Option<&Manifest>, Option<&Others>),
    knows_replaced: bool,
) -> Result<Option<Surveyed>, BeginFault> {
    let mut others = others.map(OthersRead::new);
    let mut log_bytes = 0;
    let mut runs = vec![Run::default(); behind.len()];
    loop {
        let block = reader.next_block().map_err(|error| BeginFault::Log(error.to_string()))?;
        let Some(block) = block else { break };
        let Some(saved) = behind.get(block.partition as usize) else {
            return Err(BeginFault::Log(format!(
                "the command log has entries of partition {}, and the host has {} partitions",
                block.partition,
                behind.len()
            )));
        };
        if others.as_ref().is_some_and(|others| !others.is_own(block.partition)) {
            continue;
        }
        let other = manifest.and_then(|manifest| mismatch(&block, saved, manifest));
        if let Some(problem) = other.filter(|_| !survey.faults.keep_old_tail()) {
            return Err(BeginFault::OtherHistory(problem));
        }
        let fit = runs[block.partition as usize].add(&block);
        if matches!(fit, Fit::Replaces | Fit::Replaced) && !knows_replaced {
            return Ok(None);
        }
        if fit == Fit::Earlier {
            return Err(BeginFault::Log(format!(
                "{}, byte {}: these entries are of an earlier run than those before them: two \
                 processes wrote to the directory at the same time. Remedy: restore the directory \
                 from a copy. No file was changed.",
                disk.shown(&file_name(block.position.segment)),
                block.position.offset
            )));
        }
        if block.first_sequence > saved.sequence {
            log_bytes += block.body.len() as u64;
        }
        match survey.read(PartitionId(block.partition), block.body) {
            Ok(()) => {}
            // A later epoch, which comes after them, may have replaced entries after a gap.
            Err(SurveyError::Gap { .. }) if !knows_replaced => return Ok(None),
            Err(error) => return Err(unsound(disk, block.position, &error)),
        }
        if let Some(others) = &mut others {
            let read = survey.last_multi();
            others.follow(&mut survey, Some(read));
        }
    }
    if let Some(others) = &mut others {
        others.follow(&mut survey, None);
    }
    let reach = runs.iter().zip(behind).map(|(run, saved)| match run.last {
        // There is none, or the newest are in the snapshot only.
        last if last < saved.sequence || last == 0 => saved.sequence,
        _ => run.before.min(saved.sequence),
    });
    let reach = reach.collect();
    let mut outcome = survey.finish();
    for (tail, saved) in outcome.tails.iter_mut().zip(behind) {
        // Its own entries may be in the snapshot only.
        tail.transaction = tail.transaction.max(saved.transaction);
    }
    Ok(Some(Surveyed { outcome, end: reader.into_end(), log_bytes, reach }))
}

/// Entries of a log cannot be read, or do not follow those before them.
fn unsound(disk: &dyn Disk, position: LogPosition, error: &SurveyError) -> BeginFault {
    BeginFault::Log(format!(
        "{}, byte {}: {error}. Remedy: put back what is missing before it, segments of the log or \
         the snapshot that had their entries, or restore the file from a copy. No file was \
         changed.",
        disk.shown(&file_name(position.segment)),
        position.offset
    ))
}

/// Where an older snapshot, or none, takes the place of damaged ones, the log must have all that
/// those had.
///
/// # Errors
/// It has not.
pub fn check_reach(
    disk: &dyn Disk,
    manifest: Option<&Manifest>,
    (passed, own): (&[&Candidate], Option<&[bool]>),
    outcome: &Outcome,
    end: &LogEnd,
) -> Result<(), BeginFault> {
    let first = end.segments.first().map_or(end.position.segment + 1, |first| first.number);
    let is_pruned = first > 1;
    let tails = &outcome.tails;
    let is_own = |number: usize| own.is_none_or(|own| own[number]);
    let has_entries = || {
        let mut own = tails.iter().enumerate().filter(|(number, _)| is_own(*number));
        own.all(|(_, tail)| tail.entries > 0)
    };
    let reaches = |one: &&Candidate| match &one.sequences {
        Some(sequences) => {
            tails.iter().zip(sequences).all(|(tail, sequence)| tail.sequence >= *sequence)
        }
        // Whatever it had, its own beginning is an entry in the log of every partition.
        None => !is_pruned || has_entries(),
    };
    let has_beginning = manifest.is_some() || !is_pruned;
    if has_beginning && passed.iter().all(reaches) {
        return Ok(());
    }
    let from = manifest.map_or("the beginning".to_string(), |manifest| {
        format!("the older snapshot {}", manifest.nonce)
    });
    Err(BeginFault::Log(format!(
        "the command log in {} begins with segment {first} and does not have all that came \
         behind {from}: the rest was in a newer snapshot. Put that snapshot's files back; nothing \
         was changed.",
        disk.shown(FOLDER)
    )))
}
