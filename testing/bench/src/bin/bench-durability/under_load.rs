//! Voter while one snapshot after the other is taken: throughput against that without, and the
//! 99th percentile of latency at half of the peak.
//!
//! The site has a core to itself, of which no ordinary program takes anything, and so has the
//! load of the open loop: what both share the machine with, the system's own threads above all,
//! takes a core for milliseconds at a time, and that is not what a snapshot does. Everything else
//! of the host finds its time where the two leave some.

use crate::host::{self, Cores, Host, HostOptions};
use crate::{Plan, SERVER_CORE, ballast, measure};
use lockstep_bench::process::RealTime;
use lockstep_bench::program::load_core;
use lockstep_bench::stalls::{Undisturbed, Watch, judged_p99_us};
use lockstep_bench::voter::{self, Form, VoterLoad};
use lockstep_workloads::voter::CONTESTANTS;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The load of the open loop, of the peak without a snapshot.
const OPEN_LOAD: f64 = 0.5;
/// Memory for the votes of a repeat, for each millisecond of its measured times, taken before the
/// host serves: no call is to wait for a page that nobody has touched yet, while it is to be seen
/// what snapshots make calls wait for.
const VOTES_BYTES_PER_MS: u64 = 550_000;
/// What a stall of the machine left is worked off in the time that the host has to spare,
/// as measured; it is taken to be at most this busy.
const MOST_BUSY: f64 = 0.9;
/// After a snapshot, whose end gives up files of the log: a disk has that much to do with them.
const REST: Duration = Duration::from_secs(2);
/// A ticker goes on this long after a run, which takes a while to begin and to end.
const TICKER_SPARE: Duration = Duration::from_millis(300);

/// What one repeat came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnderLoad {
    /// Calls per second without a snapshot: the mean of before and after, for the more votes
    /// there are the longer one takes.
    pub without_per_s: f64,
    /// Calls per second while snapshots are taken.
    pub with_per_s: f64,
    /// How much of that time a snapshot was taken, from 0 to 1.
    pub share: f64,
    /// Bytes of snapshots written per second of that time.
    pub snapshot_per_s: f64,
    /// At half of the peak without a snapshot, the percentile in microseconds.
    pub p99_without_us: f64,
    /// Calls per second of that open loop.
    pub open_per_s: f64,
    /// How much of its core the host used in that open loop while snapshots were taken.
    pub busy: f64,
    /// The same while snapshots are taken, of all calls.
    pub p99_us: f64,
    /// And what the machine did to that run; `None` where nobody can tell.
    pub undisturbed: Option<Undisturbed>,
}

impl UnderLoad {
    /// The percentile that counts: of the calls that the machine did not disturb, where enough
    /// are left, else of all.
    pub fn judged_p99_us(&self) -> f64 {
        judged_p99_us(self.p99_us, self.undisturbed.as_ref())
    }
}

/// The host's options of these figures.
pub fn options_in_words() -> String {
    let own_core = host::options_of_own_core().join(" ");
    format!(
        "{own_core} --option preallocate_bytes=...; the open loop's load with real-time \
         priority {}",
        host::PRIORITY
    )
}

/// Measures all repeats on one host, with and without in turns.
///
/// # Errors
/// A host does not start, a snapshot fails, or votes are lost.
pub fn measure(plan: &Plan) -> Result<Vec<UnderLoad>, String> {
    let directory = plan.folder.join("under-load");
    host::init(plan, &directory, 1)?;
    // The snapshots are those that are asked for, one after the other.
    let pinned = HostOptions::pinned(Some(&directory));
    let votes_bytes = plan.duration.as_millis() as u64 * VOTES_BYTES_PER_MS;
    let ahead_bytes = 2 * plan.snapshot_bytes + u64::from(plan.repeats) * votes_bytes;
    let cores = Cores::SiteOnServers;
    let options = HostOptions { schedule: false, ahead_bytes, cores, ..pinned };
    let host = Host::start_with(plan, &options)?;
    let mut connection = host.connect()?;
    ballast::fill(&mut connection, &host.address(), plan.snapshot_bytes)?;
    voter::set_up(&mut connection, Form::Native).map_err(|error| error.to_string())?;
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let mut samples = Vec::new();
    for repeat in 1..=plan.repeats {
        let sample = measure_once(plan, &host, &host::snapshots(&directory), &mut load)?;
        eprintln!(
            "repeat {repeat}: voter, no snapshot {:.0}/s, snapshots {:.0}/s ({:.0} % of the time, \
             {:.0} MB/s), at {:.0}/s p99 {:.0} us, \
             of all calls {:.0} us, {:.0} % busy, without a snapshot {:.0} us",
            sample.without_per_s,
            sample.with_per_s,
            sample.share * 100.0,
            sample.snapshot_per_s / 1e6,
            sample.open_per_s,
            sample.judged_p99_us(),
            sample.p99_us,
            sample.busy * 100.0,
            sample.p99_without_us
        );
        samples.push(sample);
    }
    let votes = voter::vote_count(&mut connection).map_err(|error| error.to_string())?;
    if votes != load.accepted {
        return Err(format!("{votes} votes in the table, {} accepted", load.accepted));
    }
    drop((connection, host));
    host::remove(&directory)?;
    Ok(samples)
}

