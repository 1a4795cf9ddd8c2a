//! A host stops statements and counts what their operators do.

use super::support::*;
use lockstep_exec::statement::execute;
use lockstep_exec::watch::{
    Caller, LimitSource, OperatorProfile, Overdue, Profiler, Stop, StopCheck, Stopwatch, TimeLimit,
    Watch,
};
use lockstep_exec::{Database, PreparedStatement};
use lockstep_plan_ir::expression::Comparison;
use lockstep_plan_ir::relation::{JoinKind, SetBranch};
use lockstep_plan_ir::{AggregateFunction, Operation, Relation};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// T(ID, V) with these many rows, V = 2 * ID.
fn numbers(rows: i64) -> Database {
    let columns = vec![
        not_null("ID", lockstep_types::SqlType::BigInt),
        column("V", lockstep_types::SqlType::BigInt),
    ];
    let mut database = database(vec![table(0, "T", columns, vec![index("PK", &[0], true)])]);
    for id in 0..rows {
        must(&mut database, insert(0, vec![int(id), int(2 * id)]));
    }
    database
}

/// A check that is overdue from the question with this number on, and the count of questions.
fn overdue_at(question: u64) -> (Watch, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let counter = asked.clone();
    let (source, caller) = (LimitSource::Call, Caller::NONE);
    let limit = TimeLimit { timeout_ms: 1200, source, caller };
    let stop = StopCheck::new(move || {
        let asked = counter.fetch_add(1, Ordering::Relaxed) + 1;
        (asked >= question).then_some(Stop::Overdue(Overdue { elapsed_ms: 1234, limit }))
    });
    (Watch { stop: Some(stop), profiler: None }, asked)
}

fn all_pairs() -> Relation {
    let on = (big(0, 1), big(1, 1));
    join(JoinKind::Inner, scan(0, 0), scan(1, 0), (0, 1), on, false)
}

/// 1, 2, 3 and so on, without end.
fn endless() -> Relation {
    let base = SetBranch { relation: Relation::OneRow, output: vec![int(1)] };
    let step = SetBranch {
        relation: Relation::Working { number: 0, slot: 1 },
        output: vec![add(big(1, 0), int(1))],
    };
    Relation::Recursive {
        number: 0,
        base: Box::new(base),
        step: Box::new(step),
        all: true,
        slot: 2,
    }
}

fn sorted(input: Relation) -> Relation {
    Relation::Sort {
        input: Box::new(input),
        keys: vec![descending(big(0, 1))],
        limit: None,
        offset: None,
    }
}

fn expect_stopped(database: &mut Database, operation: Operation) {
    let before = must(database, query(scan(0, 0), vec![big(0, 0), big(0, 1)]));
    let (watch, asked) = overdue_at(2);
    database.set_watch(watch);
    let error = run(database, operation, &[]).expect_err("its time is over");
    assert_eq!(
        error.message(),
        "the query was stopped after 1.234 seconds: it exceeded the query-specific timeout \
         period of 1.200 seconds"
    );
    assert_eq!(error.state(), "57014");
    assert_eq!(asked.load(Ordering::Relaxed), 2, "it ends at the first answer");
    database.set_watch(Watch::default());
    assert_eq!(must(database, query(scan(0, 0), vec![big(0, 0), big(0, 1)])), before);
}

#[test]
fn every_loop_of_a_statement_ends_when_its_time_is_over() {
    let mut database = numbers(9000);
    let count = vec![call(AggregateFunction::CountStar, None)];
    let counted = |input| Relation::Aggregate {
        input: Box::new(input),
        slot: 3,
        group: vec![],
        calls: count.clone(),
    };
    expect_stopped(&mut database, query(counted(all_pairs()), vec![big(3, 0)]));
    expect_stopped(&mut database, query(endless(), vec![big(2, 0)]));
    expect_stopped(&mut database, query(sorted(scan(0, 0)), vec![big(0, 0)]));
    let positive = compare(Comparison::Greater, big(0, 1), int(-1));
    expect_stopped(&mut database, query(scan_where(0, 0, Some(positive)), vec![big(0, 0)]));
    let assignments = vec![(1, add(big(0, 1), int(1)))];
    expect_stopped(&mut database, update(0, scan(0, 0), assignments));
    expect_stopped(&mut database, delete(0, scan(0, 0)));
}

/// The rows are found before the question that stops, and some are changed.
#[test]
fn a_change_that_is_stopped_half_way_changes_nothing() {
    let mut database = numbers(9000);
    let before = must(&mut database, query(scan(0, 0), vec![big(0, 0), big(0, 1)]));
    let (watch, asked) = overdue_at(u64::MAX);
    database.set_watch(watch);
    must(&mut database, update(0, scan(0, 0), vec![(1, add(big(0, 1), int(0)))]));
    let questions = asked.load(Ordering::Relaxed);
    let (watch, _) = overdue_at(questions);
    database.set_watch(watch);
    run(&mut database, update(0, scan(0, 0), vec![(1, add(big(0, 1), int(1)))]), &[])
        .expect_err("the last question stops it");
    database.set_watch(Watch::default());
    let after = must(&mut database, query(scan(0, 0), vec![big(0, 0), big(0, 1)]));
    assert_eq!(after, before);
}

