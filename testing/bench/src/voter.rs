//! Voter as a load: sets the schema up through a connection, draws calls, counts what the server
//! accepted, and checks the count at the end.

use crate::driver::{Measured, Verdict, Workload};
use crate::report::grouped;
use lockstep_client::{ClientError, Connection, ParameterWriter, Response};
use lockstep_types::{Datum, Value};
use lockstep_workloads::voter;

/// Which form of the procedure is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Native code.
    Native,
    /// SQL statements only.
    Sql,
}

/// Voter's calls and what came of them.
pub struct VoterLoad {
    calls: voter::PhoneCalls,
    form: Form,
    writer: ParameterWriter,
    /// Votes that the server accepted, over the whole run.
    pub accepted: u64,
    /// Votes for contestants that do not exist.
    pub unknown_contestant: u64,
    /// Votes of numbers that had voted often enough.
    pub over_limit: u64,
}

impl VoterLoad {
    /// A load that follows from a seed.
    pub fn new(seed: u64, contestants: i32, form: Form) -> VoterLoad {
        VoterLoad {
            calls: voter::PhoneCalls::new(seed, contestants),
            form,
            writer: ParameterWriter::default(),
            accepted: 0,
            unknown_contestant: 0,
            over_limit: 0,
        }
    }
}

impl VoterLoad {
    /// The load's counts beside what was measured.
    pub fn result(self, measured: Measured, votes_before: u64, votes_after: u64) -> VoterResult {
        VoterResult {
            measured,
            accepted: self.accepted,
            unknown_contestant: self.unknown_contestant,
            over_limit: self.over_limit,
            votes_before,
            votes_after,
        }
    }
}

impl Workload for VoterLoad {
    fn next_call(&mut self, _: usize, parameters: &mut Vec<u8>) -> &'static str {
        let call = self.calls.draw();
        self.writer.clear();
        match self.form {
            Form::Native => {
                self.writer.bigint(call.phone_number).integer(call.contestant);
                self.writer.bigint(voter::MAX_VOTES_PER_NUMBER);
                parameters.extend_from_slice(self.writer.bytes());
                "Vote"
            }
            Form::Sql => {
                let area_code = call.phone_number / 10_000_000;
                self.writer.integer(call.contestant).bigint(call.phone_number);
                self.writer.integer(area_code as i32);
                self.writer.bigint(call.phone_number).text("XX").integer(call.contestant);
                parameters.extend_from_slice(self.writer.bytes());
                "VoteSql"
            }
        }
    }

    fn completed(&mut self, response: &Response<'_>, _: bool) -> Verdict {
        if !response.is_success() {
            return Verdict::Error;
        }
        if self.form == Form::Sql {
            self.accepted += 1;
            return Verdict::Good;
        }
        let answer = response.tables().next().and_then(Result::ok).and_then(|t| t.scalar().ok());
        match answer.flatten() {
            Some(Datum::Int(voter::ACCEPTED)) => self.accepted += 1,
            Some(Datum::Int(voter::UNKNOWN_CONTESTANT)) => self.unknown_contestant += 1,
            Some(Datum::Int(voter::OVER_LIMIT)) => self.over_limit += 1,
            _ => return Verdict::Error,
        }
        Verdict::Good
    }
}

/// The statements that make voter's tables and fill the replicated ones.
pub fn schema_statements() -> Vec<String> {
    let load = voter::load_statements(voter::CONTESTANTS).join("\n");
    vec![voter::SCHEMA.to_string(), load]
}

/// The statements that make the procedure again.
pub fn procedure_statements(form: Form) -> [String; 2] {
    let (procedure, ddl) = match form {
        Form::Native => ("Vote", voter::NATIVE_PROCEDURE),
        Form::Sql => ("VoteSql", voter::SQL_PROCEDURE),
    };
    [format!("DROP PROCEDURE {procedure} IF EXISTS;"), ddl.to_string()]
}

/// Creates tables and procedures where they are missing, and fills the replicated tables.
///
/// # Errors
/// What the server refused.
pub fn set_up(connection: &mut Connection, form: Form) -> Result<(), ClientError> {
    if connection.sql("SELECT COUNT(*) FROM contestants;").is_err() {
        for statement in schema_statements() {
            connection.sql(&statement)?;
        }
    }
    for statement in procedure_statements(form) {
        connection.sql(&statement)?;
    }
    Ok(())
}

/// A run of voter over TCP, or embedded.
pub struct VoterResult {
    /// What the driver measured.
    pub measured: Measured,
    /// Votes that the server accepted, over the whole run.
    pub accepted: u64,
    /// Votes for contestants that do not exist.
    pub unknown_contestant: u64,
    /// Votes of numbers that had voted often enough.
    pub over_limit: u64,
    /// Votes in the table before the run.
    pub votes_before: u64,
    /// And after it.
    pub votes_after: u64,
}

impl VoterResult {
    /// Whether the table holds what the server said that it accepted.
    pub fn is_consistent(&self) -> bool {
        self.votes_after == self.votes_before + self.accepted
    }

    /// The workload's own rows of the result table.
    pub fn rows(&self) -> Vec<(String, String)> {
        let check = match (self.is_consistent(), self.votes_before) {
            (true, 0) => format!("{} = accepted", grouped(self.votes_after)),
            (true, before) => {
                format!("{} = accepted + {} before", grouped(self.votes_after), grouped(before))
            }
            (false, before) => {
                let (after, before) = (grouped(self.votes_after), grouped(before));
                format!("{after}, WRONG: {before} before + accepted expected")
            }
        };
        let row = |name: &str, value| (name.to_string(), value);
        vec![
            row("votes accepted", grouped(self.accepted)),
            row("over the limit", grouped(self.over_limit)),
            row("unknown contestant", grouped(self.unknown_contestant)),
            row("select count(*) from votes", check),
        ]
    }
}

/// The number of votes that the database holds.
///
/// # Errors
/// What the server refused.
pub fn vote_count(connection: &mut Connection) -> Result<u64, ClientError> {
    let tables = connection.sql("SELECT COUNT(*) FROM votes;")?;
    match tables.first().and_then(|t| t.rows.first()).and_then(|row| row.first()) {
        Some(Value::Int(count)) => Ok(*count as u64),
        other => Err(ClientError::Protocol(format!("a count was expected, not {other:?}"))),
    }
}

/// Votes for each contestant, the most first.
///
/// # Errors
/// What the server refused.
pub fn standings(connection: &mut Connection) -> Result<Vec<(String, i64)>, ClientError> {
    let tables = connection.sql(
        "SELECT contestant_name, SUM(num_votes) AS total \
         FROM v_votes_by_contestant_number_state v, contestants c \
         WHERE v.contestant_number = c.contestant_number \
         GROUP BY contestant_name ORDER BY total DESC, contestant_name;",
    )?;
    let rows = tables.into_iter().next().map(|table| table.rows).unwrap_or_default();
    Ok(rows
        .into_iter()
        .filter_map(|row| match row.as_slice() {
            [Value::Text(name), Value::Int(total)] => Some((name.to_string(), *total)),
            _ => None,
        })
        .collect())
}
