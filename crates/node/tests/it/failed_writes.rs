//! Writes that fail for reasons of their host (time, limits, the Java watchdog) are run nowhere
//! else, and those that succeeded are replayed without the host's limits.

use crate::durability::{data, new_disk};
use crate::support::{Peer, SetAtTheEnd, digests, eventually, start_with};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_node::Server;
use lockstep_node::log::Durability;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::Datum::{Int, Text};
use lockstep_types::SqlType;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const SITES: u32 = 3;
const OPTIONS: &[&str] = &[
    "replica_digests=1",
    "statistics_interval_ms=0",
    "java_heap_bytes=268435456",
    "java_call_limit_ms=800",
    "log_segment_bytes=262144",
];

const NUMBER: ProcedureParameter =
    ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };

/// `Stopped(k, n)`: inserts a row, and then fails one time in three while a host serves.
pub struct Stopped;

static IS_SERVING: AtomicBool = AtomicBool::new(true);
static CALLS: AtomicU64 = AtomicU64::new(0);

impl NativeProcedure for Stopped {
    fn name(&self) -> &str {
        "Stopped"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[NUMBER, NUMBER]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("insert", "INSERT INTO spread VALUES (?, ?);")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (k, n) = (context.parameter(0), context.parameter(1));
        context.queue(0, &[k, n])?;
        context.execute()?;
        let call = CALLS.fetch_add(1, Ordering::SeqCst);
        match IS_SERVING.load(Ordering::SeqCst) && call.is_multiple_of(3) {
            true => Err(context.abort("its time is over")),
            false => Ok(()),
        }
    }
}

/// `Catching(k)`: reads more than a response may hold, and goes on as if nothing had happened.
pub struct Catching;

impl NativeProcedure for Catching {
    fn name(&self) -> &str {
        "Catching"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[NUMBER]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            ("read", "SELECT a.t FROM texts a, texts b, texts c;"),
            ("insert", "INSERT INTO spread VALUES (?, 1);"),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let k = context.parameter(0);
        context.queue(0, &[])?;
        assert!(context.execute().is_err(), "the response is too large");
        context.queue(1, &[k])?;
        // What it makes of this is not asked.
        let _ = context.execute();
        Ok(())
    }
}

/// `Endless(k)`: short statements without an end, and calls it a success when one fails.
pub struct Endless;

impl NativeProcedure for Endless {
    fn name(&self) -> &str {
        "Endless"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[NUMBER]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("update", "UPDATE spread SET n = n + 1 WHERE a = ?;")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let k = context.parameter(0);
        loop {
            context.queue(0, &[k])?;
            if context.execute().is_err() {
                return Ok(());
            }
        }
    }
}

const SCHEMA: &str = "
    CREATE TABLE spread (a BIGINT NOT NULL PRIMARY KEY, n BIGINT);
    PARTITION TABLE spread ON COLUMN a;
    CREATE TABLE texts (id BIGINT NOT NULL PRIMARY KEY, t VARCHAR(400));
    CREATE PROCEDURE PARTITION ON TABLE spread COLUMN a FROM NATIVE Stopped;
    CREATE PROCEDURE PARTITION ON TABLE spread COLUMN a FROM NATIVE Catching;";

fn host(disk: &MemoryDisk, options: &[&str]) -> (Server, Peer) {
    host_with(SITES, disk, options)
}

fn host_with(sites: u32, disk: &MemoryDisk, options: &[&str]) -> (Server, Peer) {
    let options = [OPTIONS, options].concat();
    let server = start_with(sites, &options, Some(data(disk, Durability::Sync)));
    let server = server.expect("the host starts");
    let peer = Peer::login(server.client_address());
    (server, peer)
}

/// Transactions over all partitions, every other of which fails at one of them, until it is
/// stopped: calls run after them before they are decided, and some run again.
fn keep_undecided(server: &Server, is_over: &AtomicBool) {
    let mut peer = Peer::login(server.client_address());
    for round in 0.. {
        if is_over.load(Ordering::SeqCst) {
            return;
        }
        let sql = match round % 2 {
            0 => "UPDATE spread SET n = n + 1 WHERE a < 30",
            _ => "UPDATE spread SET n = n / (a - 7) WHERE a < 30",
        };
        let answer = peer.call("@AdHoc", &[Text(sql)]);
        assert_eq!(answer.status == 1, round % 2 == 0, "{answer:?}");
    }
}

