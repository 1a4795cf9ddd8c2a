//! `@LoadMultipartitionTable`: rows of a replicated table, through the coordinator. Also
//! `@LoadSinglepartitionTable` into a table with global indexes.

use super::ad_hoc::Destination;
use super::{Control, SystemCall};
use crate::intake::Changes;
use crate::load::{load_parameters, load_statement};
use lockstep_site::{BoundStatement, StatementCall};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Failure, SqlType, TableView};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

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
        self.facts.intake.check(Changes::Anything, call.admin)?;
        let load = load_parameters(invocation)?;
        let statement = load_statement(&self.catalog, &load)?;
        let bind = |parameters| BoundStatement {
            statement: Arc::clone(&statement),
            parameters,
            shipped: None,
            found: None,
            profile: None,
        };
        let rows = row_parameters(&load.rows)?;
        let work = StatementCall {
            statements: rows.into_iter().map(bind).collect(),
            read_only: false,
            counted: true,
            answer: None,
        };
        let destination = match load.key {
            Some(key) => Destination::One(self.facts.ring.partition_of(key)),
            None => Destination::Several,
        };
        self.send_work(call, work, destination);
        Ok(())
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
