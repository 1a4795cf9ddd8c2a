//! What the calls that read counters ask for.

use super::query::StatisticsQuery;
use super::tables;
use crate::control::system::text_parameter;
use lockstep_types::{Datum, Failure, Parameter, Status};
use lockstep_wire_volt::Invocation;

/// What the counts of all threads are gathered for.
pub(in crate::control) enum Purpose {
    /// `@Statistics`.
    Selector {
        /// In upper case.
        name: String,
        /// Counts since the last call that asked so, instead of since the start.
        interval: bool,
    },
    /// `@QueryStats`.
    Query(StatisticsQuery),
    /// `@ValidatePartitioning`: every site checks its rows.
    Validation,
    /// `@PingPartitions`: a response shows that every thread has answered.
    Ping,
}

/// A call of `@Statistics`.
pub(super) enum StatisticsRequest {
    /// TOPO, which needs no counts; `json`: with the ring as JSON.
    Topology { json: bool },
    /// Another selector.
    Gather(Purpose),
}

impl StatisticsRequest {
    /// Reads the parameters.
    ///
    /// # Errors
    /// They are not a selector and a number.
    pub(super) fn read(invocation: &Invocation<'_>) -> Result<StatisticsRequest, Failure> {
        let count = invocation.parameters.count();
        if !(1..=2).contains(&count) {
            return Err(Failure::graceful(format!(
                "Incorrect number of arguments to @Statistics (expects 2, received {count})"
            )));
        }
        let Some(selector) = text_parameter(invocation, 0) else {
            return Err(Failure::graceful(
                "First argument to @Statistics must be a valid STRING selector, instead was null",
            ));
        };
        let second = match invocation.parameters.get(1) {
            None => 0,
            Some(Ok(Parameter::Scalar(_, Datum::Int(number)))) => number,
            Some(_) => {
                return Err(Failure::new(
                    Status::OperationalFailure,
                    "Failed to get statistics (the second argument is not a number)",
                ));
            }
        };
        let name = selector.to_ascii_uppercase();
        if name == "TOPO" {
            return Ok(StatisticsRequest::Topology { json: second == 1 });
        }
        if !tables::is_selector(&name) {
            return Err(Failure::graceful(format!(
                "First argument to @Statistics must be a valid STRING selector, instead was {name}"
            )));
        }
        Ok(StatisticsRequest::Gather(Purpose::Selector { name, interval: second == 1 }))
    }
}

/// Reads the parameters of `@QueryStats`.
///
/// # Errors
/// They are not one text, or the text is not a query of statistics.
pub(super) fn read_query(invocation: &Invocation<'_>) -> Result<Purpose, Failure> {
    match (invocation.parameters.count(), text_parameter(invocation, 0)) {
        (1, Some(text)) => StatisticsQuery::read(text).map(Purpose::Query),
        _ => Err(Failure::graceful("@QueryStats requires the SQL text as its only parameter.")),
    }
}
