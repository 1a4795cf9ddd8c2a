//! Plans as text: of statements, of the statements of procedures, and of the upkeep of views.

use super::{ONE_STATEMENT, Planner};
use crate::catalog::HostCatalog;
use crate::control::system::text_parameter;
use lockstep_exec::procedure::routing_value;
use lockstep_exec::statement::PreparedStatement;
use lockstep_host::failures::{plan_failure, syntax_failure};
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
pub(in crate::control) const EXPLAIN_JSON: &str = "@ExplainJSON";

/// The explained statements of procedures.
pub(in crate::control) struct ExplainedProcedures {
    /// What would make the procedures faster, if there is anything.
    pub(in crate::control) advice: Option<String>,
    /// By procedure: name, text and plan of its statements.
    procedures: Vec<Vec<[String; 3]>>,
}

impl ExplainedProcedures {
    /// Appends a table for each procedure; returns their number.
    pub(in crate::control) fn write(&self, out: &mut Vec<u8>) -> u16 {
        let columns = ["STATEMENT_NAME", "SQL_STATEMENT", "EXECUTION_PLAN"];
        let schema = TableSchema::new(&columns.map(|column| (column, SqlType::Varchar)));
        for statements in &self.procedures {
            let mut table = TableBuilder::begin(out, &schema);
            for texts in statements {
                table.row(&schema, &texts.each_ref().map(|text| Datum::Text(text)));
            }
            table.finish();
        }
        self.procedures.len() as u16
    }
}

impl Planner {
    /// Reads the statements of `@Explain`, which may be `ANALYZE` and queries, or of
    /// `@ExplainJSON`.
    ///
    /// # Errors
    /// What the caller gets: there is no text of statements that can be explained.
    pub(in crate::control) fn read_explained(
        &self,
        invocation: &Invocation<'_>,
    ) -> Result<Vec<ParsedStatement>, Failure> {
        let name = invocation.procedure;
        let text = text_parameter(invocation, 0).ok_or_else(|| {
            Failure::graceful(format!("{name} requires the SQL text as its first parameter."))
        })?;
        let first = text.split_whitespace().next().unwrap_or("");
        let explained;
        let text = match first.eq_ignore_ascii_case("ANALYZE") && name != EXPLAIN_JSON {
            true => {
                explained = format!("EXPLAIN {text}");
                &explained
            }
            false => text,
        };
        let parsed = lockstep_sql::parse_batch(text, &self.facts.options.sql_limits())
            .map_err(|error| syntax_failure(text, &error))?;
        if parsed.is_empty() {
            return Err(Failure::graceful("Failed to plan, no SQL statement provided."));
        }
        if lockstep_plan::classify_batch(&parsed).map_err(plan_failure)? == BatchKind::Ddl {
            return Err(Failure::graceful("Explain doesn't support DDL."));
        }
        if invocation.parameters.count() > 1 && parsed.len() > 1 {
            return Err(Failure::graceful(ONE_STATEMENT));
        }
        Ok(parsed)
    }

    /// The plan of each statement, as text.
    ///
    /// # Errors
    /// One cannot be planned.
    pub(in crate::control) fn explain(
        &self,
        catalog: &HostCatalog,
        parsed: &[ParsedStatement],
    ) -> Result<Vec<String>, Failure> {
        self.explain_all(catalog, parsed, lockstep_plan::explain)
    }

    /// The plan of each statement, as a JSON object.
    ///
    /// # Errors
    /// As [`Planner::explain`].
    pub(in crate::control) fn explain_json(
        &self,
        catalog: &HostCatalog,
        parsed: &[ParsedStatement],
    ) -> Result<Vec<String>, Failure> {
        self.explain_all(catalog, parsed, lockstep_plan::explain_json)
    }

    fn explain_all(
        &self,
        catalog: &HostCatalog,
        parsed: &[ParsedStatement],
        explain: fn(&PlannedStatement, &Explaining<'_>) -> String,
    ) -> Result<Vec<String>, Failure> {
        let plans = self.plan_all(catalog, parsed)?;
        let explain = self.explainer(catalog, explain);
        Ok(plans.iter().map(|plan| explain(plan, &[], false)).collect())
    }

    /// What makes a text of a plan, the counts of its operators, and whether it belongs to a
    /// single-partition procedure.
    pub(super) fn explainer<'a>(
        &'a self,
        catalog: &'a HostCatalog,
        explain: fn(&PlannedStatement, &Explaining<'_>) -> String,
    ) -> impl Fn(&PreparedStatement, &[Vec<OperatorCount>], bool) -> String + use<'a> {
        move |prepared, counts, in_procedure| {
            let partition_of = |value: &Expression| {
                let value = routing_value(prepared, value, ParameterSet::EMPTY).ok()?;
                Some(self.facts.ring.partition_of(value.as_datum()).0)
            };
            let explaining = Explaining {
                catalog: &catalog.plan,
                planning: &self.planning,
                in_procedure,
                partition_of: &partition_of,
                counts,
            };
            explain(prepared.statement(), &explaining)
        }
    }

