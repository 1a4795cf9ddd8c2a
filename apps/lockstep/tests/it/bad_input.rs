//! Directories that somebody or something has damaged: each start is refused, says which file,
//! where and what can be done, and changes nothing.

use super::directory::{Folder, crc32, refused};
use super::lockstep;
use super::process::Host;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A harm, the file that the message has to name, and what else it has to say.
struct Case {
    name: &'static str,
    harm: fn(&Path),
    file: &'static str,
    words: &'static [&'static str],
}

/// Copies a folder with all that is in it.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("it can be made");
    for entry in fs::read_dir(from).expect("a folder") {
        let path = entry.expect("an entry").path();
        let copied = to.join(path.file_name().expect("a name"));
        match path.is_dir() {
            true => copy(&path, &copied),
            false => drop(fs::copy(&path, &copied).expect("it can be copied")),
        }
    }
}

fn rows(host: &Host, from: i64) {
    let mut connection = host.connect();
    for a in from..from + 20 {
        connection.sql(&format!("INSERT INTO t VALUES ({a})")).expect("it is inserted");
    }
}

/// A directory with a log of three segments.
fn logged(name: &str) -> Folder {
    let folder = Folder::made(name);
    for start in 0..3 {
        let mut host = Host::start(&folder.0);
        if start == 0 {
            let table = "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)";
            host.connect().sql(table).expect("it is made");
        }
        rows(&host, start * 100);
        host.kill();
    }
    folder
}

/// One with a snapshot, and the log after it: what was before is given up.
fn saved(name: &str) -> Folder {
    let folder = logged(name);
    let mut host = Host::start(&folder.0);
    let stopped = lockstep(&["admin", "shutdown", "--save", "--server", &host.admin()], "");
    assert!(stopped.status.success());
    assert!(host.wait().0);
    assert!(!folder.segment().exists(), "the log before the snapshot is given up");
    let mut host = Host::start(&folder.0);
    rows(&host, 1_000);
    host.kill();
    folder
}

/// The only file of the folder whose name ends so.
fn named(root: &Path, ending: &str) -> PathBuf {
    let entries = fs::read_dir(root.join("snapshots")).expect("a folder");
    let mut paths = entries.map(|entry| entry.expect("an entry").path());
    let found = paths.find(|path| path.to_string_lossy().ends_with(ending));
    found.unwrap_or_else(|| panic!("no file ends with {ending}"))
}

fn second(root: &Path) -> PathBuf {
    root.join("log/00000002.log")
}

fn cut(path: &Path, length: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes.truncate(length);
    fs::write(path, bytes).expect("it can be written");
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("it can be written");
}

fn fill(path: &Path) {
    let length = fs::metadata(path).expect("a file").len() as usize;
    fs::write(path, vec![0x5a; length]).expect("it can be written");
}

fn become_folder(path: &Path) {
    fs::remove_file(path).expect("it can be removed");
    fs::create_dir(path).expect("it can be made");
}

/// Gives the directory a file of another cluster.
fn exchange(root: &Path, name: &str) {
    let other = logged("bad-stranger");
    fs::copy(other.0.join(name), root.join(name)).expect("it can be copied");
}

/// Says in a text file with a checksum at its end that it is of a later version.
fn make_newer(path: &Path) {
    let written = fs::read_to_string(path).expect("a file of text");
    let (checked, _) = written.rsplit_once("checksum ").expect("a checksum");
    let known = if checked.contains("\nformat 3\n") { "format 3" } else { "format 1" };
    let newer = checked.replacen(known, "format 77", 1);
    let checksum = crc32(newer.as_bytes());
    fs::write(path, format!("{newer}checksum {checksum:08x}\n")).expect("it can be written");
}

fn check(pristine: &Folder, cases: &[Case]) {
    let mut failed = Vec::new();
    for case in cases {
        let folder = Folder::new(&format!("bad-{}", case.name));
        copy(&pristine.0, &folder.0);
        (case.harm)(&folder.0);
        let words = [&[case.file], case.words].concat();
        let refused = || folder.start_is_refused(&[], &words);
        if std::panic::catch_unwind(refused).is_err() {
            failed.push(case.name);
        }
    }
    assert!(failed.is_empty(), "{failed:?}");
}

