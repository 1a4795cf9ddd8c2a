//! Interleavings of lost leaders and coordinators, one message at a time.

use super::*;
use crate::world::Shape;
use lockstep_site::{Faults, Numbered};

/// What a transaction finds that has read at a leader that is lost, and has still to read
/// elsewhere, where writes are answered one after the other in between; and whether the first
/// of these is answered before the transaction.
fn read_across_a_loss(faults: Faults) -> (bool, Vec<u8>) {
    let shape = Shape { followers: 1, faults, ..Shape::of(2) };
    let mut world = World::new(4, shape);
    world.schema("CREATE TABLE t (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id));");
    world.schema("PARTITION TABLE t ON COLUMN id;");
    let key = |at| (0..100).find(|key| world.partition_of(*key) == PartitionId(at));
    let keys = [0, 1].map(|at| key(at).expect("each partition has keys"));
    let insert = world.prepare("INSERT INTO t VALUES (?, 0)");
    let read = world.prepare("SELECT n FROM t WHERE id = ?");
    let write = world.prepare("UPDATE t SET n = n + 1 WHERE id = ?");
    keys.iter().for_each(|key| world.call(0, &[(&insert, &[*key])]));
    world.settle();
    world.take_answers();
    world.call(1, &[(&read, &keys[..1]), (&read, &keys[1..])]);
    let held = loop {
        let is_it = |message: &Message| {
            let Message::ToPartition(Numbered { partition, message, .. }) = message else {
                return false;
            };
            *partition == PartitionId(1) && matches!(message, ToPartition::Fragments(_))
        };
        if let Some(place) = world.in_flight.iter().position(is_it) {
            break world.in_flight.swap_remove(place);
        }
        assert!(world.step(), "the transaction begins");
    };
    world.settle();
    assert!(world.lose_leader(PartitionId(0)) && world.take_answers().is_empty());
    world.settle();
    world.call(2, &[(&write, &keys[..1])]);
    world.settle();
    let is_answered = world.take_answers().iter().any(|answer| answer.call == 2);
    world.call(3, &[(&write, &keys[1..])]);
    world.settle();
    world.in_flight.push(held);
    world.settle();
    let answers = world.take_answers();
    let read = answers.into_iter().find(|answer| answer.call == 1).expect("it is answered");
    assert_eq!(read.outcome.failure, None);
    (is_answered, read.tables)
}

/// A write at the new leader is answered after the read that was there before, which is
/// ordered again. If the answer of the lost leader counted, the transaction would see the same:
/// a later write elsewhere, and not the one here that was answered before that was sent.
#[test]
fn what_was_read_at_a_lost_leader_is_read_again() {
    let (answered_first, sound) = read_across_a_loss(Faults::default());
    assert!(!answered_first, "the write waits for the read before it");
    let faults = Faults { keep_old_answers: true, ..Faults::default() };
    let (answered_first, broken) = read_across_a_loss(faults);
    assert!(answered_first && broken == sound, "the fault is noticed");
}

/// A request for a report that comes again does not make a copy drop what the coordinator,
/// which has the report, sends after its decisions.
#[test]
fn a_repeated_request_for_a_report_changes_nothing() {
    let mut world = World::new(4, Shape { followers: 1, ..Shape::of(2) });
    world.schema("CREATE TABLE t (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id));");
    world.schema("PARTITION TABLE t ON COLUMN id;");
    let count = world.prepare("SELECT COUNT(*) FROM t");
    world.settle();
    world.take_answers();
    let partition = PartitionId(0);
    assert!(world.lose_leader(partition));
    let next = |world: &mut World, is_it: fn(&ToPartition<u64>) -> bool| loop {
        let is_due = |message: &Message| match message {
            Message::ToPartition(told) => told.partition == partition && is_it(&told.message),
            _ => false,
        };
        if let Some(place) = world.in_flight.iter().position(is_due) {
            break world.in_flight.swap_remove(place);
        }
        assert!(world.step(), "the coordinator sends it");
    };
    let decisions = next(&mut world, |told| matches!(told, ToPartition::Resolve { .. }));
    world.call(1, &[(&count, &[])]);
    let part = next(&mut world, |told| {
        matches!(told, ToPartition::Fragments(_) | ToPartition::OneRound { .. })
    });
    world.deliver(decisions);
    world.deliver(part);
    world.deliver(Message::Fence(partition, world.epoch));
    world.settle();
    let answers = world.take_answers();
    assert_eq!(answers.iter().map(|answer| answer.call).collect::<Vec<_>>(), [1]);
    assert_eq!(answers[0].outcome.failure, None);
}

const INDEXED: &str = "
    CREATE TABLE t (id BIGINT NOT NULL, k BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id));
    PARTITION TABLE t ON COLUMN id;
    CREATE GLOBAL UNIQUE INDEX t_k ON t (k);";

/// A row at each of three partitions, whose key in the index is its id.
fn indexed_rows(faults: Faults) -> (World, [i64; 3]) {
    let mut world = World::new(4, Shape { followers: 1, faults, ..Shape::of(3) });
    world.schema(INDEXED);
    let key = |at| (0..100).find(|key| world.partition_of(*key) == PartitionId(at));
    let keys = [0, 1, 2].map(|at| key(at).expect("each partition has keys"));
    let insert = world.prepare("INSERT INTO t VALUES (?, ?, 0)");
    keys.iter().for_each(|key| world.call(0, &[(&insert, &[*key, *key])]));
    world.settle();
    world.take_answers();
    (world, keys)
}