#[test]
fn writes_that_failed_at_their_host_are_run_nowhere_else() {
    let disk = new_disk(SITES);
    let (server, mut peer) = host(&disk, &[]);
    peer.run(SCHEMA);
    for a in 0..30 {
        peer.run(&format!("INSERT INTO spread VALUES ({a}, 0)"));
    }
    let (is_over, mut failed) = (AtomicBool::new(false), 0);
    std::thread::scope(|scope| {
        scope.spawn(|| keep_undecided(&server, &is_over));
        let _over = SetAtTheEnd(&is_over);
        for n in 0..600 {
            let answer = peer.call("Stopped", &[Int(1_000 + n), Int(n)]);
            failed += i64::from(answer.status == -1);
            assert!([1, -1].contains(&answer.status), "{answer:?}");
        }
    });
    assert!(failed > 100, "{failed} failed");
    let rows = (600 - failed).to_string();
    assert_eq!(peer.run("SELECT COUNT(*) FROM spread WHERE a >= 1000"), rows);
    let survivor = disk.survivor(|_| Survival::Lost);
    let before = digests(server);
    IS_SERVING.store(false, Ordering::SeqCst);
    let (server, mut peer) = host(&survivor, &[]);
    assert_eq!(peer.run("SELECT COUNT(*) FROM spread WHERE a >= 1000"), rows);
    let summary = server.recovery().expect("it has a directory");
    assert!(summary.left_out > 0, "some failed after an undecided transaction: {summary:?}");
    assert_eq!(digests(server), before);
}

#[test]
fn a_procedure_cannot_go_on_after_a_limit_of_its_host() {
    let disk = new_disk(SITES);
    let (_server, mut peer) = host(&disk, &["max_response_bytes=20000"]);
    peer.run(SCHEMA);
    for id in 0..10 {
        peer.run(&format!("INSERT INTO texts VALUES ({id}, REPEAT('x', 300))"));
    }
    let answer = peer.call("Catching", &[Int(1)]);
    assert_eq!(answer.status, -2, "{answer:?}");
    assert!(answer.text.contains("option max_response_bytes"), "{answer:?}");
    assert_eq!(peer.run("SELECT COUNT(*) FROM spread"), "0");
}

#[test]
fn writes_that_succeeded_come_back_under_lower_limits() {
    let disk = new_disk(SITES);
    let (server, mut peer) = host(&disk, &[]);
    peer.run(SCHEMA);
    peer.run(
        "CREATE PROCEDURE Wide PARTITION ON TABLE spread COLUMN a AS BEGIN
            INSERT INTO spread VALUES (?, 1);
            SELECT REPEAT('x', 3000) FROM spread WHERE a = ?; END",
    );
    for a in 0..300 {
        assert_eq!(peer.call("Wide", &[Int(a), Int(a)]).status, 1);
    }
    // The undo of one statement, and a text, both over the limits to come.
    for a in 0..3_000 {
        peer.call("SPREAD.insert", &[Int(1_000 + a), Int(a)]);
    }
    peer.run("UPDATE spread SET n = n + 1");
    let long = format!("INSERT INTO texts VALUES (1, '{}')", "y".repeat(300));
    peer.run(&long);
    peer.run("DELETE FROM texts WHERE id IN (SELECT id FROM texts WHERE id > 5)");
    let survivor = disk.survivor(|_| Survival::Lost);
    let before = digests(server);
    let lower = [
        "max_response_bytes=1024",
        "max_undo_bytes=65536",
        "max_temporary_bytes=1048576",
        "max_statement_bytes=64",
        "max_columns=1",
        "max_joined_tables=1",
    ];
    let (server, mut peer) = host(&survivor, &lower);
    // From now on they are in force.
    let answer = peer.call("Wide", &[Int(100_000), Int(100_000)]);
    assert!(answer.text.contains("option max_response_bytes"), "{answer:?}");
    assert_eq!(digests(server), before);
}

#[test]
fn calls_in_java_are_replayed_without_the_watchdog_and_those_it_stopped_not_at_all() {
    let Some(jar) = crate::java::jar() else { return };
    let disk = new_disk(SITES);
    let (server, mut peer) = host(&disk, &[]);
    crate::java::load(&mut peer, jar);
    peer.run(SCHEMA);
    peer.run("CREATE PROCEDURE PARTITION ON TABLE spread COLUMN a FROM CLASS Warm;");
    // Runs until two seconds after its class was loaded: too long at first, and again at replay.
    let first = peer.call("Warm", &[Int(1), Int(2_000)]);
    assert!(first.text.contains("ran for 800 ms"), "{first:?}");
    eventually("the class was loaded two seconds ago", || {
        peer.call("Warm", &[Int(2), Int(2_000)]).status == 1
    });
    assert_eq!(peer.run("SELECT a FROM spread"), "2");
    let survivor = disk.survivor(|_| Survival::Lost);
    let before = digests(server);
    let (server, mut peer) = host(&survivor, &[]);
    assert_eq!(peer.run("SELECT a FROM spread"), "2");
    assert_eq!(digests(server), before);
}

