//! Processor time of the servers for a call: with and without copies, at the leader and elsewhere.

use crate::table::Samples;
use crate::{Figure, Plan, forwarding, half_load};
use lockstep_base::random::SeededRandom;
use lockstep_bench::cluster::watch::read_routing;
use lockstep_bench::cluster::{ClusterProcesses, ClusterShape};
use lockstep_bench::driver::{DriverOptions, Measured, Verdict, Workload, drive};
use lockstep_bench::voter::{self, Form, VoterLoad};
use lockstep_client::routing::Target;
use lockstep_client::{ConnectOptions, Connection, ParameterWriter, Response, Routing};
use lockstep_types::{ParameterSet, PartitionId};
use lockstep_workloads::voter::CONTESTANTS;

/// Calls in flight on each connection of writes that are compared with those of Redis, and writes
/// of its batches.
pub const PIPELINE: usize = 32;
/// Connections of a closed loop.
pub const CONNECTIONS: usize = 6;
/// Keys of the writes that are compared with those of Redis.
pub const KEYS: u64 = 100_000;
/// Bytes of a value.
pub const VALUE_BYTES: usize = 64;
/// More memory than the votes of one figure take is there from the start: on a virtual machine a
/// page that nobody has touched yet was seen to take 7 us, and a huge one 4 ms.
const AHEAD: [&str; 1] = ["preallocate_bytes=134217728"];
/// No host is suspected because others use its core.
const PATIENT: [&str; 3] = ["heartbeat_interval_ms=100", "suspect_after_ms=3000", "lease_ms=2000"];

/// Processes with one site each, all on the core of the servers.
pub fn shape(plan: &Plan, hosts: u32, kfactor: u8, partitions: u32) -> ClusterShape {
    let options = [&AHEAD[..], if kfactor > 0 { &PATIENT } else { &[] }];
    ClusterShape {
        program: plan.server.clone(),
        hosts,
        kfactor,
        sites: 1,
        partitions_per_site: partitions * (u32::from(kfactor) + 1) / hosts,
        options: options.concat().into_iter().map(str::to_string).collect(),
        cores: vec!["0".to_string(); hosts as usize],
    }
}

/// A cluster, a connection with its first host, and where calls go.
pub struct Bench {
    /// The hosts.
    pub processes: ClusterProcesses,
    /// A connection.
    pub connection: Connection,
    /// Where calls go.
    pub routing: Routing,
}

impl Bench {
    /// Starts hosts; `set_up` makes what is needed.
    ///
    /// # Errors
    /// A host does not start or refuses something.
    pub fn start(
        shape: &ClusterShape,
        set_up: impl FnOnce(&mut Connection) -> Result<(), String>,
    ) -> Result<Bench, String> {
        let processes = ClusterProcesses::start(shape)?;
        let mut connection =
            Connection::connect(&processes.addresses()[0], &ConnectOptions::default())
                .map_err(|error| error.to_string())?;
        set_up(&mut connection)?;
        let routing = read_routing(&mut connection)?;
        Ok(Bench { processes, connection, routing })
    }

    /// With voter.
    ///
    /// # Errors
    /// As of [`Bench::start`].
    pub fn voter(shape: &ClusterShape) -> Result<Bench, String> {
        Bench::start(shape, |connection| {
            voter::set_up(connection, Form::Native).map_err(|error| error.to_string())
        })
    }

    /// The number of the host that leads a partition.
    ///
    /// # Errors
    /// It is not known.
    pub fn leader_of(&self, partition: u32) -> Result<usize, String> {
        let leader = self.routing.leader_of(PartitionId(partition));
        leader.map(|host| host as usize).ok_or_else(|| format!("nobody leads {partition}"))
    }

    /// Runs a load; what was measured, and the processor time of each host for a call.
    ///
    /// # Errors
    /// A connection is lost, or a call fails.
    pub fn drive<W: Workload>(
        &self,
        options: &DriverOptions,
        load: &mut W,
    ) -> Result<(Measured, Vec<f64>), String> {
        let cpu = || self.processes.cpu_seconds().map_err(|error| error.to_string());
        let before = cpu()?;
        let measured = drive(options, load, &mut |_| {}).map_err(|error| error.to_string())?;
        let after = cpu()?;
        if let Some(error) = &measured.first_error {
            return Err(format!("{} calls failed, the first: {error}", measured.errors));
        }
        let calls = measured.all.max(1) as f64;
        let per_call = |(after, before): (&f64, &f64)| (after - before) * 1e6 / calls;
        let cpu_us = after.iter().zip(&before).map(per_call).collect();
        Ok((measured, cpu_us))
    }
}

