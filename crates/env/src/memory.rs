//! A disk in memory that knows what is durable and what is not, for tests and simulators.
//!
//! It keeps, per file, the bytes as programs see them, the bytes as of the last sync, and every
//! write in between. [`MemoryDisk::cut_power`] then decides for each of these writes, and for each
//! name that was made or removed without a sync of its folder, what is left of it. A
//! [`FaultHook`] is asked before each operation and may make it fail. The one that wants seeded
//! faults supplies the two decisions; nothing here is random.

use crate::disk::{Disk, File, OpenMode};
use crate::error::{DiskError, DiskErrorKind, DiskOperation};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

/// A write that was not synced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UnsyncedWrite<'a> {
    /// Bytes at an offset of a file.
    Bytes {
        /// The file's number, the same for all its writes.
        file: u64,
        /// Where.
        offset: u64,
        /// What.
        bytes: &'a [u8],
    },
    /// A new length of a file.
    Length {
        /// The file's number.
        file: u64,
        /// The length.
        length: u64,
    },
    /// A name that was made, given to another file, or removed.
    Name(&'a str),
}

/// What a power cut leaves of a write that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Survival {
    /// Nothing.
    Lost,
    /// All of it.
    Kept,
    /// Its first bytes, N; of a length or a name: nothing.
    Torn(usize),
    /// Of its sectors, those whose number in the file, by the last six bits, is that of a bit that
    /// is set: a disk writes the sectors of one write in any order. Of a length or a name: nothing.
    Sectors(u64),
}

/// What a disk writes wholly or not at all, in bytes.
pub const SECTOR_BYTES: u64 = 512;

/// Asked before each operation: the operation, the name, and for reads and writes the offset and
/// the number of bytes. An error is given to the caller, and nothing happens.
pub type FaultHook =
    Box<dyn FnMut(DiskOperation, &str, u64, usize) -> Result<(), DiskErrorKind> + Send>;

/// Asked before each sync, with the name of the file or folder: whether it does nothing, and says
/// that it did.
pub type Lies = Box<dyn Fn(&str) -> bool + Send>;

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Default)]
pub struct MemoryDisk {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    next_file: u64,
    files: BTreeMap<u64, Content>,
    names: BTreeMap<String, u64>,
    synced_names: BTreeMap<String, u64>,
    folders: BTreeSet<String>,
    capacity_bytes: Option<u64>,
    hook: Option<FaultHook>,
    lies: Option<Lies>,
}

#[derive(Default, Clone)]
struct Content {
    bytes: Vec<u8>,
    synced: Vec<u8>,
    unsynced: Vec<Change>,
}

#[derive(Clone)]
enum Change {
    Bytes(u64, Vec<u8>),
    Length(u64),
}

impl Change {
    /// What `survival` leaves of the change, applied.
    fn apply(&self, bytes: &mut Vec<u8>, survival: Survival) {
        match (self, survival) {
            (_, Survival::Lost) => {}
            (Change::Length(_), Survival::Torn(_) | Survival::Sectors(_)) => {}
            (Change::Bytes(offset, written), Survival::Sectors(kept)) => {
                let mut at = *offset;
                let mut rest = &written[..];
                while !rest.is_empty() {
                    let count = (SECTOR_BYTES - at % SECTOR_BYTES).min(rest.len() as u64) as usize;
                    let (sector, others) = rest.split_at(count);
                    if kept >> (at / SECTOR_BYTES % 64) & 1 == 1 {
                        put(bytes, at as usize, sector);
                    }
                    at += count as u64;
                    rest = others;
                }
            }
            (Change::Length(length), Survival::Kept) => bytes.resize(*length as usize, 0),
            (Change::Bytes(offset, written), survival) => {
                let kept = match survival {
                    Survival::Torn(kept) => kept.min(written.len()),
                    _ => written.len(),
                };
                put(bytes, *offset as usize, &written[..kept]);
            }
        }
    }
}

/// Puts a write into a file's bytes.
fn put(bytes: &mut Vec<u8>, start: usize, written: &[u8]) {
    let end = start + written.len();
    if bytes.len() < end {
        bytes.resize(end, 0);
    }
    bytes[start..end].copy_from_slice(written);
}

impl Content {
    fn change(&mut self, change: Change) {
        change.apply(&mut self.bytes, Survival::Kept);
        self.unsynced.push(change);
    }
}

