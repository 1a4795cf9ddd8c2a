//! Bulk loads: what the calls `@LoadSinglepartitionTable` and `@LoadMultipartitionTable` ask for.
//! The rows of one call are inserted (or upserted) in one transaction, by the statement that the
//! table's generated procedure has.

use crate::catalog::HostCatalog;
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_plan::CatalogTable;
use lockstep_plan_ir::statement::IndexUpkeep;
use lockstep_types::{Datum, Failure, HashRing, Parameter, ParameterSet, TableView};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

/// The parameters of a load.
pub struct Load<'a> {
    /// Where to, for the load of a partitioned table.
    pub key: Option<Datum<'a>>,
    /// The table.
    pub table: &'a str,
    upsert: bool,
    /// The rows; none for NULL, which is refused after the table is found sound.
    rows: Option<TableView<'a>>,
}

impl<'a> Load<'a> {
    /// The rows.
    ///
    /// # Errors
    /// The call gave NULL.
    pub fn rows(&self) -> Result<&TableView<'a>, Failure> {
        self.rows.as_ref().ok_or_else(|| Failure::graceful("The table with the rows is NULL."))
    }
}

/// The call that loads rows of a partitioned table.
pub const LOAD_AT_PARTITION: &str = "@LoadSinglepartitionTable";

fn abort(text: impl std::fmt::Display) -> Failure {
    Failure::abort(format!("VOLTDB ERROR: USER ABORT {text}"))
}

fn scalar<'a>(parameters: &ParameterSet<'a>, place: usize) -> Option<Datum<'a>> {
    match parameters.get(place)? {
        Ok(Parameter::Scalar(_, value)) => Some(value),
        _ => None,
    }
}

/// Reads the parameters of either call.
///
/// # Errors
/// One is missing or of another type.
pub fn load_parameters<'a>(invocation: &Invocation<'a>) -> Result<Load<'a>, Failure> {
    let single = invocation.procedure == LOAD_AT_PARTITION;
    let parameters = &invocation.parameters;
    let name = invocation.procedure;
    let expected = if single { 4 } else { 3 };
    let count = parameters.count();
    if count != expected {
        return Err(Failure::graceful(format!(
            "VOLTDB ERROR: PROCEDURE {name} EXPECTS {expected} PARAMS, BUT RECEIVED {count}"
        )));
    }
    let first = expected - 3;
    let wrong = |place: usize, wanted: &str| {
        Failure::graceful(format!(
            "VOLTDB ERROR: PROCEDURE {name} TYPE ERROR FOR PARAMETER {place}: it must be {wanted}"
        ))
    };
    let key = match single {
        false => None,
        true => match scalar(parameters, 0) {
            Some(key @ (Datum::Bytes(_) | Datum::Null)) => Some(key),
            _ => return Err(wrong(0, "the VARBINARY bytes of a partitioning value")),
        },
    };
    let Some(Datum::Text(table)) = scalar(parameters, first) else {
        return Err(wrong(first, "a STRING with the name of a table"));
    };
    let Some(Datum::Int(upsert)) = scalar(parameters, first + 1) else {
        return Err(wrong(first + 1, "a TINYINT: 0 inserts, 1 upserts"));
    };
    let rows = match parameters.get(first + 2) {
        Some(Ok(Parameter::Table(rows))) => Some(rows),
        Some(Ok(Parameter::Scalar(_, Datum::Null))) => None,
        _ => return Err(wrong(first + 2, "a table with the rows")),
    };
    Ok(Load { key, table, upsert: upsert != 0, rows })
}

/// The statement that a load goes by in a catalog.
///
/// # Errors
/// The table cannot be loaded in this way, or has other columns.
pub fn load_statement<O>(
    catalog: &HostCatalog<O>,
    load: &Load<'_>,
) -> Result<Arc<PreparedStatement>, Failure> {
    let table = loaded_table(catalog, load)?;
    let name = &table.definition.name;
    let verb = if load.upsert { "upsert" } else { "insert" };
    let procedure = catalog.plan.procedure(&format!("{name}.{verb}"));
    let statement = procedure.and_then(|p| Some((p, p.statements.first()?)));
    let (definition, (_, statement)) = statement.ok_or_else(|| {
        abort(format!(
            "{verb} is not possible: the table {} does not have a primary key",
            load.table
        ))
    })?;
    let (given, expected) = (load.rows()?.column_count(), table.definition.visible_columns);
    if given != usize::from(expected) {
        return Err(abort(format!(
            "Number of arguments provided was {given} where {expected} was expected for \
             statement {};",
            statement.text
        )));
    }
    let origin = StatementOrigin::Procedure { definition: Arc::clone(definition), number: 0 };
    Ok(Arc::new(PreparedStatement::new(Arc::clone(statement)).with_origin(origin)))
}

/// The table that a load names, if it may be loaded in this way.
fn loaded_table<'c, O>(
    catalog: &'c HostCatalog<O>,
    load: &Load<'_>,
) -> Result<&'c CatalogTable, Failure> {
    let name = load.table.to_ascii_uppercase();
    let found = catalog.plan.table(&name);
    let table = found.ok_or_else(|| abort("Table not present in catalog."))?;
    if table.definition.view.is_some() {
        return Err(abort(format!("{name} is a materialized view: nobody but it writes it.")));
    }
    match (load.key.is_some(), table.definition.is_partitioned()) {
        (false, true) if table.definition.partition_columns.len() == 1 => Err(abort(
            "LoadMultipartitionTable no longer supports loading partitioned tables use CRUD \
             procs instead",
        )),
        (true, false) => {
            Err(abort("LoadSinglepartitionTable incompatible with replicated tables."))
        }
        _ => Ok(table),
    }
}

/// Whether a load changes entries of global indexes, which may live at other partitions.
pub fn loads_indexed<O>(
    catalog: &HostCatalog<O>,
    ring: &HashRing,
    invocation: &Invocation<'_>,
) -> bool {
    if !catalog.has_global_indexes() || ring.partition_count() == 1 {
        return false;
    }
    let prepared = load_parameters(invocation).and_then(|load| load_statement(catalog, &load));
    prepared.is_ok_and(|prepared| prepared.statement().upkeep != IndexUpkeep::None)
}
