//! Operating the real process: pausing it, stopping it in order with and without a snapshot, the
//! limits of memory and disk.

use super::cluster::Cluster;
use super::crash::java;
use super::crash::power::Power;
use super::directory::Folder;
use super::process::Host;
use super::{lockstep, text};
use lockstep_base::random::SeededRandom;
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::{Datum, SqlType};
use std::collections::BTreeMap;
use std::process::Command;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const SCHEMA: &str = "\
CREATE TABLE t (a BIGINT NOT NULL, b VARCHAR(200000 BYTES), PRIMARY KEY (a));
PARTITION TABLE t ON COLUMN a;
CREATE PROCEDURE Clear PARTITION ON TABLE t COLUMN a AS DELETE FROM t WHERE a = ?;
CREATE PROCEDURE ClearAll AS DELETE FROM t;
CREATE PROCEDURE Change PARTITION ON TABLE t COLUMN a PARAMETER 1 AS
  UPDATE t SET b = ? WHERE a = ?;
CREATE PROCEDURE Count AS SELECT COUNT(*) FROM t;
";

fn row(a: i64, b: &str) -> ParameterWriter {
    let mut parameters = ParameterWriter::default();
    parameters.bigint(a).scalar(SqlType::Varchar, Datum::Text(b));
    parameters
}

fn number(a: i64) -> ParameterWriter {
    let mut parameters = ParameterWriter::default();
    parameters.bigint(a);
    parameters
}

/// Status and text of a call.
fn call(connection: &mut Connection, name: &str, parameters: &ParameterWriter) -> (i8, String) {
    let response = connection.call(name, parameters).expect("it is answered");
    let view = response.view();
    (view.status, view.status_text.unwrap_or_default().to_string())
}

fn run(connection: &mut Connection, sql: &str) -> (i8, String) {
    let mut parameters = ParameterWriter::default();
    parameters.text(sql);
    call(connection, "@AdHoc", &parameters)
}

fn admin(host: &Host) -> Connection {
    Connection::connect(&host.admin(), &ConnectOptions::default()).expect("the admin port")
}

fn count(connection: &mut Connection) -> String {
    let tables = connection.sql("SELECT COUNT(*) FROM t").expect("the query runs");
    format!("{:?}", tables[0].rows[0][0])
}

fn state(connection: &mut Connection) -> String {
    let mut parameters = ParameterWriter::default();
    parameters.text("OVERVIEW");
    let response = connection.call("@SystemInformation", &parameters).expect("it is answered");
    let tables = response.tables().expect("tables");
    let rows: Vec<String> = tables[0].rows.iter().map(|row| format!("{row:?}")).collect();
    let row = rows.iter().find(|row| row.contains("CLUSTERSTATE")).expect("the state");
    row.clone()
}

#[test]
fn a_paused_host_reads_for_clients_and_writes_for_administrators() {
    let folder = Folder::made("paused");
    let host = Host::start(&folder.0);
    let mut client = host.connect();
    client.sql(SCHEMA).expect("the schema is made");
    let paused = lockstep(&["admin", "pause", "--server", &host.admin()], "");
    assert!(paused.status.success(), "{}", text(&paused.stderr));
    for (name, parameters) in [("T.insert", row(1, "x")), ("Clear", number(1))] {
        let (status, said) = call(&mut client, name, &parameters);
        assert_eq!(status, -5, "{name}: {said}");
        assert!(said.contains("paused"), "{name}: {said}");
    }
    assert_eq!(run(&mut client, "INSERT INTO t VALUES (2, 'x')").0, -5);
    assert_eq!(run(&mut client, "DROP PROCEDURE Count").0, -5);
    assert_eq!(run(&mut client, "SELECT * FROM t").0, 1);
    assert!(state(&mut client).contains("PAUSED"));
    assert_eq!(call(&mut admin(&host), "T.insert", &row(3, "x")).0, 1);
    let resumed = lockstep(&["admin", "resume", "--server", &host.admin()], "");
    assert!(resumed.status.success(), "{}", text(&resumed.stderr));
    assert!(state(&mut client).contains("RUNNING"));
    assert_eq!(call(&mut client, "T.insert", &row(4, "x")).0, 1);
    let at_client_port = lockstep(&["admin", "pause", "--server", host.address()], "");
    assert!(!at_client_port.status.success());
    assert!(text(&at_client_port.stderr).contains("@Pause is not available to this client"));
}

