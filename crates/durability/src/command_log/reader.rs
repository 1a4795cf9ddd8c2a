//! Reading a log from its first segment to its end.

use super::FOLDER;
use super::error::{LogError, LogErrorKind};
use super::faults::LogFaults;
use super::format::{
    BLOCK_ALIGNMENT, BLOCK_HEADER_BYTES, BLOCK_MAGIC, BlockHeader, FIRST_BLOCK, FORMAT_VERSION,
    FirstPage, LogPosition, NO_PARTITION, Release, SEGMENT_HEADER_BYTES, SegmentHeader, file_name,
    number_of, padded,
};
use crate::directory::{ClusterId, LOG_BEGUN_FILE};
use lockstep_env::{Disk, DiskError, File, OpenMode};
use lockstep_txn::log_entry::LogSource;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is read from a file at once, unless a block is longer.
const READ_BYTES: usize = 1 << 20;

/// Entries of one partition, as they were transferred and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block<'a> {
    /// Where the block stands.
    pub position: LogPosition,
    /// The partition.
    pub partition: u32,
    /// Who ordered the entries.
    pub source: LogSource,
    /// Number of the first entry in the partition's log.
    pub first_sequence: u64,
    /// How many entries there are, numbered without gaps.
    pub entries: u32,
    /// Everything before this place was durable when the block was written.
    pub watermark: LogPosition,
    /// The entries.
    pub body: &'a [u8],
}

/// What a segment holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSummary {
    /// Its number.
    pub number: u32,
    /// Length of its file.
    pub length: u32,
    /// Part of the checksums of its blocks.
    pub(super) salt: u64,
    /// Where its blocks end.
    pub end: u32,
    /// The release that wrote it, if the file says so.
    pub release: Option<String>,
    /// The last entry of each partition that has some.
    pub last_sequences: BTreeMap<u32, u64>,
}

/// The end of a log that was cut off because it was never known to be durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TornTail {
    /// The file.
    pub file: String,
    /// Where the cut is.
    pub offset: u32,
}

/// Where a log ends, and what it holds: what a writer goes on from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct LogEnd {
    /// After the last whole block; segment 0 if there is no log.
    pub position: LogPosition,
    /// The segments, oldest first.
    pub segments: Vec<SegmentSummary>,
    /// What was cut off.
    pub torn: Option<TornTail>,
}

/// A segment file, as its name and first page tell.
struct Segment {
    number: u32,
    header: SegmentHeader,
}

/// Goes through the blocks of a log in the order in which they were written. Holds one block, or
/// a megabyte, in memory.
pub struct LogReader {
    disk: Arc<dyn Disk>,
    segments: Vec<Segment>,
    /// Which of the segments is read, and its file once it is open.
    at: usize,
    file: Option<Box<dyn File>>,
    offset: u32,
    buffer: Vec<u8>,
    /// Where in the file the buffer begins.
    buffer_offset: u32,
    end: LogEnd,
    /// Only the blocks of this partition are wanted.
    only: Option<u32>,
    faults: LogFaults,
}

