//! Writing the files of a snapshot. The one that calls this waits for the disk.

use super::folder::partial_name;
use super::heads::{self, TableHead};
use super::manifest::{FileEntry, Manifest};
use super::{ROWS_MAGIC, SnapshotError, WHOLE_FORMAT, manifest_name_of};
use crate::directory::ClusterId;
use lockstep_env::{BLOCK_BYTES, Disk, File, OpenMode};

/// Bytes are written when there are N.
const WRITE_BYTES: usize = 256 * 1024;
const _: () = assert!(WRITE_BYTES.is_multiple_of(BLOCK_BYTES));

/// A file that is written from its beginning to its end, with its checksum.
pub struct FileWriter {
    file: Box<dyn File>,
    name: String,
    bytes: u64,
    /// The last of them, which are not written yet; fewer than [`WRITE_BYTES`].
    unwritten: Vec<u8>,
    checksum: crc32fast::Hasher,
}

impl FileWriter {
    /// Makes a file that must not exist yet.
    ///
    /// # Errors
    /// It exists, or the disk does not let it be made.
    pub fn create(disk: &dyn Disk, folder: &str, name: &str) -> Result<FileWriter, SnapshotError> {
        let file = disk.open(&super::folder::path(folder, name), OpenMode::CreateLarge)?;
        let (checksum, unwritten) = (crc32fast::Hasher::new(), Vec::new());
        Ok(FileWriter { file, name: name.to_string(), bytes: 0, unwritten, checksum })
    }

    /// Appends bytes. They reach the disk in whole blocks, the last ones when the file ends.
    ///
    /// # Errors
    /// What the disk says.
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), SnapshotError> {
        self.checksum.update(bytes);
        while self.unwritten.len() + bytes.len() >= WRITE_BYTES {
            let (taken, rest) = bytes.split_at(WRITE_BYTES - self.unwritten.len());
            self.unwritten.extend_from_slice(taken);
            self.bytes += taken.len() as u64;
            self.write_out()?;
            bytes = rest;
        }
        self.unwritten.extend_from_slice(bytes);
        self.bytes += bytes.len() as u64;
        assert!(self.unwritten.len() < WRITE_BYTES, "whole pieces are written at once");
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), SnapshotError> {
        if !self.unwritten.is_empty() {
            let at = self.bytes - self.unwritten.len() as u64;
            assert!(at.is_multiple_of(WRITE_BYTES as u64), "pieces lie one after the other");
            self.file.write_at(at, &self.unwritten)?;
            self.unwritten.clear();
        }
        Ok(())
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Makes the file durable; gives its line of the manifest.
    ///
    /// # Errors
    /// What the disk says.
    pub fn finish(mut self) -> Result<FileEntry, SnapshotError> {
        self.write_out()?;
        self.file.sync_data()?;
        let checksum = self.checksum.finalize();
        Ok(FileEntry { name: self.name, bytes: self.bytes, checksum })
    }
}

/// Writes a file of rows.
pub struct RowsWriter {
    file: FileWriter,
    next_chunk: u32,
    payload_bytes: u64,
    /// The last bytes of a chunk that were not worth a write of their own.
    head: Vec<u8>,
}

impl RowsWriter {
    /// Makes the file, with what there is to say of its tables.
    ///
    /// # Errors
    /// It exists, or what the disk says.
    pub fn create(
        disk: &dyn Disk,
        folder: &str,
        name: &str,
        (cluster, transaction, partition): (ClusterId, i64, u32),
        tables: &[TableHead],
    ) -> Result<RowsWriter, SnapshotError> {
        let mut header = Vec::new();
        header.extend_from_slice(ROWS_MAGIC);
        header.extend_from_slice(&WHOLE_FORMAT.to_le_bytes());
        header.extend_from_slice(&partition.to_le_bytes());
        header.extend_from_slice(&cluster.0);
        header.extend_from_slice(&transaction.to_le_bytes());
        let checksum = crc32fast::hash(&header);
        header.extend_from_slice(&checksum.to_le_bytes());
        let mut file = FileWriter::create(disk, folder, name)?;
        file.append(&header)?;
        let mut writer = RowsWriter { file, next_chunk: 0, payload_bytes: 0, head: Vec::new() };
        writer.chunk(1, &heads::encode(tables))?;
        Ok(writer)
    }

