//! Power cuts beneath the real binary. The host notes what it does to its disk, and is killed.
//! What a power cut would have left is worked out from the notes: of what was not synced, each
//! sector and each name is there or not, as chance has it. The directory is made to be that.

use lockstep_base::random::SeededRandom;
use lockstep_env::memory::{MemoryDisk, Survival, UnsyncedWrite};
use lockstep_env::{Disk, journal};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The folders of a host's directory.
const FOLDERS: [&str; 3] = ["", "log", "snapshots"];
/// No file of a disk: who uses the directory.
const LOCK: &str = "lock";

/// A directory whose disk loses power.
pub struct Power {
    directory: PathBuf,
    journal: PathBuf,
    /// What is durable in the directory.
    disk: MemoryDisk,
    pub tally: PowerTally,
}

/// What the cuts did, for the report.
#[derive(Default)]
pub struct PowerTally {
    pub cuts: u64,
    pub notes: u64,
    /// Sectors and names that were not synced, and those of them that were lost.
    pub unsynced: u64,
    pub lost: u64,
}

impl Power {
    /// Everything in the directory is durable now.
    pub fn new(directory: &Path) -> Power {
        let disk = MemoryDisk::new();
        for folder in FOLDERS {
            if !folder.is_empty() {
                disk.create_folder(folder).expect("memory takes it");
            }
            for name in files(directory, folder) {
                let bytes = std::fs::read(directory.join(&name)).expect("the file is there");
                disk.replace(&name, bytes);
            }
        }
        let mut journal = directory.as_os_str().to_os_string();
        journal.push("-journal");
        let (directory, journal) = (directory.to_path_buf(), PathBuf::from(journal));
        Power { directory, journal, disk, tally: PowerTally::default() }
    }

    /// Lets a host that is started note what it does.
    pub fn follow(&self, command: &mut Command) {
        command.env("LOCKSTEP_DISK_JOURNAL", &self.journal);
    }

    /// The host was killed, and the power fails.
    pub fn cut(&mut self, random: &mut SeededRandom) {
        let notes = std::fs::read(&self.journal).unwrap_or_default();
        self.tally.notes += journal::replay(&notes, &self.disk) as u64;
        // All, nothing, or some.
        let kept_of_100 = [0, 10, 50, 90, 100][random.below(5) as usize];
        let tally = &mut self.tally;
        tally.cuts += 1;
        self.disk.cut_power(|unsynced| {
            let survival = match unsynced {
                _ if random.below(100) < kept_of_100 => Survival::Kept,
                UnsyncedWrite::Bytes { bytes, .. } if random.below(4) == 0 => {
                    Survival::Torn(random.below(bytes.len() as u64 + 1) as usize)
                }
                _ => Survival::Lost,
            };
            tally.unsynced += 1;
            tally.lost += u64::from(survival != Survival::Kept);
            survival
        });
        self.write_back();
        let _ = std::fs::remove_file(&self.journal);
    }

    /// Makes the directory what the disk is.
    fn write_back(&self) {
        for folder in FOLDERS {
            for name in files(&self.directory, folder) {
                if self.disk.bytes(&name).is_none() {
                    std::fs::remove_file(self.directory.join(name)).expect("it is ours");
                }
            }
            for name in self.disk.list(folder).expect("memory lists") {
                let name = joined(folder, &name);
                let Some(bytes) = self.disk.bytes(&name) else { continue };
                let path = self.directory.join(name);
                if std::fs::read(&path).ok().as_ref() != Some(&bytes) {
                    std::fs::write(path, bytes).expect("it is ours");
                }
            }
        }
    }

    /// The notes are complete: a disk that is made from them has the files of the directory. For
    /// a host that stands still.
    pub fn is_followed(&self) -> bool {
        let notes = std::fs::read(&self.journal).unwrap_or_default();
        let disk = self.disk.copy();
        journal::replay(&notes, &disk);
        FOLDERS.iter().all(|folder| {
            let noted = disk.list(folder).expect("memory lists");
            let noted = noted.iter().map(|name| joined(folder, name));
            let noted: Vec<String> = noted.filter(|name| disk.bytes(name).is_some()).collect();
            noted == files(&self.directory, folder)
                && noted
                    .iter()
                    .all(|name| std::fs::read(self.directory.join(name)).ok() == disk.bytes(name))
        })
    }

    /// Removes the notes.
    pub fn clear(&self) {
        let _ = std::fs::remove_file(&self.journal);
    }
}

fn joined(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_string() } else { format!("{folder}/{name}") }
}

/// The files of a folder of a directory, by their names in it, in order.
fn files(directory: &Path, folder: &str) -> Vec<String> {
    let entries = std::fs::read_dir(directory.join(folder)).expect("a folder");
    let entries = entries.map(|entry| entry.expect("an entry"));
    let files = entries.filter(|entry| entry.path().is_file() && entry.file_name() != LOCK);
    let names = files.map(|entry| joined(folder, &entry.file_name().to_string_lossy()));
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}
