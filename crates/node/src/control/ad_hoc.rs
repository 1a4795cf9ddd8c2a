//! `@AdHoc` and its siblings: what the planner has planned goes to where it runs.

use super::planner::{AdHoc, PlannedWork};
use super::system::text_parameter;
use super::{Control, SystemCall};
use crate::intake::Changes;
use lockstep_host::schema::{self, Handled, Turn};
use lockstep_sql::ast::{self, ParsedStatement};
use lockstep_types::{Failure, ParameterSet};
use lockstep_wire_volt::Invocation;

/// What a batch of DDL may change: one that only drops makes the data smaller.
fn changes_of_ddl(parsed: &[ParsedStatement]) -> Changes {
    let drops = |part: &ParsedStatement| matches!(part.statement, ast::Statement::Drop(_));
    if parsed.iter().all(drops) { Changes::Deletes } else { Changes::Anything }
}

impl Control {
    /// `@AdHoc` and `@AdHocLarge`.
    pub(super) fn ad_hoc(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.schema.plan_turn(call)? else { return Ok(Handled::Pending) };
        match self.planner.ad_hoc(self.schema.catalog(), invocation)? {
            AdHoc::Work(planned) => self.run_planned(call, planned),
            AdHoc::Explain(parsed) => {
                let given = invocation.parameters.without_first().unwrap_or(ParameterSet::EMPTY);
                self.explain_parsed(call, parsed, given)
            }
            AdHoc::Ddl(parsed) => {
                let Turn::Now(call) = self.change_turn(call, changes_of_ddl(&parsed))? else {
                    return Ok(Handled::Pending);
                };
                let build = self.schema.catalog().plan.build_of(&parsed);
                let text = text_parameter(invocation, 0).expect("the planner has read the text");
                schema::request_ddl(self, call.origin, text, build)
            }
        }
    }

    /// `@AdHocSpForTest`.
    pub(super) fn ad_hoc_at_partition(
        &mut self,
        call: SystemCall,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let Turn::Now(call) = self.schema.plan_turn(call)? else { return Ok(Handled::Pending) };
        let planned = self.planner.ad_hoc_at_partition(self.schema.catalog(), invocation)?;
        self.run_planned(call, planned)
    }

    /// Whether a schema change may begin; `changes` is what it does to the data. One that the host
    /// does not take at the moment is refused even if it would have to wait.
    pub(super) fn change_turn(
        &mut self,
        call: SystemCall,
        changes: Changes,
    ) -> Result<Turn<SystemCall>, Failure> {
        self.facts.intake.check(changes, call.admin)?;
        self.schema.change_turn(call)
    }

    /// Sends planned statements to where they run, unless they change more than is taken at the
    /// moment.
    fn run_planned(&mut self, call: SystemCall, planned: PlannedWork) -> Result<Handled, Failure> {
        let PlannedWork { work, destination } = planned;
        let changes =
            work.statements.iter().map(|s| Changes::of_statement(s.statement.statement()));
        self.facts.intake.check(changes.max().unwrap_or(Changes::Nothing), call.admin)?;
        self.send_work(call, work, destination);
        Ok(Handled::Pending)
    }
}