/// What happens to the log and to the cluster file.
const LOG_CASES: &[Case] = &[
    Case {
        name: "cluster-empty",
        harm: |root| cut(&root.join("cluster"), 0),
        file: "/cluster",
        words: &["checksum does not fit", "Put the file back", "nothing was changed"],
    },
    Case {
        name: "cluster-random",
        harm: |root| fill(&root.join("cluster")),
        file: "/cluster",
        words: &["checksum does not fit", "Put the file back"],
    },
    Case {
        name: "cluster-newer",
        harm: |root| make_newer(&root.join("cluster")),
        file: "/cluster",
        words: &["its format is 77"],
    },
    Case {
        name: "cluster-missing",
        harm: |root| fs::remove_file(root.join("cluster")).expect("it is there"),
        file: "/cluster",
        words: &["is missing", "Put the file back", "othing was changed"],
    },
    Case {
        name: "cluster-folder",
        harm: |root| become_folder(&root.join("cluster")),
        file: "/cluster",
        words: &["it is a folder, not a regular file", "Remedy: "],
    },
    Case {
        name: "lock-folder",
        harm: |root| become_folder(&root.join("lock")),
        file: "/lock",
        words: &["it is a folder, not a regular file", "Remedy: "],
    },
    Case {
        name: "log-missing",
        harm: |root| fs::remove_dir_all(root.join("log")).expect("it is there"),
        file: "/log",
        words: &["the command log has no file with a sound first page", "Remedy: "],
    },
    Case {
        name: "first-missing",
        harm: |root| fs::remove_file(root.join("log/00000001.log")).expect("it is there"),
        file: "/log/00000002.log",
        words: &["byte 4096", "entries are missing", "Remedy: ", "No file was changed"],
    },
    Case {
        name: "segment-missing",
        harm: |root| fs::remove_file(second(root)).expect("it is there"),
        file: "/log/00000002.log",
        words: &["the file is missing", "Remedy: "],
    },
    Case {
        name: "segment-empty",
        harm: |root| cut(&second(root), 0),
        file: "/log/00000002.log",
        words: &["byte 0", "Remedy: ", "No file was changed"],
    },
    Case {
        name: "segment-cut",
        harm: |root| cut(&second(root), 4_200),
        file: "/log/00000002.log",
        words: &["byte ", "Remedy: "],
    },
    Case {
        name: "segment-random",
        harm: |root| fill(&second(root)),
        file: "/log/00000002.log",
        words: &["byte 0", "Remedy: "],
    },
    Case {
        name: "segment-block",
        harm: |root| flip(&second(root), 4_096 + 60),
        file: "/log/00000002.log",
        words: &["byte 4096", "Remedy: "],
    },
    Case {
        name: "segment-folder",
        harm: |root| become_folder(&second(root)),
        file: "/log/00000002.log",
        words: &["cannot be ", "Remedy: "],
    },
    Case {
        name: "segment-foreign",
        harm: |root| exchange(root, "log/00000002.log"),
        file: "/log/00000002.log",
        words: &["belongs to cluster", "Remedy: "],
    },
    Case {
        name: "cluster-foreign",
        harm: |root| exchange(root, "cluster"),
        file: "/log/00000001.log",
        words: &["belongs to cluster", "Remedy: "],
    },
];

#[test]
fn directories_with_a_bad_log_or_cluster_file_are_refused() {
    check(&logged("bad-log"), LOG_CASES);
}

#[test]
fn directories_with_a_bad_snapshot_that_the_log_does_not_make_up_for_are_refused() {
    const REACH: &str = "entries are missing. Remedy: put back what is missing before it";
    let pristine = saved("bad-saved");
    check(
        &pristine,
        &[
            Case {
                name: "manifest-empty",
                harm: |root| cut(&named(root, ".manifest"), 0),
                file: ".manifest",
                words: &[REACH, "No file was changed"],
            },
            Case {
                name: "manifest-damaged",
                harm: |root| flip(&named(root, ".manifest"), 60),
                file: ".manifest",
                words: &[REACH, "restore the file from a copy"],
            },
            Case {
                name: "manifest-newer",
                harm: |root| make_newer(&named(root, ".manifest")),
                file: ".manifest",
                words: &[REACH, "it has format 77"],
            },
            Case {
                name: "rows-missing",
                harm: |root| fs::remove_file(named(root, "site_1.rows")).expect("it is there"),
                file: "site_1.rows",
                words: &[REACH, "it is not there", "restore the file from a copy"],
            },
            Case {
                name: "rows-cut",
                harm: |root| cut(&named(root, "site_0.rows"), 100),
                file: "site_0.rows",
                words: &[REACH, "restore the file from a copy"],
            },
            Case {
                name: "rows-damaged",
                harm: |root| flip(&named(root, "site_0.rows"), 60),
                file: "site_0.rows",
                words: &[REACH, "byte "],
            },
            Case {
                name: "rows-random",
                harm: |root| fill(&named(root, "site_0.rows")),
                file: "site_0.rows",
                words: &[REACH, "byte "],
            },
        ],
    );
}

#[test]
fn places_that_are_no_directories_of_this_user_are_refused() {
    let folder = Folder::made("bad-place");
    let file = folder.0.join("cluster");
    let shown = file.to_str().expect("text");
    let start = ["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dir"];
    let not_a_directory = lockstep(&[&start[..], &[shown]].concat(), "");
    refused(&not_a_directory, &[shown, "Not a directory", "Remedy: "]);
    refused(&lockstep(&["init", "--dir", shown], ""), &[shown, "Remedy: "]);
    // Permissions do not bind root: then it is somebody else who starts.
    const NOBODY: u32 = 65_534;
    let allow = |mode| {
        let permissions = PermissionsExt::from_mode(mode);
        fs::set_permissions(&folder.0, permissions).expect("it is ours");
    };
    allow(0o555);
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(start).arg(&folder.0);
    if fs::write(folder.0.join("probe"), "").is_ok() {
        fs::remove_file(folder.0.join("probe")).expect("it was written");
        command.uid(NOBODY).gid(NOBODY);
    }
    let output = command.output();
    allow(0o755);
    let lock = folder.0.join("lock");
    let words = [lock.to_str().expect("text"), "ermission denied", "Remedy: let this user"];
    refused(&output.expect("the binary runs"), &words);
}
