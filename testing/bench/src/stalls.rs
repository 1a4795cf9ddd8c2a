//! Tells a server's slowness from the machine's: when the machine took a core away, and which
//! calls that cannot but have delayed.
//!
//! A latency percentile of a server cannot be better than the machine below it: the host of a
//! virtual machine stops a core for milliseconds. While a load goes on, a *ticker* of real-time
//! priority on the same core wakes every [`TICK`]. No program of ordinary priority can delay it,
//! neither the server nor the load, however busy they are; so when it is late, the machine was
//! stalled. Calls that were due around such a time are set aside, and no others: a server that is
//! slow by itself delays no ticker, and its slow calls stay ([`disturbances`], [`undisturbed`]).

use clap::{Arg, ArgMatches, value_parser};
use serde_json::{Value, json};
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How often a ticker wakes: it takes two hundredths of its core, which a server at half of its
/// peak can spare.
pub const TICK: Duration = Duration::from_micros(500);
/// How late it is when that counts as a stall: far above what an interrupt takes, far below what
/// a percentile in milliseconds is made of.
pub const LATE: Duration = Duration::from_micros(150);
/// Calls are set aside this long before a stall, for they were in flight when it began (and it
/// began up to a tick before it was noticed), and this long after its backlog.
pub const MARGIN_US: u64 = 800;
/// The least share of calls that must be left for their percentile to count.
pub const LEAST_SHARE_LEFT: f64 = 0.5;

/// A span of time, in microseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// Its begin.
    pub from_us: u64,
    /// Its end.
    pub to_us: u64,
}

/// A call of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimedCall {
    /// When it was due, in microseconds since 1970.
    pub due_us: u64,
    /// From then to its answer.
    pub latency_us: u32,
}

/// What the machine did to a run, and what is left without it.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Undisturbed {
    /// The 99th percentile of the calls that are left, in microseconds.
    pub p99_us: f64,
    /// Calls that were set aside, of all, from 0 to 1.
    pub set_aside: f64,
    /// Stalled time of all time, from 0 to 1.
    pub stalled: f64,
    /// Stalled time in microseconds.
    pub stalled_us: f64,
    /// The longest stall, in microseconds.
    pub longest_us: f64,
}

impl Undisturbed {
    /// Whether enough calls are left for the percentile to count.
    pub fn counts(&self) -> bool {
        1.0 - self.set_aside >= LEAST_SHARE_LEFT
    }

    /// All of it.
    pub fn json(&self) -> Value {
        json!({
            "p99_us": self.p99_us, "counts": self.counts(), "set_aside": self.set_aside,
            "stalled": self.stalled, "stalled_us": self.stalled_us,
            "longest_stall_us": self.longest_us,
        })
    }
}

/// Microseconds since 1970: the clock that tickers and loads share.
pub fn wall_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// Wakes every [`TICK`] for `duration`; returns when it was late.
pub fn tick(duration: Duration) -> Vec<Span> {
    let (start, start_us) = (Instant::now(), wall_us());
    let wall = |instant: Instant| start_us + (instant - start).as_micros() as u64;
    let (mut stalls, mut due) = (Vec::new(), start + TICK);
    while due - start < duration {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let now = Instant::now();
        if now - due >= LATE {
            stalls.push(Span { from_us: wall(due), to_us: wall(now) });
        }
        due = now + TICK;
    }
    stalls
}

/// The subcommand of a program that measures: [`print_ticks`] runs after it.
pub const TICKER: &str = "ticker";

/// The hidden subcommand that a program starts itself with, as a ticker.
pub fn ticker_command() -> clap::Command {
    let milliseconds = Arg::new("milliseconds").required(true).value_parser(value_parser!(u64));
    clap::Command::new(TICKER).hide(true).arg(milliseconds)
}

/// The process of a ticker: prints each stall's begin and end.
pub fn print_ticks(arguments: &ArgMatches) {
    let milliseconds = arguments.get_one::<u64>("milliseconds").copied().unwrap_or(1000);
    for stall in tick(Duration::from_millis(milliseconds)) {
        println!("{} {}", stall.from_us, stall.to_us);
    }
}

/// Tickers beside a load, one on each core that has a part in it.
pub struct Watch {
    tickers: io::Result<Vec<Ticker>>,
}

impl Watch {
    /// Starts them, for so long. `program` has the subcommand [`TICKER`].
    pub fn begin(cores: &[usize], program: &Path, duration: Duration) -> Watch {
        let arguments = [TICKER, &duration.as_millis().to_string()];
        let mut cores = cores.to_vec();
        cores.dedup();
        let start = |core| Ticker::start(core, program, &arguments);
        Watch { tickers: cores.into_iter().map(start).collect() }
    }

