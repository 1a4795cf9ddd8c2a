//! A trace of the system calls of a host shows that every answer leaves after the sync that
//! covers it. Each call writes a text of its own, which its answer, and every read of it, shows
//! again: so the trace itself tells which bytes of the log an answer stands on.
//!
//! Needs `strace`; where that is not installed or may not trace, the test says so and passes.

use super::process::Host;
use super::{lockstep, text};
use lockstep_client::{CallOptions, Connection};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CALLS: i64 = 120;
const IN_FLIGHT: i64 = 8;
const MARK: &str = "mark-";
const MARK_DIGITS: usize = 7;
/// All calls by which bytes leave a process or become durable.
const TRACED: &str = "write,writev,pwrite64,pwritev,pwritev2,sendto,sendmsg,sendmmsg,fsync,\
                      fdatasync,sync_file_range,io_uring_enter";
const SCHEMA: &str = "\
CREATE TABLE marks (id BIGINT NOT NULL, t VARCHAR(20) NOT NULL, PRIMARY KEY (id));
PARTITION TABLE marks ON COLUMN id;
CREATE PROCEDURE Mark PARTITION ON TABLE marks COLUMN id AS BEGIN
  INSERT INTO marks VALUES (?, ?);
  SELECT t FROM marks WHERE id = ?;
END;
CREATE PROCEDURE MarkTwice
  PARTITION ON TABLE marks COLUMN id PARAMETER 0 AND ON TABLE marks COLUMN id PARAMETER 2
  AS BEGIN
    INSERT INTO marks VALUES (?, ?);
    INSERT INTO marks VALUES (?, ?);
    SELECT t FROM marks WHERE id = ?;
  END;
CREATE PROCEDURE Newest AS SELECT t FROM marks ORDER BY t DESC LIMIT 3;
";

/// What a system call did.
#[derive(Debug, PartialEq, Eq)]
enum Kind {
    /// Bytes went to the command log.
    Write,
    /// A file of the command log was synced.
    Sync,
    /// Bytes went to a socket.
    Send,
}

#[derive(Debug)]
struct Event {
    kind: Kind,
    file: String,
    marks: BTreeSet<String>,
    /// Lines of the trace: where the call began, and where it ended well, if it did.
    begun: usize,
    ended: Option<usize>,
}

/// What was found.
#[derive(Debug, Default)]
struct Findings {
    answers: usize,
    reads: usize,
    log_writes: usize,
    syncs: usize,
    early: Vec<String>,
}

/// The texts of calls that are in a line.
fn marks(line: &str) -> BTreeSet<String> {
    let digits = |at: usize| line.get(at + MARK.len()..at + MARK.len() + MARK_DIGITS);
    let found = line.match_indices(MARK).filter_map(|(at, _)| digits(at));
    found.map(str::to_string).collect()
}

/// The calls of a trace that matter, in the order in which they began.
fn events(trace: &str) -> Vec<Event> {
    let mut events: Vec<Event> = Vec::new();
    let mut unfinished: BTreeMap<&str, usize> = BTreeMap::new();
    for (number, line) in trace.lines().enumerate() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        let succeeded = |call: &str| {
            call.rsplit_once(" = ")
                .is_some_and(|(_, result)| !result.starts_with('-') && !result.starts_with('?'))
        };
        if call.starts_with("<... ") {
            if let Some(event) = unfinished.remove(thread) {
                events[event].ended = succeeded(call).then_some(number);
            }
            continue;
        }
        let Some((name, arguments)) = call.split_once('(') else { continue };
        // The descriptor stands first, with its path.
        let file = arguments.split_once('<').and_then(|(_, rest)| rest.split_once('>'));
        let Some((file, _)) = file else { continue };
        let is_log = file.contains("/log/") && file.ends_with(".log");
        let kind = match (name, is_log) {
            ("fsync" | "fdatasync", true) => Kind::Sync,
            (_, true) => Kind::Write,
            _ if file.starts_with('/') || file.starts_with("pipe:") => continue,
            _ => Kind::Send,
        };
        let is_unfinished = call.ends_with("<unfinished ...>");
        if is_unfinished {
            unfinished.insert(thread, events.len());
        }
        let ended = (!is_unfinished && succeeded(call)).then_some(number);
        let (file, marks) = (file.to_string(), marks(call));
        events.push(Event { kind, file, marks, begun: number, ended });
    }
    events
}

/// Looks at each send of a marked answer: all writes of the mark to the log were synced by a sync
/// that began after them and ended before.
fn judge(events: &[Event]) -> Findings {
    let mut findings = Findings::default();
    let mut seen = BTreeSet::new();
    let of = |kind: Kind| events.iter().filter(move |event| event.kind == kind);
    findings.log_writes = of(Kind::Write).count();
    findings.syncs = of(Kind::Sync).count();
    for send in of(Kind::Send) {
        for mark in &send.marks {
            match seen.insert(mark) {
                true => findings.answers += 1,
                false => findings.reads += 1,
            }
            let writes: Vec<&Event> =
                of(Kind::Write).filter(|write| write.marks.contains(mark)).collect();
            let is_synced = |write: &&Event| {
                let covers = |sync: &Event| {
                    sync.file == write.file
                        && write.ended.is_some_and(|ended| ended < sync.begun)
                        && sync.ended.is_some_and(|ended| ended < send.begun)
                };
                of(Kind::Sync).any(covers)
            };
            if writes.is_empty() || !writes.iter().all(is_synced) {
                findings.early.push(format!("{mark}, line {}", send.begun + 1));
            }
        }
    }
    findings
}

