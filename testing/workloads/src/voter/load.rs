//! Voter as a workload to be run: its tables, its callers, and the count after a run.

use super::{
    ACCEPTED, AREA_CODES, CONTESTANTS, MAX_VOTES_PER_NUMBER, NAMES, NATIVE_PROCEDURE, OVER_LIMIT,
    PhoneCalls, SCHEMA, SQL_PROCEDURE, UNKNOWN_CONTESTANT,
};
use crate::distribution::session_random;
use crate::form::Form;
use crate::workload::{
    Answer, Check, Database, Found, Next, NextCall, RowSink, Session, TableToFill, Verdict,
    Workload,
};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};

/// What sessions count, by place.
const VOTES: usize = 0;
const OVER: usize = 1;
const UNKNOWN: usize = 2;
const UNANSWERED: usize = 3;

/// Voter in one form.
#[derive(Debug, Clone)]
pub struct Voter {
    form: Form,
    /// Votes that were there before the run.
    before: i64,
}

impl Voter {
    /// Voter with its six contestants.
    pub fn new(form: Form) -> Voter {
        Voter { form, before: 0 }
    }
}

impl Workload for Voter {
    fn name(&self) -> &'static str {
        "voter"
    }

    fn transactions(&self) -> &[&'static str] {
        &["VOTE"]
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        vec![("procedures", self.form.name().to_string()), ("contestants", CONTESTANTS.to_string())]
    }

    fn schema(&self) -> Vec<String> {
        vec![SCHEMA.to_string()]
    }

    fn procedures(&self) -> Vec<String> {
        let (procedure, ddl) = match self.form {
            Form::Native => ("Vote", NATIVE_PROCEDURE.to_string()),
            Form::Java(_) => ("Vote", Form::in_package(NATIVE_PROCEDURE, "voter")),
            Form::Sql => ("VoteSql", SQL_PROCEDURE.to_string()),
        };
        vec![format!("DROP PROCEDURE {procedure} IF EXISTS;"), ddl]
    }

    fn classes(&self) -> Result<Option<&[u8]>, String> {
        self.form.classes()
    }

    fn tables(&self) -> Vec<TableToFill> {
        let text = SqlType::Varchar;
        vec![
            TableToFill {
                name: "contestants",
                columns: vec![("contestant_number", SqlType::Integer), ("contestant_name", text)],
                partitioned_by: None,
                rows: CONTESTANTS as u64,
            },
            TableToFill {
                name: "area_code_state",
                columns: vec![("area_code", SqlType::SmallInt), ("state", text)],
                partitioned_by: None,
                rows: AREA_CODES.len() as u64,
            },
        ]
    }

    fn fill(&self, rows: &mut dyn RowSink) -> Result<(), String> {
        for number in 1..=CONTESTANTS {
            let name = NAMES[(number as usize - 1) % NAMES.len()];
            rows.row(0, &[Datum::Int(i64::from(number)), Datum::Text(name)])?;
        }
        for (code, state) in AREA_CODES {
            rows.row(1, &[Datum::Int(i64::from(*code)), Datum::Text(state)])?;
        }
        Ok(())
    }

    fn survey(&self, database: &mut dyn Database) -> Result<Found, String> {
        let Ok(contestants) = database.number("SELECT COUNT(*) FROM contestants;") else {
            return Ok(Found::Nothing);
        };
        let codes = database.number("SELECT COUNT(*) FROM area_code_state;")?;
        match (contestants, codes) {
            (0, 0) => Ok(Found::Tables),
            (held, _) if held != i64::from(CONTESTANTS) => {
                Err(format!("there are {held} contestants, this run is for {CONTESTANTS}"))
            }
            (_, held) if held != AREA_CODES.len() as i64 => {
                let wanted = AREA_CODES.len();
                Err(format!("there are {held} area codes, this run is for {wanted}"))
            }
            _ => Ok(Found::Rows),
        }
    }

    fn begin(&mut self, database: &mut dyn Database) -> Result<(), String> {
        self.before = database.number("SELECT COUNT(*) FROM votes;")?;
        Ok(())
    }

    fn noted(&self) -> Vec<(&'static str, i64)> {
        vec![("votes_before", self.before)]
    }

    fn session(&self, number: u64, seed: u64) -> Box<dyn Session> {
        let calls = PhoneCalls::new(session_random(seed, number).next_u64(), CONTESTANTS);
        Box::new(Caller { calls, is_sql: self.form == Form::Sql, counts: [0; 4] })
    }

    fn counters(&self) -> &[&'static str] {
        &["votes accepted", "over the limit", "unknown contestant", "unanswered votes"]
    }

    fn check(
        &self,
        database: &mut dyn Database,
        counts: &[u64],
        _complete: bool,
    ) -> Result<Vec<Check>, String> {
        let count = |place: usize| counts.get(place).copied().unwrap_or(0) as i64;
        let held = database.number("SELECT COUNT(*) FROM votes;")?;
        let (before, accepted, unanswered) = (self.before, count(VOTES), count(UNANSWERED));
        let mut check = Check::within("", held - before, accepted, unanswered);
        check.name = "select count(*) from votes".to_string();
        check.detail = match (check.holds, unanswered) {
            (true, 0) if before == 0 => format!("{held} = accepted"),
            (true, 0) => format!("{held} = accepted + {before} before"),
            (true, _) => format!("{held} = accepted + {before} before + some of {unanswered} lost"),
            (false, _) => format!("{held}, {before} before + {accepted} accepted expected"),
        };
        Ok(vec![check])
    }
}

struct Caller {
    calls: PhoneCalls,
    /// Statements alone insert each vote, and answer with what they read.
    is_sql: bool,
    counts: [u64; 4],
}

impl Session for Caller {
    fn next_call(&mut self, parameters: &mut ParameterWriter) -> NextCall {
        let call = self.calls.draw();
        let procedure = match self.is_sql {
            false => {
                parameters.bigint(call.phone_number).integer(call.contestant);
                parameters.bigint(MAX_VOTES_PER_NUMBER);
                "Vote"
            }
            true => {
                let area_code = call.phone_number / 10_000_000;
                parameters.integer(call.contestant).bigint(call.phone_number);
                parameters.integer(area_code as i32);
                parameters.bigint(call.phone_number).text("XX").integer(call.contestant);
                "VoteSql"
            }
        };
        NextCall { transaction: 0, procedure }
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Next {
        let place = match (answer.is_success(), self.is_sql) {
            (false, _) => None,
            (true, true) => Some(VOTES),
            (true, false) => match answer.number(0) {
                Some(ACCEPTED) => Some(VOTES),
                Some(OVER_LIMIT) => Some(OVER),
                Some(UNKNOWN_CONTESTANT) => Some(UNKNOWN),
                _ => None,
            },
        };
        let Some(place) = place else { return Next::end(Verdict::Error) };
        self.counts[place] += 1;
        Next::end(Verdict::Good)
    }

    fn lost(&mut self) {
        self.counts[UNANSWERED] += 1;
    }

    fn counts(&self) -> &[u64] {
        &self.counts
    }
}