/// The folder that a name is in; the root is the empty name.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

impl State {
    fn ask(
        &mut self,
        operation: DiskOperation,
        name: &str,
        offset: u64,
        count: usize,
    ) -> Result<(), DiskError> {
        let Some(hook) = &mut self.hook else { return Ok(()) };
        hook(operation, name, offset, count)
            .map_err(|kind| DiskError::new(operation, name, kind, "injected").at(offset))
    }

    /// A copy that nothing is injected into.
    fn without_faults(&self) -> State {
        State {
            next_file: self.next_file,
            files: self.files.clone(),
            names: self.names.clone(),
            synced_names: self.synced_names.clone(),
            folders: self.folders.clone(),
            capacity_bytes: self.capacity_bytes,
            hook: None,
            lies: None,
        }
    }

    fn used_bytes(&self) -> u64 {
        self.files.values().map(|content| content.bytes.len() as u64).sum()
    }

    /// An error if the disk cannot take N bytes more.
    fn reserve(&self, operation: DiskOperation, name: &str, more: u64) -> Result<(), DiskError> {
        match self.capacity_bytes {
            Some(capacity) if self.used_bytes() + more > capacity => {
                let reason = format!("{more} bytes more than the disk's {capacity}");
                Err(DiskError::new(operation, name, DiskErrorKind::Full, reason))
            }
            _ => Ok(()),
        }
    }

    /// Forgets files that no name reaches.
    fn sweep(&mut self) {
        let names = self.names.values().chain(self.synced_names.values());
        let reached: BTreeSet<u64> = names.copied().collect();
        self.files.retain(|file, _| reached.contains(file));
    }
}

impl MemoryDisk {
    /// An empty disk without a limit.
    pub fn new() -> MemoryDisk {
        MemoryDisk::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no operation on the disk in memory panics")
    }

    /// From now on the disk takes N bytes at most.
    pub fn limit_capacity(&self, capacity_bytes: Option<u64>) {
        self.state().capacity_bytes = capacity_bytes;
    }

    /// From now on `hook` is asked before each operation.
    pub fn set_hook(&self, hook: Option<FaultHook>) {
        self.state().hook = hook;
    }

    /// From now on syncs of which `lies` is true do nothing.
    pub fn set_lies(&self, lies: Option<Lies>) {
        self.state().lies = lies;
    }

