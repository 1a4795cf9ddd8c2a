//! Snapshots of a host: which one begins when, what ends it, and what follows from it. One is in
//! progress at a time. Some are asked for; others are due by schedule: after an interval, or once
//! the command log since the last one is long. When one by schedule is complete, older ones are
//! removed, and then the part of the log that all remaining ones cover.
//!
//! The files and the threads that write them are the surroundings' own.

use crate::schema::SchemaChanges;
use lockstep_site::{SchemaTask, SnapshotStart};

/// How often the length of the log is checked, microseconds.
const CHECK_US: i64 = 1_000_000;
/// A snapshot by schedule that failed is not tried again before this, microseconds.
const RETRY_US: i64 = 10_000_000;

/// What makes snapshots due by themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotSettings {
    /// From one to the next, microseconds (option `snapshot_interval_s`).
    pub interval_us: Option<i64>,
    /// Bytes of the log since the last one (option `snapshot_log_bytes`).
    pub log_bytes: Option<u64>,
    /// Whether there is a directory for them.
    pub has_directory: bool,
    /// Whether there is a command log.
    pub has_log: bool,
}

/// Who asked for a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SnapshotKind {
    /// A user.
    Manual,
    /// The schedule, or the host for its own end.
    Automatic,
}

/// How far the command log is.
pub trait LogProgress {
    /// Bytes that were logged since the host started.
    fn written_bytes(&self) -> u64;

    /// Whether a partition has durable entries after these, by partition.
    fn has_more_than(&self, sequences: &[u64]) -> bool;
}

/// The snapshots of a host.
#[derive(Debug)]
pub struct SnapshotSchedule {
    settings: SnapshotSettings,
    /// One by schedule is asked for, and its folder is checked.
    is_preparing: bool,
    running: Option<Running>,
    /// Older ones are being removed.
    is_tidying: bool,
    /// When the next one by schedule is due; none before the first check.
    next_us: Option<i64>,
    /// When the length of the log is checked next.
    next_check_us: i64,
    /// Bytes of the log after the last one by schedule when the host started, and what of that and
    /// of the bytes since is in one.
    unsaved_at_start: u64,
    saved_bytes: u64,
    /// By partition, the last entry of the log that is in the last one by schedule.
    saved_sequences: Option<Vec<u64>>,
}

/// The snapshot in progress.
#[derive(Debug, Clone, Copy)]
struct Running {
    kind: SnapshotKind,
    /// Bytes that were logged when it began.
    written_bytes: u64,
}

impl SnapshotSchedule {
    /// A host whose log has this number of bytes after the snapshot that recovery began with.
    pub fn new(settings: SnapshotSettings, unsaved_at_start: u64) -> SnapshotSchedule {
        assert!(settings.interval_us.is_none_or(|interval_us| interval_us > 0), "0 is none");
        SnapshotSchedule {
            settings,
            is_preparing: false,
            running: None,
            is_tidying: false,
            next_us: None,
            next_check_us: 0,
            unsaved_at_start,
            saved_bytes: 0,
            saved_sequences: None,
        }
    }

    /// Whether a snapshot is in progress.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Whether none is in progress or about to begin.
    pub fn is_free(&self) -> bool {
        !self.is_preparing && self.running.is_none()
    }

    /// Whether older ones are being removed, and the log that they alone need.
    pub fn is_tidying(&self) -> bool {
        self.is_tidying
    }

    /// Whether one is due, by the clock or by what was logged; none is where nothing was logged
    /// since the last one. `expected_bytes` is the length of the next one.
    pub fn is_due(
        &mut self,
        now_us: i64,
        log: Option<&dyn LogProgress>,
        expected_bytes: u64,
    ) -> bool {
        debug_assert_eq!(log.is_some(), self.settings.has_log, "the log is there, or is not");
        if !self.settings.has_directory || !self.is_free() {
            return false;
        }
        let interval_us = self.settings.interval_us;
        let next_us = *self.next_us.get_or_insert(now_us + interval_us.unwrap_or(0));
        let by_clock = interval_us.is_some() && now_us >= next_us;
        if !by_clock && now_us < self.next_check_us {
            return false;
        }
        self.next_check_us = now_us + CHECK_US;
        // Without a log nobody counts.
        let unsaved = log.map_or(u64::MAX, |log| self.unsaved_bytes(log));
        let limit = self.settings.log_bytes.filter(|_| log.is_some());
        let by_log = limit.is_some_and(|limit| unsaved >= limit.max(expected_bytes));
        if by_clock || by_log {
            self.next_us = Some(now_us + interval_us.unwrap_or(0));
        }
        by_log || (by_clock && unsaved > 0 && self.is_anything_unsaved(log))
    }

