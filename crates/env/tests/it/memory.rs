//! What a power cut leaves of files and names.

use lockstep_env::memory::{MemoryDisk, Survival, UnsyncedWrite};
use lockstep_env::{Disk, DiskErrorKind, DiskOperation, OpenMode};

fn disk_with(name: &str, bytes: &[u8]) -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_folder("log").expect("nothing fails here");
    disk.replace(name, bytes.to_vec());
    disk
}

#[test]
fn what_was_synced_survives_and_the_rest_is_for_the_test_to_say() {
    let disk = disk_with("log/a", b"0123456789");
    let mut file = disk.open("log/a", OpenMode::Write).unwrap();
    file.write_at(0, b"AB").unwrap();
    file.sync_data().unwrap();
    file.write_at(2, b"CDEF").unwrap();
    file.write_at(8, b"XYZ").unwrap();
    let mut seen = 0;
    disk.cut_power(|write| {
        seen += 1;
        match write {
            UnsyncedWrite::Bytes { offset: 2, .. } => Survival::Torn(3),
            _ => Survival::Lost,
        }
    });
    assert_eq!(seen, 2);
    assert_eq!(disk.bytes("log/a").unwrap(), b"ABCDE56789");
}

#[test]
fn writes_may_survive_out_of_order() {
    let disk = disk_with("log/a", b"");
    let mut file = disk.open("log/a", OpenMode::Write).unwrap();
    file.write_at(0, b"first").unwrap();
    file.write_at(5, b"second").unwrap();
    disk.cut_power(|write| match write {
        UnsyncedWrite::Bytes { offset: 5, .. } => Survival::Kept,
        _ => Survival::Lost,
    });
    assert_eq!(disk.bytes("log/a").unwrap(), b"\0\0\0\0\0second");
}

#[test]
fn sectors_of_one_write_may_survive_in_any_choice() {
    let disk = disk_with("log/a", &[0; 2_048]);
    let mut file = disk.open("log/a", OpenMode::Write).unwrap();
    file.write_at(500, &[1; 1_100]).unwrap();
    disk.cut_power(|_| Survival::Sectors(0b1010));
    let kept: Vec<usize> = disk
        .bytes("log/a")
        .unwrap()
        .iter()
        .enumerate()
        .filter_map(|(at, b)| (*b == 1).then_some(at))
        .collect();
    let expected: Vec<usize> = (512..1_024).chain(1_536..1_600).collect();
    assert_eq!(kept, expected);
}

#[test]
fn a_sync_that_lies_makes_nothing_durable() {
    let disk = disk_with("log/a", b"before");
    disk.set_lies(Some(Box::new(|name| name == "log/a")));
    let mut file = disk.open("log/a", OpenMode::Write).unwrap();
    file.write_at(0, b"behind").unwrap();
    file.sync_data().unwrap();
    disk.cut_power(|_| Survival::Lost);
    assert_eq!(disk.bytes("log/a").unwrap(), b"before");
}

#[test]
fn names_are_durable_with_their_folder() {
    let disk = disk_with("log/old", b"old");
    drop(disk.open("log/new", OpenMode::Create).unwrap());
    disk.rename("log/old", "log/renamed").unwrap();
    let before = disk.copy();
    disk.cut_power(|_| Survival::Lost);
    assert_eq!(disk.list("log").unwrap(), ["old"]);
    assert_eq!(before.list("log").unwrap(), ["new", "renamed"]);

    disk.rename("log/old", "log/renamed").unwrap();
    disk.sync_folder("log").unwrap();
    disk.cut_power(|_| Survival::Lost);
    assert_eq!(disk.list("log").unwrap(), ["renamed"]);
    assert_eq!(disk.bytes("log/renamed").unwrap(), b"old");
}

#[test]
fn a_full_disk_says_so() {
    let disk = disk_with("log/a", b"0123456789");
    disk.limit_capacity(Some(12));
    assert_eq!(disk.free_bytes().unwrap(), 2);
    let mut file = disk.open("log/a", OpenMode::Write).unwrap();
    file.write_at(10, b"ab").unwrap();
    let error = file.write_at(12, b"c").unwrap_err();
    assert_eq!((error.kind, error.operation), (DiskErrorKind::Full, DiskOperation::Write));
    assert!(file.allocate(13).is_err());
    assert_eq!(file.length().unwrap(), 12);
}

#[test]
fn a_hook_fails_what_it_likes() {
    let disk = disk_with("log/a", b"0123456789");
    let mut syncs = 0;
    disk.set_hook(Some(Box::new(move |operation, _, _, _| {
        syncs += u32::from(operation == DiskOperation::Sync);
        if syncs == 2 { Err(DiskErrorKind::Other) } else { Ok(()) }
    })));
    let mut file = disk.open("log/a", OpenMode::Write).unwrap();
    file.sync_data().unwrap();
    let error = file.sync_data().unwrap_err();
    assert_eq!(error.to_string(), "log/a cannot be made durable at byte 0: injected");
}

#[test]
fn modes_are_kept_to() {
    let disk = disk_with("log/a", b"0123456789");
    let kind = |name: &str, mode| disk.open(name, mode).err().map(|error| error.kind);
    assert_eq!(kind("log/a", OpenMode::Create), Some(DiskErrorKind::Exists));
    assert_eq!(kind("log/b", OpenMode::Write), Some(DiskErrorKind::NotFound));
    assert_eq!(kind("other/b", OpenMode::Create), Some(DiskErrorKind::NotFound));
    let mut file = disk.open("log/a", OpenMode::Read).unwrap();
    assert_eq!(file.write_at(0, b"x").unwrap_err().kind, DiskErrorKind::Denied);
    let mut bytes = [0; 4];
    assert_eq!(file.read_at(8, &mut bytes).unwrap(), 2);
}
