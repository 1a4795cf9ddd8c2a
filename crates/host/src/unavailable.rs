//! Partitions that cannot be served: a copy that counts is at a host that is lost and cannot be
//! replaced, because it has the only copy of something, or the copy that is to lead is out of
//! service. Calls that need one are refused at every host, instead of waiting for what may never
//! come. They are served again when that host is back.
//!
//! A coordinator that takes over needs the reports of all partitions, and decides nothing while one
//! of them has no leader. Partitions that wait for what it decides cannot be served either.

use crate::coordinator::{self, CoordinatorHost, Outputs};
use crate::placement::Placement;
use lockstep_base::elapsed::Elapsed;
use lockstep_types::{Failure, HostId, PartitionId, Status};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How long callers wait for the answers of a partition that has become unavailable.
const PATIENCE_US: u64 = 1_000_000;

/// The partitions that cannot be served: what the sites and the thread of the links leave for each
/// other.
pub struct Unavailable {
    /// Of a change.
    version: AtomicU64,
    is_any: AtomicBool,
    partitions: Box<[AtomicBool]>,
    /// The epoch in which the copy of this host was to lead and could not; 0 for none.
    cannot_lead: Box<[AtomicU32]>,
    /// Those that this host leads, or is about to, and that wait for a coordinator which waits for
    /// partitions that cannot be served.
    undecided: Box<[AtomicBool]>,
}

impl Unavailable {
    /// All partitions can be served.
    pub fn new(partitions: u32) -> Unavailable {
        Unavailable {
            version: AtomicU64::new(0),
            is_any: AtomicBool::new(false),
            partitions: (0..partitions).map(|_| AtomicBool::new(false)).collect(),
            cannot_lead: (0..partitions).map(|_| AtomicU32::new(0)).collect(),
            undecided: (0..partitions).map(|_| AtomicBool::new(false)).collect(),
        }
    }

    /// The copy of this host is to lead in an epoch, and cannot.
    pub fn note_cannot_lead(&self, partition: PartitionId, epoch: u32) {
        self.cannot_lead[partition.index()].store(epoch, Ordering::Release);
    }

    /// From time to time: whether a partition here waits for decisions of a coordinator that takes
    /// over. `is_overdue` is [`UnavailableCalls::is_overdue`]; it stays undecided until it waits no
    /// more, or all partitions can be served.
    pub fn note_undecided(&self, partition: PartitionId, waits: bool, is_overdue: bool) {
        let undecided = &self.undecided[partition.index()];
        let was = undecided.load(Ordering::Relaxed);
        undecided.store(waits && (was || is_overdue), Ordering::Relaxed);
    }

    /// The partitions that this host is to lead in their present epochs, and cannot.
    pub fn not_led_here(&self, placement: &Placement) -> Vec<PartitionId> {
        let cannot = |partition: &PartitionId| {
            self.undecided[partition.index()].load(Ordering::Relaxed)
                || self.cannot_lead_in(*partition, placement)
        };
        (0..).map(PartitionId).take(self.cannot_lead.len()).filter(cannot).collect()
    }

    /// Why a call cannot wait for a partition to be led here.
    pub fn never_led_here(&self, partition: PartitionId, placement: &Placement) -> Option<Failure> {
        let is_over = self.cannot_lead_in(partition, placement);
        (is_over || self.has(partition)).then(|| cannot_serve(&[partition]))
    }

    fn cannot_lead_in(&self, partition: PartitionId, placement: &Placement) -> bool {
        let epoch = self.cannot_lead[partition.index()].load(Ordering::Acquire);
        epoch != 0 && epoch == placement.epoch_of(partition)
    }

    /// These partitions cannot be served. Whether that is news.
    pub fn set(&self, partitions: &[PartitionId]) -> bool {
        let mut is_news = false;
        for (number, is_unavailable) in (0..).map(PartitionId).zip(&self.partitions) {
            let now = partitions.contains(&number);
            is_news |= is_unavailable.swap(now, Ordering::Relaxed) != now;
        }
        if is_news {
            self.is_any.store(!partitions.is_empty(), Ordering::Release);
            self.version.fetch_add(1, Ordering::Release);
        }
        is_news
    }

