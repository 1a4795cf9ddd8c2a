//! The bytes of segments and blocks; the head of the module says what they mean.

use super::FOLDER;
use crate::directory::ClusterId;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_txn::log_entry::LogSource;

/// Where the first block of a segment stands.
pub const FIRST_BLOCK: u32 = 4_096;
/// Length of a block's header.
pub const BLOCK_HEADER_BYTES: usize = 56;
/// Blocks stand at multiples of this.
pub const BLOCK_ALIGNMENT: usize = 8;
/// The shortest segment.
pub const SEGMENT_BYTES_MIN: u32 = 64 * 1024;

pub(super) const SEGMENT_HEADER_BYTES: usize = 64;
pub(super) const FORMAT_VERSION: u32 = 3;
/// The partition of a block that only carries a watermark.
pub(super) const NO_PARTITION: u32 = u32::MAX;

const SEGMENT_MAGIC: &[u8; 8] = b"LOCKSLOG";
pub(super) const BLOCK_MAGIC: [u8; 4] = *b"LSBK";
const CHECKED_FROM: usize = 8;

/// A place in a log: a segment's number, and an offset in bytes from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct LogPosition {
    /// The segment, from 1.
    pub segment: u32,
    /// The offset.
    pub offset: u32,
}

impl LogPosition {
    fn packed(self) -> u64 {
        u64::from(self.segment) << 32 | u64::from(self.offset)
    }

    fn unpacked(packed: u64) -> LogPosition {
        LogPosition { segment: (packed >> 32) as u32, offset: packed as u32 }
    }
}

/// The name of a segment's file in the host's directory.
pub fn file_name(number: u32) -> String {
    format!("{FOLDER}/{number:08}.log")
}

/// The number in the name of a segment's file, without its folder.
pub(super) fn number_of(name: &str) -> Option<u32> {
    let digits = name.strip_suffix(".log")?;
    let whole = digits.len() >= 8 && digits.bytes().all(|b| b.is_ascii_digit());
    digits.parse().ok().filter(|number| whole && *number > 0)
}

/// The release that wrote a segment, as text padded with zeros; format 1 does not have it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Release([u8; RELEASE_BYTES]);

const RELEASE_BYTES: usize = 12;
/// From the end of the format version.
const RELEASE_AT: usize = 36;

impl Release {
    /// This one.
    pub fn own() -> Release {
        let mut release = Release::default();
        let text = crate::RELEASE.as_bytes();
        let length = text.len().min(RELEASE_BYTES);
        release.0[..length].copy_from_slice(&text[..length]);
        release
    }

    /// Its text; `None` where it is not known.
    pub fn text(&self) -> Option<&str> {
        let length = self.0.iter().position(|byte| *byte == 0).unwrap_or(RELEASE_BYTES);
        let text = std::str::from_utf8(&self.0[..length]).ok()?;
        (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic())).then_some(text)
    }
}

/// The first page of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SegmentHeader {
    pub cluster: ClusterId,
    pub number: u32,
    pub length: u32,
    pub previous_end: u32,
    pub salt: u64,
    pub release: Release,
}

/// What the first page of a file is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FirstPage {
    Sound(SegmentHeader),
    Newer(u32, Release),
    Unsound,
}

impl SegmentHeader {
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SEGMENT_HEADER_BYTES);
        bytes.extend_from_slice(SEGMENT_MAGIC);
        bytes.put_i32(FORMAT_VERSION as i32);
        bytes.extend_from_slice(&self.cluster.0);
        bytes.put_i32(self.number as i32);
        bytes.put_i32(self.length as i32);
        bytes.put_i32(self.previous_end as i32);
        bytes.put_i64(self.salt as i64);
        bytes.extend_from_slice(&self.release.0);
        bytes.resize(SEGMENT_HEADER_BYTES - 4, 0);
        let checksum = crc32fast::hash(&bytes);
        bytes.put_i32(checksum as i32);
        bytes
    }

    pub fn decode(page: &[u8]) -> FirstPage {
        let Some((checked, checksum)) =
            page.get(..SEGMENT_HEADER_BYTES).and_then(|page| page.split_last_chunk::<4>())
        else {
            return FirstPage::Unsound;
        };
        let sound = checked.starts_with(SEGMENT_MAGIC)
            && crc32fast::hash(checked) == u32::from_be_bytes(*checksum);
        if !sound {
            return FirstPage::Unsound;
        }
        SegmentHeader::fields(&checked[SEGMENT_MAGIC.len()..]).unwrap_or(FirstPage::Unsound)
    }

    fn fields(bytes: &[u8]) -> Option<FirstPage> {
        let mut reader = ByteReader::new(bytes);
        let version = reader.u32().ok()?;
        if version > FORMAT_VERSION {
            // Where the release stands is the same in all formats.
            let release = reader.rest().get(RELEASE_AT..RELEASE_AT + RELEASE_BYTES)?;
            return Some(FirstPage::Newer(version, Release(release.try_into().ok()?)));
        }
        let cluster = ClusterId(reader.take(16).ok()?.try_into().ok()?);
        let number = reader.u32().ok()?;
        let length = reader.u32().ok()?;
        let previous_end = reader.u32().ok()?;
        let salt = reader.u64().ok()?;
        let release = Release(reader.take(RELEASE_BYTES).ok()?.try_into().ok()?);
        let header = SegmentHeader { cluster, number, length, previous_end, salt, release };
        Some(FirstPage::Sound(header))
    }
}

