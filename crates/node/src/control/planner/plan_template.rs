//! Plans that serve all statements of one form: those that differ in constants only.
//!
//! A constant may say more than its value: it decides types, folds conditions, chooses an index. So
//! a plan with parameters in the constants' places is used only if it is, those apart, the very
//! plan that the planner makes of the constants themselves, and only for constants of the same
//! kind: integers of the same width within the column's type, and texts.

use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_plan_ir::Statement;
use lockstep_sql::ast::Literal;
use lockstep_sql::{ExtractedLiteral, Parameterized};
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType, Value};
use std::fmt::Write;
use std::sync::Arc;

/// The plan of a form.
pub(crate) struct PlanTemplate {
    pub(crate) statement: Arc<PreparedStatement>,
    places: Vec<Place>,
}

/// What may stand in a constant's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// An integer that a column of this type takes; `long`: one that INTEGER does not hold.
    Integer { sql_type: SqlType, long: bool },
    /// A text.
    Text,
}

impl Place {
    /// The kind of a constant whose parameter has this type.
    fn of(literal: &Literal, sql_type: SqlType) -> Option<(Place, Value)> {
        match literal {
            Literal::String(text) if sql_type == SqlType::Varchar => {
                Some((Place::Text, Value::Text(text.as_str().into())))
            }
            Literal::Integer(digits) if sql_type.is_integer() => {
                let value: i64 = digits.parse().ok()?;
                // Without signs, so the value that stands for NULL is not among them.
                let greatest = match sql_type {
                    SqlType::TinyInt => i64::from(i8::MAX),
                    SqlType::SmallInt => i64::from(i16::MAX),
                    SqlType::Integer => i64::from(i32::MAX),
                    _ => i64::MAX,
                };
                let long = value > i64::from(i32::MAX);
                let place = Place::Integer { sql_type, long };
                (value <= greatest).then_some((place, Value::Int(value)))
            }
            _ => None,
        }
    }

    fn sql_type(self) -> SqlType {
        match self {
            Place::Integer { sql_type, .. } => sql_type,
            Place::Text => SqlType::Varchar,
        }
    }
}

impl PlanTemplate {
    /// The template of a statement that is planned already; `plan` plans a text. `None` when its
    /// plan depends on its constants.
    pub(crate) fn new(
        text: &str,
        form: &Parameterized,
        planned: &Statement,
        origin: StatementOrigin,
        plan: impl FnOnce(&str) -> Option<Statement>,
    ) -> Option<PlanTemplate> {
        let literals = &form.literals;
        if literals.is_empty() || !planned.parameters.is_empty() {
            return None;
        }
        let statement = plan(&with_parameters(text, literals)?)?;
        let parameters = &statement.parameters;
        if parameters.len() != literals.len() || parameters.iter().any(|p| p.is_array) {
            return None;
        }
        let kinds = literals.iter().zip(parameters);
        let kinds: Option<Vec<(Place, Value)>> = kinds
            .map(|(extracted, parameter)| Place::of(&extracted.literal, parameter.sql_type))
            .collect();
        let (places, values): (Vec<Place>, Vec<Value>) = kinds?.into_iter().unzip();
        if shape(&statement, &values)? != shape(planned, &[])? {
            return None;
        }
        let statement = PreparedStatement::new(Arc::new(statement));
        let statement = Arc::new(statement.with_origin(origin));
        Some(PlanTemplate { statement, places })
    }

    /// The encoded parameters for the constants of another statement of the form; `None` if one
    /// is not of the kind that the plan is for.
    pub(crate) fn parameters(&self, literals: &[ExtractedLiteral]) -> Option<Vec<u8>> {
        if literals.len() != self.places.len() {
            return None;
        }
        let mut parameters = ParameterWriter::default();
        for (extracted, place) in literals.iter().zip(&self.places) {
            let sql_type = place.sql_type();
            let (found, value) = Place::of(&extracted.literal, sql_type)?;
            if found != *place {
                return None;
            }
            let value: Datum<'_> = value.as_datum();
            parameters.scalar(sql_type, value);
        }
        Some(parameters.bytes().to_vec())
    }
}

/// The text with a question mark in each constant's place.
fn with_parameters(text: &str, literals: &[ExtractedLiteral]) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    for extracted in literals {
        let range = extracted.span.range();
        out.push_str(text.get(from..range.start)?);
        out.push('?');
        from = range.end;
    }
    out.push_str(text.get(from..)?);
    Some(out)
}

/// All of a plan that decides what it does, with `values` for its parameters, as text. The types
/// of integer constants are left out: a constant has the smallest type that holds it, a parameter
/// that it is compared with has BIGINT, and where a constant stands by itself both are the same.
fn shape(statement: &Statement, values: &[Value]) -> Option<String> {
    const PARAMETER: &str = "Parameter(";
    let Statement { parameters: _, text: _, result, read_only, execution, .. } = statement;
    let Statement { guards, slot_count, subquery_count, ordered, .. } = statement;
    let Statement { upkeep, needs_entries, .. } = statement;
    let plan = format!(
        "{result:?} {read_only} {execution:?} {guards:?} {slot_count} {subquery_count} {ordered} \
         {upkeep:?} {needs_entries}"
    );
    let mut out = String::with_capacity(plan.len());
    let mut rest = plan.as_str();
    while !values.is_empty()
        && let Some(at) = rest.find(PARAMETER)
    {
        let (before, behind) = rest.split_at(at);
        let (number, after) = behind[PARAMETER.len()..].split_once(')')?;
        let value = values.get(number.parse::<usize>().ok()?)?;
        write!(out, "{before}Literal({value:?})").ok()?;
        rest = after;
    }
    out.push_str(rest);
    Some(without_integer_types(&out))
}

/// The text of a plan without the types of integer constants.
fn without_integer_types(plan: &str) -> String {
    const INTEGER: &str = "Literal(Int(";
    const TYPES: [&str; 2] = [")), sql_type: Integer }", ")), sql_type: BigInt }"];
    let mut out = String::with_capacity(plan.len());
    let mut rest = plan;
    while let Some(at) = rest.find(INTEGER) {
        let (before, behind) = rest.split_at(at + INTEGER.len());
        let digits = behind.find(')').unwrap_or(behind.len());
        let (number, after) = behind.split_at(digits);
        out.push_str(before);
        out.push_str(number);
        rest = TYPES.iter().find_map(|sql_type| after.strip_prefix(sql_type)).unwrap_or(after);
    }
    out.push_str(rest);
    out
}