/// A closed loop, or calls at a rate.
pub fn driver(plan: &Plan, servers: Vec<String>, rate: Option<f64>) -> DriverOptions {
    DriverOptions {
        servers,
        connections: CONNECTIONS,
        pipeline: PIPELINE * if rate.is_some() { 32 } else { 1 },
        rate_per_s: rate,
        duration: plan.duration,
        warmup: plan.warmup,
        keep_calls: false,
        never_sleeps: rate.is_none(),
    }
}

/// Measures everything once.
///
/// # Errors
/// A host does not start or fails, or votes are lost.
pub fn all(plan: &Plan, samples: &mut Samples) -> Result<(), String> {
    if plan.has(Figure::Leader) {
        one_leader(plan, samples)?;
    }
    if plan.has(Figure::AllHosts) || plan.has(Figure::HalfLoad) {
        all_hosts(plan, samples)?;
    }
    if plan.has(Figure::OtherHost) {
        let two = shape(plan, 2, 0, 2);
        samples.to_leader_us.push(closed_loop(plan, &two, Aim::Leader)?.1.iter().sum());
        samples.to_other_us.push(closed_loop(plan, &two, Aim::Other)?.1.iter().sum());
    }
    if plan.has(Figure::Write) {
        samples.write_cpu_us.push(writes(plan)?);
    }
    Ok(())
}

fn one_leader(plan: &Plan, samples: &mut Samples) -> Result<(), String> {
    for at in &mut samples.one_leader {
        let alone = voter(plan, &shape(plan, 1, 0, 1), Aim::Any, Some(at.rate_per_s))?;
        at.alone_cpu_us.push(alone.iter().sum());
        let copied = voter(plan, &shape(plan, 2, 1, 1), Aim::Any, Some(at.rate_per_s))?;
        at.leader_cpu_us.push(copied[0]);
        at.follower_cpu_us.push(copied[1]);
        let (answers, forwards) = forwarding::cpu_us(plan, at.rate_per_s)?;
        at.answering_cpu_us.push(answers);
        at.forwarding_cpu_us.push(forwards);
    }
    Ok(())
}

fn all_hosts(plan: &Plan, samples: &mut Samples) -> Result<(), String> {
    let mut most_per_s = 0.0;
    for (kfactor, into) in [(0, &mut samples.spread_k0_us), (1, &mut samples.spread_k1_us)] {
        let shape = spread(plan, kfactor);
        let (measured, spread) = closed_loop(plan, &shape, Aim::Leader)?;
        into.push(spread.iter().sum());
        most_per_s = measured.transactions as f64 / measured.duration.as_secs_f64();
    }
    if plan.has(Figure::AllHosts) {
        let rate = Some(plan.rate_per_s);
        for (kfactor, into) in [(0, &mut samples.rated_k0_us), (1, &mut samples.rated_k1_us)] {
            into.push(voter(plan, &spread(plan, kfactor), Aim::Leader, rate)?.iter().sum());
        }
    }
    if plan.has(Figure::HalfLoad) {
        half_load::p99(plan, most_per_s / 2.0, samples)?;
    }
    Ok(())
}

/// A closed loop with the calls in flight at each host that the plan says.
fn closed_loop(
    plan: &Plan,
    shape: &ClusterShape,
    aim: Aim,
) -> Result<(Measured, Vec<f64>), String> {
    let mut voter = Voter::start(plan, shape, aim, None)?;
    voter.options.pipeline = ((plan.in_flight * shape.hosts) as usize / CONNECTIONS).max(1);
    voter.run()
}

/// Three hosts of which each leads a partition.
pub fn spread(plan: &Plan, kfactor: u8) -> ClusterShape {
    shape(plan, 3, kfactor, 3)
}

/// To which host calls go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aim {
    /// To the leader of the first partition.
    Any,
    /// To the leader.
    Leader,
    /// To another host.
    Other,
}

/// Processor time of each host for a call; with [`Aim::Any`] that of the leader is the first.
fn voter(
    plan: &Plan,
    shape: &ClusterShape,
    aim: Aim,
    rate: Option<f64>,
) -> Result<Vec<f64>, String> {
    Voter::start(plan, shape, aim, rate)?.run().map(|(_, cpu_us)| cpu_us)
}

