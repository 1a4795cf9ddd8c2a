//! Copies of one partition with command logs, over several lives: the streams of `txn` between
//! them, a synchronous log of each host on a disk that loses what was not synced, snapshots by
//! which logs are pruned, and starts of all hosts from their directories.
//!
//! A life ends with a power cut of all hosts, often right after a takeover: a leader that was
//! deposed has entries in its log with the numbers of the next epoch's. The hosts then start
//! together by the code that serves: what each log has (`RecoveryLog::copy_ends`), whose log counts
//! (`assemble`), what the others lack (`pieces_after`, `add_pieces`) and what is replayed
//! (`recover`). A copy that was not in sync loads its data again beside its old log, comes in sync
//! once a snapshot has them, and is recovered from both in a later life.
//!
//! Entries are numbers, each used once. Judges: an answered number is in its place in each log that
//! is recovered, and at each new leader; nothing comes back that a later epoch replaced, or that
//! its epoch did not log there; copies in sync are equal after a start; the hosts can start; at the
//! end all copies come in sync, and everything is answered.

use super::Links;
use crate::bank::Failure;
use lockstep_base::random::SeededRandom;
use lockstep_durability::ClusterId;
use lockstep_durability::command_log::{FIRST_BLOCK, FOLDER, LogFaults};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_env::Disk;
use lockstep_env::memory::MemoryDisk;
use lockstep_host::gate::Gate;
use lockstep_host::recovery::assembly::{AssemblyFaults, DurablePlacement};
use lockstep_txn::log_entry::LogSource;
use lockstep_txn::replica::{
    FollowerStream, ReplicaFaults, ReplicaLimits, ReplicaStream, SealReport,
};
use lockstep_types::{HostId, PartitionId};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

mod judge;
mod learners;
mod saves;
mod start;
mod store;
mod streams;

pub use judge::Report;
use judge::Truth;
use saves::{Save, Saving};
use store::Store;

const PARTITION: PartitionId = PartitionId(0);
const CLUSTER: ClusterId = ClusterId([9; 16]);
/// What the names of snapshots of the hosts' own copies begin with.
const PREFIX: &str = "OWN";
const LIMITS: ReplicaLimits = ReplicaLimits { unreceived_bytes: 2_000 };
/// Steps in which a power cut counts as one right after a takeover.
const SOON: u64 = 30;

/// What is broken, to see that the checks notice.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Broken {
    /// In the streams between copies.
    pub streams: ReplicaFaults,
    /// In the command log and its recovery.
    pub log: LogFaults,
    /// In the start of all hosts.
    pub start: AssemblyFaults,
    /// What was added to a log counts as durable before it is synced.
    pub ack_before_sync: bool,
    /// A copy that was loaded comes in sync before a snapshot has its data.
    pub count_unkept: bool,
}

struct Leader {
    stream: ReplicaStream,
    /// The numbers that wait for copies, each with its entry.
    gate: Gate<(u64, u64)>,
    source: LogSource,
    /// Numbers that ran in this round.
    round: Vec<u64>,
}

enum Role {
    /// It is not running.
    Down,
    /// It runs and has no data, which it is to load.
    Waiting,
    Leader(Box<Leader>),
    Follower(Box<FollowerStream>),
}

impl Role {
    /// The epoch that a copy with data is in.
    fn epoch(&self) -> Option<u32> {
        match self {
            Role::Down | Role::Waiting => None,
            Role::Leader(leader) => Some(leader.stream.epoch()),
            Role::Follower(copy) => Some(copy.epoch()),
        }
    }
}

/// A copy that is loaded and not in sync.
#[derive(Clone, Copy)]
struct Learning {
    attempt: u64,
    /// A snapshot of the host has its data.
    is_kept: bool,
}

struct Host {
    role: Role,
    /// What it has in memory: the epoch and the number of each entry.
    log: Vec<(u32, u64)>,
    /// The control plane does not reach it: it goes on as before.
    is_cut_off: bool,
    disk: MemoryDisk,
    /// Its command log, while it runs.
    store: Option<Store>,
    /// The newest placement that its directory has.
    known: DurablePlacement,
    /// The run of its process.
    incarnation: u64,
    learning: Option<Learning>,
    /// Snapshots that count and are to be written.
    saves: VecDeque<Save>,
    /// It has given up its data, and what it loads in their place is not durable.
    is_joining: bool,
}

/// The control plane, which is one step here.
struct Control {
    epoch: u32,
    leader: usize,
    in_sync: Vec<HostId>,
    /// The hosts of the cluster.
    up: BTreeSet<HostId>,
}

struct Logs {
    random: SeededRandom,
    hosts: Vec<Host>,
    links: Links,
    placement: Control,
    /// What copies reported that are sealed for the next epoch.
    sealed: BTreeMap<usize, SealReport>,
    /// The snapshot that has begun and does not count yet.
    saving: Option<Saving>,
    attempts: u64,
    next_number: u64,
    segment_bytes: u32,
    /// One step in N of those that may begin a snapshot does; 0 for none.
    saves_one_in: u64,
    /// Hosts whose copies do not count stay in the cluster, for other partitions, and keep their
    /// logs; else they are put out and give up their data.
    keeps_logs: bool,
    /// Steps until the power of all is cut, because a takeover was.
    cut_in: Option<u64>,
    truth: Truth,
    broken: Broken,
    report: Report,
}