    /// The plans of `@ExplainProc` for procedures, with semicolons between their names.
    ///
    /// # Errors
    /// A procedure is not in the catalog.
    pub(in crate::control) fn explain_procedures(
        &self,
        catalog: &HostCatalog,
        invocation: &Invocation<'_>,
    ) -> Result<ExplainedProcedures, Failure> {
        let text = text_parameter(invocation, 0).ok_or_else(|| {
            Failure::graceful("@ExplainProc requires the name of a procedure as its parameter.")
        })?;
        let find = |name: &str| {
            let any_case = || {
                let mut all = catalog.procedures().iter();
                all.find(|p| p.definition.name.eq_ignore_ascii_case(name))
            };
            let found = catalog.procedure(name).or_else(any_case);
            let found = found.map(|procedure| &procedure.definition);
            found.ok_or_else(|| Failure::graceful(format!("Procedure {name} not in catalog")))
        };
        let definitions = names(text).map(find).collect::<Result<Vec<_>, Failure>>()?;
        let advice: Vec<String> = definitions
            .iter()
            .filter_map(|definition| lockstep_plan::partition_advice(definition, &catalog.plan))
            .collect();
        let explain = self.explainer(catalog, lockstep_plan::explain);
        let mut procedures = Vec::with_capacity(definitions.len());
        for definition in definitions {
            let statements = definition.statements.iter().enumerate();
            let explained = statements.map(|(number, (name, statement))| {
                // The statements of procedures in SQL are called by their numbers.
                let numbered = format!("sql{number}");
                let name = if name == GENERATED { numbered } else { name.clone() };
                let prepared = PreparedStatement::new(Arc::clone(statement));
                let plan = explain(&prepared, &[], definition.is_single_partition());
                [name, ended(&statement.text), plan]
            });
            procedures.push(explained.collect());
        }
        let advice = (!advice.is_empty()).then(|| advice.join("\n"));
        Ok(ExplainedProcedures { advice, procedures })
    }
}

/// The statements that an `EXPLAIN` in front is for, where there is one, and whether one of them
/// is to be run (`EXPLAIN ANALYZE`).
pub(in crate::control) fn without_explain(
    parsed: Vec<ParsedStatement>,
) -> (Vec<ParsedStatement>, bool) {
    let mut analyzed = false;
    let inner = |mut parsed: ParsedStatement| {
        if let Statement::Explain { analyze, statement } = parsed.statement {
            analyzed |= analyze;
            parsed.statement = *statement;
        }
        parsed
    };
    let parsed = parsed.into_iter().map(inner).collect();
    (parsed, analyzed)
}

/// By view of `@ExplainView`, with semicolons between their names: tasks and plans of its upkeep.
///
/// # Errors
/// A name is not that of a view.
pub(in crate::control) fn explain_views(
    catalog: &Catalog,
    invocation: &Invocation<'_>,
) -> Result<Vec<Vec<(String, String)>>, Failure> {
    let text = text_parameter(invocation, 0).ok_or_else(|| {
        Failure::graceful("@ExplainView requires the name of a view as its parameter.")
    })?;
    let upkeep = |name: &str| match catalog.table(&name.to_ascii_uppercase()) {
        None => Err(Failure::graceful(format!("View {name} does not exist."))),
        Some(table) if table.definition.view.is_none() => {
            let name = &table.definition.name;
            Err(Failure::graceful(format!("Table {name} is not a view.")))
        }
        Some(table) => Ok(explain_upkeep(catalog, &table.definition)),
    };
    names(text).map(upkeep).collect()
}

/// The names in a text with semicolons between them.
fn names(text: &str) -> impl Iterator<Item = &str> {
    text.split(';').map(str::trim).filter(|name| !name.is_empty())
}

/// One table a plan, of one column.
pub(in crate::control) fn write_plans(out: &mut Vec<u8>, column: &str, texts: &[String]) -> u16 {
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
