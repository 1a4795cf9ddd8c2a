//! `@Explain`, `@ExplainProc` and `@ExplainView`: plans as text; `@ExplainJSON`; and
//! `@ExplainCatalog`: the schema as text.

use super::ad_hoc::ONE_STATEMENT;
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::message::Origin;
use lockstep_exec::procedure::routing_value;
use lockstep_exec::statement::PreparedStatement;
use lockstep_host::failures::{plan_failure, syntax_failure};
use lockstep_host::schema::{Handled, Turn};
use lockstep_plan::{BatchKind, Catalog, Explaining, OperatorCount};
use lockstep_plan_ir::Expression;
use lockstep_plan_ir::Statement as PlannedStatement;
use lockstep_plan_ir::TableDefinition;
use lockstep_sql::ast::{ParsedStatement, Statement};
use lockstep_types::{Datum, Failure, ParameterSet, SqlType, TableBuilder, TableId, TableSchema};
use lockstep_wire_volt::Invocation;
use std::sync::Arc;

/// The name of the only statement of a generated procedure.
const GENERATED: &str = "sql";

/// The call that answers with plans as JSON.
const EXPLAIN_JSON: &str = "@ExplainJSON";

impl Control {
    /// `@Explain` of statements, or of `ANALYZE` and queries, and `@ExplainJSON` of statements.
    pub(super) fn explain(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let name = invocation.procedure;
        let text = text_parameter(invocation, 0).ok_or_else(|| {
            Failure::graceful(format!("{name} requires the SQL text as its first parameter."))
        })?;
        let json = name == EXPLAIN_JSON;
        let first = text.split_whitespace().next().unwrap_or("");
        let explained;
        let text = match first.eq_ignore_ascii_case("ANALYZE") && !json {
            true => {
                explained = format!("EXPLAIN {text}");
                &explained
            }
            false => text,
        };
        let parsed = lockstep_sql::parse_batch(text, &self.sql_limits())
            .map_err(|error| syntax_failure(text, &error))?;
        if parsed.is_empty() {
            return Err(Failure::graceful("Failed to plan, no SQL statement provided."));
        }
        if lockstep_plan::classify_batch(&parsed).map_err(plan_failure)? == BatchKind::Ddl {
            return Err(Failure::graceful("Explain doesn't support DDL."));
        }
        let given = invocation.parameters.without_first().unwrap_or(ParameterSet::EMPTY);
        if given.count() > 0 && parsed.len() > 1 {
            return Err(Failure::graceful(ONE_STATEMENT));
        }
        if json {
            return self.explain_json(call.origin, &parsed);
        }
        self.explain_parsed(call, parsed, given)
    }

    /// Answers with one plan for each statement, as a JSON object.
    fn explain_json(
        &mut self,
        origin: Origin,
        parsed: &[ParsedStatement],
    ) -> Result<Handled, Failure> {
        let plans = self.plan_all(parsed)?;
        let explain = self.explainer(lockstep_plan::explain_json);
        let texts: Vec<String> = plans.iter().map(|plan| explain(plan, &[], false)).collect();
        self.answer_tables(origin, |out| write_plans(out, "JSON_PLAN", &texts));
        Ok(Handled::Answered)
    }

    /// `@ExplainCatalog`: the statements that make the schema.
    pub(super) fn explain_catalog(&mut self, origin: Origin) -> Result<(), Failure> {
        let text = self.schema.catalog().plan.schema_text();
        self.answer_tables(origin, |out| write_plans(out, "CATALOG", &[text]));
        Ok(())
    }

    /// Answers with one plan for each statement; `EXPLAIN` in front of them may be missing.
    pub(super) fn explain_parsed(
        &mut self,
        call: SystemCall,
        parsed: Vec<ParsedStatement>,
        given: ParameterSet<'_>,
    ) -> Result<Handled, Failure> {
        let mut analyzed = false;
        let inner = |mut parsed: ParsedStatement| {
            if let Statement::Explain { analyze, statement } = parsed.statement {
                analyzed |= analyze;
                parsed.statement = *statement;
            }
            parsed
        };
        let parsed: Vec<ParsedStatement> = parsed.into_iter().map(inner).collect();
        let call = match analyzed {
            false => call,
            true => match self.schema.plan_turn(call)? {
                Turn::Now(call) => call,
                Turn::Deferred => return Ok(Handled::Pending),
            },
        };
        let plans = self.plan_all(&parsed)?;
        if analyzed {
            return self.analyze(call, plans, given);
        }
        let explain = self.explainer(lockstep_plan::explain);
        let texts: Vec<String> = plans.iter().map(|plan| explain(plan, &[], false)).collect();
        self.answer_tables(call.origin, |out| write_plans(out, "EXECUTION_PLAN", &texts));
        Ok(Handled::Answered)
    }