#[test]
fn a_stop_with_a_snapshot_leaves_nothing_to_run_again() {
    for (mode, replays) in [(&["shutdown", "--save"][..], false), (&["shutdown"][..], true)] {
        let folder = Folder::made("saved");
        let mut host = Host::start(&folder.0);
        let mut client = host.connect();
        client.sql(SCHEMA).expect("the schema is made");
        for a in 0..100 {
            assert_eq!(call(&mut client, "T.insert", &row(a, "x")).0, 1);
        }
        let place = ["admin", "--log", "error"];
        let server = ["--server", &host.admin()].map(str::to_string);
        let words: Vec<&str> =
            place.iter().chain(mode).copied().chain(server.iter().map(|s| &**s)).collect();
        let stopped = lockstep(&words, "");
        assert!(stopped.status.success(), "{}", text(&stopped.stderr));
        assert!(host.wait().0, "exit code 0");
        let host = Host::start(&folder.0);
        assert_eq!(count(&mut host.connect()), "Int(100)");
        assert_eq!(host.said.contains("0 log entries replayed"), !replays, "{}", host.said);
        assert_eq!(host.said.contains("snapshot AUTOSNAP"), !replays, "{}", host.said);
    }
}

#[test]
fn a_stop_that_is_prepared_takes_no_work_and_can_be_called_off() {
    let folder = Folder::made("prepared");
    let host = Host::start(&folder.0);
    let (mut client, mut admin) = (host.connect(), admin(&host));
    client.sql(SCHEMA).expect("the schema is made");
    let nothing = ParameterWriter::default();
    assert_eq!(call(&mut client, "@PrepareShutdown", &nothing).0, -3, "the admin port only");
    let number_of_stop = {
        let response = admin.call("@PrepareShutdown", &nothing).expect("it is answered");
        match response.tables().expect("a table")[0].rows[0][0] {
            lockstep_types::Value::Int(number) => number,
            ref other => panic!("{other:?}"),
        }
    };
    for connection in [&mut client, &mut admin] {
        for (name, parameters) in [("T.insert", row(1, "x")), ("Count", nothing.clone())] {
            let refused = call(connection, name, &parameters);
            assert_eq!(refused.0, -5, "{name}: {}", refused.1);
            assert!(refused.1.starts_with("Server is shutting down. "), "{name}: {}", refused.1);
            assert!(refused.1.contains("@CancelShutdown"), "{name}: {}", refused.1);
        }
        assert_eq!(run(connection, "SELECT * FROM t").0, -5);
        assert!(state(connection).contains("PAUSED"));
    }
    assert_eq!(call(&mut admin, "@Quiesce", &nothing).0, 1);
    let (status, said) = call(&mut admin, "@Shutdown", &number(number_of_stop + 1));
    assert_eq!(status, -2);
    assert!(said.contains("the number that @PrepareShutdown gave"), "{said}");
    assert_eq!(call(&mut admin, "@CancelShutdown", &nothing).0, 1);
    assert_eq!(call(&mut client, "T.insert", &row(1, "x")).0, 1);
}

#[test]
fn a_stop_by_signal_is_in_order() {
    let folder = Folder::made("signal");
    for signal in ["-TERM", "-INT"] {
        let mut host = Host::spawn(&folder.0, &[]).ready();
        let mut client = host.connect();
        if signal == "-TERM" {
            client.sql(SCHEMA).expect("the schema is made");
        }
        assert_eq!(run(&mut client, "DELETE FROM t").0, 1);
        assert_eq!(call(&mut client, "T.insert", &row(1, "x")).0, 1);
        let id = host.child.id().to_string();
        let sent = std::process::Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("kill runs").success());
        assert!(host.wait().0, "exit code 0");
        let inspected = lockstep(&["log", "inspect", folder.shown()], "");
        assert!(text(&inspected.stdout).ends_with("sound\n"), "{}", text(&inspected.stdout));
    }
    let host = Host::start(&folder.0);
    assert_eq!(count(&mut host.connect()), "Int(1)");
}

/// Inserts long rows until one is refused; what was said then.
fn fill(client: &mut Connection, from: i64) -> (i64, String) {
    let long = "x".repeat(200_000);
    for a in from..from + 20_000 {
        match call(client, "T.insert", &row(a, &long)) {
            (1, _) => {}
            (-5, said) => return (a, said),
            other => panic!("{other:?}"),
        }
    }
    panic!("nothing was refused");
}

/// Tries a call until it succeeds.
fn eventually(client: &mut Connection, name: &str, parameters: &ParameterWriter) {
    let begun = Instant::now();
    loop {
        let (status, said) = call(client, name, parameters);
        if status == 1 {
            return;
        }
        assert_eq!(status, -5, "{said}");
        assert!(begun.elapsed() < PATIENCE, "{said}");
    }
}

