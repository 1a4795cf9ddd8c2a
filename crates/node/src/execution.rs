//! An invocation at its partition: from the decoded call to the response frame. The one piece of
//! code that every call goes through, whether it came over a socket or not.

use crate::catalog::HostProcedure;
use crate::statistics::ReplicaStatistics;
use lockstep_base::elapsed::Elapsed;
use lockstep_host::catalog::{Routing, not_found};
use lockstep_site::Site;
use lockstep_txn::EntryHeader;
use lockstep_types::{Outcome, ParameterSet, Status};
use lockstep_wire_volt::{Invocation, response};

/// Runs an invocation at a partition and appends the response frame to `output`. `procedure` is
/// what the catalog in force has under its name.
pub(crate) fn run_invocation<H, A, C: Clone>(
    site: &mut Site<H, A, C>,
    procedure: Option<&HostProcedure>,
    statistics: &mut ReplicaStatistics,
    header: &EntryHeader,
    invocation: &Invocation<'_>,
    waited: Elapsed,
    output: &mut Vec<u8>,
) -> Status {
    let start = response::begin(output);
    let outcome = match procedure {
        // The catalog changed while the call was on its way.
        None => Outcome::failed(not_found(invocation.procedure)),
        Some(procedure) => run(site, procedure, statistics, header, invocation, output),
    };
    response::finish(output, start, invocation.client_handle, &outcome, waited);
    outcome.failure.map_or(Status::Success, |failure| failure.status)
}

/// The same at a copy, for a procedure that only reads. The status text of a success tells the
/// client how stale the data is, in whole milliseconds.
pub(crate) fn run_read_at_copy<H, A, C: Clone>(
    site: &mut Site<H, A, C>,
    procedure: &HostProcedure,
    (statistics, waited, staleness_us): (&mut ReplicaStatistics, Elapsed, u64),
    header: &EntryHeader,
    invocation: &Invocation<'_>,
    output: &mut Vec<u8>,
) -> Status {
    assert!(procedure.definition.read_only, "a copy only reads");
    let start = response::begin(output);
    let outcome = run(site, procedure, statistics, header, invocation, output);
    let text = format!("Read at a follower; stale by at most {} ms", staleness_us.div_ceil(1_000));
    let handle = invocation.client_handle;
    response::finish_with_text(output, start, handle, &outcome, Some(&text), waited);
    outcome.failure.map_or(Status::Success, |failure| failure.status)
}

/// Appends the result tables after the reserved prefix of the response.
#[inline]
fn run<H, A, C: Clone>(
    site: &mut Site<H, A, C>,
    procedure: &HostProcedure,
    statistics: &mut ReplicaStatistics,
    header: &EntryHeader,
    invocation: &Invocation<'_>,
    output: &mut Vec<u8>,
) -> Outcome {
    let before = output.len();
    let timer = statistics.begin_call(procedure.number);
    if let Some(times) = statistics.lend_times(&timer) {
        site.lend_times(times);
    }
    let outcome = site.call(
        header,
        &procedure.prepared,
        procedure.number,
        &own_parameters(procedure, invocation),
        invocation.all_partition,
        output,
    );
    let result_bytes = output.len() - before;
    let parameter_bytes = invocation.parameters.bytes().len();
    if let Some(times) = site.take_times() {
        statistics.count_statements(&timer, times);
    }
    statistics.end_call(timer, &outcome, parameter_bytes, result_bytes);
    outcome
}

/// The parameters that the procedure gets: a directed procedure does not see the key that an
/// all-partition call puts in front.
#[inline]
fn own_parameters<'a>(procedure: &HostProcedure, invocation: &Invocation<'a>) -> ParameterSet<'a> {
    let given = invocation.parameters;
    if procedure.routing == Routing::Directed
        && given.count() == procedure.definition.parameters.len() + 1
    {
        return given.without_first().unwrap_or(given);
    }
    given
}
