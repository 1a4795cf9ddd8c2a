//! A partition that is led here and has copies elsewhere: what it logs goes to them at the end of
//! each round, and what it answers waits until all of them have it.

use super::replica::Replica;
use super::{Shard, Slot};
use crate::mailbox::Outbox;
use crate::message::Envelope;
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::placement::Placement;
use lockstep_txn::replica::{
    EpochHistory, Piece, Receipt, ReceiptOutcome, ReplicaLimits, ReplicaStream, SealReport,
};
use lockstep_types::{HostId, PartitionId};

/// A greater buffer of entries is not kept for the next round.
const SPARE_BYTES_MAX: usize = 1 << 16;

/// The stream of a partition to its copies.
pub(super) struct Leading {
    pub(super) stream: ReplicaStream,
    /// A digest that is to be compared.
    digest: Option<(u64, u64)>,
    /// What was settled when positions were sent last.
    settled: u64,
    /// The buffer of the entries of a round, for the next one.
    spare: Vec<u8>,
}

impl Leading {
    /// Of a partition that has logged nothing, in its first epoch.
    pub(super) fn first(
        partition: PartitionId,
        placement: &Placement,
        limits: ReplicaLimits,
    ) -> Leading {
        let epoch = placement.epoch_of(partition);
        let followers = placement.followers_of(partition).iter();
        let followers: Vec<(HostId, u64)> = followers.map(|thread| (thread.host(), 0)).collect();
        let history = EpochHistory::of_epoch(epoch);
        Leading::of(ReplicaStream::open(epoch, 0, history, &followers, [], limits))
    }

    /// Its sealed stream goes on in a later epoch, to these copies.
    pub(super) fn reopen(
        &mut self,
        epoch: u32,
        followers: &[(HostId, u64)],
        limits: ReplicaLimits,
    ) {
        let history = EpochHistory::of_epoch(0);
        let nothing = ReplicaStream::open(0, 0, history, &[], [], limits);
        let sealed = std::mem::replace(&mut self.stream, nothing);
        self.stream = sealed.reopen(epoch, followers);
    }

    fn keep_spare(&mut self, mut buffer: Vec<u8>) {
        if buffer.capacity() <= SPARE_BYTES_MAX {
            buffer.clear();
            self.spare = buffer;
        }
    }

    /// Of a stream that is open.
    pub(super) fn of(stream: ReplicaStream) -> Leading {
        Leading { stream, digest: None, settled: 0, spare: Vec::new() }
    }
}

impl Replica {
    /// What was logged goes to the copies: at the end of a round what others may depend on, and
    /// everything when nothing else has come.
    pub(super) fn hand_over_to_copies(
        &mut self,
        (now_us, all): (i64, bool),
        placement: &Placement,
        outbox: &mut Outbox<Envelope>,
    ) {
        let Replica { site, gate, leading, .. } = self;
        let Some(leading) = leading.as_mut().filter(|leading| !leading.stream.is_sealed()) else {
            return;
        };
        let is_due = if all { site.has_log_at_tick() } else { site.has_log_to_hand_over() };
        if is_due {
            let handed = site.take_log(std::mem::take(&mut leading.spare));
            leading.stream.log(Piece::of(&handed), now_us);
            leading.keep_spare(handed.bytes);
            gate.advance(placement.host(), leading.stream.end());
            leading.digest = site.decided_digest();
        }
        let settled = site.settled_sequence();
        if is_due || all && settled != leading.settled || all && leading.digest.is_some() {
            leading.settled = settled;
            leading.stream.advertise(gate.safe(), settled);
            leading.send(site.partition(), placement, outbox);
        }
    }
}

impl Replica {
    /// What was not sent to the copies is sent.
    pub(super) fn send_to_copies(&mut self, placement: &Placement, outbox: &mut Outbox<Envelope>) {
        let partition = self.partition();
        if let Some(leading) = &mut self.leading {
            leading.send(partition, placement, outbox);
        }
    }
}

impl Leading {
    fn send(
        &mut self,
        partition: PartitionId,
        placement: &Placement,
        outbox: &mut Outbox<Envelope>,
    ) {
        let end = self.stream.end();
        let digest = self.digest.take_if(|(position, _)| *position == end && end > 0);
        for copy in placement.followers_of(partition).iter().map(|thread| thread.host()) {
            while let Some(message) = self.stream.next_for(copy) {
                let is_last = message.piece.as_ref().is_none_or(|piece| piece.last() == end);
                let digest = digest.filter(|_| is_last);
                let said = CopyMessage::Stream(message, digest);
                let message = Envelope::Copy(Box::new(OfCopy { partition, copy, said }));
                outbox.send(placement.links_thread_of(copy), message);
            }
        }
    }
}

impl Shard {
    /// A copy of a partition that is led here says something.
    pub(super) fn copy_said(&mut self, message: OfCopy) {
        let OfCopy { partition, copy, said } = message;
        let Some(slot) = self.replicas.slot_of(partition) else { return };
        match said {
            CopyMessage::Receipt(receipt) => self.take_receipt(slot, copy, receipt),
            CopyMessage::Resume(after) => self.resume_copy(slot, copy, after),
            CopyMessage::Stream(..) | CopyMessage::Sealed(_) => {
                tracing::error!(%partition, host = %copy, "a message of a copy is not for a site");
            }
        }
    }

    fn take_receipt(&mut self, slot: Slot, copy: HostId, receipt: Receipt) {
        let Some(leading) = &mut self.replicas[slot].leading else { return };
        match leading.stream.receipt(copy, receipt) {
            ReceiptOutcome::Advanced(position) => {
                self.replicas[slot].gate.advance(copy, position);
                self.release_safe_of(slot);
            }
            ReceiptOutcome::NotSent => {
                tracing::error!(host = %copy, "a copy has a receipt for what was not sent");
            }
            ReceiptOutcome::Known | ReceiptOutcome::OtherEpoch | ReceiptOutcome::NotInSync => {}
        }
    }

    /// A copy lacks something that was sent to it.
    fn resume_copy(&mut self, slot: Slot, copy: HostId, after: Receipt) {
        let (now_us, placement) = (self.now_us, std::sync::Arc::clone(&self.placement));
        let partition = self.replicas[slot].site.partition();
        let Some(leading) = &mut self.replicas[slot].leading else { return };
        leading.stream.disconnected(copy);
        match leading.stream.reconnected(copy, after.epoch, after.position) {
            Ok(()) => {
                leading.send(partition, &placement, &mut self.outbox);
                self.replicas[slot].hand_over_to_copies(
                    (now_us, true),
                    &placement,
                    &mut self.outbox,
                );
            }
            Err(why) => {
                tracing::error!(%partition, host = %copy, ?why, "a copy cannot go on");
                self.propose_out_of_sync_of(partition, copy, after.epoch);
            }
        }
    }

    /// The stream of a partition that is led here ends its epoch: everything that was logged is in
    /// it, and nothing more is sent before the next one opens.
    pub(super) fn seal_stream(&mut self, slot: Slot, epoch: u32) -> Option<SealReport> {
        let Replica { site, leading, gate, .. } = &mut self.replicas[slot];
        let leading = leading.as_mut()?;
        if !leading.stream.is_sealed() && site.has_log_at_tick() {
            let piece = Piece::of(&site.take_log(Vec::new()));
            leading.stream.log(piece, self.now_us);
            gate.advance(self.facts.host, leading.stream.end());
        }
        leading.stream.seal(epoch)
    }
}
