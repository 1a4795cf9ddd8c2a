//! `@Explain`, `@ExplainProc` and `@ExplainView`: plans as text; `@ExplainJSON`; and
//! `@ExplainCatalog`: the schema as text.

use super::planner::{EXPLAIN_JSON, explain_views, without_explain, write_plans};
use super::{Control, SystemCall};
use crate::message::{ForwardedAnswer, Origin};
use crate::own_call::OwnCall;
use lockstep_host::schema::{Handled, Turn};
use lockstep_sql::ast::ParsedStatement;
use lockstep_types::{Datum, Failure, ParameterSet, SqlType, TableBuilder, TableSchema};
use lockstep_wire_volt::Invocation;

impl Control {
    /// `@Explain` of statements, or of `ANALYZE` and queries, and `@ExplainJSON` of statements.
    pub(super) fn explain(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let parsed = self.planner.read_explained(invocation)?;
        if invocation.procedure != EXPLAIN_JSON {
            let given = invocation.parameters.without_first().unwrap_or(ParameterSet::EMPTY);
            return self.explain_parsed(call, parsed, given);
        }
        let texts = self.planner.explain_json(self.schema.catalog(), &parsed)?;
        self.answer_tables(call.origin, |out| write_plans(out, "JSON_PLAN", &texts));
        Ok(Handled::Answered)
    }

    /// Answers with one plan for each statement; `EXPLAIN` in front of them may be missing.
    pub(super) fn explain_parsed(
        &mut self,
        call: SystemCall,
        parsed: Vec<ParsedStatement>,
        given: ParameterSet<'_>,
    ) -> Result<Handled, Failure> {
        let (parsed, analyzed) = without_explain(parsed);
        if analyzed {
            return self.analyze(call, &parsed, given);
        }
        let texts = self.planner.explain(self.schema.catalog(), &parsed)?;
        self.answer_tables(call.origin, |out| write_plans(out, "EXECUTION_PLAN", &texts));
        Ok(Handled::Answered)
    }

    /// Runs queries, to answer with their plans and what their operators did.
    fn analyze(
        &mut self,
        call: SystemCall,
        parsed: &[ParsedStatement],
        given: ParameterSet<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.schema.plan_turn(call)? else { return Ok(Handled::Pending) };
        let catalog = self.schema.catalog();
        let (handle, planned) = self.planner.begin_analysis(catalog, call.origin, parsed, given)?;
        let own = self.own_origin(OwnCall::Analysis, handle);
        let origin = Origin { procedure: call.origin.procedure, ..own };
        self.send_work(SystemCall { origin, ..call }, planned.work, planned.destination);
        Ok(Handled::Pending)
    }

    /// Such queries have run.
    pub(super) fn analysis_ended(&mut self, answer: &ForwardedAnswer) {
        match self.planner.analysis_ended(self.schema.catalog(), answer) {
            None => {}
            Some((origin, Err(failure))) => self.answer_failure(origin, &failure),
            Some((origin, Ok(texts))) => {
                self.answer_tables(origin, |out| write_plans(out, "EXECUTION_PLAN", &texts));
            }
        }
    }

    /// `@ExplainCatalog`: the statements that make the schema.
    pub(super) fn explain_catalog(&mut self, origin: Origin) -> Result<(), Failure> {
        let text = self.schema.catalog().plan.schema_text();
        self.answer_tables(origin, |out| write_plans(out, "CATALOG", &[text]));
        Ok(())
    }

    /// `@ExplainProc`: a table for each procedure.
    pub(super) fn explain_procedures(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let mut explained = self.planner.explain_procedures(self.schema.catalog(), invocation)?;
        let advice = explained.advice.take();
        self.answer_tables_with(origin, advice, |out| explained.write(out));
        Ok(())
    }

    /// `@ExplainView`: a table for each view.
    pub(super) fn explain_views(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let views = explain_views(&self.schema.catalog().plan, invocation)?;
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
