//! Throughputs of mixes, of both ways to run transfers, latencies over TCP, and the simulator.

use crate::Plan;
use crate::alternate_key::AlternateKey;
use lockstep_bench::bank::{BankHost, BankShape};
use lockstep_bench::inner_host::{self, time_loads};
use lockstep_bench::report::grouped;
use lockstep_client::{Connection, ParameterWriter};
use lockstep_node::options::Options;
use lockstep_sim::StopEverything;
use lockstep_sim::timed::{self, Model};
use lockstep_sim::world::Shape;
use lockstep_types::{Datum, HashRing};
use std::sync::atomic::Ordering;
use std::time::Instant;

/// The shares of transfers that are measured, in a thousand calls.
pub const SHARES_PER_MILLE: [u64; 4] = [10, 100, 500, 1000];
/// The share at which stopping everything is compared.
const COMPARED_PER_MILLE: u64 = 100;

/// Ratios, one a repeat, and the rates they are of.
#[derive(Debug, Default)]
pub struct Samples {
    /// Calls per second without transfers.
    pub alone_per_s: Vec<f64>,
    /// Per share, throughput against none.
    pub one_round: [Vec<f64>; 4],
    /// The same with transfers of two rounds.
    pub two_rounds: [Vec<f64>; 4],
    /// Against stopping everything: by fragments, and by calls as they are.
    pub against_stopping: [Vec<f64>; 2],
    /// Median latency of a deposit and of a transfer over TCP, in microseconds, per repeat.
    pub deposit_us: Vec<f64>,
    /// See `deposit_us`.
    pub transfer_us: Vec<f64>,
    /// Rows found by a global index.
    pub alternate_key: AlternateKey,
    /// The same with texts as keys.
    pub alternate_text: AlternateKey,
}

/// Measures everything by the clock.
///
/// # Errors
/// A host does not start, a call fails, or money is lost.
pub fn all(plan: &Plan) -> Result<Samples, String> {
    let (host, shape) = start_bank(plan)?;
    let stopping = |stop_everything| {
        let options = Options { stop_everything, ..shape.options.clone() };
        BankHost::start(&BankShape { options, ..shape.clone() })
    };
    let stopping = [stopping(StopEverything::ByFragments)?, stopping(StopEverything::ByCalls)?];
    let mut samples = Samples::default();
    let mut latencies = Latencies::new(&host, plan)?;
    for repeat in 1..=plan.repeats {
        let alone = throughput(&host, plan, 0, false);
        samples.alone_per_s.push(alone);
        eprintln!("repeat {repeat}: deposits alone {:>10}/s", grouped(alone as u64));
        for (place, share) in SHARES_PER_MILLE.into_iter().enumerate() {
            for two_rounds in [false, true] {
                let rate = throughput(&host, plan, share, two_rounds);
                let rounds = if two_rounds { "two rounds" } else { "one round" };
                eprintln!(
                    "repeat {repeat}: {:>3} % transfers, {rounds:10} {:>10}/s {:.3} x",
                    share / 10,
                    grouped(rate as u64),
                    rate / alone
                );
                let list =
                    if two_rounds { &mut samples.two_rounds } else { &mut samples.one_round };
                list[place].push(rate / alone);
                if share == COMPARED_PER_MILLE && !two_rounds {
                    for (host, ratios) in stopping.iter().zip(&mut samples.against_stopping) {
                        let stopped = throughput(host, plan, share, false);
                        let grouped = grouped(stopped as u64);
                        eprintln!("repeat {repeat}: stopping everything {grouped:>10}/s");
                        ratios.push(rate / stopped);
                    }
                }
            }
        }
        let (deposit_us, transfer_us) = latencies.measure(plan)?;
        eprintln!("repeat {repeat}: over TCP {deposit_us:.1} us, two partitions {transfer_us:.1}");
        samples.deposit_us.push(deposit_us);
        samples.transfer_us.push(transfer_us);
    }
    settled(&host, latencies.deposits)?;
    stopping.iter().try_for_each(|host| settled(host, 0))?;
    Ok(samples)
}

