//! Snapshots of a running host: what is saved comes back, into as many partitions as there are.

use crate::support::{Peer, call_frame, parameters, start, start_with_loads};
use lockstep_node::{Server, SiteLoad};
use lockstep_types::Datum::{Int, Text};
use lockstep_types::SqlType;
use lockstep_types::parameter::ParameterWriter;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Tables of all shapes: kinds type, long texts, composite partitioning, views with sums of
/// floats and extremes, a global index, a replicated one.
const SCHEMA: &str = "
    CREATE TABLE kinds (
        id BIGINT NOT NULL PRIMARY KEY, a TINYINT, b SMALLINT, c INTEGER, d FLOAT, e DECIMAL,
        f TIMESTAMP, g VARCHAR(12), h VARCHAR(2000), i VARBINARY(9), j VARBINARY(3000)
    );
    PARTITION TABLE kinds ON COLUMN id;
    CREATE INDEX kinds_c ON kinds (c, g);
    CREATE GLOBAL UNIQUE INDEX kinds_g ON kinds (g) INCLUDE (c);
    CREATE TABLE pair (x INTEGER NOT NULL, y VARCHAR(40) NOT NULL, z FLOAT, PRIMARY KEY (x, y));
    PARTITION TABLE pair ON COLUMNS (x, y);
    CREATE TABLE everywhere (id INTEGER NOT NULL PRIMARY KEY, t VARCHAR(100));
    CREATE VIEW by_c (c, n, s, low, high) AS
        SELECT c, COUNT(*), SUM(d), MIN(e), MAX(h) FROM kinds GROUP BY c;
    CREATE VIEW total (n, s) AS SELECT COUNT(*), SUM(z) FROM pair;
    CREATE PROCEDURE change PARTITION ON TABLE kinds COLUMN id AS
        UPDATE kinds SET d = d + 1, h = 'changed' WHERE id = ?;
";

/// What a host holds, as text; the same for whatever number of partitions.
const DIGEST: [&str; 5] = [
    "SELECT * FROM kinds ORDER BY id",
    "SELECT * FROM pair ORDER BY x, y",
    "SELECT * FROM everywhere ORDER BY id",
    "SELECT * FROM by_c ORDER BY c",
    "SELECT n, s FROM total",
];

pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("lockstep-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Folder(path)
    }

    pub fn text(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }

    pub fn files(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).expect("the folder is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn fill(peer: &mut Peer) {
    peer.run(SCHEMA);
    for id in 0..120 {
        let long = "ä".repeat(id % 7 * 100);
        peer.run(&format!(
            "INSERT INTO kinds VALUES ({id}, {}, NULL, {}, {}.25, {id}.5, NOW, 'g{id}', '{long}', \
             NULL, x'{}')",
            id % 100,
            id % 5,
            id,
            "ab".repeat(id * 10)
        ));
        peer.run(&format!("INSERT INTO pair VALUES ({}, 'text {id}', 0.1)", id % 9));
        peer.run(&format!("INSERT INTO everywhere VALUES ({id}, 'text {id}')"));
    }
    peer.run("DELETE FROM kinds WHERE id BETWEEN 30 AND 50");
    peer.run("UPDATE kinds SET h = NULL WHERE id > 110");
}

pub fn digest(peer: &mut Peer) -> Vec<String> {
    DIGEST.iter().map(|query| peer.run(query)).collect()
}

