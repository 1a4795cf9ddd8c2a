//! Entries are read back as they were written, in any transfer; bytes that are
//! no entries are errors.

use super::*;
use crate::sp::first_entry;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, HostId, SqlType};

const OWN: PartitionId = PartitionId(5);
const TIME_MS: i64 = 1_790_000_000_000;

fn own(ms: i64, counter: u32) -> EntryHeader {
    first_entry(TransactionId::new(TIME_MS + ms, counter, OWN))
}

fn multi(ms: i64) -> EntryHeader {
    first_entry(TransactionId::new(TIME_MS + ms, 0, PartitionId::MULTI))
}

fn parameters(value: i64) -> Vec<u8> {
    let mut writer = ParameterWriter::default();
    writer.bigint(value).scalar(SqlType::Varchar, Datum::Text("é"));
    writer.bytes().to_vec()
}

/// An entry as text.
fn described(entry: &Entry<'_>) -> String {
    let what = match &entry.body {
        EntryBody::Command(command) => format!(
            "{} {} {:?}",
            command.procedure,
            command.addresses_partition,
            command.parameters.iter().map(|p| format!("{p:?}")).collect::<Vec<_>>()
        ),
        EntryBody::Fragments(fragments) => format!(
            "{fragments:?} {:?} {:?}",
            fragments.participants().collect::<Vec<_>>(),
            fragments.parts().collect::<Vec<_>>()
        ),
        EntryBody::Call(call) => {
            format!("{call:?} {:?}", call.participants().collect::<Vec<_>>())
        }
        EntryBody::Commit(commit) => {
            format!("Commit {:?}", commit.writers().collect::<Vec<_>>())
        }
        EntryBody::Statements => format!("{:?}", entry.statements().collect::<Vec<_>>()),
        other => format!("{other:?}"),
    };
    format!("{} {:?} {}", entry.sequence, entry.header.transaction, what)
}

fn read_all(bytes: &[u8]) -> Result<Vec<String>, EntryError> {
    let mut reader = EntryReader::new(bytes);
    let mut entries = Vec::new();
    while let Some(entry) = reader.read()? {
        assert_eq!(entry.header.timestamp_us, entry.header.transaction.time_ms() * 1000);
        if let EntryBody::Fragments(fragments) = &entry.body {
            fragments.parts().collect::<Result<Vec<_>, _>>()?;
        }
        entry.statements().collect::<Result<Vec<_>, _>>()?;
        entries.push(described(&entry));
    }
    Ok(entries)
}

fn vote(log: &mut LogBuffer, header: &EntryHeader, value: i64) {
    let bytes = parameters(value);
    log.command(header, 3, "Vote", false, &ParameterSet::new(&bytes).unwrap());
}

/// One entry of each kind.
fn all_kinds(log: &mut LogBuffer) {
    let text =
        StatementSource::Text { text: "DELETE FROM t", single_partition: true, rules_off: 1 << 40 };
    let third = StatementSource::Procedure { name: "P", number: 3 };
    let mut bodies = Vec::new();
    let mut add = |kind: EntryKind, write: &dyn Fn(&mut Vec<u8>)| {
        let mut body = Vec::new();
        write(&mut body);
        bodies.push((kind, body));
    };
    add(EntryKind::Statements, &|body| {
        put_statement(body, &text, &parameters(1));
        put_statement(body, &third, &[0, 0]);
    });
    add(EntryKind::Load, &|body| put_load(body, "T.insert", b"rows"));
    add(EntryKind::Fragments, &|body| {
        begin_fragments(body, 1, Vote::None, &[]);
        put_part(body, PartKind::Home { addresses_partition: true }, &third, &[0, 0], &[]);
    });
    add(EntryKind::Fragments, &|body| {
        begin_fragments(body, 2, Vote::Yes, &[PartitionId(1), OWN]);
        put_entry_changes(body, b"gone", b"new");
        put_part(body, PartKind::Entry(7), &text, &parameters(2), &[]);
        put_part(body, PartKind::Fragment(300), &third, &[0, 0], &[]);
        put_part(body, PartKind::Apply, &third, &[0, 0], b"shipped");
    });
    let home = Some((OWN, true));
    add(EntryKind::Call, &|body| {
        put_call(body, Vote::No, &[PartitionId(0), OWN], home, "Transfer", &parameters(3));
    });
    add(EntryKind::Vote, &|body| body.push(Vote::Yes as u8));
    add(EntryKind::Schema, &|body| put_schema(body, 9, b"CREATE TABLE t (a INTEGER)"));
    add(EntryKind::Snapshot, &|body| body.extend_from_slice(b"daily"));
    add(EntryKind::Effects, &|body| body.extend_from_slice(b"images"));
    add(EntryKind::Commit, &|_| {});
    add(EntryKind::Abort, &|_| {});
    for (place, (kind, body)) in bodies.iter().enumerate() {
        let header = if place < 2 { own(2, place as u32) } else { multi(place as i64) };
        log.append(&header, *kind, body);
    }
    let again = EntryHeader { repeated: true, ..own(2, 1) };
    log.append(&again, EntryKind::Withdrawn, &[]);
    let writers = [(0, 300), (5, 2)]
        .map(|(partition, round)| WriterRound { partition: PartitionId(partition), round });
    let mut body = Vec::new();
    put_commit(&mut body, writers.into_iter());
    log.append(&multi(20), EntryKind::Commit, &body);
}

