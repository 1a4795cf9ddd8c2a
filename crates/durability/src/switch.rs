//! Giving a host's directory other files in place of those that it has, without losing one.
//!
//! A restore moves the log, and the snapshots after the point, into a folder of their own, and
//! puts a snapshot of the point in their place; taking it back moves them the other way. Such a
//! *switch* is many renames, and a stop between two of them would leave a directory that is
//! neither. So the whole list is written down first, in one file; the one that opens the directory
//! carries out what is left of it before anything else. Files are renamed, never overwritten.

use crate::command_log::{LogEnd, LogPosition, LogSettings, LogWriter, SEGMENT_BYTES_MIN};
use crate::directory::{ClusterId, DirectoryError};
use lockstep_env::{Disk, DiskErrorKind, OpenMode};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

/// The file that says what is to be moved.
pub const SWITCH_FILE: &str = "switch";
const UNFINISHED: &str = "switch.unfinished";
/// Folders with what a restore moved away begin with this.
pub const SET_ASIDE_PREFIX: &str = "set-aside-";

const FIRST_LINE: &str = "LockstepDB switch";
const FORMAT: u64 = 1;
const SWITCH_FILE_BYTES_MAX: u64 = 64 << 20;

/// Renames that are done all or not at all.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Switch {
    /// From where and to where, in their order; nothing is at the second place before.
    pub moves: Vec<(String, String)>,
    /// The log is empty then, and its next segment is the one after this.
    pub log_behind: Option<u32>,
}

impl Switch {
    /// Adds the moves of all that is in a folder, as far as `is_moved` says of its name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn add_folder(
        &mut self,
        disk: &dyn Disk,
        (from, to): (&str, &str),
        is_moved: impl Fn(&str) -> bool,
    ) -> Result<(), DirectoryError> {
        let names = disk.list(from)?.into_iter().filter(|name| is_moved(name));
        self.moves.extend(names.map(|name| (format!("{from}/{name}"), format!("{to}/{name}"))));
        Ok(())
    }

    fn to_text(&self) -> Result<String, DirectoryError> {
        let mut text = format!("{FIRST_LINE}\nformat {FORMAT}\n");
        if let Some(segment) = self.log_behind {
            let _ = writeln!(text, "log_behind {segment}");
        }
        for (from, to) in &self.moves {
            if from.contains(['\n', '\t']) || to.contains(['\n', '\t']) {
                return Err(DirectoryError(format!(
                    "the file {from:?} has a tab or a line end in its name: give it another name \
                     or move it out of the directory. Nothing was changed."
                )));
            }
            let _ = writeln!(text, "move {from}\t{to}");
        }
        let checksum = crc32fast::hash(text.as_bytes());
        let _ = writeln!(text, "checksum {checksum:08x}");
        Ok(text)
    }

    fn parse(text: &str) -> Option<Switch> {
        let (checked, checksum) = text.rsplit_once("checksum ")?;
        let expected = format!("{:08x}\n", crc32fast::hash(checked.as_bytes()));
        let mut lines = checked.lines();
        let is_sound = checksum == expected
            && lines.next() == Some(FIRST_LINE)
            && lines.next() == Some(&format!("format {FORMAT}"));
        let mut switch = Switch::default();
        for line in lines.filter(|_| is_sound) {
            match line.split_once(' ')? {
                ("log_behind", number) => switch.log_behind = Some(number.parse().ok()?),
                ("move", both) => {
                    let (from, to) = both.split_once('\t')?;
                    switch.moves.push((from.to_string(), to.to_string()));
                }
                _ => return None,
            }
        }
        is_sound.then_some(switch)
    }

    /// Writes the list down: from here on the switch is as good as done, by [`finish`].
    ///
    /// # Errors
    /// The disk failed, and the directory is as it was.
    pub fn decide(&self, disk: &dyn Disk) -> Result<(), DirectoryError> {
        let text = self.to_text()?;
        if disk.list("")?.iter().any(|name| name == UNFINISHED) {
            disk.remove(UNFINISHED)?;
        }
        let mut file = disk.open(UNFINISHED, OpenMode::Create)?;
        file.write_at(0, text.as_bytes())?;
        file.sync_data()?;
        drop(file);
        disk.sync_folder("")?;
        disk.rename(UNFINISHED, SWITCH_FILE)?;
        disk.sync_folder("")?;
        Ok(())
    }
}

