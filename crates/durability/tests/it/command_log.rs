//! The command log: group commits, rotation, recycling, torn ends and damage.

use lockstep_base::random::SeededRandom;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{
    FIRST_BLOCK, FOLDER, LogEnd, LogError, LogErrorKind, LogPosition, LogReader, LogSettings,
    LogWriter, SEGMENT_BYTES_MIN, file_name,
};
use lockstep_env::memory::{MemoryDisk, Survival, UnsyncedWrite};
use lockstep_env::{Disk, DiskErrorKind, DiskOperation};
use lockstep_txn::log_entry::LogSource;
use std::collections::BTreeMap;
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId([9; 16]);

/// Partition, first sequence, number of entries, body.
type Written = (u32, u64, u32, Vec<u8>);

fn settings(seed: u64) -> LogSettings {
    LogSettings { cluster: CLUSTER, segment_bytes: SEGMENT_BYTES_MIN, seed }
}

fn new_disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER).expect("nothing fails here");
    disk
}

fn shared(disk: &MemoryDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// Everything in a log, and its end.
fn read(disk: &MemoryDisk) -> Result<(Vec<Written>, LogEnd), LogError> {
    let mut reader = LogReader::open(shared(disk), CLUSTER)?;
    let mut blocks = Vec::new();
    while let Some(block) = reader.next_block()? {
        let body = block.body.to_vec();
        blocks.push((block.partition, block.first_sequence, block.entries, body));
    }
    Ok((blocks, reader.into_end()))
}

fn writer(disk: &MemoryDisk, seed: u64) -> LogWriter {
    let (_, end) = read(disk).expect("the log is sound");
    LogWriter::open(shared(disk), settings(seed), end).expect("the disk works")
}

fn add(writer: &mut LogWriter, block: &Written) {
    writer.add(block.0, LogSource::of_run(1), block.1, block.2, &block.3);
}

fn commit(writer: &mut LogWriter, blocks: &[Written]) {
    blocks.iter().for_each(|block| add(writer, block));
    writer.write().expect("the disk works");
    writer.sync().expect("the disk works");
}

/// Blocks of two partitions with bodies of different lengths.
fn groups(count: u64) -> Vec<Vec<Written>> {
    let body = |n: u64| (0..n * 7 % 50).map(|i| (n + i) as u8).collect::<Vec<u8>>();
    let group = |n| vec![(0, n * 2 + 1, 2, body(n)), (1, n + 1, 1, body(n + 3))];
    (0..count).map(group).collect()
}

fn written(disk: &MemoryDisk, groups: &[Vec<Written>]) -> LogWriter {
    let mut writer = writer(disk, 5);
    groups.iter().for_each(|group| commit(&mut writer, group));
    writer
}

#[test]
fn what_was_written_comes_back_in_order() {
    let disk = new_disk();
    let groups = groups(20);
    written(&disk, &groups);
    disk.cut_power(|_| Survival::Lost);
    let (blocks, end) = read(&disk).unwrap();
    assert_eq!(blocks, groups.concat());
    assert_eq!(end.segments.len(), 1);
    assert_eq!(end.segments[0].last_sequences, BTreeMap::from([(0, 40), (1, 20)]));
    assert_eq!(end.torn, None);
}

#[test]
fn a_log_goes_on_in_a_new_segment_behind_each_start() {
    let disk = new_disk();
    for start in 0..5 {
        let mut writer = writer(&disk, start);
        commit(&mut writer, &[(0, start * 2 + 1, 2, vec![start as u8; 30])]);
        disk.cut_power(|_| Survival::Lost);
    }
    let (blocks, end) = read(&disk).unwrap();
    assert_eq!(blocks.iter().map(|block| block.1).collect::<Vec<_>>(), [1, 3, 5, 7, 9]);
    assert_eq!(end.position.segment, 5);
}

#[test]
fn full_segments_are_followed_by_others_and_written_again_once_pruned() {
    let disk = new_disk();
    let mut writer = writer(&disk, 1);
    let mut written = Vec::new();
    for number in 0..200u64 {
        let block = (0, number + 1, 1, vec![number as u8; 5_000]);
        commit(&mut writer, std::slice::from_ref(&block));
        written.push(block);
        if number % 50 == 49 {
            writer.prune(&BTreeMap::from([(0, number - 20)])).unwrap();
        }
    }
    let names = disk.list(FOLDER).unwrap();
    assert!(names.len() <= 8, "files are written again: {names:?}");
    assert!(writer.position().segment > 15);
    let (blocks, end) = read(&disk).unwrap();
    assert!(blocks[0].1 <= 180 && blocks[0].1 > 150, "from {}", blocks[0].1);
    assert_eq!(blocks, &written[written.len() - blocks.len()..]);
    assert_eq!(end.segments.last().unwrap().number, writer.position().segment);
}

#[test]
fn segments_with_entries_that_are_needed_stay() {
    let disk = new_disk();
    let mut writer = writer(&disk, 1);
    for number in 0..40u64 {
        let others = if number == 3 { vec![(1, 1, 1, vec![1])] } else { Vec::new() };
        commit(&mut writer, &[vec![(0, number + 1, 1, vec![0; 5_000])], others].concat());
    }
    assert_eq!(writer.prune(&BTreeMap::from([(0, 1_000)])).unwrap(), 0);
    assert!(writer.prune(&BTreeMap::from([(0, 1_000), (1, 1)])).unwrap() >= 2);
}

#[test]
fn a_spare_that_still_is_a_segment_is_not_written_again() {
    let disk = new_disk();
    let mut log = writer(&disk, 1);
    let block = |number: u64| vec![(0, number + 1, 1, vec![0; 5_000])];
    (0..40).for_each(|number| commit(&mut log, &block(number)));
    disk.set_hook(Some(Box::new(|operation, name, _, _| match (operation, name) {
        (DiskOperation::Sync, FOLDER) => Err(DiskErrorKind::Other),
        _ => Ok(()),
    })));
    assert!(log.prune(&BTreeMap::from([(0, 15)])).is_err());
    disk.set_hook(None);
    // The file has its new name, and the old one too: nothing made both durable at once.
    disk.cut_power(|write| match write {
        UnsyncedWrite::Name(name) if name.contains("spare") => Survival::Kept,
        _ => Survival::Lost,
    });
    assert_eq!(read(&disk).unwrap().0.len(), 40);
    let mut log = writer(&disk, 2);
    (40..80).for_each(|number| commit(&mut log, &block(number)));
    assert_eq!(read(&disk).unwrap().0.len(), 80);
}

#[test]
fn a_spare_that_was_made_takes_the_place_of_a_file_that_grows() {
    let disk = new_disk();
    // Longer than what is filled ahead.
    let settings = LogSettings { segment_bytes: 16 << 20, ..settings(1) };
    let mut log = LogWriter::open(shared(&disk), settings, LogEnd::default()).unwrap();
    assert_eq!(log.spare_to_make(), None, "a log that hardly grows does without");
    let block = |number: u64| vec![(0, number + 1, 1, vec![1; 100_000])];
    (0..10).for_each(|number| commit(&mut log, &block(number)));
    let order = log.spare_to_make().expect("the segment is in use");
    assert_eq!(log.spare_to_make(), None, "it is told once");
    // Given up half way, and full: the log goes on without, and asks again.
    let mut pieces = 0;
    let made = order.make(&disk, &mut || std::mem::replace(&mut pieces, 1) == 1);
    log.spare_is_made(order, made.expect("the disk works"));
    let order = log.spare_to_make().expect("there is none yet");
    disk.set_hook(Some(Box::new(|operation, _, _, _| match operation {
        DiskOperation::Allocate => Err(DiskErrorKind::Full),
        _ => Ok(()),
    })));
    assert!(order.make(&disk, &mut || true).is_err());
    disk.set_hook(None);
    log.spare_is_made(order, false);
    assert_eq!(disk.list(FOLDER).unwrap(), ["00000001.log"]);
    (10..20).for_each(|number| commit(&mut log, &block(number)));
    assert_eq!(log.position().segment, 1);
    let order = log.spare_to_make().expect("there is none yet");
    assert!(order.make(&disk, &mut || true).expect("the disk works"));
    log.spare_is_made(order, true);
    assert_eq!(log.spare_to_make(), None);
    // From here on no block makes a file longer, and none is written ahead of.
    commit(&mut log, &block(20));
    assert_eq!(log.position().segment, 2);
    disk.set_hook(Some(Box::new(|operation, _, _, bytes| match operation {
        DiskOperation::Write if bytes > 200_000 => Err(DiskErrorKind::Other),
        DiskOperation::Allocate | DiskOperation::Rename => Err(DiskErrorKind::Other),
        _ => Ok(()),
    })));
    (21..50).for_each(|number| commit(&mut log, &block(number)));
    disk.set_hook(None);
    let (blocks, end) = read(&disk).expect("the log is sound");
    assert_eq!((blocks.len(), end.segments.len()), (50, 2));
}

#[test]
fn a_log_whose_only_file_is_gone_is_not_taken_for_a_new_one() {
    let disk = new_disk();
    assert_eq!(read(&disk).expect("it is empty").0, []);
    drop(written(&disk, &groups(3)));
    let file = disk.bytes("log/00000001.log").expect("it is there");
    disk.remove("log/00000001.log").unwrap();
    let error = read(&disk).expect_err("it had a file");
    assert_eq!(error.kind, LogErrorKind::Missing);
    assert!(error.to_string().contains("log-begun says that it had some"), "{error}");
    // Damage of its first page is found by the blocks after it.
    let mut damaged = file.clone();
    damaged[..100].fill(0);
    disk.replace("log/00000001.log", damaged);
    assert_eq!(read(&disk).err().map(|error| error.kind), Some(LogErrorKind::Damaged));
    disk.replace("log/00000001.log", file);
    assert_eq!(read(&disk).expect("it is as it was").0, groups(3).concat());
}

#[test]
fn a_group_longer_than_a_segment_gets_one_of_its_own() {
    let disk = new_disk();
    let mut writer = writer(&disk, 1);
    let long = (0, 2, 1, (0..300_000u32).map(|i| i as u8).collect::<Vec<u8>>());
    let all = [(0, 1, 1, vec![1]), long, (0, 3, 1, vec![3])];
    all.iter().for_each(|block| commit(&mut writer, std::slice::from_ref(block)));
    assert_eq!(read(&disk).unwrap().0, all);
}

/// Copies of the files of a log.
fn files(disk: &MemoryDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.list(FOLDER).expect("the folder is there");
    let bytes = |name: String| (disk.bytes(&name).expect("it was listed"), name);
    names.into_iter().map(|name| bytes(format!("{FOLDER}/{name}"))).map(|(b, n)| (n, b)).collect()
}

#[test]
fn every_flipped_byte_is_reported_or_cuts_what_nothing_proves() {
    let disk = new_disk();
    let all = groups(6);
    let mut log = written(&disk, &all);
    log.seal().unwrap();
    let end = log.position().offset as usize;
    let sealed_from = end - 56;
    let blocks = all.concat();
    let (name, sound) = files(&disk).pop().unwrap();
    for at in (0..64).chain(FIRST_BLOCK as usize..end + 64) {
        for bit in [0x01, 0x80] {
            let mut bytes = sound.clone();
            bytes[at] ^= bit;
            disk.replace(&name, bytes);
            match read(&disk) {
                Err(error) => {
                    assert!(at < sealed_from, "byte {at}: {error}");
                    assert_eq!((&error.file, error.kind), (&name, LogErrorKind::Damaged));
                    let place = error.offset.unwrap() as usize;
                    assert!(place <= at, "byte {at} reported at {place}");
                }
                Ok((found, _)) => {
                    assert!(at >= sealed_from, "byte {at} went unnoticed");
                    assert_eq!(found, blocks);
                }
            }
        }
    }
}

#[test]
fn without_a_seal_only_the_last_group_can_be_taken_for_torn() {
    let disk = new_disk();
    let all = groups(6);
    let end = written(&disk, &all).position().offset as usize;
    let last = all[..5].concat();
    let (name, sound) = files(&disk).pop().unwrap();
    let start_of_last = {
        let fresh = new_disk();
        written(&fresh, &all[..5]).position().offset as usize
    };
    for at in FIRST_BLOCK as usize..end {
        let mut bytes = sound.clone();
        bytes[at] ^= 0x10;
        disk.replace(&name, bytes);
        match read(&disk) {
            Err(_) => assert!(at < start_of_last, "byte {at}"),
            Ok((found, end)) => {
                assert!(at >= start_of_last, "byte {at} went unnoticed");
                assert!(found.starts_with(&last) && found.len() < 12);
                assert!(end.torn.is_some());
            }
        }
    }
}

#[test]
fn a_file_cut_anywhere_is_reported() {
    let disk = new_disk();
    written(&disk, &groups(6));
    let (name, sound) = files(&disk).pop().unwrap();
    for length in (FIRST_BLOCK as usize + 56..sound.len()).step_by(41) {
        disk.replace(&name, sound[..length].to_vec());
        let error = read(&disk).unwrap_err();
        assert_eq!((error.kind, error.offset), (LogErrorKind::Damaged, Some(length as u64)));
        assert!(error.to_string().contains("Remedy: "), "{error}");
    }
}

#[test]
fn damage_in_an_earlier_segment_is_reported_even_at_its_end() {
    let disk = new_disk();
    let all = groups(6);
    let end = written(&disk, &all).position().offset;
    drop(writer(&disk, 8));
    let name = file_name(1);
    let mut bytes = disk.bytes(&name).unwrap();
    bytes[end as usize - 9] ^= 1;
    disk.replace(&name, bytes);
    let error = read(&disk).unwrap_err();
    assert_eq!((error.kind, error.file.as_str()), (LogErrorKind::Damaged, name.as_str()));
    assert!(error.to_string().contains("00000002.log says that blocks go on"), "{error}");
}

#[test]
fn a_last_segment_that_is_gone_is_reported() {
    let disk = new_disk();
    // One is followed by another because it is full, the next because the host started again.
    let mut log = writer(&disk, 1);
    let mut number = 0;
    while log.position().segment == 1 {
        number += 1;
        commit(&mut log, &[(0, number, 1, vec![7; 5_000])]);
    }
    for seed in 2..5 {
        drop(log);
        let (_, end) = read(&disk).unwrap();
        let (last, offset) = (end.position.segment, end.position.offset);
        log = writer(&disk, seed);
        disk.cut_power(|_| Survival::Lost);
        let name = file_name(last + 1);
        let damaged = disk.copy();
        let refused = |problem: &str| {
            let error = read(&damaged).expect_err(problem);
            assert_eq!((&error.file, error.kind), (&name, LogErrorKind::Missing), "{error}");
            let place = format!("{} says at byte {offset}", file_name(last));
            assert!(error.to_string().contains(&place), "{error}");
        };
        damaged.remove(&name).unwrap();
        refused("the file is gone");
        damaged.replace(&name, vec![0; SEGMENT_BYTES_MIN as usize]);
        refused("the file is void");
        number += 1;
        commit(&mut log, &[(0, number, 1, vec![8; 10])]);
    }
    assert_eq!(read(&disk).unwrap().0.len() as u64, number);
}

#[test]
fn a_full_segment_has_room_to_name_the_next() {
    let mut followed = 0;
    for body in SEGMENT_BYTES_MIN - FIRST_BLOCK - 300..SEGMENT_BYTES_MIN - FIRST_BLOCK {
        let disk = new_disk();
        let mut log = writer(&disk, 1);
        commit(&mut log, &[(0, 1, 1, vec![1; body as usize])]);
        commit(&mut log, &[(0, 2, 1, vec![2])]);
        let last = log.position().segment;
        if last > 1 {
            followed += 1;
            disk.remove(&file_name(last)).unwrap();
            assert_eq!(read(&disk).unwrap_err().kind, LogErrorKind::Missing, "{body}");
        }
    }
    assert!((1..300).contains(&followed), "{followed}");
}

#[test]
fn a_log_at_a_segments_end_on_a_full_disk_goes_on_without_a_seal() {
    let disk = new_disk();
    let mut log = writer(&disk, 1);
    let room = SEGMENT_BYTES_MIN - FIRST_BLOCK - 56 - 56;
    commit(&mut log, &[(0, 1, 1, vec![1; room as usize])]);
    disk.limit_capacity(Some(u64::from(SEGMENT_BYTES_MIN)));
    log.seal().expect("nothing is written");
    log.sync().expect("nothing is written");
    add(&mut log, &(0, 2, 1, vec![2]));
    assert!(log.make_room().expect_err("the disk is full").is_full());
    disk.limit_capacity(None);
    log.write().expect("there is space");
    log.seal().expect("there is space");
    log.sync().expect("there is space");
    assert_eq!((log.position().segment, read(&disk).unwrap().0.len()), (2, 2));
}

#[test]
fn power_cuts_at_every_write_lose_nothing_that_was_synced() {
    let mut random = SeededRandom::new(3);
    for round in 0..300 {
        let disk = new_disk();
        let mut expected = Vec::new();
        let mut sequence = 1;
        let mut unsynced = Vec::new();
        for start in 0..3 {
            let mut writer = writer(&disk, round * 10 + start);
            for _ in 0..random.below(12) {
                let body = vec![random.next_u64() as u8; random.below(20_000) as usize];
                let block = (0, sequence, 1, body);
                add(&mut writer, &block);
                writer.write().unwrap();
                sequence += 1;
                unsynced.push(block);
                if random.below(3) > 0 {
                    writer.sync().unwrap();
                    expected.append(&mut unsynced);
                }
            }
            disk.cut_power(|write| match (random.below(3), write) {
                (0, _) => Survival::Lost,
                (1, lockstep_env::memory::UnsyncedWrite::Bytes { bytes, .. }) => {
                    Survival::Torn(random.below(bytes.len() as u64 + 1) as usize)
                }
                _ => Survival::Kept,
            });
            let (found, _) = read(&disk).unwrap();
            assert!(found.starts_with(&expected), "round {round}, start {start}");
            let more = &found[expected.len()..];
            assert!(unsynced.starts_with(more), "round {round}: only what was written");
            expected = found;
            sequence = expected.len() as u64 + 1;
            unsynced.clear();
        }
    }
}

#[test]
fn power_cuts_while_segments_change_lose_nothing() {
    let mut random = SeededRandom::new(4);
    for round in 0..150 {
        let disk = new_disk();
        let (mut expected, mut covered) = (Vec::new(), 0);
        let stop_at = 1 + random.below(400);
        let mut operations = 0;
        disk.set_hook(Some(Box::new(move |_, _, _, _| {
            operations += 1;
            if operations > stop_at { Err(DiskErrorKind::Other) } else { Ok(()) }
        })));
        let run = |expected: &mut Vec<u64>, covered: &mut u64| -> Result<(), LogError> {
            let end = LogReader::open(shared(&disk), CLUSTER)?.into_end();
            let mut writer = LogWriter::open(shared(&disk), settings(round), end)?;
            for number in 1..120 {
                add(&mut writer, &(0, number, 1, vec![number as u8; 9_000]));
                writer.write()?;
                writer.sync()?;
                expected.push(number);
                if number % 20 == 0 {
                    *covered = number;
                    writer.prune(&BTreeMap::from([(0, number)]))?;
                }
            }
            Ok(())
        };
        let _ = run(&mut expected, &mut covered);
        disk.set_hook(None);
        disk.cut_power(|_| if random.below(2) == 0 { Survival::Lost } else { Survival::Kept });
        let (found, _) = read(&disk).unwrap_or_else(|error| panic!("round {round}: {error}"));
        let found: Vec<u64> = found.iter().map(|block| block.1).collect();
        let needed: Vec<u64> = expected.into_iter().filter(|n| *n > covered).collect();
        let tail: Vec<u64> = found.into_iter().filter(|n| *n > covered).collect();
        assert!(tail.starts_with(&needed), "round {round}");
        drop(writer(&disk, 1));
        read(&disk).unwrap();
    }
}

#[test]
fn arbitrary_damage_never_makes_an_entry_and_never_a_panic() {
    let disk = new_disk();
    let all = groups(12);
    written(&disk, &all);
    drop(writer(&disk, 6));
    let (blocks, sound) = (all.concat(), files(&disk));
    let mut random = SeededRandom::new(11);
    for _ in 0..3_000 {
        let (name, bytes) = &sound[random.below(2) as usize];
        let mut bytes = bytes[..8_192.min(bytes.len())].to_vec();
        for _ in 0..=random.below(3) {
            let from = random.below(bytes.len() as u64) as usize;
            let length = random.below(64) as usize;
            let other = random.below(bytes.len() as u64) as usize;
            for offset in 0..length.min(bytes.len() - from.max(other)) {
                bytes[from + offset] = match random.below(3) {
                    0 => random.next_u64() as u8,
                    _ => bytes[other + offset],
                };
            }
        }
        if random.below(2) == 0 {
            bytes.resize(SEGMENT_BYTES_MIN as usize, 0);
        }
        disk.replace(name, bytes);
        if let Ok((found, _)) = read(&disk) {
            assert!(blocks.starts_with(&found), "only what was written, in its order");
        }
        sound.iter().for_each(|(name, bytes)| disk.replace(name, bytes.clone()));
    }
}

#[test]
fn files_of_others_are_refused() {
    let disk = new_disk();
    written(&disk, &groups(3));
    let other = ClusterId([1; 16]);
    let error = LogReader::open(shared(&disk), other).err().unwrap();
    assert_eq!(error.kind, LogErrorKind::Foreign);

    drop(writer(&disk, 1));
    drop(writer(&disk, 2));
    disk.remove(&file_name(2)).unwrap();
    let error = read(&disk).unwrap_err();
    assert_eq!((error.kind, error.file), (LogErrorKind::Missing, file_name(2)));
}

#[test]
fn a_later_format_is_refused_by_its_number() {
    let disk = new_disk();
    written(&disk, &groups(3));
    let (name, mut bytes) = files(&disk).pop().unwrap();
    bytes[11] = 4;
    let checksum = crc32fast::hash(&bytes[..60]);
    bytes[60..64].copy_from_slice(&checksum.to_be_bytes());
    disk.replace(&name, bytes);
    let error = read(&disk).unwrap_err();
    assert_eq!(error.kind, LogErrorKind::Newer);
    let said = "format version is 4 (written by release ";
    assert!(error.to_string().contains(said), "{error}");
}

#[test]
fn bytes_of_clients_are_never_taken_for_blocks() {
    let disk = new_disk();
    let mut first = writer(&disk, 1);
    commit(&mut first, &[(0, 1, 1, vec![1; 10])]);
    // A body that holds a copy of a sound header, with a watermark after the torn block.
    let forged = disk.bytes(&file_name(1)).unwrap()[FIRST_BLOCK as usize..][..72].to_vec();
    let end = LogEnd::default();
    let other = new_disk();
    let mut log = LogWriter::open(shared(&other), settings(2), end).unwrap();
    commit(&mut log, &[(0, 1, 1, vec![1; 10])]);
    let torn = log.position();
    add(&mut log, &(0, 2, 1, [forged.clone(), forged].concat()));
    log.write().unwrap();
    let name = file_name(1);
    let mut bytes = other.bytes(&name).unwrap();
    bytes[torn.offset as usize + 4] ^= 1;
    other.replace(&name, bytes);
    let (found, end) = read(&other).unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(end.position, torn);
}

#[test]
fn a_failed_sync_is_told_with_the_file() {
    let disk = new_disk();
    let mut log = written(&disk, &groups(2));
    disk.set_hook(Some(Box::new(|operation, _, _, _| match operation {
        DiskOperation::Sync => Err(DiskErrorKind::Other),
        _ => Ok(()),
    })));
    add(&mut log, &(0, 9, 1, vec![1]));
    log.write().unwrap();
    let error = log.sync().unwrap_err();
    assert_eq!((error.kind, error.file.as_str()), (LogErrorKind::Disk, "log/00000001.log"));
}

#[test]
fn the_bytes_are_those_of_the_format() {
    let disk = new_disk();
    let mut log = writer(&disk, 5);
    commit(&mut log, &[(3, 7, 2, b"entries".to_vec()), (4, 1, 1, Vec::new())]);
    log.seal().unwrap();
    let mut bytes = disk.bytes(&file_name(1)).unwrap();
    let end = log.position().offset as usize;
    assert_eq!(bytes.len(), SEGMENT_BYTES_MIN as usize);
    // The release that wrote it, and the checksum with that.
    let release = String::from_utf8(bytes[48..60].to_vec()).unwrap();
    assert_eq!(release.trim_end_matches('\0'), lockstep_durability::RELEASE);
    bytes[48..64].fill(0);
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let lines = |bytes: &[u8]| bytes.chunks(32).map(hex).collect::<Vec<_>>().join("\n");
    let text = format!("{}\n\n{}\n", lines(&bytes[..64]), lines(&bytes[4_096..end]));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/command-log.txt");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(golden).unwrap());
    assert!(bytes[64..4_096].iter().chain(&bytes[end..]).all(|byte| *byte == 0));
    let position = LogPosition { segment: 1, offset: end as u32 };
    assert_eq!(read(&disk).unwrap().1.position, position);
}