/// Runs one seed: some lives of this number of steps at most.
///
/// # Errors
/// The first check that failed.
pub fn run_seed(seed: u64, steps: usize, broken: Broken) -> Result<Report, Failure> {
    let fails = |message: String| Failure { seed, message: format!("copies with logs: {message}") };
    let mut logs = Logs::new(seed, broken).map_err(fails)?;
    match logs.lives(steps as u64) {
        Ok(()) => Ok(logs.report),
        Err(message) => Err(fails(message)),
    }
}

impl Logs {
    fn new(seed: u64, broken: Broken) -> Result<Logs, String> {
        let mut random = SeededRandom::new(seed ^ 0x1095);
        let count = 2 + random.below(3) as usize;
        let all: Vec<HostId> = (0..count as u32).map(HostId).collect();
        let known = DurablePlacement {
            epoch: 0,
            up: all.iter().copied().collect(),
            in_sync: vec![all.clone()],
        };
        let host = |_| {
            let disk = MemoryDisk::new();
            for folder in [FOLDER, SNAPSHOT_FOLDER] {
                disk.create_folder(folder).map_err(|error| error.to_string())?;
            }
            Ok(Host {
                role: Role::Down,
                log: Vec::new(),
                is_cut_off: false,
                disk,
                store: None,
                known: known.clone(),
                incarnation: 1,
                learning: None,
                saves: VecDeque::new(),
                is_joining: false,
            })
        };
        let hosts = (0..count).map(host).collect::<Result<Vec<_>, String>>()?;
        let up = known.up.clone();
        let segment_bytes = FIRST_BLOCK + 1_024 * (1 + random.below(4) as u32);
        Ok(Logs {
            segment_bytes,
            saves_one_in: [0, 1, 2, 6][random.below(4) as usize],
            keeps_logs: random.chance(2, 3),
            random,
            hosts,
            links: BTreeMap::new(),
            placement: Control { epoch: 0, leader: 0, in_sync: all, up },
            sealed: BTreeMap::new(),
            saving: None,
            attempts: 0,
            next_number: 1,
            cut_in: None,
            truth: Truth::default(),
            broken,
            report: Report::default(),
        })
    }

    fn lives(&mut self, steps: u64) -> Result<(), String> {
        self.start()?;
        for _ in 0..3 + self.random.below(3) {
            self.live(steps)?;
            self.cut_all();
            self.start()?;
        }
        self.come_to_rest()
    }

    /// Goes on until the power of all is cut.
    fn live(&mut self, steps: u64) -> Result<(), String> {
        let mut left = 1 + steps / 2 + self.random.below(steps);
        self.cut_in = None;
        while left > 0 {
            self.step()?;
            left -= 1;
            if let Some(soon) = &mut self.cut_in {
                *soon -= 1;
                if *soon == 0 {
                    self.report.cuts_after_takeovers += 1;
                    break;
                }
            }
        }
        self.report.cuts_of_all += 1;
        Ok(())
    }

    fn step(&mut self) -> Result<(), String> {
        let host = self.random.below(self.hosts.len() as u64) as usize;
        match self.random.below(100) {
            0..=15 => self.call_often(host),
            16..=24 => self.end_round(host),
            25..=52 => self.deliver()?,
            53..=67 => self.step_store(host)?,
            68 => self.break_link(),
            69 if self.random.chance(1, 8) => self.cut_one(host),
            70 if self.random.chance(1, 2) => {
                let leads = self.random.chance(1, 2);
                let host = if leads { self.placement.leader } else { host };
                self.hosts[host].is_cut_off = true;
            }
            71..=72 => self.hosts[host].is_cut_off = false,
            73 if self.random.chance(2, 3) => self.change_epoch()?,
            74 if self.random.chance(1, 4) => self.seal(host),
            74 => self.begin_save(),
            75..=84 => self.step_save(host)?,
            _ => self.attend(host)?,
        }
        Ok(())
    }

    /// Clients call a host. One that is cut off gets ahead of the leader of the next epoch, so that
    /// its log has numbers that this one uses, too.
    fn call_often(&mut self, host: usize) {
        let calls = match self.hosts[host].is_cut_off {
            true => 4,
            false => u64::from(!self.keeps_logs || self.random.chance(1, 3)),
        };
        (0..calls).for_each(|_| self.call(host));
        if calls > 1 {
            self.end_round(host);
        }
    }

    fn disk(&self, host: usize) -> std::sync::Arc<dyn Disk> {
        std::sync::Arc::new(self.hosts[host].disk.clone())
    }

    /// The placement as a host keeps it.
    fn placed(&self) -> DurablePlacement {
        DurablePlacement {
            epoch: self.placement.epoch.into(),
            up: self.placement.up.clone(),
            in_sync: vec![self.placement.in_sync.clone()],
        }
    }
}