/// The header of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BlockHeader {
    pub body_checksum: u32,
    pub body_bytes: u32,
    pub segment: u32,
    pub partition: u32,
    pub watermark: LogPosition,
    pub source: LogSource,
    pub first_sequence: u64,
    pub entries: u32,
}

/// The checksum of a block's header.
fn header_checksum(salt: u64, checked: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&salt.to_be_bytes());
    hasher.update(checked);
    hasher.finalize()
}

/// A length with its padding.
pub(super) fn padded(length: usize) -> usize {
    length.next_multiple_of(BLOCK_ALIGNMENT)
}

impl BlockHeader {
    /// Bytes of the whole block.
    pub fn block_bytes(&self) -> u64 {
        (BLOCK_HEADER_BYTES as u64 + u64::from(self.body_bytes))
            .next_multiple_of(BLOCK_ALIGNMENT as u64)
    }

    /// Whether it only says that the log goes on in the next segment.
    pub fn names_next(&self) -> bool {
        self.partition == NO_PARTITION && self.first_sequence != 0
    }

    /// Writes the header over the first bytes of `out`.
    pub fn encode(&self, salt: u64, out: &mut [u8]) {
        let (magic, rest) = out.split_at_mut(4);
        magic.copy_from_slice(&BLOCK_MAGIC);
        let mut at = 4;
        let mut put = |bytes: &[u8]| {
            rest[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&self.body_checksum.to_be_bytes());
        put(&self.body_bytes.to_be_bytes());
        put(&self.segment.to_be_bytes());
        put(&self.partition.to_be_bytes());
        put(&self.watermark.packed().to_be_bytes());
        put(&self.source.incarnation.to_be_bytes());
        put(&self.first_sequence.to_be_bytes());
        put(&self.entries.to_be_bytes());
        put(&self.source.epoch.to_be_bytes());
        let checksum = header_checksum(salt, &out[CHECKED_FROM..BLOCK_HEADER_BYTES]);
        out[4..CHECKED_FROM].copy_from_slice(&checksum.to_be_bytes());
    }

    /// The header at the beginning of `bytes`, if there is one of this segment.
    pub fn decode(salt: u64, segment: u32, bytes: &[u8]) -> Option<BlockHeader> {
        let header = BlockHeader::unchecked(bytes)?;
        let mut reader = ByteReader::new(&bytes[4..]);
        let checksum = reader.u32().ok()?;
        let is_sound = header.segment == segment
            && checksum == header_checksum(salt, &bytes[CHECKED_FROM..BLOCK_HEADER_BYTES]);
        is_sound.then_some(header)
    }

    /// What would be the header at the beginning of `bytes`, its checksum untested.
    pub fn unchecked(bytes: &[u8]) -> Option<BlockHeader> {
        let bytes = bytes.get(..BLOCK_HEADER_BYTES)?;
        if !bytes.starts_with(&BLOCK_MAGIC) {
            return None;
        }
        let mut reader = ByteReader::new(&bytes[CHECKED_FROM..]);
        let mut header = BlockHeader {
            body_checksum: reader.u32().ok()?,
            body_bytes: reader.u32().ok()?,
            segment: reader.u32().ok()?,
            partition: reader.u32().ok()?,
            watermark: LogPosition::unpacked(reader.u64().ok()?),
            source: LogSource::of_run(reader.u64().ok()?),
            first_sequence: reader.u64().ok()?,
            entries: reader.u32().ok()?,
        };
        // Format 1 has no epoch: all of it is of the first one.
        header.source.epoch = reader.u32().ok()?.max(LogSource::FIRST_EPOCH);
        Some(header)
    }
}