#[test]
fn entries_of_every_kind_are_read_back() {
    let mut log = LogBuffer::new(OWN, LogSource { epoch: 2, incarnation: 3 }, 41);
    log.set_catalog_version(8);
    vote(&mut log, &own(0, 0), 1);
    all_kinds(&mut log);
    let mut reader = EntryReader::new(log.bytes());
    reader.read().unwrap();
    assert_eq!(
        (reader.partition(), reader.source(), reader.catalog_version()),
        (OWN, LogSource { epoch: 2, incarnation: 3 }, 8)
    );
    let read = read_all(log.bytes()).unwrap();
    assert_eq!(read.len(), 14);
    assert!(read[0].starts_with("42 ") && read[13].starts_with("55 "), "{read:#?}");
    for expected in [
        "Vote false",
        "DELETE FROM t",
        "T.insert",
        "round: 2",
        "Entries { removed: [103, 111, 110, 101], added: [110, 101, 119] }",
        "kind: Entry(7)",
        "kind: Fragment(300)",
        "[PartitionId(1), PartitionId(5)]",
        "home: Some((PartitionId(5), true))",
        "Vote(Yes)",
        "catalog_version: 9",
        "[WriterRound { partition: PartitionId(0), round: 300 }, \
         WriterRound { partition: PartitionId(5), round: 2 }]",
    ] {
        assert!(
            read.iter().any(|described| described.contains(expected)),
            "{expected} in {read:#?}"
        );
    }
}

#[test]
fn a_commit_names_as_many_writers_as_it_says() {
    let read = |body: &[u8]| {
        let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
        log.append(&multi(1), EntryKind::Commit, body);
        read_all(log.bytes())
    };
    // Those of earlier releases name nobody.
    assert!(read(&[]).is_ok());
    assert!(read(&[1, 5, 1]).is_ok());
    for unsound in [&[0][..], &[1], &[1, 5], &[1, 5, 1, 0], &[2, 5, 1], &[1, 0x80]] {
        assert!(read(unsound).is_err(), "{unsound:?}");
    }
}

#[test]
fn a_commit_that_votes_imply_is_handed_over_with_the_next_entry() {
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
    let writer = |partition| WriterRound { partition: PartitionId(partition), round: 1 };
    let (few, many) = ([writer(5), writer(6)], [writer(5), writer(300)]);
    assert_eq!((log.needed_sequence(), log.is_needed()), (0, false));
    vote(&mut log, &own(0, 0), 1);
    assert_eq!((log.needed_sequence(), log.is_needed()), (1, true));
    log.append_commit(&multi(1), few.into_iter(), true);
    assert_eq!((log.needed_sequence(), log.is_needed()), (1, true), "the call waits");
    log.take(Vec::new());
    log.append_commit(&multi(2), many.into_iter(), true);
    assert_eq!((log.sequence(), log.needed_sequence(), log.is_needed()), (3, 1, false));
    log.append_commit(&multi(3), few.into_iter(), false);
    assert_eq!((log.sequence(), log.needed_sequence(), log.is_needed()), (4, 4, true));
    assert_eq!(log.take(Vec::new()).entries, 2);
    log.check_invariants();
}

#[test]
fn a_commit_is_written_the_same_whether_its_writers_are_few_or_many() {
    let writers = |count: u32, round| {
        (0..count).map(move |number| WriterRound { partition: PartitionId(number * 13), round })
    };
    for count in 1..20 {
        for round in [1, 0x7F, 0x80, u32::MAX] {
            let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
            log.append_commit(&multi(1), writers(count, round), true);
            let mut expected = LogBuffer::new(OWN, LogSource::of_run(1), 0);
            let mut body = Vec::new();
            put_commit(&mut body, writers(count, round));
            expected.append(&multi(1), EntryKind::Commit, &body);
            assert_eq!(log.bytes(), expected.bytes(), "{count} writers in round {round}");
        }
    }
}

