//! What the coordinator gives: messages to partitions and answers to clients.

use super::{Answer, CallNumber, Message, World};
use lockstep_host::HostTime;
use lockstep_host::coordinator::{self, CoordinatorHost, Overtaken};
use lockstep_host::several::CoordinatorCall;
use lockstep_site::fence::EndedChange;
use lockstep_site::{Coordinator, CoordinatorOutput, OneRoundFinished};
use lockstep_types::{Failure, Outcome};

pub(super) type Output = CoordinatorOutput<CallNumber, u64>;

impl World {
    /// What the thread where a call of one round came in answers.
    fn one_round_answer(&mut self, finished: OneRoundFinished<CallNumber>) -> Answer {
        let OneRoundFinished { origin: call, call: one_round, result, .. } = finished;
        let (mut outcome, mut tables) = (Outcome::success(0), Vec::new());
        match result {
            Err(failure) => outcome = Outcome::failed(*failure),
            Ok(answers) => {
                let is_whole = self.one_rounds.write_tables(&one_round, &answers, &mut tables);
                if !is_whole {
                    outcome = Outcome::failed(Failure::unexpected("a table is missing"));
                }
            }
        }
        let version = self.versions[0];
        self.one_rounds.recycle(one_round, version);
        Answer { call, outcome, tables, at_partition: false }
    }

    /// A call arrives at the coordinator.
    pub(super) fn submit(&mut self, call: CoordinatorCall<CallNumber, u64>) {
        let origin = match &call {
            CoordinatorCall::Multi(call) => call.origin,
            CoordinatorCall::OneRound(origin, _) => *origin,
        };
        self.at.remove(&origin);
        self.at_coordinator.insert(origin);
        coordinator::submit(self, call, &mut Vec::new());
    }

    pub(super) fn carry_out(&mut self, mut outputs: Vec<Output>) {
        coordinator::carry_out(self, &mut outputs);
    }
}

impl HostTime for World {
    fn now_us(&self) -> i64 {
        self.now_us
    }
}

impl CoordinatorHost for World {
    type Origin = CallNumber;
    type Catalog = u64;

    fn coordinator(&mut self) -> &mut Coordinator<CallNumber, u64> {
        &mut self.coordinator
    }

    fn coordinator_output(&mut self, output: Output) {
        match output {
            CoordinatorOutput::Send(message) => {
                self.count_resolved(&message.message);
                self.census.count_message(&message);
                self.in_flight.push(Message::ToPartition(message));
            }
            CoordinatorOutput::OneRoundFinished(finished) => {
                let answer = self.one_round_answer(finished);
                self.at_coordinator.remove(&answer.call);
                self.answers.push(answer);
            }
            CoordinatorOutput::Finished(finished) => {
                self.at_coordinator.remove(&finished.origin);
                if self.finished_for_control(&finished) {
                    return;
                }
                let (call, outcome) = (finished.origin, finished.outcome);
                let (tables, at_partition) = (finished.tables, false);
                self.answers.push(Answer { call, outcome, tables, at_partition });
            }
            CoordinatorOutput::Thread { .. } => unreachable!("no procedure needs a thread"),
            CoordinatorOutput::Stale(_) | CoordinatorOutput::OneRoundStale(..) => {
                unreachable!("overtaken calls are planned again")
            }
        }
    }

    fn plan_overtaken(
        &mut self,
        overtaken: Overtaken<CallNumber>,
    ) -> Option<CoordinatorCall<CallNumber, u64>> {
        let (Overtaken::Planned(call) | Overtaken::OneRound(call, _)) = overtaken;
        let again = self.plan_at_coordinator(call);
        if again.is_none() {
            self.at_coordinator.remove(&call);
        }
        again
    }

    fn took_over(&mut self, ended: Vec<EndedChange>) {
        self.coordinator_took_over(&ended);
    }

    fn refuse_waiting(&mut self, call: CallNumber, _: bool) {
        unreachable!("the workload stays within the limits, and call {call} does not");
    }
}
