//! Directories of hosts on the command line: made, locked, inspected, and refused with the place
//! and the remedy when something is wrong with them, and with nothing overwritten.

use super::process::Host;
use super::{lockstep, text};
use lockstep_types::Value;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A folder of one test, removed at its end.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let name = format!("lockstep-directory-{name}-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&path);
        Folder(path)
    }

    pub fn made(name: &str) -> Folder {
        let folder = Folder::new(name);
        let made = lockstep(&["init", "--sites", "2", "--dir", folder.shown()], "");
        assert!(made.status.success(), "{}", text(&made.stderr));
        folder
    }

    /// Of a host that wrote rows one after the other, and was killed.
    pub fn used(name: &str) -> Folder {
        let folder = Folder::made(name);
        let mut host = Host::start(&folder.0);
        let mut connection = host.connect();
        connection.sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
        for a in 0..20 {
            connection.sql(&format!("INSERT INTO t VALUES ({a})")).expect("it is inserted");
        }
        host.kill();
        folder
    }

    pub fn shown(&self) -> &str {
        self.0.to_str().expect("a path of text")
    }

    pub fn segment(&self) -> PathBuf {
        self.0.join("log/00000001.log")
    }

    /// Every file but the lock, by its path.
    pub fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.0.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                match path.is_dir() {
                    true => folders.push(path),
                    false if path.ends_with("lock") => {}
                    false => {
                        let bytes = std::fs::read(&path).expect("a file");
                        files.insert(path, bytes);
                    }
                }
            }
        }
        files
    }

    /// `start` is refused with these words and changes no file.
    pub fn start_is_refused(&self, arguments: &[&str], words: &[&str]) {
        let before = self.files();
        let mut all = vec!["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        all.extend_from_slice(&["--dir", self.shown()]);
        all.extend_from_slice(arguments);
        refused(&lockstep(&all, ""), words);
        assert!(self.files() == before, "a file was changed");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn refused(output: &Output, words: &[&str]) {
    let said = text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for word in words {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

#[test]
fn a_directory_is_made_once() {
    let folder = Folder::new("made");
    let init = ["init", "--sites", "2", "--dir", folder.shown()];
    let made = lockstep(&init, "");
    assert!(made.status.success());
    let said = text(&made.stdout);
    let next = format!("`lockstep start --dir {}`", folder.shown());
    assert!(said.contains("for 2 sites, cluster ") && said.contains(&next), "{said}");
    let before = folder.files();
    refused(&lockstep(&init, ""), &[folder.shown(), "belongs to a host already"]);
    assert!(folder.files() == before);
}

#[test]
fn sites_of_any_number_serve_the_partitions_of_a_directory() {
    let folder = Folder::new("partitions");
    let shape = ["--sites", "2", "--partitions-per-site", "2"];
    let made = lockstep(&[&["init", "--dir", folder.shown()], &shape[..]].concat(), "");
    let said = text(&made.stdout);
    let next = format!("`lockstep start --dir {} --partitions-per-site 2`", folder.shown());
    assert!(said.contains("for 2 sites with 2 partitions each") && said.contains(&next), "{said}");
    let sql = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN a";
    for (run, (arguments, told)) in [
        (&shape[2..], "lockstep: 2 sites with 2 partitions each, "),
        (&["--partitions-per-site", "4"], "lockstep: 1 site with 4 partitions, "),
        (&["--sites", "4", "--option", "partitions_per_site=1"], "lockstep: 4 sites, "),
        (&[], "lockstep: 4 sites, "),
    ]
    .into_iter()
    .enumerate()
    {
        let mut host = Host::run(Host::command(&folder.0, &[]).args(arguments)).ready();
        assert!(host.said.contains(told), "{}", host.said);
        let mut connection = host.connect();
        if run == 0 {
            connection.sql(sql).expect("it is made");
        }
        for row in 0..20 {
            let insert = format!("INSERT INTO t VALUES ({})", run * 20 + row);
            connection.sql(&insert).expect("it is inserted");
        }
        let count = connection.sql("SELECT COUNT(*) FROM t").expect("it is counted");
        assert_eq!(count[0].rows[0][0], Value::Int(run as i64 * 20 + 20));
        host.kill();
    }
    let advice = "start it with --sites 2";
    folder.start_is_refused(&["--sites", "3", "--partitions-per-site", "2"], &["4 part", advice]);
    folder.start_is_refused(&["--partitions-per-site", "3"], &["partitions_per_site=1"]);
    folder.start_is_refused(&["--partitions-per-site", "17"], &["17", "1..=16"]);
}

#[test]
fn a_directory_with_other_things_in_it_is_left_alone() {
    let folder = Folder::new("other");
    std::fs::create_dir_all(&folder.0).expect("it can be made");
    std::fs::write(folder.0.join("thesis.tex"), "years of work").expect("it can be written");
    let made = lockstep(&["init", "--dir", folder.shown()], "");
    refused(&made, &[folder.shown(), "'thesis.tex' is in it", "Nothing was changed"]);
    assert_eq!(folder.files().len(), 1);
}

#[test]
fn a_directory_that_is_missing_or_was_not_made_is_refused() {
    let folder = Folder::new("missing");
    let init = format!("run `lockstep init --dir {}` first", folder.shown());
    let start = ["start", "--dir", folder.shown()];
    refused(&lockstep(&start, ""), &["is not the directory of a host", &init]);
    assert!(!folder.0.exists(), "start makes no directory");
    std::fs::create_dir_all(&folder.0).expect("it can be made");
    folder.start_is_refused(&[], &["is not the directory of a host", &init]);
    let inspected = lockstep(&["log", "inspect", folder.shown()], "");
    refused(&inspected, &[folder.shown(), "is not the directory of a host"]);
}

#[test]
fn a_second_process_is_told_who_has_the_directory() {
    let folder = Folder::made("locked");
    let host = Host::start(&folder.0);
    let who = format!("process {} uses the directory", host.child.id());
    folder.start_is_refused(&[], &[folder.shown(), &who]);
    drop(host);
    // The file stays, the lock does not.
    drop(Host::start(&folder.0));
}

#[test]
fn a_directory_of_another_shape_is_refused() {
    let folder = Folder::made("shape");
    folder.start_is_refused(&["--sites", "3"], &["2 partitions", "--sites 2"]);
}

/// The checksum that files of the directory carry.
pub fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
    !bytes.iter().fold(!0, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

#[test]
fn a_directory_of_a_later_program_is_refused() {
    let folder = Folder::made("newer");
    let path = folder.0.join("cluster");
    let written = std::fs::read_to_string(&path).expect("a file of text");
    let (checked, _) = written.rsplit_once("checksum ").expect("a checksum");
    let newer = checked.replace("format 1", "format 9");
    std::fs::write(&path, format!("{newer}checksum {:08x}\n", crc32(newer.as_bytes())))
        .expect("it can be written");
    folder.start_is_refused(&[], &[path.to_str().expect("text"), "its format is 9"]);
    std::fs::write(&path, newer + "checksum 00000000\n").expect("it can be written");
    folder.start_is_refused(&[], &[path.to_str().expect("text"), "its checksum does not fit"]);
}

/// Changes a file, with a checksum of its first 60 bytes after them if it is a segment's header.
fn change(path: &Path, at: usize, byte: u8, is_header: bool) {
    let mut bytes = std::fs::read(path).expect("a file");
    bytes[at] ^= byte;
    if is_header {
        let checksum = crc32(&bytes[..60]);
        bytes[60..64].copy_from_slice(&checksum.to_be_bytes());
    }
    std::fs::write(path, bytes).expect("it can be written");
}

#[test]
fn damage_to_a_log_is_told_with_its_place_and_nothing_is_overwritten() {
    let folder = Folder::used("damaged");
    let segment = folder.segment();
    let file = segment.to_str().expect("text");
    // In the body of the first block, which later blocks know to be durable.
    change(&segment, 4_096 + 60, 1, false);
    folder.start_is_refused(&[], &[file, "byte 4096", "Remedy: ", "No file was changed"]);
    let inspected = lockstep(&["log", "inspect", folder.shown()], "");
    assert!(!inspected.status.success());
    let said = text(&inspected.stdout);
    assert!(said.contains("damaged: ") && said.contains("byte 4096"), "{said}");
    let inspected = lockstep(&["log", "inspect", "--json", folder.shown()], "");
    let told: serde_json::Value = serde_json::from_slice(&inspected.stdout).expect("JSON");
    assert_eq!(told["sound"], false);
    assert_eq!((&told["damage"]["file"], &told["damage"]["offset"]), (&file.into(), &4_096.into()));
    // The first page: of a later version, of another cluster, damaged.
    change(&segment, 4_096 + 60, 1, false);
    change(&segment, 11, 4, true);
    folder.start_is_refused(&[], &[file, "byte 8", "the format version is 7", "Remedy: "]);
    change(&segment, 11, 4, true);
    change(&segment, 12, 1, true);
    folder.start_is_refused(&[], &[file, "belongs to cluster", "Remedy: "]);
    change(&segment, 12, 1, false);
    folder.start_is_refused(&[], &[file, "header is damaged", "Remedy: "]);
    change(&segment, 60, 0, true);
    drop(Host::start(&folder.0));
}

#[test]
fn a_log_that_misses_a_file_is_refused() {
    let folder = Folder::used("gap");
    // Each start begins a segment.
    (0..2).for_each(|_| drop(Host::start(&folder.0)));
    let second = folder.0.join("log/00000002.log");
    let aside = std::fs::read(&second).expect("a file");
    std::fs::remove_file(&second).expect("it can be removed");
    let words = [second.to_str().expect("text"), "the file is missing", "Remedy: "];
    folder.start_is_refused(&[], &words);
    std::fs::write(&second, aside).expect("it can be written");
    drop(Host::start(&folder.0));
}

#[test]
fn a_directory_without_permission_is_refused() {
    let folder = Folder::used("denied");
    let log = folder.0.join("log");
    let allow = |mode| {
        std::fs::set_permissions(&log, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    allow(0o000);
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(["log", "inspect", folder.shown()]);
    // Permissions do not bind root: then it is somebody else who looks.
    if std::fs::read_dir(&log).is_ok() {
        const NOBODY: u32 = 65_534;
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output();
    allow(0o755);
    let output = output.expect("the binary runs");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for word in [log.to_str().expect("text"), "cannot be listed", "denied", "Remedy: "] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
}

#[test]
fn a_sound_log_is_shown() {
    let folder = Folder::used("sound");
    let inspected = lockstep(&["log", "inspect", folder.shown()], "");
    assert!(inspected.status.success());
    let said = text(&inspected.stdout);
    let head = "     segment  used bytes  partition  blocks  entries  from  to  bytes\n";
    assert!(said.starts_with("cluster ") && said.contains(", 2 partitions\n"), "{said}");
    assert!(said.contains(head.trim_start()) && said.ends_with("\nsound\n"), "{said}");
    let inspected = lockstep(&["log", "inspect", "--json", folder.shown()], "");
    let told: serde_json::Value = serde_json::from_slice(&inspected.stdout).expect("JSON");
    assert_eq!((&told["sound"], &told["partitions"]), (&true.into(), &2.into()));
    let parts = told["segments"][0]["partitions"].as_array().expect("a list");
    assert_eq!(parts.len(), 2, "{told}");
    for part in parts {
        // A table and its rows, which are replicated.
        assert!(part["entries"].as_u64() >= Some(20), "{told}");
    }
    let one = lockstep(&["log", "inspect", folder.segment().to_str().expect("text")], "");
    assert!(one.status.success(), "{}", text(&one.stderr));
    let other = lockstep(&["log", "inspect", "/nowhere/00000001.log"], "");
    refused(&other, &["neither the directory of a host nor a file"]);
}
