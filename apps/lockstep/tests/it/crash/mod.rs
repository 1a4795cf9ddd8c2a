//! The real process under load, killed without warning and started again: everything that was
//! answered is there once, no half of a transaction is, and what belongs together agrees.
//! Snapshots are taken meanwhile, the log after them is given up, the schema changes, and some
//! hosts are killed while they come back.
//!
//! The same with power cuts: what a host did not sync is lost, torn or there, as chance has it.
//!
//! `CRASH_ROUNDS` and `POWER_ROUNDS` say how often, `CRASH_SEED` with which random numbers.

pub mod client;
pub mod java;
mod operator;
pub mod power;
pub mod workload;

use super::cluster::signal;
use super::process::Host;
use super::{lockstep, text};
use lockstep_base::random::SeededRandom;
use operator::Operator;
use power::Power;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use workload::{SITES, Workload};

/// A host that answers so few calls for so long is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long the load of a long round goes on: longer than snapshots by the clock are apart.
const LONG_ROUND: Duration = Duration::from_millis(2_500);

/// What happened, for the report.
#[derive(Default)]
struct Tally {
    rounds: u64,
    killed_in_recovery: u64,
    killed_in_snapshot: u64,
    recovered_twice: u64,
    from_snapshot: u64,
}

/// A directory, its clients, and the chance that decides what happens to them.
struct Ordeal {
    directory: PathBuf,
    workload: Workload,
    operator: Operator,
    random: SeededRandom,
    /// If the power fails with every kill.
    power: Option<Power>,
    /// What else the command line says.
    arguments: &'static [&'static str],
    /// How long the last start took.
    start_time: Duration,
    tally: Tally,
}

impl Ordeal {
    fn new(name: &str, seed: u64) -> Ordeal {
        let directory = new_directory(name);
        Ordeal {
            workload: Workload::new(),
            operator: Operator::new(&directory),
            random: SeededRandom::new(seed),
            power: None,
            arguments: &[],
            start_time: Duration::from_millis(100),
            tally: Tally::default(),
            directory,
        }
    }

    /// Other options every time: short segments, and snapshots by the clock and by the log.
    fn options(&mut self) -> Vec<String> {
        let segment_bytes = 65_536 << self.random.below(5);
        let kept = 1 + self.random.below(3);
        let interval_s = self.random.below(3);
        vec![
            format!("log_segment_bytes={segment_bytes}"),
            format!("snapshots_kept={kept}"),
            format!("snapshot_interval_s={interval_s}"),
            format!("snapshot_log_bytes={}", 65_536 << self.random.below(6)),
        ]
    }

    fn spawn(&self, options: &[String]) -> Host {
        let mut command = Host::command(&self.directory, options);
        command.args(self.arguments);
        if let Some(power) = &self.power {
            power.follow(&mut command);
        }
        Host::run(&mut command)
    }

    fn kill(&mut self, host: &mut Host) {
        host.kill();
        if let Some(power) = &mut self.power {
            power.cut(&mut self.random);
        }
    }

    /// Starts a host, which may be killed a few times before it is ready.
    fn start(&mut self) -> Host {
        let options = self.options();
        while self.random.below(3) == 0 {
            let begun = Instant::now();
            let mut host = self.spawn(&options);
            let patience = self.start_time.mul_f64(self.random.below(1_000) as f64 / 900.0);
            std::thread::sleep(patience.saturating_sub(begun.elapsed()));
            self.kill(&mut host);
            self.tally.killed_in_recovery += 1;
        }
        let begun = Instant::now();
        let host = self.spawn(&options).ready();
        self.start_time = begun.elapsed();
        self.tally.from_snapshot += u64::from(host.said.contains("snapshot "));
        host
    }

