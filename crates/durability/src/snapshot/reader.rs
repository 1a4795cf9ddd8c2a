//! Reading files of rows: from bytes that may be anything.

use super::heads::{self, Fields, TableHead};
use super::manifest::{FileEntry, Manifest};
use super::{
    CHUNK_HEADER_BYTES, ROWS_HEADER_BYTES, ROWS_MAGIC, SnapshotError, WHOLE_FORMAT, partition_of,
    rows_name,
};
use lockstep_env::{Disk, File, OpenMode};

/// Bytes read at a time where a whole file is looked at.
const READ_BYTES: usize = 1 << 20;

/// Reads a file of rows of a snapshot.
pub struct RowsReader {
    file: Box<dyn File>,
    length: u64,
    offset: u64,
    next_chunk: u32,
    payload_bytes: u64,
    tables: Vec<TableHead>,
    ended: bool,
}

/// A chunk's payload: whole records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chunk {
    /// Where the payload begins in the file, for messages.
    pub offset: u64,
}

/// What stands before a chunk's payload.
struct ChunkHead {
    /// The bytes of it that the checksum is over.
    checked: [u8; CHUNK_HEADER_BYTES - 4],
    number: u32,
    kind: u32,
    length: u32,
    checksum: u32,
}

impl RowsReader {
    /// Opens the file of a partition, and reads what it says of its tables.
    ///
    /// # Errors
    /// It is not there, of another length than the manifest says, of another snapshot, damaged.
    pub fn open(
        disk: &dyn Disk,
        folder: &str,
        manifest: &Manifest,
        partition: u32,
    ) -> Result<RowsReader, SnapshotError> {
        let is_it =
            |entry: &&FileEntry| partition_of(&entry.name, &manifest.nonce) == Some(partition);
        let entry = manifest.files.iter().find(is_it);
        let name =
            entry.map_or_else(|| rows_name(&manifest.nonce, partition), |entry| entry.name.clone());
        let path = super::folder::path(folder, &name);
        let Some(entry) = entry else {
            let problem = "the manifest names no such file";
            let remedy = "use a snapshot with rows of that partition";
            return Err(SnapshotError::refused(disk.shown(&path), problem, remedy));
        };
        let file = disk.open(&path, OpenMode::Read)?;
        let length = file.length()?;
        check_length(&*file, length, entry)?;
        let mut reader = RowsReader {
            file,
            length,
            offset: 0,
            next_chunk: 0,
            payload_bytes: 0,
            tables: Vec::new(),
            ended: false,
        };
        reader.read_header(manifest, partition)?;
        reader.read_tables()?;
        Ok(reader)
    }

    /// The tables whose rows the file has.
    pub fn tables(&self) -> &[TableHead] {
        &self.tables
    }

    /// Bytes of the file, and how many of them are read.
    pub fn progress(&self) -> (u64, u64) {
        (self.length, self.offset)
    }

    /// The file's name as errors show it.
    pub fn shown(&self) -> &str {
        self.file.shown()
    }

    /// A problem with a record that begins `offset` bytes after the beginning of a chunk.
    pub fn damaged_record(&self, chunk: Chunk, offset: usize, problem: String) -> SnapshotError {
        self.damaged(chunk.offset + offset as u64, problem)
    }

    fn damaged(&self, offset: u64, problem: impl Into<String>) -> SnapshotError {
        SnapshotError::damaged(self.file.shown(), offset, problem)
    }