impl LogReader {
    /// Looks at the files of a log. A folder without segments is an empty log, as long as there
    /// never were any.
    ///
    /// # Errors
    /// A file is missing, damaged, of another cluster or of a later version.
    pub fn open(disk: Arc<dyn Disk>, cluster: ClusterId) -> Result<LogReader, LogError> {
        let names = match disk.list(FOLDER) {
            Err(error) if error.is_not_found() && has_begun(&*disk)? => {
                return Err(all_gone(&*disk, 1));
            }
            other => other?,
        };
        let mut numbers: Vec<u32> = names.iter().filter_map(|name| number_of(name)).collect();
        numbers.sort_unstable();
        if let Some(pair) = numbers.windows(2).find(|pair| pair[1] - pair[0] != 1) {
            return Err(missing(&*disk, pair[0] + 1, pair[1]));
        }
        let mut segments = Vec::new();
        for (index, &number) in numbers.iter().enumerate() {
            let is_last = index + 1 == numbers.len();
            match read_first_page(&*disk, number, cluster, is_last)? {
                Some(header) => segments.push(Segment { number, header }),
                None => break,
            }
        }
        if segments.is_empty() && has_begun(&*disk)? {
            return Err(all_gone(&*disk, numbers.first().map_or(1, |number| *number)));
        }
        let before = segments.first().map_or(numbers.first(), |first| Some(&first.number));
        let segment = before.map_or(0, |number| number - 1);
        let end = LogEnd { position: LogPosition { segment, offset: 0 }, ..LogEnd::default() };
        Ok(LogReader {
            disk,
            segments,
            at: 0,
            file: None,
            offset: FIRST_BLOCK,
            buffer: Vec::new(),
            buffer_offset: 0,
            end,
            only: None,
            faults: LogFaults::default(),
        })
    }

    /// From now on the log is read in a broken way.
    pub fn inject(&mut self, faults: LogFaults) {
        self.faults = faults;
    }

    /// From now on gives the blocks of one partition only. The bodies of others are not looked
    /// at, so this is for logs that were read whole before.
    pub fn of_partition(mut self, partition: u32) -> LogReader {
        self.only = Some(partition);
        self
    }

