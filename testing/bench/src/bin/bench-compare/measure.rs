//! The figures that need servers and load, one after the other, in turns.

use crate::systems::{CONNECTIONS, PIPELINE, REDIS_KEYS, SERVER_CORE, Systems};
use crate::{EMBEDDED, Plan};
use clap::ArgMatches;
use lockstep_bench::driver::{DriverOptions, drive};
use lockstep_bench::embedded::EmbeddedVoter;
use lockstep_bench::process::{ServerProcess, cpu_time_of};
use lockstep_bench::program::load_core;
use lockstep_bench::redis::{self, RedisLoad};
use lockstep_bench::report::throughput_per_s;
use lockstep_bench::stalls::{Undisturbed, Watch, judged_p99_us};
use lockstep_bench::verdict;
use lockstep_bench::voter::{self, Form, VoterLoad};
use lockstep_client::{ConnectOptions, Connection};
use lockstep_workloads::voter::CONTESTANTS;
use std::process::Command;
use std::time::Duration;

/// The load of an open loop, of the peak.
const OPEN_LOAD: f64 = 0.5;
/// A ticker goes on this long after a run, which takes a while to begin and to end.
const TICKER_SPARE: Duration = Duration::from_millis(300);

/// What one run of a load came to.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sample {
    /// Calls per second.
    pub throughput_per_s: f64,
    /// CPU time of the server for a call, user and system, in microseconds.
    pub cpu_us: f64,
    /// The 99th percentile of latency in microseconds; 0 where it is not measured.
    pub p99_us: f64,
    /// Of an open loop: what the machine did to it, and the percentile without; `None` where
    /// nobody can tell.
    pub undisturbed: Option<Undisturbed>,
}

impl Sample {
    /// The percentile that counts: of the calls that the machine did not disturb, where enough
    /// are left, else of all.
    pub fn judged_p99_us(&self) -> f64 {
        judged_p99_us(self.p99_us, self.undisturbed.as_ref())
    }
}

/// Samples of every figure, one a repeat.
#[derive(Debug, Default)]
pub struct Samples {
    /// Native voter, many in flight.
    pub voter: Vec<Sample>,
    /// Voter as SQL only, many in flight.
    pub sql: Vec<Sample>,
    /// Redis, many in flight.
    pub redis: Vec<Sample>,
    /// The echo server, many in flight.
    pub echo: Vec<Sample>,
    /// Native voter, one in flight.
    pub voter_single: Vec<Sample>,
    /// Redis, one in flight.
    pub redis_single: Vec<Sample>,
    /// The echo server, one in flight.
    pub echo_single: Vec<Sample>,
    /// Native voter without sockets.
    pub embedded: Vec<Sample>,
    /// Native voter in an open loop at half of its peak.
    pub voter_open: Vec<Sample>,
    /// The echo server at the same rate.
    pub echo_open: Vec<Sample>,
    /// What Redis's own benchmark says, calls per second.
    pub redis_benchmark: Option<f64>,
}

/// The middle of some values of samples.
pub fn median(samples: &[Sample], value: fn(&Sample) -> f64) -> f64 {
    verdict::median(samples.iter().map(value))
}

/// Measures everything.
///
/// # Errors
/// A server does not start or fails, or votes are lost.
pub fn all(plan: &Plan, systems: &Systems) -> Result<Samples, String> {
    let mut samples = Samples::default();
    for repeat in 1..=plan.repeats {
        let note = |what: &str, sample: Sample| {
            eprintln!(
                "repeat {repeat}: {what:28} {:>10.0} calls/s {:>8.3} us CPU {:>6.0} us p99",
                sample.throughput_per_s, sample.cpu_us, sample.p99_us
            );
            sample
        };
        let bench = Bench { plan, systems };
        let voter = note("voter", bench.voter(Form::Native, PIPELINE, None)?);
        samples.voter.push(voter);
        samples.redis.push(note("Redis SET", bench.redis(PIPELINE)?));
        samples.echo.push(note("echo", bench.echo(PIPELINE, None)?));
        samples.sql.push(note("voter, SQL only", bench.voter(Form::Sql, PIPELINE, None)?));
        let single = note("voter, 1 in flight", bench.voter(Form::Native, 1, None)?);
        samples.voter_single.push(single);
        samples.redis_single.push(note("Redis SET, 1 in flight", bench.redis(1)?));
        samples.echo_single.push(note("echo, 1 in flight", bench.echo(1, None)?));
        samples.embedded.push(note("voter, embedded", bench.embedded()?));
        let half = Some(voter.throughput_per_s * OPEN_LOAD);
        let open = note("voter, half of the peak", bench.voter(Form::Native, PIPELINE, half)?);
        samples.voter_open.push(note_undisturbed(open));
        let echo = note("echo, the same rate", bench.echo(PIPELINE, half)?);
        samples.echo_open.push(note_undisturbed(echo));
    }
    samples.redis_benchmark = redis_benchmark(plan, systems);
    Ok(samples)
}

