//! `EXPLAIN ANALYZE`: queries run, and their plans are answered with what the operators did.
//!
//! The call that runs them goes where they run and answers with numbers alone
//! ([`lockstep_site::profile`]); it answers this thread, which has the plans and makes the text.

use super::explain::write_plans;
use super::{Control, SystemCall};
use crate::message::{ForwardedAnswer, Origin};
use crate::own_call::OwnCall;
use lockstep_exec::statement::PreparedStatement;
use lockstep_exec::watch::OperatorProfile;
use lockstep_host::schema::Handled;
use lockstep_plan::OperatorCount;
use lockstep_site::profile::read_profiles;
use lockstep_site::{AnswerForm, BoundStatement, StatementCall, StatementProfile};
use lockstep_types::{Failure, ParameterSet};
use lockstep_wire_volt::Response;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The calls that run, by their handles.
#[derive(Default)]
pub(super) struct Analyses {
    running: BTreeMap<i64, Analysis>,
    next: i64,
}

struct Analysis {
    /// Who waits.
    origin: Origin,
    plans: Vec<Arc<PreparedStatement>>,
}

impl Analyses {
    /// Begins one; gives the handle of its call.
    fn begin(&mut self, analysis: Analysis) -> i64 {
        self.next += 1;
        self.running.insert(self.next, analysis);
        self.next
    }

    /// A call was overtaken: it is planned again, for the caller.
    pub(super) fn overtaken(&mut self, origin: &Origin) -> Option<Origin> {
        self.running.remove(&origin.handle).map(|analysis| analysis.origin)
    }
}

impl Control {
    /// Runs queries and answers with their plans, and what their operators did.
    pub(super) fn analyze(
        &mut self,
        call: SystemCall,
        plans: Vec<Arc<PreparedStatement>>,
        given: ParameterSet<'_>,
    ) -> Result<Handled, Failure> {
        if plans.iter().any(|plan| !plan.statement().read_only) {
            return Err(Failure::graceful(
                "EXPLAIN ANALYZE runs the statement, and is for queries only; EXPLAIN shows the \
                 plan of a change.",
            ));
        }
        let parameters = self.check_parameters(&plans, given)?;
        let destination = self.common_partition(&plans, given)?;
        let bind = |(number, plan): (u32, &Arc<PreparedStatement>)| BoundStatement {
            statement: Arc::new(plan.by_operators()),
            parameters: Arc::clone(&parameters),
            shipped: None,
            found: None,
            profile: Some(number),
        };
        let statements = (0..).zip(&plans).map(bind).collect();
        let work = StatementCall { statements, read_only: true, answer: AnswerForm::Profiles };
        let procedure = call.origin.procedure;
        let handle = self.analyses.begin(Analysis { origin: call.origin, plans });
        let origin = Origin { procedure, ..self.own_origin(OwnCall::Analysis, handle) };
        self.send_work(SystemCall { origin, ..call }, work, destination);
        Ok(Handled::Pending)
    }

    /// Such queries have run.
    pub(super) fn analysis_ended(&mut self, answer: &ForwardedAnswer) {
        let Some(analysis) = self.analyses.running.remove(&answer.origin.handle) else { return };
        let Analysis { origin, plans } = analysis;
        match profiles_of(answer) {
            Err(failure) => self.answer_failure(origin, &failure),
            Ok(profiles) => {
                let explain = self.explainer(lockstep_plan::explain);
                let partitions = self.facts.partition_count as usize;
                let texts: Vec<String> = (0..)
                    .zip(&plans)
                    .map(|(number, plan)| {
                        explain(plan, &counts(&profiles, number, plan, partitions), false)
                    })
                    .collect();
                self.answer_tables(origin, |out| write_plans(out, "EXECUTION_PLAN", &texts));
            }
        }
    }
}

/// What an answer says that operators did.
fn profiles_of(answer: &ForwardedAnswer) -> Result<Vec<StatementProfile>, Failure> {
    let unreadable = |error: String| Failure::unexpected(format!("profiles of queries: {error}"));
    let body = answer.frame.get(super::own_calls::LENGTH_BYTES..).unwrap_or_default();
    let response = Response::decode(body).map_err(|error| unreadable(error.to_string()))?;
    if !response.is_success() {
        return Err(Failure::new(answer.status, response.status_text.unwrap_or_default()));
    }
    let table = response.tables().next().ok_or_else(|| unreadable("there are none".to_string()))?;
    read_profiles(&table.map_err(|error| unreadable(error.to_string()))?).map_err(unreadable)
}

/// Per partition, then for the coordinator: what each operator of a statement did.
fn counts(
    profiles: &[StatementProfile],
    statement: u32,
    plan: &PreparedStatement,
    partitions: usize,
) -> Vec<Vec<OperatorCount>> {
    let operators = plan.statement().operators().len();
    let none = OperatorCount { rows: 0, runs: 0, nanoseconds: 0 };
    let mut counts = vec![vec![none; operators]; partitions + 1];
    for profile in profiles.iter().filter(|profile| profile.statement == statement) {
        let place = profile.partition.map_or(partitions, |partition| partition.index());
        let Some(place) = counts.get_mut(place) else { continue };
        for (count, counted) in place.iter_mut().zip(&profile.operators) {
            let OperatorProfile { rows, loops, ticks } = *counted;
            count.rows += rows;
            count.runs += loops;
            count.nanoseconds += ticks;
        }
    }
    counts
}
