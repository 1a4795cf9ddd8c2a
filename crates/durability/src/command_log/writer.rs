//! Writing a log: group commits into segments of a fixed length.

use super::FOLDER;
use super::error::{LogError, LogErrorKind};
use super::faults::LogFaults;
use super::format::{
    BLOCK_HEADER_BYTES, BlockHeader, FIRST_BLOCK, LogPosition, NO_PARTITION, Release,
    SegmentHeader, file_name, number_of, padded,
};
use super::reader::{LogEnd, SegmentSummary};
use super::spare::SpareOrder;
use crate::directory::{ClusterId, LOG_BEGUN_FILE};
use lockstep_base::random::split_mix;
use lockstep_env::{Disk, DiskErrorKind, File, OpenMode};
use lockstep_txn::log_entry::LogSource;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A file that was never written to is filled with zeros so far ahead of the blocks: a sync is
/// cheap when it only replaces bytes that are there.
const FILL_BYTES: u64 = 4 << 20;
/// What the system reads and writes of a file at least.
const PAGE_BYTES: u32 = 4096;
/// What stays free at the end of a segment for the block that names the next one.
const HAND_ON_BYTES: u64 = BLOCK_HEADER_BYTES as u64;
/// Files that are no longer needed and are kept to be written again.
const SPARE_FILES: usize = 2;
/// A segment that is written for the first time is left for a spare, and a spare is wanted, once
/// one part in N has blocks: a log that hardly grows does without.
const EARLY_PART: u32 = 64;

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogSettings {
    /// The cluster that the directory belongs to.
    pub cluster: ClusterId,
    /// Length of a segment, in bytes. A group commit that is longer gets a segment of its own.
    pub segment_bytes: u32,
    /// Random bits; the salts of the segments come from it.
    pub seed: u64,
}

/// Writes one log. After any error it must not be used again, because what is durable is not known
/// then; [`LogWriter::make_room`] tells the exception.
pub struct LogWriter {
    disk: Arc<dyn Disk>,
    settings: LogSettings,
    file: Box<dyn File>,
    header: SegmentHeader,
    /// Where the next block goes.
    offset: u32,
    /// Up to here the file has been written to before.
    filled: u64,
    /// Everything before this place is durable.
    synced: LogPosition,
    /// The blocks of the group that is gathered, with room for their headers.
    group: Vec<u8>,
    parts: Vec<Part>,
    /// The segments before the present one and it, with the last entry of each partition.
    segments: VecDeque<SegmentSummary>,
    spares: VecDeque<String>,
    spares_made: u64,
    /// A spare is being made.
    spare_is_ordered: bool,
    zeros: Vec<u8>,
    seed: u64,
    totals: LogTotals,
    faults: LogFaults,
}

/// What a writer has done so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LogTotals {
    /// Bytes of blocks.
    pub bytes: u64,
    /// Group commits.
    pub groups: u64,
    /// Syncs.
    pub syncs: u64,
}

/// A block of the group.
struct Part {
    start: usize,
    body_bytes: u32,
    partition: u32,
    source: LogSource,
    first_sequence: u64,
    entries: u32,
}

impl LogWriter {
    /// Goes on with a log that was read to its end, in a new segment.
    ///
    /// # Errors
    /// The disk failed.
    pub fn open(
        disk: Arc<dyn Disk>,
        settings: LogSettings,
        end: LogEnd,
    ) -> Result<LogWriter, LogError> {
        // What was read may still be on its way to the disk, from the process that wrote it.
        let mut last_file = None;
        if !end.segments.is_empty() {
            let mut file = disk.open(&file_name(end.position.segment), OpenMode::Write)?;
            file.sync_data()?;
            last_file = Some(file);
        }
        let names = disk.list(FOLDER)?;
        let is_spare = |name: &String| name.starts_with("spare-") && name.ends_with(".log");
        // A power cut may have left the file of a segment with the name of a spare beside its own:
        // not all file systems rename in one step. So no spare outlives its writer.
        for name in names.iter().filter(|name| is_spare(name)) {
            disk.remove(&format!("{FOLDER}/{name}"))?;
        }
        let number = end.position.segment + 1;
        // A segment that was made and never used.
        let is_unused = |name: &String| number_of(name) == Some(number);
        let unused = names.iter().find(|n| is_unused(n)).map(|n| format!("{FOLDER}/{n}"));
        let mut seed = settings.seed;
        let header = new_header(&settings, number, end.position.offset, 0, &mut seed);
        let (file, header, filled) = make_segment(&*disk, header, unused)?;
        mark_as_begun(&*disk)?;
        if let (Some(mut file), Some(last)) = (last_file, end.segments.last()) {
            hand_on(&mut *file, end.position, (last.salt, last.length))?;
        }
        let synced = LogPosition { segment: number, offset: FIRST_BLOCK };
        let mut writer = LogWriter {
            disk,
            settings,
            file,
            header,
            offset: FIRST_BLOCK,
            filled,
            synced,
            group: Vec::new(),
            parts: Vec::new(),
            segments: end.segments.into(),
            spares: VecDeque::new(),
            spares_made: u64::from(number),
            spare_is_ordered: false,
            zeros: Vec::new(),
            seed,
            totals: LogTotals::default(),
            faults: LogFaults::default(),
        };
        writer.segments.push_back(empty_summary(&writer.header));
        Ok(writer)
    }

