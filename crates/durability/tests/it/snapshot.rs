//! Snapshots on a disk in memory: what is written comes back, and nothing else does.

use lockstep_base::random::SeededRandom;
use lockstep_durability::ClusterId;
use lockstep_durability::recovery::candidates;
use lockstep_durability::snapshot::{
    self, ColumnHead, ContentKind, HostPart, Manifest, PartitionPosition, RowsReader, RowsWriter,
    SnapshotError, TableEntry, TableHead, TableKind, write_manifest,
};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, DiskErrorKind, DiskOperation, OpenMode};
use lockstep_txn::log_entry::LogSource;
use lockstep_types::{Datum, SqlType, TransactionId};

const FOLDER: &str = "snapshots";
const CLUSTER: ClusterId = ClusterId([7; 16]);

fn heads() -> Vec<TableHead> {
    let column = |sql_type, nullable, max_bytes| ColumnHead { sql_type, nullable, max_bytes };
    vec![
        TableHead {
            table: 0,
            name: "VOTES".to_string(),
            rows: 3,
            used_slots: 4,
            free_head: 2,
            columns: vec![column(SqlType::BigInt, false, 0), column(SqlType::Varchar, true, 400)],
            partition_columns: vec![0],
        },
        TableHead {
            table: 5,
            name: "EMPTY".to_string(),
            rows: 0,
            used_slots: 0,
            free_head: u32::MAX,
            columns: vec![column(SqlType::Float, true, 0)],
            partition_columns: Vec::new(),
        },
    ]
}

fn payloads(partition: u32) -> Vec<Vec<u8>> {
    vec![b"first records".to_vec(), vec![partition as u8; 100], Vec::new()]
}

fn manifest(nonce: &str, transaction: i64) -> Manifest {
    Manifest {
        release: "1.2.3".to_string(),
        cluster: CLUSTER,
        nonce: nonce.to_string(),
        content: ContentKind::Native,
        transaction,
        created_ms: 1_700_000_000_123,
        part: None,
        catalog_version: 4,
        planning: Vec::new(),
        positions: vec![
            PartitionPosition {
                source: LogSource { epoch: 3, incarnation: 1 },
                sequence: 17,
                transaction: TransactionId(99),
                digest: 1 << 63,
            },
            PartitionPosition { source: LogSource::of_run(2), sequence: 9, ..Default::default() },
        ],
        tables: vec![TableEntry {
            name: "VOTES".to_string(),
            kind: TableKind::Partitioned,
            rows: 6,
        }],
        files: Vec::new(),
        schema: "CREATE TABLE VOTES (\n  ID BIGINT NOT NULL,\n  NOTE VARCHAR(100)\n);\n"
            .to_string(),
    }
}

fn write(disk: &dyn Disk, nonce: &str, transaction: i64) -> Result<Manifest, SnapshotError> {
    disk.create_folder(FOLDER)?;
    let mut manifest = manifest(nonce, transaction);
    for partition in 0..2 {
        let name = snapshot::rows_name(nonce, partition);
        let of = (CLUSTER, transaction, partition);
        let mut rows = RowsWriter::create(disk, FOLDER, &name, of, &heads())?;
        for payload in payloads(partition) {
            rows.records(&payload)?;
        }
        manifest.files.push(rows.finish()?);
    }
    snapshot::write_manifest(disk, FOLDER, &manifest)?;
    Ok(manifest)
}

fn read(disk: &dyn Disk, nonce: &str) -> Result<Vec<Vec<u8>>, SnapshotError> {
    let manifest = snapshot::read_manifest(disk, FOLDER, nonce)?;
    let mut all = Vec::new();
    for partition in 0..manifest.positions.len() as u32 {
        let mut reader = RowsReader::open(disk, FOLDER, &manifest, partition)?;
        assert_eq!(reader.tables(), heads());
        let mut payload = Vec::new();
        while reader.next(&mut payload)?.is_some() {
            all.push(payload.clone());
        }
    }
    Ok(all)
}

fn content(disk: &dyn Disk, name: &str) -> Vec<u8> {
    let file = disk.open(&format!("{FOLDER}/{name}"), OpenMode::Read).expect("it is there");
    let mut bytes = vec![0; file.length().expect("it is open") as usize];
    file.read_at(0, &mut bytes).expect("it is open");
    bytes
}