    /// The power fails: of what was not synced, `choose` says what is left, names first, then
    /// writes file by file in the order in which they were made. Everything left is durable then.
    /// Files that are open keep working on what is left; a test should drop them.
    pub fn cut_power(&self, mut choose: impl FnMut(&UnsyncedWrite<'_>) -> Survival) {
        let mut state = self.state();
        let state = &mut *state;
        let all = state.names.keys().chain(state.synced_names.keys()).cloned();
        for name in all.collect::<BTreeSet<_>>() {
            let (now, synced) = (state.names.get(&name), state.synced_names.get(&name));
            if now == synced || choose(&UnsyncedWrite::Name(&name)) != Survival::Kept {
                continue;
            }
            match now.copied() {
                Some(file) => state.synced_names.insert(name, file),
                None => state.synced_names.remove(&name),
            };
        }
        state.names = state.synced_names.clone();
        for (&file, content) in &mut state.files {
            for change in std::mem::take(&mut content.unsynced) {
                let survival = choose(&match &change {
                    Change::Bytes(offset, bytes) => {
                        UnsyncedWrite::Bytes { file, offset: *offset, bytes }
                    }
                    Change::Length(length) => UnsyncedWrite::Length { file, length: *length },
                });
                change.apply(&mut content.synced, survival);
            }
            content.bytes = content.synced.clone();
        }
        state.sweep();
    }

    /// What a power cut at this moment would leave, as a disk of its own; this one goes on. See
    /// [`MemoryDisk::cut_power`].
    pub fn survivor(&self, choose: impl FnMut(&UnsyncedWrite<'_>) -> Survival) -> MemoryDisk {
        let copied = self.state().without_faults();
        let survivor = MemoryDisk { state: Arc::new(Mutex::new(copied)) };
        survivor.cut_power(choose);
        survivor
    }

    /// What a power cut of several different disks at one moment would leave of each: nothing that
    /// was done to one of them after the cut of another one. See [`MemoryDisk::survivor`].
    pub fn survivors(
        disks: &[MemoryDisk],
        mut choose: impl FnMut(&UnsyncedWrite<'_>) -> Survival,
    ) -> Vec<MemoryDisk> {
        let held: Vec<MutexGuard<'_, State>> = disks.iter().map(MemoryDisk::state).collect();
        let copied: Vec<State> = held.iter().map(|state| state.without_faults()).collect();
        drop(held);
        let disk = |state| MemoryDisk { state: Arc::new(Mutex::new(state)) };
        let survivors: Vec<MemoryDisk> = copied.into_iter().map(disk).collect();
        survivors.iter().for_each(|survivor| survivor.cut_power(&mut choose));
        survivors
    }

    /// A copy of the disk as programs see it, with everything durable.
    pub fn copy(&self) -> MemoryDisk {
        let state = self.state();
        let mut files = state.files.clone();
        for content in files.values_mut() {
            content.synced = content.bytes.clone();
            content.unsynced.clear();
        }
        let copied = State {
            next_file: state.next_file,
            files,
            names: state.names.clone(),
            synced_names: state.names.clone(),
            folders: state.folders.clone(),
            capacity_bytes: state.capacity_bytes,
            hook: None,
            lies: None,
        };
        MemoryDisk { state: Arc::new(Mutex::new(copied)) }
    }

    /// A file's bytes as programs see them.
    pub fn bytes(&self, name: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let content = state.files.get(state.names.get(name)?)?;
        Some(content.bytes.clone())
    }

    /// Puts bytes into the place of a file, durably: what a test damages.
    pub fn replace(&self, name: &str, bytes: Vec<u8>) {
        let mut state = self.state();
        let file = state.next_file;
        state.next_file += 1;
        let content = Content { synced: bytes.clone(), bytes, unsynced: Vec::new() };
        state.files.insert(file, content);
        state.names.insert(name.to_string(), file);
        state.synced_names.insert(name.to_string(), file);
        state.sweep();
    }
}

impl Disk for MemoryDisk {
    fn open(&self, name: &str, mode: OpenMode) -> Result<Box<dyn File>, DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::Open, name, 0, 0)?;
        let failed =
            |kind, reason: &str| Err(DiskError::new(DiskOperation::Open, name, kind, reason));
        let folder = folder_of(name);
        if !folder.is_empty() && !state.folders.contains(folder) {
            return failed(DiskErrorKind::NotFound, "its folder is missing");
        }
        let file = match (mode, state.names.get(name).copied()) {
            (mode, Some(_)) if mode.creates() => return failed(DiskErrorKind::Exists, "it exists"),
            (mode, None) if mode.creates() => {
                let file = state.next_file;
                state.next_file += 1;
                state.names.insert(name.to_string(), file);
                state.files.insert(file, Content::default());
                file
            }
            (_, Some(file)) => file,
            (_, None) => return failed(DiskErrorKind::NotFound, "there is no such file"),
        };
        let writable = mode != OpenMode::Read;
        let disk = self.clone();
        Ok(Box::new(MemoryFile { disk, file, name: name.to_string(), writable }))
    }

    fn list(&self, folder: &str) -> Result<Vec<String>, DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::List, folder, 0, 0)?;
        if !folder.is_empty() && !state.folders.contains(folder) {
            let (kind, reason) = (DiskErrorKind::NotFound, "there is no such folder");
            return Err(DiskError::new(DiskOperation::List, folder, kind, reason));
        }
        let all = state.names.keys().chain(&state.folders);
        let inside = all.filter(|name| !name.is_empty() && folder_of(name) == folder);
        let own = |name: &String| name.rsplit('/').next().unwrap_or(name).to_string();
        Ok(inside.map(own).collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn create_folder(&self, folder: &str) -> Result<(), DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::CreateFolder, folder, 0, 0)?;
        state.folders.insert(folder.to_string());
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::Rename, from, 0, 0)?;
        let Some(file) = state.names.remove(from) else {
            let (kind, reason) = (DiskErrorKind::NotFound, "there is no such file");
            return Err(DiskError::new(DiskOperation::Rename, from, kind, reason));
        };
        state.names.insert(to.to_string(), file);
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<(), DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::Remove, name, 0, 0)?;
        if state.names.remove(name).is_none() {
            let (kind, reason) = (DiskErrorKind::NotFound, "there is no such file");
            return Err(DiskError::new(DiskOperation::Remove, name, kind, reason));
        }
        Ok(())
    }

    fn remove_folder(&self, folder: &str) -> Result<(), DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::Remove, folder, 0, 0)?;
        if state.names.keys().chain(&state.folders).any(|name| folder_of(name) == folder) {
            let reason = "it is not empty";
            return Err(DiskError::new(
                DiskOperation::Remove,
                folder,
                DiskErrorKind::Other,
                reason,
            ));
        }
        state.folders.remove(folder);
        Ok(())
    }

    fn sync_folder(&self, folder: &str) -> Result<(), DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::Sync, folder, 0, 0)?;
        if state.lies.as_ref().is_some_and(|lies| lies(folder)) {
            return Ok(());
        }
        let state = &mut *state;
        let names = &state.names;
        state.synced_names.retain(|name, _| folder_of(name) != folder || names.contains_key(name));
        for (name, file) in names {
            if folder_of(name) == folder {
                state.synced_names.insert(name.clone(), *file);
            }
        }
        Ok(())
    }

    fn free_bytes(&self) -> Result<u64, DiskError> {
        let mut state = self.state();
        state.ask(DiskOperation::FreeSpace, "", 0, 0)?;
        Ok(match state.capacity_bytes {
            Some(capacity) => capacity.saturating_sub(state.used_bytes()),
            None => u64::MAX,
        })
    }

    fn shown(&self, name: &str) -> String {
        name.to_string()
    }
}

