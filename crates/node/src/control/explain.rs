//! `@Explain`, `@ExplainProc` and `@ExplainView`: plans as text.

use super::Control;
use super::ad_hoc::{plan_failure, syntax_failure};
use super::system::text_parameter;
use crate::message::Origin;
use lockstep_plan::BatchKind;
use lockstep_plan_ir::Statement;
use lockstep_types::{Datum, Failure, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;

impl Control {
    pub(super) fn explain(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let text = text_parameter(invocation, 0).ok_or_else(|| {
            Failure::graceful("@Explain requires the SQL text as its first parameter.")
        })?;
        let parsed = lockstep_sql::parse_batch(text, &self.sql_limits())
            .map_err(|error| syntax_failure(text, &error))?;
        if parsed.is_empty() {
            return Err(Failure::graceful("Failed to plan, no SQL statement provided."));
        }
        if lockstep_plan::classify_batch(&parsed).map_err(plan_failure)? == BatchKind::Ddl {
            return Err(Failure::graceful("Explain doesn't support DDL."));
        }
        let plans = self.plan_all(&parsed)?;
        let schema = TableSchema::new(&[("EXECUTION_PLAN", SqlType::Varchar)]);
        self.answer_tables(origin, |out| {
            for plan in &plans {
                let mut table = TableBuilder::begin(out, &schema);
                table.row(&schema, &[Datum::Text(&plan.statement().explanation)]);
                table.finish();
            }
            plans.len() as u16
        });
        Ok(())
    }

    pub(super) fn explain_procedure(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let name = text_parameter(invocation, 0).ok_or_else(|| {
            Failure::graceful("@ExplainProc requires the name of a procedure as its parameter.")
        })?;
        let name = name.trim();
        if name.is_empty() {
            self.answer_tables(origin, |_| 0);
            return Ok(());
        }
        let any_case = || {
            let all = self.catalog.procedures().iter();
            all.into_iter().find(|p| p.definition.name.eq_ignore_ascii_case(name))
        };
        let found = self.catalog.procedure(name).or_else(any_case);
        let definition = found.map(|procedure| procedure.definition.clone());
        let definition = definition
            .ok_or_else(|| Failure::graceful(format!("Procedure {name} not in catalog")))?;
        let schema = TableSchema::new(&[
            ("STATEMENT_NAME", SqlType::Varchar),
            ("SQL_STATEMENT", SqlType::Varchar),
            ("EXECUTION_PLAN", SqlType::Varchar),
        ]);
        self.answer_tables(origin, |out| {
            let mut table = TableBuilder::begin(out, &schema);
            for (name, statement) in &definition.statements {
                let statement: &Statement = statement;
                table.row(
                    &schema,
                    &[
                        Datum::Text(name),
                        Datum::Text(&statement.text),
                        Datum::Text(&statement.explanation),
                    ],
                );
            }
            table.finish();
            1
        });
        Ok(())
    }

    pub(super) fn explain_view(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let name = text_parameter(invocation, 0).unwrap_or("").trim();
        let found = self.catalog.plan.table(&name.to_ascii_uppercase()).and_then(|table| {
            let view = table.definition.view.clone()?;
            Some(explain_upkeep(&view))
        });
        let rows =
            found.ok_or_else(|| Failure::graceful(format!("View {name} does not exist.")))?;
        let schema =
            TableSchema::new(&[("TASK", SqlType::Varchar), ("EXECUTION_PLAN", SqlType::Varchar)]);
        self.answer_tables(origin, |out| {
            let mut table = TableBuilder::begin(out, &schema);
            for (task, plan) in &rows {
                table.row(&schema, &[Datum::Text(task), Datum::Text(plan)]);
            }
            table.finish();
            1
        });
        Ok(())
    }
}

/// How a view is kept up, one row for each aggregate that needs more than arithmetic.
fn explain_upkeep(view: &lockstep_plan_ir::ViewDefinition) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (number, aggregate) in view.aggregates.iter().enumerate() {
        if aggregate.recompute.is_some() {
            let name = aggregate.function.name();
            let task = format!("Refresh {name} column {number}");
            rows.push((task, "index lookup of the group's next extreme".to_string()));
        }
    }
    if rows.is_empty() {
        rows.push((String::new(), "No query plan is being used.".to_string()));
    }
    rows
}
