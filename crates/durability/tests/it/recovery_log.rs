//! The log of a directory as recovery reads it: the survey, and the blocks of each partition.

use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{
    BLOCK_HEADER_BYTES, FOLDER, LogEnd, LogFaults, LogSettings, LogWriter, SEGMENT_BYTES_MIN,
    file_name,
};
use lockstep_durability::recovery::RecoveryLog;
use lockstep_env::Disk;
use lockstep_env::memory::MemoryDisk;
use lockstep_txn::log_entry::LogSource;
use std::sync::Arc;

const CLUSTER: ClusterId = ClusterId([7; 16]);

/// A power cut tore the first block of the last group, and left the second.
#[test]
fn what_follows_a_torn_block_of_another_partition_is_not_read() {
    let memory = MemoryDisk::new();
    memory.create_folder(FOLDER).expect("memory takes it");
    let disk: Arc<dyn Disk> = Arc::new(memory.clone());
    let settings = LogSettings { cluster: CLUSTER, segment_bytes: SEGMENT_BYTES_MIN, seed: 1 };
    let opened = LogWriter::open(Arc::clone(&disk), settings, LogEnd::default());
    let mut writer = opened.expect("memory takes it");
    let mut torn_at = 0;
    for group in 1..=2 {
        torn_at = writer.position().offset as usize + BLOCK_HEADER_BYTES;
        let source = LogSource::of_run(1);
        writer.add(0, source, group, 1, &[group as u8; 40]);
        writer.add(1, source, group, 1, &[group as u8 + 10; 40]);
        writer.write().expect("memory takes it");
    }
    let mut bytes = memory.bytes(&file_name(1)).expect("it is there");
    bytes[torn_at] ^= 1;
    memory.replace(&file_name(1), bytes);

    let faults = LogFaults::default();
    let log = RecoveryLog { disk: &disk, cluster: CLUSTER, until: None, faults, others: None };
    let mut reader = log.open().expect("it is sound");
    while reader.next_block().expect("it is sound").is_some() {}
    let end = reader.into_end();
    assert!(end.torn.is_some());
    for (partition, body) in [[1; 40], [11; 40]].iter().enumerate() {
        let mut blocks = log.partition(partition as u32, end.position).expect("it is sound");
        assert_eq!(blocks.next_body().expect("it is sound"), Some(&body[..]));
        assert_eq!(blocks.next_body().expect("it is sound"), None);
    }
}
