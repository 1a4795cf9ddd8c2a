//! `@LoadMultipartitionTable`: rows of a replicated table, through the coordinator, and of one that
//! is partitioned by several columns: VoltDB's loaders cannot hash those, and take the table for a
//! replicated one. Also `@LoadSinglepartitionTable` into a table with global indexes.

use super::{Control, SystemCall};
use crate::catalog::HostCatalog;
use crate::intake::Changes;
use crate::shard::HostFacts;
use lockstep_host::load::{Load, load_parameters, load_statement};
use lockstep_host::routing::hashed_value;
use lockstep_host::schema::{Handled, Turn};
use lockstep_host::statements::StatementsDestination;
use lockstep_plan_ir::TableDefinition;
use lockstep_site::{AnswerForm, BoundStatement, StatementCall};
use lockstep_types::hashing::MAX_KEY_PARTS;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{
    Datum, Failure, HashRing, Parameter, SqlType, TableBuilder, TableSchema, TableView,
};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

impl Control {
    pub(super) fn load(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.schema.plan_turn(call)? else { return Ok(Handled::Pending) };
        self.facts.intake.check(Changes::Anything, call.admin)?;
        let load = load_parameters(invocation)?;
        let statement = load_statement(self.schema.catalog(), &load)?;
        let (count, rows) = rows_of_partitions(&self.facts, self.schema.catalog(), &load)?;
        let bound = BoundStatement {
            statement,
            parameters: Arc::from(ParameterWriter::default().bytes()),
            shipped: Some(Arc::new(rows)),
            found: None,
            profile: None,
        };
        let work = StatementCall {
            statements: vec![bound],
            read_only: false,
            answer: AnswerForm::Count(count),
        };
        self.send_work(call, work, StatementsDestination::Several);
        Ok(Handled::Pending)
    }
}

/// How many rows a load has, and per partition the table of those that live there; empty where
/// none do.
fn rows_of_partitions(
    facts: &HostFacts,
    catalog: &HostCatalog,
    load: &Load<'_>,
) -> Result<(i64, Vec<Vec<u8>>), Failure> {
    let partitions = facts.partition_count as usize;
    let mut tables = vec![Vec::new(); partitions];
    let rows = load.rows()?;
    let count = rows.row_count() as i64;
    let table = catalog.plan.table(&load.table.to_ascii_uppercase());
    match (load.key, table) {
        (Some(key), _) => {
            rows.write(&mut tables[facts.ring.partition_of(key).index()]);
        }
        (None, Some(table)) if table.definition.is_partitioned() => {
            split(&facts.ring, rows, &table.definition, &mut tables)?;
        }
        (None, _) => tables.iter_mut().for_each(|table| rows.write(table)),
    }
    Ok((count, tables))
}

/// Gives each partition its rows of a table.
fn split(
    ring: &HashRing,
    rows: &TableView<'_>,
    definition: &TableDefinition,
    tables: &mut [Vec<u8>],
) -> Result<(), Failure> {
    let types: Vec<SqlType> = (0..rows.column_count()).map(|c| rows.column_type(c)).collect();
    let named: Vec<(&str, SqlType)> = types.iter().map(|sql_type| ("", *sql_type)).collect();
    let schema = TableSchema::new(&named);
    let mut owners = Vec::with_capacity(rows.row_count() as usize);
    let mut values = Vec::new();
    for row in rows.rows() {
        values.clear();
        row.and_then(|row| row.read_into(&mut values)).map_err(|error| bad_row(&error))?;
        owners.push(owner(ring, &types, &values, definition)?);
    }
    for (partition, out) in tables.iter_mut().enumerate() {
        if !owners.contains(&partition) {
            continue;
        }
        let mut table = TableBuilder::begin(out, &schema);
        for (row, _) in rows.rows().zip(&owners).filter(|(_, owner)| **owner == partition) {
            values.clear();
            row.and_then(|row| row.read_into(&mut values)).map_err(|error| bad_row(&error))?;
            table.row(&schema, &values);
        }
        table.finish();
    }
    Ok(())
}

/// The partition of a row.
fn owner(
    ring: &HashRing,
    types: &[SqlType],
    values: &[Datum<'_>],
    definition: &TableDefinition,
) -> Result<usize, Failure> {
    let mut bytes = [const { Vec::new() }; MAX_KEY_PARTS];
    let mut keys = [Datum::Null; MAX_KEY_PARTS];
    let columns = definition.partition_columns.iter().map(|column| usize::from(*column));
    let count = definition.partition_columns.len().min(MAX_KEY_PARTS);
    for ((column, bytes), key) in columns.zip(&mut bytes).zip(&mut keys) {
        let defined = &definition.columns[column];
        let (Some(value), Some(sql_type)) = (values.get(column), types.get(column)) else {
            continue;
        };
        let parameter = Parameter::Scalar(*sql_type, *value);
        *key = hashed_value(&parameter, defined.sql_type, bytes).map_err(|reason| {
            Failure::graceful(format!("Partitioning column {}: {reason}", defined.name))
        })?;
    }
    Ok(ring.partition_of_values(keys[..count].iter().copied()).index())
}

fn bad_row(error: &impl std::fmt::Display) -> Failure {
    Failure::graceful(format!("A row of the table: {error}"))
}
