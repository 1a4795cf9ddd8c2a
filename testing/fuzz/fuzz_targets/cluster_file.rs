//! The cluster file of a host's directory.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_durability::directory::{CLUSTER_FILE, ClusterFile, initialize};
use lockstep_env::memory::MemoryDisk;

fuzz_target!(|bytes: &[u8]| {
    // As it is, and with the checksum that it should have.
    let mut mended = bytes.to_vec();
    let checksum = crc32fast::hash(bytes);
    mended.extend_from_slice(format!("checksum {checksum:08x}\n").as_bytes());
    for bytes in [bytes.to_vec(), mended] {
        let disk = MemoryDisk::new();
        disk.replace(CLUSTER_FILE, bytes);
        match ClusterFile::read(&disk) {
            Err(error) => assert!(error.0.contains(CLUSTER_FILE), "{error}"),
            Ok(file) => {
                let file = file.expect("the file is there");
                let disk = MemoryDisk::new();
                initialize(&disk, file).expect("the disk is empty");
                assert_eq!(ClusterFile::read(&disk), Ok(Some(file)));
            }
        }
    }
});
