//! What the coordinator gives: messages to partitions and answers to clients.

use super::{Answer, BUILD_CALL, CallNumber, Message, SCHEMA_CALL, SNAPSHOT_CALL, World};
use lockstep_site::{CoordinatorOutput, OneRoundFinished};
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
        self.one_rounds.take_back(one_round, version);
        Answer { call, outcome, tables, at_partition: false }
    }

    pub(super) fn carry_out(&mut self, mut outputs: Vec<Output>) {
        while !outputs.is_empty() {
            let mut more = Vec::new();
            for call in self.carry_out_these(outputs) {
                self.make_anew(call, &mut more);
            }
            outputs = more;
        }
    }

    /// Gives the calls that have to be planned anew.
    fn carry_out_these(&mut self, outputs: Vec<Output>) -> Vec<CallNumber> {
        let mut overtaken = Vec::new();
        for output in outputs {
            match output {
                CoordinatorOutput::Send(message) => {
                    self.census.count_message(&message);
                    self.in_flight.push(Message::ToPartition(message));
                }
                CoordinatorOutput::Stale(call) | CoordinatorOutput::OneRoundStale(call, _) => {
                    overtaken.push(call);
                }
                CoordinatorOutput::OneRoundFinished(finished) => {
                    let answer = self.one_round_answer(finished);
                    self.answers.push(answer);
                }
                CoordinatorOutput::Finished(finished) => {
                    let (call, outcome) = (finished.origin, finished.outcome);
                    let tables = finished.tables;
                    match (call, &mut self.index_build) {
                        (SCHEMA_CALL, _) => self.schema_ended = Some(outcome),
                        (SNAPSHOT_CALL, _) => self.save_decided(&outcome),
                        (BUILD_CALL, Some(build)) => build.covered(outcome, &tables),
                        _ => {
                            let at_partition = false;
                            self.answers.push(Answer { call, outcome, tables, at_partition });
                        }
                    }
                }
                CoordinatorOutput::Thread { .. } => unreachable!("no procedure needs a thread"),
            }
        }
        overtaken
    }
}
