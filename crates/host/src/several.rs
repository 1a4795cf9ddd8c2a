//! Calls that the coordinator takes through their rounds, as it gets them.

use crate::catalog::HostCatalog;
use lockstep_exec::watch::TimeLimit;
use lockstep_site::{
    BoundStatement, Home, MultiCall, MultiWork, OneRoundCall, OneRoundCalls, OneRoundRequest,
};
use lockstep_types::{HashRing, PartitionId};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

/// Bytes of the count in front of a parameter set.
const COUNT_BYTES: usize = 2;

/// Where a procedure's statements run that the coordinator takes through its rounds.
#[derive(Default)]
pub struct HomeOf {
    /// At this partition, if at one.
    pub home: Option<Home>,
    /// See [`MultiCall::led`].
    pub led: Option<BoundStatement>,
}

impl HomeOf {
    /// At a partition that the call's parameters name.
    pub fn known(home: Home) -> HomeOf {
        HomeOf { home: Some(home), led: None }
    }
}

/// A call of a procedure that needs several partitions.
pub struct SeveralCall<'a> {
    /// The call.
    pub invocation: &'a Invocation<'a>,
    /// The call as the client sent it.
    pub body: &'a [u8],
    /// The partitions that its procedure declares.
    pub declared: &'a [PartitionId],
    /// The number under which it is counted.
    pub number: u32,
    /// How long its queries may run.
    pub time_limit: Option<TimeLimit>,
    /// The partition of the thread where it came in.
    pub near: PartitionId,
}

/// Such a call on its way to the coordinator.
pub enum CoordinatorCall<M, C> {
    /// Of one round.
    OneRound(M, Arc<OneRoundCall>),
    /// Of as many as its procedure takes.
    Multi(Box<MultiCall<M, C>>),
}

/// Makes a call for the coordinator: of one round if it is such, else one that its procedure is
/// run for. `origin` makes who waits, of the invocation if the call does not hold it itself. None
/// if the catalog does not have the procedure.
pub fn call_for_coordinator<M, C, O>(
    catalog: &HostCatalog<O>,
    ring: &HashRing,
    one_rounds: &mut OneRoundCalls,
    call: &SeveralCall<'_>,
    HomeOf { home, led }: HomeOf,
    origin: impl FnOnce(Option<Arc<[u8]>>) -> M,
) -> Option<CoordinatorCall<M, C>> {
    let SeveralCall { invocation, body, declared, number, time_limit, near } = *call;
    let procedure = catalog.procedure(invocation.procedure)?;
    let catalog_version = catalog.version();
    if led.is_none() {
        let request = OneRoundRequest {
            procedure: &procedure.prepared,
            procedure_number: number,
            catalog_version,
            time_limit,
            declared,
            home,
            invocation: body,
            parameters_at: body.len() - invocation.parameters.bytes().len() - COUNT_BYTES,
            near,
        };
        if let Some(call) = one_rounds.make(&request, ring) {
            return Some(CoordinatorCall::OneRound(origin(None), call));
        }
    }
    let count = invocation.parameters.count() as u16;
    let parameters = invocation.parameters.bytes().iter().copied();
    let work = MultiWork::Procedure {
        procedure: Arc::clone(&procedure.prepared),
        parameters: count.to_be_bytes().into_iter().chain(parameters).collect(),
    };
    Some(CoordinatorCall::Multi(Box::new(MultiCall {
        origin: origin(Some(body.into())),
        procedure_number: number,
        catalog_version,
        time_limit,
        declared: declared.to_vec(),
        home,
        led,
        work,
    })))
}
