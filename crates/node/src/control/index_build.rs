//! CREATE GLOBAL INDEX on a table that is there: built in steps, each a short transaction, with
//! calls running between them.
//!
//! The first step is a schema change: from it on, changes of rows that the index has taken in
//! change it. Then as many transactions as it needs take in a bounded number of rows each. The
//! last step is a schema change again, which lets statements find rows by it. A row that breaks
//! the index, in whatever step, ends it: a schema change takes it away. Other schema changes wait.

use super::change::CatalogChange;
use super::{Control, SystemCall, answer};
use crate::clock;
use crate::intake::Changes;
use crate::message::{BUILD_KEY, NO_PROCEDURE, Origin};
use lockstep_exec::statement::PreparedStatement;
use lockstep_plan::{Catalog, GlobalIndexBuild};
use lockstep_site::{BoundStatement, MultiWork, StatementCall};
use lockstep_types::{Datum, Failure, Status};
use lockstep_wire_volt::Response;
use std::sync::Arc;

/// Bytes of a frame's length.
pub(super) const LENGTH_BYTES: usize = 4;

/// A global index that is built.
pub(super) struct IndexBuild {
    /// Who waits for it; nobody where the host stopped since it was begun.
    origin: Option<Origin>,
    /// What is told with its success, if anything.
    advice: Option<String>,
    build: GlobalIndexBuild,
    statement: Arc<PreparedStatement>,
    stage: Stage,
}

/// The step that is under way.
#[derive(Debug, Clone)]
enum Stage {
    /// The index is declared.
    Begin,
    /// Rows are taken in.
    Cover,
    /// It comes into force.
    End,
    /// It is taken away, and this is why.
    TakeAway(Failure),
}

impl Control {
    /// Begins to build a global index for a client.
    pub(super) fn begin_index_build(
        &mut self,
        origin: Origin,
        text: &str,
        build: GlobalIndexBuild,
    ) -> Result<(), Failure> {
        let rows = self.facts.options.index_build_rows as u32;
        let statement = Catalog::cover(&build, rows);
        let partition_count = self.facts.partition_count;
        let statement = Arc::new(PreparedStatement::for_partitions(statement, partition_count));
        self.change_catalog(own_origin(), CatalogChange::BeginIndex(text))?;
        let advice = (!self.next_advice.is_empty()).then(|| self.next_advice.join("\n"));
        let (origin, stage) = (Some(origin), Stage::Begin);
        self.build = Some(IndexBuild { origin, advice, build, statement, stage });
        Ok(())
    }

    /// Goes on with an index that the host was building when it stopped.
    pub(super) fn go_on_with_build(&mut self) {
        let Some(build) = self.catalog.plan.builds().next() else { return };
        let statement = Catalog::cover(&build, self.facts.options.index_build_rows as u32);
        let partition_count = self.facts.partition_count;
        let statement = Arc::new(PreparedStatement::for_partitions(statement, partition_count));
        let (origin, advice, stage) = (None, None, Stage::Cover);
        self.build = Some(IndexBuild { origin, advice, build, statement, stage });
        self.send_cover();
        self.outbox.flush();
    }

    /// Gives a schema change back, unless it has to wait until an index is built.
    pub(super) fn unless_building(&mut self, call: SystemCall) -> Option<SystemCall> {
        if self.build.is_none() {
            return Some(call);
        }
        let limit = self.facts.options.max_planner_queue;
        if self.waiting_for_build.len() as u64 >= limit {
            let text = format!(
                "{limit} schema changes wait for the end of building a global index already \
                 (option max_planner_queue); try again later."
            );
            self.answer_failure(call.origin, &Failure::new(Status::ServerUnavailable, text));
            return None;
        }
        self.waiting_for_build.push_back(call);
        None
    }