/// Carries out what is left of a switch that was decided; whether there was one. `seed` has random
/// bits for the log.
///
/// # Errors
/// The disk failed, or the list is damaged: the directory is to be left alone until it is mended.
pub fn finish(disk: &Arc<dyn Disk>, cluster: ClusterId, seed: u64) -> Result<bool, DirectoryError> {
    let file = match disk.open(SWITCH_FILE, OpenMode::Read) {
        Err(error) if error.is_not_found() => return Ok(false),
        other => other?,
    };
    let length = file.length()?.min(SWITCH_FILE_BYTES_MAX);
    let mut bytes = vec![0; length as usize];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    drop(file);
    let switch = Switch::parse(&String::from_utf8_lossy(&bytes)).ok_or_else(|| {
        let shown = disk.shown(SWITCH_FILE);
        DirectoryError(format!(
            "{shown} is damaged or of a newer release: a restore of this directory stopped half \
             way, and the file says what is left to do. Put the file back as it was, or use the \
             release that wrote it; nothing was changed."
        ))
    })?;
    carry_out(&**disk, &switch)?;
    if let Some(segment) = switch.log_behind {
        let settings = LogSettings { cluster, segment_bytes: SEGMENT_BYTES_MIN, seed };
        let position = LogPosition { segment, offset: 0 };
        let end = LogEnd { position, ..LogEnd::default() };
        LogWriter::open(Arc::clone(disk), settings, end)
            .map_err(|error| DirectoryError(error.to_string()))?;
    }
    disk.remove(SWITCH_FILE)?;
    disk.sync_folder("")?;
    Ok(true)
}

fn carry_out(disk: &dyn Disk, switch: &Switch) -> Result<(), DirectoryError> {
    let exists = |name: &str| match disk.open(name, OpenMode::Read) {
        Ok(_) => Ok(true),
        Err(error) if error.kind == DiskErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    };
    let mut touched: BTreeSet<&str> = BTreeSet::new();
    for (from, to) in &switch.moves {
        // What was moved before a stop is there; nothing else has its name.
        if exists(to)? {
            continue;
        }
        let (source, target) = (folder_of(from), folder_of(to));
        // The names that are free now are taken by later moves: what is away is so for good first.
        if touched.remove(target) {
            disk.sync_folder(target)?;
        }
        for folder in folders_of(to) {
            disk.create_folder(folder)?;
        }
        disk.rename(from, to)?;
        touched.extend([source, target]);
    }
    let all = switch.moves.iter().flat_map(|(from, to)| [folder_of(from), folder_of(to)]);
    for folder in all.collect::<BTreeSet<_>>() {
        disk.sync_folder(folder)?;
    }
    let parents = switch.moves.iter().flat_map(|(_, to)| folders_of(to)).map(folder_of);
    for folder in parents.collect::<BTreeSet<_>>() {
        disk.sync_folder(folder)?;
    }
    Ok(())
}

/// The folder that a name is in.
fn folder_of(name: &str) -> &str {
    name.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// The folders that a name is in, the outermost first.
fn folders_of(name: &str) -> impl Iterator<Item = &str> {
    name.match_indices('/').map(|(at, _)| &name[..at])
}

/// The folders with what restores have moved away, oldest first.
///
/// # Errors
/// The directory cannot be read.
pub fn set_aside(disk: &dyn Disk) -> Result<Vec<String>, DirectoryError> {
    let names = disk.list("")?.into_iter();
    Ok(names.filter(|name| name.starts_with(SET_ASIDE_PREFIX)).collect())
}
