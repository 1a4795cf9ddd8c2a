//! Runs a script at hosts with different numbers of sites, and makes a script that gives
//! different answers as small as it gets by leaving steps out.

use crate::generator::Step;
use crate::host::TestHost;
use lockstep_client::Connection;
use lockstep_client::rows::Table;
use lockstep_types::Value;
use std::io;

/// Where two hosts, or a view and its query, part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The number of the step.
    pub step: usize,
    /// What both gave.
    pub answers: [String; 2],
}

/// What running a script gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Statements that both hosts answered.
    pub answered: usize,
    /// Statements that both refused.
    pub refused: usize,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Runs a script at a host with one site and at one with three.
///
/// # Errors
/// A host does not start.
pub fn compare(steps: &[Step]) -> io::Result<Comparison> {
    let hosts = [TestHost::start(1)?, TestHost::start(3)?];
    let connect = |host: &TestHost| host.connect().map_err(io::Error::other);
    let mut connections = [connect(&hosts[0])?, connect(&hosts[1])?];
    let mut comparison = Comparison::default();
    for (number, step) in steps.iter().enumerate() {
        let pairs = answers(&mut connections, step);
        for pair in pairs {
            if pair[0] != pair[1] {
                let step = number;
                comparison.difference = Some(Difference { step, answers: pair });
                return Ok(comparison);
            }
            match pair[0] == REFUSED {
                true => comparison.refused += 1,
                false => comparison.answered += 1,
            }
        }
    }
    Ok(comparison)
}

/// Leaves out steps for as long as the rest still differs at its last step.
///
/// # Errors
/// A host does not start.
pub fn shrink(steps: &[Step], difference: &Difference) -> io::Result<Vec<Step>> {
    let mut kept = steps[..=difference.step].to_vec();
    let mut chunk = kept.len() / 2;
    while chunk > 0 {
        let mut start = 0;
        while start + 1 < kept.len() {
            let end = (start + chunk).min(kept.len() - 1);
            let mut fewer = kept.clone();
            fewer.drain(start..end);
            let last = fewer.len() - 1;
            match compare(&fewer)?.difference {
                Some(found) if found.step == last => kept = fewer,
                _ => start = end,
            }
        }
        chunk /= 2;
    }
    Ok(kept)
}

/// What stands for an error: hosts may meet different rows first, so messages may differ.
const REFUSED: &str = "refused";

/// The pairs of answers that must be equal.
fn answers(connections: &mut [Connection; 2], step: &Step) -> Vec<[String; 2]> {
    match step {
        Step::Change(sql) => vec![connections.each_mut().map(|c| answer(c, sql, false))],
        Step::Query { sql, ordered } => {
            vec![connections.each_mut().map(|c| answer(c, sql, *ordered))]
        }
        Step::Same(left, right) => {
            let pairs = connections.each_mut().map(|c| [rows_of(c, left), rows_of(c, right)]);
            let known = |pair: &[String; 2]| pair.iter().all(|answer| answer != REFUSED);
            pairs.into_iter().filter(known).collect()
        }
    }
}

/// Column types and rows, or that the statement was refused.
fn answer(connection: &mut Connection, sql: &str, ordered: bool) -> String {
    let Ok(tables) = connection.sql(sql) else { return REFUSED.to_string() };
    tables.iter().map(|t| format!("{:?}\n{}", t.types, show(t, ordered))).collect()
}

/// Rows without their types: a view's columns may be wider.
fn rows_of(connection: &mut Connection, sql: &str) -> String {
    let Ok(tables) = connection.sql(sql) else { return REFUSED.to_string() };
    tables.iter().map(|table| show(table, false)).collect()
}

fn show(table: &Table, ordered: bool) -> String {
    let value = |value: &Value| match value {
        // Zero has no sign in SQL.
        Value::Float(v) => format!("{:?}", v + 0.0),
        other => format!("{other:?}"),
    };
    let line = |row: &Vec<Value>| row.iter().map(value).collect::<Vec<_>>().join(" | ");
    let mut lines: Vec<String> = table.rows.iter().map(line).collect();
    if !ordered {
        lines.sort();
    }
    lines.join("\n")
}
