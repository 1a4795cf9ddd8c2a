//! Directories of earlier releases, and logs of several epochs, open with what they hold.

use crate::durability::{data, new_disk};
use crate::support::{Peer, parameters, start_with};
use lockstep_durability::command_log::{LogReader, LogSettings, LogWriter, SEGMENT_BYTES_MIN};
use lockstep_durability::directory::ClusterFile;
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_env::{Disk, OpenMode};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::sp::first_entry;
use lockstep_txn::{EntryReader, LogBuffer};
use lockstep_types::Datum::Int;
use lockstep_types::{PartitionId, TransactionId};
use std::path::Path;
use std::sync::Arc;

/// Directories of two sites that release 0.1.0 wrote when the log had these formats, and that were
/// not stopped in order: a snapshot and the log after it.
const FORMATS: &[&str] = &[
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/directories/format-1"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/directories/format-2"),
];

const OPTIONS: &[&str] = &["statistics_interval_ms=0", "log_segment_bytes=65536"];

fn host(disk: &MemoryDisk, sites: u32) -> (Server, Peer) {
    let server = start_with(sites, OPTIONS, Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

/// The files of a folder of this repository.
fn copied(root: &str) -> MemoryDisk {
    let disk = MemoryDisk::new();
    for folder in ["", "log", "snapshots"] {
        if !folder.is_empty() {
            disk.create_folder(folder).expect("memory takes it");
        }
        for entry in std::fs::read_dir(Path::new(root).join(folder)).expect("it is there") {
            let entry = entry.expect("it is listed");
            if entry.path().is_file() {
                let name = entry.file_name().into_string().expect("a plain name");
                let name = if folder.is_empty() { name } else { format!("{folder}/{name}") };
                let bytes = std::fs::read(entry.path()).expect("it can be read");
                let mut file = disk.open(&name, OpenMode::Create).expect("memory takes it");
                file.write_at(0, &bytes).expect("memory takes it");
                file.sync_data().expect("memory takes it");
            }
        }
        disk.sync_folder(folder).expect("memory takes it");
    }
    disk
}

/// What the directory's host had answered when it was killed.
fn check_rows(peer: &mut Peer) {
    for (query, rows) in [
        ("SELECT COUNT(*), SUM(balance) FROM accounts", "19,2113.500000000000"),
        ("SELECT owner, balance FROM accounts WHERE id = 4", "owner 4,218.000000000000"),
        ("SELECT id, balance FROM accounts WHERE owner = 'renamed'", "9,110.000000000000"),
        ("SELECT COUNT(*) FROM accounts WHERE id > 19 OR owner = 'taken'", "0"),
        ("SELECT name FROM branches ORDER BY id", "branch 1\nbranch 3"),
        ("SELECT COUNT(*), SUM(a), MAX(t) FROM late", "5,15,late 5"),
        ("SELECT COUNT(*), SUM(total) FROM totals", "19,2113.500000000000"),
    ] {
        assert_eq!(peer.run(query), rows, "{query}");
    }
}

#[test]
fn directories_of_earlier_formats_open() {
    FORMATS.iter().for_each(|root| open_earlier(copied(root)));
}

fn open_earlier(disk: MemoryDisk) {
    let without_snapshot = disk.copy();
    for name in without_snapshot.list("snapshots").expect("it is there") {
        without_snapshot.remove(&format!("snapshots/{name}")).expect("it is there");
    }
    let (server, mut peer) = host(&disk, 2);
    let summary = server.recovery().expect("it has a directory");
    assert_eq!(summary.snapshot.as_ref().expect("there is one").nonce, "first");
    check_rows(&mut peer);
    // The log goes on in the new format, and both are read at the next start.
    assert_eq!(peer.call("Deposit", &[Int(5), Int(7)]).status, 1);
    assert_eq!(peer.call("Transfer", &[Int(1), Int(1), Int(1), Int(2)]).status, 1);
    let survivor = disk.survivor(|_| Survival::Lost);
    let before = server.stop_with_digests().expect("it stops");
    let (server, mut peer) = host(&survivor, 2);
    assert_eq!(peer.run("SELECT balance FROM accounts WHERE id = 7"), "115.000000000000");
    assert_eq!(server.stop_with_digests().expect("it stops"), before);

    // The whole log, without the snapshot.
    let (server, mut peer) = host(&without_snapshot, 2);
    assert!(server.recovery().expect("it has a directory").snapshot.is_none());
    check_rows(&mut peer);
    server.stop().expect("it stops");
}

/// Appends calls of `T.insert` to the only partition of a log, in an epoch, from a number on.
fn append(disk: &MemoryDisk, epoch: u32, back: u64, keys: &[i64]) {
    let cluster = ClusterFile::read(disk).expect("sound").expect("made").cluster;
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut reader = LogReader::open(Arc::clone(&shared), cluster).expect("it is sound");
    let (mut last, mut source, mut version) = (0, LogSource::default(), 0);
    while let Some(block) = reader.next_block().expect("it is sound") {
        let mut entries = EntryReader::new(block.body);
        while entries.read().expect("it is sound").is_some() {}
        last = block.first_sequence + u64::from(block.entries) - 1;
        (source, version) = (source.max(block.source), entries.catalog_version());
    }
    let source = LogSource { epoch, incarnation: source.incarnation + 1 };
    let partition = PartitionId(0);
    let mut buffer = LogBuffer::new(partition, source, last - back);
    buffer.set_catalog_version(version);
    for key in keys {
        let id = TransactionId::new(1_900_000_000_000 + key, 0, partition);
        let parameters = parameters(&[Int(*key), Int(i64::from(epoch))]);
        let set = lockstep_types::ParameterSet::new(parameters.bytes()).expect("sound");
        buffer.command(&first_entry(id), 0, "T.insert", false, &set);
    }
    let settings = LogSettings { cluster, segment_bytes: SEGMENT_BYTES_MIN, seed: 5 };
    let mut writer = LogWriter::open(shared, settings, reader.into_end()).expect("it opens");
    writer.add(0, source, last - back + 1, keys.len() as u32, buffer.bytes());
    writer.write().and_then(|()| writer.sync()).expect("memory takes it");
}

#[test]
fn a_tail_that_a_later_epoch_replaced_is_cut() {
    let disk = new_disk(1);
    let (server, mut peer) = host(&disk, 1);
    peer.run("CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, epoch BIGINT)");
    peer.run("PARTITION TABLE t ON COLUMN k");
    assert_eq!(peer.call("T.insert", &[Int(1), Int(1)]).status, 1);
    server.stop().expect("it stops");
    append(&disk, 1, 0, &[2, 3, 4]);
    // Of these three, the next epoch's leader had the first only.
    append(&disk, 2, 2, &[3, 5]);
    let (server, mut peer) = host(&disk, 1);
    let rows = "1,1\n2,1\n3,2\n5,2";
    assert_eq!(peer.run("SELECT * FROM t ORDER BY k"), rows);
    // The host goes on in that epoch, and the next start cuts the same.
    assert_eq!(peer.call("T.insert", &[Int(6), Int(2)]).status, 1);
    let before = server.stop_with_digests().expect("it stops");
    let (server, mut peer) = host(&disk, 1);
    assert_eq!(peer.run("SELECT * FROM t ORDER BY k"), format!("{rows}\n6,2"));
    assert_eq!(server.stop_with_digests().expect("it stops"), before);
}
