//! A host's directory: what is in it, and the file that says which cluster it belongs to.
//!
//! ```text
//! DIR/lock         held by the process that uses the directory
//! DIR/cluster      which cluster, and its shape: text, written once
//! DIR/members      for a host of several: the directories of all of them
//! DIR/raft/        for a host of several with copies: what the hosts agree on
//! DIR/rejoin       there while a host of several loads its copies again
//! DIR/log-begun    there from the log's first segment on: a log without files is a lost one
//! DIR/log/         the command log
//! DIR/snapshots/   snapshots
//! ```
//!
//! The directory of a witness has the files `lock` and `cluster` and the folder `raft`.

pub mod rejoin;

use crate::command_log;
use lockstep_env::{Disk, DiskError, DiskErrorKind, OpenMode};
use std::fmt;

/// The folder of snapshots in a host's directory.
pub const SNAPSHOT_FOLDER: &str = "snapshots";
/// The file that says which cluster a directory belongs to.
pub const CLUSTER_FILE: &str = "cluster";
/// The file that is there once the command log has a first segment, so that a log whose files are
/// gone is distinguished from one that never had any.
pub const LOG_BEGUN_FILE: &str = "log-begun";
/// The file that a process locks while it uses a directory.
pub const LOCK_FILE: &str = "lock";

/// The folder with what the hosts of a cluster agree on.
pub const RAFT_FOLDER: &str = "raft";
/// The file that names the directories of all hosts of a cluster.
pub const MEMBERS_FILE: &str = "members";

const FIRST_LINE: &str = "LockstepDB cluster";
/// The format of a directory for a host that is alone, of one for a host of several, and of one
/// for a member of a cluster with a witness.
const FORMAT: u64 = 1;
const FORMAT_OF_SEVERAL: u64 = 2;
const FORMAT_WITH_WITNESS: u64 = 3;
/// The role of a witness.
const WITNESS: &str = "witness";
const MEMBERS_FIRST_LINE: &str = "LockstepDB members";
const CLUSTER_FILE_BYTES_MAX: usize = 4_096;

/// Names a cluster: random bits, drawn when its first directory is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl ClusterId {
    /// Reads the text that [`fmt::Display`] writes; none for another one.
    pub fn parse(text: &str) -> Option<ClusterId> {
        let is_hex = text.len() == 32 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let number = u128::from_str_radix(text, 16).ok().filter(|_| is_hex)?;
        Some(ClusterId(number.to_be_bytes()))
    }
}

/// What a directory's cluster file says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClusterFile {
    /// The cluster.
    pub cluster: ClusterId,
    /// Its number of partitions.
    pub partition_count: u32,
    /// When it was made, milliseconds since 1970.
    pub created_ms: i64,
    /// For a host of several, what they are.
    pub several: Option<SeveralHosts>,
    /// The directory is that of a witness, which has no partitions.
    pub is_witness: bool,
}

/// The hosts of a cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeveralHosts {
    /// How many there are.
    pub hosts: u32,
    /// How many sites each has.
    pub sites: u32,
    /// How many hosts may be lost without a loss of data.
    pub kfactor: u8,
    /// How many witnesses there are beside the hosts.
    pub witnesses: u32,
}

/// Why a directory cannot be made or used; the text names the file and what can be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryError(pub String);

impl fmt::Display for DirectoryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DirectoryError {}

impl From<DiskError> for DirectoryError {
    fn from(error: DiskError) -> DirectoryError {
        let remedy = match error.kind {
            // The text says it.
            DiskErrorKind::Locked => return DirectoryError(error.to_string()),
            DiskErrorKind::Denied => "let this user read and write there",
            DiskErrorKind::NotRegular => "put the file back as it was, or move it away",
            DiskErrorKind::Full => "make room on that disk",
            DiskErrorKind::NotFound | DiskErrorKind::Exists | DiskErrorKind::Other => {
                "mend the directory, or name another one"
            }
        };
        DirectoryError(format!("{error}. Remedy: {remedy}."))
    }
}

