//! The schedule, by a clock that the test sets.

use super::*;
use lockstep_plan_ir::statement::{Execution, IndexUpkeep, Operation};
use lockstep_types::TableSchema;

const CHECK_US: i64 = 1_000_000;
const NOW_US: i64 = 1_700_000_000_000_000;

fn statement() -> Arc<PreparedStatement> {
    Arc::new(PreparedStatement::new(Arc::new(lockstep_plan_ir::Statement {
        text: String::new(),
        parameters: Vec::new(),
        result: TableSchema::modified_tuples(),
        read_only: false,
        execution: Execution::Local { operation: Operation::Truncate(TableId(0)), routing: None },
        guards: Vec::new(),
        slot_count: 0,
        subquery_count: 0,
        ordered: true,
        upkeep: IndexUpkeep::None,
        needs_entries: false,
    })))
}

fn table(id: u32, is_replicated: bool, max_frequency: u32) -> Expiring {
    Expiring {
        name: format!("T{id}"),
        table: TableId(id),
        is_replicated,
        lifetime_us: 60_000_000,
        batch_rows: 10,
        max_frequency,
        by: Some((IndexId(0), statement())),
    }
}

fn schedule(tables: Vec<Expiring>) -> ExpirySchedule {
    let mut schedule = ExpirySchedule::new(3, CHECK_US, 100);
    schedule.set_tables(tables, NOW_US);
    schedule
}

#[test]
fn each_partition_looks_and_a_replicated_table_is_looked_at_once() {
    let mut schedule = schedule(vec![table(1, false, 1), table(2, true, 1)]);
    let polls = schedule.begin_polls(NOW_US);
    let places: Vec<(u32, u32)> = polls.iter().map(|l| (l.table.0, l.partition.0)).collect();
    assert_eq!(places, [(1, 0), (1, 1), (1, 2), (2, 0)]);
    assert!(polls.iter().all(|poll| poll.cut_off_us == NOW_US - 60_000_000));
    assert!(schedule.begin_polls(NOW_US + 9 * CHECK_US).is_empty(), "they poll already");
    assert_eq!(schedule.due_us(), None);
    let batch = schedule.seen(polls[3].unit, Some(1), NOW_US).expect("there is a row");
    assert_eq!(batch.partition, None, "it runs everywhere");
    let batch = schedule.seen(polls[1].unit, Some(1), NOW_US + 5).expect("there is a row");
    assert_eq!(batch.partition, Some(PartitionId(1)));
    assert_eq!(batch.cut_off_us, polls[1].cut_off_us, "the time of the poll");
}

#[test]
fn without_rows_nothing_begins_until_the_next_check() {
    let mut schedule = schedule(vec![table(1, true, 1)]);
    let poll = schedule.begin_polls(NOW_US)[0];
    assert!(schedule.seen(poll.unit, Some(0), NOW_US + 7).is_none());
    assert_eq!(schedule.due_us(), Some(NOW_US + 7 + CHECK_US));
    let poll = schedule.begin_polls(NOW_US + 7 + CHECK_US)[0];
    assert!(schedule.seen(poll.unit, None, NOW_US).is_none(), "another catalog is in force there");
}

#[test]
fn more_rows_go_as_often_as_the_frequency_lets_them() {
    for (max_frequency, pause_us) in [(1, 1_000_000), (4, 250_000), (3, 333_334)] {
        let mut schedule = schedule(vec![table(1, true, max_frequency)]);
        let (mut now_us, mut left, mut begun) = (NOW_US, 45, Vec::new());
        while left > 0 {
            let poll = schedule.begin_polls(now_us)[0];
            let batch = schedule.seen(poll.unit, Some(left), now_us + 3).expect("there are rows");
            begun.push(now_us + 3);
            assert_eq!(batch.rows, 10);
            schedule.ended(poll.unit, Some(left.min(10)), now_us + 9);
            left = left.saturating_sub(10);
            now_us = schedule.due_us().expect("it waits");
        }
        assert_eq!(begun.len(), 5);
        assert!(begun.windows(2).all(|pair| pair[1] - pair[0] >= pause_us), "{begun:?}");
        assert!(now_us >= begun[4] + CHECK_US);
        let counts = &schedule.counts()[0];
        assert_eq!((counts.deleted, counts.deleted_last, counts.remaining), (45, 5, 0));
        assert_eq!(counts.last_delete_us, Some(begun[4] + 6));
    }
}

#[test]
fn a_check_more_often_than_the_frequency_begins_nothing_early() {
    let mut schedule = ExpirySchedule::new(1, 1_000, 100);
    schedule.set_tables(vec![table(1, false, 2)], NOW_US);
    let poll = schedule.begin_polls(NOW_US)[0];
    schedule.seen(poll.unit, Some(1), NOW_US).expect("a row");
    schedule.ended(poll.unit, Some(1), NOW_US + 1);
    assert_eq!(schedule.due_us(), Some(NOW_US + 500_000));
}

#[test]
fn looks_count_no_more_in_a_second_the_more_of_them_there_are() {
    let rows_max = |max_frequency| {
        let mut schedule = schedule(vec![table(1, true, max_frequency)]);
        schedule.begin_polls(NOW_US)[0].rows_max
    };
    assert_eq!([1, 100, 1_000_000].map(rows_max), [10_010, 110, 11]);
}

#[test]
fn what_fails_is_tried_again_at_the_next_check() {
    let mut schedule = schedule(vec![table(1, true, 100)]);
    let poll = schedule.begin_polls(NOW_US)[0];
    schedule.seen(poll.unit, Some(30), NOW_US).expect("rows");
    schedule.ended(poll.unit, None, NOW_US + 1);
    assert_eq!(schedule.due_us(), Some(NOW_US + 1 + CHECK_US));
    assert_eq!(schedule.counts()[0].deleted, 0);
    schedule.put_off(NOW_US + 2 * CHECK_US);
    assert_eq!(schedule.due_us(), Some(NOW_US + 3 * CHECK_US), "while nothing may be deleted");
}

#[test]
fn other_tables_keep_what_was_counted_of_those_that_stay() {
    let mut schedule = schedule(vec![table(1, true, 1), table(2, true, 1)]);
    for poll in schedule.begin_polls(NOW_US) {
        schedule.seen(poll.unit, Some(4), NOW_US).expect("rows");
        schedule.ended(poll.unit, Some(4), NOW_US);
    }
    let renamed = Expiring { name: "OTHER".to_string(), ..table(2, true, 1) };
    let without_index = Expiring { by: None, ..table(1, true, 1) };
    schedule.set_tables(vec![without_index, renamed], NOW_US + 1);
    let deleted: Vec<(String, u64)> =
        schedule.counts().into_iter().map(|counts| (counts.name, counts.deleted)).collect();
    assert_eq!(deleted, [("OTHER".to_string(), 0), ("T1".to_string(), 4)]);
    let polls = schedule.begin_polls(NOW_US + 9 * CHECK_US);
    assert_eq!(polls.len(), 1, "no index, no poll");
}

#[test]
fn no_transaction_is_larger_than_the_host_allows() {
    let mut schedule = schedule(vec![Expiring { batch_rows: 5_000, ..table(1, true, 1) }]);
    let poll = schedule.begin_polls(NOW_US)[0];
    assert_eq!(schedule.seen(poll.unit, Some(900), NOW_US).map(|batch| batch.rows), Some(100));
    let mut never = ExpirySchedule::new(1, 0, 100);
    never.set_tables(vec![table(1, true, 1)], NOW_US);
    assert!(never.begin_polls(NOW_US).is_empty());
    assert_eq!(never.due_us(), None);
}
