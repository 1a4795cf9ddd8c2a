//! A disk that notes everything that is done to it, so that a test can say what a power cut
//! would have left: the notes are carried out on a [`MemoryDisk`], which loses power.
//!
//! What changes a file is noted before it is done, and what makes it durable after that. So a
//! process that ends anywhere between leaves notes of all that can be on the disk, and none of a
//! sync that was not finished.

use crate::memory::MemoryDisk;
use crate::{Disk, DiskError, File, OpenMode};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

/// Takes one note after the other, each as a whole.
pub type Notes = Box<dyn FnMut(&[u8]) + Send>;

/// Bytes that a disk writes as a whole, or not at all.
const SECTOR_BYTES: u64 = 512;

const OPEN: u8 = 1;
const CREATE: u8 = 2;
const WRITE: u8 = 3;
const LENGTH: u8 = 4;
const ALLOCATE: u8 = 5;
const SYNC: u8 = 6;
const CREATE_FOLDER: u8 = 7;
const RENAME: u8 = 8;
const REMOVE: u8 = 9;
const REMOVE_FOLDER: u8 = 10;
const SYNC_FOLDER: u8 = 11;

/// One note: what was done, to which open file, where, and with which name or bytes.
struct Note<'a> {
    operation: u8,
    file: u64,
    offset: u64,
    bytes: &'a [u8],
}

const NOTE_HEADER_BYTES: usize = 1 + 8 + 8 + 8;

impl<'a> Note<'a> {
    fn encode(&self) -> Vec<u8> {
        let mut encoded = Vec::with_capacity(NOTE_HEADER_BYTES + self.bytes.len());
        encoded.push(self.operation);
        for number in [self.file, self.offset, self.bytes.len() as u64] {
            encoded.extend_from_slice(&number.to_be_bytes());
        }
        encoded.extend_from_slice(self.bytes);
        encoded
    }

    /// The first note of `input`; `None` if there is no whole one.
    fn take(input: &mut &'a [u8]) -> Option<Note<'a>> {
        let header = input.first_chunk::<NOTE_HEADER_BYTES>()?;
        let number = |at: usize| {
            let bytes: [u8; 8] = header[at..at + 8].try_into().expect("eight bytes");
            u64::from_be_bytes(bytes)
        };
        let length = usize::try_from(number(17)).ok()?;
        let bytes = input[NOTE_HEADER_BYTES..].get(..length)?;
        let note = Note { operation: header[0], file: number(1), offset: number(9), bytes };
        *input = &input[NOTE_HEADER_BYTES + length..];
        Some(note)
    }

    fn name(&self) -> &'a str {
        std::str::from_utf8(self.bytes).unwrap_or_default()
    }
}

struct State {
    notes: Notes,
    next_file: u64,
}

/// A disk whose changes are noted.
#[derive(Clone)]
pub struct JournalDisk {
    disk: Arc<dyn Disk>,
    state: Arc<Mutex<State>>,
}

impl JournalDisk {
    /// Notes what is done to `disk` from now on.
    pub fn new(disk: Arc<dyn Disk>, notes: Notes) -> JournalDisk {
        JournalDisk { disk, state: Arc::new(Mutex::new(State { notes, next_file: 1 })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the notes")
    }

    /// Notes a change of names and makes it; nobody changes or syncs names meanwhile.
    fn change_names(
        &self,
        operation: u8,
        name: &[u8],
        change: impl FnOnce() -> Result<(), DiskError>,
    ) -> Result<(), DiskError> {
        let mut state = self.state();
        let note = Note { operation, file: 0, offset: 0, bytes: name };
        (state.notes)(&note.encode());
        change()
    }
}

impl Disk for JournalDisk {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>, DiskError> {
        if mode == OpenMode::Read {
            return self.disk.open(name, mode);
        }
        let mut state = self.state();
        let number = state.next_file;
        state.next_file += 1;
        let operation = if mode.creates() { CREATE } else { OPEN };
        let note = Note { operation, file: number, offset: 0, bytes: name.as_bytes() };
        (state.notes)(&note.encode());
        let file = self.disk.open(name, mode)?;
        Ok(Box::new(JournalFile { file, number, journal: self.clone() }))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        self.disk.list(folder)
    }

    fn create_folder(&self, folder: &str) -> Result<(), DiskError> {
        let create = || self.disk.create_folder(folder);
        self.change_names(CREATE_FOLDER, folder.as_bytes(), create)
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let both = format!("{from}\n{to}");
        self.change_names(RENAME, both.as_bytes(), || self.disk.rename(from, to))
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        self.change_names(REMOVE, name.as_bytes(), || self.disk.remove(name))
    }

    fn remove_folder(&self, folder: &str) -> Result<(), DiskError> {
        let remove = || self.disk.remove_folder(folder);
        self.change_names(REMOVE_FOLDER, folder.as_bytes(), remove)
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        let mut state = self.state();
        self.disk.sync_folder(folder)?;
        let note = Note { operation: SYNC_FOLDER, file: 0, offset: 0, bytes: folder.as_bytes() };
        (state.notes)(&note.encode());
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        self.disk.free_bytes()
    }

    fn shown(&self, name: &str) -> String {
        self.disk.shown(name)
    }
}

struct JournalFile {
    file: Box<dyn File>,
    number: u64,
    journal: JournalDisk,
}

impl JournalFile {
    fn note(&self, operation: u8, offset: u64, bytes: &[u8]) {
        let note = Note { operation, file: self.number, offset, bytes };
        (self.journal.state().notes)(&note.encode());
    }
}

impl File for JournalFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.note(WRITE, offset, bytes);
        self.file.write_at(offset, bytes)
    }

