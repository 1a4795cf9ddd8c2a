//! Logs of several epochs: what a later one replaces is void, whatever it did and decided.

use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{
    FOLDER, LogEnd, LogReader, LogSettings, LogWriter, SEGMENT_BYTES_MIN,
};
use lockstep_durability::recovery::{
    BeginFault, PassEnd, PointFinder, PointTarget, Replaced, Survey, Surveyed, survey_log,
};
use lockstep_durability::snapshot::{ContentKind, Manifest, PartitionPosition};
use lockstep_env::Disk;
use lockstep_env::memory::MemoryDisk;
use lockstep_txn::log_entry::{LogSource, Vote, begin_fragments};
use lockstep_txn::sp::first_entry;
use lockstep_txn::{EntryHeader, EntryKind, LogBuffer};
use lockstep_types::{ParameterSet, PartitionId, TransactionId};
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId([4; 16]);
const TIME_MS: i64 = 1_790_000_000_000;
const HERE: PartitionId = PartitionId(0);

fn source(epoch: u32) -> LogSource {
    LogSource { epoch, incarnation: 7 }
}

fn own(number: u64) -> EntryHeader {
    first_entry(TransactionId::new(TIME_MS + number as i64, 0, HERE))
}

fn multi() -> EntryHeader {
    first_entry(TransactionId::new(TIME_MS, 0, PartitionId::MULTI))
}

/// A log with one partition.
struct Log {
    disk: MemoryDisk,
    writer: LogWriter,
    calls: u64,
}

impl Log {
    fn new() -> Log {
        let disk = MemoryDisk::new();
        disk.create_folder(FOLDER).expect("nothing fails here");
        let settings = LogSettings { cluster: CLUSTER, segment_bytes: SEGMENT_BYTES_MIN, seed: 1 };
        let writer = LogWriter::open(Arc::new(disk.clone()), settings, LogEnd::default());
        Log { disk, writer: writer.expect("the disk works"), calls: 0 }
    }

    /// Writes a block of a source whose entries begin with a number.
    fn block(&mut self, source: LogSource, first: u64, fill: impl FnOnce(&mut LogBuffer)) {
        let mut buffer = LogBuffer::new(HERE, source, first - 1);
        fill(&mut buffer);
        let (entries, bytes) = (buffer.entries() as u32, buffer.bytes());
        self.writer.add(0, source, first, entries, bytes);
        self.writer.write().and_then(|()| self.writer.sync()).expect("the disk works");
    }

    /// A block of calls; the transactions are numbered over the whole log.
    fn calls(&mut self, source: LogSource, numbers: std::ops::RangeInclusive<u64>) {
        let (first, count) = (*numbers.start(), numbers.count() as u64);
        let before = self.calls;
        self.calls += count;
        self.block(source, first, |buffer| {
            for number in before + 1..=before + count {
                buffer.command(&own(number), 0, "P", false, &ParameterSet::EMPTY);
            }
        });
    }

    fn open(&self) -> Result<LogReader, String> {
        let reader = LogReader::open(Arc::new(self.disk.clone()), CLUSTER);
        reader.map_err(|error| error.to_string())
    }

    fn survey_behind(&self, behind: Option<PartitionPosition>) -> Result<Surveyed, BeginFault> {
        let positions = [behind.unwrap_or_default()];
        let manifest = behind.map(|_| Manifest {
            release: String::new(),
            cluster: CLUSTER,
            nonce: "ONE".to_string(),
            content: ContentKind::Native,
            transaction: 5,
            created_ms: 0,
            part: None,
            catalog_version: 1,
            planning: Vec::new(),
            positions: positions.to_vec(),
            tables: Vec::new(),
            files: Vec::new(),
            schema: String::new(),
        });
        let survey = Survey::new(&[positions[0].sequence]);
        survey_log(&self.disk, || self.open(), survey, (&positions, manifest.as_ref()), None)
    }

    fn survey(&self) -> Surveyed {
        self.survey_behind(None).expect("a log of several epochs is sound")
    }
}

/// Which of the entries with these numbers a source's survey finds void.
fn void(surveyed: &Surveyed, epoch: u32, numbers: std::ops::RangeInclusive<u64>) -> Vec<u64> {
    let is_void = |number: &u64| surveyed.outcome.is_replaced(HERE, source(epoch), *number);
    numbers.filter(is_void).collect()
}

#[test]
fn a_later_epoch_replaces_what_earlier_ones_have_from_its_first_number_on() {
    let mut log = Log::new();
    log.calls(source(1), 1..=5);
    log.calls(source(2), 4..=6);
    let surveyed = log.survey();
    assert_eq!(void(&surveyed, 1, 1..=9), [4, 5, 6, 7, 8, 9]);
    assert_eq!(void(&surveyed, 2, 1..=9), []);
    let tail = surveyed.outcome.tails[0];
    assert_eq!((tail.sequence, tail.entries), (6, 6));
    assert_eq!(surveyed.outcome.next_source(), LogSource { epoch: 2, incarnation: 8 });
    // A third one goes back further, and one goes on without replacing anything.
    log.calls(source(3), 3..=3);
    log.calls(source(4), 4..=4);
    let surveyed = log.survey();
    for epoch in [1, 2] {
        assert_eq!(void(&surveyed, epoch, 1..=6), [3, 4, 5, 6], "epoch {epoch}");
    }
    assert_eq!(void(&surveyed, 3, 1..=6), [4, 5, 6]);
    assert_eq!(surveyed.outcome.tails[0].sequence, 4);
}

