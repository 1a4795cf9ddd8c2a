//! A partition that is led here and has copies elsewhere: what it logs goes to them at the end of
//! each round, and what it answers waits until all of them have it.

use super::replica::Replica;
use super::{Shard, Slot};
use crate::mailbox::Outbox;
use crate::message::Envelope;
use lockstep_host::follower::codec::{CopyMessage, OfCopy};
use lockstep_host::placement::Placement;
use lockstep_txn::replica::{Receipt, ReceiptOutcome, SealReport};
use lockstep_types::HostId;

impl Replica {
    /// What was logged goes to the copies: at the end of a round what others may depend on, and
    /// everything when nothing else has come.
    pub(super) fn hand_over_to_copies(
        &mut self,
        round: (i64, bool),
        placement: &Placement,
        outbox: &mut Outbox<Envelope>,
    ) {
        let Replica { site, log, gate, leading, .. } = self;
        let Some(leading) = leading else { return };
        let is_logged = match log {
            None => match leading.take_log(site, round) {
                Some(end) => {
                    gate.advance(placement.host(), end);
                    true
                }
                None => false,
            },
            // What the log's thread cannot take now stays with the site.
            Some(log) => {
                let is_due = leading.is_due(site, round.1) && log.has_room();
                if is_due {
                    log.hand_over(|spare| leading.take_log_into(site, round.0, spare));
                }
                is_due
            }
        };
        if leading.advertise(site, gate.safe(), (is_logged, round.1)) {
            self.send_to_copies(placement, outbox);
        }
    }

    /// What was not sent to the copies is sent.
    pub(super) fn send_to_copies(&mut self, placement: &Placement, outbox: &mut Outbox<Envelope>) {
        let partition = self.partition();
        let Some(leading) = &mut self.leading else { return };
        let learning = placement.learning_of(partition);
        let copies = placement.followers_of(partition).iter().chain(learning);
        let copies = copies.map(|thread| thread.host());
        leading.send(copies, |copy, said| {
            let message = Envelope::Copy(Box::new(OfCopy { partition, copy, said }));
            outbox.send(placement.links_thread_of(copy), message);
        });
    }
}

impl Shard {
    /// A copy of a partition that is led here says something.
    pub(super) fn copy_said(&mut self, message: OfCopy) {
        let OfCopy { partition, copy, said } = message;
        if !self.replicas.has_copy(partition) {
            return tracing::debug!(%partition, host = %copy, "a copy asks a host without a copy");
        }
        // Also before the copy here leads, and while calls wait because it is to be moved.
        let slot = self.replicas.slot_of_copy(partition);
        match said {
            CopyMessage::Receipt(receipt) => self.take_receipt(slot, copy, receipt),
            CopyMessage::Resume(after) => self.resume_copy(slot, copy, after),
            CopyMessage::AskLoad(ask) => self.ask_load(slot, copy, ask),
            CopyMessage::Loaded(attempt, number) => {
                self.note_load_taken(slot, copy, (attempt, number));
            }
            CopyMessage::Kept(attempt) => self.note_kept(slot, copy, attempt),
            CopyMessage::AskPosition(asked_us) => self.tell_position(slot, copy, asked_us),
            CopyMessage::Position(asked_us, position) => {
                self.note_position(slot, asked_us, position);
            }
            CopyMessage::Stream(..)
            | CopyMessage::Sealed(_)
            | CopyMessage::Load(_)
            | CopyMessage::LoadAgain(_) => {
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
                if self.replicas[slot].loads.is_any() {
                    self.attend_to_loaded(slot);
                }
            }
            ReceiptOutcome::NotSent => {
                tracing::error!(host = %copy, "a copy has a receipt for what was not sent");
            }
            // The copy had it when the epoch opened, and its log has it by now.
            ReceiptOutcome::Known => {
                self.replicas[slot].gate.advance(copy, receipt.position);
                self.release_safe_of(slot);
            }
            ReceiptOutcome::OtherEpoch | ReceiptOutcome::NotInSync => {}
        }
    }

    /// A copy lacks something that was sent to it.
    fn resume_copy(&mut self, slot: Slot, copy: HostId, after: Receipt) {
        let (now_us, placement) = (self.now_us, std::sync::Arc::clone(&self.placement));
        let partition = self.replicas[slot].site.partition();
        let Some(leading) = &mut self.replicas[slot].leading else { return };
        match leading.resume(copy, after) {
            Ok(()) => {
                self.replicas[slot].send_to_copies(&placement, &mut self.outbox);
                self.replicas[slot].hand_over_to_copies(
                    (now_us, true),
                    &placement,
                    &mut self.outbox,
                );
            }
            Err(why) => {
                tracing::error!(%partition, host = %copy, ?why, "a copy cannot go on");
                if leading.stream.learners().any(|host| host == copy) {
                    return self.fail_learner(slot, copy);
                }
                self.propose_out_of_sync_of(partition, copy, after.epoch);
            }
        }
    }

    /// The stream of a partition that is led here ends its epoch: everything that was logged is in
    /// it, and nothing more is sent before the next one opens.
    pub(super) fn seal_stream(&mut self, slot: Slot, epoch: u32) -> Option<SealReport> {
        let now_us = self.now_us;
        let Replica { site, log, gate, leading, .. } = &mut self.replicas[slot];
        let leading = leading.as_mut()?;
        if let Some(log) = log
            && epoch > leading.stream.epoch()
            && leading.is_due(site, true)
        {
            log.hand_over_waiting(leading.take_log_into(site, now_us, Vec::new()));
        }
        let report = leading.seal(site, epoch, now_us)?;
        if log.is_none() {
            gate.advance(self.facts.host, report.end);
        }
        Some(report)
    }
}