    /// The next block, or none at the end.
    ///
    /// # Errors
    /// The disk failed, or bytes that were synced are damaged.
    pub fn next_block(&mut self) -> Result<Option<Block<'_>>, LogError> {
        let (position, header) = loop {
            let Some((position, header)) = self.next_header()? else { return Ok(None) };
            let wanted = self.only.is_none_or(|only| only == header.partition);
            if wanted && header.partition != NO_PARTITION {
                break (position, header);
            }
        };
        let start = (position.offset - self.buffer_offset) as usize + BLOCK_HEADER_BYTES;
        Ok(Some(Block {
            position,
            partition: header.partition,
            source: header.source,
            first_sequence: header.first_sequence,
            entries: header.entries,
            watermark: header.watermark,
            body: &self.buffer[start..start + header.body_bytes as usize],
        }))
    }

    /// Where the log ends; to be asked when [`LogReader::next_block`] has given none.
    pub fn into_end(self) -> LogEnd {
        self.end
    }

    /// Steps over the next block; its bytes are in the buffer then.
    fn next_header(&mut self) -> Result<Option<(LogPosition, BlockHeader)>, LogError> {
        loop {
            let Some(segment) = self.segments.get(self.at) else { return Ok(None) };
            let (number, own) = (segment.number, segment.header);
            let ends_at = self.segments.get(self.at + 1).map(|next| next.header.previous_end);
            if self.file.is_none() {
                self.file = Some(self.disk.open(&file_name(number), OpenMode::Read)?);
                self.offset = FIRST_BLOCK;
                self.buffer.clear();
                self.end.segments.push(SegmentSummary {
                    number,
                    length: own.length,
                    salt: own.salt,
                    end: FIRST_BLOCK,
                    release: own.release.text().map(str::to_string),
                    last_sequences: BTreeMap::new(),
                });
            }
            let position = LogPosition { segment: number, offset: self.offset };
            self.end.position = position;
            if ends_at == Some(self.offset) {
                if self.only.is_none() {
                    self.expect_no_other_writer(&own, position)?;
                }
                self.file = None;
                self.at += 1;
                continue;
            }
            let limit = ends_at.unwrap_or(own.length);
            if let Some(header) = self.whole_block(&own, limit)? {
                if header.names_next() {
                    return Err(no_next(&*self.disk, position));
                }
                self.step_over(&header);
                return Ok(Some((position, header)));
            }
            if ends_at.is_some() {
                let next = file_name(number + 1);
                let problem = format!(
                    "no whole block is here, but {} says that blocks go on to byte {limit}",
                    self.disk.shown(&next)
                );
                return Err(self.damage(position, problem));
            }
            // Who reads one partition's blocks again knows that the log is sound.
            if self.only.is_none() {
                self.expect_torn(&own, position)?;
            }
            self.at = self.segments.len();
        }
    }

    /// Notes a block that is whole.
    fn step_over(&mut self, header: &BlockHeader) {
        // `whole_block` saw the block end within the segment, whose length is a u32.
        self.offset += header.block_bytes() as u32;
        assert!(self.offset > self.end.position.offset, "blocks are read one after the other");
        self.end.position.offset = self.offset;
        let summary = self.end.segments.last_mut().expect("pushed when the segment was opened");
        summary.end = self.offset;
        if header.partition != NO_PARTITION {
            let last = header.first_sequence.saturating_add(u64::from(header.entries));
            summary.last_sequences.insert(header.partition, last.saturating_sub(1));
        }
    }

    /// The header of the block at the offset, if all of it is there and sound.
    fn whole_block(
        &mut self,
        own: &SegmentHeader,
        limit: u32,
    ) -> Result<Option<BlockHeader>, LogError> {
        let start = self.offset;
        let Some(bytes) = self.bytes_at(start, BLOCK_HEADER_BYTES, limit)? else {
            return Ok(None);
        };
        let Some(header) = BlockHeader::decode(own.salt, own.number, bytes) else {
            return Ok(None);
        };
        let fits = u64::from(start) + header.block_bytes() <= u64::from(limit);
        if !fits {
            return Ok(None);
        }
        if self.only.is_some_and(|only| only != header.partition) {
            return Ok(Some(header));
        }
        let Some(bytes) = self.bytes_at(start, header.block_bytes() as usize, limit)? else {
            return Ok(None);
        };
        let body = &bytes[BLOCK_HEADER_BYTES..];
        debug_assert_eq!(body.len(), padded(header.body_bytes as usize));
        let is_sound = crc32fast::hash(body) == header.body_checksum;
        Ok((is_sound || self.faults.ignore_checksum()).then_some(header))
    }

    /// N bytes of the file from an offset, or none if they reach beyond `limit` or the file.
    fn bytes_at(
        &mut self,
        offset: u32,
        count: usize,
        limit: u32,
    ) -> Result<Option<&[u8]>, LogError> {
        let end = u64::from(offset) + count as u64;
        if end > u64::from(limit) {
            return Ok(None);
        }
        let buffered = u64::from(self.buffer_offset) + self.buffer.len() as u64;
        if self.buffer.is_empty() || offset < self.buffer_offset || end > buffered {
            let wanted = count.max(READ_BYTES).min((limit - offset) as usize);
            self.buffer.resize(wanted, 0);
            let file = self.file.as_ref().expect("the segment is open");
            let read = file.read_at(u64::from(offset), &mut self.buffer)?;
            self.buffer.truncate(read);
            self.buffer_offset = offset;
        }
        let start = (offset - self.buffer_offset) as usize;
        Ok(self.buffer.get(start..start + count))
    }

    /// There is no whole block at `position` of the last segment: that is the log's end, unless
    /// something after it proves that there was one.
    fn expect_torn(&mut self, own: &SegmentHeader, position: LogPosition) -> Result<(), LogError> {
        if let Some((at, header)) = self.later_block(own, position)?
            && !self.faults.ignore_watermark()
        {
            let problem = format!(
                "no whole block is here, but the block at byte {at} was written when everything \
                 up to byte {} was durable",
                match header.watermark.segment == position.segment {
                    true => header.watermark.offset,
                    false => own.length,
                }
            );
            return Err(self.damage(position, problem));
        }
        let bytes = self.bytes_at(position.offset, BLOCK_HEADER_BYTES, own.length)?;
        let is_written = bytes.is_some_and(|bytes| bytes != [0; BLOCK_HEADER_BYTES]);
        if is_written && self.is_begun(own, position)? {
            let file = self.disk.shown(&file_name(position.segment));
            self.end.torn = Some(TornTail { file, offset: position.offset });
        }
        Ok(())
    }

    /// A later segment says that the blocks of this one end at `position`. Blocks that were written
    /// there all the same are those of a process that went on while another one began the later
    /// segment.
    fn expect_no_other_writer(
        &mut self,
        own: &SegmentHeader,
        position: LogPosition,
    ) -> Result<(), LogError> {
        // The block that names the next segment stands here; after a torn end there may be more
        // blocks of the torn group, which were written when no more was durable than up to here.
        let here = self.whole_block(own, own.length)?;
        let is_other = here.is_some_and(|header| !header.names_next());
        if is_other || self.later_block(own, position)?.is_some() {
            return Err(overlapping(&*self.disk, position, own.length));
        }
        Ok(())
    }

    /// The first block header from `position` on, whatever it follows, that was written when
    /// more than what comes before `position` was durable.
    fn later_block(
        &mut self,
        own: &SegmentHeader,
        position: LogPosition,
    ) -> Result<Option<(u32, BlockHeader)>, LogError> {
        let mut at = position.offset;
        while at < own.length {
            let count = READ_BYTES.min((own.length - at) as usize);
            let Some(bytes) = self.bytes_at(at, count, own.length)? else { break };
            let begins = |(_, bytes): &(u32, &[u8])| bytes.starts_with(&BLOCK_MAGIC);
            let places = (at..).step_by(BLOCK_ALIGNMENT).zip(bytes.chunks(BLOCK_ALIGNMENT));
            let found: Vec<u32> = places.filter(begins).map(|(place, _)| place).collect();
            for place in found {
                let bytes = self.bytes_at(place, BLOCK_HEADER_BYTES, own.length)?;
                let header =
                    bytes.and_then(|bytes| BlockHeader::decode(own.salt, own.number, bytes));
                if let Some(header) = header.filter(|header| header.watermark > position) {
                    return Ok(Some((place, header)));
                }
            }
            at += count as u32;
        }
        Ok(None)
    }

    /// Whether somebody began to write a block here in this life of the file.
    fn is_begun(&mut self, own: &SegmentHeader, position: LogPosition) -> Result<bool, LogError> {
        let bytes = self.bytes_at(position.offset, BLOCK_HEADER_BYTES, own.length)?;
        let header = bytes.and_then(BlockHeader::unchecked);
        Ok(header.is_none_or(|header| header.segment >= own.number))
    }

    fn damage(&self, position: LogPosition, problem: String) -> LogError {
        let file = self.disk.shown(&file_name(position.segment));
        LogError::damaged(file, u64::from(position.offset), problem)
    }
}