fn note_undisturbed(sample: Sample) -> Sample {
    if let Some(undisturbed) = &sample.undisturbed {
        eprintln!(
            "  undisturbed: {:.0} us p99; {:.1} % of the calls set aside, for stalls of {:.1} ms \
             together ({:.2} %), the longest {:.1} ms",
            undisturbed.p99_us,
            undisturbed.set_aside * 100.0,
            undisturbed.stalled_us / 1e3,
            undisturbed.stalled * 100.0,
            undisturbed.longest_us / 1e3
        );
    }
    sample
}

struct Bench<'p> {
    plan: &'p Plan,
    systems: &'p Systems,
}

impl Bench<'_> {
    fn driver(&self, server: &ServerProcess, pipeline: usize, rate: Option<f64>) -> DriverOptions {
        DriverOptions {
            servers: vec![server.address.to_string()],
            connections: CONNECTIONS,
            pipeline,
            rate_per_s: rate,
            duration: self.plan.duration,
            warmup: self.plan.warmup,
            keep_calls: rate.is_some(),
            never_sleeps: false,
        }
    }

    fn voter(&self, form: Form, pipeline: usize, rate: Option<f64>) -> Result<Sample, String> {
        let server = self.systems.start_lockstep()?;
        let address = server.address.to_string();
        let mut connection = Connection::connect(&address, &ConnectOptions::default())
            .map_err(|error| error.to_string())?;
        voter::set_up(&mut connection, form).map_err(|error| error.to_string())?;
        let mut load = VoterLoad::new(1, CONTESTANTS, form);
        let sample = self.drive(&server, pipeline, rate, &mut load)?;
        let votes = voter::vote_count(&mut connection).map_err(|error| error.to_string())?;
        match votes == load.accepted {
            true => Ok(sample),
            false => Err(format!("{votes} votes in the table, {} accepted", load.accepted)),
        }
    }

    fn echo(&self, pipeline: usize, rate: Option<f64>) -> Result<Sample, String> {
        let server = self.systems.start_echo()?;
        let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
        self.drive(&server, pipeline, rate, &mut load)
    }

    fn drive(
        &self,
        server: &ServerProcess,
        pipeline: usize,
        rate: Option<f64>,
        load: &mut VoterLoad,
    ) -> Result<Sample, String> {
        let cpu_time = || server.cpu_time().map_err(|error| error.to_string());
        let before = cpu_time()?;
        let options = self.driver(server, pipeline, rate);
        let watch = rate.map(|_| self.watch());
        let measured = drive(&options, load, &mut |_| {}).map_err(|error| error.to_string())?;
        let cpu = cpu_time()? - before;
        if let Some(error) = &measured.first_error {
            return Err(format!("{} calls failed, the first: {error}", measured.errors));
        }
        Ok(Sample {
            throughput_per_s: throughput_per_s(&measured),
            cpu_us: cpu.as_secs_f64() * 1e6 / measured.all.max(1) as f64,
            p99_us: measured.latency_us.value_at_quantile(0.99) as f64,
            undisturbed: watch
                .and_then(|watch| watch.end(&measured.calls, OPEN_LOAD, self.plan.duration)),
        })
    }

    /// Watches the core of the servers and that of the load.
    fn watch(&self) -> Watch {
        let cores = [SERVER_CORE, load_core(self.systems.cores)];
        Watch::begin(
            &cores,
            &self.systems.own,
            self.plan.warmup + self.plan.duration + TICKER_SPARE,
        )
    }

    fn redis(&self, pipeline: usize) -> Result<Sample, String> {
        let server = self.systems.start_redis()?;
        let text = |error: std::io::Error| error.to_string();
        let before = server.cpu_time().map_err(text)?;
        let load = RedisLoad {
            address: server.address,
            connections: CONNECTIONS,
            pipeline,
            keys: REDIS_KEYS,
            duration: self.plan.duration,
            warmup: self.plan.warmup,
        };
        let result = redis::run(&load).map_err(text)?;
        let cpu = server.cpu_time().map_err(text)? - before;
        Ok(Sample {
            throughput_per_s: result.throughput_per_s,
            cpu_us: cpu.as_secs_f64() * 1e6 / result.all.max(1) as f64,
            ..Sample::default()
        })
    }

    /// Runs on the core of the servers, like the servers.
    fn embedded(&self) -> Result<Sample, String> {
        let output = self
            .systems
            .on_server_core(&self.systems.own)
            .arg(EMBEDDED)
            .arg(self.plan.duration.as_millis().to_string())
            .output()
            .map_err(|error| error.to_string())?;
        let text = String::from_utf8_lossy(&output.stdout);
        let mut figures = text.split_whitespace().map_while(|figure| figure.parse().ok());
        match (figures.next(), figures.next()) {
            (Some(throughput_per_s), Some(cpu_us)) => {
                Ok(Sample { throughput_per_s, cpu_us, ..Sample::default() })
            }
            _ => {
                let reason = String::from_utf8_lossy(&output.stderr);
                Err(format!("embedded voter failed: {}", reason.trim()))
            }
        }
    }
}

