//! The voter application: its schema, its procedure, and a host of one site for it.

use super::support::*;
use lockstep_exec::procedure::run_procedure;
use lockstep_exec::{
    Database, NativeProcedure, PreparedProcedure, ProcedureContext, ProcedureError,
};
use lockstep_plan_ir::procedure::{
    ProcedureDefinition, ProcedureKind, ProcedureParameter, ProcedurePartitioning,
};
use lockstep_plan_ir::{AggregateFunction, Expression, Operation, Statement};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, Outcome, ParameterSet, SqlType};
use std::sync::Arc;

const CONTESTANTS: u32 = 0;
const AREA_CODES: u32 = 1;
const VOTES: u32 = 2;
const BY_PHONE: u32 = 3;
const BY_STATE: u32 = 4;

pub struct Vote;

const BIGINT: ProcedureParameter =
    ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
const INTEGER: ProcedureParameter =
    ProcedureParameter { sql_type: SqlType::Integer, is_array: false };

impl NativeProcedure for Vote {
    fn name(&self) -> &str {
        "Vote"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[BIGINT, INTEGER, BIGINT]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("contestant", ""), ("votes", ""), ("state", ""), ("insert", "")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let phone = context.parameter(0);
        let contestant = context.parameter(1);
        let (Datum::Int(number), Datum::Int(limit)) = (phone, context.parameter(2)) else {
            return Err(context.abort("a phone number and a limit are needed"));
        };
        context.queue(0, &[contestant])?;
        context.queue(1, &[phone])?;
        context.queue(2, &[Datum::Int(number / 10_000_000)])?;
        let results = context.execute()?;
        if results.row_count(0)? == 0 {
            context.return_scalar(1);
            return Ok(());
        }
        if let Some(Datum::Int(votes)) = results.scalar(1)?
            && votes >= limit
        {
            context.return_scalar(2);
            return Ok(());
        }
        let mut state = [b'X'; 2];
        if let Some(Datum::Text(found)) = results.scalar(2)? {
            state.copy_from_slice(&found.as_bytes()[..2]);
        }
        let state = std::str::from_utf8(&state).expect("two letters");
        context.queue(3, &[phone, Datum::Text(state), contestant])?;
        context.execute()?;
        context.return_scalar(0);
        Ok(())
    }
}

pub fn host() -> (Database, PreparedProcedure) {
    let contestants = table(
        CONTESTANTS,
        "CONTESTANTS",
        vec![not_null("NUMBER", SqlType::Integer), not_null("NAME", SqlType::Varchar)],
        vec![index("PK_C", &[0], true)],
    );
    let codes = table(
        AREA_CODES,
        "AREA_CODE_STATE",
        vec![not_null("CODE", SqlType::SmallInt), not_null("STATE", SqlType::Varchar)],
        vec![index("PK_A", &[0], true)],
    );
    let mut votes = table(
        VOTES,
        "VOTES",
        vec![
            not_null("PHONE", SqlType::BigInt),
            not_null("STATE", SqlType::Varchar),
            not_null("CONTESTANT", SqlType::Integer),
        ],
        vec![],
    );
    votes.columns[1].length = 2;
    votes.partition_columns = vec![0];
    let count = [(AggregateFunction::CountStar, None, None)];
    let by_phone = view(BY_PHONE, "V_PHONE", &mut votes, &[0], &count);
    let by_state = view(BY_STATE, "V_STATE", &mut votes, &[2, 1], &count);
    let mut database = database(vec![contestants, codes, votes, by_phone, by_state]);
    for (number, name) in [(1, "Edwina Burnam"), (2, "Tabatha Gehling"), (3, "Kelly Clauss")] {
        must(&mut database, insert(CONTESTANTS, vec![int(number), text(name)]));
    }
    for code in 200..900 {
        must(
            &mut database,
            insert(AREA_CODES, vec![int(code), text(["NY", "CA"][code as usize % 2])]),
        );
    }
    database.commit();
    let integer = |number| Expression::parameter(number, SqlType::Integer);
    let statements = [
        statement(query(lookup(0, CONTESTANTS, vec![integer(0)]), vec![integer_column(0)]), 1),
        statement(query(lookup(0, BY_PHONE, vec![parameter(0)]), vec![big(0, 1)]), 1),
        statement(
            query(
                lookup(0, AREA_CODES, vec![Expression::parameter(0, SqlType::SmallInt)]),
                vec![col(0, 1, SqlType::Varchar)],
            ),
            1,
        ),
        insert_vote(),
    ];
    let named = |(number, statement): (usize, Statement)| (number.to_string(), Arc::new(statement));
    let definition = ProcedureDefinition {
        declared: Vec::new(),
        name: "Vote".to_string(),
        kind: ProcedureKind::Native("Vote".to_string()),
        partitioning: Some(ProcedurePartitioning::Directed),
        parameters: Vote.parameters().to_vec(),
        statements: statements.into_iter().enumerate().map(named).collect(),
        read_only: false,
        effects: false,
    };
    let procedure = PreparedProcedure::new(Arc::new(definition), Some(Arc::new(Vote)));
    (database, procedure)
}