    fn read_header(&mut self, manifest: &Manifest, partition: u32) -> Result<(), SnapshotError> {
        let mut header = [0; ROWS_HEADER_BYTES];
        self.read(0, &mut header)?;
        let mut fields = Fields(&header);
        let magic = fields.take(8).unwrap_or_default();
        if magic != ROWS_MAGIC {
            return Err(self.damaged(0, "this is no file of rows of a snapshot"));
        }
        let sound = crc32fast::hash(&header[..ROWS_HEADER_BYTES - 4]).to_le_bytes()
            == header[ROWS_HEADER_BYTES - 4..];
        if !sound {
            return Err(self.damaged(8, "the header's checksum is wrong"));
        }
        let format = fields.u32().unwrap_or_default();
        if format > WHOLE_FORMAT {
            let problem = format!("it has format {format}, newer than {WHOLE_FORMAT}");
            let remedy = "use the release that wrote it, or a later one";
            return Err(SnapshotError::refused(self.file.shown(), problem, remedy));
        }
        let of_partition = fields.u32().unwrap_or_default();
        let cluster = fields.take(16).unwrap_or_default();
        let transaction = fields.u64().unwrap_or_default() as i64;
        if of_partition != partition
            || cluster != manifest.cluster.0
            || transaction != manifest.transaction
        {
            let problem = format!(
                "it belongs to another snapshot (partition {of_partition}, transaction \
                 {transaction})"
            );
            let remedy = "put the snapshot's own file in its place";
            return Err(SnapshotError::refused(self.file.shown(), problem, remedy));
        }
        self.offset = ROWS_HEADER_BYTES as u64;
        Ok(())
    }

    fn read_tables(&mut self) -> Result<(), SnapshotError> {
        let (at, mut payload) = (self.offset, Vec::new());
        let kind = self.read_chunk(&mut payload)?;
        let tables = (kind == 1).then(|| heads::decode(&payload)).flatten();
        self.tables = tables.ok_or_else(|| self.damaged(at, "it does not begin with tables"))?;
        // Whatever is in a slot, its record has at least a byte of it.
        let length = self.length;
        let is_long = |table: &&TableHead| u64::from(table.used_slots) > length;
        if let Some(table) = self.tables.iter().find(is_long) {
            let TableHead { name, used_slots, .. } = table;
            let problem =
                format!("table {name} has {used_slots} slots in a file of {length} bytes");
            return Err(self.damaged(at, problem));
        }
        Ok(())
    }

    /// As [`RowsReader::next`], but only of the tables that every partition has: what is between
    /// is not read.
    ///
    /// # Errors
    /// Damage, with its place.
    pub fn next_replicated(
        &mut self,
        payload: &mut Vec<u8>,
    ) -> Result<Option<Chunk>, SnapshotError> {
        while !self.ended {
            let head = self.read_chunk_head()?;
            if head.kind != 2 {
                return self.next(payload);
            }
            self.pass(&head)?;
        }
        Ok(None)
    }

    /// Reads the next chunk of records into `payload`; `None` after the last, once the end was
    /// found to be one.
    ///
    /// # Errors
    /// Damage, with its place.
    pub fn next(&mut self, payload: &mut Vec<u8>) -> Result<Option<Chunk>, SnapshotError> {
        if self.ended {
            return Ok(None);
        }
        let (at, before) = (self.offset, self.payload_bytes);
        match self.read_chunk(payload)? {
            2 | 4 => Ok(Some(Chunk { offset: at + CHUNK_HEADER_BYTES as u64 })),
            3 if payload[..] == before.to_le_bytes() && self.offset == self.length => {
                self.ended = true;
                Ok(None)
            }
            3 => Err(self.damaged(at, "the file does not end where its end is marked")),
            kind => Err(self.damaged(at, format!("a chunk of the unknown kind {kind}"))),
        }
    }

