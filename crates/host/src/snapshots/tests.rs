//! When snapshots are due, and what follows from their ends.

use super::*;

const SECOND_US: i64 = 1_000_000;

/// A log of one partition.
struct Log {
    bytes: u64,
    sequence: u64,
}

impl LogProgress for Log {
    fn written_bytes(&self) -> u64 {
        self.bytes
    }

    fn has_more_than(&self, sequences: &[u64]) -> bool {
        self.sequence > sequences[0]
    }
}

fn settings() -> SnapshotSettings {
    SnapshotSettings {
        interval_us: Some(600 * SECOND_US),
        log_bytes: Some(1_000),
        has_directory: true,
        has_log: true,
    }
}

fn is_due(snapshots: &mut SnapshotSchedule, second: i64, log: &Log) -> bool {
    snapshots.is_due(second * SECOND_US, Some(log), 0)
}

/// One by schedule that succeeds.
fn save(snapshots: &mut SnapshotSchedule, second: i64, log: &Log) {
    snapshots.prepare(second * SECOND_US);
    assert!(!snapshots.is_free() && !snapshots.is_running());
    assert_eq!(snapshots.left_us(second * SECOND_US), None, "its end says more");
    snapshots.begin(SnapshotKind::Automatic, Some(log));
    assert!(snapshots.is_running());
    assert!(snapshots.end(Some(&[log.sequence]), second * SECOND_US), "older ones are removed");
    assert!(snapshots.is_free() && snapshots.is_tidying());
    snapshots.tidied();
}

#[test]
fn one_is_due_after_the_interval_if_something_was_logged() {
    let mut snapshots = SnapshotSchedule::new(settings(), 0);
    let mut log = Log { bytes: 10, sequence: 1 };
    assert_eq!(snapshots.left_us(0), Some(0), "the first check begins the interval");
    assert!(!is_due(&mut snapshots, 0, &log));
    assert!(!is_due(&mut snapshots, 599, &log));
    assert!(is_due(&mut snapshots, 600, &log));
    save(&mut snapshots, 600, &log);
    // The snapshot itself is logged, and is nothing to save.
    log.bytes = 15;
    assert!(!is_due(&mut snapshots, 1_200, &log));
    log.sequence = 2;
    assert!(!is_due(&mut snapshots, 1_201, &log), "the next interval has begun");
    assert!(is_due(&mut snapshots, 1_800, &log));
}

#[test]
fn one_is_due_before_its_time_when_the_log_is_long() {
    let mut snapshots = SnapshotSchedule::new(settings(), 400);
    let mut log = Log { bytes: 599, sequence: 5 };
    assert!(!is_due(&mut snapshots, 0, &log));
    log.bytes = 600;
    assert!(!snapshots.is_due(SECOND_US / 2, Some(&log), 0), "the log is checked once a second");
    assert_eq!(snapshots.left_us(SECOND_US / 2), Some(SECOND_US / 2));
    assert!(!snapshots.is_due(SECOND_US, Some(&log), 5_000), "as much as the next one has");
    assert!(is_due(&mut snapshots, 2, &log));
    save(&mut snapshots, 2, &log);
    log = Log { bytes: 1_599, sequence: 9 };
    assert!(!is_due(&mut snapshots, 4, &log), "what the last one has does not count");
    log.bytes = 1_600;
    assert!(is_due(&mut snapshots, 6, &log));
}

#[test]
fn one_that_fails_is_tried_again_later_and_removes_nothing() {
    let mut snapshots = SnapshotSchedule::new(settings(), 5_000);
    let log = Log { bytes: 0, sequence: 5 };
    assert!(is_due(&mut snapshots, 0, &log));
    snapshots.prepare(0);
    snapshots.refuse(SnapshotKind::Automatic, 0);
    assert!(snapshots.is_free() && !is_due(&mut snapshots, 9, &log));
    assert!(is_due(&mut snapshots, 10, &log));
    snapshots.prepare(10 * SECOND_US);
    snapshots.begin(SnapshotKind::Automatic, Some(&log));
    assert!(!snapshots.end(None, 10 * SECOND_US) && !snapshots.is_tidying());
    assert!(!is_due(&mut snapshots, 19, &log));
    assert!(is_due(&mut snapshots, 20, &log), "nothing was saved");
}

#[test]
fn those_of_users_change_nothing_of_the_schedule() {
    let mut snapshots = SnapshotSchedule::new(settings(), 5_000);
    let log = Log { bytes: 0, sequence: 5 };
    snapshots.begin(SnapshotKind::Manual, Some(&log));
    assert!(!is_due(&mut snapshots, 0, &log), "one at a time");
    assert!(!snapshots.end(Some(&[5]), 0));
    assert!(is_due(&mut snapshots, 1, &log), "they do not count");
}

#[test]
fn without_a_directory_or_a_schedule_none_is_due() {
    let log = Log { bytes: 1 << 40, sequence: 5 };
    let mut none =
        SnapshotSchedule::new(SnapshotSettings { has_directory: false, ..settings() }, 0);
    assert!(!is_due(&mut none, 10_000, &log));
    assert_eq!(none.left_us(0), None);
    let never = SnapshotSettings { interval_us: None, log_bytes: None, ..settings() };
    let mut never = SnapshotSchedule::new(never, 0);
    assert!(!is_due(&mut never, 10_000, &log) && !is_due(&mut never, 20_000, &log));
    assert_eq!(never.left_us(0), None);
    // Without a log, the interval alone counts.
    let mut unlogged = SnapshotSchedule::new(SnapshotSettings { has_log: false, ..settings() }, 0);
    assert!(!unlogged.is_due(0, None, 0));
    assert!(unlogged.is_due(600 * SECOND_US, None, 0));
}
