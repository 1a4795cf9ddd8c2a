//! The memory that `@Statistics` states is what the process grew by.

use crate::allocation::Voter;
use crate::support::start;
use lockstep_types::Datum::{Int, Text};
use lockstep_workloads::voter::ACCEPTED;
use std::process::Command;

const VOTES: i64 = 1_000_000;

/// Resident memory of this process in KiB.
pub fn resident_kb() -> i64 {
    let line = std::fs::read_to_string("/proc/self/statm").expect("Linux tells");
    let pages = line.split(' ').nth(1).and_then(|pages| pages.parse::<i64>().ok());
    pages.expect("a number of pages") * 4
}

/// The sum of columns over all rows of a selector.
fn stated(voter: &mut Voter, selector: &str, columns: &[usize]) -> i64 {
    let rows = voter.peer.call("@Statistics", &[Text(selector), Int(0)]).rows;
    let cells = rows.split('\n').flat_map(|row| {
        let cells: Vec<&str> = row.split(',').collect();
        columns.iter().map(|column| cells[*column].parse::<i64>().expect("KiB")).collect::<Vec<_>>()
    });
    cells.sum()
}

fn stated_kb(voter: &mut Voter) -> i64 {
    stated(voter, "TABLE", &[8, 10]) + stated(voter, "INDEX", &[11])
}

/// Runs alone in a process of its own, started by the test below.
#[test]
#[ignore = "started by the other test of this module, alone in its process"]
fn grow() {
    let server = start(1, &[]);
    let mut voter = Voter::new(&server);
    // Whatever is allocated once is there before the first look.
    voter.vote(0..10_000, 500, ACCEPTED);
    let (before_kb, stated_before_kb) = (resident_kb(), stated_kb(&mut voter));
    voter.vote(10_000..10_000 + VOTES, 500, ACCEPTED);
    let grown_kb = resident_kb() - before_kb;
    let stated_kb = stated_kb(&mut voter) - stated_before_kb;
    println!("{VOTES} votes: grown by {grown_kb} KiB, stated {stated_kb} KiB");
    assert!((grown_kb - stated_kb).abs() * 10 <= grown_kb, "{grown_kb} KiB, {stated_kb} KiB");
}

#[test]
fn the_memory_of_tables_is_stated_within_a_tenth() {
    let this = std::env::current_exe().expect("a test knows its own file");
    let output = Command::new(this)
        .args(["memory::grow", "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("a test can run itself");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}
