//! Partitions that cannot be served: a copy that counts is at a host that is lost and cannot be
//! replaced, because it has the only copy of something, or the copy that is to lead is out of
//! service. Calls that need one are refused at every host, instead of waiting for what may never
//! come. They are served again when that host is back.

use super::coordinator::origin_of;
use super::{Shard, Slot};
use crate::connection::Connection;
use crate::message::Envelope;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::placement::Placement;
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
}

impl Unavailable {
    /// All partitions can be served.
    pub fn new(partitions: u32) -> Unavailable {
        Unavailable {
            version: AtomicU64::new(0),
            is_any: AtomicBool::new(false),
            partitions: (0..partitions).map(|_| AtomicBool::new(false)).collect(),
            cannot_lead: (0..partitions).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    /// The copy of this host is to lead in an epoch, and cannot.
    pub(crate) fn note_cannot_lead(&self, partition: PartitionId, epoch: u32) {
        self.cannot_lead[partition.index()].store(epoch, Ordering::Release);
    }

    /// The partitions that this host is to lead in their present epochs, and cannot.
    pub(crate) fn not_led_here(&self, placement: &Placement) -> Vec<PartitionId> {
        let cannot = |partition: &PartitionId| self.cannot_lead_in(*partition, placement);
        (0..).map(PartitionId).take(self.cannot_lead.len()).filter(cannot).collect()
    }

    fn cannot_lead_in(&self, partition: PartitionId, placement: &Placement) -> bool {
        let epoch = self.cannot_lead[partition.index()].load(Ordering::Acquire);
        epoch != 0 && epoch == placement.epoch_of(partition)
    }

    /// These partitions cannot be served. Whether that is news.
    pub(crate) fn set(&self, partitions: &[PartitionId]) -> bool {
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

/// What a call gets that needs these partitions.
#[cold]
pub(crate) fn cannot_serve(partitions: &[PartitionId]) -> Failure {
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

impl Shard {
    /// The copy of this host is to lead a partition, and cannot: another one may, if there is one,
    /// and calls do not wait here.
    #[cold]
    pub(super) fn cannot_lead(&mut self, partition: PartitionId) {
        let epoch = self.placement.epoch_of(partition);
        self.facts.unavailable.note_cannot_lead(partition, epoch);
        self.propose_out_of_sync(partition, epoch);
        self.take_waiting_calls();
    }

    /// Why a call cannot wait for a partition to be led here.
    pub(super) fn never_led_here(&self, partition: PartitionId) -> Option<Failure> {
        let unavailable = &self.facts.unavailable;
        let is_over = unavailable.cannot_lead_in(partition, &self.placement);
        (is_over || unavailable.has(partition)).then(|| cannot_serve(&[partition]))
    }

    /// From time to time: partitions may be unavailable since the last time. Calls that may be in
    /// progress there end as unknown; transactions of several partitions have a time limit.
    pub(super) fn follow_unavailable(&mut self) {
        let version = self.facts.unavailable.version.load(Ordering::Acquire);
        if std::mem::replace(&mut self.unavailable_version, version) != version {
            self.unavailable_since_us = self.now_us;
            self.take_waiting_calls();
        }
        if self.facts.unavailable.is_any() {
            self.end_unavailable_calls();
        }
    }

    /// Calls that may be in progress at the leaders of unavailable partitions end as unknown.
    fn end_unavailable_calls(&mut self) {
        let partitions = self.facts.unavailable.all();
        let of = |partition: &PartitionId| self.placement.leader_of(*partition).host();
        let hosts: Vec<HostId> = partitions.iter().map(of).collect();
        self.fail_calls_at(&hosts, self.now_us.saturating_sub(PATIENCE_US as i64));
        if Elapsed::between_us(self.unavailable_since_us, self.now_us).us() < PATIENCE_US {
            return;
        }
        let slots = self.replicas.slots();
        let slots = slots.filter(|slot| partitions.contains(&self.replicas[*slot].partition()));
        let slots: Vec<Slot> = slots.collect();
        let waits = |connection: &&Connection| slots.iter().any(|slot| connection.waits_for(*slot));
        let keys = self.connections.iter().filter(waits).map(|connection| connection.key);
        for key in keys.collect::<Vec<_>>() {
            self.note_refused(key, "connection closed", &cannot_serve(&partitions));
            self.facts.dropped_connections.fetch_add(1, Ordering::Relaxed);
            self.close(key);
        }
    }

    /// A call for the coordinator, which may need a partition that cannot be served.
    #[cold]
    pub(super) fn refuse_unavailable(&mut self, call: Envelope) {
        let failure = cannot_serve(&self.facts.unavailable.all());
        self.refuse_by_message(origin_of(call), &failure);
    }
}