/// Delivers what is not held back; that is lost.
fn settle_without(world: &mut World, is_held: fn(&Message) -> bool) {
    loop {
        world.in_flight.retain(|message| !is_held(message));
        if !world.step() {
            return;
        }
    }
}

fn is_decision(message: &Message) -> bool {
    let Message::ToPartition(told) = message else { return false };
    matches!(told.message, ToPartition::Decision { .. })
}

fn is_commit(message: &Message) -> bool {
    let Message::ToPartition(told) = message else { return false };
    matches!(told.message, ToPartition::Decision { commit: true, .. })
}

fn is_round(message: &Message) -> bool {
    let Message::ToPartition(told) = message else { return false };
    matches!(told.message, ToPartition::Fragments(_))
}

fn is_of_last_round(message: &Message) -> bool {
    let Message::ToPartition(told) = message else { return false };
    matches!(&told.message, ToPartition::Fragments(tasks) if tasks.last)
}

fn is_answer(message: &Message) -> bool {
    matches!(message, Message::FromPartition(lockstep_site::FromPartition::Answer(_)))
}

/// All that vote have said yes to a transaction, and the coordinator has not heard of it, when
/// the leader of a partition is lost that had written in an earlier round: it is ordered again.
/// Then nothing can go on, and the coordinator is lost before the abort is in a log. Whether
/// the caller has heard that everything is undone, and what is there then.
fn ordered_again_and_undone(faults: Faults) -> (bool, Vec<u8>) {
    let (mut world, [first, second, _]) = indexed_rows(faults);
    let write = world.prepare("UPDATE t SET n = n + 1 WHERE k = ?");
    let read = world.prepare("SELECT n FROM t WHERE id = ?");
    world.call(1, &[(&write, &[first]), (&write, &[second])]);
    while !world.in_flight.iter().any(is_of_last_round) {
        assert!(world.step(), "its last round begins");
    }
    settle_without(&mut world, is_answer);
    assert!(world.lose_leader(PartitionId(0)) && world.take_answers().is_empty());
    settle_without(&mut world, is_decision);
    world.fail_all();
    settle_without(&mut world, is_decision);
    let mut answers = world.take_answers().into_iter().filter(|answer| answer.call == 1);
    let failure = answers.next().and_then(|answer| answer.outcome.failure);
    let is_told = failure.is_some_and(|one| one.status != Status::ResponseUnknown);
    assert!(world.lose_coordinator(&[]));
    world.settle();
    world.take_answers();
    world.call(3, &[(&read, &[second])]);
    world.settle();
    (is_told, world.take_answers().remove(0).tables)
}

#[test]
fn nothing_is_ordered_again_before_a_log_has_its_abort() {
    let (is_told, committed) = ordered_again_and_undone(Faults::default());
    assert!(!is_told, "the call waits until a log has the abort");
    let faults = Faults { repeat_undecided: true, ..Faults::default() };
    let (is_told, told_undone) = ordered_again_and_undone(faults);
    assert!(is_told && told_undone == committed, "the fault is noticed");
}

/// Of two transactions the second one writes where the first one only read, in its last round;
/// that it is committed no vote tells. The coordinator is lost when it has decided and no
/// partition has heard of it. Whether the second one was answered as committed, and what it
/// has left then.
fn decided_and_not_heard_of(faults: Faults) -> (bool, Vec<u8>) {
    let (mut world, [writes, reads, other]) = indexed_rows(faults);
    let write = world.prepare("UPDATE t SET n = n + 1 WHERE id = ?");
    let write_by_index = world.prepare("UPDATE t SET n = n + 1 WHERE k = ?");
    let read_by_index = world.prepare("SELECT n FROM t WHERE k = ?");
    let read = world.prepare("SELECT n FROM t WHERE id = ?");
    world.call(1, &[(&write_by_index, &[writes]), (&read_by_index, &[reads])]);
    while !world.in_flight.iter().any(is_round) {
        assert!(world.step(), "its first round begins");
    }
    world.call(2, &[(&write, &[reads]), (&write, &[other])]);
    settle_without(&mut world, is_commit);
    let mut answers = world.take_answers().into_iter().filter(|answer| answer.call == 2);
    let is_answered = answers.next().is_some_and(|answer| answer.outcome.failure.is_none());
    assert!(world.lose_coordinator(&[]));
    world.settle();
    world.take_answers();
    world.call(3, &[(&read, &[other])]);
    world.settle();
    (is_answered, world.take_answers().remove(0).tables)
}

#[test]
fn nothing_is_decided_that_ran_after_a_commit_that_no_log_has() {
    let (is_answered, undone) = decided_and_not_heard_of(Faults::default());
    assert!(!is_answered, "the second one waits until a log has the decision on the first one");
    let faults = Faults { decide_past_commits: true, ..Faults::default() };
    let (is_answered, lost) = decided_and_not_heard_of(faults);
    assert!(is_answered && lost == undone, "the fault is noticed");
}