/// At a limit, reads and what only deletes goes on, and nothing else.
fn check_read_only(client: &mut Connection, words: &[&str]) {
    let refused = [
        call(client, "T.insert", &row(-1, "x")),
        call(client, "T.upsert", &row(-1, "x")),
        call(client, "Change", &{
            let mut parameters = ParameterWriter::default();
            parameters.text("y").bigint(0);
            parameters
        }),
        run(client, "INSERT INTO t SELECT a + 1000000, b FROM t"),
        run(client, "CREATE TABLE more (a BIGINT)"),
        run(client, "CREATE INDEX slow ON t (b)"),
    ];
    for (status, said) in refused {
        assert_eq!(status, -5, "{said}");
        for word in words {
            assert!(said.contains(word), "'{word}' is not in: {said}");
        }
    }
    assert!(state(client).contains("PAUSED"));
    assert_eq!(call(client, "Count", &ParameterWriter::default()).0, 1);
    assert_eq!(call(client, "Clear", &number(0)).0, 1);
    assert_eq!(call(client, "T.delete", &number(1)).0, 1);
    assert_eq!(run(client, "DELETE FROM t WHERE a = 2").0, 1);
    assert_eq!(run(client, "DROP PROCEDURE Count").0, 1);
}

/// Fills the memory, and looks at what procedures may do: one that writes, one that reads, one
/// that deletes; each is called with a key.
fn check_procedures_at_the_limit(
    client: &mut Connection,
    [write, read, clear]: [(&str, &ParameterWriter); 3],
) {
    assert_eq!(call(client, write.0, write.1).0, 1);
    fill(client, 0);
    let (status, said) = call(client, write.0, write.1);
    assert_eq!(status, -5, "{said}");
    for word in ["read-only mode", "of memory, and its limit is", "Delete rows"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    for one in [read, clear] {
        assert_eq!(call(client, one.0, one.1), (1, String::new()), "{}", one.0);
    }
    assert_eq!(call(client, "ClearAll", &ParameterWriter::default()).0, 1);
    eventually(client, write.0, write.1);
}

#[test]
fn memory_that_is_taken_ahead_is_there_from_the_start_and_has_a_limit() {
    let folder = Folder::made("memory-ahead");
    let options = ["preallocate_bytes=200000000".to_string()];
    let host = Host::spawn(&folder.0, &options).ready();
    let status = std::fs::read_to_string(format!("/proc/{}/status", host.child.id()));
    let resident = bytes_of("VmRSS:", &status.expect("it runs"));
    assert!(resident > 200_000_000, "{resident} bytes");
    drop(host);
    let options = ["preallocate_bytes=200000000", "memory_limit_bytes=100000000"];
    let refused = Host::command(&folder.0, &options.map(str::to_string)).output();
    let said = String::from_utf8_lossy(&refused.expect("it starts").stderr).into_owned();
    assert!(
        said.contains("preallocate_bytes is 200000000, and the host may use 100000000"),
        "{said}"
    );
}

/// Resident bytes of the one heap of a process that grows in large steps and in huge pages.
fn heap_bytes(process: u32) -> u64 {
    let memory = std::fs::read_to_string(format!("/proc/{process}/smaps")).expect("it runs");
    let (_, heap) = memory.split_once("[heap]").expect("a process has a heap");
    bytes_of("Rss:", heap)
}

/// The bytes that a file of the system has after a name, in kilobytes there.
fn bytes_of(name: &str, file: &str) -> u64 {
    let value = file.lines().find_map(|line| line.strip_prefix(name)).expect("a line of the file");
    1024 * value.trim().trim_end_matches(" kB").parse::<u64>().expect("a number")
}

#[test]
#[cfg(target_env = "gnu")]
fn rows_of_hosts_with_one_site_are_in_the_heap_of_the_process() {
    const ROWS: i64 = 200;
    const BYTES: usize = 40_000;
    // Each host has all rows.
    let hosts = Cluster::new(2, "--sites 1 --kfactor 1").start();
    let heaps = || hosts.iter().map(|host| heap_bytes(host.child.id()));
    let mut client = hosts[0].connect();
    client.sql(SCHEMA).expect("the schema is made");
    let (before, long) = (heaps().collect::<Vec<u64>>(), "x".repeat(BYTES));
    for a in 0..ROWS {
        assert_eq!(call(&mut client, "T.insert", &row(a, &long)).0, 1);
    }
    let begun = Instant::now();
    let is_there = |(after, before): (u64, &u64)| after - before > ROWS as u64 * BYTES as u64 / 2;
    while !heaps().zip(&before).all(is_there) {
        let after: Vec<u64> = heaps().collect();
        assert!(begun.elapsed() < PATIENCE, "{before:?}, then {after:?}");
        std::thread::yield_now();
    }
}

/// The real-time priority of each of a process's threads, by name; 0 of ordinary ones.
fn priorities(process: u32) -> BTreeMap<String, u32> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    let of_thread = |thread: std::io::Result<std::fs::DirEntry>| {
        let stat = std::fs::read_to_string(thread.ok()?.path().join("stat")).ok()?;
        let (before, behind) = stat.rsplit_once(')')?;
        let name = before.split_once('(')?.1.to_string();
        Some((name, behind.split_whitespace().nth(37)?.parse().ok()?))
    };
    threads.filter_map(of_thread).collect()
}

