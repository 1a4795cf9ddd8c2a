//! The log file: what comes back, what is cut off, what is refused.

use super::*;
use crate::ids::{Incarnation, RaftId};
use crate::log_entry::{EntryBody, GroupChange};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_types::HostId;

fn id(host: u32) -> RaftId {
    RaftId::new(HostId(host), Incarnation(3)).expect("in range")
}

fn entry(index: u64, term: u64) -> LogEntry {
    LogEntry { term, index, body: EntryBody::Proposal(vec![index as u8; 20]) }
}

fn hard_state(term: u64, commit: u64) -> Option<HardState> {
    Some(HardState { term, vote: id(1).number(), commit })
}

fn changes() -> Vec<Vec<DurableChange>> {
    let identity = |cluster| DurableChange::Identity(Identity { id: id(0), cluster });
    let log = |entries: Vec<LogEntry>, hard_state| {
        DurableChange::Log(Persist { snapshot: None, entries, hard_state })
    };
    let snapshot = Snapshot {
        index: 3,
        term: 2,
        voters: vec![id(0), id(1)],
        learners: vec![id(2)],
        state: vec![9; 700],
    };
    let change = EntryBody::Change(GroupChange::AddLearner(id(2)));
    let added = LogEntry { term: 2, index: 4, body: change };
    vec![
        vec![identity(None)],
        vec![identity(Some(ClusterId([5; 16]))), log(vec![], hard_state(1, 0))],
        vec![log(vec![entry(1, 1), entry(2, 1)], None)],
        vec![log(vec![entry(2, 2), entry(3, 2), added.clone()], hard_state(2, 3))],
        vec![DurableChange::Log(Persist {
            snapshot: Some(snapshot),
            entries: vec![added],
            hard_state: hard_state(2, 4),
        })],
        vec![log(vec![entry(5, 2)], None), log(vec![entry(6, 2)], hard_state(2, 6))],
    ]
}

fn open(disk: &MemoryDisk) -> Result<(RaftLog, Option<Restored>), ClusterError> {
    RaftLog::open(Arc::new(disk.clone()), "cluster")
}

fn empty_disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_folder("cluster").expect("it is made");
    disk
}

/// What the log holds after each number of writes.
fn expected() -> Vec<Option<Restored>> {
    let disk = empty_disk();
    let mut all = vec![open(&disk).expect("it opens").1];
    let mut log = open(&disk).expect("it opens").0;
    for change in changes() {
        log.write(&change).expect("it is written");
        all.push(open(&disk.copy()).expect("it opens").1);
    }
    all
}

#[test]
fn what_is_written_comes_back_with_entries_replaced_from_their_index_on() {
    let all = expected();
    assert_eq!(all[0], None);
    let restored = all[4].clone().expect("it was written");
    let terms: Vec<_> = restored.entries.iter().map(|e| (e.index, e.term)).collect();
    assert_eq!(terms, [(1, 1), (2, 2), (3, 2), (4, 2)]);
    assert_eq!(restored.identity, Identity { id: id(0), cluster: Some(ClusterId([5; 16])) });
    let restored = all[6].clone().expect("it was written");
    let indexes: Vec<_> = restored.entries.iter().map(|e| e.index).collect();
    assert_eq!((indexes, restored.hard_state.commit), (vec![4, 5, 6], 6));
    assert_eq!(restored.snapshot.expect("there is one").state, [9; 700]);
}

#[test]
fn a_power_failure_leaves_all_that_was_synced_and_all_or_nothing_of_the_last_write() {
    let all = expected();
    for survival in [Survival::Lost, Survival::Kept, Survival::Torn(9), Survival::Sectors(2)] {
        let disk = empty_disk();
        disk.sync_folder("").expect("it is synced");
        let mut log = open(&disk).expect("it opens").0;
        for (number, change) in changes().into_iter().enumerate() {
            let before = disk.copy();
            disk.set_lies(Some(Box::new(|_| true)));
            log.write(&change).expect("it is written");
            let torn = disk.survivor(|_| survival);
            let found = open(&torn).expect("a torn tail is cut").1;
            assert!(found == all[number] || found == all[number + 1], "{survival:?} {number}");
            // The same write with syncs that work.
            drop(log);
            disk.set_lies(None);
            disk.replace("x", Vec::new());
            let whole = before;
            log = open(&whole).expect("it opens").0;
            log.write(&change).expect("it is written");
            let kept = whole.survivor(|_| Survival::Lost);
            assert_eq!(open(&kept).expect("it opens").1, all[number + 1]);
            if let Some(bytes) = whole.bytes("cluster/raft.log") {
                disk.replace("cluster/raft.log", bytes);
            }
            log = open(&disk).expect("it opens").0;
        }
    }
}

#[test]
fn damage_before_the_last_frame_is_an_error_that_names_file_and_offset() {
    let disk = empty_disk();
    let mut log = open(&disk).expect("it opens").0;
    changes().iter().take(4).for_each(|change| log.write(change).expect("it is written"));
    let bytes = disk.bytes("cluster/raft.log").expect("it is there");
    let mut last = HEAD.len();
    while let Some(body) = whole_frame(&bytes, last) {
        match last + FRAME_HEAD_BYTES + body.len() {
            next if next == bytes.len() => break,
            next => last = next,
        }
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x10;
        disk.replace("cluster/raft.log", damaged);
        match open(&disk) {
            Ok(_) => assert!(at >= last, "damage at {at} was not seen"),
            Err(ClusterError::Damaged { file, offset, .. }) => {
                assert!(at < last && offset <= at as u64, "{at} {offset}");
                assert_eq!(file, "cluster/raft.log");
            }
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn a_disk_that_fails_is_an_error_and_what_was_synced_before_stays() {
    for failing in 1..12 {
        let disk = empty_disk();
        let mut log = open(&disk).expect("it opens").0;
        let mut written = 0;
        let mut left = failing;
        disk.set_hook(Some(Box::new(move |_, _, _, _| {
            left -= 1;
            if left == 0 { Err(lockstep_env::DiskErrorKind::Full) } else { Ok(()) }
        })));
        let mut failed = None;
        for change in changes() {
            match log.write(&change) {
                Ok(()) => written += 1,
                Err(error) => {
                    failed = Some(error);
                    break;
                }
            }
        }
        disk.set_hook(None);
        assert!(matches!(failed, Some(ClusterError::Disk(_))), "{failing}: {failed:?}");
        let found = open(&disk.survivor(|_| Survival::Lost)).expect("it opens").1;
        assert_eq!(found, expected()[written], "operation {failing} failed");
    }
}
