//! The system procedures: for each its name, its parameters, who may call it, when it is taken,
//! and what answers it. `@Ping` and `@Subscribe` are not here: the thread of the connection
//! answers them (`system_call` in `crates/node/src/shard/calls.rs`).

use super::arguments::{Arguments, Kind, Refusal};
use super::{Control, SystemCall, operations};
use crate::intake::Changes;
use lockstep_host::schema::Handled;
use lockstep_types::Failure;
use lockstep_wire_volt::Invocation;

/// What answers a call.
type Handler = fn(&mut Control, SystemCall, &Invocation<'_>) -> Result<Handled, Failure>;

/// The handler's call has its response, if it was not refused.
fn answered(handled: Result<(), Failure>) -> Result<Handled, Failure> {
    handled.map(|()| Handled::Answered)
}

/// The handler's call gets its response later, if it was not refused.
fn pending(handled: Result<(), Failure>) -> Result<Handled, Failure> {
    handled.map(|()| Handled::Pending)
}

/// A system procedure.
pub(super) struct SystemProcedure {
    name: &'static str,
    arguments: Arguments,
    /// Only connections to the administrators' port may call it.
    administrators: bool,
    /// Clients may call it while an administrator has paused the host.
    while_paused: bool,
    /// It is taken while a stop is prepared.
    while_stopping: bool,
    handler: Handler,
}

const fn procedure(name: &'static str, arguments: Arguments, handler: Handler) -> SystemProcedure {
    SystemProcedure {
        name,
        arguments,
        administrators: false,
        while_paused: false,
        while_stopping: false,
        handler,
    }
}

impl SystemProcedure {
    const fn administrators(self) -> Self {
        SystemProcedure { administrators: true, ..self }
    }

    const fn while_paused(self) -> Self {
        SystemProcedure { while_paused: true, ..self }
    }

    const fn while_stopping(self) -> Self {
        SystemProcedure { while_stopping: true, ..self }
    }
}

const NOTHING: Arguments = Arguments::declared(&[]);
const TEXT: Arguments = Arguments::declared(&[Kind::Text]);

/// All of them, by name. What a call may change is held against the state of the host by the
/// handler; a pause is held against the call here, except for ad hoc statements, which are taken
/// if they only read.
static TABLE: &[SystemProcedure] = &[
    procedure("@AdHoc", Arguments::Own, Control::ad_hoc).while_paused(),
    procedure("@AdHocLarge", Arguments::Own, Control::ad_hoc),
    procedure("@AdHocSpForTest", Arguments::Own, Control::ad_hoc_at_partition).while_paused(),
    procedure("@CancelShutdown", NOTHING, |c, call, _| answered(c.cancel_shutdown(call.origin)))
        .administrators()
        .while_stopping(),
    procedure("@Explain", Arguments::Own, Control::explain).while_paused(),
    procedure("@ExplainCatalog", Arguments::Own, |c, call, _| {
        answered(c.explain_catalog(call.origin))
    })
    .while_paused(),
    procedure("@ExplainJSON", Arguments::Own, Control::explain).while_paused(),
    procedure("@ExplainProc", TEXT, |c, call, i| answered(c.explain_procedures(call.origin, i)))
        .while_paused(),
    procedure("@ExplainView", TEXT, |c, call, i| answered(c.explain_views(call.origin, i)))
        .while_paused(),
    procedure("@GC", NOTHING, |c, call, _| answered(c.collect_garbage(call.origin))),
    procedure("@GetPartitionKeys", Arguments::Own, |c, call, i| {
        answered(c.partition_keys(call.origin, i))
    })
    .while_paused()
    .while_stopping(),
    procedure("@LoadMultipartitionTable", Arguments::Own, Control::load),
    procedure(lockstep_host::load::LOAD_AT_PARTITION, Arguments::Own, Control::load),
    procedure("@Note", TEXT, |c, call, i| answered(c.note(call.origin, i))).while_stopping(),
    procedure("@Pause", NOTHING, |c, call, _| answered(c.set_paused(call.origin, true)))
        .administrators(),
    procedure("@PingPartitions", Arguments::declared(&[Kind::Integer]), |c, call, _| {
        pending(c.ping_partitions(call.origin))
    }),
    procedure("@PrepareShutdown", NOTHING, |c, call, _| answered(c.prepare_shutdown(call.origin)))
        .administrators()
        .while_stopping(),
    procedure("@ProfCtl", TEXT, |c, call, i| answered(c.control_profiler(call.origin, i))),
    procedure("@Promote", NOTHING, |_, _, _| {
        Err(Failure::graceful("@Promote issued on a non-replica cluster. No action taken."))
    }),
    procedure("@QueryStats", Arguments::Own, |c, call, i| Ok(c.query_statistics(call.origin, i)))
        .while_paused(),
    procedure("@Quiesce", NOTHING, |c, call, _| c.quiesce(call.origin)).while_stopping(),
    procedure("@Resume", NOTHING, |c, call, _| answered(c.set_paused(call.origin, false)))
        .administrators(),
    procedure("@Shutdown", Arguments::upto(&[Kind::TextOrInteger]), |c, call, i| {
        pending(c.shut_down(call.origin, i))
    })
    .administrators()
    .while_stopping(),
    procedure("@SnapshotDelete", Arguments::SnapshotDelete, |c, call, i| {
        pending(c.snapshot_delete(call.origin, i))
    }),
    procedure("@SnapshotRestore", Arguments::SnapshotRestore, Control::snapshot_restore),
    procedure("@SnapshotSave", Arguments::SnapshotSave, Control::snapshot_save).while_stopping(),
    procedure("@SnapshotScan", Arguments::SnapshotScan, |c, call, i| {
        pending(c.snapshot_scan(call.origin, i))
    })
    .while_stopping(),
    procedure("@Statistics", Arguments::Own, |c, call, i| c.statistics(call.origin, i))
        .while_paused()
        .while_stopping(),
    procedure("@StopNode", Arguments::Own, |c, _, i| answered(c.stop_node(i))),
    procedure("@SwapTables", Arguments::Own, Control::swap_tables),
    procedure("@SystemCatalog", Arguments::Own, |c, call, i| {
        answered(c.system_catalog(call.origin, i))
    })
    .while_paused()
    .while_stopping(),
    procedure("@SystemClockSkew", Arguments::Own, |c, call, i| {
        answered(c.clock_skew(call.origin, i))
    })
    .while_paused(),
    procedure("@SystemInformation", Arguments::Own, |c, call, i| {
        answered(c.system_information(call.origin, i))
    })
    .while_paused()
    .while_stopping(),
    procedure(
        "@UpdateApplicationCatalog",
        Arguments::declared(&[Kind::Bytes, Kind::Text]),
        |c, call, i| answered(c.update_catalog(call.origin, i)),
    ),
    procedure("@UpdateClasses", Arguments::Own, Control::update_classes),
    procedure("@UpdateLogging", TEXT, |c, call, i| answered(c.update_logging(call.origin, i))),
    // VoltDB's older clients give a number or nothing before the configuration of the hashing.
    procedure("@ValidatePartitioning", Arguments::Own, |c, call, _| {
        pending(c.validate_partitioning(call.origin))
    }),
];

/// System procedures of VoltDB whose feature is not in this release, with why.
const ABSENT: &[(&str, &str)] = &[
    ("@CheckUpgradePlanNT", "upgrades in service need several hosts, and this cluster has one"),
    ("@ElasticRemoveNT", "elastic resizing needs several hosts, and this cluster has one"),
    ("@ExportControl", "this release exports no streams"),
    ("@JStack", "thread dumps are Java's; use gdb or perf on this process"),
    ("@MigratePartitionLeader", "this cluster has one host, which leads all partitions"),
    ("@PrepareStopNode", "this cluster has one host: shut it down instead"),
    ("@ResetDR", "this release has no replication between clusters"),
    ("@StopReplicas", "this release has no replicas"),
    ("@TopicControl", "this release has no topics"),
    ("@UpdateLicense", "this database needs no license key (Apache-2.0)"),
];

/// System procedures of VoltDB that are not available here.
const LATER: &[&str] = &[
    "@AdHoc_RO_MP",
    "@AdHoc_RO_SP",
    "@AdHoc_RW_MP",
    "@AdHoc_RW_SP",
    "@GetHashinatorConfig",
    "@LowImpactDeleteNT",
    "@Trace",
    "@UpdateSettings",
];

fn find(name: &str) -> Option<&'static SystemProcedure> {
    TABLE.iter().find(|procedure| procedure.name == name)
}