    fn length(&self) -> Result<u64, DiskError> {
        self.file.length()
    }

    fn set_length(&mut self, length: u64) -> Result<(), DiskError> {
        self.note(LENGTH, length, &[]);
        self.file.set_length(length)
    }

    fn allocate(&mut self, length: u64) -> Result<(), DiskError> {
        self.note(ALLOCATE, length, &[]);
        self.file.allocate(length)
    }

    fn sync_data(&mut self) -> Result<(), DiskError> {
        self.file.sync_data()?;
        self.note(SYNC, 0, &[]);
        Ok(())
    }

    fn shown(&self) -> &str {
        self.file.shown()
    }
}

/// Does to a disk in memory what the notes say, sector by sector, so that each has a fate of its
/// own when the power fails. What failed then fails again. Gives the number of notes; the last
/// one may be half, where the process ended.
pub fn replay(notes: &[u8], disk: &MemoryDisk) -> usize {
    let mut input = notes;
    let mut files: BTreeMap<u64, Box<dyn File>> = BTreeMap::new();
    let mut count = 0;
    while let Some(note) = Note::take(&mut input) {
        count += 1;
        let name = note.name();
        match note.operation {
            OPEN | CREATE => {
                let mode =
                    if note.operation == CREATE { OpenMode::Create } else { OpenMode::Write };
                if let Ok(file) = disk.open(name, mode) {
                    files.insert(note.file, file);
                }
            }
            CREATE_FOLDER => drop(disk.create_folder(name)),
            RENAME => {
                let (from, to) = name.split_once('\n').unwrap_or_default();
                drop(disk.rename(from, to));
            }
            REMOVE => drop(disk.remove(name)),
            REMOVE_FOLDER => drop(disk.remove_folder(name)),
            SYNC_FOLDER => drop(disk.sync_folder(name)),
            _ => {
                if let Some(file) = files.get_mut(&note.file) {
                    drop(replay_in_file(&note, &mut **file));
                }
            }
        }
    }
    count
}

fn replay_in_file(note: &Note<'_>, file: &mut dyn File) -> Result<(), DiskError> {
    match note.operation {
        LENGTH => file.set_length(note.offset),
        ALLOCATE => file.allocate(note.offset),
        SYNC => file.sync_data(),
        _ => {
            let (mut offset, mut bytes) = (note.offset, note.bytes);
            while !bytes.is_empty() {
                let room = (SECTOR_BYTES - offset % SECTOR_BYTES) as usize;
                let (sector, rest) = bytes.split_at(room.min(bytes.len()));
                file.write_at(offset, sector)?;
                (offset, bytes) = (offset + sector.len() as u64, rest);
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Survival;

    #[test]
    fn notes_lead_to_the_same_disk_and_to_the_same_losses() {
        let real = MemoryDisk::new();
        let notes = Arc::new(Mutex::new(Vec::new()));
        let taken = Arc::clone(&notes);
        let take = move |note: &[u8]| taken.lock().expect("whole").extend_from_slice(note);
        let disk = JournalDisk::new(Arc::new(real.clone()), Box::new(take));
        disk.create_folder("log").expect("it is made");
        let mut file = disk.open("log/a", OpenMode::Create).expect("it is made");
        disk.sync_folder("log").expect("it is synced");
        file.write_at(100, &[1; 1_000]).expect("it is written");
        file.sync_data().expect("it is synced");
        file.write_at(0, &[2; 1_000]).expect("it is written");
        disk.rename("log/a", "log/b").expect("it is renamed");
        assert!(disk.open("log/a", OpenMode::Write).is_err());

        let notes = notes.lock().expect("whole").clone();
        let model = MemoryDisk::new();
        assert_eq!(replay(&notes, &model), 8);
        assert_eq!(model.bytes("log/b"), real.bytes("log/b"));
        let lost = model.survivor(|_| Survival::Lost);
        let expected = [vec![0; 100], vec![1; 1_000]].concat();
        assert_eq!((lost.bytes("log/a"), lost.bytes("log/b")), (Some(expected), None));
        // Each sector on its own.
        let mut sectors = 0;
        let torn = model.survivor(|_| {
            sectors += 1;
            if sectors % 2 == 0 { Survival::Kept } else { Survival::Lost }
        });
        assert_eq!(sectors, 4, "two names and two sectors");
        assert_eq!(torn.bytes("log/b").map(|bytes| (bytes[0], bytes[999])), Some((0, 2)));
        // The end of the notes is half a note.
        assert_eq!(replay(&notes[..notes.len() - 1], &MemoryDisk::new()), 7);
    }
}