    /// Checks what holds between two calls that did not fail. Visits the group and the list of
    /// segments.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        let mut end = 0;
        for part in &self.parts {
            assert_eq!(part.start, end, "the blocks of a group stand one after the other");
            end += padded(BLOCK_HEADER_BYTES + part.body_bytes as usize);
        }
        assert_eq!(end, self.group.len(), "a group is its blocks and nothing else");
        assert_eq!(self.synced.segment, self.header.number, "a segment begins with all synced");
        assert!(self.synced <= self.position(), "nothing is durable that was not written");
        let is_written = self.offset > FIRST_BLOCK;
        assert!(
            !is_written || self.filled >= u64::from(self.offset),
            "the blocks are within what the file was written up to"
        );
        assert!(
            u64::from(self.offset) + HAND_ON_BYTES <= u64::from(self.header.length),
            "a segment keeps space for the block that names the next one"
        );
        let numbers = self.segments.iter().map(|segment| segment.number);
        assert!(
            numbers.clone().zip(numbers.skip(1)).all(|(a, b)| a + 1 == b),
            "segments are numbered without gaps, and pruned from the oldest on"
        );
        let present = self.segments.back().expect("the present segment is listed");
        assert_eq!(present.number, self.header.number, "the present segment is listed last");
        assert_eq!(present.end, self.offset, "the list has how far the present segment goes");
        assert!(self.spares.len() <= SPARE_FILES + 1, "few spare files are kept");
        assert!(
            !self.spare_is_ordered || self.spares.len() <= SPARE_FILES,
            "a spare is ordered where there is none"
        );
    }

    /// From now on the log is broken in some way.
    pub fn inject(&mut self, faults: LogFaults) {
        self.faults = faults;
    }

    /// Adds entries of a partition to the group that is gathered, as part of its last block if
    /// they follow on that: pieces that were transferred apart may be written one after the other.
    pub fn add(
        &mut self,
        partition: u32,
        source: LogSource,
        first_sequence: u64,
        entries: u32,
        body: &[u8],
    ) {
        let body_bytes = u32::try_from(body.len()).expect("a hand-over is far below 4 GiB");
        let is_seal = partition == NO_PARTITION;
        assert_eq!(entries == 0, is_seal, "entries of a partition come with their number");
        let last = self.parts.iter().rev().find(|part| part.partition == partition);
        let is_next = last
            .filter(|last| last.source == source && !is_seal)
            .is_none_or(|last| first_sequence >= last.first_sequence + u64::from(last.entries));
        // A copy that was loaded again lacks what its data have.
        debug_assert!(is_next, "entries of a partition come in the order of its log");
        if let Some(part) = self.parts.last_mut()
            && (part.partition, part.source) == (partition, source)
            && part.first_sequence + u64::from(part.entries) == first_sequence
        {
            self.group.truncate(part.start + BLOCK_HEADER_BYTES + part.body_bytes as usize);
            self.group.extend_from_slice(body);
            self.group.resize(part.start + padded(self.group.len() - part.start), 0);
            part.body_bytes += body_bytes;
            part.entries += entries;
            return;
        }
        let start = self.group.len();
        self.group.resize(start + BLOCK_HEADER_BYTES, 0);
        self.group.extend_from_slice(body);
        self.group.resize(start + padded(BLOCK_HEADER_BYTES + body.len()), 0);
        let part = Part { start, body_bytes, partition, source, first_sequence, entries };
        self.parts.push(part);
    }

    /// Bytes of the group that is gathered.
    pub fn group_bytes(&self) -> usize {
        self.group.len()
    }

    /// Makes sure that there is a segment with room for the group that is gathered: its space is
    /// reserved, so that no write wants for it later.
    ///
    /// # Errors
    /// The disk failed. This is the one call that may be made again after an error, if
    /// [`LogError::is_full`] says so: nothing was written then.
    pub fn make_room(&mut self) -> Result<(), LogError> {
        let end = u64::from(self.offset) + self.group.len() as u64 + HAND_ON_BYTES;
        let is_new = self.filled < u64::from(self.header.length);
        let leaves = is_new && self.is_in_use() && !self.spares.is_empty();
        if end > u64::from(self.header.length) || leaves {
            self.rotate()?;
        }
        let end = u64::from(self.offset) + self.group.len() as u64 + HAND_ON_BYTES;
        assert!(end <= u64::from(self.header.length), "a new segment is as long as its group");
        Ok(())
    }

    /// Whether the present segment has more than a few blocks.
    fn is_in_use(&self) -> bool {
        self.offset > FIRST_BLOCK + self.header.length / EARLY_PART
    }

    /// A file that is to be made for the next segment, by somebody who has the time; told once.
    /// [`LogWriter::spare_is_made`] is to follow.
    pub fn spare_to_make(&mut self) -> Option<SpareOrder> {
        if self.spare_is_ordered || !self.spares.is_empty() || !self.is_in_use() {
            return None;
        }
        self.spare_is_ordered = true;
        self.spares_made += 1;
        Some(SpareOrder::new(self.spares_made, u64::from(self.settings.segment_bytes)))
    }

    /// What became of the file: whether it is there, and durable.
    pub fn spare_is_made(&mut self, order: SpareOrder, is_there: bool) {
        assert!(self.spare_is_ordered, "a spare was asked for");
        self.spare_is_ordered = false;
        if is_there {
            assert!(!self.spares.contains(&order.name), "spare files have different names");
            self.spares.push_back(order.name);
        }
    }

    /// Writes the group that is gathered. It is durable after the next [`LogWriter::sync`].
    ///
    /// # Errors
    /// The disk failed.
    pub fn write(&mut self) -> Result<(), LogError> {
        if self.parts.is_empty() {
            return Ok(());
        }
        self.make_room()?;
        self.finish_headers();
        let bytes = self.group.len();
        let end = self.offset + bytes as u32;
        assert!(
            u64::from(end) + HAND_ON_BYTES <= u64::from(self.header.length),
            "the segment has space for the group and for the block that names the next one"
        );
        // To the end of the last page, where nothing stands yet: the system would have to read
        // the rest of a page of which it gets a part, and that is as dear as the write.
        let pages_end = end.next_multiple_of(PAGE_BYTES).min(self.header.length);
        self.group.resize(bytes + (pages_end - end) as usize, 0);
        self.file.write_at(u64::from(self.offset), &self.group)?;
        self.offset = end;
        self.fill_ahead()?;
        self.totals.bytes += bytes as u64;
        self.totals.groups += 1;
        self.group.clear();
        self.parts.clear();
        Ok(())
    }

    /// Makes everything durable that was written.
    ///
    /// # Errors
    /// The disk failed: nothing after the sync before may be taken for durable, ever.
    pub fn sync(&mut self) -> Result<(), LogError> {
        let position = self.position();
        assert!(self.synced <= position, "nothing is durable that was not written");
        if self.synced < position {
            if !self.faults.skip_sync() {
                self.file.sync_data()?;
            }
            self.synced = position;
            self.totals.syncs += 1;
        }
        Ok(())
    }

    /// Writes a block that says how far everything is durable, so that damage at the very end of
    /// the log is distinguished from a torn end. Worth while when nothing else is to be written for
    /// now. Nothing is written where that would take a new segment, and the disk has no space for
    /// it.
    ///
    /// # Errors
    /// The disk failed.
    pub fn seal(&mut self) -> Result<(), LogError> {
        assert!(self.parts.is_empty(), "no group is gathered");
        self.add(NO_PARTITION, LogSource::default(), 0, 0, &[]);
        match self.make_room() {
            Err(error) if error.is_full() => {
                self.group.clear();
                self.parts.clear();
                Ok(())
            }
            Err(error) => Err(error),
            Ok(()) => self.write(),
        }
    }

    /// Where the next block goes.
    pub fn position(&self) -> LogPosition {
        LogPosition { segment: self.header.number, offset: self.offset }
    }

    /// Everything before this place is durable.
    pub fn synced(&self) -> LogPosition {
        self.synced
    }

    /// What was done so far.
    pub fn totals(&self) -> LogTotals {
        self.totals
    }

    /// Number of segments, the present one included, and of files that are kept for later ones.
    pub fn file_counts(&self) -> (usize, usize) {
        (self.segments.len(), self.spares.len())
    }

    /// Gives up the oldest segments, as long as they hold only entries up to `covered`, which
    /// has the last entry of each partition that is safe elsewhere. Returns how many went.
    ///
    /// # Errors
    /// The disk failed.
    pub fn prune(&mut self, covered: &BTreeMap<u32, u64>) -> Result<usize, LogError> {
        let (mut pruned, mut too_many) = (0, self.faults.prune_too_many());
        while self.segments.len() > 1 {
            let oldest = &self.segments[0];
            let is_covered = |(partition, last): (&u32, &u64)| {
                covered.get(partition).is_some_and(|covered| last <= covered)
            };
            if !oldest.last_sequences.iter().all(is_covered) && !std::mem::take(&mut too_many) {
                break;
            }
            let name = file_name(oldest.number);
            let fits = oldest.length == self.settings.segment_bytes;
            if fits && self.spares.len() < SPARE_FILES {
                self.spares_made += 1;
                let spare = SpareOrder::new(self.spares_made, u64::from(oldest.length));
                self.disk.rename(&name, &spare.name)?;
                self.spares.push_back(spare.name);
            } else {
                self.disk.remove(&name)?;
            }
            // One by one: a segment must never be gone while an older one is still there.
            self.disk.sync_folder(FOLDER)?;
            self.segments.pop_front();
            pruned += 1;
        }
        let present = self.segments.back().map(|last| last.number);
        assert_eq!(present, Some(self.header.number), "the present segment stays");
        Ok(pruned)
    }

    /// Begins the next segment, long enough for the group.
    fn rotate(&mut self) -> Result<(), LogError> {
        self.sync()?;
        assert_eq!(self.synced, self.position(), "a segment is durable before the next begins");
        let room = u64::from(FIRST_BLOCK) + self.group.len() as u64 + HAND_ON_BYTES;
        let number = self.header.number + 1;
        let header = new_header(&self.settings, number, self.offset, room, &mut self.seed);
        let fits = header.length == self.settings.segment_bytes;
        let spare = if fits { self.spares.pop_front() } else { None };
        let (file, header, filled) = make_segment(&*self.disk, header, spare)?;
        if !self.faults.forget_next_segment() {
            hand_on(&mut *self.file, self.synced, (self.header.salt, self.header.length))?;
        }
        (self.file, self.header, self.filled) = (file, header, filled);
        self.offset = FIRST_BLOCK;
        self.synced = self.position();
        assert!(
            self.segments.back().is_some_and(|last| last.number < self.header.number),
            "segments are numbered upwards"
        );
        self.segments.push_back(empty_summary(&self.header));
        Ok(())
    }

    /// Writes the headers of the group's blocks, now that their segment is known.
    fn finish_headers(&mut self) {
        let summary = self.segments.back_mut().expect("the present segment is listed");
        for part in &self.parts {
            let whole = padded(BLOCK_HEADER_BYTES + part.body_bytes as usize);
            let block = &mut self.group[part.start..part.start + whole];
            debug_assert_eq!(block[..BLOCK_HEADER_BYTES], [0; BLOCK_HEADER_BYTES], "written once");
            let header = BlockHeader {
                body_checksum: crc32fast::hash(&block[BLOCK_HEADER_BYTES..]),
                body_bytes: part.body_bytes,
                segment: self.header.number,
                partition: part.partition,
                watermark: match self.faults.forget_watermark() {
                    true => LogPosition::default(),
                    false => self.synced,
                },
                source: part.source,
                first_sequence: part.first_sequence,
                entries: part.entries,
            };
            header.encode(self.header.salt, block);
            if part.partition != NO_PARTITION {
                let last = part.first_sequence + u64::from(part.entries) - 1;
                summary.last_sequences.insert(part.partition, last);
            }
        }
        summary.end = self.offset + self.group.len() as u32;
    }

    /// Writes zeros ahead of the blocks where the file has never been written to.
    fn fill_ahead(&mut self) -> Result<(), LogError> {
        let offset = u64::from(self.offset);
        if offset + FILL_BYTES / 2 <= self.filled || self.filled >= u64::from(self.header.length) {
            self.filled = self.filled.max(offset);
            return Ok(());
        }
        let from = self.filled.max(offset);
        let to = (offset + FILL_BYTES).min(u64::from(self.header.length));
        self.zeros.resize(to.saturating_sub(from) as usize, 0);
        assert!(from >= offset, "zeros never replace blocks");
        self.file.write_at(from, &self.zeros)?;
        self.filled = to;
        Ok(())
    }
}

