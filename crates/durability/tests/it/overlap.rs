//! Two processes that wrote one directory at the same time, because its lock was lost.

use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{
    FOLDER, LogEnd, LogError, LogErrorKind, LogReader, LogSettings, LogWriter, SEGMENT_BYTES_MIN,
    file_name,
};
use lockstep_durability::recovery::{BeginFault, Survey, Surveyed, survey_log};
use lockstep_durability::snapshot::{ContentKind, Manifest, PartitionPosition};
use lockstep_env::Disk;
use lockstep_env::memory::MemoryDisk;
use lockstep_txn::log_entry::LogSource;
use lockstep_types::TransactionId;
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId([3; 16]);

fn new_disk() -> MemoryDisk {
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER).expect("nothing fails here");
    disk
}

fn shared(disk: &MemoryDisk) -> Arc<dyn Disk> {
    Arc::new(disk.clone())
}

/// The end of the log, and the first bytes of its blocks.
fn read(disk: &MemoryDisk) -> Result<(LogEnd, Vec<u8>), LogError> {
    let mut reader = LogReader::open(shared(disk), CLUSTER)?;
    let mut first = Vec::new();
    while let Some(block) = reader.next_block()? {
        first.push(block.body[0]);
    }
    Ok((reader.into_end(), first))
}

fn open(disk: &MemoryDisk, seed: u64) -> LogWriter {
    let settings = LogSettings { cluster: CLUSTER, segment_bytes: SEGMENT_BYTES_MIN, seed };
    let (end, _) = read(disk).expect("the log is sound");
    LogWriter::open(shared(disk), settings, end).expect("the disk works")
}

/// A group of one block with an entry; the run is its incarnation.
fn commit(writer: &mut LogWriter, run: u64, sequence: u64) -> Result<(), LogError> {
    writer.add(0, LogSource::of_run(run), sequence, 1, &[run as u8; 40]);
    writer.write()?;
    writer.sync()
}

fn overlapping(disk: &MemoryDisk, segment: u32) -> String {
    let error = read(disk).expect_err("two runs do not fit together");
    assert_eq!(error.kind, LogErrorKind::Overlapping, "{error}");
    assert_eq!(error.file, file_name(segment));
    let said = error.to_string();
    for words in ["two processes", &file_name(segment + 1), "Remedy: ", "No file was changed"] {
        assert!(said.contains(words), "'{words}' is not in: {said}");
    }
    said
}

#[test]
fn what_the_first_process_wrote_beside_the_second_is_not_passed_over() {
    for later_groups in 1..5 {
        let disk = new_disk();
        let mut first = open(&disk, 1);
        commit(&mut first, 1, 1).expect("the disk works");
        let mut second = open(&disk, 2);
        commit(&mut second, 2, 2).expect("the disk works");
        for sequence in 2..2 + later_groups {
            commit(&mut first, 1, sequence).expect("the disk works");
        }
        let said = overlapping(&disk, 1);
        // Either run can be had by what the message says.
        assert!(said.contains("truncate -s "), "{said}");
        let (of_first, of_second) = (disk.copy(), disk.copy());
        of_first.remove(&file_name(2)).expect("it is there");
        let (_, blocks) = read(&of_first).expect("the first run is whole");
        assert_eq!(blocks, vec![1; 1 + later_groups as usize]);
        let mut bytes = of_second.bytes(&file_name(1)).expect("it is there");
        let end = said.split("truncate -s ").nth(1).and_then(|rest| rest.split(' ').next());
        let end: usize = end.and_then(|end| end.parse().ok()).expect("an offset");
        bytes[end..].fill(0);
        of_second.replace(&file_name(1), bytes);
        let (_, blocks) = read(&of_second).expect("the second run is whole");
        assert_eq!(blocks, [1, 2]);
    }
}

#[test]
fn a_group_that_the_second_process_wrote_over_in_part_is_known_by_the_next_one() {
    let disk = new_disk();
    let mut first = open(&disk, 1);
    commit(&mut first, 1, 1).expect("the disk works");
    let (end, _) = read(&disk).expect("it is sound");
    // Between the second one's look at the log and its first write.
    commit(&mut first, 1, 2).expect("the disk works");
    commit(&mut first, 1, 3).expect("the disk works");
    let settings = LogSettings { cluster: CLUSTER, segment_bytes: SEGMENT_BYTES_MIN, seed: 2 };
    LogWriter::open(shared(&disk), settings, end).expect("the disk works");
    overlapping(&disk, 1);
}

