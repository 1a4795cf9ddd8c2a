//! The calls that the control thread makes itself, and their responses.

use super::Control;
use crate::clock;
use crate::message::{ForwardedAnswer, NO_PROCEDURE, Origin};
use crate::own_call::OwnCall;
use lockstep_host::schema::index_build;
use lockstep_types::{Datum, Failure, Status};
use lockstep_wire_volt::Response;

/// Bytes of a frame's length.
pub(super) const LENGTH_BYTES: usize = 4;

impl Control {
    /// The origin of a call that this thread makes: its response comes back here, with the handle.
    pub(super) fn own_origin(&self, made_by: OwnCall, handle: i64) -> Origin {
        Origin {
            thread: self.facts.placement().control_thread(),
            connection: made_by.key(),
            handle,
            arrived_us: clock::now_us(),
            procedure: NO_PROCEDURE,
            weight: 0,
        }
    }

    /// Continues what the responses to this thread's own calls are for.
    pub(super) fn attend_to_own_calls(&mut self) {
        while let Some(answer) = self.own_answers.pop_front() {
            self.own_call_ended(&answer);
        }
    }

    fn own_call_ended(&mut self, answer: &ForwardedAnswer) {
        let ForwardedAnswer { origin, status, frame } = answer;
        match OwnCall::of(origin.connection) {
            Some(OwnCall::Task) => self.task_ended(answer),
            Some(OwnCall::Analysis) => self.analysis_ended(answer),
            Some(OwnCall::EachHost) => self.host_answered(answer),
            Some(OwnCall::Expiry) => self.expiry_ended(*origin, frame),
            Some(OwnCall::IndexBuild) => index_build::step_ended(self, read_count(*status, frame)),
            Some(OwnCall::Restore) => self.restore_call_ended(frame),
            // The decision on the transaction is the result (`SchemaHost::snapshot_decided`).
            Some(OwnCall::Snapshot) => {}
            Some(OwnCall::Load | OwnCall::Procedure) | None => {
                unreachable!("threads of connections keep the responses to {origin:?}")
            }
        }
    }

    /// Who waits for a call that has come in: a client, or this thread, whose call a schema change
    /// overtook. `None` where nobody does any more, or where the call is not repeated.
    pub(super) fn caller_of(&mut self, origin: Origin) -> Option<Origin> {
        match OwnCall::of(origin.connection) {
            Some(OwnCall::Expiry) => {
                self.expiry_overtaken(origin);
                None
            }
            Some(OwnCall::Analysis) => self.planner.analysis_overtaken(&origin),
            _ => Some(origin),
        }
    }
}

/// The count in the only row of a response, or why the transaction failed.
pub(super) fn read_count(status: Status, frame: &[u8]) -> Result<i64, Failure> {
    let body = frame.get(LENGTH_BYTES..).unwrap_or_default();
    let response = Response::decode(body).expect("a site of this host wrote the response");
    if !response.is_success() {
        return Err(Failure::new(status, response.status_text.unwrap_or_default()));
    }
    let table = response.tables().next().expect("a count comes in a table");
    match table.and_then(|table| table.scalar()) {
        Ok(Some(Datum::Int(count))) => Ok(count),
        other => unreachable!("a count is one integer, not {other:?}"),
    }
}