    /// Reads a chunk; gives its kind.
    fn read_chunk(&mut self, payload: &mut Vec<u8>) -> Result<u32, SnapshotError> {
        let (at, head) = (self.offset, self.read_chunk_head()?);
        payload.resize(head.length as usize, 0);
        self.read(at + CHUNK_HEADER_BYTES as u64, payload)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&head.checked);
        hasher.update(payload);
        if hasher.finalize() != head.checksum {
            let number = head.number;
            return Err(self.damaged(at, format!("the checksum of chunk {number} is wrong")));
        }
        self.pass(&head)?;
        Ok(head.kind)
    }

    fn read_chunk_head(&self) -> Result<ChunkHead, SnapshotError> {
        let at = self.offset;
        let mut header = [0; CHUNK_HEADER_BYTES];
        self.read(at, &mut header)?;
        let mut fields = Fields(&header);
        let mut next = || fields.u32().unwrap_or_default();
        let (number, kind, length, checksum) = (next(), next(), next(), next());
        if u64::from(length) > self.length - (at + CHUNK_HEADER_BYTES as u64) {
            let problem = format!("a chunk of {length} bytes ends after the end of the file");
            return Err(self.damaged(at, problem));
        }
        let mut checked = [0; CHUNK_HEADER_BYTES - 4];
        checked.copy_from_slice(&header[..CHUNK_HEADER_BYTES - 4]);
        Ok(ChunkHead { checked, number, kind, length, checksum })
    }

    /// Goes on after a chunk.
    fn pass(&mut self, head: &ChunkHead) -> Result<(), SnapshotError> {
        if head.number != self.next_chunk {
            let (number, wanted) = (head.number, self.next_chunk);
            let problem = format!("chunk {number} stands where chunk {wanted} belongs");
            return Err(self.damaged(self.offset, problem));
        }
        self.next_chunk += 1;
        self.payload_bytes += u64::from(head.length);
        self.offset += CHUNK_HEADER_BYTES as u64 + u64::from(head.length);
        Ok(())
    }

    fn read(&self, offset: u64, buffer: &mut [u8]) -> Result<(), SnapshotError> {
        let read = self.file.read_at(offset, buffer)?;
        if read < buffer.len() {
            let end = offset + read as u64;
            return Err(self.damaged(end, "the file ends too early"));
        }
        Ok(())
    }
}

/// The transaction of a snapshot whose manifest cannot be read, by its first file of rows; the
/// greatest number if that cannot be read either: it may be newer than any other.
pub fn saved_transaction(disk: &dyn Disk, folder: &str, nonce: &str) -> i64 {
    let name = super::folder::path(folder, &rows_name(nonce, 0));
    let mut header = [0; ROWS_HEADER_BYTES];
    let read = disk.open(&name, OpenMode::Read).and_then(|file| file.read_at(0, &mut header));
    let checked = &header[..ROWS_HEADER_BYTES - 4];
    let is_sound = read.is_ok_and(|read| read == ROWS_HEADER_BYTES)
        && header.starts_with(ROWS_MAGIC)
        && crc32fast::hash(checked).to_le_bytes() == header[ROWS_HEADER_BYTES - 4..];
    let mut fields = Fields(&header[32..]);
    fields.u64().filter(|_| is_sound).map_or(i64::MAX, |transaction| transaction as i64)
}

fn check_length(file: &dyn File, length: u64, entry: &FileEntry) -> Result<(), SnapshotError> {
    if length != entry.bytes {
        let problem = format!("it has {length} bytes, {} in the manifest", entry.bytes);
        return Err(SnapshotError::damaged(file.shown(), length.min(entry.bytes), problem));
    }
    Ok(())
}

/// Reads a whole file and compares it with its line of the manifest.
///
/// # Errors
/// It is not there, or another one.
pub fn verify_file(disk: &dyn Disk, folder: &str, entry: &FileEntry) -> Result<(), SnapshotError> {
    let file = disk.open(&super::folder::path(folder, &entry.name), OpenMode::Read)?;
    check_length(&*file, file.length()?, entry)?;
    let mut buffer = vec![0; READ_BYTES.min(entry.bytes as usize)];
    let (mut offset, mut checksum) = (0, crc32fast::Hasher::new());
    while offset < entry.bytes {
        let wanted = (entry.bytes - offset).min(buffer.len() as u64) as usize;
        let read = file.read_at(offset, &mut buffer[..wanted])?;
        if read == 0 {
            return Err(SnapshotError::damaged(file.shown(), offset, "the file ends too early"));
        }
        checksum.update(&buffer[..read]);
        offset += read as u64;
    }
    if checksum.finalize() != entry.checksum {
        let problem = "its checksum is not the one in the manifest";
        return Err(SnapshotError::damaged(file.shown(), 0, problem));
    }
    Ok(())
}
