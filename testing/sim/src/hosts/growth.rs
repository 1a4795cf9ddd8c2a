//! What a call costs over the number of hosts: the messages between them and their bytes, and what
//! the host with the most work has to do for it, without faults. Clients call the host that leads.
//!
//! What a cluster can take follows from that by the utilization law: the host that has the most to
//! do for each call is busy first. Processor time of a call, an entry and a message is given.

use super::judge::{End, Judge};
use super::{Cluster, FORM_US, HostFaults, Said, Work, begin};
use crate::StopEverything;
use lockstep_base::random::SeededRandom;
use lockstep_cluster::Shape;
use lockstep_host::follower::codec::{self, CopyMessage};
use lockstep_host::several::CoordinatorCall;
use lockstep_site::codec::{
    write_from_partition, write_multi, write_one_round, write_to_partition,
};
use lockstep_types::{Datum, HostId};

/// Accounts for each partition; as many calls are made at each, whatever the hash gives it.
const ACCOUNTS: u32 = 16;
/// Calls in flight at each host.
const IN_FLIGHT: usize = 4;
/// Before a message between hosts: its length, the thread that it is for, and what it is.
const BEFORE_MESSAGE_BYTES: u64 = 6;

/// A cluster whose hosts lead a partition each.
#[derive(Debug, Clone, Copy)]
pub struct Growth {
    /// How many hosts it has.
    pub hosts: u32,
    /// Copies of each partition beyond the first.
    pub k: u8,
    /// Calls for each host.
    pub calls: usize,
    /// Of a thousand calls, how many are transfers between two accounts.
    pub transfers_per_mille: u64,
}

/// What a host has done, and all have sent each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HostWork {
    /// Calls that it ran, or its parts of transfers.
    pub calls: u64,
    /// Entries of its copies.
    pub entries: u64,
    /// Messages of other hosts, and to them.
    pub messages: u64,
}

impl HostWork {
    fn busy_ns(&self, costs: &Costs) -> f64 {
        let HostWork { calls, entries, messages } = *self;
        calls as f64 * costs.call_ns
            + entries as f64 * costs.entry_ns
            + messages as f64 * costs.message_ns
    }
}

/// By how much of its mean a figure grows with each host: the slope of the straight line through
/// its points with the least squares.
pub fn slope_per_host(points: &[(u32, f64)]) -> f64 {
    let count = points.len() as f64;
    let mean_hosts = points.iter().map(|point| f64::from(point.0)).sum::<f64>() / count;
    let mean = points.iter().map(|point| point.1).sum::<f64>() / count;
    let (mut together, mut alone) = (0.0, 0.0);
    for (hosts, value) in points {
        let from_mean = f64::from(*hosts) - mean_hosts;
        together += from_mean * (value - mean);
        alone += from_mean * from_mean;
    }
    if mean == 0.0 { 0.0 } else { together / alone / mean }
}

/// What was counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Calls that were answered.
    pub calls: u64,
    /// Messages between hosts.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// By host.
    pub hosts: Vec<HostWork>,
}

/// Processor time, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    /// Of a call where it runs.
    pub call_ns: f64,
    /// Of its entry at a copy.
    pub entry_ns: f64,
    /// Of a message, at each of its ends.
    pub message_ns: f64,
}

impl Traffic {
    /// Messages a call.
    pub fn messages_a_call(&self) -> f64 {
        self.messages as f64 / self.calls as f64
    }

    /// Their bytes a call.
    pub fn bytes_a_call(&self) -> f64 {
        self.bytes as f64 / self.calls as f64
    }

    /// Calls per second with which one host is busy all the time, and which one that is.
    pub fn most_per_s(&self, costs: &Costs) -> (f64, usize) {
        let busy = self.hosts.iter().map(|work| work.busy_ns(costs)).enumerate();
        let (host, most_ns) = busy.max_by(|a, b| a.1.total_cmp(&b.1)).expect("it has hosts");
        (self.calls as f64 * 1e9 / most_ns, host)
    }

    /// How much of all work a host does.
    pub fn busy_share(&self, costs: &Costs, host: usize) -> f64 {
        let all_ns: f64 = self.hosts.iter().map(|work| work.busy_ns(costs)).sum();
        self.hosts[host].busy_ns(costs) / all_ns
    }

