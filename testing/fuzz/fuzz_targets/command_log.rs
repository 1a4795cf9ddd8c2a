//! A segment of the command log, as its reader finds it on a disk that may have changed it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{FOLDER, LogReader, file_name};
use lockstep_env::memory::MemoryDisk;
use lockstep_env::{Disk, OpenMode};
use lockstep_fuzz::LOG_CLUSTER;
use std::sync::Arc;

const SEGMENT_HEADER_BYTES: usize = 64;
const FIRST_BLOCK: usize = 4_096;
const BLOCK_HEADER_BYTES: usize = 56;

/// Gives a file the checksums that its header and blocks should have.
fn mend(bytes: &mut [u8]) {
    let Some(header) = bytes.get_mut(..SEGMENT_HEADER_BYTES) else { return };
    let checksum = crc32fast::hash(&header[..SEGMENT_HEADER_BYTES - 4]);
    header[SEGMENT_HEADER_BYTES - 4..].copy_from_slice(&checksum.to_be_bytes());
    // After the magic, the version, the cluster, its number and two lengths.
    let salt: [u8; 8] = header[40..48].try_into().expect("eight bytes");
    let mut at = FIRST_BLOCK;
    while let Some(block) = bytes.get_mut(at..).filter(|block| block.starts_with(b"LSBK")) {
        let Some(length) = block.get(12..16) else { return };
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(body) = block.get(BLOCK_HEADER_BYTES..BLOCK_HEADER_BYTES + length) else { return };
        let checksum = crc32fast::hash(body);
        block[8..12].copy_from_slice(&checksum.to_be_bytes());
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&salt);
        hasher.update(&block[8..BLOCK_HEADER_BYTES]);
        block[4..8].copy_from_slice(&hasher.finalize().to_be_bytes());
        at += (BLOCK_HEADER_BYTES + length).next_multiple_of(8);
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    // The last byte says whether damage is to be found by its checksum.
    if bytes.last().is_some_and(|last| last % 2 == 0) {
        mend(&mut bytes);
    }
    let bytes = &bytes[..];
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER).expect("the disk takes everything");
    let mut file = disk.open(&file_name(1), OpenMode::Create).expect("the disk takes everything");
    file.write_at(0, bytes).expect("the disk takes everything");
    drop(file);
    let Ok(mut reader) = LogReader::open(Arc::new(disk), ClusterId(LOG_CLUSTER)) else { return };
    let mut last = None;
    loop {
        match reader.next_block() {
            Err(error) => {
                assert!(error.to_string().contains("Remedy: "), "{error}");
                return;
            }
            Ok(None) => break,
            Ok(Some(block)) => {
                assert!(last < Some(block.position), "blocks come in their order");
                assert!(block.body.len() <= bytes.len(), "a block is part of the file");
                last = Some(block.position);
            }
        }
    }
    let end = reader.into_end();
    // A file may end within its first page, before there can be a block.
    let longest = bytes.len().max(FIRST_BLOCK);
    assert!(end.position.offset as usize <= longest, "a log ends in its file");
});