    /// One round: start, look, now and then start and look again, load, kill.
    fn round(&mut self) {
        let mut host = self.start();
        if self.tally.rounds == 0 {
            self.workload.prepare(&mut host.connect());
            if let Some(power) = &self.power {
                let begun = Instant::now();
                // Tasks run and snapshots are taken meanwhile: it stands still to be looked at.
                let is_followed = || {
                    signal(&host, "-STOP");
                    let is_followed = power.is_followed();
                    signal(&host, "-CONT");
                    is_followed
                };
                while !is_followed() {
                    assert!(begun.elapsed() < PATIENCE, "a change of the disk was not noted");
                }
            }
        }
        self.workload.check(&mut host.connect());
        if self.random.below(4) == 0 {
            self.kill(&mut host);
            host = self.start();
            self.workload.check(&mut host.connect());
            self.tally.recovered_twice += 1;
        }
        let calls = 1 + self.random.below(3_000) as i64;
        let is_long = self.tally.rounds % 8 == 2;
        let load_time = if is_long { LONG_ROUND } else { Duration::ZERO };
        let operator = (self.random.below(3) > 0).then_some(&self.operator);
        load_and_kill(&self.workload, operator, &mut host, calls, load_time);
        self.tally.rounds += 1;
        self.tally.killed_in_snapshot += u64::from(has_unfinished_snapshot(&self.directory));
        if let Some(power) = &mut self.power {
            power.cut(&mut self.random);
        }
    }

    /// Removes what is on the disk.
    fn clear(&self) {
        self.operator.clear();
        self.power.iter().for_each(Power::clear);
        std::fs::remove_dir_all(&self.directory).expect("the directory is ours");
    }

    /// The last look: at the database, and at every byte of the files.
    fn end(&mut self) {
        let host = self.start();
        self.workload.check(&mut host.connect());
        drop(host);
        let shown = self.directory.to_str().expect("a path of text");
        let log = lockstep(&["log", "inspect", shown], "");
        assert!(log.status.success(), "{}", text(&log.stdout) + &text(&log.stderr));
        let snapshots = text(&lockstep(&["snapshot", "inspect", shown], "").stdout);
        // Those that a kill interrupted are no snapshots.
        let mut damaged = snapshots.lines().filter(|line| line.contains("damaged"));
        assert!(damaged.all(|line| line.contains("it has no manifest")), "{snapshots}");
        for client in self.workload.all() {
            println!("{}: {} answered", client.what, client.answered());
        }
        let Tally { rounds, killed_in_recovery, killed_in_snapshot, .. } = self.tally;
        println!(
            "{rounds} rounds of kill -9 under load ({killed_in_snapshot} of them within a \
             snapshot), {killed_in_recovery} more while the host came back, {} second recoveries \
             compared, {} starts from a snapshot, {} snapshots on demand: {} answered calls \
             checked, 0 lost",
            self.tally.recovered_twice,
            self.tally.from_snapshot,
            self.operator.saved(),
            self.workload.answered()
        );
        if let Some(Power { tally, .. }) = &self.power {
            println!(
                "{} power cuts beneath the host, {} operations of its disk noted, {} sectors and \
                 names that were not synced, {} of them lost",
                tally.cuts, tally.notes, tally.unsynced, tally.lost
            );
        }
        self.clear();
    }
}

/// Loads the host until N more calls are answered, for that long at least, and kills it.
fn load_and_kill(
    workload: &Workload,
    operator: Option<&Operator>,
    host: &mut Host,
    calls: i64,
    load_time: Duration,
) {
    let (enough, begun) = (workload.answered() + calls, Instant::now());
    load_while(workload, operator, host, |_| {
        workload.answered() < enough || begun.elapsed() < load_time
    });
}

/// Loads the host while that is wanted, and kills it.
pub fn load_while(
    workload: &Workload,
    operator: Option<&Operator>,
    host: &mut Host,
    mut wanted: impl FnMut(&Host) -> bool,
) {
    let ended = AtomicUsize::new(0);
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for client in workload.all() {
            let (connection, ended) = (host.connect(), &ended);
            scope.spawn(move || {
                let _ended = CountedAtEnd(ended);
                client.run(connection);
            });
        }
        if let Some(operator) = operator {
            let (connection, ended) = (host.connect(), &ended);
            scope.spawn(move || {
                let _ended = CountedAtEnd(ended);
                operator.run(connection);
            });
        }
        while wanted(host) && ended.load(Ordering::SeqCst) == 0 && begun.elapsed() < PATIENCE {
            std::thread::yield_now();
        }
        let early = ended.load(Ordering::SeqCst);
        host.kill();
        assert_eq!(early, 0, "clients ended before the host was killed");
    });
    assert!(begun.elapsed() < PATIENCE, "the host is stuck");
}

