//! Bulk loading: `@LoadSinglepartitionTable` and `@LoadMultipartitionTable`. The rows of one call
//! are inserted (or upserted) in one transaction, by the statement that the table's generated
//! procedure has.

use super::ad_hoc::Destination;
use super::{Control, SystemCall};
use lockstep_exec::statement::PreparedStatement;
use lockstep_plan::CatalogTable;
use lockstep_site::{BoundStatement, StatementCall};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Failure, Parameter, ParameterSet, PartitionId, SqlType, TableView};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

/// The parameters of a load.
struct Load<'a> {
    /// Where to, for the load of a partitioned table.
    key: Option<Datum<'a>>,
    table: &'a str,
    upsert: bool,
    rows: TableView<'a>,
}

fn abort(text: impl std::fmt::Display) -> Failure {
    Failure::abort(format!("VOLTDB ERROR: USER ABORT {text}"))
}

fn scalar<'a>(parameters: &ParameterSet<'a>, place: usize) -> Option<Datum<'a>> {
    match parameters.get(place)? {
        Ok(Parameter::Scalar(_, value)) => Some(value),
        _ => None,
    }
}

fn load_parameters<'a>(invocation: &Invocation<'a>, single: bool) -> Result<Load<'a>, Failure> {
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
    let Some(Ok(Parameter::Table(rows))) = parameters.get(first + 2) else {
        return Err(wrong(first + 2, "a table with the rows"));
    };
    Ok(Load { key, table, upsert: upsert != 0, rows })
}

impl Control {
    pub(super) fn load(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        if self.next_catalog.is_some() {
            self.wait_for_schema(call);
            return Ok(());
        }
        self.check_not_paused(call.admin)?;
        let single = invocation.procedure == "@LoadSinglepartitionTable";
        let load = load_parameters(invocation, single)?;
        let table = self.loaded_table(&load)?;
        let column_count = usize::from(table.definition.visible_columns);
        let statement = self.load_statement(&table, load.upsert)?;
        let given = load.rows.column_count();
        if given != column_count {
            return Err(abort(format!(
                "Number of arguments provided was {given} where {column_count} was expected for \
                 statement {};",
                statement.statement().text
            )));
        }
        let bind = |parameters| BoundStatement {
            statement: Arc::clone(&statement),
            parameters,
            shipped: None,
        };
        let rows = row_parameters(&load.rows)?;
        let work = StatementCall {
            statements: rows.into_iter().map(bind).collect(),
            read_only: false,
            counted: true,
        };
        let destination = match load.key {
            None => Destination::Several,
            Some(Datum::Null) => Destination::One(PartitionId(0)),
            Some(key) => Destination::One(self.facts.ring.partition_of(key)),
        };
        self.send_work(call, work, destination);
        Ok(())
    }

    /// The table that a load names, if it may be loaded in this way.
    fn loaded_table(&self, load: &Load<'_>) -> Result<Arc<CatalogTable>, Failure> {
        let name = load.table.to_ascii_uppercase();
        let found = self.catalog.plan.table(&name);
        let table = found.ok_or_else(|| abort("Table not present in catalog."))?;
        if table.definition.view.is_some() {
            return Err(abort(format!("{name} is a materialized view: nobody but it writes it.")));
        }
        match (load.key.is_some(), table.definition.partition_column.is_some()) {
            (false, true) => Err(abort(
                "LoadMultipartitionTable no longer supports loading partitioned tables use CRUD \
                 procs instead",
            )),
            (true, false) => {
                Err(abort("LoadSinglepartitionTable incompatible with replicated tables."))
            }
            _ => Ok(Arc::clone(table)),
        }
    }

    fn load_statement(
        &self,
        table: &CatalogTable,
        upsert: bool,
    ) -> Result<Arc<PreparedStatement>, Failure> {
        let verb = if upsert { "upsert" } else { "insert" };
        let name = &table.definition.name;
        let procedure = self.catalog.plan.procedure(&format!("{name}.{verb}"));
        let statement = procedure.and_then(|procedure| procedure.statements.first());
        let (_, statement) = statement.ok_or_else(|| {
            abort(format!("Table {name} has no primary key that an upsert could go by."))
        })?;
        Ok(Arc::new(PreparedStatement::new(Arc::clone(statement))))
    }
}

/// Every row as a parameter set.
fn row_parameters(rows: &TableView<'_>) -> Result<Vec<Arc<[u8]>>, Failure> {
    let types: Vec<SqlType> = (0..rows.column_count()).map(|c| rows.column_type(c)).collect();
    let mut values = Vec::new();
    let mut sets = Vec::new();
    let mut writer = ParameterWriter::default();
    for row in rows.rows() {
        values.clear();
        let read = row.and_then(|row| row.read_into(&mut values));
        read.map_err(|error| Failure::graceful(format!("A row of the table: {error}")))?;
        writer.clear();
        for (sql_type, value) in types.iter().zip(&values) {
            writer.scalar(*sql_type, *value);
        }
        sets.push(Arc::from(writer.bytes()));
    }
    Ok(sets)
}
