//! What an operator, or another process, can do to the files of a running host: nothing that was
//! answered is lost, and the host goes on answering and can be stopped.

use super::directory::Folder;
use super::namespace::Namespace;
use super::process::Host;
use super::{lockstep, text};
use lockstep_client::{Connection, ParameterWriter};
use lockstep_types::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const SCHEMA: &str = "\
CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY, b VARCHAR(2000));
PARTITION TABLE t ON COLUMN a;
";

fn fill(connection: &mut Connection, ids: std::ops::Range<i64>) {
    let text = "x".repeat(1_000);
    for a in ids {
        connection.sql(&format!("INSERT INTO t VALUES ({a}, '{text}')")).expect("inserted");
    }
}

fn count(connection: &mut Connection) -> i64 {
    let tables = connection.sql("SELECT COUNT(*) FROM t").expect("the query runs");
    match tables[0].rows[0][0] {
        Value::Int(count) => count,
        ref other => panic!("{other:?}"),
    }
}

/// Waits for something that must come to be.
fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < PATIENCE, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn admin(host: &Host, words: &[&str]) -> Output {
    let server = host.admin();
    lockstep(&[&["admin", "snapshot"], words, &["--server", &server]].concat(), "")
}

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// It failed, and said these words.
fn failed(output: &Output, words: &[&str]) {
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

/// The names of the automatic snapshots of a directory, oldest first.
fn automatic(folder: &Folder) -> Vec<String> {
    let names = std::fs::read_dir(folder.0.join("snapshots")).expect("a folder");
    let names =
        names.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    let mut found: Vec<String> = names
        .filter_map(|name| name.strip_suffix("-host_0.manifest").map(str::to_string))
        .filter(|nonce| nonce.starts_with("AUTOSNAP"))
        .collect();
    found.sort();
    found
}

fn path(folder: &Folder, name: &str) -> String {
    folder.0.join(name).to_str().expect("text").to_string()
}

/// Asks the process to stop, and waits until it has ended; whether it says that all is well.
fn terminate(host: &mut Host) -> (bool, String) {
    let id = host.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &id]).status().expect("it runs").success());
    let begun = Instant::now();
    while host.child.try_wait().expect("it is ours").is_none() {
        assert!(begun.elapsed() < PATIENCE, "the host does not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
    host.wait()
}

#[test]
fn the_snapshots_that_the_log_starts_from_cannot_be_deleted() {
    let folder = Folder::made("durable-needed");
    let options = ["log_segment_bytes=65536", "snapshot_interval_s=1", "snapshots_kept=2"];
    let mut host = Host::spawn(&folder.0, &options.map(String::from)).ready();
    let mut connection = host.connect();
    connection.sql(SCHEMA).expect("the schema is made");
    let mut rows = 0;
    // Until the log's beginning is gone and two snapshots are there.
    let pair = eventually("two snapshots", || {
        fill(&mut connection, rows..rows + 20);
        rows += 20;
        let found = automatic(&folder);
        (found.len() >= 2 && !folder.segment().exists()).then_some(found)
    });
    assert!(pair.len() <= 3, "{pair:?}");
    let own = path(&folder, "snapshots");
    let link = Folder::new("durable-needed-link");
    std::os::unix::fs::symlink(&own, &link.0).expect("a link");
    // By every name of the folder, each on its own and all at once.
    for place in [own.as_str(), link.shown()] {
        for nonce in automatic(&folder) {
            let _ = admin(&host, &["delete", place, &nonce]);
        }
        let newest = automatic(&folder).pop().expect("the newest one stays");
        let deleted = admin(&host, &["delete", place, &newest]);
        // Another one may be the newest by now.
        if !deleted.status.success() {
            failed(&deleted, &["FAILURE", "the command log starts from it"]);
        }
        assert!(!automatic(&folder).is_empty());
    }
    let taken = admin(&host, &["save", "AUTOSNAP9", "--path", &own]);
    failed(&taken, &["AUTOSNAP9", "cannot name a snapshot in the host's own folder"]);
    let before = count(&mut connection);
    host.kill();
    std::fs::remove_file(&link.0).expect("it is there");
    // Another host may not do it either.
    let other = Folder::made("durable-needed-other");
    let others = Host::start(&other.0);
    let newest = automatic(&folder).pop().expect("the newest one stays");
    let deleted = admin(&others, &["delete", &own, &newest]);
    failed(&deleted, &["belongs to the directory of another host"]);
    let host = Host::start(&folder.0);
    assert_eq!(count(&mut host.connect()), before);
    // Snapshots of users are theirs.
    done(&admin(&host, &["save", "monday"]));
    done(&admin(&host, &["delete", &own, "monday"]));
}

#[test]
fn only_complete_snapshots_are_deleted_and_only_what_their_manifests_name() {
    let folder = Folder::made("durable-shaped");
    let host = Host::start(&folder.0);
    let mut connection = host.connect();
    connection.sql(SCHEMA).expect("the schema is made");
    fill(&mut connection, 0..5);
    let other = Folder::new("durable-shaped-other");
    for nonce in ["monday", "tuesday"] {
        done(&admin(&host, &["save", nonce, "--path", other.shown()]));
    }
    let shaped = [
        "monday-notes-host_0.csv",
        "monday-host_0-site_9.rows",
        "friday-host_0.manifest",
        "sunday-T-host_0.csv",
    ];
    for name in shaped {
        std::fs::write(other.0.join(name), "years of work").expect("it can be written");
    }
    done(&admin(&host, &["delete", other.shown(), "monday"]));
    std::fs::remove_file(other.0.join("tuesday-host_0-site_1.rows")).expect("it is there");
    failed(&admin(&host, &["delete", other.shown(), "tuesday"]), &["not complete", "site_1.rows"]);
    failed(&admin(&host, &["delete", other.shown(), "friday"]), &["FAILURE", "no manifest of"]);
    failed(&admin(&host, &["delete", other.shown(), "sunday"]), &["FAILURE", "has no manifest"]);
    failed(&admin(&host, &["delete", other.shown(), "nobody"]), &["there is no snapshot nobody"]);
    let left = other.files();
    let names = left.keys().map(|path| path.file_name().expect("a name").to_str().expect("text"));
    let mut expected = shaped.to_vec();
    expected.extend(["tuesday-host_0-site_0.rows", "tuesday-host_0.manifest"]);
    expected.sort_unstable();
    assert_eq!(names.collect::<Vec<_>>(), expected);
}

#[test]
fn a_lost_lock_file_lets_no_second_host_in() {
    let folder = Folder::made("durable-lock");
    let options = ["resource_check_ms=50".to_string()];
    let mut host = Host::start_heard(&folder.0, &options);
    let mut connection = host.connect();
    connection.sql(SCHEMA).expect("the schema is made");
    let lock = folder.0.join("lock");
    for replaced in [false, true] {
        std::fs::remove_file(&lock).expect("it is there");
        if replaced {
            std::fs::write(&lock, "1\n").expect("it can be written");
        }
        let second = ["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dir"];
        let second = lockstep(&[&second[..], &[folder.shown()]].concat(), "");
        failed(&second, &["uses the directory"]);
        // It is made again, and is the host's own.
        let own = format!("{}\n", host.child.id());
        eventually("a new lock file", || {
            std::fs::read_to_string(&lock).ok().filter(|process| *process == own)
        });
    }
    // A directory whose log is the same one by a link.
    let other = Folder::made("durable-lock-other");
    std::fs::remove_dir(other.0.join("log")).expect("it is empty");
    std::os::unix::fs::symlink(folder.0.join("log"), other.0.join("log")).expect("a link");
    other.start_is_refused(&[], &["uses the directory"]);
    // What is written to a log that is not there any more would be lost.
    fill(&mut connection, 0..5);
    std::fs::rename(folder.0.join("log"), folder.0.join("away")).expect("it is there");
    let (well, said) = host.wait();
    assert!(!well && said.contains("is not the folder any more"), "{said}");
    std::fs::rename(folder.0.join("away"), folder.0.join("log")).expect("it is there");
    let host = Host::start(&folder.0);
    assert_eq!(count(&mut host.connect()), 5);
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("it runs");
    assert!(copied.success());
}

/// Two hosts that ran on one directory at the same time, as far as its files show it.
#[test]
fn a_log_of_two_runs_that_overlapped_is_refused() {
    let folder = Folder::made("durable-overlap");
    let mut first = Host::start(&folder.0);
    let mut connection = first.connect();
    connection.sql("CREATE TABLE before (a BIGINT)").expect("it is made");
    let other = Folder::new("durable-overlap-other");
    // Once the end of the log is sealed, which nothing follows that is answered.
    eventually("a sound copy", || {
        let _ = std::fs::remove_dir_all(&other.0);
        copy(&folder.0, &other.0);
        lockstep(&["log", "inspect", other.shown()], "").status.success().then_some(())
    });
    let mut second = Host::start(&other.0);
    second.connect().sql("CREATE TABLE of_second (a BIGINT)").expect("it is made");
    second.kill();
    connection.sql("CREATE TABLE of_first (a BIGINT)").expect("it is made");
    first.kill();
    let next = "log/00000002.log";
    copy(&other.0.join(next), &folder.0.join(next));
    let file = folder.segment();
    let file = file.to_str().expect("text");
    let words = [file, next, "two processes wrote to the directory", "Remedy: ", "truncate -s"];
    folder.start_is_refused(&[], &words);
    failed(&lockstep(&["log", "inspect", folder.shown()], ""), &["two processes", file]);
    // One of the runs, as the message says.
    std::fs::remove_file(folder.0.join(next)).expect("it is there");
    let host = Host::start(&folder.0);
    host.connect().sql("SELECT * FROM before; SELECT * FROM of_first").expect("both are there");
}

/// A system call of the procedure that lists a folder's snapshots.
fn scan_files(host: &Host, folder: &str) -> String {
    let mut parameters = ParameterWriter::default();
    parameters.text(folder);
    let mut connection = host.connect();
    let response = connection.call("@SnapshotScan", &parameters).expect("it is answered");
    format!("{:?}", response.tables().expect("tables")[2].rows)
}

fn make_fifo(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().expect("it runs").success());
}