#[test]
fn a_segment_of_another_process_is_not_replaced() {
    for with_spare in [false, true] {
        let disk = new_disk();
        let mut first = open(&disk, 1);
        commit(&mut first, 1, 1).expect("the disk works");
        if with_spare {
            // A file that is ready for the next segment is renamed in place of it.
            let mut sequence = 2;
            let order = loop {
                if let Some(order) = first.spare_to_make() {
                    break order;
                }
                commit(&mut first, 1, sequence).expect("the disk works");
                sequence += 1;
            };
            let made = order.make(&disk, &mut || true);
            let mut second = open(&disk, 2);
            commit(&mut second, 2, sequence).expect("the disk works");
            // The second one removes spares that it finds; this one is made after that.
            let made = made == Ok(true) && order.make(&disk, &mut || true) == Ok(true);
            first.spare_is_made(order, made);
        } else {
            let mut second = open(&disk, 2);
            commit(&mut second, 2, 2).expect("the disk works");
        }
        let before = disk.bytes(&file_name(2)).expect("the second one's");
        let mut failed = Ok(());
        for sequence in 100..3_000 {
            failed = commit(&mut first, 1, sequence);
            if failed.is_err() {
                break;
            }
        }
        failed.expect_err("there is no other segment for it");
        assert_eq!(disk.bytes(&file_name(2)), Some(before));
    }
}

#[test]
fn an_orderly_log_of_many_runs_is_read() {
    let disk = new_disk();
    for run in 1..6 {
        let mut writer = open(&disk, run);
        for sequence in run * 10..run * 10 + 10 {
            commit(&mut writer, run, sequence).expect("the disk works");
        }
        writer.seal().expect("the disk works");
        writer.sync().expect("the disk works");
    }
    let (end, blocks) = read(&disk).expect("it is sound");
    assert_eq!((end.segments.len(), blocks.len()), (5, 50));
}

/// What recovery says of a log whose blocks are of these runs and begin with these entries, after
/// a snapshot of a run.
fn survey_all(
    blocks: &[(u64, u64)],
    behind: Option<PartitionPosition>,
) -> Result<Surveyed, BeginFault> {
    let disk = new_disk();
    let mut writer = open(&disk, 1);
    for (run, sequence) in blocks {
        // Without entries: only the blocks are looked at.
        writer.add(0, LogSource::of_run(*run), *sequence, 1, &[]);
        writer.write().expect("the disk works");
    }
    let positions = vec![behind.unwrap_or_default()];
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
        positions: positions.clone(),
        tables: Vec::new(),
        files: Vec::new(),
        schema: String::new(),
    });
    let open = || Ok(LogReader::open(shared(&disk), CLUSTER).expect("it is sound"));
    let survey = Survey::new(&[positions[0].sequence]);
    survey_log(&disk, open, survey, (&positions, manifest.as_ref()), None)
}

/// How far back the log goes.
fn survey(
    blocks: &[(u64, u64)],
    behind: Option<PartitionPosition>,
) -> Result<Vec<u64>, BeginFault> {
    survey_all(blocks, behind).map(|found| found.reach)
}

#[test]
fn ids_go_on_after_those_that_only_a_snapshot_has_seen() {
    let transaction = TransactionId(77);
    let position =
        PartitionPosition { source: LogSource::of_run(1), sequence: 2, transaction, digest: 0 };
    let surveyed = survey_all(&[(1, 1), (1, 2)], Some(position)).expect("it fits");
    assert_eq!(surveyed.outcome.tails[0].transaction, transaction);
}

#[test]
fn runs_that_went_apart_are_named() {
    let at = |run, sequence| {
        let source = LogSource::of_run(run);
        Some(PartitionPosition { source, sequence, ..PartitionPosition::default() })
    };
    assert_eq!(survey(&[(1, 1), (1, 2), (2, 3)], None), Ok(vec![0]));
    let fault = survey(&[(1, 1), (2, 2), (1, 3)], None);
    assert!(matches!(&fault, Err(BeginFault::Log(text)) if text.contains("an earlier run")));
    // A snapshot of the second process, and the log of the first, which went on.
    let fault = survey(&[(1, 1), (1, 2), (1, 3)], at(2, 2));
    assert!(matches!(&fault, Err(BeginFault::OtherHistory(text)) if text.contains("snapshot ONE")));
    // How far back the log goes: to its beginning, to a gap, or not at all.
    assert_eq!(survey(&[(1, 1), (1, 2), (1, 3)], at(1, 2)), Ok(vec![0]));
    assert_eq!(survey(&[(1, 1), (3, 6), (3, 7)], at(2, 5)), Ok(vec![5]));
    assert_eq!(survey(&[(1, 4), (1, 5)], at(1, 4)), Ok(vec![3]));
    assert_eq!(survey(&[(1, 4), (1, 5)], at(2, 9)), Ok(vec![9]));
    assert_eq!(survey(&[], at(2, 9)), Ok(vec![9]));
}
