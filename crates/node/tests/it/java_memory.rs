//! Calls of Java procedures leave nothing over: heap, the host's references into it, and the
//! memory of the process are after many calls what they were before.

use crate::java::{BEHAVE, host};
use crate::memory::resident_kb;
use crate::support::{Peer, call_frame, parameters};
use lockstep_types::Datum;
use std::process::Command;
use std::time::Instant;

/// Calls of the quick test; the other asks for a million.
const CALLS: u64 = 100_000;
const MANY_CALLS: u64 = 1_000_000;
/// Calls in progress at a time.
const BATCH: u64 = 500;

/// Calls that write and abort, fail, and read in several batches: every way through the boundary.
fn call(peer: &mut Peer, calls: u64) {
    const WAYS: [&str; 4] = ["abort", "throw", "twice", "caught"];
    let mut left = calls;
    while left > 0 {
        let batch = left.min(BATCH);
        let mut bytes = Vec::new();
        for number in 0..batch {
            // Most calls succeed, and undo nothing but their second batch.
            let how = if number % 8 == 0 { WAYS[(number / 8 % 4) as usize] } else { "read" };
            let values = [Datum::Int((number % 100) as i64), Datum::Text(how)];
            bytes.extend(call_frame("Behave", number as i64, &parameters(&values)));
        }
        peer.send(&bytes);
        for _ in 0..batch {
            peer.answer();
        }
        peer.run("DELETE FROM t");
        left -= batch;
    }
}

/// Heap after a collection and global references.
fn held(peer: &mut Peer) -> (i64, i64) {
    let rows = peer.call("Memory", &[Datum::Int(1)]).rows;
    let (heap, references) = rows.split_once(',').expect("two numbers");
    (heap.parse().expect("bytes"), references.parse().expect("a number"))
}

fn run(calls: u64) {
    let schema =
        format!("{BEHAVE} CREATE PROCEDURE PARTITION ON TABLE t COLUMN k FROM CLASS Memory;");
    let Some((_server, mut peer)) = host(1, &schema) else { return };
    // Whatever is made once is there before the first look; compiled code comes early as well.
    call(&mut peer, calls / 2);
    held(&mut peer);
    let ((heap, references), resident) = (held(&mut peer), resident_kb());
    let began = Instant::now();
    call(&mut peer, calls);
    let took = began.elapsed();
    let ((heap_after, references_after), resident_after) = (held(&mut peer), resident_kb());
    println!(
        "{calls} calls in {took:?}: heap {heap} -> {heap_after} bytes, global references \
         {references} -> {references_after}, resident {resident} -> {resident_after} KiB"
    );
    assert!(references > 0, "the JVM tells");
    // The JVM makes some of its own now and then.
    let grown = references_after - references;
    assert!(grown < 16, "{grown} more references into the heap");
    assert!(heap_after - heap < 1 << 20, "the heap grew by {} bytes", heap_after - heap);
    let grown_kb = resident_after - resident;
    assert!(grown_kb < 32 << 10, "the process grew by {grown_kb} KiB");
}

/// Runs alone in a process of its own, started by the test below.
#[test]
#[ignore = "started by the other test of this module, alone in its process"]
fn some_calls() {
    run(CALLS);
}

/// Runs by hand: minutes.
#[test]
#[ignore = "takes minutes: run it by name, with --ignored --nocapture"]
fn a_million_calls() {
    run(MANY_CALLS);
}

#[test]
fn calls_leave_nothing_behind() {
    let this = std::env::current_exe().expect("a test knows its own file");
    let output = Command::new(this)
        .args(["java_memory::some_calls", "--exact", "--ignored", "--nocapture"])
        .output()
        .expect("a test can run itself");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("1 passed"), "{text}");
}
