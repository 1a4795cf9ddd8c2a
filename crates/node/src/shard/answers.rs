//! Answers on their way back to the connection that waits for them.

use super::Shard;
use super::replica::Replica;
use crate::message::{ControlRequest, Envelope, ForwardedAnswer, NO_PROCEDURE, Origin};
use crate::own_call::OwnCall;
use lockstep_host::codec::SurveyedTable;
use lockstep_host::expiry;
use lockstep_site::ExpiryPoll;
use lockstep_types::{Failure, Status, TableId};
use lockstep_wire_volt::response;

impl Shard {
    /// Sends a whole response frame to the connection that waits for it: one that depends on no
    /// partition of this thread, or has waited for its log.
    pub(super) fn answer(&mut self, origin: Origin, status: Status, frame: Vec<u8>) {
        let answer = ForwardedAnswer { origin, status, frame };
        if origin.thread == self.thread {
            self.forwarded_answer(answer);
        } else {
            self.outbox.send(origin.thread, Envelope::Answer(answer));
        }
    }

    /// Answers with a failure.
    pub(super) fn answer_failure(&mut self, origin: Origin, failure: &Failure) {
        let mut frame = self.outbox.spare.take();
        let text = Some(failure.message.as_str());
        response::write_simple(&mut frame, origin.handle, failure.status, text);
        self.answer(origin, failure.status, frame);
    }

    /// An answer for a connection of this thread. The connection may be gone: then nobody waits.
    pub(super) fn forwarded_answer(&mut self, answer: ForwardedAnswer) {
        let Some(answer) = self.expected_answer(answer) else { return };
        let origin = answer.origin;
        if let Some(connection) = self.connections.get(origin.connection) {
            let weight = u32::from(origin.weight);
            connection.outstanding = connection.outstanding.saturating_sub(weight);
            connection.unanswered = connection.unanswered.saturating_sub(1);
            connection.traffic.messages_written += 1;
            connection.output.extend_from_slice(&answer.frame);
            self.connections.list_for_write(origin.connection);
        } else {
            match OwnCall::of(origin.connection) {
                Some(OwnCall::Task) => return self.answer_task(answer),
                Some(OwnCall::Load) => self.tell_load(&answer.frame),
                Some(OwnCall::Procedure) => self.answer_outside(&answer),
                // The control thread's own calls are not of this thread.
                _ => {}
            }
        }
        self.statistics.count_answer(&origin, answer.status, self.now_us);
        self.note_if_late(&origin);
        self.outbox.spare.give_back(answer.frame);
    }

    /// The response to a task's call: the control thread waits for it.
    fn answer_task(&mut self, answer: ForwardedAnswer) {
        self.task_calls = self.task_calls.saturating_sub(1);
        if answer.origin.procedure != NO_PROCEDURE {
            self.statistics.count_answer(&answer.origin, answer.status, self.now_us);
        }
        let control = self.placement.lead_control();
        self.outbox.send(control, Envelope::Answer(answer));
    }

    /// Tells the control thread how many rows the tables have at each replica, and shows some.
    pub(super) fn survey(&mut self, sample: &[TableId], rows: u32) {
        let of_replica = |replica: &Replica| {
            let database = replica.site.database();
            let surveyed = move |(table, count)| SurveyedTable {
                table,
                rows: count,
                sample: sample.contains(&table).then(|| database.sample(table, rows)),
            };
            database.row_counts().map(surveyed).collect::<Vec<_>>()
        };
        let led = self.replicas.iter().filter(|replica| replica.following.is_none());
        let tables = led.flat_map(of_replica).collect();
        let request = ControlRequest::Surveyed { thread: self.thread, tables };
        let control = self.placement.lead_control();
        self.outbox.send(control, Envelope::Control(Box::new(request)));
    }

    /// Tells the control thread how many rows there are whose time is over.
    pub(super) fn poll_expired(&mut self, catalog_version: u64, looks: &[ExpiryPoll]) {
        let Some(first) = looks.first() else { return };
        let Some(slot) = self.replicas.slot_of(first.partition) else { return };
        let database = self.replicas[slot].site.database();
        let is_current = catalog_version == self.catalog.version();
        let seen = expiry::poll(database, is_current, looks);
        let request = ControlRequest::ExpirySeen { catalog_version, seen };
        let control = self.placement.lead_control();
        self.outbox.send(control, Envelope::Control(Box::new(request)));
    }

    /// Sends this thread's numbers to the control thread.
    pub(super) fn send_statistics(&mut self, request: u64, validate: bool) {
        let (thread, catalog) = (self.thread, &self.catalog);
        let of_replica = |replica: &mut Replica| {
            let mut snapshot = replica.statistics.snapshot(thread, catalog, replica.data());
            let Replica { site, log, .. } = replica;
            if let Some(log) = log {
                let durable = log.refresh();
                snapshot.outstanding_entries = site.needed_log_sequence().saturating_sub(durable);
                // Entries that nobody depends on are no backlog.
                let is_waiting = site.has_log_to_hand_over();
                let waiting = if is_waiting { site.waiting_log_bytes() as u64 } else { 0 };
                snapshot.outstanding_bytes = log.unwritten_bytes() + waiting;
            }
            snapshot.mispartitioned = validate.then(|| site.database().mispartitioned_rows());
            snapshot
        };
        let replicas = self.replicas.iter_mut().map(of_replica).collect();
        let connections = self.connections.iter();
        let snapshot = self.statistics.snapshot(thread, catalog, replicas, connections);
        let gathered = ControlRequest::Gathered { request, snapshot: Box::new(snapshot) };
        let message = Envelope::Control(Box::new(gathered));
        self.send_when_all_safe(self.control_thread(), message);
    }
}