struct MemoryFile {
    disk: MemoryDisk,
    file: u64,
    name: String,
    writable: bool,
}

impl MemoryFile {
    /// Asks the hook and makes a change.
    fn change(
        &mut self,
        operation: DiskOperation,
        offset: u64,
        count: usize,
        change: impl FnOnce(u64) -> Option<Change>,
    ) -> Result<(), DiskError> {
        let mut state = self.disk.state();
        state.ask(operation, &self.name, offset, count)?;
        if !self.writable {
            let (kind, reason) = (DiskErrorKind::Denied, "it was opened for reading");
            return Err(DiskError::new(operation, &self.name, kind, reason).at(offset));
        }
        let length = state.files.get(&self.file).map_or(0, |content| content.bytes.len() as u64);
        let Some(change) = change(length) else { return Ok(()) };
        let end = match &change {
            Change::Bytes(offset, bytes) => offset + bytes.len() as u64,
            Change::Length(length) => *length,
        };
        state.reserve(operation, &self.name, end.saturating_sub(length))?;
        if let Some(content) = state.files.get_mut(&self.file) {
            content.change(change);
        }
        Ok(())
    }
}

impl File for MemoryFile {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, DiskError> {
        let mut state = self.disk.state();
        state.ask(DiskOperation::Read, &self.name, offset, buffer.len())?;
        let bytes = state.files.get(&self.file).map_or(&[][..], |content| &content.bytes);
        let start = (offset as usize).min(bytes.len());
        let count = buffer.len().min(bytes.len() - start);
        buffer[..count].copy_from_slice(&bytes[start..start + count]);
        Ok(count)
    }

    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DiskError> {
        self.change(DiskOperation::Write, offset, bytes.len(), |_| {
            Some(Change::Bytes(offset, bytes.to_vec()))
        })
    }

    fn length(&self) -> Result<u64, DiskError> {
        let mut state = self.disk.state();
        state.ask(DiskOperation::Length, &self.name, 0, 0)?;
        Ok(state.files.get(&self.file).map_or(0, |content| content.bytes.len() as u64))
    }

    fn set_length(&mut self, length: u64) -> Result<(), DiskError> {
        self.change(DiskOperation::Length, length, 0, |_| Some(Change::Length(length)))
    }

    fn allocate(&mut self, length: u64) -> Result<(), DiskError> {
        self.change(DiskOperation::Allocate, length, 0, |now| {
            (length > now).then_some(Change::Length(length))
        })
    }

    fn sync_data(&mut self) -> Result<(), DiskError> {
        let mut state = self.disk.state();
        state.ask(DiskOperation::Sync, &self.name, 0, 0)?;
        if state.lies.as_ref().is_some_and(|lies| lies(&self.name)) {
            return Ok(());
        }
        if let Some(content) = state.files.get_mut(&self.file) {
            content.unsynced.clear();
            content.synced = content.bytes.clone();
        }
        Ok(())
    }

    fn shown(&self) -> &str {
        &self.name
    }
}