    /// Until one may be due, microseconds: 0 or less is now. None while nothing can become due, or
    /// until the end of one that is in progress.
    pub fn left_us(&self, now_us: i64) -> Option<i64> {
        let SnapshotSettings { interval_us, log_bytes, has_directory, has_log } = self.settings;
        if !self.is_free() || !has_directory {
            return None;
        }
        let by_log = (has_log && log_bytes.is_some()).then_some(self.next_check_us);
        let by_clock = interval_us.map(|_| self.next_us.unwrap_or(now_us));
        Some(by_log.into_iter().chain(by_clock).min()?.saturating_sub(now_us))
    }

    /// One by schedule is asked for: its folder is checked, then it begins or is refused. The
    /// next one is due an interval later, also if another host asked for this one.
    pub fn prepare(&mut self, now_us: i64) {
        assert!(self.is_free(), "one snapshot at a time");
        self.is_preparing = true;
        self.next_us = self.settings.interval_us.map(|interval_us| now_us + interval_us);
    }

    /// One begins: its transaction is ordered. `log` is how far the log is.
    pub fn begin(&mut self, kind: SnapshotKind, log: Option<&dyn LogProgress>) {
        assert!(self.running.is_none(), "one snapshot at a time");
        let is_asked_for = kind == SnapshotKind::Manual || self.is_preparing;
        assert!(is_asked_for, "a snapshot by schedule begins after its folder is checked");
        self.is_preparing &= kind == SnapshotKind::Manual;
        let written_bytes = log.map_or(0, LogProgress::written_bytes);
        self.running = Some(Running { kind, written_bytes });
        self.check_invariants();
    }

    /// One was asked for and does not begin.
    pub fn refuse(&mut self, kind: SnapshotKind, now_us: i64) {
        if kind == SnapshotKind::Automatic {
            self.is_preparing = false;
            self.next_check_us = now_us + RETRY_US;
        }
        self.check_invariants();
    }

    /// One has ended: with the last entry of each partition that it has, or without success.
    /// Whether older ones are to be removed now; [`SnapshotSchedule::tidied`] follows.
    pub fn end(&mut self, sequences: Option<&[u64]>, now_us: i64) -> bool {
        let Some(running) = self.running.take() else { return false };
        let tidies = match (running.kind, sequences) {
            (SnapshotKind::Automatic, Some(sequences)) => {
                let before = self.saved_sequences.as_deref().unwrap_or_default();
                // One of several hosts may have given a copy up.
                let has = |now: u64| now > 0;
                let mut both = before.iter().zip(sequences);
                let grows = both.all(|(before, now)| before <= now || !has(*now));
                assert!(grows, "a later snapshot has what an earlier one has");
                self.saved_sequences = Some(sequences.to_vec());
                self.saved_bytes = self.unsaved_at_start + running.written_bytes;
                !std::mem::replace(&mut self.is_tidying, true)
            }
            (SnapshotKind::Automatic, None) => {
                self.next_check_us = now_us + RETRY_US;
                false
            }
            (SnapshotKind::Manual, _) => false,
        };
        self.check_invariants();
        tidies
    }

    /// Older ones are removed, or could not be.
    pub fn tidied(&mut self) {
        assert!(self.is_tidying, "they were being removed");
        self.is_tidying = false;
    }

    /// Whether more was logged than the last snapshot by schedule itself.
    fn is_anything_unsaved(&self, log: Option<&dyn LogProgress>) -> bool {
        match (log, &self.saved_sequences) {
            (Some(log), Some(saved)) => log.has_more_than(saved),
            _ => true,
        }
    }

    /// Bytes of the log that are in no snapshot by schedule.
    fn unsaved_bytes(&self, log: &dyn LogProgress) -> u64 {
        let written = self.unsaved_at_start + log.written_bytes();
        written.saturating_sub(self.saved_bytes)
    }

    /// What must hold between any two steps. Panics if it does not.
    pub fn check_invariants(&self) {
        let is_automatic = |running: &Running| running.kind == SnapshotKind::Automatic;
        let both = self.is_preparing && self.running.as_ref().is_some_and(is_automatic);
        assert!(!both, "one snapshot by schedule at a time");
        assert!(!self.is_tidying || self.saved_sequences.is_some(), "older than what");
    }
}

/// The transaction at which a snapshot begins: it changes nothing, and every partition notes what
/// it has then.
pub fn beginning<W, O, P, C>(
    schema: &SchemaChanges<W, O, P>,
    catalog: C,
    nonce: &str,
    start: SnapshotStart,
) -> SchemaTask<C> {
    SchemaTask {
        changes: Vec::new(),
        swap: None,
        snapshot: Some(start),
        catalog_version: schema.catalog().version(),
        catalog,
        source: nonce.as_bytes().into(),
        advice: None,
    }
}

#[cfg(test)]
mod tests;
