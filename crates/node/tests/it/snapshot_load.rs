//! Snapshots of a host that is written to: each is a point in time at which all money is there,
//! whatever moves between partitions and whatever becomes of the schema meanwhile.

use crate::support::{Peer, SetAtTheEnd, start};
use lockstep_node::Server;
use lockstep_types::Datum::{Int, Text};
use lockstep_workloads::bank;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{fs, thread};

const ACCOUNTS: i64 = 60;
const BALANCE: i64 = 1_000;
const CHANGES: &[&str] = &[
    "CREATE TABLE extra (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE extra ON COLUMN a",
    "ALTER TABLE accounts ADD COLUMN note VARCHAR(10) DEFAULT 'none'",
    "CREATE INDEX accounts_balance ON accounts (balance)",
    "CREATE VIEW spread (balance, n) AS SELECT balance, COUNT(*) FROM accounts GROUP BY balance",
    "DROP VIEW spread",
    "DROP INDEX accounts_balance",
    "ALTER TABLE accounts DROP COLUMN note",
    "DROP TABLE extra",
];

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("lockstep-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    fn text(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn save(peer: &mut Peer, folder: &Folder, nonce: &str, format: &str, block: bool) -> String {
    let request = format!(
        "{{\"path\":\"{}\",\"nonce\":\"{nonce}\",\"format\":\"{format}\",\"block\":{block}}}",
        folder.text()
    );
    let answer = peer.call("@SnapshotSave", &[Text(&request)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    answer.rows
}

/// Moves money in two ways until it is stopped.
fn transfer(server: &Server, first: i64, stop: &AtomicBool, moved: &AtomicU64) {
    let mut peer = Peer::login(server.client_address());
    let mut n = first;
    while !stop.load(Ordering::Relaxed) {
        n += 1;
        let (from, to) = (n % ACCOUNTS, n * 7 % ACCOUNTS);
        let answer = match n % 2 {
            0 => peer.call("TransferAnywhere", &[Int(from), Int(to), Int(1)]),
            _ => peer.call("TransferSql", &[Int(-1), Int(from), Int(1), Int(to)]),
        };
        assert_eq!(answer.status, 1, "{answer:?}");
        moved.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn snapshots_under_transfers_and_schema_changes_are_points_in_time() {
    let folder = Folder::new("under-load");
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(bank::SCHEMA);
    peer.run(bank::NATIVE_SCHEMA);
    for account in 0..ACCOUNTS {
        peer.run(&format!("INSERT INTO accounts VALUES ({account}, {BALANCE})"));
    }
    let (stop, moved, changed) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        let ends = SetAtTheEnd(&stop);
        for first in [0, 1_000, 2_001] {
            let (server, stop, moved) = (&server, &stop, &moved);
            scope.spawn(move || transfer(server, first, stop, moved));
        }
        scope.spawn(|| {
            let mut peer = Peer::login(server.client_address());
            for change in CHANGES.iter().cycle() {
                if stop.load(Ordering::Relaxed) {
                    break;
                }
                peer.run(change);
                changed.fetch_add(1, Ordering::Relaxed);
            }
        });
        for number in 0..6 {
            let (moved_before, changed_before) = (moved.load(Ordering::Relaxed), &changed);
            let changed_before = changed_before.load(Ordering::Relaxed);
            for format in ["native", "csv"] {
                let said = save(&mut peer, &folder, &format!("{format}{number}"), format, true);
                assert!(said.contains("SUCCESS") && !said.contains("FAILURE"), "{said}");
            }
            while moved.load(Ordering::Relaxed) < moved_before + 20
                || changed.load(Ordering::Relaxed) < changed_before + 3
            {
                thread::yield_now();
            }
        }
        drop(ends);
    });
    for number in 0..6 {
        let name = format!("csv{number}-ACCOUNTS-host_0.csv");
        let text = fs::read_to_string(folder.0.join(name)).expect("it is there");
        let balance = |line: &str| line.split(',').nth(1).and_then(|field| field.parse().ok());
        let balances: Vec<i64> = text.lines().filter_map(balance).collect();
        let sum: i64 = balances.iter().sum();
        assert_eq!((balances.len() as i64, sum), (ACCOUNTS, ACCOUNTS * BALANCE), "csv {number}");
    }
    for (number, sites) in [(0, 1), (1, 2), (2, 4), (5, 3)] {
        let other = start(sites, &[]);
        let mut peer = Peer::login(other.client_address());
        let nonce = format!("native{number}");
        let restored = peer.call("@SnapshotRestore", &[Text(folder.text()), Text(&nonce)]);
        assert!(!restored.rows.contains("FAILURE"), "{nonce}: {restored:?}");
        let sum = peer.run("SELECT COUNT(*), SUM(balance) FROM accounts");
        assert_eq!(sum, format!("{ACCOUNTS},{}", ACCOUNTS * BALANCE), "{nonce}, {sites} sites");
        assert_eq!(peer.call("TransferSql", &[Int(-1), Int(1), Int(1), Int(2)]).status, 1);
    }
}

#[test]
fn a_second_snapshot_at_the_same_time_is_refused() {
    let folder = Folder::new("two-at-once");
    let server = start(2, &["snapshot_share_percent=1"]);
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, b VARCHAR(5000))");
    let long = "x".repeat(4_000);
    for a in 0..500 {
        peer.run(&format!("INSERT INTO t VALUES ({a}, '{long}')"));
    }
    let mut refused = 0;
    for number in 0..5 {
        let first = save(&mut peer, &folder, &format!("first{number}"), "native", false);
        assert!(first.contains("SUCCESS"), "{first}");
        let second = save(&mut peer, &folder, &format!("second{number}"), "native", false);
        refused += u32::from(second.contains("SNAPSHOT IN PROGRESS"));
        let is_running = |peer: &mut Peer| {
            let summary = peer.call("@Statistics", &[Text("SNAPSHOTSUMMARY"), Int(0)]);
            summary.rows.contains("INPROGRESS")
        };
        while is_running(&mut peer) {
            thread::yield_now();
        }
    }
    assert!(refused > 0, "two snapshots were taken at the same time");
    let found = peer.call("@SnapshotScan", &[Text(folder.text())]).rows;
    assert!(found.contains("first4"), "{found}");
    assert_eq!(found.matches("second").count() > 0, refused < 5, "{found}");
}
