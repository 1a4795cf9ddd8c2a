//! What the thread of the links does for the copies of its host: their entries go to the command
//! log, their receipts and reports to other hosts, what they ask for to the control plane.

use super::Links;
use crate::mailbox::Crossing;
use crate::message::{Envelope, LogGivenBack, OpeningHere, SteppedDownHere};
use lockstep_cluster::{Command, Epoch};
use lockstep_host::copies::{ToThread, Wish};
use lockstep_types::PartitionId;
use std::sync::atomic::Ordering;

impl Links {
    /// Sends the receipts of the copies here.
    pub(super) fn send_receipts(&mut self) {
        self.log_pieces();
        for (partition, durable) in self.logs.note_durable() {
            self.copies.note_durable(partition, durable);
        }
        let backlogs = &self.facts.copy_backlogs;
        let limit = self.facts.options.max_copy_backlog_bytes.get();
        let is_behind =
            |partition: PartitionId| backlogs[partition.index()].load(Ordering::Relaxed) > limit;
        self.copies.send_receipts(is_behind, &mut self.sends);
        self.send_all();
    }

    /// What copies have taken goes to the log's thread.
    pub(super) fn log_pieces(&mut self) {
        for (partition, position, site) in self.copies.take_log_restarts() {
            self.logs.restart(partition, position, site);
        }
        let pieces = self.copies.take_to_log();
        self.logs.add(pieces);
    }

    /// A leader of this host was drained, and follows from now on.
    pub(super) fn follow_after_leading(&mut self, here: SteppedDownHere) {
        let SteppedDownHere { partition, site, stream, log } = here;
        let placement = self.facts.placement();
        let start = log.map(|log| self.logs.follow(partition, log));
        let copy = (partition, site);
        self.copies.follow_after_leading(copy, stream, start, &placement, &mut self.sends);
    }

    /// A copy that a site has does not count any more, and its end of the command log is here.
    pub(super) fn take_log_back(&mut self, given: LogGivenBack) {
        let LogGivenBack { partition, log } = given;
        let Some((site, attempt)) = self.logs.take_back(partition, log) else { return };
        if self.facts.placement().learning_of(partition).contains(&site) {
            self.sends.push((site, ToThread::LoadAgain(partition, attempt)));
        }
    }

    /// Proposes what the copies ask for.
    pub(super) fn send_wishes(&mut self) {
        for wish in self.copies.take_wishes() {
            let command = match wish {
                Wish::MoveLeader(partition, to, epoch) => {
                    Command::MoveLeader { partition, to, epoch: Epoch(epoch.into()) }
                }
                Wish::OutOfSync(partition, host, epoch) => {
                    Command::OutOfSync { partition, host, epoch: Epoch(epoch.into()) }
                }
            };
            tracing::warn!(?command, "the copies of a partition are not as they were placed");
            self.members.propose(command);
            self.attends = true;
        }
    }

    /// Sends what the copies have to say.
    pub(super) fn send_all(&mut self) {
        self.log_pieces();
        let Links { sends, logs, outbox, .. } = self;
        for (thread, message) in sends.drain(..) {
            let message = match message {
                ToThread::Copy(message) => Envelope::Copy(Box::new(message)),
                ToThread::Load(partition, part) => Envelope::Load(Box::new((partition, part))),
                ToThread::LoadAgain(partition, attempt) => {
                    if !logs.may_load(partition, (thread, attempt)) {
                        continue;
                    }
                    Envelope::LoadAgain(partition, attempt)
                }
                ToThread::Follow(piece) => Envelope::Follow(Box::new(piece)),
                ToThread::Open(opening) => {
                    let log = opening.log.as_ref().and_then(|_| logs.end(opening.partition));
                    Envelope::Open(Box::new(OpeningHere { opening, log }))
                }
            };
            if thread.host() == self.membership.host {
                outbox.send(thread, message);
                continue;
            }
            let Envelope::Outgoing(message) = message.to_other_host(thread, &mut outbox.spare)
            else {
                unreachable!("what goes to another host goes out")
            };
            self.unsent.push_back(message);
        }
        while !self.is_held_up() {
            let Some(message) = self.unsent.pop_front() else { break };
            self.offer(message);
        }
    }
}
