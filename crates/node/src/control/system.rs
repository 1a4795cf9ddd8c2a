//! System procedures that the catalog and the host's facts answer.

use super::deployment::{self, Property};
use super::{Control, answer, members, overview};
use crate::message::Origin;
use lockstep_base::elapsed::Elapsed;
use lockstep_types::{Datum, Failure, Outcome, Parameter, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::topology::{KeyType, partition_keys, write_partition_keys};
use lockstep_wire_volt::{Invocation, response};
use std::sync::Arc;

/// Appends the answer of `@Ping`, which carries the status text SUCCESS.
pub fn write_ping(out: &mut Vec<u8>, handle: i64) {
    let start = response::begin(out);
    let table_count = answer::write_status(out);
    let outcome = Outcome::success(table_count);
    response::finish_with_text(out, start, handle, &outcome, Some("SUCCESS"), Elapsed::ZERO);
}

/// The text of a parameter, if it is one.
pub(super) fn text_parameter<'a>(invocation: &Invocation<'a>, index: usize) -> Option<&'a str> {
    match invocation.parameters.get(index)? {
        Ok(Parameter::Scalar(_, Datum::Text(text))) => Some(text),
        _ => None,
    }
}

impl Control {
    pub(super) fn system_catalog(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let count = invocation.parameters.count();
        if count != 1 {
            return Err(Failure::graceful(format!(
                "Incorrect number of arguments to @SystemCatalog (expects 1, received {count})"
            )));
        }
        let selector = text_parameter(invocation, 0).unwrap_or("").to_ascii_uppercase();
        let catalog = Arc::clone(self.schema.catalog());
        if selector == "PROCEDURES" {
            self.answer_tables(origin, |out| answer::procedures(out, &catalog));
            return Ok(());
        }
        let listing = catalog.plan.listing(&selector).map_err(Failure::graceful)?;
        self.answer_tables(origin, |out| {
            listing.write(out);
            1
        });
        Ok(())
    }

    pub(super) fn partition_keys(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let count = invocation.parameters.count();
        if count != 1 {
            return Err(Failure::graceful(
                "GetPartitionKeys must have one string parameter specifying the type of \
                 partition key to return and can be one of INTEGER, STRING or VARCHAR \
                 (equivalent), or VARBINARY",
            ));
        }
        let key_type = KeyType::parse(text_parameter(invocation, 0).unwrap_or("null"))?;
        let facts = Arc::clone(&self.facts);
        self.answer_tables(origin, |out| {
            let keys = partition_keys(&facts.ring, key_type);
            write_partition_keys(out, key_type, &keys)
        });
        Ok(())
    }

    /// `@UpdateApplicationCatalog`.
    pub(super) fn update_catalog(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let settings = deployment::settings(&self.facts, self.log_pruner.is_some());
        deployment::check_update(invocation, &settings)?;
        self.answer_status(origin)
    }

    pub(super) fn system_information(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let selector = match invocation.parameters.count() {
            0 => "OVERVIEW".to_string(),
            1 => text_parameter(invocation, 0)
                .ok_or_else(|| {
                    Failure::graceful(
                        "First argument to @SystemInformation must be a valid STRING selector, \
                         instead was null",
                    )
                })?
                .to_ascii_uppercase(),
            count => {
                return Err(Failure::graceful(format!(
                    "VOLTDB ERROR: PROCEDURE @SystemInformation EXPECTS 1 PARAMS, BUT RECEIVED \
                     {count}"
                )));
            }
        };
        match selector.as_str() {
            "OVERVIEW" => {
                let facts = Arc::clone(&self.facts);
                let version = self.schema.catalog().version();
                self.answer_tables(origin, |out| overview::write(out, &facts, version));
            }
            members::SELECTOR => {
                let facts = Arc::clone(&self.facts);
                self.answer_tables(origin, |out| members::write(out, &facts));
            }
            "DEPLOYMENT" => {
                let rows = deployment::settings(&self.facts, self.log_pruner.is_some());
                self.answer_tables(origin, |out| write_properties(out, &rows));
            }
            "LICENSE" => {
                let rows = vec![("LICENSE".to_string(), "Apache-2.0".to_string())];
                self.answer_tables(origin, |out| write_properties(out, &rows));
            }
            other => {
                return Err(Failure::graceful(format!(
                    "Invalid @SystemInformation selector {other}; use OVERVIEW, DEPLOYMENT, \
                     LICENSE or CLUSTER"
                )));
            }
        }
        Ok(())
    }
}

fn write_properties(out: &mut Vec<u8>, rows: &[Property]) -> u16 {
    let schema = TableSchema::new(&[("PROPERTY", SqlType::Varchar), ("VALUE", SqlType::Varchar)]);
    let mut table = TableBuilder::begin(out, &schema);
    for (key, value) in rows {
        table.row(&schema, &[Datum::Text(key), Datum::Text(value)]);
    }
    table.finish();
    1
}
