//! How far a load or an export is: one line on a terminal, nothing elsewhere.

use lockstep_bench::report::grouped;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Between two changes of the line.
const INTERVAL: Duration = Duration::from_millis(200);

/// The line.
pub struct Progress {
    shown: bool,
    start: Instant,
    last: Instant,
    last_rows: u64,
    rate_per_s: f64,
    /// Bytes of the whole input, if known.
    total_bytes: Option<u64>,
}

impl Progress {
    /// A line that begins now.
    pub fn new(total_bytes: Option<u64>) -> Progress {
        let now = Instant::now();
        Progress {
            shown: std::io::stderr().is_terminal(),
            start: now,
            last: now,
            last_rows: 0,
            rate_per_s: 0.0,
            total_bytes,
        }
    }

    /// Since the beginning.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Shows the state, if the last time is long enough ago.
    pub fn update(&mut self, rows: u64, bytes: u64, refused: u64) {
        let since = self.last.elapsed();
        if !self.shown || since < INTERVAL {
            return;
        }
        self.rate_per_s = (rows - self.last_rows) as f64 / since.as_secs_f64();
        (self.last, self.last_rows) = (Instant::now(), rows);
        let line = line(rows, self.rate_per_s, bytes, self.total_bytes, self.elapsed(), refused);
        // Progress that cannot be shown is no reason to stop.
        let _ = write!(std::io::stderr(), "\r\x1b[K{line}");
    }

    /// Takes the line away, for other output.
    pub fn clear(&self) {
        if self.shown {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn line(
    rows: u64,
    rate_per_s: f64,
    bytes: u64,
    total_bytes: Option<u64>,
    elapsed: Duration,
    refused: u64,
) -> String {
    const WIDTH: usize = 20;
    let mut text = String::new();
    let share = total_bytes.map(|total| (bytes as f64 / total.max(1) as f64).min(1.0));
    if let Some(share) = share {
        let filled = (share * WIDTH as f64) as usize;
        let bar = "#".repeat(filled) + &"-".repeat(WIDTH - filled);
        text.push_str(&format!("[{bar}] {:>3.0} %  ", share * 100.0));
    }
    text.push_str(&format!("{} rows  {}/s", grouped(rows), grouped(rate_per_s as u64)));
    if let Some(share) = share.filter(|share| *share > 0.0) {
        let left = elapsed.as_secs_f64() * (1.0 - share) / share;
        text.push_str(&format!("  {left:.0} s left"));
    }
    if refused > 0 {
        text.push_str(&format!("  {} refused", grouped(refused)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_how_far_and_how_long() {
        let elapsed = Duration::from_secs(6);
        assert_eq!(
            line(1_234_567, 650_000.0, 60, Some(80), elapsed, 3),
            "[###############-----]  75 %  1 234 567 rows  650 000/s  2 s left  3 refused"
        );
        assert_eq!(line(5, 1.0, 60, None, elapsed, 0), "5 rows  1/s");
        assert!(line(0, 0.0, 0, Some(0), elapsed, 0).starts_with("[-"));
    }
}