#[test]
fn what_was_handed_over_apart_is_read_apart_and_together() {
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
    let mut pieces = Vec::new();
    let mut spare = Vec::new();
    for piece in 0..3 {
        vote(&mut log, &own(piece, 0), piece);
        vote(&mut log, &own(piece, 1), -piece);
        if piece == 1 {
            // Procedures are numbered again.
            log.set_catalog_version(2);
            let bytes = parameters(0);
            log.command(&own(1, 2), 3, "Other", true, &ParameterSet::new(&bytes).unwrap());
        }
        pieces.push(log.take(std::mem::take(&mut spare)).bytes);
    }
    assert_eq!((log.sequence(), log.totals().0), (7, 7));
    let apart: Vec<String> = pieces.iter().flat_map(|p| read_all(p).unwrap()).collect();
    assert_eq!(apart, read_all(&pieces.concat()).unwrap());
    for (place, described) in apart.iter().enumerate() {
        assert!(described.starts_with(&format!("{} ", place + 1)), "{apart:#?}");
        let name = if place == 4 { "Other true" } else { "Vote false" };
        assert!(described.contains(name), "{apart:#?}");
    }
}

#[test]
fn a_call_of_voter_takes_fifty_bytes_at_most() {
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
    let mut writer = ParameterWriter::default();
    writer.bigint(2_125_550_123).scalar(SqlType::Integer, Datum::Int(3)).bigint(2);
    let set = ParameterSet::new(writer.bytes()).unwrap();
    for call in 0..64 {
        log.command(&own(call / 8, (call % 8) as u32), 7, "Vote", false, &set);
    }
    assert!(log.bytes().len() <= 64 * 34, "{} bytes for 64 calls", log.bytes().len());
}

#[test]
fn bytes_that_are_cut_or_changed_are_errors_or_other_entries_and_never_more() {
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
    vote(&mut log, &own(0, 0), 1);
    all_kinds(&mut log);
    let bytes = log.bytes().to_vec();
    for cut in 0..bytes.len() {
        if let Ok(entries) = read_all(&bytes[..cut]) {
            assert!(entries.len() < 14, "cut at {cut}");
        }
    }
    for place in 0..bytes.len() {
        for bit in 0..8 {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << bit;
            let _ = read_all(&changed);
        }
    }
    let error = read_all(&bytes[1..]).unwrap_err();
    assert!(error.to_string().contains("byte 0"), "{error}");
}

#[test]
#[should_panic(expected = "logged once")]
fn what_runs_again_is_not_logged_again() {
    let header = EntryHeader { repeated: true, ..own(0, 0) };
    vote(&mut LogBuffer::new(OWN, LogSource::of_run(1), 0), &header, 1);
}

/// The record of a file, as hexadecimal digits.
fn record(file: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wire");
    let text = std::fs::read_to_string(folder.join(file)).expect("the record");
    let lines = text.lines().filter_map(|line| line.strip_prefix("  "));
    lines.flat_map(str::chars).filter(|c| !c.is_whitespace()).collect()
}

/// The format is fixed: what this release wrote once is written the same.
#[test]
fn entries_are_written_as_the_record_has_them() {
    let mut log = LogBuffer::new(OWN, LogSource { epoch: 2, incarnation: 3 }, 41);
    log.set_catalog_version(8);
    vote(&mut log, &own(0, 0), 1);
    all_kinds(&mut log);
    let written: String = log.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, record("log_entries.txt"));
}

/// What earlier releases wrote is read: the same entries, before epochs of the first one; before
/// commits named who wrote, without such a commit.
#[test]
fn entries_of_earlier_formats_are_read() {
    let bytes = |file: &str| -> Vec<u8> {
        let digits = record(file);
        let pairs = digits.as_bytes().chunks(2);
        pairs
            .map(|pair| std::str::from_utf8(pair).expect("digits"))
            .map(|pair| u8::from_str_radix(pair, 16).expect("two digits"))
            .collect()
    };
    let now = bytes("log_entries.txt");
    let second = LogSource { epoch: 2, incarnation: 3 };
    for (file, source) in
        [("log_entries_format_1.txt", LogSource::of_run(3)), ("log_entries_format_2.txt", second)]
    {
        let before = bytes(file);
        let (mut before, mut now) = (EntryReader::new(&before), EntryReader::new(&now));
        let mut count = 0;
        while let Some(entry) = before.read().expect("it is read") {
            let same = now.read().expect("it is read").expect("as many entries");
            assert_eq!(before.source(), source);
            assert_eq!((entry.sequence, entry.header), (same.sequence, same.header));
            assert_eq!(format!("{:?}", entry.body), format!("{:?}", same.body));
            count += 1;
        }
        let more = now.read().expect("it is read").expect("one entry more");
        assert!(matches!(more.body, EntryBody::Commit(commit) if commit.writers().count() == 2));
        assert!(now.read().expect("it is read").is_none() && count > 10, "{count} entries");
    }
}