/// Makes durable that the log has files, which are.
fn mark_as_begun(disk: &dyn Disk) -> Result<(), LogError> {
    if disk.list("")?.iter().any(|name| name == LOG_BEGUN_FILE) {
        return Ok(());
    }
    let mut file = disk.open(LOG_BEGUN_FILE, OpenMode::Create)?;
    file.write_at(0, b"LockstepDB: the command log has files.\n")?;
    file.sync_data()?;
    disk.sync_folder("")?;
    Ok(())
}

/// Writes into a segment that ends here, and makes durable, that there is a next one; that one's
/// first page must be durable. Without the room, in a segment of an earlier release, nobody will
/// know.
fn hand_on(
    file: &mut dyn File,
    end: LogPosition,
    (salt, length): (u64, u32),
) -> Result<(), LogError> {
    if u64::from(end.offset) + HAND_ON_BYTES > u64::from(length) {
        return Ok(());
    }
    let mut block = [0; BLOCK_HEADER_BYTES];
    let header = BlockHeader {
        body_checksum: crc32fast::hash(&[]),
        body_bytes: 0,
        segment: end.segment,
        partition: NO_PARTITION,
        watermark: end,
        source: LogSource::default(),
        first_sequence: u64::from(end.segment) + 1,
        entries: 0,
    };
    header.encode(salt, &mut block);
    file.write_at(u64::from(end.offset), &block)?;
    file.sync_data()?;
    Ok(())
}

