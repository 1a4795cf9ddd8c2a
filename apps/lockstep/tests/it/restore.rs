//! Directories that are brought to a point of their past, on the command line: what is there then,
//! what is set aside, and how that comes back.

use super::crash::client::rows as read;
use super::crash::workload::{SITES, Workload, ticks};
use super::crash::{load_while, new_directory};
use super::process::Host;
use super::text;
use lockstep_client::ParameterWriter;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Clocks and answers are this near to each other.
const MARGIN: Duration = Duration::from_millis(100);

struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn restore(folder: &Path, words: &[&str]) -> Output {
    let shown = folder.to_str().expect("a path of text");
    let mut all = vec!["restore", "--dir", shown];
    all.extend_from_slice(words);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
    command.args(all).output().expect("the binary runs")
}

fn restored(folder: &Path, words: &[&str]) -> Value {
    let output = restore(folder, &[words, &["--json"]].concat());
    assert!(output.status.success(), "{words:?}: {}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// It is refused with these words, and nothing is changed.
fn refused(folder: &Path, words: &[&str], said: &[&str]) {
    let before = contents(folder);
    told_no(folder, words, said);
    assert!(contents(folder) == before, "a file was changed");
}

/// It is refused with these words.
fn told_no(folder: &Path, words: &[&str], said: &[&str]) {
    let output = restore(folder, words);
    let told = text(&output.stderr);
    assert!(!output.status.success(), "{told}");
    said.iter().for_each(|word| assert!(told.contains(word), "'{word}' is not in: {told}"));
}

/// What files hold, wherever they are.
fn contents(folder: &Path) -> BTreeSet<Vec<u8>> {
    let (mut found, mut folders) = (BTreeSet::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if !path.ends_with("lock") {
                found.insert(std::fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

fn now_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_millis() as i64
}

fn time_text(ms: i64) -> String {
    lockstep_types::timestamp::format(ms * 1000)[..23].to_string()
}

/// The clock has moved on by the margin.
fn pause() {
    let begun = Instant::now();
    while begun.elapsed() < MARGIN {
        std::thread::yield_now();
    }
}

/// A moment under load: every client's calls that were answered before it, and sent at all; and
/// how many calls of tasks had been seen before it.
struct Moment {
    ms: i64,
    clients: Vec<(i64, i64)>,
    ticks: i64,
}

fn moment(workload: &Workload, host: &Host) -> Moment {
    let ticks = ticks(&mut host.connect());
    let answered: Vec<i64> = workload.all().map(|one| one.numbers().0).collect();
    pause();
    let ms = now_ms();
    pause();
    let sent = workload.all().map(|one| one.numbers().1);
    Moment { ms, clients: answered.into_iter().zip(sent).collect(), ticks }
}

/// The host has what it had then.
fn check(folder: &Path, workload: &Workload, clients: &[(i64, i64)], ticks: i64) {
    let numbers = workload.all().zip(clients);
    numbers.for_each(|(client, numbers)| client.go_back_to(*numbers));
    workload.see_ticks(ticks);
    workload.check(&mut Host::start(folder).connect());
}

#[test]
fn a_point_under_load_is_restored_whole_and_taken_back() {
    let folder = Folder(new_directory("restore-load"));
    let workload = Workload::new();
    let mut host = Host::start(&folder.0);
    workload.prepare(&mut host.connect());
    let mut moments = Vec::new();
    load_while(&workload, None, &mut host, |host| {
        moments.push(moment(&workload, host));
        if moments.len() == 3 {
            let mut parameters = ParameterWriter::default();
            parameters.text("{\"nonce\":\"between\",\"block\":true}");
            host.connect().call("@SnapshotSave", &parameters).expect("it is saved");
        }
        moments.len() < 6
    });
    let end: Vec<(i64, i64)> = workload.all().map(|one| one.numbers()).collect();
    let before = contents(&folder.0);
    for number in [5, 0, 3, 1] {
        let Moment { ms, clients, ticks } = &moments[number];
        let told = restored(&folder.0, &["--until", &time_text(*ms)]);
        let snapshot = (number > 2).then_some("between");
        assert_eq!(told["recovery"]["snapshot"]["nonce"].as_str(), snapshot, "{told}");
        assert!(told["recovery"]["replayed"].as_u64() > Some(0), "{told}");
        let last_ms = told["restore"]["last"]["time_ms"].as_i64().expect("a time");
        // What is left out first may be older: it ran after something that came too late.
        assert!(told["restore"]["next"]["time_ms"].is_i64(), "{told}");
        assert!(last_ms <= *ms, "{told}");
        assert!(contents(&folder.0).is_superset(&before), "something is gone");
        // It is served, again and again.
        (0..2).for_each(|_| check(&folder.0, &workload, clients, *ticks));
        let aside = told["restore"]["set_aside"].as_str().expect("a name");
        let taken = restored(&folder.0, &["--undo", aside]);
        assert!(taken["taken_back"]["files"].as_u64() > Some(0), "{taken}");
        assert!(contents(&folder.0).is_superset(&before), "something is gone");
    }
    check(&folder.0, &workload, &end, moments[5].ticks);
}

const ROWS: &str = "SELECT a FROM t ORDER BY a";

fn insert(host: &Host, rows: std::ops::Range<i64>) {
    let mut connection = host.connect();
    for a in rows {
        connection.sql(&format!("INSERT INTO t (a) VALUES ({a})")).expect("it is inserted");
    }
}

fn rows(folder: &Path) -> Vec<i64> {
    read(&mut Host::start(folder).connect(), ROWS).concat()
}

#[test]
fn a_restored_directory_goes_on_and_its_restore_can_be_undone() {
    let folder = Folder(new_directory("restore-goes-on"));
    let host = Host::start(&folder.0);
    let table = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;";
    host.connect().sql(table).expect("it is made");
    insert(&host, 0..20);
    pause();
    let ms = now_ms();
    pause();
    insert(&host, 20..40);
    let mut parameters = ParameterWriter::default();
    parameters.text("{\"nonce\":\"late\",\"block\":true}");
    host.connect().call("@SnapshotSave", &parameters).expect("it is saved");
    // While it runs the directory is its own, and it may write a last block to its log.
    let until = ["--until", &time_text(ms)];
    told_no(&folder.0, &until, &[&format!("process {} uses", host.child.id())]);
    drop(host);
    refused(&folder.0, &["--until", "yesterday"], &["not a time like", "2026-01-31 12:00:00.000"]);
    let future = time_text(now_ms() + 3_600_000);
    refused(&folder.0, &["--until", &future], &["is after 20", "the last", "`lockstep start`"]);
    let id = ["--until-transaction", "12345"];
    refused(&folder.0, &id, &["no transaction", "12345 of 2008", "The nearest"]);

    let output = restore(&folder.0, &until);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for word in ["the beginning, ", "log entries replayed", "1 later snapshot ", "--undo set-"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    let (_, aside) = said.rsplit_once("--undo ").expect("how to undo it");
    let aside = aside.split('`').next().expect("its end");
    assert!(folder.0.join(aside).join("log/00000001.log").exists(), "{said}");
    assert_eq!(rows(&folder.0), (0..20).collect::<Vec<_>>());
    insert(&Host::start(&folder.0), 100..110);
    let gone_on: Vec<i64> = (0..20).chain(100..110).collect();
    assert_eq!(rows(&folder.0), gone_on);

    let taken = restored(&folder.0, &["--undo", aside]);
    assert_eq!(rows(&folder.0), (0..40).collect::<Vec<_>>());
    refused(&folder.0, &["--undo", aside], &[aside, "no folder", "there are set-aside-"]);
    // And that is undone in turn.
    let other = taken["taken_back"]["set_aside"].as_str().expect("a name");
    restored(&folder.0, &["--undo", other]);
    assert_eq!(rows(&folder.0), gone_on);
    let snapshots = std::fs::read_dir(folder.0.join("snapshots")).expect("a folder");
    let names = snapshots.map(|entry| entry.expect("an entry").file_name());
    assert!(names.into_iter().all(|name| name.to_string_lossy().starts_with("RESTORED")));
}

#[test]
fn a_transaction_is_the_last_one_that_is_restored() {
    let folder = Folder(new_directory("restore-transaction"));
    let host = Host::start(&folder.0);
    host.connect().sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
    insert(&host, 0..10);
    pause();
    let ms = now_ms();
    pause();
    insert(&host, 10..20);
    drop(host);
    let told = restored(&folder.0, &["--until", &time_text(ms)]);
    let next = told["restore"]["next"]["transaction"].as_u64().expect("an id").to_string();
    let aside = told["restore"]["set_aside"].as_str().expect("a name");
    restored(&folder.0, &["--undo", aside]);
    let told = restored(&folder.0, &["--until-transaction", &next]);
    assert_eq!(told["restore"]["last"]["transaction"].to_string(), next);
    assert_eq!(rows(&folder.0), (0..=10).collect::<Vec<_>>());
    assert_eq!(SITES, 2, "each of them has the row");
}

#[test]
fn a_point_before_all_that_is_left_is_refused() {
    let folder = Folder(new_directory("restore-before"));
    let host = Host::start(&folder.0);
    host.connect().sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
    insert(&host, 0..10);
    pause();
    let before = now_ms();
    pause();
    drop(host);
    let host = Host::start(&folder.0);
    let mut parameters = ParameterWriter::default();
    parameters.text("{\"nonce\":\"kept\",\"block\":true}");
    host.connect().call("@SnapshotSave", &parameters).expect("it is saved");
    pause();
    let behind = now_ms();
    pause();
    insert(&host, 10..20);
    drop(host);
    // What the snapshot has was given up in the log.
    std::fs::remove_file(folder.0.join("log/00000001.log")).expect("it is there");
    let words =
        ["has nothing left of 20", "the oldest snapshot is kept of 20", "nothing was changed"];
    refused(&folder.0, &["--until", &time_text(before)], &words);
    let told = restored(&folder.0, &["--until", &time_text(behind)]);
    assert_eq!(told["recovery"]["snapshot"]["nonce"], "kept");
    assert_eq!(rows(&folder.0), (0..10).collect::<Vec<_>>());
}

#[test]
fn a_point_within_the_building_of_an_index_is_without_it() {
    let folder = Folder(new_directory("restore-build"));
    // Each step is a transaction, so that the building goes on for a while.
    let host = Host::spawn(&folder.0, &["index_build_rows=1".to_string()]).ready();
    let table = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a;
        ALTER TABLE t ADD COLUMN b BIGINT DEFAULT 7;";
    host.connect().sql(table).expect("it is made");
    insert(&host, 0..400);
    pause();
    let begun = now_ms();
    host.connect().sql("CREATE GLOBAL INDEX t_b ON t (b)").expect("it is built");
    let within = begun + (now_ms() - begun) / 2;
    drop(host);
    let told = restored(&folder.0, &["--until", &time_text(within)]);
    assert_eq!(told["restore"]["indexes_left_out"], serde_json::json!(["T_B"]), "{told}");
    let host = Host::start(&folder.0);
    assert_eq!(read(&mut host.connect(), "SELECT COUNT(*) FROM t"), [[400]]);
    insert(&host, 400..410);
    host.connect().sql("CREATE GLOBAL INDEX t_b ON t (b)").expect("it is built again");
    drop(host);
    let host = Host::start(&folder.0);
    assert_eq!(read(&mut host.connect(), "SELECT COUNT(*) FROM t WHERE b = 7"), [[410]]);
    drop(host);
    let aside = told["restore"]["set_aside"].as_str().expect("a name");
    restored(&folder.0, &["--undo", aside]);
    let host = Host::start(&folder.0);
    host.connect().sql("CREATE GLOBAL INDEX t_b ON t (b)").expect_err("it is there");
}

#[test]
fn rows_whose_time_was_over_later_are_back() {
    let folder = Folder(new_directory("restore-ttl"));
    let never = ["ttl_check_ms=0".to_string()];
    let host = Host::spawn(&folder.0, &never).ready();
    let table = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, seen TIMESTAMP NOT NULL)
            USING TTL 1 HOURS ON COLUMN seen MAX_FREQUENCY 50;
        PARTITION TABLE t ON COLUMN a; CREATE INDEX t_at ON t (seen);";
    host.connect().sql(table).expect("it is made");
    for a in 0..20 {
        let hours = if a < 15 { -2 } else { 0 };
        let row = format!("INSERT INTO t VALUES ({a}, DATEADD(HOUR, {hours}, NOW))");
        host.connect().sql(&row).expect("it is inserted");
    }
    pause();
    let ms = now_ms();
    drop(host);
    let go = |folder: &Path| {
        let host = Host::spawn(folder, &["ttl_check_ms=10".to_string()]).ready();
        let deadline = Instant::now() + Duration::from_secs(30);
        while read(&mut host.connect(), ROWS).concat() != (15..20).collect::<Vec<_>>() {
            assert!(Instant::now() < deadline, "old rows stay");
        }
    };
    go(&folder.0);
    restored(&folder.0, &["--until", &time_text(ms)]);
    let host = Host::spawn(&folder.0, &never).ready();
    assert_eq!(read(&mut host.connect(), ROWS).concat(), (0..20).collect::<Vec<_>>());
    drop(host);
    go(&folder.0);
}