    /// Waits for their end, and sets aside what the machine disturbed of the calls of an open loop
    /// whose measured time was so long. `None`, with a word on stderr, where nobody can tell; or
    /// without calls.
    pub fn end(self, calls: &[TimedCall], load: f64, duration: Duration) -> Option<Undisturbed> {
        let finished = self.tickers.and_then(|tickers| {
            tickers.into_iter().map(Ticker::finish).collect::<io::Result<Vec<Vec<Span>>>>()
        });
        let mut stalls = match finished {
            Ok(stalls) => stalls.concat(),
            Err(error) => {
                eprintln!("  no ticker of real-time priority ({error}): nothing is set aside");
                return None;
            }
        };
        let from_us = calls.iter().map(|call| call.due_us).min()?;
        let to_us = from_us + duration.as_micros() as u64;
        stalls.retain(|stall| stall.to_us >= from_us && stall.from_us <= to_us);
        Some(undisturbed(calls, &stalls, load, duration))
    }
}

/// The percentile that counts: of the calls that the machine did not disturb, where enough are
/// left, else of all.
pub fn judged_p99_us(of_all_us: f64, undisturbed: Option<&Undisturbed>) -> f64 {
    undisturbed.filter(|left| left.counts()).map_or(of_all_us, |left| left.p99_us)
}

/// A ticker in a process of its own, with real-time priority on one core.
pub struct Ticker {
    child: Child,
}