#[test]
fn sites_and_the_log_have_real_time_priority_and_nobody_else() {
    let may = Command::new("chrt").args(["--fifo", "3", "true"]).status();
    if !may.is_ok_and(|status| status.success()) {
        eprintln!("skipped: real-time priority is not allowed here");
        return;
    }
    let folder = Folder::made("real-time");
    let host = Host::spawn(&folder.0, &["realtime_priority=3".to_string()]).ready();
    let mut client = host.connect();
    // Who answers, durably, has begun to work.
    client.sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
    client.sql("INSERT INTO t VALUES (1)").expect("it is there");
    let of_threads = priorities(host.child.id());
    let raised: Vec<_> = of_threads.iter().filter(|(_, priority)| **priority > 0).collect();
    for (name, priority) in &raised {
        let expected = if name.starts_with("site") { 3 } else { 4 };
        assert!(name.starts_with("site") || *name == "log", "{name}");
        assert_eq!(**priority, expected, "{name}");
    }
    assert!(of_threads.contains_key("site 0") && of_threads.contains_key("control"));
    assert!(raised.len() >= 2, "{of_threads:?}");
    drop(host);
    let ordinary = Host::spawn(&folder.0, &[]).ready();
    assert!(priorities(ordinary.child.id()).values().all(|priority| *priority == 0));
}

#[test]
fn native_procedures_at_the_memory_limit_read_and_delete_only() {
    let folder = Folder::made("memory-native");
    let options = ["memory_limit_bytes=100663296", "resource_check_ms=10"].map(str::to_string);
    let host = Host::spawn(&folder.0, &options).ready();
    let mut client = host.connect();
    client.sql(SCHEMA).expect("the schema is made");
    let probes = "CREATE TABLE probe (k BIGINT NOT NULL PRIMARY KEY);
        PARTITION TABLE probe ON COLUMN k;
        CREATE PROCEDURE PARTITION ON TABLE probe COLUMN k FROM NATIVE Probe;
        CREATE PROCEDURE PARTITION ON TABLE probe COLUMN k FROM NATIVE ProbeCount;
        CREATE PROCEDURE PARTITION ON TABLE probe COLUMN k FROM NATIVE ProbeClear;";
    client.sql(probes).expect("they are there");
    let mut write = number(1);
    for sql_type in [SqlType::TinyInt, SqlType::Varchar, SqlType::Varchar] {
        write.scalar(sql_type, Datum::Null);
    }
    let key = number(1);
    let calls = [("Probe", &write), ("ProbeCount", &key), ("ProbeClear", &key)];
    check_procedures_at_the_limit(&mut client, calls);
}

