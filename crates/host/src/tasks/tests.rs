//! Tasks under a clock that stands until a test moves it.

use super::*;
use lockstep_plan::{Catalog, NativeProcedures, NativeSource};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::Value;
use lockstep_wire_volt::Invocation;
use std::cell::Cell;

const SECOND_NS: u64 = 1_000_000_000;
const PARTITIONS: u32 = 3;

/// Clocks that stand.
struct Fixed(Now);

impl TaskClock for Fixed {
    fn read(&self) -> Now {
        self.0
    }
}

struct NoNatives;

impl NativeProcedures for NoNatives {
    fn find(&self, _: &str) -> Option<NativeSource> {
        None
    }
}

struct Bench {
    catalog: Catalog,
    tasks: Tasks,
    now: Cell<Now>,
}

/// A call that was begun: its handle, its partition, and the one that it names.
type Begun = (i64, Option<PartitionId>, Option<i32>);

impl Bench {
    fn new(ddl: &str) -> Bench {
        let mut bench = Bench {
            catalog: Catalog::default(),
            tasks: Tasks::new(PARTITIONS, 0),
            now: Cell::new(Now { monotonic_ns: 5 * SECOND_NS, wall_us: 0 }),
        };
        bench.change(
            "CREATE TABLE t (a INTEGER NOT NULL); PARTITION TABLE t ON COLUMN a;
             CREATE PROCEDURE p AS SELECT * FROM t WHERE a = ?;
             CREATE PROCEDURE d DIRECTED AS SELECT * FROM t;",
        );
        bench.change(ddl);
        bench
    }

    fn change(&mut self, ddl: &str) {
        let batch = parse_batch(ddl, &Limits::default()).expect("SQL");
        self.catalog = self.catalog.apply(&batch, &NoNatives).expect("DDL").catalog;
        self.tasks.follow(self.catalog.version, &self.catalog.tasks, self.now.get(), true);
        self.tasks.check_invariants();
    }

    fn after(&self, seconds: u64) {
        let Now { monotonic_ns, wall_us } = self.now.get();
        let monotonic_ns = monotonic_ns + seconds * SECOND_NS;
        self.now.set(Now { monotonic_ns, wall_us: wall_us + seconds as i64 * 1_000_000 });
    }

    fn due_if(&mut self, may_run: bool) -> Vec<Begun> {
        let calls = self.tasks.due(may_run, &Fixed(self.now.get()));
        self.tasks.check_invariants();
        let read = |call: &TaskCall| {
            let invocation = Invocation::decode(&call.body).expect("a call");
            (invocation.client_handle, call.partition, invocation.destination_partition)
        };
        calls.iter().map(read).collect()
    }

    fn due(&mut self) -> Vec<Begun> {
        self.due_if(true)
    }

    /// The handle of the only call that is due.
    fn one(&mut self) -> i64 {
        match self.due().as_slice() {
            [(handle, None, None)] => *handle,
            other => panic!("one call is due, not {other:?}"),
        }
    }

    fn ended(&mut self, handle: i64, result: Result<(), Failure>) {
        self.tasks.ended(handle, result, &Fixed(self.now.get()));
        self.tasks.check_invariants();
    }

    fn failed(&mut self, handle: i64) {
        self.ended(handle, Err(Failure::graceful("no luck")));
    }

    /// Partition, state, status, calls and failures of each row.
    fn rows(&self) -> Vec<(i64, String, String, i64, i64)> {
        let text = |value: &Value| value.as_datum().to_string();
        let int = |value: &Value| match value {
            Value::Int(number) => *number,
            other => panic!("{other:?} is no number"),
        };
        let read = |row: &Vec<Value>| {
            (int(&row[0]), text(&row[2]), text(&row[13]), int(&row[14]), int(&row[23]))
        };
        self.tasks.rows(true).iter().map(read).collect()
    }

    fn row(&self) -> (String, i64, i64) {
        let rows = self.rows();
        let [(_, state, _, calls, failures)] = rows.as_slice() else { panic!("one row: {rows:?}") };
        (state.clone(), *calls, *failures)
    }
}

fn row(state: &str, calls: i64, failures: i64) -> (String, i64, i64) {
    (state.to_string(), calls, failures)
}

#[test]
fn one_call_at_a_time() {
    let mut bench = Bench::new("CREATE TASK k ON SCHEDULE EVERY 2 SECONDS PROCEDURE p WITH (7)");
    assert!(bench.due().is_empty());
    assert_eq!(bench.tasks.left_ns(bench.now.get()), Some(2 * SECOND_NS));
    bench.after(2);
    let first = bench.one();
    assert_eq!(bench.tasks.left_ns(bench.now.get()), None);
    bench.after(100);
    assert!(bench.due().is_empty());
    bench.ended(first, Ok(()));
    let second = bench.one();
    assert_ne!(first, second);
    bench.ended(first, Ok(()));
    assert!(bench.due().is_empty(), "an answer that comes twice says nothing");
    bench.ended(second, Ok(()));
    assert_eq!(bench.row(), row("RUNNING", 2, 0));
    bench.after(1);
    assert!(bench.due().is_empty());
}