impl Ticker {
    /// Starts `program` with `arguments`, which are to run [`tick`] and to print each stall's
    /// begin and end on a line.
    ///
    /// # Errors
    /// `chrt` or `taskset` is missing.
    pub fn start(core: usize, program: &Path, arguments: &[&str]) -> io::Result<Ticker> {
        let child = Command::new("chrt")
            .args(["--fifo", "10", "taskset", "-c", &core.to_string()])
            .arg(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        Ok(Ticker { child })
    }

    /// Waits for its end; when it was late.
    ///
    /// # Errors
    /// It was not allowed to run with real-time priority, or failed.
    pub fn finish(mut self) -> io::Result<Vec<Span>> {
        let (mut text, mut reason) = (String::new(), String::new());
        if let Some(output) = &mut self.child.stdout {
            output.read_to_string(&mut text)?;
        }
        if let Some(output) = &mut self.child.stderr {
            output.read_to_string(&mut reason)?;
        }
        if !self.child.wait()?.success() {
            return Err(io::Error::other(reason.trim().to_string()));
        }
        let span = |line: &str| {
            let (from, to) = line.split_once(' ')?;
            Some(Span { from_us: from.parse().ok()?, to_us: to.parse().ok()? })
        };
        let spans: Option<Vec<Span>> = text.lines().map(span).collect();
        spans.ok_or_else(|| io::Error::other("the ticker printed something else"))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        // It has ended, unless the run failed; either way it is waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The spans that stalls disturb, in order: each stall, then the time to work off what became due
/// in it by a server that is busy `load` of its time (from 0 to below 1), with [`MARGIN_US`] on
/// either side. A stall within the backlog of another adds its own.
pub fn disturbances(stalls: &[Span], load: f64) -> Vec<Span> {
    assert!((0.0..1.0).contains(&load), "a server that is busy all the time works nothing off");
    let behind = load / (1.0 - load);
    let mut disturbed: Vec<Span> = Vec::new();
    let mut backlog_to_us = 0;
    for stall in united(stalls) {
        let stalled_us = stall.to_us - stall.from_us;
        let left_us = stall.from_us.max(backlog_to_us) - stall.from_us;
        backlog_to_us = stall.to_us + left_us + (stalled_us as f64 * behind) as u64;
        let span = Span {
            from_us: stall.from_us.saturating_sub(MARGIN_US),
            to_us: backlog_to_us + MARGIN_US,
        };
        match disturbed.last_mut() {
            Some(last) if span.from_us <= last.to_us => last.to_us = span.to_us.max(last.to_us),
            _ => disturbed.push(span),
        }
    }
    disturbed
}

/// Spans in order, those that overlap made one.
fn united(spans: &[Span]) -> Vec<Span> {
    let mut spans = spans.to_vec();
    spans.sort_by_key(|span| (span.from_us, span.to_us));
    let mut united: Vec<Span> = Vec::new();
    for span in spans {
        match united.last_mut() {
            Some(last) if span.from_us <= last.to_us => last.to_us = last.to_us.max(span.to_us),
            _ => united.push(span),
        }
    }
    united
}

/// What the machine did to a run of this length, given the stalls of its cores, and the
/// percentile of the calls that were due when nothing disturbed them.
pub fn undisturbed(
    calls: &[TimedCall],
    stalls: &[Span],
    load: f64,
    duration: Duration,
) -> Undisturbed {
    let disturbed = disturbances(stalls, load);
    let is_disturbed = |call: &&TimedCall| {
        let behind = disturbed.partition_point(|span| span.to_us < call.due_us);
        disturbed.get(behind).is_some_and(|span| span.from_us <= call.due_us)
    };
    let mut left: Vec<u32> = Vec::with_capacity(calls.len());
    left.extend(calls.iter().filter(|call| !is_disturbed(call)).map(|call| call.latency_us));
    left.sort_unstable();
    let lengths = united(stalls).into_iter().map(|span| span.to_us - span.from_us);
    let stalled_us = lengths.clone().sum::<u64>() as f64;
    Undisturbed {
        p99_us: percentile(&left, 0.99),
        set_aside: 1.0 - left.len() as f64 / calls.len().max(1) as f64,
        stalled: stalled_us / 1e6 / duration.as_secs_f64().max(1e-9),
        stalled_us,
        longest_us: lengths.max().unwrap_or(0) as f64,
    }
}

/// The least value that this share of the sorted values does not exceed; 0 of none.
fn percentile(sorted: &[u32], share: f64) -> f64 {
    let place = ((sorted.len() as f64 * share).ceil() as usize).clamp(1, sorted.len().max(1));
    sorted.get(place - 1).map_or(0.0, |value| f64::from(*value))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START_US: u64 = 1_700_000_000_000_000;

    fn span(from_us: u64, to_us: u64) -> Span {
        Span { from_us: START_US + from_us, to_us: START_US + to_us }
    }

    /// A second of calls, one every 100 us, at a server that answers in 100 us, does nothing
    /// during the given spans, and has half of its time to spare.
    fn calls(pauses: &[Span]) -> Vec<TimedCall> {
        let mut free_us = 0;
        let call = |number: u64| {
            let due_us = START_US + number * 100;
            let mut begin_us = due_us.max(free_us);
            for pause in pauses {
                if (pause.from_us..pause.to_us).contains(&begin_us) {
                    begin_us = pause.to_us;
                }
            }
            free_us = begin_us + 50;
            TimedCall { due_us, latency_us: (begin_us + 100 - due_us) as u32 }
        };
        (0..10_000).map(call).collect()
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn calls_that_the_machine_delayed_are_set_aside() {
        let stalls = [span(100_000, 110_000), span(500_000, 520_000)];
        let calls = calls(&stalls);
        let nothing = undisturbed(&calls, &[], 0.5, SECOND);
        assert!(nothing.p99_us > 10_000.0, "{nothing:?}");
        let run = undisturbed(&calls, &stalls, 0.5, SECOND);
        assert_eq!(run.p99_us, 100.0);
        // Twice the stalls, and the margins.
        let aside = (60_000.0 + 4.0 * MARGIN_US as f64) / 1e6;
        assert!((run.set_aside - aside).abs() < 0.001, "{run:?}");
        assert!(run.counts());
        assert_eq!((run.stalled_us, run.longest_us), (30_000.0, 20_000.0));
        assert!((run.stalled - 0.03).abs() < 1e-9);
    }

    #[test]
    fn a_server_that_is_slow_by_itself_is_not_excused() {
        // It pauses 5 ms in every 100 ms; the machine stalls 1 ms at other times.
        let own: Vec<Span> =
            (0..10).map(|n| span(n * 100_000 + 20_000, n * 100_000 + 25_000)).collect();
        let stalls: Vec<Span> =
            (0..10).map(|n| span(n * 100_000 + 70_000, n * 100_000 + 71_000)).collect();
        let all: Vec<Span> = own.iter().chain(&stalls).copied().collect();
        let run = undisturbed(&calls(&all), &stalls, 0.5, SECOND);
        assert!(run.p99_us > 4_000.0, "{run:?}");
        assert!(run.set_aside < 0.04, "{run:?}");
    }

    fn with_margins(from_us: u64, to_us: u64) -> Span {
        span(from_us - MARGIN_US, to_us + MARGIN_US)
    }

    #[test]
    fn a_stall_within_a_backlog_adds_its_own() {
        let spans = disturbances(&[span(10_000, 20_000), span(25_000, 26_000)], 0.5);
        // The first is worked off at 30 000; 5 000 of that are left when the second begins.
        assert_eq!(spans, [with_margins(10_000, 32_000)]);
        let apart = disturbances(&[span(50_000, 51_000), span(10_000, 11_000)], 0.75);
        assert_eq!(apart, [with_margins(10_000, 14_000), with_margins(50_000, 54_000)]);
        let both_cores = disturbances(&[span(10_000, 12_000), span(11_000, 12_000)], 0.5);
        assert_eq!(both_cores, [with_margins(10_000, 14_000)]);
    }

    #[test]
    fn too_few_calls_left_do_not_count() {
        let stalls = [span(0, 300_000)];
        let run = undisturbed(&calls(&stalls), &stalls, 0.5, SECOND);
        assert!(!run.counts(), "{run:?}");
        assert_eq!(undisturbed(&[], &[], 0.5, SECOND).p99_us, 0.0);
    }

    #[test]
    fn what_is_left_counts_where_enough_is_left() {
        let left = |set_aside| Undisturbed { p99_us: 1.0, set_aside, ..Undisturbed::default() };
        assert_eq!(judged_p99_us(9.0, Some(&left(0.4))), 1.0);
        assert_eq!(judged_p99_us(9.0, Some(&left(0.6))), 9.0);
        assert_eq!(judged_p99_us(9.0, None), 9.0);
    }

    #[test]
    fn a_ticker_ends_and_states_spans_in_order() {
        let stalls = tick(Duration::from_millis(5));
        let late_us = LATE.as_micros() as u64;
        assert!(stalls.iter().all(|stall| stall.to_us - stall.from_us + 1 >= late_us));
        assert!(stalls.is_sorted_by_key(|stall| stall.from_us));
    }
}
