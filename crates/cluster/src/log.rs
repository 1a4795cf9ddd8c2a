//! The Raft log on disk: one file of frames, each with a checksum.
//!
//! A frame holds what one call of the member made durable, and is synced before the next one is
//! written. So a frame that is damaged and not the last one was synced once: the log is refused.
//! The last one may be torn by a power failure, and nothing was sent that depends on it: it is cut
//! off. A snapshot replaces the file: it is written under another name, synced and renamed.

use crate::codec::read_end;
use crate::error::{ClusterError, FormatError};
use crate::ids::ClusterId;
use crate::log_entry::{
    HardState, LogEntry, Persist, Snapshot, put_entries, put_hard_state, put_raft_id, put_snapshot,
    read_entries, read_hard_state, read_raft_id, read_snapshot,
};
use crate::member::{DurableChange, Identity, Restored};
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_env::{Disk, File, OpenMode};
use std::sync::Arc;

/// First bytes of the file: a name and the version of the format.
const HEAD: &[u8; 8] = b"LSRAFT\0\x01";
const NAME: &str = "raft.log";
const NEW_NAME: &str = "raft.log.new";
/// Length and checksum.
const FRAME_HEAD_BYTES: usize = 8;
/// The greatest frame that is believed.
const FRAME_BYTES_MAX: u64 = 256 << 20;

/// The log file of a member.
pub struct RaftLog {
    disk: Arc<dyn Disk>,
    folder: String,
    /// The file and its length; `None` before the first write.
    file: Option<(Box<dyn File>, u64)>,
    identity: Option<Identity>,
}

impl RaftLog {
    /// Opens the log in a folder, which exists. What it holds is given too, if a member wrote it.
    ///
    /// # Errors
    /// The disk fails, or the log is damaged where it was synced.
    pub fn open(
        disk: Arc<dyn Disk>,
        folder: &str,
    ) -> Result<(RaftLog, Option<Restored>), ClusterError> {
        let mut log = RaftLog { disk, folder: folder.to_string(), file: None, identity: None };
        let names = log.disk.list(folder)?;
        if names.iter().any(|name| name == NEW_NAME) {
            // Its rename was not durable: the older file is whole.
            log.disk.remove(&log.path(NEW_NAME))?;
        }
        if !names.iter().any(|name| name == NAME) {
            return Ok((log, None));
        }
        let mut file = log.disk.open(&log.path(NAME), OpenMode::Write)?;
        let bytes = read_all(&*file)?;
        let mut content = Content::default();
        let end = content.read(&bytes).map_err(|(offset, reason)| ClusterError::Damaged {
            file: file.shown().to_string(),
            offset,
            reason,
        })?;
        if end < bytes.len() as u64 {
            file.set_length(end)?;
            file.sync_data()?;
        }
        log.file = Some((file, end));
        log.identity = content.identity;
        let Content { identity, snapshot, entries, hard_state } = content;
        let restored =
            identity.map(|identity| Restored { identity, snapshot, entries, hard_state });
        Ok((log, restored))
    }

    fn path(&self, name: &str) -> String {
        if self.folder.is_empty() { name.to_string() } else { format!("{}/{name}", self.folder) }
    }

    /// Forgets everything, durably: the process starts again as a new member.
    ///
    /// # Errors
    /// The disk fails.
    pub fn clear(&mut self) -> Result<(), ClusterError> {
        if self.file.take().is_some() {
            self.disk.remove(&self.path(NAME))?;
            self.disk.sync_folder(&self.folder)?;
        }
        self.identity = None;
        Ok(())
    }

    /// Makes changes durable, all of them or, after a power failure, none.
    ///
    /// # Errors
    /// The disk fails. The host stops then: what is durable is not known.
    pub fn write(&mut self, changes: &[DurableChange]) -> Result<(), ClusterError> {
        if changes.is_empty() {
            return Ok(());
        }
        for change in changes {
            if let DurableChange::Identity(identity) = change {
                self.identity = Some(*identity);
            }
        }
        let replaces = |change: &DurableChange| match change {
            DurableChange::Log(persist) => persist.snapshot.is_some(),
            DurableChange::Identity(_) => false,
        };
        match (changes.iter().rposition(replaces), &mut self.file) {
            (None, Some((file, end))) => {
                let frame = frame(*end, changes);
                file.write_at(*end, &frame)?;
                file.sync_data()?;
                *end += frame.len() as u64;
                Ok(())
            }
            (at, _) => self.replace(&changes[at.unwrap_or(0)..]),
        }
    }

    fn replace(&mut self, changes: &[DurableChange]) -> Result<(), ClusterError> {
        let identity = self.identity.map(DurableChange::Identity);
        let all: Vec<DurableChange> = identity.into_iter().chain(changes.iter().cloned()).collect();
        let mut bytes = HEAD.to_vec();
        bytes.extend(frame(HEAD.len() as u64, &all));
        let (new_name, name) = (self.path(NEW_NAME), self.path(NAME));
        let mut file = self.disk.open(&new_name, OpenMode::Create)?;
        file.write_at(0, &bytes)?;
        file.sync_data()?;
        self.disk.rename(&new_name, &name)?;
        self.disk.sync_folder(&self.folder)?;
        self.file = Some((file, bytes.len() as u64));
        Ok(())
    }
}