#[test]
fn calls_carry_the_arguments_in_the_types_of_the_parameters() {
    let mut bench = Bench::new("CREATE TASK k ON SCHEDULE EVERY 2 SECONDS PROCEDURE p WITH (7)");
    bench.after(2);
    let now = bench.now.get();
    let calls = bench.tasks.due(true, &Fixed(now));
    let invocation = Invocation::decode(&calls[0].body).expect("a call");
    assert_eq!((invocation.procedure, invocation.parameters.count()), ("p", 1));
    let parameter = invocation.parameters.get(0).expect("one").expect("sound");
    assert_eq!(format!("{parameter:?}"), "Scalar(BigInt, Int(7))");
}

#[test]
fn an_error_stops_is_told_or_is_nothing() {
    let mut bench = Bench::new("CREATE TASK k ON SCHEDULE DELAY 1 SECONDS PROCEDURE p WITH (7)");
    bench.after(1);
    let call = bench.one();
    bench.failed(call);
    let reason = "procedure p failed: no luck".to_string();
    assert_eq!(bench.rows(), [(-1, "ERROR".to_string(), reason, 1, 1)]);
    bench.after(1_000);
    assert!(bench.due().is_empty());
    assert_eq!(bench.tasks.left_ns(bench.now.get()), None);
    // Other changes of the schema do not start it; one of the task does.
    bench.change("CREATE TABLE other (a INTEGER)");
    bench.after(1_000);
    assert!(bench.due().is_empty());
    bench.change("ALTER TASK k ALTER ON ERROR IGNORE");
    assert_eq!(bench.row(), row("RUNNING", 1, 1));
    assert!(bench.due().is_empty());
    for word in ["IGNORE", "LOG"] {
        bench.change(&format!("ALTER TASK k ALTER ON ERROR {word}"));
        bench.after(1);
        let call = bench.one();
        bench.failed(call);
        assert_eq!(bench.row().0, "RUNNING");
    }
    assert_eq!(bench.row(), row("RUNNING", 3, 3));
    bench.after(1);
    let call = bench.one();
    bench.ended(call, Ok(()));
    assert_eq!(bench.rows()[0].2, "NULL");
}

#[test]
fn a_call_that_the_host_does_not_take_is_no_failure() {
    let mut bench = Bench::new("CREATE TASK k ON SCHEDULE DELAY 1 SECONDS PROCEDURE p WITH (7)");
    bench.after(1);
    let call = bench.one();
    bench.ended(call, Err(Failure::new(Status::ServerUnavailable, "memory")));
    assert_eq!(bench.row(), row("RUNNING", 0, 0));
    assert_eq!(bench.rows()[0].2, "it was not run: memory");
    bench.after(1);
    bench.one();
}

#[test]
fn a_disabled_task_rests_and_begins_its_schedule_anew() {
    let mut bench =
        Bench::new("CREATE TASK k ON SCHEDULE EVERY 3 SECONDS PROCEDURE p WITH (7) DISABLE");
    bench.after(10);
    assert!(bench.due().is_empty());
    assert_eq!(bench.row(), row("DISABLED", 0, 0));
    bench.change("ALTER TASK k ENABLE");
    assert!(bench.due().is_empty());
    bench.after(3);
    let call = bench.one();
    bench.change("ALTER TASK k DISABLE");
    bench.after(3);
    bench.ended(call, Ok(()));
    assert_eq!(bench.row(), row("DISABLED", 1, 0), "the call in progress was not cut off");
    bench.after(3);
    assert!(bench.due().is_empty());
    // What is said again changes nothing.
    bench.change("ALTER TASK k ENABLE");
    bench.after(2);
    bench.change("ALTER TASK k ENABLE");
    bench.after(1);
    bench.one();
}

#[test]
fn enabled_again_while_its_call_is_under_way_it_waits_for_that() {
    for schedule in ["EVERY 3 SECONDS", "DELAY 3 SECONDS", "CRON * * * * * *"] {
        let mut bench =
            Bench::new(&format!("CREATE TASK k ON SCHEDULE {schedule} PROCEDURE p WITH (7)"));
        bench.after(3);
        let call = bench.one();
        bench.change("ALTER TASK k DISABLE; ALTER TASK k ENABLE");
        bench.change("ALTER TASK k DISABLE");
        bench.change("ALTER TASK k ENABLE");
        bench.after(30);
        assert!(bench.due().is_empty(), "{schedule}");
        bench.ended(call, Ok(()));
        bench.after(3);
        bench.one();
        assert_eq!(bench.row(), row("RUNNING", 1, 0));
    }
}