/// The first entry of an epoch names it and its copies; what is not sound is refused.
#[test]
fn the_first_entry_of_an_epoch_is_read_back() {
    let mut log = LogBuffer::new(OWN, LogSource { epoch: 7, incarnation: 3 }, 41);
    let mut body = Vec::new();
    put_epoch(&mut body, 7, &[HostId(2), HostId(300)]);
    log.append(&own(5, 0), EntryKind::Epoch, &body);
    let written: String = body.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(written, "070202ac02", "the format is fixed");
    let bytes = log.bytes().to_vec();
    let mut reader = EntryReader::new(&bytes);
    let entry = reader.read().expect("it is sound").expect("an entry");
    let EntryBody::Epoch(epoch) = entry.body else { panic!("{entry:?}") };
    assert_eq!((entry.sequence, entry.kind, epoch.epoch), (42, EntryKind::Epoch, 7));
    assert_eq!(epoch.in_sync().collect::<Vec<_>>(), [HostId(2), HostId(300)]);
    for broken in [&[7, 0][..], &[7, 2, 1], &[7, 1, 1, 1], &[7, 17], &[7], &[]] {
        let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
        log.append(&own(5, 0), EntryKind::Epoch, broken);
        let bytes = log.bytes().to_vec();
        assert!(EntryReader::new(&bytes).read().is_err(), "{broken:?}");
    }
}

/// Entries of a new global index are read back as changes of entries.
#[test]
fn entries_of_a_new_global_index_are_read_back() {
    let mut log = LogBuffer::new(OWN, LogSource::of_run(1), 0);
    let mut body = Vec::new();
    put_entry_changes(&mut body, b"", b"first");
    put_entry_changes(&mut body, b"gone", b"second");
    log.append(&own(5, 0), EntryKind::Build, &body);
    let bytes = log.bytes().to_vec();
    let entry = EntryReader::new(&bytes).read().expect("it is sound").expect("an entry");
    let EntryBody::Build(build) = entry.body else { panic!("{entry:?}") };
    let parts: Vec<_> = build.parts().map(|part| part.expect("it is sound")).collect();
    let part = |removed, added| LoggedPart::Entries { removed, added };
    assert_eq!(parts, [part(b"", b"first"), part(b"gone", b"second")]);
}

/// A reader that stopped before an entry reads the rest as one that did not stop.
#[test]
fn a_reader_goes_on_where_it_has_stopped() {
    let mut log = LogBuffer::new(OWN, LogSource { epoch: 2, incarnation: 3 }, 41);
    log.set_catalog_version(8);
    vote(&mut log, &own(0, 0), 1);
    vote(&mut log, &own(1, 0), 1);
    all_kinds(&mut log);
    let bytes = log.bytes().to_vec();
    let rest = |mut reader: EntryReader<'_>| {
        let mut rest = Vec::new();
        while let Some(entry) = reader.read().expect("it is sound") {
            rest.push(format!("{entry:?} {:?} {}", reader.source(), reader.catalog_version()));
        }
        rest
    };
    let all = rest(EntryReader::new(&bytes));
    let mut reader = EntryReader::new(&bytes);
    for stop in 0..all.len() {
        let entry = reader.read().expect("it is sound").expect("as many as before");
        let position = reader.position_before(&entry);
        assert_eq!(rest(EntryReader::resume(&bytes, position)), all[stop..], "entry {stop}");
    }
}

/// Bodies of commands may be left out: what comes after them is read as without that.
#[test]
fn heads_of_entries_are_read_without_the_bodies_of_commands() {
    let mut log = LogBuffer::new(OWN, LogSource { epoch: 2, incarnation: 3 }, 41);
    vote(&mut log, &own(0, 0), 1);
    vote(&mut log, &own(1, 0), 1);
    all_kinds(&mut log);
    let mut whole = EntryReader::new(log.bytes());
    let mut heads = EntryReader::new(log.bytes());
    let mut commands = 0;
    while let Some(entry) = whole.read().expect("it is sound") {
        let head = heads.read_head().expect("it is sound").expect("as many entries");
        let same = (head.sequence, head.header, head.kind);
        assert_eq!(same, (entry.sequence, entry.header, entry.kind));
        match head.kind {
            EntryKind::Command => commands += 1,
            _ => {
                let read = heads.read_body(head).expect("it is sound");
                assert_eq!(format!("{read:?}"), format!("{entry:?}"));
            }
        }
    }
    assert!(heads.read_head().expect("it is sound").is_none());
    assert_eq!(commands, 2);
}
