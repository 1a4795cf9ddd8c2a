//! Verdicts on entries, and digests that differ; the simulator runs whole followers.

use super::digests::DigestTrail;
use super::verdicts::{Verdict, Verdicts};
use lockstep_txn::log_entry::{LogSource, Vote, WriterRound, begin_fragments, put_commit};
use lockstep_txn::replica::Piece;
use lockstep_txn::sp::first_entry;
use lockstep_txn::{EntryHeader, EntryKind, EntryReader, LogBuffer};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{ParameterSet, PartitionId, TransactionId};

const OWN: PartitionId = PartitionId(3);
const NOW: i64 = 1_700_000_000_000;

fn multi(counter: u32) -> EntryHeader {
    first_entry(TransactionId::new(NOW, counter, PartitionId::MULTI))
}

fn call(counter: u32) -> EntryHeader {
    first_entry(TransactionId::new(NOW, counter, OWN))
}

fn command(log: &mut LogBuffer, header: &EntryHeader, name: &str) {
    let mut writer = ParameterWriter::default();
    writer.bigint(7);
    let set = ParameterSet::from_parts(1, writer.bytes());
    log.command(header, 1, name, false, &set);
}

fn fragments(log: &mut LogBuffer, header: &EntryHeader) {
    let mut body = Vec::new();
    begin_fragments(&mut body, 1, Vote::Yes, &[OWN]);
    log.append(header, EntryKind::Fragments, &body);
}

fn verdicts_of(bytes: &[u8], known: usize) -> Vec<Verdict> {
    let (mut verdicts, mut entries) = (Verdicts::new(4), Vec::new());
    let mut reader = EntryReader::new(bytes);
    while let Some(entry) = reader.read().expect("it is sound") {
        entries.push(entry);
    }
    entries.iter().take(known).for_each(|entry| verdicts.note(entry, 1));
    verdicts.check_invariants();
    entries.iter().map(|entry| verdicts.of(entry)).collect()
}

#[test]
fn entries_wait_for_decisions_and_the_last_vote_of_a_call_counts() {
    use Verdict::{Failed, Pass, Run, Wait};
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
    fragments(&mut log, &multi(1));
    command(&mut log, &call(1), "A");
    command(&mut log, &call(2), "B");
    log.append(&call(2), EntryKind::Vote, &[Vote::No as u8]);
    fragments(&mut log, &multi(2));
    log.append(&multi(1), EntryKind::Abort, &[]);
    // What ran after what is aborted runs again: one fails now, the other one succeeds.
    log.append(&call(1), EntryKind::Vote, &[Vote::No as u8]);
    log.append(&call(2), EntryKind::Vote, &[Vote::Yes as u8]);
    let mut body = Vec::new();
    put_commit(&mut body, [WriterRound { partition: OWN, round: 1 }].into_iter());
    log.append(&multi(2), EntryKind::Commit, &body);
    command(&mut log, &call(3), "C");
    log.append(&call(3), EntryKind::Withdrawn, &[]);
    let bytes = log.bytes().to_vec();
    assert_eq!(verdicts_of(&bytes, 5)[..5], [Wait, Run, Failed, Pass, Wait]);
    assert_eq!(
        verdicts_of(&bytes, 11),
        [Pass, Failed, Run, Pass, Run, Pass, Pass, Pass, Pass, Failed, Pass]
    );
}

fn piece(first: u64, names: &[&str]) -> Piece {
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), first - 1);
    for (counter, name) in (first as u32..).zip(names) {
        command(&mut log, &call(counter), name);
    }
    Piece::of(&log.take(Vec::new()))
}

#[test]
fn digests_are_compared_by_position_and_a_difference_names_what_ran() {
    let mut trail = DigestTrail::new(0);
    trail.note_own(piece(1, &["A", "B"]), 10);
    trail.note_own(piece(3, &["C"]), 11);
    trail.note_leader(2, 10);
    // The leader has no digest of every position, and this copy none of every one either.
    trail.note_leader(5, 20);
    trail.note_own(piece(4, &["D", "D"]), 20);
    assert_eq!(trail.divergence(OWN), None);
    trail.note_own(piece(6, &["E"]), 30);
    trail.note_own(piece(7, &["F", "E"]), 41);
    trail.note_leader(8, 40);
    trail.note_own(piece(9, &["G"]), 50);
    trail.note_leader(9, 50);
    let differs = trail.divergence(OWN).expect("a digest differs");
    assert_eq!(
        (differs.after, differs.position, &differs.ran[..]),
        (5, 8, &["E".into(), "F".into()][..])
    );
    assert_eq!(
        differs.to_string(),
        "the copy of partition 3 differs from its leader: entries 6 to 8 of its log did not do \
         the same (E, F)"
    );
}

#[test]
fn nothing_is_read_between_two_entries_of_a_transaction_that_is_committed() {
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
    fragments(&mut log, &multi(1));
    fragments(&mut log, &multi(1));
    let mut body = Vec::new();
    put_commit(&mut body, [WriterRound { partition: OWN, round: 2 }].into_iter());
    log.append(&multi(1), EntryKind::Commit, &body);
    let bytes = log.bytes().to_vec();
    let (mut verdicts, mut reader) = (Verdicts::new(4), EntryReader::new(&bytes));
    let mut entries = Vec::new();
    while let Some(entry) = reader.read().expect("it is sound") {
        // Before the commit has come nothing of it is applied.
        assert!(verdicts.are_whole());
        verdicts.note(&entry, 1);
        entries.push(entry);
    }
    for entry in &entries {
        assert!(!verdicts.are_whole(), "one of its entries may be applied, and another one not");
        verdicts.pass(entry);
    }
    assert!(verdicts.are_whole());
}