    /// A message goes from a host to another one.
    pub(super) fn note(&mut self, (from, to): (HostId, HostId), said: &Said) {
        if self.hosts.is_empty() {
            return;
        }
        self.messages += 1;
        self.bytes += BEFORE_MESSAGE_BYTES + bytes_of(said);
        for host in [from, to] {
            self.hosts[host.0 as usize].messages += 1;
        }
        if let Said::Copy(message) = said
            && let CopyMessage::Stream(message, _) = &message.said
        {
            let entries = message.piece.as_ref().map_or(0, |piece| piece.entries);
            self.hosts[to.0 as usize].entries += u64::from(entries);
        }
    }
}

/// The bytes of what a cluster without faults says once it serves.
fn bytes_of(said: &Said) -> u64 {
    let mut out = Vec::new();
    match said {
        Said::Copy(message) => codec::write(&mut out, message),
        Said::ToPartition(message) => write_to_partition(&mut out, message),
        Said::FromPartition(message) => write_from_partition(&mut out, message),
        Said::Multi(call) => match &**call {
            CoordinatorCall::OneRound(_, call) => write_one_round(&mut out, call),
            CoordinatorCall::Multi(call) => write_multi(&mut out, call, |out, origin| {
                out.extend_from_slice(&origin.to_le_bytes());
            }),
        },
        Said::Answer(answer) => out.extend_from_slice(&answer.tables),
        _ => {}
    }
    out.len() as u64
}

/// Runs a cluster and counts.
///
/// # Errors
/// A call failed, or was not answered.
pub fn run(seed: u64, growth: Growth) -> Result<Traffic, String> {
    let shape = Shape {
        hosts: growth.hosts,
        witnesses: 0,
        sites_per_host: 1,
        partitions_per_site: u16::from(growth.k) + 1,
        k: growth.k,
    };
    let faults = HostFaults::default();
    let mut random = SeededRandom::new(seed);
    let mut limits = begin::limits_of(&mut random, &shape, &faults);
    (limits.active_multi_calls_max, limits.speculative_calls_max) = (64, 1_000);
    limits.stop_everything = StopEverything::Never;
    let mut cluster = Cluster::of_shape((seed, random), (shape, 0), (faults, limits), Work::Bank);
    let accounts = i64::from(ACCOUNTS * growth.hosts);
    cluster.judge = Judge::new(accounts, None);
    (cluster.loses_partitions, cluster.changes_one_in) = (false, 0);
    (cluster.moves_leaders, cluster.coordinator_moves, cluster.returns) = (false, None, false);
    cluster.form()?;
    cluster.load()?;
    let loaded = cluster.judge.ended[End::Done as usize];
    cluster.traffic.hosts = vec![HostWork::default(); growth.hosts as usize];
    cluster.make_calls(&growth)?;
    let [done, failed, unknown] = cluster.judge.ended;
    if failed + unknown > 0 {
        return Err(format!("{failed} calls failed and {unknown} have no outcome"));
    }
    let mut traffic = std::mem::take(&mut cluster.traffic);
    traffic.calls = done - loaded;
    Ok(traffic)
}

impl Cluster {
    fn make_calls(&mut self, growth: &Growth) -> Result<(), String> {
        let hosts = growth.hosts as usize;
        let mut placed: Vec<Vec<i64>> = vec![Vec::new(); hosts];
        for account in self.judge.accounts() {
            placed[self.shared.ring.partition_of(Datum::Int(account)).index()].push(account);
        }
        assert!(placed.iter().all(|accounts| !accounts.is_empty()), "each partition has some");
        for _ in 0..growth.calls * hosts {
            if !self
                .run_until(self.now_us + FORM_US, |it| it.judge.outstanding < IN_FLIGHT * hosts)?
            {
                return Err("a call is not answered".to_string());
            }
            let random = &mut self.shared.random;
            let mut account = || {
                let accounts = &placed[random.below(hosts as u64) as usize];
                accounts[random.below(accounts.len() as u64) as usize]
            };
            let (from, to) = (account(), account());
            let is_transfer = random.below(1000) < growth.transfers_per_mille;
            let (host, other) = (self.leader_of(from), self.leader_of(to));
            self.traffic.hosts[host].calls += 1;
            let call = match is_transfer {
                true => {
                    self.traffic.hosts[other].calls += 1;
                    self.judge.transfer(1, from, to)
                }
                false => self.judge.touch(from),
            };
            self.call_at(host, call);
        }
        match self.run_until(self.now_us + FORM_US, |it| it.judge.outstanding == 0)? {
            true => Ok(()),
            false => Err("a call is not answered".to_string()),
        }
    }

    /// The host that leads the partition of an account.
    fn leader_of(&self, account: i64) -> usize {
        let partition = self.shared.ring.partition_of(Datum::Int(account));
        self.first.partitions[partition.index()].leader.host().0 as usize
    }
}
