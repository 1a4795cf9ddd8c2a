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
//!
//! An entry gets its number when it is appended, and nothing else takes one: reads, calls that go
//! on to another partition, and calls that are refused before they run have none. So the numbers
//! are without gaps, and the order of entries is that in which the partition ran them first. What
//! runs again behind an abort has its entry already; where it turns out to belong elsewhere then,
//! because the row that it was led to is not here, it is withdrawn.

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
    /// The command of the same transaction id before it does not run here: what it ran behind was
    /// aborted, and without that it belongs to another partition.
    Withdrawn = 5,
}

/// When something runs at a partition, and whether its log has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EntryHeader {
    /// The transaction.
    pub transaction: TransactionId,
    /// What NOW is: microseconds since 1970, of millisecond resolution.
    pub timestamp_us: i64,
    /// It ran before, behind a transaction that was aborted: the log has it, if it is to have it.
    pub repeated: bool,
}

/// The entries that a partition ordered since the last hand-over, as bytes.
///
/// The site's loop hands the whole buffer to the log writer and the followers once a round and
/// then clears it; the memory stays.
#[derive(Debug)]
pub struct LogBuffer {
    epoch: u64,
    /// The number of the entry that was appended last.
    sequence: u64,
    bytes: Vec<u8>,
    entries: u64,
    /// Entries and bytes handed over so far.
    total_entries: u64,
    total_bytes: u64,
}

impl LogBuffer {
    /// The log of a partition in an epoch, whose last entry has the number `sequence`; 0 for none.
    pub fn new(epoch: u64, sequence: u64) -> LogBuffer {
        LogBuffer {
            epoch,
            sequence,
            bytes: Vec::new(),
            entries: 0,
            total_entries: 0,
            total_bytes: 0,
        }
    }

    /// Appends an entry under the next number.
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
        assert!(!header.repeated || kind == EntryKind::Withdrawn, "what runs again is logged once");
        assert_eq!(self.bytes.is_empty(), self.entries == 0, "entries have bytes");
        self.sequence += 1;
        let start = self.bytes.len();
        self.bytes.put_i32(0);
        self.bytes.put_i64(self.epoch as i64);
        self.bytes.put_i64(self.sequence as i64);
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

    /// The number of the last entry.
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The entries since the last [`LogBuffer::clear`]: those up to [`LogBuffer::sequence`].
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sp::first_entry;
    use lockstep_base::bytes::ByteReader;

    /// The numbers and kinds of a buffer's entries.
    fn numbers(log: &LogBuffer) -> Vec<(i64, i64, u8)> {
        let mut reader = ByteReader::new(log.bytes());
        let mut found = Vec::new();
        while reader.remaining() > 0 {
            let length = reader.i32().unwrap() as usize;
            let mut entry = ByteReader::new(reader.take(length).unwrap());
            let (epoch, sequence) = (entry.i64().unwrap(), entry.i64().unwrap());
            let kind = entry.take(8 + 8 + 4 + 4 + 1).unwrap()[24];
            found.push((epoch, sequence, kind));
        }
        found
    }

    #[test]
    fn numbers_have_no_gaps_over_hand_overs() {
        let mut log = LogBuffer::new(3, 41);
        let header = first_entry(TransactionId(7));
        log.append(&header, EntryKind::Command, 1, 2, &[], b"body");
        log.append(&header, EntryKind::Commit, 1, 0, &[1, 2], &[]);
        assert_eq!(numbers(&log), [(3, 42, 1), (3, 43, 3)]);
        log.clear();
        let again = EntryHeader { repeated: true, ..header };
        log.append(&again, EntryKind::Withdrawn, 1, 0, &[], &[]);
        assert_eq!((numbers(&log), log.sequence()), (vec![(3, 44, 5)], 44));
        assert_eq!(log.totals().0, 2);
    }

    #[test]
    #[should_panic(expected = "logged once")]
    fn what_runs_again_is_not_logged_again() {
        let header = EntryHeader { repeated: true, ..first_entry(TransactionId(7)) };
        LogBuffer::new(1, 0).append(&header, EntryKind::Command, 1, 2, &[], &[]);
    }
}