#[test]
fn what_is_no_regular_file_keeps_nobody_waiting() {
    let folder = Folder::made("durable-fifo");
    let mut host = Host::start(&folder.0);
    let mut connection = host.connect();
    connection.sql(SCHEMA).expect("the schema is made");
    fill(&mut connection, 0..5);
    let other = Folder::new("durable-fifo-other");
    done(&admin(&host, &["save", "monday", "--path", other.shown()]));
    make_fifo(&other.0.join("fifo-host_0.manifest"));
    make_fifo(&other.0.join("tuesday-host_0-site_0.rows"));
    std::fs::create_dir(other.0.join("folder-host_0.manifest")).expect("it can be made");
    let socket = other.0.join("socket-host_0.manifest");
    let _socket = std::os::unix::net::UnixListener::bind(socket).expect("a socket");
    std::os::unix::fs::symlink("/dev/zero", other.0.join("device-host_0.manifest"))
        .expect("a link");
    let found = scan_files(&host, other.shown());
    for words in ["it is a FIFO", "it is a folder", "it is a socket", "it is a device", "monday"] {
        assert!(found.contains(words), "'{words}' is not in: {found}");
    }
    for (nonce, what) in [("fifo", "a FIFO"), ("folder", "a folder"), ("socket", "a socket")] {
        failed(&admin(&host, &["delete", other.shown(), nonce]), &[what]);
        failed(&admin(&host, &["restore", other.shown(), nonce]), &[what]);
        failed(&admin(&host, &["save", nonce, "--path", other.shown()]), &["is there already"]);
    }
    let inspected = lockstep(&["snapshot", "inspect", other.shown()], "");
    failed(&inspected, &["it is a FIFO"]);
    done(&admin(&host, &["delete", other.shown(), "monday"]));
    assert_eq!(count(&mut connection), 5);
    // In the host's own folder, where recovery looks.
    make_fifo(&folder.0.join("snapshots/fifo-host_0.manifest"));
    assert!(terminate(&mut host).0);
    let mut host = Host::start(&folder.0);
    assert_eq!(count(&mut host.connect()), 5);
    assert!(terminate(&mut host).0);
    for file in ["cluster", "lock"] {
        let aside = folder.0.join("aside");
        std::fs::rename(folder.0.join(file), &aside).expect("it is there");
        make_fifo(&folder.0.join(file));
        let started = lockstep(&["start", "--dir", folder.shown()], "");
        failed(&started, &["it is a FIFO, not a regular file"]);
        std::fs::rename(&aside, folder.0.join(file)).expect("it is there");
    }
}

