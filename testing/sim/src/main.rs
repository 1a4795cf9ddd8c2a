//! Runs seeds: a count of them, or new ones for a time. Prints the first that fails and stops.
//! What it takes, [`USAGE`] says.

#![allow(clippy::disallowed_types, reason = "the time limit of the whole run, not of a simulation")]

use lockstep_sim::StopEverything;
use lockstep_sim::copies::logs;
use lockstep_sim::hosts;
use lockstep_sim::hosts::growth::{self, Costs, Growth, Traffic};
use lockstep_sim::lists::Kind;
use lockstep_sim::power;
use lockstep_sim::timed::{self, Model, Throughput};
use lockstep_sim::world::{BrokenCopies, CopyCounts, Shape};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const USAGE: &str = "\
Usage: lockstep-sim [power|copies|copy-logs|hosts [WORK]] [--seeds N] [--from SEED]
                    [--minutes M] [--calls N]
       lockstep-sim timed
       lockstep-sim scale [N]
       lockstep-sim growth [K N]

Runs seeds of the simulator, and stops at the first that fails.

  power        power cuts alone
  copies       lost and moved leaders and lost coordinators alone
  copy-logs    copies of a partition with command logs, whose power is cut at all hosts, alone
  hosts        several hosts, each with its control plane, that are stopped and cut off, alone;
               WORK is one workload for each seed: bank, lists, reads, aging, tpcc or
               kfactor, which is bank while K changes, or resize, while hosts are added and
               removed
  --seeds N    so many seeds (1000; with --minutes as many as there is time for)
  --from SEED  the first of them (1)
  --minutes M  no new seed after so long
  --calls N    calls of each seed (400)
  timed        compares, on a simulated clock, transfers over two partitions with a host that stops
               everything for each; the transfers are statements, planned on both sides
  scale        prints calls per simulated second over partitions, N (20) of a thousand calls
               transfers, as points for `lockstep bench fit`
  growth       messages between hosts and their bytes for a call, over 1 to 32 hosts, and the calls
               per second with which one of them is busy all the time, by costs that were measured;
               with K and N only the calls per second, N of a thousand calls transfers, as points
";

/// The seed that runs.
static SEED: AtomicU64 = AtomicU64::new(0);
/// How often a terminal is told how far it is.
const SHOW_EVERY: Duration = Duration::from_millis(200);

/// Of the seeds of several hosts, one in as many runs with lists as well.
const LISTS_ONE_IN: u64 = 4;
/// Of the seeds of hosts, one in as many is also run with copies that answer reads.
const READS_ONE_IN: u64 = 3;
/// Of the seeds of hosts, one in as many is also run with rows that go when their time is over.
const AGING_ONE_IN: u64 = 4;
/// Of the seeds of hosts, one in as many is also run with TPC-C.
const TPCC_ONE_IN: u64 = 4;
/// Of the seeds of hosts, one in as many is also run with changes of K.
const KFACTOR_ONE_IN: u64 = 2;
/// Of the seeds of hosts, one in as many is also run with hosts that are added and removed.
const RESIZES_ONE_IN: u64 = 2;

/// A workload of several hosts.
type HostRun = fn(u64, usize, hosts::HostFaults) -> Result<hosts::Report, lockstep_sim::Failure>;

/// The workloads of several hosts. Each runs with the seeds that leave the second number when they
/// are divided by the first.
const HOST_RUNS: [(&str, HostRun, (u64, u64)); 7] = [
    ("bank", hosts::run_seed, (1, 0)),
    // The order of transactions is dear to find.
    ("lists", hosts::run_lists, (LISTS_ONE_IN, 0)),
    ("reads", hosts::run_reads, (READS_ONE_IN, 1)),
    ("aging", hosts::run_aging, (AGING_ONE_IN, 2)),
    ("tpcc", hosts::run_tpcc, (TPCC_ONE_IN, 3)),
    ("kfactor", hosts::run_kfactor, (KFACTOR_ONE_IN, 1)),
    ("resize", hosts::run_resizes, (RESIZES_ONE_IN, 0)),
];
/// The share of transfers, in a thousand calls.
const SHARES_PER_MILLE: [u64; 5] = [0, 10, 100, 500, 1000];

/// Partitions whose throughputs are compared.
const SCALES: [u32; 10] = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32];

/// Calls ended in 200 simulated milliseconds, hops of 50 us, 2 us for each message and call.
fn simulate(
    partitions: u32,
    transfers_per_mille: u64,
    stop_everything: StopEverything,
) -> Throughput {
    simulate_with(16, 200_000_000, partitions, transfers_per_mille, stop_everything)
}