impl ClusterFile {
    fn to_text(self) -> String {
        let ClusterFile { cluster, partition_count, created_ms, several, is_witness } = self;
        let format = match several {
            _ if is_witness => FORMAT_WITH_WITNESS,
            Some(several) if several.witnesses > 0 => FORMAT_WITH_WITNESS,
            Some(_) => FORMAT_OF_SEVERAL,
            None => FORMAT,
        };
        let mut text = format!(
            "{FIRST_LINE}\nformat {format}\ncluster {cluster}\npartitions {partition_count}\n\
             created_ms {created_ms}\n"
        );
        if let Some(SeveralHosts { hosts, sites, kfactor, witnesses }) = several {
            text.push_str(&format!("hosts {hosts}\nsites {sites}\nkfactor {kfactor}\n"));
            if witnesses > 0 {
                text.push_str(&format!("witnesses {witnesses}\n"));
            }
        }
        if is_witness {
            text.push_str(&format!("role {WITNESS}\n"));
        }
        with_checksum(text)
    }

    /// The file's text; the error says what is wrong with it.
    fn parse(text: &str) -> Result<ClusterFile, String> {
        let checked = checked_text(text, FIRST_LINE)?;
        let field = |name: &str| {
            let find = |line: &'_ str| line.strip_prefix(name)?.strip_prefix(' ').map(String::from);
            checked.lines().find_map(find).ok_or_else(|| format!("the line '{name}' is missing"))
        };
        let wrong = |name: &str| format!("the line '{name}' has no number that fits");
        let format: u64 = field("format")?.parse().map_err(|_| wrong("format"))?;
        if format > FORMAT_WITH_WITNESS {
            let known = FORMAT_WITH_WITNESS;
            return Err(format!("its format is {format}, and this program reads {known}"));
        }
        let is_witness = format == FORMAT_WITH_WITNESS && field("role").is_ok();
        if is_witness && field("role")? != WITNESS {
            return Err("the line 'role' names no role that this program knows".to_string());
        }
        let several = (format > FORMAT && !is_witness).then(|| {
            Ok::<SeveralHosts, String>(SeveralHosts {
                hosts: field("hosts")?.parse().map_err(|_| wrong("hosts"))?,
                sites: field("sites")?.parse().map_err(|_| wrong("sites"))?,
                kfactor: field("kfactor")?.parse().map_err(|_| wrong("kfactor"))?,
                witnesses: match format {
                    FORMAT_WITH_WITNESS => {
                        field("witnesses")?.parse().map_err(|_| wrong("witnesses"))?
                    }
                    _ => 0,
                },
            })
        });
        Ok(ClusterFile {
            is_witness,
            several: several.transpose()?,
            cluster: ClusterId::parse(&field("cluster")?).ok_or_else(|| wrong("cluster"))?,
            partition_count: field("partitions")?.parse().map_err(|_| wrong("partitions"))?,
            created_ms: field("created_ms")?.parse().map_err(|_| wrong("created_ms"))?,
        })
    }

    /// Reads the file of a directory; none if the directory was not made yet.
    ///
    /// # Errors
    /// The file cannot be read or is not sound.
    pub fn read(disk: &dyn Disk) -> Result<Option<ClusterFile>, DirectoryError> {
        let Some(text) = read_text(disk, CLUSTER_FILE)? else { return Ok(None) };
        ClusterFile::parse(&text)
            .map(Some)
            .map_err(|problem| not_sound(disk, CLUSTER_FILE, &problem))
    }
}

/// The text of a small file, if it is there.
fn read_text(disk: &dyn Disk, name: &str) -> Result<Option<String>, DirectoryError> {
    let file = match disk.open(name, OpenMode::Read) {
        Err(error) if error.is_not_found() => return Ok(None),
        other => other?,
    };
    let mut bytes = vec![0; CLUSTER_FILE_BYTES_MAX];
    let read = file.read_at(0, &mut bytes)?;
    bytes.truncate(read);
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

fn not_sound(disk: &dyn Disk, name: &str, problem: &str) -> DirectoryError {
    let shown = disk.shown(name);
    DirectoryError(format!("{shown}: {problem}. Put the file back as it was; nothing was changed."))
}

fn with_checksum(mut text: String) -> String {
    let checksum = crc32fast::hash(text.as_bytes());
    text.push_str(&format!("checksum {checksum:08x}\n"));
    text
}

/// The text before its checksum.
fn checked_text<'a>(text: &'a str, first_line: &str) -> Result<&'a str, String> {
    let damaged = || "the text is damaged: its checksum does not fit".to_string();
    let (checked, checksum) = text.rsplit_once("checksum ").ok_or_else(damaged)?;
    let expected = format!("{:08x}\n", crc32fast::hash(checked.as_bytes()));
    match checksum == expected && checked.starts_with(first_line) {
        true => Ok(checked),
        false => Err(damaged()),
    }
}

