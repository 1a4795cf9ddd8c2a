//! Median latency of one client with one call in flight, each process on a core of its own as far
//! as there are cores.

use crate::measure::{Bench, shape};
use crate::table::Samples;
use crate::{ECHO, Plan};
use lockstep_base::random::SeededRandom;
use lockstep_bench::cluster::ClusterShape;
use lockstep_bench::driver::{DriverOptions, Verdict, Workload, drive};
use lockstep_bench::process::{ServerProcess, on_core};
use lockstep_bench::program::{cores, load_core};
use lockstep_bench::voter::{Form, VoterLoad};
use lockstep_client::{ParameterWriter, Response};
use lockstep_types::Datum;
use lockstep_workloads::bank;
use lockstep_workloads::voter::CONTESTANTS;

const ACCOUNTS: i64 = 200;

/// Measures everything once.
///
/// # Errors
/// A server does not start or fails.
pub fn all(plan: &Plan, samples: &mut Samples) -> Result<(), String> {
    samples.ping_us.push(ping(plan)?);
    samples.idle_k0_us.push(idle(plan, &shape(plan, 1, 0, 1))?);
    samples.idle_k1_us.push(idle(plan, &apart(shape(plan, 2, 1, 1)))?);
    for (kfactor, into) in [(0, &mut samples.transfers_k0), (1, &mut samples.transfers_k1)] {
        into.push(transfers(plan, &apart(shape(plan, 2, kfactor, 2)))?);
    }
    Ok(())
}

/// The hosts on different cores.
fn apart(mut shape: ClusterShape) -> ClusterShape {
    let core = |(number, core): (usize, &mut String)| *core = (number % cores()).to_string();
    shape.cores.iter_mut().enumerate().for_each(core);
    shape
}

fn single(plan: &Plan, server: String) -> DriverOptions {
    DriverOptions {
        servers: vec![server],
        connections: 1,
        pipeline: 1,
        rate_per_s: None,
        duration: plan.duration,
        warmup: plan.warmup,
        keep_calls: false,
        never_sleeps: false,
    }
}

/// A call of a server that does nothing, over the same event loop.
fn ping(plan: &Plan) -> Result<f64, String> {
    // With one core it shares that with the load.
    let mut command = on_core(1 - load_core(cores()), &plan.own.to_string_lossy());
    command.arg(ECHO);
    let server = ServerProcess::start_with_ready_line(command).map_err(|e| e.to_string())?;
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let options = single(plan, server.address.to_string());
    let measured = drive(&options, &mut load, &mut |_| {}).map_err(|error| error.to_string())?;
    Ok(measured.latency_us.value_at_quantile(0.5) as f64)
}

/// A vote at the leader.
fn idle(plan: &Plan, shape: &ClusterShape) -> Result<f64, String> {
    let bench = Bench::voter(shape)?;
    let server = bench.processes.addresses().swap_remove(bench.leader_of(0)?);
    let mut load = VoterLoad::new(1, CONTESTANTS, Form::Native);
    let (measured, _) = bench.drive(&single(plan, server), &mut load)?;
    Ok(measured.latency_us.value_at_quantile(0.5) as f64)
}

/// Medians of deposits and of transfers between partitions of two hosts.
fn transfers(plan: &Plan, shape: &ClusterShape) -> Result<(f64, f64), String> {
    let bench = Bench::start(shape, |connection| {
        let text = |error: lockstep_client::ClientError| error.to_string();
        connection.sql(bank::SCHEMA).map_err(text)?;
        for id in 0..ACCOUNTS {
            let insert = format!("INSERT INTO accounts VALUES ({id}, 1000000)");
            connection.sql(&insert).map_err(text)?;
        }
        Ok(())
    })?;
    let leaders = [bench.leader_of(0)?, bench.leader_of(1)?];
    if leaders[0] == leaders[1] {
        return Err("one host leads both partitions".to_string());
    }
    let accounts = [0, 1].map(|partition| {
        let is_there = |id: &i64| {
            bench.routing.partition_of(Datum::Int(*id)).is_some_and(|it| it.0 == partition)
        };
        (0..ACCOUNTS).filter(is_there).collect::<Vec<i64>>()
    });
    let server = bench.processes.addresses().swap_remove(leaders[0]);
    let run = |is_transfer| {
        let mut load = Bank {
            random: SeededRandom::new(1),
            writer: ParameterWriter::default(),
            accounts: accounts.clone(),
            is_transfer,
        };
        let (measured, _) = bench.drive(&single(plan, server.clone()), &mut load)?;
        Ok::<f64, String>(measured.latency_us.value_at_quantile(0.5) as f64)
    };
    Ok((run(false)?, run(true)?))
}

struct Bank {
    random: SeededRandom,
    writer: ParameterWriter,
    accounts: [Vec<i64>; 2],
    is_transfer: bool,
}

impl Workload for Bank {
    fn next_call(&mut self, _: usize, parameters: &mut Vec<u8>) -> &'static str {
        let Bank { random, writer, accounts, is_transfer } = self;
        let mut draw = |at: usize| accounts[at][random.below(accounts[at].len() as u64) as usize];
        let (from, to) = (draw(0), draw(1));
        writer.clear();
        let procedure = match is_transfer {
            true => {
                writer.bigint(-1).bigint(from).bigint(1).bigint(to);
                "TransferSql"
            }
            false => {
                writer.bigint(1).bigint(from);
                "Deposit"
            }
        };
        parameters.extend_from_slice(writer.bytes());
        procedure
    }

    fn completed(&mut self, response: &Response<'_>, _: bool) -> Verdict {
        if response.is_success() { Verdict::Good } else { Verdict::Error }
    }
}
