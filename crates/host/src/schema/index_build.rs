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
use lockstep_site::{BoundStatement, Faults, StatementCall};
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
    End(Result<(), Failure>),
}

impl<O> IndexBuild<O> {
    /// Panics if the step in progress is not the kind of transaction that is in progress.
    pub(super) fn check_invariants(&self, is_ordered: bool) {
        let is_change = self.stage != Stage::Cover;
        assert!(is_change || !is_ordered, "no schema change while rows are added to an index");
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
        StatementCall { statements, read_only: false, counted: false, answer: None }
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
    let (origin, statement, stage) = (Some(origin), None, Stage::Declare);
    host.schema_changes().begin_build(IndexBuild { origin, advice, build, statement, stage });
    Ok(Handled::Pending)
}

/// Continues the build that the host had in progress when it stopped, if it had one.
pub fn resume<H: SchemaHost>(host: &mut H) {
    let schema = host.schema_changes();
    let Some(build) = schema.catalog().plan.builds().next() else { return };
    assert!(!schema.is_changing(), "nothing else begins before a build is resumed");
    let (origin, advice, statement, stage) = (None, None, None, Stage::Cover);
    schema.begin_build(IndexBuild { origin, advice, build, statement, stage });
    begin_stage(host, Stage::Cover);
}

/// A step has ended: the number of rows whose entries it added, or why it failed.
pub fn step_ended<H: SchemaHost>(host: &mut H, result: Result<i64, Failure>) {
    let faults = host.faults();
    let schema = host.schema_changes();
    assert!(!schema.is_changing(), "a step ends when its change is decided");
    let build = schema.build_mut().expect("the build of the step is in progress");
    match next(&build.stage, result, faults) {
        Next::Begin(stage) => begin_stage(host, stage),
        Next::End(result) => end(host, result),
    }
}

/// What follows a step that ended. A host that is busy repeats it, and an index whose build failed
/// has to be dropped in the end.
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
        (Stage::Drop(_), Err(_)) => Next::Begin(stage.clone()),
        (Stage::Cover | Stage::Complete, Err(why)) if why.status == Status::ServerUnavailable => {
            Next::Begin(stage.clone())
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
            (Err(why), Stage::Drop(_)) => return end(host, Err(why)),
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
        assert_eq!(next(&dropping, Err(why), sound), Next::Begin(dropping.clone()));
        let first = Failure::graceful("first");
        assert_eq!(next(&dropping, Ok(0), sound), Next::End(Err(first)));
    }

    #[test]
    fn a_busy_host_repeats_a_step_that_follows_the_declaration() {
        let busy = Failure::new(Status::ServerUnavailable, "busy");
        for stage in stages() {
            let expected = match stage {
                Stage::Declare => Next::End(Err(busy.clone())),
                _ => Next::Begin(stage.clone()),
            };
            assert_eq!(next(&stage, Err(busy.clone()), Faults::default()), expected);
        }
    }
}