/// The directories of the hosts of a cluster, by host, as they were when it began; none where it
/// has not begun.
///
/// # Errors
/// The file cannot be read or is not sound.
pub fn read_members(disk: &dyn Disk) -> Result<Option<Vec<ClusterId>>, DirectoryError> {
    let Some(text) = read_text(disk, MEMBERS_FILE)? else { return Ok(None) };
    let wrong = |problem: &str| not_sound(disk, MEMBERS_FILE, problem);
    let checked = checked_text(&text, MEMBERS_FIRST_LINE).map_err(|problem| wrong(&problem))?;
    let ids: Option<Vec<ClusterId>> = checked.lines().skip(1).map(ClusterId::parse).collect();
    ids.ok_or_else(|| wrong("a line names no directory")).map(Some)
}

/// Keeps the directories of the hosts of a cluster, durably.
///
/// # Errors
/// The disk failed.
pub fn write_members(disk: &dyn Disk, members: &[ClusterId]) -> Result<(), DirectoryError> {
    let lines: String = members.iter().map(|id| format!("{id}\n")).collect();
    replace_text(disk, MEMBERS_FILE, format!("{MEMBERS_FIRST_LINE}\n{lines}"))
}

/// Gives a small file a text with its checksum, durably: after a power cut the file has this one or
/// the one before.
fn replace_text(disk: &dyn Disk, name: &str, text: String) -> Result<(), DirectoryError> {
    let text = with_checksum(text);
    let unfinished = format!("{name}.unfinished");
    if disk.list("")?.contains(&unfinished) {
        disk.remove(&unfinished)?;
    }
    let mut written = disk.open(&unfinished, OpenMode::Create)?;
    written.write_at(0, text.as_bytes())?;
    written.sync_data()?;
    drop(written);
    disk.rename(&unfinished, name)?;
    disk.sync_folder("")?;
    Ok(())
}

/// Makes a directory ready for a host. It must be empty but for a lock file.
///
/// # Errors
/// Something is in it, or the disk failed. A directory that was made half can be made again.
pub fn initialize(disk: &dyn Disk, file: ClusterFile) -> Result<(), DirectoryError> {
    let root = disk.shown("");
    let expected = [LOCK_FILE, command_log::FOLDER, SNAPSHOT_FOLDER, UNFINISHED];
    let names = disk.list("")?;
    if names.iter().any(|name| name == CLUSTER_FILE) {
        return Err(DirectoryError(format!(
            "{root} belongs to a host already: `lockstep start --dir` starts it, and `lockstep \
             witness --dir` a witness. Nothing was changed."
        )));
    }
    let unexpected = names.iter().find(|name| !expected.contains(&name.as_str()));
    let used = [command_log::FOLDER, SNAPSHOT_FOLDER]
        .into_iter()
        .find(|folder| disk.list(folder).is_ok_and(|inside| !inside.is_empty()));
    if let Some(name) = unexpected.map(String::as_str).or(used) {
        return Err(DirectoryError(format!(
            "{root} is not empty ('{name}' is in it): give a directory that is empty or does not \
             exist. Nothing was changed."
        )));
    }
    if !file.is_witness {
        disk.create_folder(command_log::FOLDER)?;
        disk.create_folder(SNAPSHOT_FOLDER)?;
    }
    if names.iter().any(|name| name == UNFINISHED) {
        disk.remove(UNFINISHED)?;
    }
    let mut written = disk.open(UNFINISHED, OpenMode::Create)?;
    written.write_at(0, file.to_text().as_bytes())?;
    written.sync_data()?;
    drop(written);
    disk.sync_folder("")?;
    disk.rename(UNFINISHED, CLUSTER_FILE)?;
    disk.sync_folder("")?;
    Ok(())
}

/// The cluster file before it has its name.
const UNFINISHED: &str = "cluster.unfinished";