fn read_all(file: &dyn File) -> Result<Vec<u8>, ClusterError> {
    let length = file.length()?;
    let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
    let count = file.read_at(0, &mut bytes)?;
    bytes.truncate(count);
    Ok(bytes)
}

/// The checksum covers the offset, so that a frame counts only where it was written.
fn checksum(offset: u64, body: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&offset.to_be_bytes());
    hasher.update(body);
    hasher.finalize()
}

fn frame(offset: u64, changes: &[DurableChange]) -> Vec<u8> {
    let mut body = Vec::new();
    for change in changes {
        put_change(&mut body, change);
    }
    let mut frame = Vec::with_capacity(FRAME_HEAD_BYTES + body.len());
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&checksum(offset, &body).to_be_bytes());
    frame.extend_from_slice(&body);
    frame
}

fn put_change(output: &mut Vec<u8>, change: &DurableChange) {
    match change {
        DurableChange::Identity(Identity { id, cluster }) => {
            output.put_u8(1);
            put_raft_id(output, *id);
            output.extend_from_slice(&cluster.unwrap_or_default().0);
        }
        DurableChange::Log(Persist { snapshot, entries, hard_state }) => {
            if let Some(snapshot) = snapshot {
                output.put_u8(2);
                put_snapshot(output, snapshot);
            }
            if !entries.is_empty() {
                output.put_u8(3);
                put_entries(output, entries);
            }
            if let Some(hard_state) = hard_state {
                output.put_u8(4);
                put_hard_state(output, hard_state);
            }
        }
    }
}

/// What the frames lead to.
#[derive(Default)]
struct Content {
    identity: Option<Identity>,
    snapshot: Option<Snapshot>,
    entries: Vec<LogEntry>,
    hard_state: HardState,
}

impl Content {
    /// Reads a file; gives where its last whole frame ends. An error has the offset.
    fn read(&mut self, bytes: &[u8]) -> Result<u64, (u64, String)> {
        if !bytes.starts_with(HEAD) {
            return Err((0, "it does not begin as a Raft log of this version".into()));
        }
        let mut at = HEAD.len();
        while at < bytes.len() {
            let Some(body) = whole_frame(bytes, at) else { break };
            let taken = self.take_frame(body);
            taken.map_err(|error| (at as u64, error.to_string()))?;
            at += FRAME_HEAD_BYTES + body.len();
        }
        if at < bytes.len() && (at + 1..bytes.len()).any(|next| whole_frame(bytes, next).is_some())
        {
            return Err((at as u64, "a frame is damaged that was synced before the next".into()));
        }
        if self.identity.is_none() {
            return Err((HEAD.len() as u64, "the first frame is missing".into()));
        }
        Ok(at as u64)
    }

    fn take_frame(&mut self, body: &[u8]) -> Result<(), FormatError> {
        let input = &mut ByteReader::new(body);
        while input.remaining() > 0 {
            match input.u8()? {
                1 => {
                    let id = read_raft_id(input)?;
                    let cluster = ClusterId::read(input)?;
                    self.identity = Some(Identity { id, cluster });
                }
                2 => {
                    self.snapshot = Some(read_snapshot(input)?);
                    self.entries.clear();
                }
                3 => self.take_entries(read_entries(input)?)?,
                4 => self.hard_state = read_hard_state(input)?,
                found => {
                    let found = u64::from(found);
                    return Err(FormatError::Value { field: "log record", found });
                }
            }
        }
        read_end(input)
    }

    fn take_entries(&mut self, entries: Vec<LogEntry>) -> Result<(), FormatError> {
        let Some(first) = entries.first() else { return Ok(()) };
        let base = self.snapshot.as_ref().map_or(0, |snapshot| snapshot.index);
        let kept = first.index.checked_sub(base + 1).and_then(|kept| usize::try_from(kept).ok());
        match kept.filter(|kept| *kept <= self.entries.len()) {
            None => Err(FormatError::Rule("entries follow each other")),
            Some(kept) => {
                self.entries.truncate(kept);
                self.entries.extend(entries);
                Ok(())
            }
        }
    }
}

/// The body of a whole frame at an offset.
fn whole_frame(bytes: &[u8], at: usize) -> Option<&[u8]> {
    let mut head = ByteReader::new(bytes.get(at..)?);
    let (length, sum) = (head.u32().ok()?, head.u32().ok()?);
    let length = usize::try_from(length).ok().filter(|length| *length > 0)?;
    let body = head.take(length).ok().filter(|_| length as u64 <= FRAME_BYTES_MAX)?;
    (checksum(at as u64, body) == sum).then_some(body)
}

#[cfg(test)]
mod tests;