fn integer_column(column: u16) -> Expression {
    col(0, column, SqlType::Integer)
}

fn insert_vote() -> Statement {
    let values = vec![
        parameter(0),
        Expression::parameter(1, SqlType::Varchar),
        Expression::parameter(2, SqlType::Integer),
    ];
    let mut planned = statement(insert(VOTES, values), 3);
    planned.parameters[1].sql_type = SqlType::Varchar;
    planned.parameters[2].sql_type = SqlType::Integer;
    planned
}

pub fn vote_parameters(phone: i64, contestant: i32, limit: i64) -> ParameterWriter {
    let mut writer = ParameterWriter::default();
    writer.bigint(phone).integer(contestant).bigint(limit);
    writer
}

pub fn vote(
    database: &mut Database,
    procedure: &PreparedProcedure,
    parameters: &[u8],
    out: &mut Vec<u8>,
) -> Outcome {
    let set = ParameterSet::new(parameters).expect("a parameter set");
    let outcome = run_procedure(database, procedure, set, &transaction(), out);
    database.commit();
    outcome
}

fn all(table: u32, columns: &[(u16, SqlType)]) -> Operation {
    let output = columns.iter().map(|(column, kind)| col(0, *column, *kind)).collect();
    query(scan(0, table), output)
}

#[test]
fn votes_are_counted_refused_and_limited() {
    let (mut database, procedure) = host();
    let mut cast = |phone, contestant| {
        let mut out = Vec::new();
        let parameters = vote_parameters(phone, contestant, 2);
        let outcome = vote(&mut database, &procedure, parameters.bytes(), &mut out);
        assert_eq!(outcome, Outcome::success(1));
        show(&out)
    };
    assert_eq!(cast(2_125_550_001, 1), "0");
    assert_eq!(cast(2_125_550_001, 2), "0");
    assert_eq!(cast(2_125_550_001, 2), "2", "the third call of a phone is over the limit");
    assert_eq!(cast(2_135_550_001, 9), "1", "nobody has number 9");
    assert_eq!(cast(2_135_550_001, 2), "0");
    let by_phone = all(BY_PHONE, &[(0, SqlType::BigInt), (1, SqlType::BigInt)]);
    assert_eq!(must(&mut database, by_phone), "2125550001 2 / 2135550001 1");
    let by_state =
        all(BY_STATE, &[(0, SqlType::Integer), (1, SqlType::Varchar), (2, SqlType::BigInt)]);
    assert_eq!(must(&mut database, by_state), "1 NY 1 / 2 NY 1 / 2 CA 1");
}

#[test]
fn a_call_with_wrong_parameters_is_refused_by_name() {
    let (mut database, procedure) = host();
    let mut out = Vec::new();
    let mut one = ParameterWriter::default();
    one.bigint(1);
    let outcome = vote(&mut database, &procedure, one.bytes(), &mut out);
    assert_eq!(
        outcome.failure.expect("a failure").message,
        "VOLTDB ERROR: PROCEDURE Vote EXPECTS 3 PARAMS, BUT RECEIVED 1"
    );
    let mut words = ParameterWriter::default();
    words.text("abc").integer(1).bigint(2);
    let outcome = vote(&mut database, &procedure, words.bytes(), &mut out);
    let message = outcome.failure.expect("a failure").message;
    assert!(message.starts_with("VOLTDB ERROR: PROCEDURE Vote TYPE ERROR FOR PARAMETER 0: "));
    assert!(out.is_empty());
}