/// Whether the log had a first segment.
fn has_begun(disk: &dyn Disk) -> Result<bool, DiskError> {
    Ok(disk.list("")?.iter().any(|name| name == LOG_BEGUN_FILE))
}

/// The header of a segment; none for the last one if it was made and never used.
fn read_first_page(
    disk: &dyn Disk,
    number: u32,
    cluster: ClusterId,
    is_last: bool,
) -> Result<Option<SegmentHeader>, LogError> {
    let name = file_name(number);
    let file = disk.open(&name, OpenMode::Read)?;
    let mut page = [0; SEGMENT_HEADER_BYTES];
    let read = file.read_at(0, &mut page)?;
    let shown = disk.shown(&name);
    let header = match SegmentHeader::decode(&page[..read]) {
        FirstPage::Sound(header) if header.number == number => header,
        FirstPage::Newer(version, release) => return Err(newer(shown, version, release)),
        FirstPage::Sound(other) if !is_last => {
            let problem = format!("the file says that it is segment {}", other.number);
            return Err(LogError::damaged(shown, 28, problem));
        }
        _ if is_last && !has_blocks(&*file, number)? => return Ok(None),
        _ => {
            let problem = "the segment's header is damaged: its checksum does not fit";
            return Err(LogError::damaged(shown, 0, problem));
        }
    };
    if header.cluster != cluster {
        return Err(foreign(shown, header.cluster, cluster));
    }
    let length = file.length()?;
    if length < u64::from(header.length) {
        let problem = format!("the file ends here, and should have {} bytes", header.length);
        return Err(LogError::damaged(shown, length, problem));
    }
    Ok(Some(header))
}

