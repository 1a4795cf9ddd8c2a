//! WITH LOCAL DATA: procedures whose statements work on the rows of the call's partition.

use lockstep_plan_ir::{ProcedureDefinition, Statement as PlannedStatement};
use lockstep_sql::ast::{CreateProcedure, ParsedStatement, ProcedureKind, Statement};

/// Whether the clause means anything: the procedure runs at one partition that a call names.
fn is_at_one_partition(create: &CreateProcedure) -> bool {
    create.partitions.len() == 1 && create.kind == ProcedureKind::Plain
}

/// Declares a new procedure WITH LOCAL DATA where that is the database's default. The declaration
/// is kept with the procedure: a later change of the default does not reach it.
pub(super) fn take_default(source: &mut ParsedStatement, default: bool) {
    if let Statement::CreateProcedure(create) = &mut source.statement {
        create.local_data |= default && is_at_one_partition(create);
    }
}

/// Refuses the clause where it would mean nothing.
pub(super) fn check(create: &CreateProcedure) -> Result<(), &'static str> {
    match create.local_data && !is_at_one_partition(create) {
        true => Err("WITH LOCAL DATA requires one PARTITION ON TABLE clause, without DIRECTED"),
        false => Ok(()),
    }
}

/// A planned statement of a procedure that is WITH LOCAL DATA, or not.
pub(super) fn marked(mut statement: PlannedStatement, local: bool) -> PlannedStatement {
    statement.guards.iter_mut().for_each(|guard| guard.local = local);
    statement
}

/// Warns of the statements that do not name a value of the partitioning column, so that they see
/// the rows of one partition.
pub(super) fn advice(procedure: &ProcedureDefinition) -> Option<String> {
    let mut local = Vec::new();
    for (name, statement) in &procedure.statements {
        let unrestricted =
            |guard: &&lockstep_plan_ir::statement::Guard| guard.local && guard.value.is_none();
        if let Some(guard) = statement.guards.iter().find(unrestricted) {
            local.push(format!("{name} on table {} ({})", guard.table_name, statement.text));
        }
    }
    (!local.is_empty()).then(|| {
        format!(
            "Procedure {} is WITH LOCAL DATA: of a partitioned table these statements read and \
             change only the rows at the partition of the call: {}.",
            procedure.name,
            local.join("; ")
        )
    })
}