/// The failure of a system procedure that is not in the table.
fn unavailable(name: &str) -> Failure {
    if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| *absent == name) {
        let text = format!("System procedure {name} is not available in this release: {why}");
        return Failure::graceful(text);
    }
    if LATER.contains(&name) {
        let text = format!("System procedure {name} is not available in this release");
        return Failure::graceful(text);
    }
    Failure::unexpected(format!("Procedure {name} was not found"))
}

impl Control {
    /// Answers a call of a system procedure, or begins what answers it later.
    ///
    /// # Errors
    /// What the caller gets instead.
    pub(super) fn system_procedure(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let name = invocation.procedure;
        let procedure = find(name);
        if !procedure.is_some_and(|procedure| procedure.while_stopping) {
            self.facts.intake.check(Changes::Nothing, call.admin)?;
        }
        let procedure = procedure.ok_or_else(|| unavailable(name))?;
        if procedure.administrators && !call.admin {
            return Err(operations::not_available(name));
        }
        if !procedure.while_paused {
            self.facts.intake.check_pause(call.admin)?;
        }
        match procedure.arguments.check(invocation) {
            Ok(()) => (procedure.handler)(self, call, invocation),
            Err(Refusal::Failure(failure)) => Err(failure),
            Err(Refusal::Table(text)) => {
                self.answer_error_table(call.origin, &text);
                Ok(Handled::Answered)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_there_once() {
        let absent = || LATER.iter().copied().chain(ABSENT.iter().map(|(name, _)| *name));
        let names = || TABLE.iter().map(|procedure| procedure.name).chain(absent());
        for name in names() {
            assert_eq!(names().filter(|other| *other == name).count(), 1, "{name}");
            assert!(name.starts_with('@'), "{name}");
        }
    }

    #[test]
    fn tasks_call_procedures_that_there_are() {
        for name in lockstep_plan::task_procedures() {
            assert!(name == "@Ping" || find(name).is_some(), "{name}");
        }
    }
}