/// Counts a client that has ended, in whatever way.
struct CountedAtEnd<'a>(&'a AtomicUsize);

impl Drop for CountedAtEnd<'_> {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Whether there are files of a snapshot that has no manifest.
fn has_unfinished_snapshot(directory: &Path) -> bool {
    let entries = std::fs::read_dir(directory.join("snapshots")).expect("a folder");
    let names: Vec<String> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    let nonce = |name: &String| name.split('-').next().map(str::to_string);
    let newest = names.iter().filter(|name| name.ends_with(".rows")).max_by_key(|name| {
        let path = directory.join("snapshots").join(name);
        std::fs::metadata(path).and_then(|facts| facts.modified()).ok()
    });
    newest.is_some_and(|newest| {
        !names.iter().any(|name| name.ends_with(".manifest") && nonce(name) == nonce(newest))
    })
}

pub fn new_directory(name: &str) -> PathBuf {
    let name = format!("lockstep-{name}-{}", std::process::id());
    let directory = std::env::temp_dir().join(name);
    let _ = std::fs::remove_dir_all(&directory);
    let shown = directory.to_str().expect("a path of text");
    let made = lockstep(&["init", "--dir", shown, "--sites", &SITES.to_string()], "");
    assert!(made.status.success(), "{}", text(&made.stderr));
    directory
}

pub(crate) fn from_environment(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(number) => number.parse().expect("it is a number"),
        Err(_) => default,
    }
}

#[test]
fn whatever_was_answered_is_there_after_kill_9() {
    let rounds = from_environment("CRASH_ROUNDS", 3);
    let mut ordeal = Ordeal::new("crash", from_environment("CRASH_SEED", 1));
    for _ in 0..rounds {
        ordeal.round();
    }
    ordeal.end();
}

#[test]
fn whatever_was_answered_is_there_after_power_cuts_beneath_the_binary() {
    let rounds = from_environment("POWER_ROUNDS", 3);
    let mut ordeal = Ordeal::new("power", from_environment("CRASH_SEED", 1));
    ordeal.power = Some(Power::new(&ordeal.directory));
    for _ in 0..rounds {
        ordeal.round();
    }
    ordeal.end();
}

#[test]
fn java_calls_that_were_answered_are_there_after_kill_9() {
    let mut ordeal = Ordeal::new("crash-java", from_environment("CRASH_SEED", 1));
    let Some(jar) = java::jar(&ordeal.directory.with_extension("java")) else {
        println!("skipped: no JDK");
        return ordeal.clear();
    };
    ordeal.workload = Workload::with_java(jar);
    for _ in 0..from_environment("JAVA_ROUNDS", 2) {
        ordeal.round();
    }
    ordeal.end();
}

/// The proof that the test before sees what it is for.
#[test]
fn a_host_that_does_not_wait_for_its_disk_is_found_out() {
    let mut ordeal = Ordeal::new("found-out", 1);
    ordeal.power = Some(Power::new(&ordeal.directory));
    ordeal.arguments = &["--durability", "async", "--option", "log_interval_ms=60000"];
    let rounds = std::panic::AssertUnwindSafe(|| (0..10).for_each(|_| ordeal.round()));
    let failed = std::panic::catch_unwind(rounds).expect_err("answers were lost, unseen");
    let said = failed.downcast_ref::<String>().expect("a text");
    let words = ["calls were answered and", "object not found"];
    assert!(words.iter().any(|words| said.contains(words)), "{said}");
    ordeal.clear();
}