#[test]
fn a_stopwatch_counts_from_the_first_check_of_each_call() {
    let mut database = numbers(9000);
    let clock_ms = Arc::new(AtomicU64::new(5_000));
    let ticking = clock_ms.clone();
    // Every look at the clock finds it 100 ms later.
    let stopwatch = Stopwatch::new(move || ticking.fetch_add(100, Ordering::Relaxed));
    database.set_watch(Watch { stop: Some(stopwatch.check()), profiler: None });
    let endless = || query(endless(), vec![big(2, 0)]);
    for (timeout_ms, source, part) in [
        (
            250,
            LimitSource::Call,
            "the query was stopped after 0.300 seconds: it exceeded the query-specific timeout \
             period of 0.250",
        ),
        (
            1_000,
            LimitSource::Host,
            "after 1.000 seconds: it exceeded the default query timeout period",
        ),
        (
            500,
            LimitSource::Transaction,
            "the statement was stopped after 0.500 seconds: it exceeded the rest of its \
             transaction's time (option transaction_timeout_ms)",
        ),
        (
            300,
            LimitSource::Write,
            "the statement was stopped after 0.300 seconds: it exceeded the timeout period of \
             writes (option write_timeout_ms) of 0.300",
        ),
    ] {
        stopwatch.start(Some(TimeLimit { timeout_ms, source, caller: Caller::NONE }));
        let error = run(&mut database, endless(), &[]).expect_err("its time is over");
        assert!(error.message().contains(part), "{}", error.message());
    }
    let looks = clock_ms.load(Ordering::Relaxed);
    stopwatch.start(None);
    must(&mut database, query(scan(0, 0), vec![big(0, 0)]));
    assert_eq!(clock_ms.load(Ordering::Relaxed), looks, "without a limit nobody looks");
}

#[test]
fn a_query_is_canceled_when_its_caller_has_left() {
    let mut database = numbers(9000);
    let clock_ms = Arc::new(AtomicU64::new(5_000));
    let ticking = clock_ms.clone();
    let asked = Arc::new(AtomicU64::new(0));
    let asking = asked.clone();
    // The caller with number 7 leaves when it was looked for three times; the others stay.
    let has_left = move |caller| {
        let asked = asking.fetch_add(1, Ordering::Relaxed) + 1;
        caller == Caller(7) && asked > 3
    };
    // Each check finds the clock 5 ms later.
    let clock = move || ticking.fetch_add(5, Ordering::Relaxed);
    let stopwatch = Stopwatch::with_callers(clock, has_left);
    database.set_watch(Watch { stop: Some(stopwatch.check()), profiler: None });
    let endless = || query(endless(), vec![big(2, 0)]);
    let limit = |timeout_ms, caller| {
        Some(TimeLimit { timeout_ms, source: LimitSource::Host, caller: Caller(caller) })
    };
    for timeout_ms in [TimeLimit::NO_TIMEOUT, 10_000] {
        asked.store(0, Ordering::Relaxed);
        let begun = clock_ms.load(Ordering::Relaxed);
        stopwatch.start(limit(timeout_ms, 7));
        let error = run(&mut database, endless(), &[]).expect_err("nobody waits for it");
        assert!(error.message().contains("canceled: its client closed"), "{}", error.message());
        assert_eq!(asked.load(Ordering::Relaxed), 4);
        let took_ms = clock_ms.load(Ordering::Relaxed) - begun;
        assert!((160..200).contains(&took_ms), "looks have a distance: {took_ms}");
    }
    stopwatch.start(limit(500, 8));
    let error = run(&mut database, endless(), &[]).expect_err("its time is over");
    assert!(error.message().contains("after 0.500 seconds"), "{}", error.message());
    // A call without a client has nobody to look for, and a short one ends before the first look.
    asked.store(0, Ordering::Relaxed);
    stopwatch.start(limit(500, 0));
    run(&mut database, endless(), &[]).expect_err("its time is over");
    stopwatch.start(limit(500, 7));
    must(&mut database, query(scan(0, 0), vec![big(0, 0)]));
    assert_eq!(asked.load(Ordering::Relaxed), 0);
}

#[test]
fn operators_are_counted_with_their_loops_and_times() {
    let mut database = numbers(3);
    let below = compare(Comparison::Less, big(0, 0), int(2));
    let on = (big(0, 1), big(1, 1));
    let pairs = join(JoinKind::Inner, scan_where(0, 0, Some(below)), scan(1, 0), (0, 1), on, false);
    let statement = Arc::new(statement(query(sorted(pairs), vec![big(0, 0)]), 0));
    let clock = AtomicU64::new(0);
    let profiler =
        Arc::new(Profiler::new(statement.clone(), move || clock.fetch_add(1, Ordering::Relaxed)));
    let prepared = PreparedStatement::new(statement);
    database.set_watch(Watch { stop: None, profiler: Some(profiler.clone()) });
    let mut out = Vec::new();
    execute(&mut database, &prepared, &[], &mut out).expect("rows");
    assert_eq!(show(&out), "1 / 0");
    let counts = |profile: &OperatorProfile| (profile.rows, profile.loops);
    let operators = profiler.operators();
    // Sort, join, left scan, right scan.
    let counted: Vec<_> = operators.iter().map(counts).collect();
    assert_eq!(counted, [(2, 1), (2, 1), (2, 1), (6, 2)]);
    assert!(operators[0].ticks > operators[1].ticks, "{operators:?}");
    assert!(operators[1].ticks > operators[3].ticks, "{operators:?}");
}