/// Rows of which all combinations of four take far longer than any test.
const NUMBERS: i64 = 400;
const FOREVER: &str = "(SELECT COUNT(*) FROM r a, r b, r c, r d) > 0";

/// Calls that end when the clock stops them, and what was done by then.
fn endless_calls() -> Vec<(&'static str, String)> {
    let statements = [
        format!("DELETE FROM t WHERE k = 4 AND {FOREVER}"),
        format!("DELETE FROM t WHERE {FOREVER}"),
        format!("DELETE FROM r WHERE {FOREVER}"),
        format!("UPDATE t SET v = v + 1; DELETE FROM r WHERE n = 1; DELETE FROM t WHERE {FOREVER}"),
        format!("INSERT INTO r SELECT 1000 + COUNT(*) FROM r WHERE {FOREVER}"),
        "INSERT INTO r SELECT a.n + b.n + c.n + d.n FROM r a, r b, r c, r d".to_string(),
    ];
    let ad_hoc = statements.into_iter().map(|text| ("@AdHoc", text));
    ["Here", "Everywhere", "Endless", "OverAll"]
        .into_iter()
        .map(|procedure| (procedure, String::new()))
        .chain(ad_hoc)
        .collect()
}

#[test]
fn writes_that_the_clock_stopped_are_undone_and_not_replayed() {
    for sites in [1, 3] {
        let disk = new_disk(sites);
        let options = ["write_timeout_ms=60", "transaction_timeout_ms=0", "query_timeout_ms=1"];
        let (server, mut peer) = host_with(sites, &disk, &options);
        peer.run(SCHEMA);
        peer.run(&format!(
            "CREATE TABLE t (k BIGINT NOT NULL PRIMARY KEY, v BIGINT);
             PARTITION TABLE t ON COLUMN k;
             CREATE TABLE r (n BIGINT NOT NULL, PRIMARY KEY (n));
             CREATE PROCEDURE PARTITION ON TABLE spread COLUMN a FROM NATIVE Endless;
             CREATE PROCEDURE OverAll FROM NATIVE Endless;
             CREATE PROCEDURE Here PARTITION ON TABLE t COLUMN k AS BEGIN
                INSERT INTO t VALUES (?, 7); DELETE FROM t WHERE k = ? AND {FOREVER}; END;
             CREATE PROCEDURE Everywhere AS BEGIN
                INSERT INTO t VALUES (?, 7); DELETE FROM r WHERE n < 10;
                UPDATE t SET v = 0 WHERE {FOREVER}; END;"
        ));
        for k in 0..10 {
            peer.run(&format!(
                "INSERT INTO t VALUES ({k}, {k}); INSERT INTO spread VALUES ({k}, 0)"
            ));
        }
        for n in 0..NUMBERS {
            assert_eq!(peer.call("R.insert", &[Int(n)]).status, 1);
        }
        let sums = "SELECT COUNT(*), SUM(v) FROM t";
        let all = format!("{NUMBERS}");
        for (procedure, text) in endless_calls() {
            // Rounds of a transaction are short: it has the time of a transaction.
            let rounds = procedure == "OverAll";
            if rounds && sites > 1 {
                continue;
            }
            // A key that is there for those that update, and one that is not for the others.
            let key = if procedure.starts_with('E') && procedure != "Everywhere" { 7 } else { 77 };
            let answer = match text.is_empty() {
                true if procedure == "Here" => peer.call(procedure, &[Int(key), Int(key)]),
                true => peer.call(procedure, &[Int(key)]),
                false => peer.call(procedure, &[Text(&text)]),
            };
            let what = format!("{sites} sites, {procedure} {text}: {answer:?}");
            assert!(answer.status == -2 && answer.rows.is_empty(), "{what}");
            assert!(answer.text.contains("of writes (option write_timeout_ms) of 0.060"), "{what}");
            assert_eq!(peer.run(sums), "10,45", "{what}");
            assert_eq!(peer.run("SELECT COUNT(*) FROM r"), all, "{what}");
            assert_eq!(peer.run("SELECT SUM(n) FROM spread"), "0", "{what}");
        }
        assert_eq!(peer.run("UPDATE t SET v = v + 1"), "10");
        let survivor = disk.survivor(|_| Survival::Lost);
        let before = digests(server);
        // Without a limit none of them would end.
        let (server, mut peer) = host_with(sites, &survivor, &["write_timeout_ms=0"]);
        assert_eq!(peer.run(sums), "10,55");
        assert_eq!(digests(server), before, "{sites} sites");
    }
}
