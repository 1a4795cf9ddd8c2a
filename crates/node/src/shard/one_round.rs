//! Calls of one round, see `lockstep_site::OneRoundCall`: the thread where one comes in finds its
//! partitions (`lockstep_host::several`), and writes the answer when it has ended. In between it is
//! with the coordinator.

use super::Shard;
use crate::message::{Envelope, ForwardedAnswer, MultiOrigin, OneRoundEnd, OneRoundTables, Origin};
use crate::statistics::EndedCall;
use crate::transaction_counters::EndedTransaction;
use lockstep_base::elapsed::Elapsed;
use lockstep_site::{OneRoundFinished, write_tables_in_order};
use lockstep_types::{Failure, Outcome, Status};
use lockstep_wire_volt::response;

impl Shard {
    /// The own partition's part of a call waits for the others, while there is something else to do
    /// here. Else it runs beside them.
    #[inline]
    pub(super) fn send_late_when_idle(&mut self) {
        if self.coordinator.as_ref().is_some_and(|role| role.coordinator.has_late())
            && !self.connections.has_to_read()
            && !self.load_wants_to_call()
            && !self.has_message()
        {
            self.send_late();
        }
    }

    fn send_late(&mut self) {
        let Some(role) = &mut self.coordinator else { return };
        let mut outputs = role.take_outputs();
        role.coordinator.send_late(&mut outputs);
        self.carry_out(outputs);
        self.take_own_messages();
    }

    /// The coordinator is done with a call of one round.
    pub(super) fn finish_one_round(&mut self, finished: OneRoundFinished<MultiOrigin>) {
        let OneRoundFinished { origin, call, result, partition_count, rounds } = finished;
        let origin = origin.origin;
        let ended = EndedCall {
            transaction: Some(EndedTransaction {
                partition_count,
                of_partitions: self.facts.partition_count,
                rounds,
                enlargements: 0,
            }),
            result_bytes: result.as_ref().map_or(0, Vec::len),
            parameter_bytes: call.parameter_bytes(),
            failure: result.as_ref().err().map(|failure| failure.status),
        };
        self.replicas.first().statistics.count_multi(&origin, &ended, self.now_us);
        let end = OneRoundEnd { origin, call, result };
        match origin.thread {
            here if here == self.thread => self.one_round_finished(end),
            // The decision goes there too.
            thread => self.outbox.send_beside_urgent(thread, Envelope::OneRoundFinished(end)),
        }
    }

    /// A call of one round that came in here has ended.
    pub(super) fn one_round_finished(&mut self, end: OneRoundEnd) {
        let OneRoundEnd { origin, call, result } = end;
        let (mut frame, start) = self.begin_response();
        let outcome = match result {
            Err(failure) => Outcome::failed(*failure),
            Ok(answers) => {
                let is_whole = self.several.one_rounds.write_tables(&call, &answers, &mut frame);
                self.replicas.first().site.recycle(answers);
                outcome_of_tables(call.statement_count(), is_whole)
            }
        };
        self.several.one_rounds.recycle(call, self.catalog.version());
        self.answer_one_round(origin, frame, start, outcome);
    }

    /// The same of a call that came in here and ended in another process.
    pub(super) fn one_round_tables(&mut self, end: OneRoundTables) {
        let OneRoundTables { origin, order, result } = end;
        let (mut frame, start) = self.begin_response();
        let outcome = match result {
            Err(failure) => Outcome::failed(*failure),
            Ok(answers) => {
                let is_whole = write_tables_in_order(&order, &answers, &mut frame);
                outcome_of_tables(order.len(), is_whole)
            }
        };
        self.answer_one_round(origin, frame, start, outcome);
    }

    fn begin_response(&mut self) -> (Vec<u8>, usize) {
        let mut frame = self.outbox.spare.take();
        let start = response::begin(&mut frame);
        (frame, start)
    }

    fn answer_one_round(
        &mut self,
        origin: Origin,
        mut frame: Vec<u8>,
        start: usize,
        outcome: Outcome,
    ) {
        let waited = Elapsed::between_us(origin.arrived_us, self.now_us);
        response::finish(&mut frame, start, origin.handle, &outcome, waited);
        let status = outcome.failure.map_or(Status::Success, |failure| failure.status);
        self.forwarded_answer(ForwardedAnswer { origin, status, frame });
    }
}

/// How a call ends whose tables are all there, or not.
fn outcome_of_tables(count: usize, is_whole: bool) -> Outcome {
    match is_whole {
        true => Outcome::success(count as u16),
        false => Outcome::failed(Failure::unexpected(
            "A partition answered with other tables than the call has statements.",
        )),
    }
}