fn empty_summary(header: &SegmentHeader) -> SegmentSummary {
    SegmentSummary {
        number: header.number,
        length: header.length,
        salt: header.salt,
        end: FIRST_BLOCK,
        release: header.release.text().map(str::to_string),
        last_sequences: BTreeMap::new(),
    }
}

/// The header of a segment with room for N bytes.
fn new_header(
    settings: &LogSettings,
    number: u32,
    previous_end: u32,
    room: u64,
    seed: &mut u64,
) -> SegmentHeader {
    let length = u64::from(settings.segment_bytes).max(room);
    let length = u32::try_from(length).expect("a group commit is far below 4 GiB");
    let cluster = settings.cluster;
    let release = Release::own();
    SegmentHeader { cluster, number, length, previous_end, salt: split_mix(seed), release }
}

/// Another process has made the next segment.
fn taken(disk: &dyn Disk, name: &str) -> LogError {
    LogError {
        kind: LogErrorKind::Overlapping,
        file: disk.shown(name),
        offset: None,
        problem: "the file is there already: another process writes to the directory".to_string(),
        remedy: "stop the other process; the next start says what each of the two wrote"
            .to_string(),
    }
}

/// Makes a segment's file, out of one that is there if one is given, and its header durable.
/// Gives the file, its header and how far it was written to before.
fn make_segment(
    disk: &dyn Disk,
    mut header: SegmentHeader,
    from: Option<String>,
) -> Result<(Box<dyn File>, SegmentHeader, u64), LogError> {
    let name = file_name(header.number);
    let (mut file, mut filled) = match from {
        None => (disk.open(&name, OpenMode::Create)?, 0),
        Some(from) => {
            if from != name {
                // A rename takes the place of a file that has the name already: then another
                // process writes this log.
                if disk.open(&name, OpenMode::Read).is_ok() {
                    return Err(taken(disk, &name));
                }
                disk.rename(&from, &name)?;
            }
            let file = disk.open(&name, OpenMode::Write)?;
            // What was reserved and never written to is not told from the rest.
            let filled = if from == name { 0 } else { file.length()? };
            (file, filled)
        }
    };
    disk.sync_folder(FOLDER)?;
    let length = file.length()?;
    if length < u64::from(header.length) {
        if let Err(error) = file.allocate(u64::from(header.length)) {
            drop(file);
            // What it has got is of use to others, and the next attempt makes it again.
            if error.kind == DiskErrorKind::Full && disk.remove(&name).is_ok() {
                disk.sync_folder(FOLDER)?;
            }
            return Err(error.into());
        }
        // A header is never there without the length that it tells.
        file.sync_data()?;
    } else {
        // A file that was made longer by an earlier setting keeps its length.
        header.length = u32::try_from(length).unwrap_or(header.length);
    }
    filled = filled.min(length);
    file.write_at(0, &header.encode())?;
    file.sync_data()?;
    Ok((file, header, filled))
}