fn replace(disk: &dyn Disk, name: &str, bytes: &[u8]) {
    let mut file = disk.open(&format!("{FOLDER}/{name}"), OpenMode::Write).expect("it is there");
    file.set_length(0).expect("it is open");
    file.write_at(0, bytes).expect("it is open");
}

#[test]
fn what_is_written_comes_back() {
    let disk = MemoryDisk::new();
    let written = write(&disk, "ONE", 5).unwrap();
    assert_eq!(snapshot::read_manifest(&disk, FOLDER, "ONE"), Ok(written));
    assert_eq!(read(&disk, "ONE").unwrap(), [payloads(0), payloads(1)].concat());
    let found = snapshot::scan(&disk, FOLDER).unwrap();
    assert_eq!(found.len(), 1);
    assert!(found[0].is_complete());
    for file in &found[0].manifest.as_ref().unwrap().files {
        snapshot::verify_file(&disk, FOLDER, file).unwrap();
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let disk = MemoryDisk::new();
    write(&disk, "ONE", 5).unwrap();
    let files = disk.list(FOLDER).unwrap();
    for name in &files {
        let sound = content(&disk, name);
        for at in 0..sound.len() {
            let mut damaged = sound.clone();
            damaged[at] ^= 1 << (at % 8);
            replace(&disk, name, &damaged);
            let error = read(&disk, "ONE").expect_err("a bit is another");
            assert!(error.file.contains(name.as_str()), "{name} {at}: {error}");
            assert!(!error.remedy.is_empty());
        }
        replace(&disk, name, &sound);
    }
    read(&disk, "ONE").unwrap();
}

#[test]
fn every_cut_is_found() {
    let disk = MemoryDisk::new();
    write(&disk, "ONE", 5).unwrap();
    for name in disk.list(FOLDER).unwrap() {
        let sound = content(&disk, &name);
        for length in 0..sound.len() {
            replace(&disk, &name, &sound[..length]);
            let error = read(&disk, "ONE").expect_err("the end is missing");
            assert!(error.file.contains(&name), "{name} {length}: {error}");
            let (newest, problems) = snapshot::newest(&disk, FOLDER).unwrap();
            assert_eq!((newest, problems.len()), (None, 1));
        }
        replace(&disk, &name, &[&sound[..], b"more"].concat());
        read(&disk, "ONE").expect_err("there is more than was written");
        replace(&disk, &name, &sound);
    }
}

#[test]
fn foreign_and_newer_files_are_refused() {
    let disk = MemoryDisk::new();
    write(&disk, "ONE", 5).unwrap();
    write(&disk, "TWO", 6).unwrap();
    let (one, two) = (snapshot::rows_name("ONE", 0), snapshot::rows_name("TWO", 0));
    let sound = content(&disk, &one);
    replace(&disk, &one, &content(&disk, &two));
    let error = read(&disk, "ONE").unwrap_err().to_string();
    assert!(error.contains("another snapshot") && error.contains(&one), "{error}");
    replace(&disk, &one, &sound);

    let manifest = snapshot::manifest_name("ONE");
    let text = String::from_utf8(content(&disk, &manifest)).unwrap();
    replace(&disk, &manifest, text.replace("format 3", "format 99").as_bytes());
    let error = read(&disk, "ONE").unwrap_err().to_string();
    assert!(error.contains("format 99, newer than 5; use the release"), "{error}");
    replace(&disk, &manifest, &content(&disk, &snapshot::manifest_name("TWO")));
    let error = read(&disk, "ONE").unwrap_err().to_string();
    assert!(error.contains("the manifest of snapshot TWO"), "{error}");
    assert_eq!(snapshot::newest(&disk, FOLDER).unwrap().0.unwrap().nonce, "TWO");
    for other in ["", ".hidden", "a-b", "a/b", "ä", "a b"] {
        assert!(snapshot::check_nonce(other).is_err(), "{other}");
    }
}

#[test]
fn without_its_manifest_a_snapshot_does_not_exist() {
    // A power cut at every operation: the snapshot is whole or it is not there.
    let mut whole = 0;
    for last in 0.. {
        let disk = MemoryDisk::new();
        let mut random = SeededRandom::new(last);
        let mut left = last;
        disk.set_hook(Some(Box::new(move |_, _, _, _| {
            left = left.checked_sub(1).ok_or(DiskErrorKind::Other)?;
            Ok(())
        })));
        let written = write(&disk, "ONE", 5).is_ok();
        disk.set_hook(None);
        disk.cut_power(|_| match random.below(3) {
            0 => Survival::Lost,
            1 => Survival::Kept,
            _ => Survival::Torn(3),
        });
        let newest = match snapshot::newest(&disk, FOLDER) {
            Ok((newest, problems)) => {
                assert_eq!(problems, [], "an unfinished snapshot is no damage");
                newest
            }
            Err(_) => None,
        };
        if newest.is_some() {
            assert_eq!(read(&disk, "ONE").unwrap(), [payloads(0), payloads(1)].concat());
            whole += 1;
        }
        if written {
            assert!(newest.is_some(), "what was written is there");
            break;
        }
    }
    assert!(whole > 0);
}

#[test]
fn removing_begins_with_the_manifest() {
    let disk = MemoryDisk::new();
    write(&disk, "ONE", 5).unwrap();
    write(&disk, "ONE2", 6).unwrap();
    let mut removed = 0;
    disk.set_hook(Some(Box::new(move |operation, _, _, _| {
        removed += usize::from(operation == DiskOperation::Remove);
        if removed == 2 { Err(DiskErrorKind::Denied) } else { Ok(()) }
    })));
    let error = snapshot::remove(&disk, FOLDER, "ONE").unwrap_err();
    assert!(error.remedy.contains("read and write"), "{error}");
    disk.set_hook(None);
    assert_eq!(snapshot::newest(&disk, FOLDER).unwrap().0.unwrap().nonce, "ONE2");
    assert_eq!(snapshot::remove(&disk, FOLDER, "ONE").unwrap().len(), 2);
    assert_eq!(snapshot::scan(&disk, FOLDER).unwrap().len(), 1);
}

/// The names in the folder.
fn names(disk: &MemoryDisk) -> Vec<String> {
    disk.list(FOLDER).expect("the folder is there")
}

#[test]
fn only_what_a_manifest_names_is_removed() {
    let disk = MemoryDisk::new();
    write(&disk, "ONE", 5).unwrap();
    let own = names(&disk);
    let others = ["ONE-notes-host_0.csv", "ONE-host_0-site_7.rows", "ONE-host_0.classes"];
    for name in others {
        disk.replace(&format!("{FOLDER}/{name}"), b"somebody's".to_vec());
    }
    let removed = snapshot::remove(&disk, FOLDER, "ONE").unwrap();
    let mut removed: Vec<String> = removed.into_iter().map(|(name, _)| name).collect();
    removed.sort();
    assert_eq!(removed, own);
    let mut left = others.map(String::from).to_vec();
    left.sort();
    assert_eq!(names(&disk), left);
    // Without a manifest nobody knows what belongs to it.
    let error = snapshot::remove(&disk, FOLDER, "ONE").unwrap_err();
    assert_eq!(error.disk, Some(DiskErrorKind::NotFound));
    assert_eq!(names(&disk), left);
}

#[test]
fn what_a_host_did_not_finish_is_removed_and_nothing_else() {
    let disk = MemoryDisk::new();
    write(&disk, "ONE", 5).unwrap();
    let path = |name: &str| format!("{FOLDER}/{name}");
    disk.rename(&path("ONE-host_0.manifest"), &path("ONE-host_0.manifest.partial")).unwrap();
    // Of another cluster, of another partition than its name says, empty, and no rows at all.
    let rows = content(&disk, "ONE-host_0-site_0.rows");
    let mut foreign = rows.clone();
    foreign[20] ^= 1;
    disk.replace(&path("ONE-host_0-site_2.rows"), foreign);
    disk.replace(&path("ONE-host_0-site_3.rows"), rows);
    disk.replace(&path("ONE-host_0-site_4.rows"), Vec::new());
    disk.replace(&path("ONE-host_0-site_05.rows"), Vec::new());
    disk.replace(&path("ONE-T-host_0.csv"), b"1,2".to_vec());
    snapshot::clear(&disk, FOLDER, "ONE", CLUSTER).unwrap();
    let left = [
        "ONE-T-host_0.csv",
        "ONE-host_0-site_05.rows",
        "ONE-host_0-site_2.rows",
        "ONE-host_0-site_3.rows",
    ];
    assert_eq!(names(&disk), left);
}

#[test]
fn a_damaged_snapshot_takes_the_place_of_none_that_is_kept() {
    let disk = MemoryDisk::new();
    for (nonce, transaction) in [("AUTO1", 1), ("AUTO2", 2), ("AUTO3", 3), ("AUTO4", 4)] {
        write(&disk, nonce, transaction).unwrap();
    }
    let outdated = |disk: &MemoryDisk, kept| {
        let found = snapshot::scan(disk, FOLDER).unwrap();
        let names = snapshot::outdated(&found, "AUTO", kept);
        names.into_iter().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(outdated(&disk, 2), ["AUTO1", "AUTO2"]);
    disk.remove(&format!("{FOLDER}/AUTO4-host_0-site_1.rows")).unwrap();
    assert_eq!(outdated(&disk, 2), ["AUTO1"]);
    assert_eq!(outdated(&disk, 3), Vec::<String>::new());
    disk.remove(&format!("{FOLDER}/AUTO1-host_0-site_1.rows")).unwrap();
    assert_eq!(outdated(&disk, 1), ["AUTO1", "AUTO2"]);
}

#[test]
fn a_full_disk_is_said() {
    let disk = MemoryDisk::new();
    disk.limit_capacity(Some(300));
    let error = write(&disk, "ONE", 5).unwrap_err().to_string();
    assert!(error.contains("make room") && error.contains("ONE-host_0-site_"), "{error}");
}

#[test]
fn csv_quotes_what_it_must() {
    let mut out = Vec::new();
    let values = [
        Datum::Int(-5),
        Datum::Text("a,\"b\"\n"),
        Datum::Text("\\N"),
        Datum::Null,
        Datum::Bytes(&[0, 255]),
        Datum::Bytes(&[]),
        Datum::Float(0.1),
        Datum::Timestamp(1),
    ];
    let typed = values.into_iter().map(|value| (value.natural_type(), value));
    snapshot::csv::write_row(&mut out, typed);
    let text = "-5,\"a,\"\"b\"\"\n\",\"\\N\",\\N,\"00FF\",\"\",0.1,1970-01-01 00:00:00.000001\n";
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

/// The bytes on the disk are those of the release that wrote the file of that name.
#[test]
fn the_format_stays() {
    let disk = MemoryDisk::new();
    write(&disk, "GOLDEN", 5).unwrap();
    let rows = content(&disk, &snapshot::rows_name("GOLDEN", 1));
    let hex: Vec<String> = rows
        .chunks(32)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect())
        .collect();
    let manifest = String::from_utf8(content(&disk, &snapshot::manifest_name("GOLDEN"))).unwrap();
    let text = format!("{manifest}\n{}\n", hex.join("\n"));
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/snapshot.txt");
    if std::env::var_os("REWRITE").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(golden).unwrap());
}

/// What earlier releases wrote is read: the manifest and the file of partition 1.
#[test]
fn the_formats_before_are_read() {
    for format in 1..=2 {
        let name = format!("/tests/golden/snapshot-format-{format}.txt");
        let text = std::fs::read_to_string(format!("{}{name}", env!("CARGO_MANIFEST_DIR")));
        read_golden(&text.unwrap());
    }
}

fn read_golden(text: &str) {
    let (manifest, hex) = text.rsplit_once("\n\n").expect("it is sound");
    let digits: Vec<char> = hex.chars().filter(|digit| !digit.is_whitespace()).collect();
    let byte = |pair: &[char]| {
        u8::from_str_radix(&pair.iter().collect::<String>(), 16).expect("it is sound")
    };
    let rows: Vec<u8> = digits.chunks(2).map(byte).collect();
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER).expect("it is sound");
    let path = |name: String| format!("{FOLDER}/{name}");
    disk.replace(&path(snapshot::manifest_name("GOLDEN")), format!("{manifest}\n").into_bytes());
    disk.replace(&path(snapshot::rows_name("GOLDEN", 1)), rows);
    let manifest = snapshot::read_manifest(&disk, FOLDER, "GOLDEN").expect("it is sound");
    let position = |sequence| PartitionPosition {
        source: LogSource::of_run(1),
        sequence,
        transaction: TransactionId(0),
        digest: 0,
    };
    assert_eq!(manifest.positions, [position(17), position(9)]);
    let mut reader = RowsReader::open(&disk, FOLDER, &manifest, 1).expect("it is sound");
    assert_eq!(reader.tables(), heads());
    assert_eq!(all_of(&mut reader, RowsReader::next), payloads(1));
}

