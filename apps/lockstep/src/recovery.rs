//! What `lockstep start` shows while it brings a host back, and says afterwards.

use lockstep_bench::report::grouped;
use lockstep_node::recovery::{RecoveryProgress, RecoverySummary};
use serde_json::{Value, json};
use std::io::{IsTerminal, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// Between two changes of the line.
const INTERVAL: Duration = Duration::from_millis(200);

/// A line on a terminal that says how far recovery is, until it is dropped; nothing elsewhere.
pub struct ProgressLine {
    thread: Option<(Sender<()>, JoinHandle<()>)>,
}

impl ProgressLine {
    /// Shows the progress from now on.
    pub fn show(progress: Option<Arc<RecoveryProgress>>) -> ProgressLine {
        let Some(progress) = progress.filter(|_| std::io::stderr().is_terminal()) else {
            return ProgressLine { thread: None };
        };
        let (stop, stopped) = channel();
        let draw = move || {
            while stopped.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                let entries = progress.entries.load(Ordering::Relaxed);
                let replayed = progress.replayed.load(Ordering::Relaxed);
                // Progress that cannot be shown is no reason to stop.
                let _ = write!(std::io::stderr(), "\r\x1b[K{}", line(replayed, entries));
            }
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        };
        // Without a thread for the line the host starts all the same.
        let thread = std::thread::Builder::new().name("progress".to_string()).spawn(draw);
        ProgressLine { thread: thread.ok().map(|thread| (stop, thread)) }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            let _ = thread.join();
        }
    }
}

fn line(replayed: u64, entries: u64) -> String {
    const WIDTH: u64 = 20;
    if entries == 0 {
        return "reading the command log".to_string();
    }
    let filled = (replayed.min(entries) * WIDTH / entries) as usize;
    let bar = "#".repeat(filled) + &"-".repeat(WIDTH as usize - filled);
    format!("[{bar}] {} of {} entries replayed", grouped(replayed), grouped(entries))
}

/// What was brought back, in a line.
pub fn describe(summary: &RecoverySummary) -> String {
    let load_us = summary.snapshot.as_ref().map_or(0, |snapshot| snapshot.load_us);
    let seconds = (summary.survey_us + load_us + summary.replay_us) as f64 / 1e6;
    let snapshot = summary.snapshot.as_ref().map_or("no snapshot".to_string(), |snapshot| {
        format!("snapshot {} with {} rows", snapshot.nonce, grouped(snapshot.rows))
    });
    let mut text = format!(
        "recovered in {seconds:.1} s: {snapshot}, {} log entries replayed, {} changes of the \
         catalog among them",
        grouped(summary.replayed),
        grouped(summary.schema_changes)
    );
    if summary.left_out > 0 {
        let left_out = grouped(summary.left_out);
        text.push_str(&format!("; {left_out} of what was not committed left out"));
    }
    if let Some(torn) = &summary.torn {
        let (file, offset) = (&torn.file, torn.offset);
        text.push_str(&format!("; unfinished end cut off at byte {offset} of {file}"));
    }
    for problem in &summary.passed_over {
        text.push_str(&format!("\nlockstep: a newer snapshot was not used: {problem}"));
    }
    text
}

/// The same for programs.
pub fn as_json(summary: &RecoverySummary) -> Value {
    let torn = summary.torn.as_ref();
    let snapshot = summary.snapshot.as_ref();
    json!({
        "recovery": {
            "snapshot": snapshot.map(|snapshot| json!({
                "nonce": snapshot.nonce,
                "rows": snapshot.rows,
                "bytes": snapshot.bytes,
                "load_us": snapshot.load_us,
            })),
            "passed_over": summary.passed_over,
            "log_entries": summary.entries,
            "replayed": summary.replayed,
            "schema_changes": summary.schema_changes,
            "left_out": summary.left_out,
            "torn": torn.map(|torn| json!({ "file": torn.file, "offset": torn.offset })),
            "survey_us": summary.survey_us,
            "replay_us": summary.replay_us,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_node::recovery::SnapshotSummary;

    #[test]
    fn the_line_says_how_far_and_the_summary_what_was_done() {
        assert_eq!(line(0, 0), "reading the command log");
        assert_eq!(line(500, 2_000), "[#####---------------] 500 of 2 000 entries replayed");
        let mut summary = RecoverySummary {
            snapshot: None,
            passed_over: Vec::new(),
            entries: 2_000,
            log_bytes: 0,
            replayed: 1_990,
            schema_changes: 3,
            left_out: 10,
            torn: None,
            survey_us: 100_000,
            replay_us: 400_000,
        };
        assert_eq!(
            describe(&summary),
            "recovered in 0.5 s: no snapshot, 1 990 log entries replayed, 3 changes of the \
             catalog among them; 10 of what was not committed left out"
        );
        assert_eq!(as_json(&summary)["recovery"]["replayed"], 1_990);
        assert!(as_json(&summary)["recovery"]["snapshot"].is_null());
        let (nonce, rows) = ("AUTOSNAP1".to_string(), 12_345);
        summary.snapshot = Some(SnapshotSummary { nonce, rows, bytes: 9, load_us: 1_500_000 });
        summary.passed_over.push("file, byte 7: damaged".to_string());
        assert_eq!(
            describe(&summary),
            "recovered in 2.0 s: snapshot AUTOSNAP1 with 12 345 rows, 1 990 log entries replayed, \
             3 changes of the catalog among them; 10 of what was not committed left out\n\
             lockstep: a newer snapshot was not used: file, byte 7: damaged"
        );
        assert_eq!(as_json(&summary)["recovery"]["snapshot"]["rows"], 12_345);
    }
}