    /// What makes a text of a plan, the counts of its operators, and whether it belongs to a
    /// single-partition procedure.
    pub(super) fn explainer(
        &self,
        explain: fn(&PlannedStatement, &Explaining<'_>) -> String,
    ) -> impl Fn(&PreparedStatement, &[Vec<OperatorCount>], bool) -> String + use<> {
        let (catalog, facts) = (Arc::clone(self.schema.catalog()), Arc::clone(&self.facts));
        let planning = self.planning.clone();
        move |prepared, counts, in_procedure| {
            let partition_of = |value: &Expression| {
                let value = routing_value(prepared, value, ParameterSet::EMPTY).ok()?;
                Some(facts.ring.partition_of(value.as_datum()).0)
            };
            let explaining = Explaining {
                catalog: &catalog.plan,
                planning: &planning,
                in_procedure,
                partition_of: &partition_of,
                counts,
            };
            explain(prepared.statement(), &explaining)
        }
    }

    /// `@ExplainProc` of procedures, with semicolons between their names: a table each.
    pub(super) fn explain_procedures(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let text = text_parameter(invocation, 0).ok_or_else(|| {
            Failure::graceful("@ExplainProc requires the name of a procedure as its parameter.")
        })?;
        let find = |name: &str| {
            let any_case = || {
                let all = self.schema.catalog().procedures().iter();
                all.into_iter().find(|p| p.definition.name.eq_ignore_ascii_case(name))
            };
            let found = self.schema.catalog().procedure(name).or_else(any_case);
            let found = found.map(|procedure| procedure.definition.clone());
            found.ok_or_else(|| Failure::graceful(format!("Procedure {name} not in catalog")))
        };
        let definitions = names(text).map(find).collect::<Result<Vec<_>, Failure>>()?;
        let explain = self.explainer(lockstep_plan::explain);
        let advice: Vec<String> = definitions
            .iter()
            .filter_map(|definition| {
                lockstep_plan::partition_advice(definition, &self.schema.catalog().plan)
            })
            .collect();
        let advice = (!advice.is_empty()).then(|| advice.join("\n"));
        let schema = TableSchema::new(&[
            ("STATEMENT_NAME", SqlType::Varchar),
            ("SQL_STATEMENT", SqlType::Varchar),
            ("EXECUTION_PLAN", SqlType::Varchar),
        ]);
        self.answer_tables_with(origin, advice, |out| {
            for definition in &definitions {
                let mut table = TableBuilder::begin(out, &schema);
                for (number, (name, statement)) in definition.statements.iter().enumerate() {
                    // The statements of procedures in SQL go by their numbers.
                    let numbered = format!("sql{number}");
                    let name = if name == GENERATED { &numbered } else { name };
                    let text = ended(&statement.text);
                    let prepared = PreparedStatement::new(Arc::clone(statement));
                    let explanation = explain(&prepared, &[], definition.is_single_partition());
                    let texts = [name.as_str(), text.as_str(), explanation.as_str()];
                    table.row(&schema, &texts.map(Datum::Text));
                }
                table.finish();
            }
            definitions.len() as u16
        });
        Ok(())
    }

    /// `@ExplainView` of views, with semicolons between their names: a table each.
    pub(super) fn explain_views(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let text = text_parameter(invocation, 0).ok_or_else(|| {
            Failure::graceful("@ExplainView requires the name of a view as its parameter.")
        })?;
        let catalog = &self.schema.catalog().plan;
        let upkeep = |name: &str| match catalog.table(&name.to_ascii_uppercase()) {
            None => Err(Failure::graceful(format!("View {name} does not exist."))),
            Some(table) if table.definition.view.is_none() => {
                let name = &table.definition.name;
                Err(Failure::graceful(format!("Table {name} is not a view.")))
            }
            Some(table) => Ok(explain_upkeep(catalog, &table.definition)),
        };
        let views = names(text).map(upkeep).collect::<Result<Vec<_>, Failure>>()?;
        let schema =
            TableSchema::new(&[("TASK", SqlType::Varchar), ("EXECUTION_PLAN", SqlType::Varchar)]);
        self.answer_tables(origin, |out| {
            for rows in &views {
                let mut table = TableBuilder::begin(out, &schema);
                for (task, plan) in rows {
                    table.row(&schema, &[Datum::Text(task), Datum::Text(plan)]);
                }
                table.finish();
            }
            views.len() as u16
        });
        Ok(())
    }
}

/// The names in a text with semicolons between them.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|name| !name.is_empty())
}

/// One table a plan, of one column.
pub(super) fn write_plans(out: &mut Vec<u8>, column: &str, texts: &[String]) -> u16 {
    let schema = TableSchema::new(&[(column, SqlType::Varchar)]);
    for text in texts {
        let mut table = TableBuilder::begin(out, &schema);
        table.row(&schema, &[Datum::Text(text)]);
        table.finish();
    }
    texts.len() as u16
}

/// How a view is kept up: for one over several tables how its rows are found, then a row for each
/// aggregate that needs more than arithmetic.
fn explain_upkeep(catalog: &Catalog, table: &TableDefinition) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    let Some(view) = &table.view else { return rows };
    if let Some(joined) = &view.joined {
        let name_of = |id: &TableId| {
            let found = catalog.tables.values().find(|table| table.definition.id == *id);
            found.map_or_else(String::new, |table| format!("\"{}\"", table.definition.name))
        };
        let sources: Vec<String> = joined.sources.iter().map(name_of).collect();
        let plan =
            format!("JOIN of each changed row with the other tables of {}", sources.join(", "));
        rows.push(("Join Evaluation".to_string(), plan));
    }
    for (number, aggregate) in view.aggregates.iter().enumerate() {
        if aggregate.recompute.is_some() {
            let function = aggregate.function.name();
            let column = table.columns.get(view.group.len() + number);
            let column = column.map_or("", |column| column.name.as_str());
            let task = format!("Refresh {function} column \"{column}\"");
            rows.push((task, "index lookup of the group's next extreme".to_string()));
        }
    }
    if rows.is_empty() {
        rows.push((String::new(), "No query plan is being used.".to_string()));
    }
    rows
}

/// The text of a statement with the semicolon that ends it.
fn ended(text: &str) -> String {
    format!("{};", text.trim_end().trim_end_matches(';').trim_end())
}
