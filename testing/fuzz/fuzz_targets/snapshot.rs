//! The files of a snapshot: its manifest and its rows, as a disk or somebody else may have
//! changed them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_durability::ClusterId;
use lockstep_durability::snapshot::{
    ContentKind, FileEntry, Manifest, PartitionPosition, RowsReader, RowsWriter, SnapshotError,
    manifest_name, newest, read_manifest, rows_name, saved_transaction, scan,
};
use lockstep_env::memory::MemoryDisk;
use lockstep_env::{Disk, OpenMode};
use lockstep_fuzz::LOG_CLUSTER;
use lockstep_storage::{ColumnLayout, RowsRecord, StorageError, TableLayout};
use lockstep_types::SqlType;

const FOLDER: &str = "snapshots";
const NONCE: &str = "N";

fuzz_target!(|bytes: &[u8]| {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let disk = MemoryDisk::new();
    disk.create_folder(FOLDER).expect("memory takes it");
    match kind % 4 {
        0 => read_any_manifest(&disk, bytes.to_vec()),
        1 => {
            let mut text = bytes.to_vec();
            let checksum = crc32fast::hash(bytes);
            text.extend_from_slice(format!("checksum {checksum:08x}\n").as_bytes());
            read_any_manifest(&disk, text);
        }
        2 => {
            disk.replace(&path(&rows_name(NONCE, 0)), bytes.to_vec());
            read_rows(&disk, bytes.len() as u64);
        }
        _ => {
            let length = write_rows(&disk, bytes);
            read_rows(&disk, length);
        }
    }
});

fn path(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

fn has_remedy(error: &SnapshotError) {
    let text = error.to_string();
    assert!(text.contains(FOLDER), "{text}");
}

fn read_any_manifest(disk: &MemoryDisk, text: Vec<u8>) {
    disk.replace(&path(&manifest_name(NONCE)), text);
    match read_manifest(disk, FOLDER, NONCE) {
        Err(error) => has_remedy(&error),
        Ok(manifest) => {
            assert_eq!(manifest.nonce, NONCE);
            for partition in 0..2 {
                if let Err(error) = RowsReader::open(disk, FOLDER, &manifest, partition) {
                    has_remedy(&error);
                }
            }
        }
    }
    for found in scan(disk, FOLDER).expect("memory lists") {
        let _ = (found.is_complete(), found.bytes());
    }
    newest(disk, FOLDER).expect("memory lists");
}

/// Chunks with right checksums: the input's lengths and bytes.
fn write_rows(disk: &MemoryDisk, mut bytes: &[u8]) -> u64 {
    let of = (ClusterId(LOG_CLUSTER), 7, 0);
    let writer = RowsWriter::create(disk, FOLDER, &rows_name(NONCE, 0), of, &[]);
    let mut writer = writer.expect("memory takes it");
    while let Some((length, rest)) = bytes.split_first() {
        let length = usize::from(*length).min(rest.len());
        let (records, rest) = rest.split_at(length);
        writer.records(records).expect("memory takes it");
        bytes = rest;
    }
    writer.finish().expect("memory takes it").bytes
}

fn read_rows(disk: &MemoryDisk, bytes: u64) {
    assert!(saved_transaction(disk, FOLDER, NONCE) >= i64::MIN);
    let opened = disk.open(&path(&rows_name(NONCE, 0)), OpenMode::Read).expect("it is there");
    assert_eq!(opened.length().expect("memory knows"), bytes);
    let manifest = Manifest {
        release: String::new(),
        cluster: ClusterId(LOG_CLUSTER),
        nonce: NONCE.to_string(),
        content: ContentKind::Native,
        transaction: 7,
        created_ms: 0,
        part: None,
        catalog_version: 1,
        planning: Vec::new(),
        positions: vec![PartitionPosition::default()],
        tables: Vec::new(),
        files: vec![FileEntry { name: rows_name(NONCE, 0), bytes, checksum: 0 }],
        schema: String::new(),
    };
    let mut reader = match RowsReader::open(disk, FOLDER, &manifest, 0) {
        Err(error) => return has_remedy(&error),
        Ok(reader) => reader,
    };
    let mut payload = Vec::new();
    loop {
        match reader.next(&mut payload) {
            Err(error) => return has_remedy(&error),
            Ok(None) => return,
            Ok(Some(_)) => read_records(&payload),
        }
    }
}

fn read_records(mut input: &[u8]) {
    let column = |sql_type, nullable, max_bytes| ColumnLayout { sql_type, max_bytes, nullable };
    let columns = [
        column(SqlType::BigInt, false, 0),
        column(SqlType::Varchar, true, 12),
        column(SqlType::Decimal, true, 0),
        column(SqlType::Varbinary, true, 3_000),
    ];
    let layout = TableLayout::new(&columns).expect("a table can be so");
    while let Ok(Some(record)) = RowsRecord::take(&mut input) {
        let mut rows = 0;
        let read = record.read_rows(&layout, "T", |_, row| {
            rows += 1;
            row.columns().for_each(drop);
            Ok::<(), StorageError>(())
        });
        assert!(read.is_err() || rows == record.row_count(), "every row is read");
    }
}