#[test]
fn what_an_earlier_epoch_wrote_late_is_void_too() {
    let mut log = Log::new();
    log.calls(source(1), 1..=3);
    log.calls(source(2), 4..=4);
    log.calls(source(1), 4..=6);
    log.calls(source(2), 5..=5);
    let surveyed = log.survey();
    assert_eq!(void(&surveyed, 1, 1..=6), [4, 5, 6]);
    assert_eq!(surveyed.outcome.tails[0].sequence, 5);
}

#[test]
fn what_was_replaced_decides_nothing() {
    let mut body = Vec::new();
    begin_fragments(&mut body, 1, Vote::None, &[]);
    for is_replaced in [false, true] {
        let mut log = Log::new();
        log.block(source(1), 1, |buffer| {
            buffer.append(&multi(), EntryKind::Fragments, &body);
            buffer.append(&multi(), EntryKind::Commit, &[]);
            buffer.command(&own(1), 0, "P", false, &ParameterSet::EMPTY);
            buffer.append(&own(1), EntryKind::Vote, &[Vote::No as u8]);
        });
        let first = if is_replaced { 2 } else { 5 };
        log.block(source(2), first, |buffer| {
            buffer.command(&own(1), 0, "P", false, &ParameterSet::EMPTY);
        });
        let outcome = log.survey().outcome;
        assert_eq!(outcome.replays(HERE, multi().transaction), !is_replaced);
        assert_eq!(outcome.replays(HERE, own(1).transaction), is_replaced);
    }
}

#[test]
fn two_runs_of_one_epoch_with_the_same_numbers_are_refused() {
    let mut log = Log::new();
    let run = |incarnation| LogSource { epoch: 2, incarnation };
    log.calls(run(1), 1..=3);
    log.calls(run(2), 3..=4);
    let fault = log.survey_behind(None).expect_err("both may have answered");
    assert!(matches!(&fault, BeginFault::Log(text) if text.contains("two processes")), "{fault:?}");
}

#[test]
fn numbers_that_a_later_epoch_leaves_out_are_missing() {
    let mut log = Log::new();
    log.calls(source(1), 1..=3);
    log.calls(source(2), 5..=5);
    let fault = log.survey_behind(None).expect_err("entry 4 is missing");
    assert!(
        matches!(&fault, BeginFault::Log(text) if text.contains("entry 4 is due")),
        "{fault:?}"
    );
}

#[test]
fn a_snapshot_fits_the_epoch_that_it_was_taken_in() {
    let mut log = Log::new();
    log.calls(source(1), 1..=9);
    log.calls(source(2), 5..=7);
    let at = |epoch, sequence| {
        let source = source(epoch);
        Some(PartitionPosition { source, sequence, ..PartitionPosition::default() })
    };
    // Of the later epoch, with numbers that the earlier one has, too.
    let surveyed = log.survey_behind(at(2, 6)).expect("it fits");
    assert_eq!((surveyed.outcome.tails[0].sequence, surveyed.reach), (7, vec![0]));
    assert_eq!(surveyed.outcome.tails[0].entries, 1);
    // Of the earlier one, before the later one begins, and after.
    let surveyed = log.survey_behind(at(1, 4)).expect("it fits");
    assert_eq!(surveyed.outcome.tails[0].sequence, 7);
    let fault = log.survey_behind(at(1, 6)).expect_err("it has what was replaced");
    assert!(matches!(&fault, BeginFault::OtherHistory(text) if text.contains("snapshot ONE")));
}

/// A copy that was being loaded logs what comes after its data, which are in no snapshot yet. The
/// power is cut, its leader has lost these entries, and it is loaded again in a later epoch.
#[test]
fn entries_after_a_gap_that_a_later_epoch_replaced_are_passed_over() {
    let mut log = Log::new();
    log.calls(source(1), 1..=3);
    log.calls(source(4), 24..=24);
    let (source, sequence) = (source(5), 9);
    let saved = PartitionPosition { source, sequence, ..PartitionPosition::default() };
    let fault = log.survey_behind(Some(saved)).expect_err("nothing has replaced entry 24");
    assert!(matches!(&fault, BeginFault::Log(text) if text.contains("10 is due")), "{fault:?}");
    log.calls(source, 8..=15);
    let surveyed = log.survey_behind(Some(saved)).expect("the entry is void");
    assert_eq!(void(&surveyed, 4, 23..=25), [23, 24, 25]);
    assert_eq!((surveyed.outcome.tails[0].sequence, surveyed.reach), (15, vec![7]));
}

#[test]
fn a_point_in_time_is_looked_for_without_what_was_replaced() {
    let mut log = Log::new();
    log.calls(source(1), 1..=4);
    log.calls(source(2), 3..=4);
    let replaced = Replaced::find(log.open().expect("it is sound")).expect("it is sound");
    let point = |number| {
        let target = PointTarget::Transaction(own(number).transaction);
        let mut finder = PointFinder::new(target, 1, replaced.clone());
        let mut reader = log.open().expect("it is sound");
        while let Some(block) = reader.next_block().expect("it is sound") {
            finder.read(HERE, block.body).expect("it is sound");
        }
        finder.end_pass()
    };
    // The calls 3 and 4 were replaced by 5 and 6.
    let PassEnd::Found(found) = point(5) else { panic!("it is there") };
    assert_eq!((found.cut, found.last), (vec![3], Some(own(5).transaction)));
    assert!(matches!(point(4), PassEnd::Unknown(..)));
}
