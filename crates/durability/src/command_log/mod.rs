//! The command log: one sequence of segment files for all partitions of a host.
//!
//! Sites transfer the entries that they ordered; what gathered while the disk was busy is
//! written as one *group commit*, one block for each site, and made durable by one sync. Files
//! are in the folder `log` of the host's directory, `00000001.log` and so on. A file's length is
//! fixed when it is made, and files that are no longer needed are written again under a new
//! number, so that a sync need not change the file system's own tables.
//!
//! Numbers are big-endian. A segment begins with a page of 4,096 bytes of which these are used:
//!
//! ```text
//!  0  8 bytes   "LOCKSLOG"
//!  8  u32       format version, 3; files of formats 1 and 2 are read as well
//! 12  16 bytes  id of the cluster
//! 28  u32       number of the segment, as in its name
//! 32  u32       length of the file
//! 36  u32       where the entries of the segment before end, 0 in the first
//! 40  u64       salt: random, part of the checksums of block headers
//! 48  12 bytes  the release that wrote the file, as text, then zeros; all zeros in format 1
//! 60  u32       CRC-32 of the bytes before
//! ```
//!
//! After that page stand blocks, each at a multiple of 8:
//!
//! ```text
//!  0  u32  0x4C53424B, "LSBK"
//!  4  u32  CRC-32 of the salt and bytes 8 to 55
//!  8  u32  CRC-32 of the body with its padding
//! 12  u32  length of the body without padding
//! 16  u32  number of the segment
//! 20  u32  partition; 0xFFFFFFFF in a block that only carries a watermark
//! 24  u64  watermark: segment number, and offset there, up to which everything is synced
//! 32  u64  incarnation: the run of the process that ordered the entries
//! 40  u64  sequence number of the first entry; without a partition 0, or the next segment's number
//! 48  u32  number of entries
//! 52  u32  epoch: the configuration in which they were ordered; 0 in format 1, for 1
//! 56  body: the entries as the partition's log buffer writes them; zeros up to a multiple of 8
//! ```
//!
//! How a reader tells a torn end from damage. A block is only written when everything up to its
//! watermark was synced, a segment's first block only when its first page was, and a segment's
//! first page only when everything in the segment before was. So a block that is not whole is
//! the torn end if nothing after it says otherwise, and is then cut off: it was never promised
//! to anybody. A block header after it with a greater watermark, or a later segment that says
//! that there were entries here, prove damage. Bytes of a file's earlier life carry its earlier
//! number; bytes that clients sent cannot look like headers, because they do not know the salt.
//! After a start a new segment is begun, so that what was cut off is never met again.
//!
//! When a segment's first page is durable, the segment before gets a block after its end that
//! names it, and that is durable before anything is written to the new one. Nobody reads that
//! block as long as the new segment is there; without it, it proves that the end of the log is
//! gone.

mod error;
mod faults;
mod format;
mod reader;
mod spare;
mod writer;

pub use error::{LogError, LogErrorKind};
pub use faults::LogFaults;
pub use format::{
    BLOCK_ALIGNMENT, BLOCK_HEADER_BYTES, FIRST_BLOCK, LogPosition, SEGMENT_BYTES_MIN, file_name,
};
pub use reader::{Block, LogEnd, LogReader, SegmentSummary, TornTail};
pub use spare::SpareOrder;
pub use writer::{LogSettings, LogWriter};

/// The folder of the command log in a host's directory.
pub const FOLDER: &str = "log";
