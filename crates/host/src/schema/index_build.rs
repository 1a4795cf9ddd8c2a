//! CREATE GLOBAL INDEX on an existing table: built in steps, each a short transaction, with calls
//! running between them.
//!
//! The first step is a schema change: the index is declared, and changes of rows that it covers
//! maintain it. Then as many transactions as it needs add the entries of a bounded number of rows
//! each. The last step is a schema change again: statements may use the index. A row that violates
//! the index, in any step, ends the build: a schema change drops the index. Other schema changes
//! wait.

use super::change::CatalogChange;
use super::changes::{Handled, Requester, SchemaHost, order, resume_deferred_by_build};
use lockstep_exec::PreparedStatement;
use lockstep_plan::{Catalog, GlobalIndexBuild};
use lockstep_site::{AnswerForm, BoundStatement, Faults, StatementCall};
use lockstep_types::{Failure, Status};
use std::sync::Arc;

/// A parameter set without parameters.
const NO_PARAMETERS: [u8; 2] = [0, 0];

/// A global index that is being built.
pub(super) struct IndexBuild<O> {
    /// The connection that waits for it; none after a restart of the host.
    origin: Option<O>,
    /// Advice for the requester.
    advice: Option<String>,
    build: GlobalIndexBuild,
    /// What the last step ran, and its limit of rows.
    statement: Option<(u32, Arc<PreparedStatement>)>,
    stage: Stage,
    /// How often the step has failed and is repeated, and when it is repeated next, while the
    /// build waits for that.
    repeats: u32,
    retry_us: Option<i64>,
}

/// The step in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stage {
    /// The index is declared.
    Declare,
    /// Entries of further rows are added.
    Cover,
    /// The index comes into force.
    Complete,
    /// The index is dropped, and this is why.
    Drop(Failure),
}

/// What follows a step.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Begin(Stage),
    /// The same step again, after a pause.
    Repeat(Failure),
    End(Result<(), Failure>),
}

/// The pause before a step is repeated, microseconds: the first, and the longest. Each is twice the
/// one before it.
const PAUSE_US: i64 = 10_000;
const PAUSE_US_MAX: i64 = 10_000_000;

/// The pause after a step that has failed, and had failed before this number of times.
fn pause_us(repeats: u32) -> i64 {
    // The tenth is the longest.
    (PAUSE_US << repeats.min(10)).min(PAUSE_US_MAX)
}

impl<O> IndexBuild<O> {
    /// Panics if the step in progress is not the kind of transaction that is in progress.
    pub(super) fn check_invariants(&self, is_ordered: bool) {
        let is_change = self.stage != Stage::Cover;
        assert!(is_change || !is_ordered, "no schema change while rows are added to an index");
        let is_waiting = self.retry_us.is_some();
        assert!(!is_waiting || !is_ordered, "no step is in progress before it is repeated");
        assert!(!is_waiting || self.repeats > 0, "only a step that failed is repeated");
    }

    /// When the step that failed is repeated, microseconds since 1970.
    pub(super) fn retry_us(&self) -> Option<i64> {
        self.retry_us
    }

    fn new(
        origin: Option<O>,
        advice: Option<String>,
        build: GlobalIndexBuild,
        stage: Stage,
    ) -> Self {
        let (statement, repeats, retry_us) = (None, 0, None);
        IndexBuild { origin, advice, build, statement, stage, repeats, retry_us }
    }

    /// The transaction of a step that adds the entries of further rows.
    fn cover(&mut self, rows_max: u32, partition_count: u32) -> StatementCall {
        assert!(rows_max > 0, "a step makes progress");
        let statement = match &self.statement {
            Some((rows, statement)) if *rows == rows_max => Arc::clone(statement),
            _ => {
                let statement = Catalog::cover(&self.build, rows_max);
                Arc::new(PreparedStatement::for_partitions(statement, partition_count))
            }
        };
        self.statement = Some((rows_max, Arc::clone(&statement)));
        let bound = BoundStatement {
            statement,
            parameters: NO_PARAMETERS.into(),
            shipped: None,
            found: None,
            profile: None,
        };
        let statements = vec![bound];
        StatementCall { statements, read_only: false, answer: AnswerForm::Results }
    }
}

