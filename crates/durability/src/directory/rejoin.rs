//! A host whose cluster went on without it loads its copies again. What its directory has of them
//! is removed first, and a file is there until what it loads is durable: a start that finds the
//! file begins again.
//!
//! ```text
//! DIR/rejoin       the last run of the host that is known: text
//! ```

use super::{
    ClusterId, DirectoryError, LOG_BEGUN_FILE, SNAPSHOT_FOLDER, checked_text, not_sound, read_text,
    replace_text,
};
use crate::command_log;
use crate::snapshot::{SnapshotError, clear, scan};
use lockstep_env::{Disk, DiskErrorKind};

/// The file that is there from the moment when a host gives up its data until what it has loaded in
/// their place is durable.
pub const REJOIN_FILE: &str = "rejoin";
const FIRST_LINE: &str = "LockstepDB rejoin";
const LAST_RUN: &str = "last_run ";

/// The last run of a host that has begun to give up its data, milliseconds since 1970; none of one
/// that has not.
///
/// # Errors
/// The file cannot be read or is not sound.
pub fn read(disk: &dyn Disk) -> Result<Option<u64>, DirectoryError> {
    let Some(text) = read_text(disk, REJOIN_FILE)? else { return Ok(None) };
    let checked = checked_text(&text, FIRST_LINE);
    let checked = checked.map_err(|problem| not_sound(disk, REJOIN_FILE, &problem))?;
    let run = checked.lines().find_map(|line| line.strip_prefix(LAST_RUN)?.parse().ok());
    let missing = || not_sound(disk, REJOIN_FILE, "the line 'last_run' is missing");
    run.ok_or_else(missing).map(Some)
}

/// Notes durably that the data of the host are given up, and then removes its command log and the
/// snapshots of its own copies whose names begin with `prefix`. Snapshots of users stay. The last
/// run of the host that is known is `last_run`, milliseconds since 1970.
///
/// # Errors
/// The disk failed: the next start removes the rest.
pub fn begin(
    disk: &dyn Disk,
    (prefix, cluster): (&str, ClusterId),
    last_run: u64,
) -> Result<(), DirectoryError> {
    let before = read(disk)?.unwrap_or(0);
    let last_run = last_run.max(before);
    replace_text(disk, REJOIN_FILE, format!("{FIRST_LINE}\n{LAST_RUN}{last_run}\n"))?;
    remove_log(disk)?;
    let removed = remove_own_snapshots(disk, prefix, cluster);
    removed.map_err(|error| DirectoryError(error.to_string()))
}

/// What was loaded is durable, and a start begins with it from now on.
///
/// # Errors
/// The disk failed.
pub fn end(disk: &dyn Disk) -> Result<(), DirectoryError> {
    match disk.remove(REJOIN_FILE) {
        Err(error) if error.is_not_found() => {}
        removed => removed?,
    }
    disk.sync_folder("")?;
    Ok(())
}

fn remove_log(disk: &dyn Disk) -> Result<(), DirectoryError> {
    // A folder without segments is no lost log then.
    match disk.remove(LOG_BEGUN_FILE) {
        Err(error) if error.is_not_found() => {}
        removed => removed?,
    }
    disk.sync_folder("")?;
    let mut names = disk.list(command_log::FOLDER)?;
    // From the newest on: what is left is a log without its end, and never one with a hole.
    names.sort_unstable();
    for name in names.iter().rev() {
        disk.remove(&format!("{}/{name}", command_log::FOLDER))?;
    }
    disk.sync_folder(command_log::FOLDER)?;
    Ok(())
}

fn remove_own_snapshots(
    disk: &dyn Disk,
    prefix: &str,
    cluster: ClusterId,
) -> Result<(), SnapshotError> {
    for found in scan(disk, SNAPSHOT_FOLDER)? {
        let is_own = match &found.manifest {
            Ok(manifest) => manifest.is_own() && manifest.cluster == cluster,
            Err(error) => {
                error.disk == Some(DiskErrorKind::NotFound) && found.nonce.starts_with(prefix)
            }
        };
        if is_own {
            clear(disk, SNAPSHOT_FOLDER, &found.nonce, cluster)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_env::OpenMode;
    use lockstep_env::memory::{MemoryDisk, Survival};

    fn write(disk: &MemoryDisk, name: &str) {
        let mut file = disk.open(name, OpenMode::Create).expect("it is new");
        file.write_at(0, b"something").expect("it has space");
        file.sync_data().expect("it is durable");
    }

    #[test]
    fn a_directory_is_cleared_once_that_is_noted_and_until_it_is_ended() {
        let disk = MemoryDisk::new();
        disk.create_folder(command_log::FOLDER).expect("a folder");
        disk.create_folder(SNAPSHOT_FOLDER).expect("a folder");
        write(&disk, LOG_BEGUN_FILE);
        for number in 1..4 {
            write(&disk, &command_log::file_name(number));
        }
        write(&disk, &format!("{SNAPSHOT_FOLDER}/mine-0.rows"));
        assert_eq!(read(&disk), Ok(None));
        let own = ("AUTO", ClusterId([7; 16]));
        begin(&disk, own, 12).expect("the disk is sound");
        begin(&disk, own, 7).expect("it may be done again");
        let survivor = disk.survivor(|_| Survival::Lost);
        assert_eq!(read(&survivor), Ok(Some(12)), "a later start knows the run");
        assert_eq!(survivor.list(command_log::FOLDER).expect("a folder"), Vec::<String>::new());
        assert!(!survivor.list("").expect("a folder").contains(&LOG_BEGUN_FILE.to_string()));
        assert_eq!(disk.list(SNAPSHOT_FOLDER).expect("a folder").len(), 1, "a user's stays");
        end(&disk).expect("the disk is sound");
        end(&disk).expect("it may be done again");
        assert_eq!(read(&disk.survivor(|_| Survival::Lost)), Ok(None));
    }
}