#[test]
fn java_procedures_at_the_memory_limit_read_and_delete_only() {
    let folder = Folder::made("memory-java");
    let source = |name: &str, sql: &str| {
        format!(
            "import org.voltdb.*;
            public class {name} extends VoltProcedure {{
                public final SQLStmt only = new SQLStmt(\"{sql}\");
                public VoltTable[] run(long k) {{
                    voltQueueSQL(only, k);
                    return voltExecuteSQL();
                }}
            }}"
        )
    };
    let sources = [
        ("Write.java", source("Write", "INSERT INTO held (k) VALUES (?)")),
        ("Read.java", source("Read", "SELECT COUNT(*) FROM held WHERE k = ?")),
        ("Forget.java", source("Forget", "DELETE FROM held WHERE k = ?")),
    ];
    let sources: Vec<(&str, &str)> = sources.iter().map(|(n, text)| (*n, text.as_str())).collect();
    let Some(jar) = java::compiled(&folder.0.with_extension("java"), &sources) else {
        println!("skipped: no JDK");
        return;
    };
    let options =
        ["memory_limit_bytes=536870912", "java_heap_bytes=67108864", "resource_check_ms=10"];
    let host = Host::spawn(&folder.0, &options.map(str::to_string)).ready();
    let mut client = host.connect();
    java::load(&mut client, &jar);
    client.sql(SCHEMA).expect("the schema is made");
    let held = "CREATE TABLE held (k BIGINT NOT NULL PRIMARY KEY);
        PARTITION TABLE held ON COLUMN k;
        CREATE PROCEDURE PARTITION ON TABLE held COLUMN k FROM CLASS Write;
        CREATE PROCEDURE PARTITION ON TABLE held COLUMN k FROM CLASS Read;
        CREATE PROCEDURE PARTITION ON TABLE held COLUMN k FROM CLASS Forget;";
    client.sql(held).expect("they are there");
    let key = number(1);
    let calls = [("Write", &key), ("Read", &key), ("Forget", &key)];
    check_procedures_at_the_limit(&mut client, calls);
}

/// What `@Quiesce` has answered for is there whatever a power cut takes.
#[test]
fn an_asynchronous_log_is_durable_behind_quiesce() {
    let folder = Folder::made("quiesce");
    let mut power = Power::new(&folder.0);
    let mut random = SeededRandom::new(3);
    let start = |power: &Power| {
        // By itself it would sync once a minute.
        let mut command = Host::command(&folder.0, &["log_interval_ms=60000".to_string()]);
        power.follow(command.args(["--durability", "async"]));
        Host::run(&mut command).ready()
    };
    let mut lost = 0;
    for round in 0..6 {
        let mut host = start(&power);
        let mut client = host.connect();
        if round == 0 {
            client.sql(SCHEMA).expect("the schema is made");
        }
        for a in 0..10 {
            assert_eq!(call(&mut client, "T.insert", &row(round * 100 + a, "kept")).0, 1);
        }
        let quiet = client.call("@Quiesce", &ParameterWriter::default()).expect("it is answered");
        let tables = quiet.tables().expect("a table");
        assert_eq!(format!("{:?}", tables[0].rows), "[[Int(0)]]");
        for a in 10..20 {
            assert_eq!(call(&mut client, "T.insert", &row(round * 100 + a, "risked")).0, 1);
        }
        drop(client);
        host.kill();
        power.cut(&mut random);
        let mut host = start(&power);
        let kept = "SELECT COUNT(*), SUM(CASE b WHEN 'kept' THEN 1 ELSE 0 END) FROM t";
        let found = host.connect().sql(kept).expect("the query runs")[0].rows[0].clone();
        assert_eq!(format!("{:?}", found[1]), format!("Int({})", (round + 1) * 10), "{found:?}");
        lost += u64::from(format!("{:?}", found[0]) != format!("Int({})", (round + 1) * 20));
        let mut client = host.connect();
        assert_eq!(run(&mut client, "DELETE FROM t WHERE b = 'risked'").0, 1);
        assert_eq!(call(&mut client, "@Quiesce", &ParameterWriter::default()).0, 1);
        drop(client);
        host.kill();
        power.cut(&mut random);
    }
    assert!(lost > 0, "without @Quiesce something is lost");
    power.clear();
}

#[test]
fn at_the_memory_limit_the_host_only_reads_and_deletes_and_resumes_by_itself() {
    let folder = Folder::made("memory");
    let options = ["memory_limit_bytes=100663296", "resource_check_ms=10"].map(str::to_string);
    let mut command = Host::command(&folder.0, &options);
    let mut host = Host::run(command.stderr(std::process::Stdio::piped())).ready();
    let mut client = host.connect();
    client.sql(SCHEMA).expect("the schema is made");
    let (_, said) = fill(&mut client, 0);
    let words = ["of memory, and its limit is 96.0 MiB", "memory_limit_bytes", "Delete rows"];
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    check_read_only(&mut client, &words);
    assert_eq!(run(&mut admin(&host), "INSERT INTO t VALUES (-1, 'x')").0, -5, "nor here");
    assert_eq!(call(&mut client, "ClearAll", &ParameterWriter::default()).0, 1);
    eventually(&mut client, "T.insert", &row(-1, "x"));
    assert!(state(&mut client).contains("RUNNING"));
    // The same again, emptied at once.
    fill(&mut client, 0);
    assert_eq!(run(&mut client, "TRUNCATE TABLE t").0, 1);
    eventually(&mut client, "T.insert", &row(-1, "x"));
    drop(client);
    host.kill();
    assert_eq!(count(&mut Host::start(&folder.0).connect()), "Int(1)");
}