/// The same with N calls in flight for each partition, and so long.
fn simulate_with(
    calls_in_flight: usize,
    measured_ns: u64,
    partitions: u32,
    transfers_per_mille: u64,
    stop_everything: StopEverything,
) -> Throughput {
    let shape = Shape { stop_everything, active_multi: 10_000, ..Shape::of(partitions) };
    let (hop_ns, work_ns) = (50_000, 2_000);
    timed::run(
        1,
        Model { shape, transfers_per_mille, calls_in_flight, hop_ns, work_ns, measured_ns },
    )
}

fn compare() {
    println!("partitions  transfers  calls/s (stop all)     calls/s  ratio  messages a transfer");
    for partitions in [8, 64] {
        for share in SHARES_PER_MILLE {
            let few = simulate(partitions, share, StopEverything::Never);
            let all = simulate(partitions, share, StopEverything::ByFragments);
            let per_second = |throughput: Throughput| throughput.calls() * 5;
            println!(
                "{partitions:10} {:8.0} % {:19} {:11} {:4.1} x {:20.2}",
                share as f64 / 10.0,
                per_second(all),
                per_second(few),
                few.calls() as f64 / all.calls().max(1) as f64,
                few.messages as f64 / few.transfers.max(1) as f64,
            );
        }
    }
}

/// Points of throughput over partitions. Enough calls are in flight that sites are never idle.
fn print_scale(transfers_per_mille: u64) {
    const MEASURED_NS: u64 = 20_000_000;
    println!("partitions,calls per simulated second");
    for partitions in SCALES {
        let ran =
            simulate_with(128, MEASURED_NS, partitions, transfers_per_mille, StopEverything::Never);
        println!("{partitions},{}", ran.calls() * (1_000_000_000 / MEASURED_NS));
    }
}

/// Processor time on two cores of 2.4 GHz: of calls and entries in batches of 32, and of messages
/// that go one by one ([`make bench-cluster`](../../../docs/benchmarks.md)).
const COSTS: Costs = Costs { call_ns: 1_900.0, entry_ns: 1_100.0, message_ns: 4_500.0 };

/// What is counted over numbers of hosts.
fn traffic_of(k: u8, transfers_per_mille: u64) -> impl Iterator<Item = (u32, Traffic)> {
    let hosts = SCALES.into_iter().filter(move |hosts| *hosts > u32::from(k));
    hosts.map(move |hosts| {
        let growth = Growth { hosts, k, calls: 400, transfers_per_mille };
        let traffic = growth::run(1, growth);
        (hosts, traffic.expect("a cluster without faults answers"))
    })
}

fn print_growth() {
    println!(
        "K  transfers  hosts  messages/call  bytes/call  calls/s when one is busy  which  \
         its share of all work"
    );
    for (k, per_mille) in [(0, 0), (1, 0), (0, 20), (1, 20), (0, 1000), (1, 1000)] {
        let (mut messages, mut bytes) = (Vec::new(), Vec::new());
        for (hosts, traffic) in traffic_of(k, per_mille) {
            let (most_per_s, host) = traffic.most_per_s(&COSTS);
            let share = traffic.busy_share(&COSTS, host);
            println!(
                "{k}  {:7.1} %  {hosts:5}  {:13.3}  {:10.1}  {most_per_s:24.0}  {host:5}  \
                 {:19.1} %",
                per_mille as f64 / 10.0,
                traffic.messages_a_call(),
                traffic.bytes_a_call(),
                100.0 * share,
            );
            messages.push((hosts, traffic.messages_a_call()));
            bytes.push((hosts, traffic.bytes_a_call()));
        }
        println!(
            "K = {k}, {per_mille} of 1000 transfers: slope for each host {:+.3} % messages, \
             {:+.3} % bytes\n",
            100.0 * growth::slope_per_host(&messages),
            100.0 * growth::slope_per_host(&bytes),
        );
    }
}

/// A workload that runs alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Alone {
    Power,
    Copies,
    CopyLogs,
    Hosts,
    /// One workload of several hosts, by its place among all.
    HostsWith(usize),
}

/// What to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Given {
    Help,
    Timed,
    Scale { per_mille: u64 },
    Growth(Option<(u8, u64)>),
    Seeds { alone: Option<Alone>, from: u64, seeds: u64, minutes: Option<u64>, calls: usize },
}