    /// Whether there is a partition that cannot be served.
    #[inline]
    pub fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// Whether a partition cannot be served.
    #[inline]
    pub fn has(&self, partition: PartitionId) -> bool {
        self.is_any() && self.partitions[partition.index()].load(Ordering::Relaxed)
    }

    /// The partitions that cannot be served.
    pub fn all(&self) -> Vec<PartitionId> {
        if !self.is_any() {
            return Vec::new();
        }
        let numbered = (0..).map(PartitionId).zip(&self.partitions);
        let left = numbered.filter(|(_, is_unavailable)| is_unavailable.load(Ordering::Relaxed));
        left.map(|(partition, _)| partition).collect()
    }
}

/// Calls of a thread that are in progress at partitions which cannot be served.
#[derive(Debug, Default)]
pub struct UnavailableCalls {
    /// Of the last change that the thread has seen, and when it saw it.
    version: u64,
    since_us: i64,
}

/// Calls that have waited long enough for partitions that cannot be served.
#[derive(Debug, PartialEq, Eq)]
pub struct Overdue {
    /// The partitions.
    pub partitions: Vec<PartitionId>,
    /// The hosts that lead them. Calls that went there up to `until_us` end as unknown;
    /// transactions of several partitions have a time limit.
    pub hosts: Vec<HostId>,
    /// See `hosts`.
    pub until_us: i64,
    /// Callers of this thread's own copies of them wait no longer.
    pub is_over_here: bool,
}

impl UnavailableCalls {
    /// From time to time: whether other partitions cannot be served than before. Calls that wait
    /// for a partition to be led here are to be taken again.
    pub fn follow(&mut self, unavailable: &Unavailable, now_us: i64) -> bool {
        let version = unavailable.version.load(Ordering::Acquire);
        let is_news = std::mem::replace(&mut self.version, version) != version;
        if is_news {
            self.since_us = now_us;
        }
        is_news
    }

    /// Whether partitions cannot be served for longer than callers wait.
    pub fn is_overdue(&self, unavailable: &Unavailable, now_us: i64) -> bool {
        unavailable.is_any() && Elapsed::between_us(self.since_us, now_us).us() >= PATIENCE_US
    }

    /// The calls that have waited long enough, after [`UnavailableCalls::follow`].
    pub fn overdue(
        &self,
        unavailable: &Unavailable,
        placement: &Placement,
        now_us: i64,
    ) -> Option<Overdue> {
        let partitions = unavailable.all();
        if partitions.is_empty() {
            return None;
        }
        let hosts = partitions.iter().map(|partition| placement.leader_of(*partition).host());
        Some(Overdue {
            hosts: hosts.collect(),
            partitions,
            until_us: now_us.saturating_sub(PATIENCE_US as i64),
            is_over_here: self.is_overdue(unavailable, now_us),
        })
    }
}

/// What a call gets that needs these partitions.
#[cold]
pub fn cannot_serve(partitions: &[PartitionId]) -> Failure {
    let numbers: Vec<String> = partitions.iter().map(PartitionId::to_string).collect();
    let noun = if partitions.len() == 1 { "partition" } else { "partitions" };
    let text = format!(
        "VOLTDB ERROR: {noun} {} cannot be served: a host with a copy is lost and cannot be \
         replaced, or the copy is out of service. Nothing was done. `lockstep admin cluster` shows \
         the hosts and their partitions.",
        numbers.join(", ")
    );
    Failure::new(Status::ServerUnavailable, text)
}

/// The coordinator goes on without partitions that cannot be served: what waits there or is in
/// progress, and not decided, fails and is undone. `outputs` is an empty list, kept for its memory.
pub fn end_transactions<H: CoordinatorHost>(
    host: &mut H,
    partitions: &[PartitionId],
    outputs: &mut Outputs<H>,
) {
    let before_us = host.now_us().saturating_sub(PATIENCE_US as i64);
    // In this order: what waits for a decision that no log has yet is not decided without it.
    host.coordinator().fail_all(&cannot_serve(partitions), before_us, outputs);
    host.coordinator().end_without(partitions, outputs);
    coordinator::carry_out(host, outputs);
}