/// A file system whose server never answers.
const DEAD: &str = "ip link set lo up && exec 3<>/dev/fuse && mount -i -t fuse -o \
                    fd=3,rootmode=40000,user_id=0,group_id=0 dead /mnt";

#[test]
fn a_file_system_that_does_not_answer_stops_what_asks_for_it_and_nothing_else() {
    let Some(namespace) = Namespace::or_skip(DEAD) else { return };
    let folder = Folder::made("durable-dead");
    let start = |options: &[&str]| {
        let mut command = namespace.command(env!("CARGO_BIN_EXE_lockstep-under-test"));
        command.args(["--log", "error", "start", "--client", "127.0.0.1:21212", "--admin"]);
        command.args(["127.0.0.1:21211", "--dir", folder.shown()]);
        for option in options {
            command.args(["--option", option]);
        }
        Host::run(command.stderr(Stdio::piped())).ready()
    };
    let run = |words: &[&str]| {
        let mut command = namespace.command(env!("CARGO_BIN_EXE_lockstep"));
        command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let mut host = start(&["max_file_calls=4", "stop_timeout_ms=200"]);
    let calls: [&[&str]; 4] = [
        &["admin", "snapshot", "scan", "/mnt"],
        &["admin", "snapshot", "delete", "/mnt", "monday"],
        &["admin", "snapshot", "restore", "/mnt", "monday"],
        &["admin", "snapshot", "save", "monday", "--path", "/mnt/there"],
    ];
    let mut waiting: Vec<_> =
        calls.iter().map(|words| run(words).spawn().expect("it runs")).collect();
    // Once all four wait, a fifth is refused; everything else goes on.
    eventually("four calls that wait", || {
        let mut child = run(&["admin", "snapshot", "scan", "/mnt"]).spawn().expect("it runs");
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(2) {
            if child.try_wait().expect("it is ours").is_some() {
                let said = child.wait_with_output().expect("it ended");
                failed(&said, &["limit 4, option max_file_calls"]);
                return Some(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        waiting.push(child);
        None
    });
    for table in ["t", "u", "v"] {
        let sql = &format!(
            "CREATE TABLE {table} (a BIGINT); INSERT INTO {table} VALUES (1); SELECT COUNT(*) FROM \
             {table}; EXEC @Ping; EXEC @Statistics MEMORY 0"
        );
        let said = run(&["sql", "-e", sql]).output().expect("it runs");
        assert!(text(&said.stdout).contains("RSS"), "{}", text(&said.stderr));
    }
    assert!(terminate(&mut host).0);
    for mut child in waiting {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A start that hangs is ended by the signal, as one that is at work.
#[test]
fn a_start_that_does_not_come_to_its_end_can_be_stopped() {
    let Some(namespace) = Namespace::or_skip(DEAD) else { return };
    let folder = Folder::used("durable-hung-start");
    std::os::unix::fs::symlink("/mnt/x", folder.0.join("snapshots/x-host_0.manifest"))
        .expect("a link");
    let mut command = namespace.command(env!("CARGO_BIN_EXE_lockstep-under-test"));
    command.args(["start", "--client", "127.0.0.1:21212", "--admin", "127.0.0.1:21211", "--dir"]);
    let mut host = Host::run(command.arg(folder.shown()).stderr(Stdio::piped()));
    let id = host.child.id();
    // It has its ports, and so takes signals by itself.
    eventually("ports", || {
        let listening = namespace.shell("cat /proc/net/tcp");
        listening.contains(":52DC").then_some(())
    });
    eventually("its own handler", || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
        let caught = u64::from_str_radix(caught.trim(), 16).expect("a number");
        (caught & 1 << 14 != 0).then_some(())
    });
    let (well, said) = terminate(&mut host);
    assert!(!well && said.contains("stopped before the host was ready"), "{said}");
}

/// The file with the rows of a partition.
fn rows_file(folder: &Folder, nonce: &str, partition: u32) -> PathBuf {
    folder.0.join(format!("{nonce}-host_0-site_{partition}.rows"))
}

#[test]
fn a_restore_looks_at_everything_before_the_first_row() {
    let folder = Folder::made("durable-restore");
    let host = Host::start(&folder.0);
    let mut connection = host.connect();
    connection.sql(SCHEMA).expect("the schema is made");
    fill(&mut connection, 0..3_000);
    let other = Folder::new("durable-restore-other");
    done(&admin(&host, &["save", "monday", "--path", other.shown()]));
    let file = rows_file(&other, "monday", 1);
    let sound = std::fs::read(&file).expect("it is there");
    let mut flipped = sound.clone();
    // In the last chunk of the last file.
    let at = flipped.len() - 100;
    flipped[at] ^= 1;
    let foreign = std::fs::read(rows_file(&other, "monday", 0)).expect("it is there");
    let target = Folder::made("durable-restore-target");
    let target_host = Host::start(&target.0);
    let mut connection = target_host.connect();
    let restore = || admin(&target_host, &["restore", other.shown(), "monday"]);
    for damaged in [&flipped, &sound[..sound.len() - 10].to_vec(), &foreign, &Vec::new()] {
        std::fs::write(&file, damaged).expect("it can be written");
        failed(&restore(), &["FAILURE", "site_1.rows"]);
        // Not even the schema is made.
        assert!(connection.sql("SELECT COUNT(*) FROM t").is_err());
    }
    std::fs::remove_file(&file).expect("it is there");
    failed(&restore(), &["FAILURE", "site_1.rows"]);
    std::fs::write(&file, &sound).expect("it can be written");
    // Tables that do not take the rows.
    for (table, words) in [
        ("a BIGINT NOT NULL PRIMARY KEY", "1 columns, 2 in the snapshot"),
        ("a TINYINT NOT NULL PRIMARY KEY, b VARCHAR(2000)", "is out of its range"),
        ("a BIGINT NOT NULL PRIMARY KEY, b VARCHAR(900)", "a value of length 1000 in column B"),
    ] {
        let made = format!("CREATE TABLE t ({table})");
        connection.sql(&made).expect("it is made");
        connection.sql("PARTITION TABLE t ON COLUMN a").expect("it is partitioned");
        failed(&restore(), &["FAILURE", words]);
        assert_eq!(count(&mut connection), 0);
        connection.sql("DROP TABLE t").expect("it is dropped");
    }
    done(&restore());
    assert_eq!(count(&mut connection), 3_000);
}

#[test]
fn folders_that_are_missing_are_made() {
    let folder = Folder::used("durable-folders");
    std::fs::remove_dir(folder.0.join("snapshots")).expect("it is empty");
    let host = Host::start(&folder.0);
    host.connect().sql("SELECT * FROM t").expect("it is there");
    done(&admin(&host, &["save", "monday"]));
    // While the host runs as well.
    std::fs::remove_dir_all(folder.0.join("snapshots")).expect("it is there");
    done(&admin(&host, &["save", "tuesday"]));
    drop(host);
    // A log that was there is not made again.
    std::fs::rename(folder.0.join("log"), folder.0.join("away")).expect("it is there");
    folder.start_is_refused(&[], &["the command log has no file", "log-begun"]);
    assert!(!folder.0.join("log").exists());
    let fresh = Folder::made("durable-folders-fresh");
    std::fs::remove_dir(fresh.0.join("snapshots")).expect("it is empty");
    std::fs::remove_dir(fresh.0.join("log")).expect("it is empty");
    drop(Host::start(&fresh.0));
}

#[test]
fn the_size_of_a_snapshot_is_the_same_wherever_it_is_told() {
    let folder = Folder::made("durable-size");
    let mut command = Host::command(&folder.0, &[]);
    // The last one counts.
    command.args(["--log", "info"]).stderr(Stdio::piped());
    let mut host = Host::run(&mut command).ready();
    let mut connection = host.connect();
    connection.sql(SCHEMA).expect("the schema is made");
    fill(&mut connection, 0..5);
    let own = path(&folder, "snapshots");
    done(&admin(&host, &["save", "monday", "--path", &own]));
    let on_disk: u64 = folder
        .files()
        .iter()
        .filter(|(path, _)| path.starts_with(&own))
        .map(|(_, bytes)| bytes.len() as u64)
        .sum();
    let inspected = done(&lockstep(&["snapshot", "inspect", "--json", folder.shown()], ""));
    let inspected: serde_json::Value = serde_json::from_str(&inspected).expect("JSON");
    assert_eq!(inspected[0]["bytes"], on_disk);
    let mut sum = |procedure: &str, words: &[&str], table: usize, column: &str| -> i64 {
        let mut parameters = ParameterWriter::default();
        for word in words {
            parameters.text(word);
        }
        let response = connection.call(procedure, &parameters).expect("it is answered");
        let tables = response.tables().expect("tables");
        let table = &tables[table];
        let place = table.names.iter().position(|name| name == column).expect("the column");
        let sizes = table.rows.iter().map(|row| match row[place] {
            Value::Int(size) => size,
            ref other => panic!("{other:?}"),
        });
        sizes.sum()
    };
    assert_eq!(sum("@SnapshotScan", &[&own], 0, "SIZE"), on_disk as i64);
    assert_eq!(sum("@SnapshotScan", &[&own], 2, "SIZE"), on_disk as i64);
    assert_eq!(sum("@Statistics", &["SNAPSHOTSTATUS"], 0, "SIZE"), on_disk as i64);
    let (_, said) = terminate(&mut host);
    let logged = said.lines().find(|line| line.contains("snapshot saved")).expect("a line");
    assert!(logged.contains(&format!("bytes={on_disk} ")), "{logged}");
}
