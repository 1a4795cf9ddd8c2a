//! Snapshots on the command line: saved, listed, inspected, restored into another host, deleted,
//! and where the next start begins.

use super::directory::Folder;
use super::process::Host;
use super::{lockstep, text};
use lockstep_client::Connection;
use std::path::PathBuf;
use std::process::Output;

const SCHEMA: &str = "\
CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, b VARCHAR(100));
PARTITION TABLE t ON COLUMN a;
CREATE TABLE everywhere (a BIGINT NOT NULL PRIMARY KEY);
CREATE VIEW counted (b, n) AS SELECT b, COUNT(*) FROM t GROUP BY b;
";
/// What tells whether each row is there, and once.
const DIGEST: &str = "SELECT COUNT(*), SUM(a), MIN(b), MAX(b) FROM t;
    SELECT COUNT(*), SUM(a) FROM everywhere; SELECT COUNT(*), SUM(n) FROM counted";

fn digest(connection: &mut Connection) -> String {
    let tables = connection.sql(DIGEST).expect("the queries run");
    tables.iter().map(|table| format!("{:?}", table.rows)).collect()
}

fn fill(connection: &mut Connection, ids: std::ops::Range<i64>) {
    for a in ids {
        connection.sql(&format!("INSERT INTO t VALUES ({a}, 'b{}')", a % 7)).expect("inserted");
    }
}

fn admin(host: &Host, words: &[&str]) -> Output {
    let server = host.admin();
    let all = [&["admin", "snapshot"], words, &["--server", &server]].concat();
    lockstep(&all, "")
}

/// What it prints, when it succeeds.
fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// The line of a snapshot in a table.
fn line<'a>(printed: &'a str, nonce: &str) -> Option<&'a str> {
    printed.lines().find(|line| line.contains(nonce))
}

/// A host with a directory and rows.
fn filled(name: &str) -> (Folder, Host) {
    let folder = Folder::made(name);
    let host = Host::start(&folder.0);
    let mut connection = host.connect();
    connection.sql(SCHEMA).expect("the schema is made");
    for a in 0..5 {
        connection.sql(&format!("INSERT INTO everywhere VALUES ({a})")).expect("inserted");
    }
    fill(&mut connection, 0..50);
    (folder, host)
}

fn rows_file(folder: &Folder, nonce: &str) -> PathBuf {
    let files = folder.files();
    let of = |path: &&PathBuf| {
        let name = path.file_name().expect("a name").to_string_lossy();
        name.starts_with(nonce) && name.ends_with("_1.rows")
    };
    let found = files.keys().find(of);
    found.unwrap_or_else(|| panic!("no rows of partition 1: {:?}", files.keys())).clone()
}

#[test]
fn snapshots_are_saved_listed_restored_elsewhere_and_deleted() {
    let (folder, host) = filled("snapshots-admin");
    let other = Folder::new("snapshots-other");
    std::fs::create_dir_all(&other.0).expect("it can be made");
    let before = digest(&mut host.connect());
    done(&admin(&host, &["save", "monday", "--path", other.shown()]));
    done(&admin(&host, &["save", "texts", "--csv", "--tables", "T", "--path", other.shown()]));
    let status = done(&admin(&host, &["status"]));
    for (nonce, kind) in [("monday", "NATIVE"), ("texts", "CSV")] {
        let line = line(&status, nonce).unwrap_or_else(|| panic!("{nonce} is not in: {status}"));
        assert!(line.contains("SUCCESS"), "{kind}: {status}");
        let scanned = done(&admin(&host, &["scan", other.shown()]));
        assert!(scanned.contains(nonce), "{scanned}");
    }
    assert!(!admin(&host, &["save", "monday", "--path", other.shown()]).status.success());

    // Another number of sites, which has the tables and no rows.
    let three = Folder::new("snapshots-three");
    done(&lockstep(&["init", "--sites", "3", "--dir", three.shown()], ""));
    let target = Host::start(&three.0);
    target.connect().sql(SCHEMA).expect("the schema is made");
    done(&admin(&target, &["restore", other.shown(), "monday"]));
    assert_eq!(digest(&mut target.connect()), before);
    let missing = admin(&target, &["restore", other.shown(), "sunday"]);
    assert!(!missing.status.success());
    let said = text(&missing.stdout) + &text(&missing.stderr);
    assert!(said.contains("sunday"), "{said}");

    done(&admin(&host, &["delete", other.shown(), "monday"]));
    let scanned = done(&admin(&host, &["scan", other.shown()]));
    assert!(line(&scanned, "monday").is_none() && scanned.contains("texts"), "{scanned}");
    assert!(other.files().keys().all(|path| !path.to_string_lossy().contains("monday")));
    drop(folder);
}

#[test]
fn a_snapshot_is_inspected_and_the_next_start_begins_with_it() {
    let (folder, mut host) = filled("snapshots-inspect");
    done(&admin(&host, &["save", "early"]));
    fill(&mut host.connect(), 50..60);
    done(&admin(&host, &["save", "monday"]));
    fill(&mut host.connect(), 60..63);
    let before = digest(&mut host.connect());
    let said = done(&lockstep(&["snapshot", "inspect", folder.shown()], ""));
    let (_, monday) = said.split_once("monday: ").expect("it is told");
    for words in ["2 partitions", "T: 60 rows", "EVERYWHERE: 5 rows", "sound", "COUNTED: 14 rows"] {
        assert!(monday.contains(words), "'{words}' is not in: {said}");
    }
    host.kill();
    let mut host = Host::start(&folder.0);
    assert!(host.said.contains("snapshot monday with "), "{}", host.said);
    assert!(host.said.contains(" 3 log entries replayed"), "{}", host.said);
    assert_eq!(digest(&mut host.connect()), before);
    host.kill();

    // Damage is found, with its file and place, and the snapshot before it is used.
    let damaged = rows_file(&folder, "monday");
    let mut bytes = std::fs::read(&damaged).expect("a file");
    let at = bytes.len() / 2;
    bytes[at] ^= 1;
    std::fs::write(&damaged, bytes).expect("it can be written");
    let path = damaged.to_str().expect("a path of text");
    let inspected = lockstep(&["snapshot", "inspect", folder.shown()], "");
    assert!(!inspected.status.success());
    let said = text(&inspected.stdout);
    assert!(said.contains("damaged: ") && said.contains(path), "{said}");
    let inspected = lockstep(&["snapshot", "inspect", "--json", folder.shown()], "");
    assert!(!inspected.status.success());
    let told: serde_json::Value = serde_json::from_slice(&inspected.stdout).expect("JSON");
    for report in told.as_array().expect("a list") {
        let is_early = report["nonce"] == "early";
        assert_eq!(report["sound"], is_early, "{report}");
        let problem = report["problems"][0].as_str().unwrap_or_default();
        assert!(is_early || (problem.contains(path) && problem.contains("byte ")), "{report}");
        assert_eq!(report["manifest"]["tables"].as_array().map(Vec::len), Some(3), "{report}");
    }
    let host = Host::start(&folder.0);
    assert!(host.said.contains("snapshot early with "), "{}", host.said);
    assert_eq!(digest(&mut host.connect()), before);
}