    /// A step has ended; `frame` is its answer.
    pub(super) fn index_build_step(&mut self, status: Status, frame: &[u8]) {
        let Some(build) = &self.build else { return };
        let stage = build.stage.clone();
        match (read_step(status, frame), stage) {
            (Ok(_), Stage::Begin) => self.build_stage(Stage::Cover),
            (Ok(count), Stage::Cover) if count > 0 => self.build_stage(Stage::Cover),
            (Ok(_), Stage::Cover) => self.build_stage(Stage::End),
            (Ok(_), Stage::End) => self.index_built(),
            (Ok(_), Stage::TakeAway(why)) => self.index_refused(&why),
            // The host is busy: that is no reason to give up what was begun.
            (Err(why), stage @ (Stage::Cover | Stage::End | Stage::TakeAway(_)))
                if why.status == Status::ServerUnavailable =>
            {
                self.build_stage(stage);
            }
            (Err(why), Stage::Begin) => self.index_refused(&why),
            (Err(why), Stage::Cover | Stage::End) => self.build_stage(Stage::TakeAway(why)),
            (Err(why), Stage::TakeAway(_)) => self.index_refused(&why),
        }
    }

    /// Begins a step.
    fn build_stage(&mut self, stage: Stage) {
        let Some(build) = &mut self.build else { return };
        build.stage = stage.clone();
        let keep = match stage {
            Stage::Begin | Stage::Cover => {
                return match self.facts.intake.check(Changes::Anything, true) {
                    Ok(()) => self.send_cover(),
                    Err(why) => self.build_stage(Stage::TakeAway(why)),
                };
            }
            Stage::End => true,
            Stage::TakeAway(_) => false,
        };
        let index = build.build.index.clone();
        let change = CatalogChange::EndIndex { index: &index, keep };
        match (self.change_catalog(own_origin(), change), stage) {
            (Ok(()), _) => {}
            (Err(why), Stage::TakeAway(_)) => self.index_refused(&why),
            (Err(why), _) => self.build_stage(Stage::TakeAway(why)),
        }
    }

    /// Sends the transaction that takes in the next rows.
    fn send_cover(&mut self) {
        let Some(build) = &self.build else { return };
        let bound = BoundStatement {
            statement: Arc::clone(&build.statement),
            parameters: Arc::from(&[0, 0][..]),
            shipped: None,
            found: None,
            profile: None,
        };
        let statements = vec![bound];
        let work = StatementCall { statements, read_only: false, counted: false, answer: None };
        let work = MultiWork::Statements(work);
        self.send_multi(own_origin(), Arc::from(&[][..]), None, work);
    }

    fn index_built(&mut self) {
        if let Some(build) = self.build.take()
            && let Some(origin) = build.origin
        {
            self.answer_tables_with(origin, build.advice, answer::write_status);
        }
        self.go_on_behind_build();
    }

    fn index_refused(&mut self, why: &Failure) {
        if let Some(build) = self.build.take() {
            match build.origin {
                Some(origin) => self.answer_failure(origin, why),
                None => tracing::warn!(index = build.build.index, %why, "the index is not built"),
            }
        }
        self.go_on_behind_build();
    }

    /// Schema changes that waited: the first may be another build, behind which the rest waits.
    fn go_on_behind_build(&mut self) {
        for call in std::mem::take(&mut self.waiting_for_build) {
            self.call(call);
        }
    }
}

/// Of the control thread's own calls.
fn own_origin() -> Origin {
    Origin {
        shard: 0,
        connection: BUILD_KEY,
        handle: 0,
        arrived_us: clock::now_us(),
        procedure: NO_PROCEDURE,
        weight: 0,
    }
}

/// The count of a step that was done, or why it was not.
pub(super) fn read_step(status: Status, frame: &[u8]) -> Result<i64, Failure> {
    let unreadable = |error: String| Failure::unexpected(format!("an own answer: {error}"));
    let body = frame.get(LENGTH_BYTES..).unwrap_or_default();
    let response = Response::decode(body).map_err(|error| unreadable(error.to_string()))?;
    if !response.is_success() {
        return Err(Failure::new(status, response.status_text.unwrap_or_default()));
    }
    let first = response.tables().next();
    let Some(Ok(table)) = first else { return Err(unreadable("it has no table".to_string())) };
    let mut row = Vec::new();
    for read in table.rows().take(1) {
        let read = read.and_then(|read| read.read_into(&mut row));
        read.map_err(|error| unreadable(error.to_string()))?;
    }
    match row.first() {
        Some(Datum::Int(count)) => Ok(*count),
        _ => Err(unreadable("it has no count".to_string())),
    }
}