    /// Appends whole records as one chunk.
    ///
    /// # Errors
    /// They have 4 GiB or more; what the disk says.
    pub fn records(&mut self, records: &[u8]) -> Result<(), SnapshotError> {
        self.chunk(2, records)
    }

    /// Appends whole records of tables that every partition has and of others. `next` takes the
    /// first record off its input and says whether it is of one that every partition has; `None`
    /// at the end.
    ///
    /// # Errors
    /// As for [`RowsWriter::records`]; what `next` says.
    pub fn mixed_records(
        &mut self,
        records: &[u8],
        mut next: impl FnMut(&mut &[u8]) -> Result<Option<bool>, SnapshotError>,
    ) -> Result<(), SnapshotError> {
        let kind = |replicated: bool| if replicated { 4 } else { 2 };
        let (mut input, mut begun, mut last) = (records, 0, None);
        loop {
            let at = records.len() - input.len();
            let found = next(&mut input)?;
            if let Some(before) = last
                && found != last
            {
                self.chunk(kind(before), &records[begun..at])?;
                begun = at;
            }
            let next_at = records.len() - input.len();
            if found.is_none() {
                assert!(input.is_empty(), "the records are all in chunks");
                return Ok(());
            }
            assert!(next_at > at, "a record has bytes");
            last = found;
        }
    }

    fn chunk(&mut self, kind: u32, payload: &[u8]) -> Result<(), SnapshotError> {
        let Ok(length) = u32::try_from(payload.len()) else {
            let (file, length) = (self.file.file.shown(), payload.len());
            let problem = format!("a chunk of {length} bytes exceeds 4 GiB");
            return Err(SnapshotError::refused(file, problem, "choose smaller chunks"));
        };
        self.head.clear();
        self.head.extend_from_slice(&self.next_chunk.to_le_bytes());
        self.head.extend_from_slice(&kind.to_le_bytes());
        self.head.extend_from_slice(&length.to_le_bytes());
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&self.head);
        checksum.update(payload);
        self.head.extend_from_slice(&checksum.finalize().to_le_bytes());
        let head = std::mem::take(&mut self.head);
        self.file.append(&head)?;
        self.head = head;
        self.file.append(payload)?;
        self.next_chunk += 1;
        self.payload_bytes += payload.len() as u64;
        Ok(())
    }

    /// Bytes so far.
    pub fn bytes(&self) -> u64 {
        self.file.bytes()
    }

    /// Ends the file and makes it durable; gives its line of the manifest.
    ///
    /// # Errors
    /// What the disk says.
    pub fn finish(mut self) -> Result<FileEntry, SnapshotError> {
        let total = self.payload_bytes.to_le_bytes();
        self.chunk(3, &total)?;
        self.file.finish()
    }
}

/// Writes the manifest: with this the snapshot exists. All its files are durable. Gives what the
/// manifest would say of itself.
///
/// # Errors
/// What the disk says; a name that no line can hold.
pub fn write_manifest(
    disk: &dyn Disk,
    folder: &str,
    manifest: &Manifest,
) -> Result<FileEntry, SnapshotError> {
    let host = manifest.part.as_ref().map_or(0, |part| part.host);
    let name = manifest_name_of(&manifest.nonce, host);
    let partial = partial_name(&manifest.nonce, host);
    let text = manifest.encode().map_err(|problem| {
        let file = disk.shown(&super::folder::path(folder, &name));
        SnapshotError::refused(file, problem, "choose another name")
    })?;
    let path = |name: &str| super::folder::path(folder, name);
    let mut file = FileWriter::create(disk, folder, &partial)?;
    let write = || -> Result<FileEntry, SnapshotError> {
        file.append(&text)?;
        let written = file.finish()?;
        // The files' names are durable before the manifest's.
        disk.sync_folder(folder)?;
        disk.rename(&path(&partial), &path(&name))?;
        disk.sync_folder(folder)?;
        Ok(FileEntry { name: name.clone(), ..written })
    };
    write().inspect_err(|_| {
        // One of them is there, and of no use.
        let _ = disk.remove(&path(&partial));
        let _ = disk.remove(&path(&name));
    })
}