/// Reads the arguments; or says which one is wrong.
fn given(arguments: &[String]) -> Result<Given, String> {
    let number = |name: &str, text: Option<&String>| {
        let text = text.ok_or(format!("{name} wants a number"))?;
        text.parse::<u64>().map_err(|_| format!("{name} wants a number, and '{text}' is none"))
    };
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["timed"] => return Ok(Given::Timed),
        ["scale"] => return Ok(Given::Scale { per_mille: 20 }),
        ["scale", _] => {
            let per_mille = number("scale", arguments.get(1))?;
            return Ok(Given::Scale { per_mille });
        }
        ["growth"] => return Ok(Given::Growth(None)),
        ["growth", _, _] => {
            let at_most = |name, place, most| match number("growth", arguments.get(place))? {
                value if value <= most => Ok(value),
                value => Err(format!("growth: {name} is {value}, and {most} at most")),
            };
            let (k, per_mille) = (at_most("K", 1, 2)?, at_most("N", 2, 1000)?);
            return Ok(Given::Growth(Some((k as u8, per_mille))));
        }
        _ if words.iter().any(|word| ["--help", "-h"].contains(word)) => return Ok(Given::Help),
        _ => {}
    }
    let host_run = |word: &str| HOST_RUNS.iter().position(|(name, ..)| *name == word);
    let (alone, taken) = match words[..] {
        ["power", ..] => (Some(Alone::Power), 1),
        ["copies", ..] => (Some(Alone::Copies), 1),
        ["copy-logs", ..] => (Some(Alone::CopyLogs), 1),
        ["hosts", word, ..] if host_run(word).is_some() => {
            (host_run(word).map(Alone::HostsWith), 2)
        }
        ["hosts", ..] => (Some(Alone::Hosts), 1),
        _ => (None, 0),
    };
    let (mut from, mut seeds, mut minutes, mut calls) = (1, None, None, 400);
    let mut left = arguments[taken..].iter();
    while let Some(name) = left.next() {
        match name.as_str() {
            "--from" => from = number(name, left.next())?,
            "--seeds" => seeds = Some(number(name, left.next())?),
            "--minutes" => minutes = Some(number(name, left.next())?),
            "--calls" => calls = number(name, left.next())? as usize,
            _ => return Err(format!("'{name}' is not known")),
        }
    }
    let seeds = seeds.unwrap_or(if minutes.is_some() { u64::MAX } else { 1000 });
    Ok(Given::Seeds { alone, from, seeds, minutes, calls })
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match given(&arguments) {
        Ok(Given::Help) => print!("{USAGE}"),
        Ok(Given::Timed) => compare(),
        Ok(Given::Scale { per_mille }) => print_scale(per_mille),
        Ok(Given::Growth(None)) => print_growth(),
        Ok(Given::Growth(Some((k, per_mille)))) => {
            println!("hosts,calls per second");
            for (hosts, traffic) in traffic_of(k, per_mille) {
                println!("{hosts},{:.0}", traffic.most_per_s(&COSTS).0);
            }
        }
        Ok(Given::Seeds { alone, from, seeds, minutes, calls }) => {
            // A time that the clock cannot tell is as good as none.
            let after =
                |m: u64| Instant::now().checked_add(Duration::from_secs(m.checked_mul(60)?));
            let until = minutes.and_then(after);
            return run_seeds(alone, (from, seeds), until, calls);
        }
        Err(problem) => {
            eprint!("lockstep-sim: {problem}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    }
    ExitCode::SUCCESS
}

/// Runs N seeds from the first one on, until one fails or the time is over.
fn run_seeds(
    alone: Option<Alone>,
    (from, seeds): (u64, u64),
    until: Option<Instant>,
    calls: usize,
) -> ExitCode {
    let mut counts = Counts::default();
    // A failed assertion of the code under test ends the process: its seed must be known.
    let announce = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        eprintln!("seed {}:", SEED.load(Ordering::Relaxed));
        announce(panic);
    }));
    let mut shown = Instant::now();
    for seed in (from..).take(usize::try_from(seeds).unwrap_or(usize::MAX)) {
        if until.is_some_and(|until| Instant::now() > until) {
            break;
        }
        SEED.store(seed, Ordering::Relaxed);
        if std::io::stderr().is_terminal() && shown.elapsed() > SHOW_EVERY {
            shown = Instant::now();
            eprint!("\r{} of {seeds} seeds", counts.seeds);
        }
        let ran = match alone {
            Some(Alone::Power) => counts.cut_power(seed, calls),
            Some(Alone::Copies) => counts.lose_hosts(seed, calls),
            Some(Alone::CopyLogs) => counts.cut_power_of_copies(seed, calls),
            Some(Alone::Hosts) => counts.run_hosts(seed, calls),
            Some(Alone::HostsWith(place)) => counts.run_hosts_with(HOST_RUNS[place].1, seed, calls),
            None => counts.run(seed, calls),
        };
        counts.seeds += 1;
        if let Err(failure) = ran {
            eprintln!("{failure}");
            return ExitCode::FAILURE;
        }
    }
    counts.print();
    ExitCode::SUCCESS
}