fn save(peer: &mut Peer, folder: &Folder, nonce: &str) {
    let answer = peer.call("@SnapshotSave", &[Text(folder.text()), Text(nonce), Int(1)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.rows.lines().all(|line| line.contains(",SUCCESS,")), "{answer:?}");
}

fn restore(server: &Server, folder: &Folder, nonce: &str) -> Peer {
    let mut peer = Peer::login(server.client_address());
    let answer = peer.call("@SnapshotRestore", &[Text(folder.text()), Text(nonce)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(answer.rows.lines().all(|line| line.contains(",SUCCESS,")), "{answer:?}");
    peer
}

#[test]
fn what_is_saved_comes_back_into_any_number_of_partitions() {
    let folder = Folder::new("save-restore");
    let server = start(3, &[]);
    let mut peer = Peer::login(server.client_address());
    fill(&mut peer);
    let before = digest(&mut peer);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..2)
        .map(|_| {
            let (stop, address) = (Arc::clone(&stop), server.client_address());
            thread::spawn(move || {
                let mut peer = Peer::login(address);
                while !stop.load(Ordering::Relaxed) {
                    for id in 200..260 {
                        peer.run(&format!("INSERT INTO everywhere VALUES ({id}, 'new')"));
                        peer.run("DELETE FROM everywhere WHERE id >= 200");
                    }
                }
            })
        })
        .take(1)
        .collect();
    save(&mut peer, &folder, "first");
    stop.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().expect("it writes"));
    peer.run("DELETE FROM kinds");
    // Only one file has what every partition has.
    let names_replicated = |site: u32| {
        let path = folder.0.join(format!("first-host_0-site_{site}.rows"));
        let bytes = fs::read(path).expect("it is there");
        bytes.windows(10).any(|window| window == b"EVERYWHERE")
    };
    assert_eq!([0, 1, 2].map(names_replicated), [true, false, false]);
    for sites in [1, 2, 3, 5] {
        let other = start(sites, &[]);
        let mut restored = restore(&other, &folder, "first");
        restored.run("DELETE FROM everywhere WHERE id >= 200");
        assert_eq!(digest(&mut restored), before, "{sites} partitions");
        // Indexes, views and procedures work on.
        assert_eq!(restored.call("change", &[Int(7)]).rows, "1");
        let refused = restored.call("@AdHoc", &[Text("UPDATE kinds SET g = 'g1' WHERE id = 2")]);
        assert_ne!(refused.status, 1, "the global index is unique");
        let misplaced = restored.call("@ValidatePartitioning", &[]);
        assert_eq!(misplaced.status, 1);
    }
}

#[test]
fn chosen_tables_are_restored_beside_others() {
    let folder = Folder::new("chosen");
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    fill(&mut peer);
    save(&mut peer, &folder, "N");
    let before = digest(&mut peer);
    peer.run("DELETE FROM pair");
    let request =
        |more: &str| format!("{{\"path\": \"{}\", \"nonce\": \"N\", {more}}}", folder.text());
    let answer = peer.call("@SnapshotRestore", &[Text(&request("\"tables\": [\"pair\"]"))]);
    assert!(answer.rows.contains("PAIR") && !answer.rows.contains("KINDS"), "{answer:?}");
    assert_eq!(digest(&mut peer), before);
    // Rows that are there already: the first duplicate ends it.
    let answer = peer.call("@SnapshotRestore", &[Text(&request("\"tables\": [\"pair\"]"))]);
    assert!(answer.rows.contains("FAILURE") && answer.rows.contains("PAIR"), "{answer:?}");
    let answer = peer.call("@SnapshotRestore", &[Text(&request("\"tables\": [\"nothing\"]"))]);
    assert_eq!((answer.status, answer.text.contains("NOTHING")), (-2, true), "{answer:?}");
}

#[test]
fn csv_has_a_file_for_each_table() {
    let folder = Folder::new("csv");
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    fill(&mut peer);
    let request = format!(
        "{{\"uripath\": \"file://{}\", \"nonce\": \"T\", \"format\": \"csv\", \"block\": true, \
         \"skiptables\": [\"KINDS\"]}}",
        folder.text()
    );
    let answer = peer.call("@SnapshotSave", &[Text(&request)]);
    assert!(answer.rows.contains("SUCCESS"), "{answer:?}");
    let expected = ["T-EVERYWHERE-host_0.csv", "T-PAIR-host_0.csv", "T-host_0.manifest"];
    assert_eq!(folder.files(), expected);
    let text = fs::read_to_string(folder.0.join("T-PAIR-host_0.csv")).expect("it is there");
    assert_eq!(text.lines().count(), 120);
    assert!(text.lines().any(|line| line == "4,\"text 4\",0.1"), "{text}");
    let restored = peer.call("@SnapshotRestore", &[Text(folder.text()), Text("T")]);
    assert!(restored.text.contains("lockstep load csv"), "{restored:?}");
}

#[test]
fn snapshots_are_listed_and_deleted() {
    let folder = Folder::new("list");
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    fill(&mut peer);
    let answer = peer.call("@SnapshotSave", &[Text(folder.text()), Text("A"), Int(0)]);
    for table in ["KINDS", "EVERYWHERE", "PAIR", "BY_C", "TOTAL"] {
        assert!(answer.rows.contains(&format!(",{table},SUCCESS,")), "{answer:?}");
    }
    // The same name again, whether it is still written or not.
    let again = peer.call("@SnapshotSave", &[Text(folder.text()), Text("A"), Int(1)]);
    assert!(again.rows.contains("FAILURE"), "{again:?}");
    while peer.call("@Statistics", &[Text("SNAPSHOTSUMMARY"), Int(0)]).rows.contains("INPROGRESS") {
        thread::yield_now();
    }
    let status = peer.call("@Statistics", &[Text("SNAPSHOTSTATUS"), Int(0)]).rows;
    assert!(
        status.contains("A-host_0-site_1.rows") && status.contains("SUCCESS,MANUAL"),
        "{status}"
    );
    let scan = peer.call("@SnapshotScan", &[Text(folder.text())]).rows;
    assert!(scan.contains(",A,") && scan.contains("TRUE,SNAP_PATH"), "{scan}");
    save(&mut peer, &folder, "B");
    let paths = [Text(folder.text()), Text(folder.text())];
    let mut parameters = ParameterWriter::default();
    parameters.array(SqlType::Varchar, &paths);
    parameters.array(SqlType::Varchar, &[Text("A"), Text("none")]);
    let deleted = peer.call_with("@SnapshotDelete", &parameters);
    assert_eq!(deleted.rows.matches("TRUE,SUCCESS").count(), 3, "{deleted:?}");
    assert!(deleted.rows.contains("there is no snapshot none"), "{deleted:?}");
    assert!(folder.files().iter().all(|name| name.starts_with("B-")));
}

#[test]
fn what_cannot_be_done_is_told() {
    let folder = Folder::new("wrong");
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    fill(&mut peer);
    let mut failure = |parameters: &[lockstep_types::Datum<'_>], part: &str| {
        let answer = peer.call("@SnapshotSave", parameters);
        let all = format!("{} {}", answer.text, answer.rows);
        assert!(all.contains(part), "{all} lacks '{part}'");
    };
    failure(&[Text(folder.text()), Text("a-b"), Int(1)], "prohibited character");
    failure(&[Text("/proc/nowhere"), Text("N"), Int(1)], "/proc/nowhere");
    failure(&[], "in memory only");
    failure(&[Text("{\"nonce\": \"N\", \"tables\": [\"GONE\"], \"path\": \"/tmp\"}")], "GONE");
    // A snapshot that is cut or changed is not restored.
    save(&mut peer, &folder, "N");
    let path = folder.0.join("N-host_0-site_1.rows");
    let sound = fs::read(&path).expect("it is there");
    let place = sound.len() / 2;
    let mut flipped = sound.clone();
    flipped[place] ^= 4;
    for (bytes, part) in [(&flipped[..], "checksum"), (&sound[..place], "bytes")] {
        fs::write(&path, bytes).expect("it is ours");
        peer.run("DELETE FROM pair");
        let request =
            format!("{{\"path\": \"{}\", \"nonce\": \"N\", \"tables\": \"PAIR\"}}", folder.text());
        let answer = peer.call("@SnapshotRestore", &[Text(&request)]);
        assert!(answer.rows.contains("N-host_0-site_1.rows, byte "), "{answer:?}");
        assert!(answer.rows.contains(part), "{answer:?}");
    }
    assert!(Path::new(&path).exists());
}

/// Has a call for its site at any time, once it is asked to.
struct Ceaseless {
    goes: Arc<AtomicBool>,
    in_flight: bool,
}

impl SiteLoad for Ceaseless {
    fn wants_to_call(&mut self) -> bool {
        self.goes.load(Ordering::SeqCst) && !self.in_flight
    }

    fn next_call(&mut self, frame: &mut Vec<u8>) {
        self.in_flight = true;
        frame.extend_from_slice(&call_frame("look", 1, &parameters(&[Int(1)])));
    }

    fn answered(&mut self, _: &[u8]) {
        self.in_flight = false;
    }
}

#[test]
fn a_snapshot_under_load_takes_no_more_than_its_rate() {
    const ROWS: i64 = 900;
    let folder = Folder::new("snapshot-pace");
    let goes = Arc::new(AtomicBool::new(false));
    let load = Ceaseless { goes: Arc::clone(&goes), in_flight: false };
    // 1 MiB a second, and no next snapshot that it would have to hurry for.
    let options = ["snapshot_bytes_per_s=1048576", "snapshot_interval_s=0"];
    let server = start_with_loads(1, &options, None, vec![Box::new(load)]).expect("it starts");
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, text VARCHAR(2000));
        PARTITION TABLE t ON COLUMN id;
        CREATE PROCEDURE look PARTITION ON TABLE t COLUMN id AS SELECT id FROM t WHERE id = ?",
    );
    let text = "x".repeat(2_000);
    for id in 0..ROWS {
        assert_eq!(peer.call("T.insert", &[Int(id), Text(&text)]).status, 1);
    }
    goes.store(true, Ordering::SeqCst);
    let begun = Instant::now();
    save(&mut peer, &folder, "slow");
    let took = begun.elapsed();
    goes.store(false, Ordering::SeqCst);
    // All but what it may hand out at once, which is a quarter of a MiB and a step.
    let bytes = ROWS as u64 * 2_000 - 300 * 1024;
    let least = Duration::from_millis(bytes * 1_000 / 1_048_576);
    assert!(took >= least, "{took:?}, and at that rate it takes {least:?}");
}