/// The process of [`Bench::embedded`]: prints calls per second, and CPU time a call in
/// microseconds.
///
/// # Errors
/// The host refuses something, a call fails, or votes are lost.
pub fn run_embedded(arguments: &ArgMatches) -> Result<(), String> {
    let milliseconds = arguments.get_one::<u64>("milliseconds").copied().unwrap_or(1000);
    let duration = Duration::from_millis(milliseconds);
    let host = EmbeddedVoter::new(Form::Native, 1)?;
    let cpu_time = || cpu_time_of("self").map_err(|error| error.to_string());
    let before = cpu_time()?;
    let result = host.run(duration / 4, duration, &mut |_| {})?;
    if let Some(error) = &result.measured.first_error {
        return Err(error.clone());
    }
    if !result.is_consistent() {
        return Err(format!("{} votes, {} accepted", result.votes_after, result.accepted));
    }
    let cpu_us = (cpu_time()? - before).as_secs_f64() * 1e6 / result.measured.all.max(1) as f64;
    println!("{} {cpu_us}", throughput_per_s(&result.measured));
    Ok(())
}

/// Calls per second by the benchmark that comes with Redis, with the same load.
fn redis_benchmark(plan: &Plan, systems: &Systems) -> Option<f64> {
    let server = systems.start_redis().ok()?;
    let calls = if plan.quick { 100_000 } else { 3_000_000 };
    let output = Command::new("redis-benchmark")
        .args(["-h", "127.0.0.1", "-p", &server.address.port().to_string()])
        .args(["-t", "set", "-d", "64", "-r", &REDIS_KEYS.to_string(), "-n", &calls.to_string()])
        .args(["-c", &CONNECTIONS.to_string(), "-P", &PIPELINE.to_string(), "-q"])
        .output()
        .ok()?;
    parse_redis_benchmark(&String::from_utf8_lossy(&output.stdout))
}

/// The last rate that it printed; earlier ones are progress.
fn parse_redis_benchmark(text: &str) -> Option<f64> {
    let (before, _) = text.rsplit_once(" requests per second")?;
    before.rsplit(|c: char| c.is_whitespace()).next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_of_the_middle() {
        let sample = |rate| Sample { throughput_per_s: rate, ..Sample::default() };
        let rate = |sample: &Sample| sample.throughput_per_s;
        assert_eq!(median(&[sample(9.0), sample(1.0), sample(2.0)], rate), 2.0);
        assert_eq!(median(&[sample(1.0), sample(2.0)], rate), 1.5);
        assert_eq!(median(&[], rate), 0.0);
    }

    #[test]
    fn the_last_rate_counts() {
        let text = "SET: rps=12.0 (overall: 10.5)\rSET: 912408.75 requests per second, p50=3.1\n";
        assert_eq!(parse_redis_benchmark(text), Some(912_408.75));
        assert_eq!(parse_redis_benchmark("nothing"), None);
    }
}
