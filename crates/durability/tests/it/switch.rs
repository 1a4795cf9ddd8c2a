//! Switches of a directory's files: stopped at every operation, and ended by the next who opens it.

use lockstep_durability::ClusterId;
use lockstep_durability::command_log::LogReader;
use lockstep_durability::switch::{SWITCH_FILE, Switch, finish, set_aside};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, DiskErrorKind};
use std::collections::BTreeMap;
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId([7; 16]);
const FOLDERS: [&str; 6] = [
    "log",
    "snapshots",
    "set-aside-1/log",
    "set-aside-1/snapshots",
    "set-aside-1/new",
    "set-aside-1",
];

/// A directory, and what is to happen to it: two files leave the log, and one comes in their
/// place under a name that one of them had.
fn directory() -> (MemoryDisk, Switch) {
    let disk = MemoryDisk::new();
    for folder in ["log", "snapshots", "set-aside-1", "set-aside-1/new"] {
        disk.create_folder(folder).expect("it is made");
        disk.sync_folder("").expect("it is synced");
    }
    for (name, bytes) in [
        ("log/00000001.log", "first"),
        ("log/00000002.log", "second"),
        ("snapshots/early", "early"),
        ("snapshots/late", "late"),
        ("set-aside-1/new/00000001.log", "other"),
    ] {
        disk.replace(name, bytes.as_bytes().to_vec());
    }
    let mut switch = Switch::default();
    switch.add_folder(&disk, ("log", "set-aside-1/log"), |_| true).expect("it is noted");
    let is_late = |name: &str| name == "late";
    switch.add_folder(&disk, ("snapshots", "set-aside-1/snapshots"), is_late).expect("it is noted");
    switch.add_folder(&disk, ("set-aside-1/new", "log"), |_| true).expect("it is noted");
    (disk, switch)
}

fn contents(disk: &MemoryDisk) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for folder in FOLDERS {
        for name in disk.list(folder).unwrap_or_default() {
            let name = format!("{folder}/{name}");
            if let Some(bytes) = disk.bytes(&name) {
                found.insert(name, String::from_utf8(bytes).expect("text"));
            }
        }
    }
    found
}

#[test]
fn a_switch_that_is_stopped_anywhere_is_ended_by_the_next() {
    let (disk, switch) = directory();
    let before = contents(&disk);
    assert_eq!(finish(&(Arc::new(disk.clone()) as Arc<dyn Disk>), CLUSTER, 1), Ok(false));
    let mut stopped = 0;
    let behind = loop {
        let (disk, _) = directory();
        let mut left = stopped;
        disk.set_hook(Some(Box::new(move |_, _, _, _| {
            left -= 1;
            if left < 0 { Err(DiskErrorKind::Other) } else { Ok(()) }
        })));
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let ended = switch.decide(&disk).and_then(|()| finish(&shared, CLUSTER, 1));
        disk.set_hook(None);
        if ended == Ok(true) {
            break contents(&disk);
        }
        // The process is gone, and its disk is there.
        let disk = disk.survivor(|_| Survival::Kept);
        let is_decided = disk.bytes(SWITCH_FILE).is_some();
        let shared: Arc<dyn Disk> = Arc::new(disk.clone());
        let ended = finish(&shared, CLUSTER, 2);
        assert_eq!(ended, Ok(is_decided), "stopped at {stopped}");
        if !is_decided && contents(&disk) != before {
            // All was moved, and the list was removed last.
            assert_eq!(contents(&disk).get("log/00000001.log").map(String::as_str), Some("other"));
        }
        assert_eq!(disk.bytes(SWITCH_FILE), None);
        stopped += 1;
    };
    assert!(stopped > 15, "{stopped} operations");
    let expected = [
        ("log/00000001.log", "other"),
        ("set-aside-1/log/00000001.log", "first"),
        ("set-aside-1/log/00000002.log", "second"),
        ("set-aside-1/snapshots/late", "late"),
        ("snapshots/early", "early"),
    ];
    let expected = expected.map(|(name, bytes)| (name.to_string(), bytes.to_string()));
    assert_eq!(behind, BTreeMap::from(expected));
}

#[test]
fn a_log_that_went_goes_on_behind_its_number_and_a_damaged_list_is_left_alone() {
    let (disk, mut switch) = directory();
    switch.moves.pop();
    switch.log_behind = Some(2);
    switch.decide(&disk).unwrap();
    let list = disk.bytes(SWITCH_FILE).unwrap();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    for at in 0..list.len() {
        let mut damaged = list.clone();
        damaged[at] ^= 1;
        disk.replace(SWITCH_FILE, damaged);
        let before = contents(&disk);
        let error = finish(&shared, CLUSTER, 1).unwrap_err().to_string();
        assert!(error.contains("is damaged or of a newer release"), "{error}");
        assert_eq!(contents(&disk), before);
    }
    disk.replace(SWITCH_FILE, list);
    assert_eq!(finish(&shared, CLUSTER, 1), Ok(true));
    assert_eq!(disk.list("log").unwrap(), ["00000003.log"]);
    let reader = LogReader::open(Arc::clone(&shared), CLUSTER).unwrap();
    assert!(reader.into_end().segments.is_empty());
    assert_eq!(set_aside(&disk).unwrap(), ["set-aside-1"]);
}