/// Writes rows of its own at one partition and at two, many at a time.
fn write_marks(mut connection: Connection, writer: i64) {
    let mut waiting = Vec::new();
    for n in 0..CALLS {
        let id = writer * 100_000 + n;
        let mark = format!("{MARK}{id:0MARK_DIGITS$}");
        let mut parameters = ParameterWriter::default();
        let mut add = |id: i64| {
            parameters.scalar(SqlType::BigInt, Datum::Int(id));
            parameters.scalar(SqlType::Varchar, Datum::Text(&mark));
        };
        add(id);
        let is_double = n % 5 == 0;
        if is_double {
            add(id + 50_000);
        }
        parameters.scalar(SqlType::BigInt, Datum::Int(id));
        let procedure = if is_double { "MarkTwice" } else { "Mark" };
        let sent = connection.submit(procedure, parameters.bytes(), &CallOptions::default());
        waiting.push(sent.expect("it is sent"));
        if waiting.len() as i64 == IN_FLIGHT {
            for handle in waiting.drain(..) {
                let answer = connection.wait(handle).expect("it is answered");
                assert_eq!(answer.view().status, 1, "{:?}", answer.view().status_text);
            }
        }
    }
}

/// Reads the newest rows, of any writer, until there are as many as there will be.
fn read_marks(mut connection: Connection, rows: i64) {
    loop {
        let newest = connection.call("Newest", &ParameterWriter::default());
        newest.expect("it is answered").tables().expect("a table");
        let counted = connection.sql("SELECT COUNT(*) FROM marks").expect("a table");
        if counted[0].rows[0][0].to_string() == rows.to_string() {
            return;
        }
    }
}

/// A host's life under `strace`.
fn trace(folder: &Path, durability: &str) -> String {
    let shown = folder.to_str().expect("a path of text");
    let made = lockstep(&["init", "--dir", shown, "--sites", "2"], "");
    assert!(made.status.success(), "{}", text(&made.stderr));
    let output = folder.with_extension("trace");
    let host = Host::command(folder, &["log_interval_ms=5000".to_string()]);
    let mut command = Command::new("strace");
    command.args(["-f", "-y", "-s", "1048576", "-e", &format!("trace={TRACED}"), "-o"]);
    command.arg(&output).arg(host.get_program()).args(host.get_args());
    command.args(["--durability", durability]);
    let mut host = Host::run(&mut command).ready();
    host.connect().sql(SCHEMA).expect("the schema is made");
    std::thread::scope(|scope| {
        for writer in 1..=3 {
            let connection = host.connect();
            scope.spawn(move || write_marks(connection, writer));
        }
        let rows = 3 * (CALLS + (CALLS + 4) / 5);
        let connection = host.connect();
        scope.spawn(move || read_marks(connection, rows));
    });
    // In order, so that the trace is whole.
    let options = lockstep_client::ConnectOptions::default();
    let mut admin = Connection::connect(&host.admin(), &options).expect("it takes connections");
    let _ = admin.call("@Shutdown", &ParameterWriter::default());
    host.wait();
    let trace = std::fs::read(&output).expect("strace wrote it");
    let _ = std::fs::remove_file(&output);
    std::fs::remove_dir_all(folder).expect("the folder is ours");
    String::from_utf8_lossy(&trace).into_owned()
}

fn can_trace() -> bool {
    let mut probe = Command::new("strace");
    probe.args(["-o", "/dev/null", "true"]).stdout(Stdio::null()).stderr(Stdio::null());
    probe.status().is_ok_and(|status| status.success())
}

fn folder(name: &str) -> PathBuf {
    let name = format!("lockstep-trace-{name}-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&path);
    path
}

#[test]
fn every_answer_leaves_behind_the_sync_that_covers_it() {
    if !can_trace() {
        println!("skipped: strace is not installed, or may not trace here");
        return;
    }
    let synchronous = judge(&events(&trace(&folder("sync"), "sync")));
    println!(
        "{} answers and {} reads of {} writes and {} syncs of the log: {} before their sync",
        synchronous.answers,
        synchronous.reads,
        synchronous.log_writes,
        synchronous.syncs,
        synchronous.early.len()
    );
    assert_eq!(synchronous.answers as i64, 3 * CALLS, "every answer was seen");
    assert!(synchronous.reads > 0 && synchronous.syncs > 10, "{synchronous:?}");
    assert!(synchronous.early.is_empty(), "answers before their sync: {:?}", synchronous.early);
    // What does not wait for the disk is seen as that.
    let asynchronous = judge(&events(&trace(&folder("async"), "async")));
    assert!(asynchronous.early.len() > 100, "{asynchronous:?}");
}
