//! The same with what only tests need: procedures that the suites of client libraries call, notes
//! of everything that a host does to its disk, a clock that `CLOCK_SHIFT_S` moves, and, where
//! `MESSAGE_BYTES` is set, messages between threads that go through their byte form.

use lockstep_env::Disk;
use lockstep_env::journal::JournalDisk;
use std::fs::OpenOptions;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;

/// Names a file that takes the notes, if it is set.
const JOURNAL: &str = "LOCKSTEP_DISK_JOURNAL";

fn main() -> ExitCode {
    let shift = std::env::var("CLOCK_SHIFT_S").ok();
    if let Some(seconds) = shift.and_then(|shift| shift.parse::<i64>().ok()) {
        lockstep_node::clock::shift(seconds * 1_000_000);
    }
    if std::env::var_os("MESSAGE_BYTES").is_some() {
        lockstep_node::codec::send_bytes_always();
    }
    lockstep::run_with(lockstep_workloads::test_procedures, noted)
}

fn noted(disk: Arc<dyn Disk>) -> Arc<dyn Disk> {
    let Some(path) = std::env::var_os(JOURNAL) else { return disk };
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.expect("the test names a file that can be written");
    // Every note is one system call: a process that is killed leaves whole ones, and perhaps the
    // beginning of the last.
    let take = move |note: &[u8]| file.write_all(note).expect("the journal takes the note");
    Arc::new(JournalDisk::new(disk, Box::new(take)))
}
