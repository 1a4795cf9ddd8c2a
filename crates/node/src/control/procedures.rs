//! The handlers of system procedures, and what is checked before they have a call: the table's row
//! says who may call each, in which states of the host, and with which arguments
//! (`crates/plan/src/system_procedures.rs`).

use super::{Control, SystemCall, arguments, operations};
use crate::intake::Changes;
use lockstep_host::schema::Handled;
use lockstep_plan::system_procedures::{ABSENT, SystemProcedure, SystemProcedureId, UNAVAILABLE};
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

/// What answers calls of a system procedure in the control thread; `None` for those that the
/// thread of the connection answers.
fn handler(id: SystemProcedureId) -> Option<Handler> {
    use SystemProcedureId as Id;
    let handler: Handler = match id {
        Id::Ping | Id::Subscribe => return None,
        Id::AdHoc | Id::AdHocLarge => Control::ad_hoc,
        Id::AdHocSpForTest => Control::ad_hoc_at_partition,
        Id::CancelShutdown => |c, call, _| answered(c.cancel_shutdown(call.origin)),
        Id::Explain | Id::ExplainJSON => Control::explain,
        Id::ExplainCatalog => |c, call, _| answered(c.explain_catalog(call.origin)),
        Id::ExplainProc => |c, call, i| answered(c.explain_procedures(call.origin, i)),
        Id::ExplainView => |c, call, i| answered(c.explain_views(call.origin, i)),
        Id::GC => |c, call, _| answered(c.collect_garbage(call.origin)),
        Id::GetPartitionKeys => |c, call, i| answered(c.partition_keys(call.origin, i)),
        Id::LoadMultipartitionTable | Id::LoadSinglepartitionTable => Control::load,
        Id::MigratePartitionLeader => |c, call, i| c.migrate_leader(call.origin, i),
        Id::AddHost => |c, call, i| c.add_host(call.origin, i),
        Id::RemoveHost => |c, call, i| c.remove_host(call.origin, i),
        Id::KeepHost => |c, call, i| c.keep_host(call.origin, i),
        Id::MovePartitionCopy => |c, call, i| c.move_copy(call.origin, i),
        Id::Note => |c, call, i| answered(c.note(call.origin, i)),
        Id::Pause => |c, call, _| answered(c.set_paused(call.origin, true)),
        Id::PingPartitions => |c, call, _| Ok(c.ping_partitions(call.origin)),
        Id::PrepareShutdown => |c, call, _| answered(c.prepare_shutdown(call.origin)),
        Id::PrepareStopNode => |c, call, i| c.prepare_stop_node(call.origin, i),
        Id::ProfCtl => |c, call, i| answered(c.control_profiler(call.origin, i)),
        Id::Promote => |_, _, _| answered(operations::promote()),
        Id::QueryStats => |c, call, i| Ok(c.query_statistics(call.origin, i)),
        Id::Quiesce => |c, call, _| c.quiesce(call.origin),
        Id::Resume => |c, call, _| answered(c.set_paused(call.origin, false)),
        Id::SetKFactor => |c, call, i| c.set_k(call.origin, i),
        Id::Shutdown => |c, call, i| pending(c.shut_down(call.origin, i)),
        Id::SnapshotDelete => |c, call, i| c.snapshot_delete(call.origin, i),
        Id::SnapshotRestore => Control::snapshot_restore,
        Id::SnapshotSave => Control::snapshot_save,
        Id::SnapshotScan => |c, call, i| c.snapshot_scan(call.origin, i),
        Id::Statistics => |c, call, i| c.statistics(call.origin, i),
        Id::StopNode => |c, call, i| c.stop_node(call.origin, i),
        Id::SwapTables => Control::swap_tables,
        Id::SystemCatalog => |c, call, i| answered(c.system_catalog(call.origin, i)),
        Id::SystemClockSkew => |c, call, i| answered(c.clock_skew(call.origin, i)),
        Id::SystemInformation => |c, call, i| answered(c.system_information(call.origin, i)),
        Id::UpdateApplicationCatalog => |c, call, i| answered(c.update_catalog(call.origin, i)),
        Id::UpdateClasses => Control::update_classes,
        Id::UpdateLogging => |c, call, i| answered(c.update_logging(call.origin, i)),
        Id::ValidatePartitioning => |c, call, _| Ok(c.validate_partitioning(call.origin)),
    };
    Some(handler)
}

/// The failure of a system procedure that is not in the table.
fn unavailable(name: &str) -> Failure {
    if let Some((_, why)) = ABSENT.iter().find(|(absent, _)| *absent == name) {
        let text = format!("System procedure {name} is not available in this release: {why}");
        return Failure::graceful(text);
    }
    if UNAVAILABLE.contains(&name) {
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
        let procedure = SystemProcedure::find(name);
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
        if procedure.checked {
            arguments::check(procedure, invocation)?;
        }
        let handler = handler(procedure.id).ok_or_else(|| unavailable(name))?;
        handler(self, call, invocation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_plan::system_procedures::{AnsweredBy, TABLE};

    #[test]
    fn all_but_those_of_the_connection_have_a_handler() {
        for procedure in TABLE {
            let is_here = procedure.answered_by != AnsweredBy::Connection;
            assert_eq!(handler(procedure.id).is_some(), is_here, "{}", procedure.name);
        }
    }
}