/// What all seeds did.
#[derive(Default)]
struct Counts {
    seeds: u64,
    bank: [u64; 5],
    lists: [u64; 8],
    indexed: [u64; 8],
    led: [u64; 4],
    growing: [u64; 8],
    put: [u64; 4],
    messages: [u64; 4],
    power: power::Report,
    copies: CopyCounts,
    copy_logs: logs::Report,
    hosts: hosts::Report,
}

impl Counts {
    fn run(&mut self, seed: u64, calls: usize) -> Result<(), lockstep_sim::Failure> {
        let bank = lockstep_sim::run_seed(seed, calls)?;
        let numbers = [bank.calls, bank.aborted, bank.reads].map(|count| count as u64);
        add(&mut self.bank, &[&numbers[..], &[bank.speculated, bank.repeated]].concat());
        let sound = lockstep_sim::Faults::default();
        let lists = lockstep_sim::lists::run_seed(seed, calls / 2, sound)?;
        let indexed = lockstep_sim::lists::run_indexed(seed, calls / 4, sound)?;
        add(&mut self.lists, &list_counts(&lists));
        add(&mut self.indexed, &list_counts(&indexed));
        let led = [indexed.lookups, indexed.led, indexed.hops, indexed.given_up];
        add(&mut self.led, &led.map(|count| count as u64));
        let growing = lockstep_sim::lists::run_growing(seed, calls / 4, sound)?;
        add(&mut self.growing, &list_counts(&growing));
        let [put, refused, built] = [growing.put, growing.refused, growing.built];
        add(&mut self.put, &[put as u64, refused as u64, built as u64, growing.one_round]);
        for totals in [bank.messages, lists.messages, indexed.messages, growing.messages] {
            let (n, m) = (totals.participants, totals.messages);
            add(&mut self.messages, &[totals.transactions, totals.one_round, n, m]);
        }
        self.copies.add(&bank.copies);
        self.lose_hosts(seed, calls)?;
        self.run_hosts(seed, calls)?;
        self.cut_power_of_copies(seed, calls)?;
        self.cut_power(seed, calls)
    }

    fn lose_hosts(&mut self, seed: u64, calls: usize) -> Result<(), lockstep_sim::Failure> {
        let sound = (BrokenCopies::default(), lockstep_sim::Faults::default());
        let bank = lockstep_sim::bank::run_with_takeovers(seed, calls / 2, 120, sound)?;
        self.copies.add(&bank.copies);
        for kind in [Kind::Keyed, Kind::Indexed, Kind::Growing] {
            let lists = lockstep_sim::lists::run_with_takeovers(seed, calls / 4, kind, sound.1)?;
            self.copies.add(&lists.copies);
        }
        Ok(())
    }

    fn run_hosts(&mut self, seed: u64, calls: usize) -> Result<(), lockstep_sim::Failure> {
        let drawn = HOST_RUNS.iter().filter(|(.., (one_in, left))| seed % one_in == *left);
        drawn.map(|(_, run, _)| *run).try_for_each(|run| self.run_hosts_with(run, seed, calls))
    }

    fn run_hosts_with(
        &mut self,
        run: HostRun,
        seed: u64,
        calls: usize,
    ) -> Result<(), lockstep_sim::Failure> {
        self.hosts.add(&run(seed, calls / 2, hosts::HostFaults::default())?);
        Ok(())
    }

    fn cut_power_of_copies(
        &mut self,
        seed: u64,
        calls: usize,
    ) -> Result<(), lockstep_sim::Failure> {
        let report = logs::run_seed(seed, calls, logs::Broken::default())?;
        self.copy_logs.add(&report);
        Ok(())
    }

    fn cut_power(&mut self, seed: u64, calls: usize) -> Result<(), lockstep_sim::Failure> {
        let power = power::run_seed(seed, calls / 8, Default::default())?;
        self.power.add(&power);
        Ok(())
    }

