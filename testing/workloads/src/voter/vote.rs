//! The voter procedure as native code.

use super::{ACCEPTED, OVER_LIMIT, UNKNOWN_CONTESTANT};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType};

/// `Vote(phone number, contestant, most votes of a number)`: a known contestant, a caller under
/// the limit, then the vote with the state of its area code.
pub struct Vote;

const CONTESTANT: usize = 0;
const VOTES_OF_NUMBER: usize = 1;
const STATE: usize = 2;
const INSERT: usize = 3;

/// The state of numbers whose area code is not known.
const UNKNOWN_STATE: &str = "XX";
/// An area code and seven digits.
const LINES_PER_AREA: i64 = 10_000_000;

const fn parameter(sql_type: SqlType) -> ProcedureParameter {
    ProcedureParameter { sql_type, is_array: false }
}

impl NativeProcedure for Vote {
    fn name(&self) -> &str {
        "Vote"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const PARAMETERS: &[ProcedureParameter] =
            &[parameter(SqlType::BigInt), parameter(SqlType::Integer), parameter(SqlType::BigInt)];
        PARAMETERS
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[
            (
                "checkContestant",
                "SELECT contestant_number FROM contestants WHERE contestant_number = ?;",
            ),
            ("checkVoter", "SELECT num_votes FROM v_votes_by_phone_number WHERE phone_number = ?;"),
            ("checkState", "SELECT state FROM area_code_state WHERE area_code = ?;"),
            (
                "insertVote",
                "INSERT INTO votes (phone_number, state, contestant_number) VALUES (?, ?, ?);",
            ),
        ]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (phone, contestant) = (context.parameter(0), context.parameter(1));
        let Datum::Int(phone_number) = phone else {
            return Err(context.abort("the phone number is NULL"));
        };
        let Datum::Int(most_votes) = context.parameter(2) else {
            return Err(context.abort("the greatest number of votes is NULL"));
        };
        let area_code = phone_number / LINES_PER_AREA;
        context.queue(CONTESTANT, &[contestant])?;
        context.queue(VOTES_OF_NUMBER, &[phone])?;
        context.queue(STATE, &[Datum::Int(area_code)])?;
        let results = context.execute()?;
        if results.scalar(0)?.is_none() {
            context.return_scalar(UNKNOWN_CONTESTANT);
            return Ok(());
        }
        if let Some(Datum::Int(votes)) = results.scalar(1)?
            && votes >= most_votes
        {
            context.return_scalar(OVER_LIMIT);
            return Ok(());
        }
        // The results live until the next batch: the state is copied, two letters at most.
        let mut buffer = [0u8; 8];
        let state = match results.scalar(2)? {
            Some(Datum::Text(state)) if state.len() <= buffer.len() => {
                let copy = &mut buffer[..state.len()];
                copy.copy_from_slice(state.as_bytes());
                std::str::from_utf8(copy).unwrap_or(UNKNOWN_STATE)
            }
            _ => UNKNOWN_STATE,
        };
        context.queue(INSERT, &[phone, Datum::Text(state), contestant])?;
        context.execute()?;
        context.return_scalar(ACCEPTED);
        Ok(())
    }
}
