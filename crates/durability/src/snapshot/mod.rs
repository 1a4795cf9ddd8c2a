//! Snapshots as files: what they are, how they are written, read, found and removed.
//!
//! A snapshot is a set of files in one folder whose names begin with its *nonce*. The manifest is
//! written last, made durable under another name (with `.partial` at its end) and then renamed: a
//! snapshot without a sound manifest does not exist. To remove a snapshot, its manifest is renamed
//! first (`.removed`), and only the files that it names are removed. Damage in any file is an error
//! that names file and place; nothing is skipped.
//!
//! | file | what |
//! |---|---|
//! | `NONCE-host_0.manifest` | text: what it is, its files with their checksums, the schema |
//! | `NONCE-host_0-site_N.rows` | the rows of one partition, as chunks of records |
//! | `NONCE-host_0.classes` | the Java classes, a jar file; only if there are any |
//! | `NONCE-TABLE-host_0.csv` | in a snapshot as CSV, in place of the rows: one file a table |
//!
//! Of a snapshot of several hosts, each host has such files of its own, with its number in their
//! names and with the partitions that it led. The manifest of one says which these are; only with
//! those of all partitions the snapshot is whole. Where the manifests of several hosts are in one
//! folder, they are read as one.
//!
//! # The manifest
//! Lines, in this order; `*` may be repeated or missing.
//!
//! ```text
//! LockstepDB snapshot
//! format 2
//! cluster 32 hexadecimal digits
//! nonce NAME
//! content native | csv
//! transaction NUMBER
//! created_ms NUMBER
//! catalog_version NUMBER
//! planning HEXADECIMAL DIGITS            * once: what the host planned its procedures with
//! partitions NUMBER
//! host NUMBER has PARTITION ...          * once: the part of one host of several; or
//! host NUMBER keeps PARTITION ...        * once: all copies of one host of several
//! position PARTITION EPOCH SEQUENCE      * one for each partition
//! table NAME partitioned|replicated|view|entries ROWS  *
//! file FILE BYTES CHECKSUM               *
//! schema BYTES
//! (N bytes of DDL, and a line end)
//! checksum CHECKSUM
//! ```
//!
//! A position is that of the last log entry whose effect the snapshot has. Checksums are CRC-32
//! (the one of Ethernet and gzip) in eight hexadecimal digits; the last one is over all before it.
//!
//! # Files of rows
//! Numbers are little-endian. First the header:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `LSROWS`, 13, 10 |
//! | 4 | format: 2 |
//! | 4 | partition |
//! | 16 | cluster |
//! | 8 | transaction |
//! | 4 | checksum of the bytes before |
//!
//! Then chunks:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | number, from 0 |
//! | 4 | kind: 1 tables, 2 records, 3 end, 4 records of replicated tables |
//! | 4 | bytes of the payload |
//! | 4 | checksum of the 12 bytes before and of the payload |
//! | n | payload |
//!
//! The first chunk is of kind 1, the last and no other of kind 3. Its payload is the number of
//! payload bytes before it, in 8 bytes; nothing follows it. The payload of kind 1 has, per table:
//!
//! | bytes | what |
//! |---|---|
//! | 4 | the table's number in the records |
//! | 2, n | its name's length and name |
//! | 8 | rows |
//! | 4 | slots that were ever used |
//! | 4 | the head of the free list; 0xffffffff when no slot is free |
//! | 2 | number of columns, and for each: |
//! | 1 | type, by its number in the client protocol |
//! | 1 | 1 if NULL is allowed |
//! | 4 | greatest length in bytes of VARCHAR and VARBINARY, else 0 |
//! | 2 | number of partitioning columns, and for each: |
//! | 2 | its place among the columns |
//!
//! The payload of the kinds 2 and 4 is a sequence of whole records, each as `lockstep-storage`
//! writes them. Tables of which every partition has all rows are saved by partition 0 only: the
//! other files do not name them, and their partitions take them from that file's chunks of kind 4,
//! which they find by the lengths of the chunks between.
//!
//! What a host of several keeps for its own starts has the rows of all tables in the file of each
//! partition, since it may not have the first one, and the classes.
//!
//! Formats 1 to 4 are read as well. Format 4 is that of a manifest of a host that has partitions,
//! format 5 of one that keeps them, and neither of any other file. Format 1 has no kind 4: there
//! every file has the rows of all tables. Before format 3 a manifest does not have the release that
//! wrote it, epochs, and the last transaction ids of partitions.

pub mod csv;
mod error;
mod folder;
mod heads;
mod keep;
mod manifest;
mod reader;
mod writer;

pub use error::SnapshotError;
pub use folder::{
    FoundSnapshot, check_nonce, classes_name, clear, host_of, manifest_name, manifest_name_of,
    newest, partition_of, read_manifest, remove, remove_part, remove_unfinished, rows_name,
    rows_name_of, scan,
};
pub use heads::{ColumnHead, TableHead};
pub use keep::{covered, outdated, remove_outdated};
pub use manifest::{
    ContentKind, FileEntry, HostPart, Manifest, PartitionPosition, TableEntry, TableKind,
};
pub use reader::{Chunk, RowsReader, saved_transaction, verify_file};
pub use writer::{FileWriter, RowsWriter, write_manifest};

/// The newest format that is written and read: that of all copies of one of several hosts.
pub const FORMAT: u32 = 5;
/// The format of a part of a snapshot of several hosts.
pub(crate) const PART_FORMAT: u32 = 4;
/// The format of whole snapshots, and of files of rows.
pub(crate) const WHOLE_FORMAT: u32 = 3;

pub(crate) const ROWS_MAGIC: &[u8; 8] = b"LSROWS\r\n";
pub(crate) const ROWS_HEADER_BYTES: usize = 44;
pub(crate) const CHUNK_HEADER_BYTES: usize = 16;
