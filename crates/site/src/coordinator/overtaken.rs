//! Calls that a schema change overtook while they waited. They are planned again by the thread that
//! plans, and they keep their place: calls of one connection are ordered as they were sent, and
//! some of the later ones may have been planned with the new catalog.

use super::{Coordinator, CoordinatorOutput};
use crate::active::{Queued, Submitted};
use crate::message::MultiCall;
use crate::one_round::OneRoundCall;
use lockstep_types::TransactionId;
use std::sync::Arc;

impl<O, C: Clone> Coordinator<O, C> {
    /// The call that has just begun ends without having run anywhere, and goes to be planned again.
    pub(super) fn overtaken(
        &mut self,
        transaction: TransactionId,
        output: CoordinatorOutput<O, C>,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        self.initiator.decide(transaction, false, false);
        self.is_overtaken = true;
        outputs.push(output);
    }

    /// The call that was given out last with [`CoordinatorOutput::Stale`] or
    /// [`CoordinatorOutput::OneRoundStale`] has new plans, of the catalog that is in force at all
    /// partitions by then: it goes where it was.
    pub fn submit_again(
        &mut self,
        call: MultiCall<O, C>,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        let submitted = Submitted { call, needed: Vec::new(), enlargements: 0, begun_us: None };
        self.go_on(Some(Queued::Planned(Box::new(submitted))), now_us, outputs);
    }

    /// The same, and it is a call of one round now.
    pub fn submit_one_round_again(
        &mut self,
        origin: O,
        call: Arc<OneRoundCall>,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        self.go_on(Some(Queued::OneRound(origin, call)), now_us, outputs);
    }

    /// The call that was given out last ended, or is no concern of the coordinator any more.
    pub fn leave_out(&mut self, now_us: i64, outputs: &mut Vec<CoordinatorOutput<O, C>>) {
        self.go_on(None, now_us, outputs);
    }

    fn go_on(
        &mut self,
        call: Option<Queued<O, C>>,
        now_us: i64,
        outputs: &mut Vec<CoordinatorOutput<O, C>>,
    ) {
        assert!(self.is_overtaken, "one call was given out to be planned again");
        self.is_overtaken = false;
        self.now_us = now_us;
        if let Some(call) = call {
            let version = match &call {
                Queued::Planned(submitted) => submitted.call.catalog_version,
                Queued::OneRound(_, call) => call.catalog_version,
            };
            assert_eq!(version, self.catalog_version, "it is planned with the catalog in force");
            match self.faults.overtaken_go_last() {
                true => drop(self.initiator.submit(call, false)),
                false => self.initiator.resubmit(call, false),
            }
        }
        self.begin(now_us, outputs);
    }
}
