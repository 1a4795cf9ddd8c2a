//! Entries of a partition log.
//!
//! An entry is what a partition executes: the same bytes go to followers, to the command log and
//! to replay. Its header is fixed from the first version on:
//!
//! ```text
//! u32 length of what follows | u64 epoch | u64 sequence | u64 transaction id | i64 timestamp us
//! u32 catalog version | u32 ring version | u8 kind | u16 participants | u32 procedure
//! participants: u32 each | body
//! ```
//!
//! Numbers are big-endian. The body of a command is the call's parameter set as the client sent
//! it; of fragments, what each statement is and its parameters.

use lockstep_base::bytes::ByteWriter;
use lockstep_types::TransactionId;

/// What an entry carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EntryKind {
    /// A single-partition invocation.
    Command = 1,
    /// This partition's fragments of a multi-partition transaction, one round.
    Fragments = 2,
    /// The decision on a multi-partition transaction: commit.
    Commit = 3,
    /// The decision on a multi-partition transaction: abort.
    Abort = 4,
}

/// Where an entry stands in its partition's log, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// The configuration in which it was ordered.
    pub epoch: u64,
    /// Its number in the partition log, from 1, without gaps.
    pub sequence: u64,
    /// The transaction.
    pub transaction: TransactionId,
    /// What NOW is: microseconds since 1970, of millisecond resolution.
    pub timestamp_us: i64,
}

/// The entries that a partition ordered since the last hand-over, as bytes.
///
/// The site's loop hands the whole buffer to the log writer and the followers once a round and
/// then clears it; the memory stays.
#[derive(Debug, Default)]
pub struct LogBuffer {
    bytes: Vec<u8>,
    entries: u64,
    /// Entries and bytes handed over so far.
    total_entries: u64,
    total_bytes: u64,
}

impl LogBuffer {
    /// Appends an entry.
    #[inline]
    pub fn append(
        &mut self,
        header: &EntryHeader,
        kind: EntryKind,
        catalog_version: u32,
        procedure: u32,
        participants: &[u32],
        body: &[u8],
    ) {
        let start = self.bytes.len();
        self.bytes.put_i32(0);
        self.bytes.put_i64(header.epoch as i64);
        self.bytes.put_i64(header.sequence as i64);
        self.bytes.put_i64(header.transaction.0 as i64);
        self.bytes.put_i64(header.timestamp_us);
        self.bytes.put_i32(catalog_version as i32);
        // The ring never changes on one host; its version is 1.
        self.bytes.put_i32(1);
        self.bytes.put_u8(kind as u8);
        self.bytes.put_i16(participants.len() as i16);
        self.bytes.put_i32(procedure as i32);
        participants.iter().for_each(|p| self.bytes.put_i32(*p as i32));
        self.bytes.extend_from_slice(body);
        let length = self.bytes.len() - start - 4;
        self.bytes.patch_i32(start, length as i32);
        self.entries += 1;
    }

    /// The entries since the last [`LogBuffer::clear`].
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Number of entries since the last [`LogBuffer::clear`].
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Number of entries, and their bytes, handed over so far.
    pub fn totals(&self) -> (u64, u64) {
        (self.total_entries, self.total_bytes)
    }

    /// Forgets the entries: they have been handed over.
    pub fn clear(&mut self) {
        self.total_entries += self.entries;
        self.total_bytes += self.bytes.len() as u64;
        self.entries = 0;
        self.bytes.clear();
    }
}