/// A client's CREATE GLOBAL INDEX begins.
///
/// # Errors
/// What the client gets: why the index cannot be declared.
pub(super) fn begin<H: SchemaHost>(
    host: &mut H,
    origin: H::Origin,
    text: &str,
    build: GlobalIndexBuild,
) -> Result<Handled, Failure> {
    assert!(host.schema_changes().is_quiet(), "one change at a time");
    let advice = order(host, Requester::IndexBuild, CatalogChange::BeginIndex(text))?;
    let advice = (!advice.is_empty()).then(|| advice.join("\n"));
    let build = IndexBuild::new(Some(origin), advice, build, Stage::Declare);
    host.schema_changes().begin_build(build);
    Ok(Handled::Pending)
}

/// Continues the build that the host had in progress when it stopped, if it had one.
pub fn resume<H: SchemaHost>(host: &mut H) {
    let schema = host.schema_changes();
    let Some(build) = schema.catalog().plan.builds().next() else { return };
    assert!(!schema.is_changing(), "nothing else begins before a build is resumed");
    schema.begin_build(IndexBuild::new(None, None, build, Stage::Cover));
    begin_stage(host, Stage::Cover);
}

/// A step has ended: the number of rows whose entries it added, or why it failed.
pub fn step_ended<H: SchemaHost>(host: &mut H, result: Result<i64, Failure>) {
    let faults = host.faults();
    let schema = host.schema_changes();
    assert!(!schema.is_changing(), "a step ends when its change is decided");
    let build = schema.build_mut().expect("the build of the step is in progress");
    assert!(build.retry_us.is_none(), "no step is in progress before it is repeated");
    match next(&build.stage, result, faults) {
        Next::Begin(stage) => {
            build.repeats = 0;
            begin_stage(host, stage);
        }
        Next::Repeat(why) => pause(host, &why),
        Next::End(result) => end(host, result),
    }
}

/// The step is repeated after a pause.
fn pause<H: SchemaHost>(host: &mut H, why: &Failure) {
    let now_us = host.now_us();
    let build = host.schema_changes().build_mut().expect("the build of the step is in progress");
    assert!(build.retry_us.is_none(), "a build waits once");
    let pause_us = pause_us(build.repeats);
    build.repeats = build.repeats.saturating_add(1);
    build.retry_us = Some(now_us.saturating_add(pause_us));
    let index = build.build.index.clone();
    host.build_paused(&index, why, pause_us);
}

/// Repeats the step that failed, once its pause is over.
pub fn retry_due<H: SchemaHost>(host: &mut H) {
    let now_us = host.now_us();
    let Some(build) = host.schema_changes().build_mut() else { return };
    let Some(retry_us) = build.retry_us else { return };
    // A clock that was set back makes no pause longer.
    if (now_us + 1..=now_us.saturating_add(PAUSE_US_MAX)).contains(&retry_us) {
        return;
    }
    build.retry_us = None;
    let stage = build.stage.clone();
    begin_stage(host, stage);
}

/// What follows a step that ended. A host that is busy repeats it after a pause, and so it does the
/// drop of an index whose build failed: without it, changes of rows would maintain the index for
/// ever.
fn next(stage: &Stage, result: Result<i64, Failure>, faults: Faults) -> Next {
    match (stage, result) {
        (Stage::Declare, Ok(_)) => Next::Begin(Stage::Cover),
        (Stage::Declare, Err(why)) => Next::End(Err(why)),
        (Stage::Cover, Ok(rows)) if rows > 0 && !faults.end_builds_early() => {
            Next::Begin(Stage::Cover)
        }
        (Stage::Cover, Ok(_)) => Next::Begin(Stage::Complete),
        (Stage::Complete, Ok(_)) => Next::End(Ok(())),
        (Stage::Drop(why), Ok(_)) => Next::End(Err(why.clone())),
        (Stage::Drop(_), Err(why)) => Next::Repeat(why),
        (Stage::Cover | Stage::Complete, Err(why)) if why.status == Status::ServerUnavailable => {
            Next::Repeat(why)
        }
        (Stage::Cover | Stage::Complete, Err(why)) if faults.keep_failed_builds() => {
            Next::End(Err(why))
        }
        (Stage::Cover | Stage::Complete, Err(why)) => Next::Begin(Stage::Drop(why)),
    }
}

