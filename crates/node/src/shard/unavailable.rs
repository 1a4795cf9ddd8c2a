//! Calls that need a partition which cannot be served: see [`lockstep_host::unavailable`].

use super::coordinator::origin_of;
use super::{Shard, Slot};
use crate::connection::Connection;
use crate::message::Envelope;
use lockstep_host::unavailable::{Overdue, cannot_serve};
use lockstep_types::{Failure, PartitionId};
use std::sync::atomic::Ordering;

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
        self.facts.unavailable.never_led_here(partition, &self.placement)
    }

    /// From time to time: partitions may be unavailable since the last time.
    pub(super) fn follow_unavailable(&mut self) {
        if self.unavailable_calls.follow(&self.facts.unavailable, self.now_us) {
            self.take_waiting_calls();
        }
        self.note_undecided();
        if self.facts.unavailable.is_any() {
            self.end_unavailable_calls();
        }
    }

    /// Partitions here that wait for the coordinator may wait for those that cannot be served.
    fn note_undecided(&self) {
        let unavailable = &self.facts.unavailable;
        let is_overdue = self.unavailable_calls.is_overdue(unavailable, self.now_us);
        for replica in self.replicas.iter() {
            let waits = replica.opening.is_some() || replica.site.awaits_decisions();
            unavailable.note_undecided(replica.partition(), waits, is_overdue);
        }
    }

    /// Calls that may be in progress at the leaders of unavailable partitions end as unknown.
    fn end_unavailable_calls(&mut self) {
        let calls = &self.unavailable_calls;
        let overdue = calls.overdue(&self.facts.unavailable, &self.placement, self.now_us);
        let Some(Overdue { partitions, hosts, until_us, is_over_here }) = overdue else { return };
        self.fail_calls_at(&hosts, until_us);
        if !is_over_here {
            return;
        }
        self.end_transactions(&partitions);
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
        self.refuse_by_message(origin_of(&call), &failure);
    }
}