#[test]
fn a_task_that_is_dropped_under_way_and_one_of_its_name() {
    let create = "CREATE TASK k ON SCHEDULE EVERY 1 SECONDS PROCEDURE p WITH (7)";
    let mut bench = Bench::new(create);
    bench.after(1);
    let call = bench.one();
    bench.change("DROP TASK k");
    assert!(bench.rows().is_empty());
    bench.after(5);
    assert!(bench.due().is_empty());
    bench.change(create);
    bench.after(5);
    assert!(bench.due().is_empty(), "the old one's call is in progress at this place");
    bench.failed(call);
    assert_eq!(bench.row(), row("RUNNING", 0, 0), "it does not count for the new one");
    let call = bench.one();
    bench.change(&format!("DROP TASK k; {create}"));
    bench.after(5);
    assert!(bench.due().is_empty());
    bench.change("DROP TASK k");
    bench.ended(call, Ok(()));
    assert!(bench.tasks.tasks.is_empty() && bench.tasks.runs.is_empty(), "nothing is left");
}

#[test]
fn each_partition_by_itself() {
    let create = "CREATE TASK k ON SCHEDULE DELAY 1 SECONDS PROCEDURE d RUN ON PARTITIONS";
    let mut bench = Bench::new(create);
    bench.after(1);
    let calls = bench.due();
    let places: Vec<_> =
        calls.iter().map(|(_, partition, at)| (partition.map(|p| p.0), *at)).collect();
    assert_eq!(places, [(Some(0), Some(0)), (Some(1), Some(1)), (Some(2), Some(2))]);
    bench.ended(calls[1].0, Ok(()));
    bench.after(1);
    assert_eq!(bench.due().iter().map(|call| call.1).collect::<Vec<_>>(), [Some(PartitionId(1))]);
    // An error at one stops all; what is in progress elsewhere ends and is counted.
    bench.failed(calls[2].0);
    bench.ended(calls[0].0, Ok(()));
    let rows = bench.rows();
    assert!(rows.iter().all(|row| row.1 == "ERROR"), "{rows:?}");
    assert_eq!(
        rows.iter().map(|row| (row.0, row.3, row.4)).collect::<Vec<_>>(),
        [(0, 1, 0), (1, 1, 0), (2, 1, 1)]
    );
    assert_eq!(rows[2].2, "procedure d failed at partition 2: no luck");
    bench.after(5);
    assert!(bench.due().is_empty());
}

#[test]
fn places_that_are_gone_and_come_again_are_others() {
    let at_partitions = "CREATE TASK k ON SCHEDULE EVERY 1 SECONDS PROCEDURE d RUN ON PARTITIONS";
    let mut bench = Bench::new(at_partitions);
    bench.after(1);
    let before = bench.due();
    bench.change("DROP TASK k");
    bench.change("CREATE TASK k ON SCHEDULE EVERY 1 SECONDS PROCEDURE p WITH (1)");
    bench.change("DROP TASK k");
    bench.change(at_partitions);
    bench.after(1);
    let begun = bench.due();
    assert_eq!(
        begun.iter().map(|call| call.1).collect::<Vec<_>>(),
        [Some(PartitionId(1)), Some(PartitionId(2))]
    );
    bench.failed(before[1].0);
    assert_eq!(bench.rows().iter().map(|row| row.3).collect::<Vec<_>>(), [0, 0, 0]);
    bench.after(1);
    assert!(bench.due().is_empty(), "its own call is in progress at partition 1");
    bench.ended(begun[0].0, Ok(()));
    assert_eq!(bench.due().len(), 1);
}

#[test]
fn while_nothing_may_run_intervals_wait_and_times_of_the_calendar_pass() {
    let mut bench = Bench::new(
        "CREATE TASK a ON SCHEDULE EVERY 10 SECONDS PROCEDURE p WITH (7);
         CREATE TASK b ON SCHEDULE CRON 0 * * * * * PROCEDURE p WITH (8)",
    );
    bench.after(3_601);
    assert!(bench.due_if(false).is_empty());
    let left_ns = bench.tasks.left_ns(bench.now.get());
    assert!(left_ns.is_some_and(|ns| ns > 0), "it does not look again at once: {left_ns:?}");
    bench.after(57);
    assert!(bench.due_if(false).is_empty());
    let [call] = bench.due()[..] else { panic!("only the one by interval is due") };
    bench.ended(call.0, Ok(()));
    assert!(bench.due().is_empty(), "it is not made up for");
    bench.after(2);
    assert_eq!(bench.due().len(), 1, "the next minute");
}