/// Begins a step; one that cannot begin makes the build fail.
fn begin_stage<H: SchemaHost>(host: &mut H, mut stage: Stage) {
    loop {
        let build =
            host.schema_changes().build_mut().expect("the build of the step is in progress");
        build.stage = stage.clone();
        let index = build.build.index.clone();
        let change = |keep| CatalogChange::EndIndex { index: &index, keep };
        let begun = match &stage {
            Stage::Declare => unreachable!("a build begins once"),
            Stage::Cover => host.check_intake().map(|()| cover(host)),
            Stage::Complete => order(host, Requester::IndexBuild, change(true)).map(|_| ()),
            Stage::Drop(_) => order(host, Requester::IndexBuild, change(false)).map(|_| ()),
        };
        stage = match (begun, stage) {
            (Ok(()), _) => return,
            (Err(why), Stage::Drop(_)) => return pause(host, &why),
            (Err(why), _) => Stage::Drop(why),
        };
    }
}

/// Sends the transaction that adds the entries of further rows.
fn cover<H: SchemaHost>(host: &mut H) {
    let rows_max = host.build_rows_max();
    let partition_count = host.schema_changes().partition_count();
    let build = host.schema_changes().build_mut().expect("the build of the step is in progress");
    let work = build.cover(rows_max, partition_count);
    host.order_build_step(work);
}

/// The build has ended.
fn end<H: SchemaHost>(host: &mut H, result: Result<(), Failure>) {
    let IndexBuild { origin, advice, build, .. } = host.schema_changes().end_build();
    host.build_ended(origin, &build.index, result.map(|()| advice));
    resume_deferred_by_build(host);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stages() -> [Stage; 4] {
        [Stage::Declare, Stage::Cover, Stage::Complete, Stage::Drop(Failure::graceful("first"))]
    }

    #[test]
    fn a_build_covers_all_rows_and_then_completes() {
        let sound = Faults::default();
        assert_eq!(next(&Stage::Declare, Ok(0), sound), Next::Begin(Stage::Cover));
        assert_eq!(next(&Stage::Cover, Ok(3), sound), Next::Begin(Stage::Cover));
        assert_eq!(next(&Stage::Cover, Ok(0), sound), Next::Begin(Stage::Complete));
        assert_eq!(next(&Stage::Complete, Ok(0), sound), Next::End(Ok(())));
    }

    #[test]
    fn a_step_that_fails_drops_the_index_and_tells_the_first_reason() {
        let (sound, why) = (Faults::default(), Failure::graceful("a duplicate"));
        let drop = Next::Begin(Stage::Drop(why.clone()));
        assert_eq!(next(&Stage::Declare, Err(why.clone()), sound), Next::End(Err(why.clone())));
        assert_eq!(next(&Stage::Cover, Err(why.clone()), sound), drop);
        assert_eq!(next(&Stage::Complete, Err(why.clone()), sound), drop);
        let [.., dropping] = stages();
        assert_eq!(next(&dropping, Err(why.clone()), sound), Next::Repeat(why));
        let first = Failure::graceful("first");
        assert_eq!(next(&dropping, Ok(0), sound), Next::End(Err(first)));
    }

    #[test]
    fn a_busy_host_repeats_a_step_that_follows_the_declaration() {
        let busy = Failure::new(Status::ServerUnavailable, "busy");
        for stage in stages() {
            let expected = match stage {
                Stage::Declare => Next::End(Err(busy.clone())),
                _ => Next::Repeat(busy.clone()),
            };
            assert_eq!(next(&stage, Err(busy.clone()), Faults::default()), expected);
        }
    }

    #[test]
    fn pauses_grow_to_the_longest() {
        let pauses: Vec<i64> = (0..5).map(pause_us).collect();
        assert_eq!(pauses, [10_000, 20_000, 40_000, 80_000, 160_000]);
        assert_eq!(
            [9, 10, 11, u32::MAX].map(pause_us),
            [5_120_000, 10_000_000, 10_000_000, 10_000_000]
        );
    }
}