type Next = fn(&mut RowsReader, &mut Vec<u8>) -> Result<Option<snapshot::Chunk>, SnapshotError>;

fn all_of(reader: &mut RowsReader, next: Next) -> Vec<Vec<u8>> {
    let (mut all, mut payload) = (Vec::new(), Vec::new());
    while next(reader, &mut payload).expect("it is sound").is_some() {
        all.push(payload.clone());
    }
    all
}

#[test]
fn records_of_replicated_tables_are_found_without_the_others() {
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER).unwrap();
    let mut manifest = manifest("MIXED", 5);
    let name = snapshot::rows_name("MIXED", 0);
    let mut rows = RowsWriter::create(&disk, FOLDER, &name, (CLUSTER, 5, 0), &heads()).unwrap();
    // A record is a letter, of a replicated table if it is a capital one.
    for records in ["abCDe", "", "F", "g", "Hi"] {
        let next = |input: &mut &[u8]| {
            let Some((letter, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            Ok(Some(letter.is_ascii_uppercase()))
        };
        rows.mixed_records(records.as_bytes(), next).unwrap();
    }
    manifest.files.push(rows.finish().unwrap());
    let open = |disk: &MemoryDisk| RowsReader::open(disk, FOLDER, &manifest, 0).unwrap();
    let text = |all: Vec<Vec<u8>>| {
        let texts = all.into_iter().map(|payload| String::from_utf8(payload).unwrap());
        texts.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(text(all_of(&mut open(&disk), RowsReader::next)), "ab CD e F g H i");
    assert_eq!(text(all_of(&mut open(&disk), RowsReader::next_replicated)), "CD F H");
    // Damage of what is read is found, and so is a chunk that is not where it belongs.
    let sound = content(&disk, &name);
    let place = sound.windows(2).position(|window| window == b"CD").unwrap();
    for (at, part) in [(place, "the checksum of chunk"), (place - 16, "stands where chunk")] {
        let mut bytes = sound.clone();
        bytes[at] ^= 8;
        replace(&disk, &name, &bytes);
        let error = open(&disk).next_replicated(&mut Vec::new()).unwrap_err().to_string();
        assert!(error.contains(part) || at < place && error.contains("checksum"), "{error}");
        assert!(error.contains(", byte "), "{error}");
    }
}

#[test]
fn more_slots_than_the_file_has_bytes_are_refused() {
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER).unwrap();
    let mut manifest = manifest("HUGE", 5);
    let name = snapshot::rows_name("HUGE", 0);
    let mut heads = heads();
    heads[0].used_slots = u32::MAX - 1;
    let rows = RowsWriter::create(&disk, FOLDER, &name, (CLUSTER, 5, 0), &heads).unwrap();
    manifest.files.push(rows.finish().unwrap());
    let error = RowsReader::open(&disk, FOLDER, &manifest, 0).err().unwrap().to_string();
    assert!(
        error.contains("HUGE-host_0-site_0.rows, byte 44: table VOTES has 4294967294"),
        "{error}"
    );
}

/// Writes the part of a host in a snapshot of three partitions.
fn write_part(disk: &MemoryDisk, host: u32, partitions: &[u32], transaction: i64) {
    write_host(disk, (host, false), partitions, transaction);
}

/// The same, or what the host keeps of its own copies.
fn write_host(
    disk: &MemoryDisk,
    (host, is_own): (u32, bool),
    partitions: &[u32],
    transaction: i64,
) {
    disk.create_folder(FOLDER).expect("a folder can be made");
    let mut part = manifest("PARTS", transaction);
    part.positions = vec![PartitionPosition::default(); 3];
    part.files.clear();
    for partition in partitions {
        part.positions[*partition as usize].sequence = 10 + u64::from(*partition);
        let name = snapshot::rows_name_of("PARTS", host, *partition);
        let of = (part.cluster, transaction, *partition);
        let writer = RowsWriter::create(disk, FOLDER, &name, of, &[]).expect("it can be made");
        part.files.push(writer.finish().expect("it can be ended"));
    }
    part.part = Some(HostPart { host, is_own, partitions: partitions.to_vec() });
    write_manifest(disk, FOLDER, &part).expect("it can be written");
}

#[test]
fn parts_of_several_hosts_are_whole_together() {
    let disk = MemoryDisk::new();
    write_part(&disk, 2, &[0, 2], 5);
    let found = snapshot::scan(&disk, FOLDER).unwrap();
    let part = found[0].manifest.as_ref().unwrap();
    assert_eq!(part.lacked_partitions().collect::<Vec<u32>>(), [1]);
    assert!(found[0].missing().next().is_none() && !found[0].is_complete());
    assert!(snapshot::newest(&disk, FOLDER).unwrap().0.is_none());

    write_part(&disk, 1, &[1], 5);
    let found = snapshot::scan(&disk, FOLDER).unwrap();
    assert!(found.len() == 1 && found[0].is_complete(), "{found:?}");
    let whole = snapshot::read_manifest(&disk, FOLDER, "PARTS").unwrap();
    let sequences: Vec<u64> = whole.positions.iter().map(|position| position.sequence).collect();
    assert_eq!(sequences, [10, 11, 12]);
    for partition in 0..3 {
        RowsReader::open(&disk, FOLDER, &whole, partition).unwrap();
    }
    // No recovery of one host begins with what several saved, nor of one of several.
    for own in [None, Some(&[true, false, false][..])] {
        let found = candidates(&disk, whole.cluster, 3, own).unwrap();
        assert!(found.is_empty(), "{found:?}");
    }

    let removed = snapshot::remove_part(&disk, FOLDER, "PARTS", 1).unwrap();
    assert_eq!(removed.len(), 2);
    assert!(!snapshot::scan(&disk, FOLDER).unwrap()[0].is_complete());
    write_part(&disk, 1, &[1], 6);
    let error = snapshot::read_manifest(&disk, FOLDER, "PARTS").unwrap_err().to_string();
    assert!(error.contains("belongs to another snapshot"), "{error}");
    snapshot::remove_part(&disk, FOLDER, "PARTS", 1).unwrap();
    write_part(&disk, 1, &[1, 2], 5);
    let error = snapshot::read_manifest(&disk, FOLDER, "PARTS").unwrap_err().to_string();
    assert!(error.contains("saved partition 2 too"), "{error}");
    assert_eq!(snapshot::remove(&disk, FOLDER, "PARTS").unwrap().len(), 6);
    assert!(snapshot::scan(&disk, FOLDER).unwrap().is_empty());
}

#[test]
fn a_host_of_several_begins_with_what_it_keeps_of_its_own_copies() {
    let disk = MemoryDisk::new();
    write_host(&disk, (2, true), &[0, 2], 5);
    let found = snapshot::scan(&disk, FOLDER).unwrap();
    assert!(found[0].is_start() && !found[0].is_complete());
    let manifest = found[0].manifest.as_ref().unwrap();
    assert!(manifest.is_own());
    let begins = |own: Option<&[bool]>| !candidates(&disk, CLUSTER, 3, own).unwrap().is_empty();
    assert!(begins(Some(&[true, false, true])) && begins(Some(&[false, false, true])));
    assert!(!begins(Some(&[true, true, true])), "it does not have all of these");
    assert!(!begins(None), "a host that is alone needs all partitions");
    let covered = snapshot::covered(&found, "PARTS", CLUSTER);
    assert_eq!(covered.into_iter().collect::<Vec<_>>(), [(0, 10), (2, 12)]);

    // What another host keeps does not make it whole.
    write_host(&disk, (1, true), &[1], 5);
    let error = snapshot::read_manifest(&disk, FOLDER, "PARTS").unwrap_err().to_string();
    assert!(error.contains("of the copies of one host"), "{error}");
    snapshot::remove_part(&disk, FOLDER, "PARTS", 1).unwrap();
    // Without its manifest nothing of it stays.
    disk.remove(&format!("{FOLDER}/{}", snapshot::manifest_name_of("PARTS", 2))).unwrap();
    snapshot::remove_unfinished(&disk, FOLDER, "PARTS", CLUSTER).unwrap();
    assert!(disk.list(FOLDER).unwrap().is_empty());
}
