//! `EXPLAIN ANALYZE`: queries run, and their plans are explained with what the operators did.
//!
//! The call that runs them goes where they run and is answered with counts alone
//! ([`lockstep_site::profile`]), to this thread, which has the plans and makes the text.

use super::{PlannedWork, Planner, bound, check_parameters};
use crate::catalog::HostCatalog;
use crate::control::own_calls::LENGTH_BYTES;
use crate::message::{ForwardedAnswer, Origin};
use lockstep_exec::statement::PreparedStatement;
use lockstep_exec::watch::OperatorProfile;
use lockstep_plan::OperatorCount;
use lockstep_site::profile::read_profiles;
use lockstep_site::{AnswerForm, StatementCall, StatementProfile};
use lockstep_sql::ast::ParsedStatement;
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
    /// Begins one; returns the handle of its call.
    fn begin(&mut self, analysis: Analysis) -> i64 {
        self.next += 1;
        self.running.insert(self.next, analysis);
        self.next
    }
}

impl Planner {
    /// Plans queries that are run for `EXPLAIN ANALYZE` for a caller; returns the handle of their
    /// call too.
    ///
    /// # Errors
    /// What the caller gets: not all statements are queries that can be planned.
    pub(in crate::control) fn begin_analysis(
        &mut self,
        catalog: &HostCatalog,
        origin: Origin,
        parsed: &[ParsedStatement],
        given: ParameterSet<'_>,
    ) -> Result<(i64, PlannedWork), Failure> {
        let plans = self.plan_all(catalog, parsed)?;
        if plans.iter().any(|plan| !plan.statement().read_only) {
            return Err(Failure::graceful(
                "EXPLAIN ANALYZE runs the statement, and is for queries only; EXPLAIN shows the \
                 plan of a change.",
            ));
        }
        let parameters = check_parameters(&plans, given)?;
        let destination = self.destination(catalog, &plans, given)?;
        let counted = |(number, plan): (u32, &Arc<PreparedStatement>)| {
            bound(Arc::new(plan.by_operators()), &parameters, Some(number))
        };
        let statements = (0..).zip(&plans).map(counted).collect();
        let work = StatementCall { statements, read_only: true, answer: AnswerForm::Profiles };
        let handle = self.analyses.begin(Analysis { origin, plans });
        Ok((handle, PlannedWork { work, destination }))
    }

    /// The call of such queries was overtaken by a schema change: returns the caller, for whom they
    /// are planned again.
    pub(in crate::control) fn analysis_overtaken(&mut self, origin: &Origin) -> Option<Origin> {
        self.analyses.running.remove(&origin.handle).map(|analysis| analysis.origin)
    }

    /// Such queries have run: returns the caller, and the texts of the plans or why there are none.
    pub(in crate::control) fn analysis_ended(
        &mut self,
        catalog: &HostCatalog,
        answer: &ForwardedAnswer,
    ) -> Option<(Origin, Result<Vec<String>, Failure>)> {
        let Analysis { origin, plans } = self.analyses.running.remove(&answer.origin.handle)?;
        let explained = profiles_of(answer).map(|profiles| {
            let explain = self.explainer(catalog, lockstep_plan::explain);
            let partitions = self.facts.partition_count as usize;
            (0..)
                .zip(&plans)
                .map(|(number, plan)| {
                    explain(plan, &counts(&profiles, number, plan, partitions), false)
                })
                .collect()
        });
        Some((origin, explained))
    }
}

/// What an answer says that operators did.
fn profiles_of(answer: &ForwardedAnswer) -> Result<Vec<StatementProfile>, Failure> {
    let unreadable = |error: String| Failure::unexpected(format!("profiles of queries: {error}"));
    let body = answer.frame.get(LENGTH_BYTES..).unwrap_or_default();
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