/// Whether a segment's first block was written in its present life; its header was synced before.
fn has_blocks(file: &dyn File, number: u32) -> Result<bool, DiskError> {
    let mut bytes = [0; BLOCK_HEADER_BYTES];
    let read = file.read_at(u64::from(FIRST_BLOCK), &mut bytes)?;
    Ok(BlockHeader::unchecked(&bytes[..read]).is_some_and(|header| header.segment == number))
}

fn missing(disk: &dyn Disk, number: u32, later: u32) -> LogError {
    LogError {
        kind: LogErrorKind::Missing,
        file: disk.shown(&file_name(number)),
        offset: None,
        problem: format!("the file is missing, and {} is there", disk.shown(&file_name(later))),
        remedy: "put the file back, or restore the host from a snapshot".to_string(),
    }
}

/// There were segments, and none is there.
fn all_gone(disk: &dyn Disk, number: u32) -> LogError {
    LogError {
        kind: LogErrorKind::Missing,
        file: disk.shown(&file_name(number)),
        offset: None,
        problem: format!(
            "the command log has no file with a sound first page, and {} says that it had some",
            disk.shown(LOG_BEGUN_FILE)
        ),
        remedy: "put the log's files back from a copy; a directory for a new database is made \
                 by `lockstep init`, and a snapshot restored into it"
            .to_string(),
    }
}

/// A segment says that there is a next one, and there is none.
fn no_next(disk: &dyn Disk, position: LogPosition) -> LogError {
    let next = file_name(position.segment + 1);
    LogError {
        kind: LogErrorKind::Missing,
        file: disk.shown(&next),
        offset: None,
        problem: format!(
            "the file is missing, or its first page is damaged; {} says at byte {} that the log \
             goes on there",
            disk.shown(&file_name(position.segment)),
            position.offset
        ),
        remedy: "put the file back, or restore the host from a snapshot".to_string(),
    }
}

/// There are blocks after the end of a segment.
fn overlapping(disk: &dyn Disk, position: LogPosition, length: u32) -> LogError {
    let (file, end) = (disk.shown(&file_name(position.segment)), position.offset);
    let next = disk.shown(&file_name(position.segment + 1));
    LogError {
        kind: LogErrorKind::Overlapping,
        offset: Some(u64::from(end)),
        problem: format!(
            "two processes wrote to the directory at the same time: {next} begins a run that saw \
             this file end here, and another run went on here. Each has changes that the other \
             has not"
        ),
        remedy: format!(
            "copy the directory, then keep one of the two runs. To keep that of {next}, cut this \
             file: `truncate -s {end} {file} && truncate -s {length} {file}`. To keep that of \
             this file, move {next}, later segments and later snapshots away"
        ),
        file,
    }
}

fn newer(file: String, version: u32, release: Release) -> LogError {
    let by = release.text().map_or(String::new(), |text| format!(" (written by release {text})"));
    LogError {
        kind: LogErrorKind::Newer,
        file,
        offset: Some(8),
        problem: format!(
            "the format version is {version}{by}; this program, release {}, reads up to \
             {FORMAT_VERSION}",
            crate::RELEASE
        ),
        remedy: "start the directory with the program that wrote it, or a later one".to_string(),
    }
}

fn foreign(file: String, found: ClusterId, expected: ClusterId) -> LogError {
    LogError {
        kind: LogErrorKind::Foreign,
        file,
        offset: Some(12),
        problem: format!("the file belongs to cluster {found}, the directory to {expected}"),
        remedy: "put the files of this directory back".to_string(),
    }
}
