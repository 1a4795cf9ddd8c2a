//! A host of this database that answers a script.

use super::{Answer, Cell, System};
use crate::generator::Dialect;
use crate::host::TestHost;
use lockstep_client::Connection;
use lockstep_node::options::{Count, Milliseconds, Options};
use lockstep_node::{RULES, RuleSet};
use std::io;

/// A host and a connection to it.
pub struct HostSystem {
    name: String,
    connection: Connection,
    /// Dropped after the connection.
    host: TestHost,
    /// Planner rules: switched off one by one for queries, in turn for changes.
    rules: Rules,
    /// Changes so far.
    changes: usize,
}

/// What is done about the planner's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rules {
    /// All are on.
    On,
    /// Every query also runs without each, and without all.
    EachOff,
    /// Each statement runs without another one.
    InTurn,
}

impl HostSystem {
    /// A host with this many sites, which reads all tables in batches or none.
    ///
    /// # Errors
    /// It does not start.
    pub fn start(sites: u32, rules: Rules, batches: bool) -> io::Result<HostSystem> {
        let min_batch_rows = Count(if batches { 0 } else { u64::MAX });
        // A script that is made smaller may join everything with everything.
        let options = Options {
            min_batch_rows,
            query_timeout_ms: Some(Milliseconds(5_000)),
            ..Options::default()
        };
        let host = TestHost::start_with(sites, options)?;
        let connection = host.connect().map_err(io::Error::other)?;
        let mut name = format!("{sites} site{}", if sites == 1 { "" } else { "s" });
        if batches {
            name += ", in batches";
        }
        if rules == Rules::InTurn {
            name += ", a rule off";
        }
        Ok(HostSystem { name, connection, host, rules, changes: 0 })
    }

    /// The rules that are off in a way of answering: none, each one, all.
    fn off(way: usize) -> RuleSet {
        match RULES.get(way.wrapping_sub(1)) {
            Some(info) => RuleSet::of(info.rule),
            None if way == 0 => RuleSet::EMPTY,
            None => RULES.iter().fold(RuleSet::EMPTY, |set, info| set.with(info.rule)),
        }
    }
}

impl System for HostSystem {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Lockstep
    }

    fn ways(&self) -> Vec<String> {
        let mut ways = vec![self.name()];
        if self.rules == Rules::EachOff {
            ways.extend(RULES.iter().map(|info| format!("without {}", info.name)));
            ways.push("without any rule".to_string());
        }
        ways
    }

    fn has_other_plans(&self) -> bool {
        self.rules != Rules::On
    }

    fn choose(&mut self, way: usize) {
        self.host.server().disable_rules(HostSystem::off(way));
    }

    fn run(&mut self, sql: &str, _gives_rows: bool) -> Answer {
        if self.rules == Rules::InTurn {
            self.changes += 1;
            self.choose(self.changes % (RULES.len() + 2));
        }
        let tables = match self.connection.sql(sql) {
            Ok(tables) => tables,
            Err(error) => {
                let message = error.to_string();
                // A limit of this host, which no other database shares, or a type.
                return match message.contains("(option ") || is_of_case_type(sql, &message) {
                    true => Answer::Unsupported(message),
                    false => Answer::Refused(message),
                };
            }
        };
        let types = tables.first().map(|table| table.types.clone()).unwrap_or_default();
        let rows = tables.into_iter().flat_map(|table| table.rows);
        let rows = rows.map(|row| row.into_iter().map(Cell::Own).collect()).collect();
        Answer::Rows { types, rows }
    }
}

/// Whether a statement is refused because CASE or COALESCE over a SUM is DECIMAL, as in VoltDB,
/// where a function takes integers only: other databases have an integer there.
fn is_of_case_type(sql: &str, message: &str) -> bool {
    let has_choice = ["CASE ", "COALESCE(", "NULLIF("].iter().any(|word| sql.contains(word));
    let of_types = ["DECIMAL where an integer is expected", "incompatible data type in operation"];
    has_choice && of_types.iter().any(|text| message.contains(text))
}