/// Two sites with the bank.
pub fn start_bank(plan: &Plan) -> Result<(BankHost, BankShape), String> {
    // Nothing but the load runs while the clock does.
    let options = Options { statistics_interval_ms: None, ..Options::default() };
    let shape = BankShape {
        sites: 2,
        accounts: plan.accounts,
        in_flight: plan.in_flight,
        options,
        bystander_calls: None,
    };
    Ok((BankHost::start(&shape)?, shape))
}

/// Calls per second of a mix.
pub fn throughput(host: &BankHost, plan: &Plan, transfers_per_mille: u64, two_rounds: bool) -> f64 {
    let calls = || -> u64 { host.counts.iter().map(|counts| counts.calls()).sum() };
    host.steering.transfers_per_mille.store(transfers_per_mille, Ordering::Relaxed);
    host.steering.two_rounds.store(two_rounds, Ordering::Relaxed);
    let timed = time_loads(&host.steering.running, plan.times(), calls);
    (timed.after - timed.before) as f64 / timed.seconds
}

/// Waits until nothing is in flight and checks the sums.
pub fn settled(host: &BankHost, deposits_elsewhere: u64) -> Result<(), String> {
    inner_host::settled(|| host.check(deposits_elsewhere))
}

/// One call at a time over TCP, on a connection at each site.
struct Latencies {
    connections: Vec<Connection>,
    writer: ParameterWriter,
    /// An account of each partition.
    accounts: [i64; 2],
    deposits: u64,
}

impl Latencies {
    fn new(host: &BankHost, plan: &Plan) -> Result<Latencies, String> {
        let ring = HashRing::new(2);
        let first_at = |partition: usize| {
            let at = |id: &i64| ring.partition_of(Datum::Int(*id)).index() == partition;
            (0..plan.accounts).find(at).ok_or("a partition has no account")
        };
        Ok(Latencies {
            connections: vec![host.connect()?, host.connect()?],
            writer: ParameterWriter::default(),
            accounts: [first_at(0)?, first_at(1)?],
            deposits: 0,
        })
    }

    /// The medians of deposits and of transfers, in turns.
    fn measure(&mut self, plan: &Plan) -> Result<(f64, f64), String> {
        let (mut deposits, mut transfers) = (Vec::new(), Vec::new());
        for number in 0..plan.latency_calls {
            // Each connection calls each partition.
            let connection = number % 2;
            let (here, there) = (number / 2 % 2, 1 - number / 2 % 2);
            self.writer.clear();
            self.writer.bigint(1).bigint(self.accounts[here]);
            deposits.push(self.call(connection, "Deposit")?);
            self.writer.clear();
            self.writer.bigint(-1).bigint(self.accounts[here]);
            self.writer.bigint(1).bigint(self.accounts[there]);
            transfers.push(self.call(connection, "TransferSql")?);
            self.deposits += 1;
        }
        let median = lockstep_bench::verdict::median;
        Ok((median(deposits), median(transfers)))
    }

    fn call(&mut self, connection: usize, procedure: &str) -> Result<f64, String> {
        let connection = &mut self.connections[connection];
        let start = Instant::now();
        let answer = connection.call(procedure, &self.writer).map_err(|e| e.to_string())?;
        let latency = start.elapsed();
        match answer.view().is_success() {
            true => Ok(latency.as_secs_f64() * 1e6),
            false => Err(format!("{procedure}: {:?}", answer.view().status_text)),
        }
    }
}

/// Against stopping everything, on the simulator's clock: 8 partitions, then 64.
pub fn simulate(plan: &Plan) -> [f64; 2] {
    [8, 64].map(|partitions| {
        // Transfers are statements here, planned by the coordinator on both sides.
        let calls = |stop_everything| {
            let shape = Shape { stop_everything, active_multi: 10_000, ..Shape::of(partitions) };
            let model = Model {
                shape,
                transfers_per_mille: COMPARED_PER_MILLE,
                calls_in_flight: 16,
                hop_ns: 50_000,
                work_ns: 2_000,
                measured_ns: if plan.quick { 10_000_000 } else { 200_000_000 },
            };
            timed::run(1, model).calls()
        };
        let ratio =
            calls(StopEverything::Never) as f64 / calls(StopEverything::ByFragments).max(1) as f64;
        eprintln!("simulated, {partitions} partitions: {ratio:.1} x");
        ratio
    })
}