/// Voter, ready to be driven.
pub struct Voter {
    bench: Bench,
    load: RoutedVoter,
    /// How it is driven.
    pub options: DriverOptions,
    leader: usize,
}

impl Voter {
    /// Starts the hosts.
    ///
    /// # Errors
    /// A host does not start.
    pub fn start(
        plan: &Plan,
        shape: &ClusterShape,
        aim: Aim,
        rate: Option<f64>,
    ) -> Result<Voter, String> {
        let bench = Bench::voter(shape)?;
        let mut servers = bench.processes.addresses();
        let leader = bench.leader_of(0)?;
        if aim == Aim::Any {
            servers = vec![servers.swap_remove(leader)];
        }
        let load = RoutedVoter {
            load: VoterLoad::new(1, CONTESTANTS, Form::Native),
            routing: bench.routing.clone(),
            hosts: shape.hosts as usize,
            aim,
        };
        Ok(Voter { bench, load, options: driver(plan, servers, rate), leader })
    }

    /// What was measured, and the processor time of each host for a call.
    ///
    /// # Errors
    /// A host fails, or votes are lost.
    pub fn run(mut self) -> Result<(Measured, Vec<f64>), String> {
        let (measured, mut cpu_us) = self.bench.drive(&self.options, &mut self.load)?;
        cpu_us.swap(0, if self.load.aim == Aim::Any { self.leader } else { 0 });
        let votes = voter::vote_count(&mut self.bench.connection);
        let (votes, accepted) = (votes.map_err(|e| e.to_string())?, self.load.load.accepted);
        match votes == accepted {
            true => Ok((measured, cpu_us)),
            false => Err(format!("{votes} votes in the table, {accepted} accepted")),
        }
    }
}

/// Voter whose calls are drawn so that the host of their connection leads their partition, or not.
struct RoutedVoter {
    load: VoterLoad,
    routing: Routing,
    hosts: usize,
    aim: Aim,
}

impl Workload for RoutedVoter {
    fn next_call(&mut self, connection: usize, parameters: &mut Vec<u8>) -> &'static str {
        loop {
            parameters.clear();
            let procedure = self.load.next_call(connection, parameters);
            let set = ParameterSet::new(parameters).expect("it was just written");
            let leads = match self.routing.target(procedure, set) {
                Target::Host(host) => host as usize == connection % self.hosts,
                Target::Any => return procedure,
            };
            if self.aim == Aim::Any || leads == (self.aim == Aim::Leader) {
                return procedure;
            }
        }
    }

    fn completed(&mut self, response: &Response<'_>, measured: bool) -> Verdict {
        self.load.completed(response, measured)
    }
}

/// Processor time of both hosts for a write of one row that has a copy.
fn writes(plan: &Plan) -> Result<f64, String> {
    let bench = Bench::start(&shape(plan, 2, 1, 1), |connection| {
        let schema = "CREATE TABLE kv (k BIGINT NOT NULL PRIMARY KEY, v VARCHAR(64)); \
                      PARTITION TABLE kv ON COLUMN k;";
        connection.sql(schema).map(drop).map_err(|error| error.to_string())
    })?;
    let server = bench.processes.addresses().swap_remove(bench.leader_of(0)?);
    let mut load = Writes { random: SeededRandom::new(1), writer: ParameterWriter::default() };
    // The client of Redis sleeps while it waits, too.
    let options = DriverOptions { never_sleeps: false, ..driver(plan, vec![server], None) };
    let (_, cpu_us) = bench.drive(&options, &mut load)?;
    Ok(cpu_us.iter().sum())
}

struct Writes {
    random: SeededRandom,
    writer: ParameterWriter,
}

impl Workload for Writes {
    fn next_call(&mut self, _: usize, parameters: &mut Vec<u8>) -> &'static str {
        const VALUE: &str = "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx";
        const { assert!(VALUE.len() == VALUE_BYTES) };
        self.writer.clear();
        self.writer.bigint(self.random.below(KEYS) as i64).text(VALUE);
        parameters.extend_from_slice(self.writer.bytes());
        "KV.upsert"
    }

    fn completed(&mut self, response: &Response<'_>, _: bool) -> Verdict {
        if response.is_success() { Verdict::Good } else { Verdict::Error }
    }
}
