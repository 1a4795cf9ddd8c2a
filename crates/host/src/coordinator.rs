//! The coordinator of multi-partition transactions at its host: what comes in for it, and what it
//! asks for, down to the calls that a schema change overtook while they waited.

use crate::HostTime;
use crate::several::CoordinatorCall;
use lockstep_site::fence::EndedChange;
use lockstep_site::{Coordinator, CoordinatorOutput, FromPartition, MultiWork, OneRoundCall};
use std::sync::Arc;

/// The surroundings of the coordinator.
pub trait CoordinatorHost: HostTime {
    /// Who waits for a call.
    type Origin;
    /// A catalog, as schema changes bring it.
    type Catalog: Clone;

    /// The coordinator.
    fn coordinator(&mut self) -> &mut Coordinator<Self::Origin, Self::Catalog>;

    /// Does what the coordinator asks for; never asked about overtaken calls.
    fn coordinator_output(&mut self, output: CoordinatorOutput<Self::Origin, Self::Catalog>);

    /// Plans a call again that a schema change overtook; none if it goes elsewhere or was answered.
    fn plan_overtaken(
        &mut self,
        overtaken: Overtaken<Self::Origin>,
    ) -> Option<CoordinatorCall<Self::Origin, Self::Catalog>>;

    /// The coordinator has taken over from one that was lost: how the last change of the catalog,
    /// or beginning of a snapshot, ended that any partition has seen. One that is not named has not
    /// taken place.
    fn took_over(&mut self, _ended: Vec<EndedChange>) {}

    /// Answers a call that finds too many waiting.
    fn refuse_waiting(&mut self, origin: Self::Origin, is_schema: bool);
}

/// A call that a schema change overtook while it waited for the coordinator.
pub enum Overtaken<O> {
    /// Its procedure or statements were planned.
    Planned(O),
    /// It was made to take one round.
    OneRound(O, Arc<OneRoundCall>),
}

/// What a coordinator asks for, in order.
pub type Outputs<H> =
    Vec<CoordinatorOutput<<H as CoordinatorHost>::Origin, <H as CoordinatorHost>::Catalog>>;

/// A call arrives at the coordinator. `outputs` is an empty list, kept for its memory.
pub fn submit<H: CoordinatorHost>(
    host: &mut H,
    call: CoordinatorCall<H::Origin, H::Catalog>,
    outputs: &mut Outputs<H>,
) {
    let now_us = host.now_us();
    let refused = match call {
        CoordinatorCall::Multi(call) => {
            let is_schema = matches!(call.work, MultiWork::Schema(_));
            let submitted = host.coordinator().submit(*call, now_us, outputs);
            submitted.map_err(|call| (call.origin, is_schema))
        }
        CoordinatorCall::OneRound(origin, call) => {
            let submitted = host.coordinator().submit_one_round(origin, call, now_us, outputs);
            submitted.map_err(|origin| (origin, false))
        }
    };
    if let Err((origin, is_schema)) = refused {
        host.refuse_waiting(origin, is_schema);
    }
    carry_out(host, outputs);
}

/// A partition answered the coordinator.
pub fn receive<H: CoordinatorHost>(host: &mut H, answer: FromPartition, outputs: &mut Outputs<H>) {
    let now_us = host.now_us();
    host.coordinator().receive(answer, now_us, outputs);
    carry_out(host, outputs);
    if let Some(ended) = host.coordinator().take_over_ended() {
        host.took_over(ended);
        host.coordinator().begin_waiting(now_us, outputs);
        carry_out(host, outputs);
    }
}

/// Does what the coordinator asks for, until nothing is left. The call that waits in front and was
/// overtaken is planned again first; those after it wait for that, so that no connection's calls
/// change their order.
pub fn carry_out<H: CoordinatorHost>(host: &mut H, outputs: &mut Outputs<H>) {
    while let Some(overtaken) = carry_out_to_overtaken(host, outputs) {
        let again = host.plan_overtaken(overtaken);
        let now_us = host.now_us();
        let coordinator = host.coordinator();
        match again {
            Some(CoordinatorCall::Multi(call)) => coordinator.submit_again(*call, now_us, outputs),
            Some(CoordinatorCall::OneRound(origin, call)) => {
                coordinator.submit_one_round_again(origin, call, now_us, outputs);
            }
            None => coordinator.leave_out(now_us, outputs),
        }
    }
}

/// Gives the call that has to be planned again, which is the last of the outputs.
fn carry_out_to_overtaken<H: CoordinatorHost>(
    host: &mut H,
    outputs: &mut Outputs<H>,
) -> Option<Overtaken<H::Origin>> {
    let mut overtaken = None;
    for output in outputs.drain(..) {
        assert!(overtaken.is_none(), "nothing begins until an overtaken call is planned again");
        match output {
            CoordinatorOutput::Stale(origin) => overtaken = Some(Overtaken::Planned(origin)),
            CoordinatorOutput::OneRoundStale(origin, call) => {
                overtaken = Some(Overtaken::OneRound(origin, call));
            }
            output => host.coordinator_output(output),
        }
    }
    overtaken
}