    fn print(&self) {
        println!("{} seeds: all checks held", self.seeds);
        println!("copies: {}", self.copies);
        if self.hosts != hosts::Report::default() {
            println!("hosts: {}", self.hosts);
        }
        if self.copy_logs != logs::Report::default() {
            println!("copies with logs: {}", self.copy_logs);
        }
        if self.power != power::Report::default() {
            print!("power cuts\n{}", self.power);
        }
        if self.bank == [0; 5] {
            return;
        }
        let [calls, aborted, reads, speculated, repeated] = self.bank;
        println!(
            "bank: {calls} calls, {aborted} to be aborted, {reads} reads of everything; \
             {speculated} ran speculatively, {repeated} again"
        );
        for (name, counts) in [
            ("lists", self.lists),
            ("lists by a global index", self.indexed),
            ("lists that are added", self.growing),
        ] {
            let [committed, aborted, cut_off, gone, changes, again, snapshots, edges] = counts;
            println!(
                "{name}: {committed} committed, {aborted} aborted, {cut_off} cut off by a failing \
                 coordinator or by time, {gone} whose client went away; {changes} schema changes \
                 overtook {again} calls; {snapshots} times the index was compared; {edges} edges \
                 without a cycle"
            );
        }
        let [lookups, led, hops, given_up] = self.led;
        println!(
            "lookups of one list by the index: {lookups}, at two partitions at most unless it \
             moved; {led} of them calls that the index led to it with {hops} hops, {given_up} of \
             these became transactions"
        );
        let [put, refused, built, one_round] = self.put;
        println!(
            "{put} lists were added and {refused} calls refused, {one_round} calls in one round; \
             an index was built in steps {built} times"
        );
        let [transactions, one_round, participants, messages] = self.messages;
        println!(
            "messages: {transactions} transactions over partitions; {one_round} of one round had \
             {participants} participants and cost {messages}: {:.3} each",
            messages as f64 / participants.max(1) as f64
        );
    }
}

fn list_counts(report: &lockstep_sim::lists::Report) -> [u64; 8] {
    [
        report.committed,
        report.aborted,
        report.cut_off,
        report.gone,
        report.schema_changes,
        report.planned_again,
        report.snapshots,
        report.edges,
    ]
    .map(|count| count as u64)
}

fn add(sums: &mut [u64], numbers: &[u64]) {
    sums.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number);
}

#[cfg(test)]
mod tests {
    use super::{Alone, Given, given};

    fn of(text: &str) -> Result<Given, String> {
        given(&text.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn arguments_are_read_or_refused() {
        let seeds = |alone, from, seeds, minutes, calls| {
            Ok(Given::Seeds { alone, from, seeds, minutes, calls })
        };
        assert_eq!(of(""), seeds(None, 1, 1000, None, 400));
        assert_eq!(of("power --from 7 --seeds 2"), seeds(Some(Alone::Power), 7, 2, None, 400));
        assert_eq!(of("hosts --from 3"), seeds(Some(Alone::Hosts), 3, 1000, None, 400));
        assert_eq!(of("hosts aging"), seeds(Some(Alone::HostsWith(3)), 1, 1000, None, 400));
        assert_eq!(of("copies --seeds 2"), seeds(Some(Alone::Copies), 1, 2, None, 400));
        assert_eq!(of("copy-logs"), seeds(Some(Alone::CopyLogs), 1, 1000, None, 400));
        assert_eq!(of("--minutes 3 --calls 9"), seeds(None, 1, u64::MAX, Some(3), 9));
        assert_eq!(of("scale 50"), Ok(Given::Scale { per_mille: 50 }));
        assert_eq!(of("growth"), Ok(Given::Growth(None)));
        assert_eq!(of("growth 1 20"), Ok(Given::Growth(Some((1, 20)))));
        assert!(of("growth 3 20").is_err_and(|said| said.contains("K is 3, and 2 at most")));
        assert!(of("growth 1 1001").is_err_and(|said| said.contains("N is 1001")));
        assert_eq!(of("timed"), Ok(Given::Timed));
        assert_eq!(of("power --help"), Ok(Given::Help));
        for (text, problem) in [
            ("power --seed 5", "'--seed' is not known"),
            ("--from", "--from wants a number"),
            ("--seeds many", "--seeds wants a number, and 'many' is none"),
            ("power timed", "'timed' is not known"),
            ("hosts voter", "'voter' is not known"),
        ] {
            assert_eq!(of(text), Err(problem.to_string()), "{text}");
        }
    }
}
