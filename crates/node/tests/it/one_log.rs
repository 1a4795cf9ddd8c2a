//! The log of one partition, read without those of the others: it says what was decided on each
//! transaction that the partition took part in.

use crate::durability::{data, new_disk};
use crate::support::{Peer, start_with};
use lockstep_durability::command_log::LogReader;
use lockstep_durability::directory::ClusterFile;
use lockstep_durability::recovery::{Outcome, Survey};
use lockstep_env::Disk;
use lockstep_env::memory::MemoryDisk;
use lockstep_jvm::JavaSettings;
use lockstep_node::NativeRegistry;
use lockstep_node::log::Durability;
use lockstep_node::options::Options;
use lockstep_node::recovery::{HostState, LogPieces, PartitionLog, ReplaySettings, replay};
use lockstep_txn::log_entry::{EntryBody, EntryKind, LogSource, put_schema};
use lockstep_txn::{EntryReader, LogBuffer};
use lockstep_types::Datum::Int;
use lockstep_types::{HashRing, PartitionId, TransactionId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const SITES: u32 = 3;
const CLIENTS: i64 = 4;
const CALLS: i64 = 60;
/// Power cuts after the run, about.
const CUTS: usize = 50;
/// Most rows that a client may choose from, so that clients meet.
const ACCOUNTS: i64 = 12;

const SCHEMA: &[&str] = &[
    "CREATE TABLE accounts (id BIGINT NOT NULL, owner BIGINT NOT NULL, balance BIGINT, \
     PRIMARY KEY (id))",
    "PARTITION TABLE accounts ON COLUMN id",
    "CREATE GLOBAL UNIQUE INDEX owners ON accounts (owner)",
    "CREATE TABLE rates (id BIGINT NOT NULL, rate BIGINT, PRIMARY KEY (id))",
    "CREATE PROCEDURE Deposit PARTITION ON TABLE accounts COLUMN id PARAMETER 1 AS \
     UPDATE accounts SET balance = balance + ? WHERE id = ?",
    "CREATE PROCEDURE Transfer AS BEGIN UPDATE accounts SET balance = balance - ? WHERE id = ?; \
     UPDATE accounts SET balance = balance + ? WHERE id = ?; END",
    "CREATE PROCEDURE Rename AS UPDATE accounts SET owner = ? WHERE id = ?",
    "CREATE PROCEDURE Rate AS UPSERT INTO rates VALUES (?, ?)",
    "CREATE PROCEDURE Interest AS UPDATE accounts SET balance = balance + 1 WHERE balance > ?",
];

/// Some calls of one client; some of the renamings fail, because the owner has an account.
fn call(peer: &mut Peer, number: i64) {
    let (one, other) = (number * 7 % ACCOUNTS, number * 5 % ACCOUNTS + 1);
    match number % 6 {
        0 => peer.call("Deposit", &[Int(number), Int(one)]),
        1 | 2 => peer.call("Transfer", &[Int(3), Int(one), Int(3), Int(other)]),
        3 => peer.call("Rename", &[Int(100 + number % 9), Int(one)]),
        4 => peer.call("Rate", &[Int(number % 3), Int(number)]),
        _ => peer.call("Interest", &[Int(number)]),
    };
}

/// Runs a host until it is stopped in order; gives its disk, and what each partition had.
fn run_host() -> (MemoryDisk, Vec<u64>) {
    let disk = new_disk(SITES);
    let options = &["statistics_interval_ms=0", "log_segment_bytes=131072"];
    let server = start_with(SITES, options, Some(data(&disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let mut peer = Peer::login(server.client_address());
    SCHEMA.iter().for_each(|ddl| {
        peer.run(ddl);
    });
    for id in 0..=ACCOUNTS {
        peer.run(&format!("INSERT INTO accounts VALUES ({id}, {id}, 100)"));
    }
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let address = server.client_address();
            scope.spawn(move || {
                let mut peer = Peer::login(address);
                (0..CALLS).for_each(|number| call(&mut peer, client + CLIENTS * number));
            });
        }
    });
    (disk, server.stop_with_digests().expect("it stops"))
}

/// The blocks of a log, in their order.
fn blocks(disk: &MemoryDisk) -> Vec<(PartitionId, Vec<u8>)> {
    let cluster = ClusterFile::read(disk).expect("sound").expect("made").cluster;
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let mut reader = LogReader::open(disk, cluster).expect("it is sound");
    let mut blocks = Vec::new();
    while let Some(block) = reader.next_block().expect("it is sound") {
        blocks.push((PartitionId(block.partition), block.body.to_vec()));
    }
    blocks
}

/// What all logs together say.
fn survey_all(blocks: &[(PartitionId, Vec<u8>)]) -> Outcome {
    let mut survey = Survey::new(&[0; SITES as usize]);
    for (partition, body) in blocks {
        survey.read(*partition, body).expect("it is sound");
    }
    survey.finish()
}

/// What the log of one partition says.
fn survey_one(blocks: &[(PartitionId, Vec<u8>)], of: PartitionId) -> Outcome {
    let mut survey = Survey::of_one(of, SITES as usize, 0);
    for (partition, body) in blocks.iter().filter(|(partition, _)| *partition == of) {
        survey.read(*partition, body).expect("it is sound");
    }
    survey.finish()
}

/// Of a partition's log, the changes of the catalog.
fn schema_changes(blocks: &[(PartitionId, Vec<u8>)], of: PartitionId) -> Vec<Vec<u8>> {
    let mut buffer = LogBuffer::new(of, LogSource::of_run(1), 0);
    for (_, body) in blocks.iter().filter(|(partition, _)| *partition == of) {
        let mut entries = EntryReader::new(body);
        while let Some(entry) = entries.read().expect("it is sound") {
            if let EntryBody::Schema { catalog_version, change } = entry.body {
                let mut body = Vec::new();
                put_schema(&mut body, catalog_version, change);
                buffer.append(&entry.header, EntryKind::Schema, &body);
            }
        }
    }
    vec![buffer.bytes().to_vec()]
}

/// Replays one partition by its own log alone; the others follow changes of the catalog only.
fn replayed_alone(blocks: &[(PartitionId, Vec<u8>)], of: PartitionId) -> u64 {
    let outcome = survey_one(blocks, of);
    let log = |number| {
        let partition = PartitionId(number);
        let own = blocks.iter().filter(|(at, _)| *at == of).map(|(_, body)| body.clone());
        let pieces = match partition == of {
            true => own.collect(),
            false => schema_changes(blocks, partition),
        };
        Box::new(LogPieces::new(Arc::new(pieces))) as Box<dyn PartitionLog + Send>
    };
    let (natives, options) = (NativeRegistry::default(), Options::default());
    let settings = ReplaySettings {
        natives: &natives,
        options: &options,
        java: JavaSettings::default(),
        ring: &HashRing::new(SITES),
        progress: &AtomicU64::new(0),
        own: None,
    };
    let state = HostState::<(), ()>::empty(&settings).expect("it is empty");
    let replayed = replay(state, (0..SITES).map(log).collect(), &outcome, &settings);
    let (state, summary) = replayed.expect("its log says what was decided");
    assert!(summary.replayed > 0);
    state.sites[of.index()].database().content_hash()
}

#[test]
fn a_partition_is_replayed_by_its_own_log_alone() {
    let (disk, digests) = run_host();
    let blocks = blocks(&disk);
    for partition in (0..SITES).map(PartitionId) {
        let replayed = replayed_alone(&blocks, partition);
        assert_eq!(replayed, digests[partition.index()], "partition {partition}");
    }
}

/// The transactions over several partitions in a log, and how many of its commits name who wrote.
fn transactions(
    blocks: &[(PartitionId, Vec<u8>)],
    of: PartitionId,
) -> (BTreeSet<TransactionId>, usize) {
    let (mut found, mut commits) = (BTreeSet::new(), 0);
    for (_, body) in blocks.iter().filter(|(partition, _)| *partition == of) {
        let mut entries = EntryReader::new(body);
        while let Some(entry) = entries.read().expect("it is sound") {
            let transaction = entry.header.transaction;
            if transaction.partition() == PartitionId::MULTI {
                found.insert(transaction);
            }
            if let EntryBody::Commit(commit) = entry.body {
                assert!(commit.writers().any(|writer| writer.partition == of), "it is one of them");
                assert!(commit.writers().all(|writer| writer.round > 0), "rounds begin at 1");
                commits += 1;
            }
        }
    }
    (found, commits)
}

/// At each end that a power cut may leave, what one log says that is decided is what all say.
#[test]
fn what_one_log_says_that_is_decided_no_other_contradicts() {
    let (disk, _) = run_host();
    let blocks = blocks(&disk);
    let mut known = 0;
    for end in (1..=blocks.len()).step_by(1 + blocks.len() / CUTS) {
        let read = &blocks[..end];
        let all = survey_all(read);
        for partition in (0..SITES).map(PartitionId) {
            let alone = survey_one(read, partition);
            for transaction in transactions(read, partition).0 {
                let (one, every) =
                    (alone.replays(partition, transaction), all.replays(partition, transaction));
                assert!(every || !one, "{transaction:?} is committed by one log of {end} blocks");
                known += usize::from(one);
            }
        }
    }
    assert!(known > 0, "logs of one partition say that something is committed");
    for partition in (0..SITES).map(PartitionId) {
        let (found, commits) = transactions(&blocks, partition);
        assert!(commits > 0 && commits <= found.len(), "{commits} of {}", found.len());
    }
}