/// One repeat.
fn measure_once(
    plan: &Plan,
    host: &Host,
    folder: &Path,
    load: &mut VoterLoad,
) -> Result<UnderLoad, String> {
    let before = drive(plan, host, None, load)?;
    let snapshots = Snapshots::begin(host, folder.to_path_buf())?;
    let with = drive(plan, host, None, load)?;
    let taken = snapshots.end()?;
    let behind = drive(plan, host, None, load)?;
    let without_per_s = (before.throughput_per_s + behind.throughput_per_s) / 2.0;
    let open_per_s = without_per_s * OPEN_LOAD;
    let calm = drive(plan, host, Some(open_per_s), load)?;
    let snapshots = Snapshots::begin(host, folder.to_path_buf())?;
    let open = drive(plan, host, Some(open_per_s), load)?;
    snapshots.end()?;
    Ok(UnderLoad {
        without_per_s,
        with_per_s: with.throughput_per_s,
        share: taken.share,
        snapshot_per_s: taken.bytes_per_s,
        open_per_s,
        p99_without_us: calm.judged_p99_us(),
        busy: open.busy,
        p99_us: open.p99_us,
        undisturbed: open.undisturbed,
    })
}

/// What one run of the load came to.
struct Run {
    throughput_per_s: f64,
    p99_us: f64,
    busy: f64,
    undisturbed: Option<Undisturbed>,
}

impl Run {
    fn judged_p99_us(&self) -> f64 {
        judged_p99_us(self.p99_us, self.undisturbed.as_ref())
    }
}

fn drive(plan: &Plan, host: &Host, rate: Option<f64>, load: &mut VoterLoad) -> Result<Run, String> {
    let watch = rate.map(|_| {
        let cores = [SERVER_CORE, load_core(plan.cores)];
        Watch::begin(&cores, &plan.own, plan.warmup + plan.duration + TICKER_SPARE)
    });
    let _priority = rate.map(|_| RealTime::of_this_thread(host::PRIORITY));
    let processor_time = || host.process().cpu_time().map_err(|error| error.to_string());
    let (begun, used) = (Instant::now(), processor_time()?);
    let measured =
        measure::drive_voter(plan, host, (crate::CONNECTIONS, crate::PIPELINE), rate, load)?;
    let used = processor_time()?.saturating_sub(used);
    let busy = used.as_secs_f64() / begun.elapsed().as_secs_f64().max(1e-9);
    let end =
        |watch: Watch| watch.end(&measured.calls, busy.clamp(OPEN_LOAD, MOST_BUSY), plan.duration);
    Ok(Run {
        throughput_per_s: measure::rate_of(&measured),
        p99_us: measured.latency_us.value_at_quantile(0.99) as f64,
        busy,
        undisturbed: watch.and_then(end),
    })
}

/// How much of the time a snapshot was taken, and how fast.
struct Taken {
    share: f64,
    bytes_per_s: f64,
}

/// One snapshot after the other. All stay until the figures are there: to delete a file of a
/// gigabyte keeps some disks, and with them machines, busy for longer than the figures last.
struct Snapshots {
    stopping: Arc<AtomicBool>,
    thread: JoinHandle<Result<Duration, String>>,
    begun: Instant,
    folder: PathBuf,
    /// Of those before.
    bytes_before: u64,
}

impl Snapshots {
    fn begin(host: &Host, folder: PathBuf) -> Result<Snapshots, String> {
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&stopping);
        let bytes_before = bytes_in(&folder);
        let mut connection = host.connect()?;
        let take = move || {
            let mut taking = Duration::ZERO;
            for number in 0.. {
                if stop.load(Ordering::Acquire) {
                    break;
                }
                // No two of a folder have the same bytes before them.
                let nonce = format!("LOAD{bytes_before}x{number}");
                let begun = Instant::now();
                host::save_snapshot(&mut connection, &nonce)?;
                taking += begun.elapsed();
            }
            Ok(taking)
        };
        let thread = std::thread::spawn(take);
        Ok(Snapshots { stopping, thread, begun: Instant::now(), folder, bytes_before })
    }

    /// Waits for the last one, which the host ends without load, and for the disk to be at rest.
    fn end(self) -> Result<Taken, String> {
        let loaded_s = self.begun.elapsed().as_secs_f64().max(1e-9);
        let bytes = bytes_in(&self.folder).saturating_sub(self.bytes_before);
        self.stopping.store(true, Ordering::Release);
        let taking = self.thread.join().map_err(|_| "the thread of snapshots panicked")??;
        let share = taking.as_secs_f64() / self.begun.elapsed().as_secs_f64().max(1e-9);
        std::thread::sleep(REST);
        Ok(Taken { share, bytes_per_s: bytes as f64 / loaded_s })
    }
}

/// Bytes of the files of a folder.
fn bytes_in(folder: &Path) -> u64 {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    files.map(|file| file.metadata().map_or(0, |facts| facts.len())).sum()
}
