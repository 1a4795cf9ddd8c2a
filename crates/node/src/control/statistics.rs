//! What the threads of a host count: gathered from all of them for calls of `@Statistics` and the
//! like, and surveyed from time to time for the planner.

mod interval;
mod query;
mod request;
mod survey;
mod tables;
mod topology;
mod validation;

use super::{Control, answer};
use crate::catalog::HostCatalog;
use crate::clock;
use crate::log::LogPruner;
use crate::mailbox::Outbox;
use crate::message::{Envelope, Origin};
use crate::shard::HostFacts;
use crate::statistics::ThreadSnapshot;
use interval::Interval;
use lockstep_host::codec::SurveyedTable;
use lockstep_host::schema::Handled;
use lockstep_types::{Failure, ThreadId};
use lockstep_wire_volt::Invocation;
use query::{StatisticsQuery, Tables};
use request::{Purpose, StatisticsRequest, read_query};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use survey::Survey;
use tables::View;

pub(super) use survey::Surveyed;
pub(super) use tables::{HostCounts, PlannerCounts};

/// The counts of a host's threads.
pub(super) struct Statistics {
    facts: Arc<HostFacts>,
    /// The calls that wait until all threads have sent their counts, by their requests.
    gathers: BTreeMap<u64, Gathering>,
    next_request: u64,
    /// Per selector, the counts that the last call with an interval saw.
    intervals: BTreeMap<String, Interval>,
    survey: Survey,
}

/// A call that waits until all threads have sent their counts.
pub(super) struct Gathering {
    origin: Origin,
    purpose: Purpose,
    snapshots: Vec<ThreadSnapshot>,
}

/// What a call is answered with.
pub(super) struct StatisticsAnswer {
    origin: Origin,
    /// The status text; none of a call that is answered with tables alone.
    status_text: Option<String>,
    tables: Tables,
}

/// Appends the tables of `@Statistics TOPO` as they are pushed to clients; returns their number.
pub(super) fn topology_tables(out: &mut Vec<u8>, facts: &HostFacts) -> u16 {
    topology::write(out, facts, false)
}

impl Statistics {
    /// Nothing is counted and nothing surveyed yet.
    pub(super) fn new(facts: Arc<HostFacts>) -> Statistics {
        Statistics {
            gathers: BTreeMap::new(),
            next_request: 1,
            intervals: BTreeMap::new(),
            survey: Survey::new(facts.options.statistics_interval_ms, facts.partition_count),
            facts,
        }
    }

    /// Requests the counts of all threads for a call.
    fn gather(&mut self, origin: Origin, purpose: Purpose, outbox: &mut Outbox<Envelope>) {
        let request = self.next_request;
        self.next_request += 1;
        let validate = matches!(purpose, Purpose::Validation);
        self.gathers.insert(request, Gathering { origin, purpose, snapshots: Vec::new() });
        for thread in self.facts.placement().sites() {
            outbox.send(thread, Envelope::Gather { request, validate });
        }
    }

    /// Adds the counts of a thread; returns the call that has those of all threads now, in the
    /// order of the threads.
    fn gathered(&mut self, request: u64, snapshot: ThreadSnapshot) -> Option<Gathering> {
        let gathering = self.gathers.get_mut(&request)?;
        gathering.snapshots.push(snapshot);
        if gathering.snapshots.len() < usize::from(self.facts.placement().site_count()) {
            return None;
        }
        let mut gathering = self.gathers.remove(&request)?;
        gathering.snapshots.sort_by_key(|snapshot| snapshot.thread);
        Some(gathering)
    }

    /// The response to a call that has the counts of all threads.
    fn answer(
        &mut self,
        gathering: Gathering,
        catalog: &HostCatalog,
        host: &HostCounts,
    ) -> StatisticsAnswer {
        let Gathering { origin, purpose, snapshots } = gathering;
        let tables = match purpose {
            Purpose::Ping => Tables::written(answer::write_status),
            Purpose::Validation => {
                let id = self.facts.placement().host();
                Tables::written(|out| validation::write(out, id, &snapshots))
            }
            Purpose::Selector { name, interval } => {
                let view = self.view(&name, interval, origin, snapshots, catalog, host);
                Tables::written(|out| tables::write(out, &name, &view))
            }
            Purpose::Query(query) => {
                let (status_text, tables) =
                    match self.query(&query, origin, &snapshots, catalog, host) {
                        Ok(tables) => ("SUCCESS".to_string(), tables),
                        Err(failure) => (failure.message, Tables::default()),
                    };
                return StatisticsAnswer { origin, status_text: Some(status_text), tables };
            }
        };
        StatisticsAnswer { origin, status_text: None, tables }
    }

    /// Runs a query over the tables of its selectors.
    fn query(
        &mut self,
        query: &StatisticsQuery,
        origin: Origin,
        snapshots: &[ThreadSnapshot],
        catalog: &HostCatalog,
        host: &HostCounts,
    ) -> Result<Tables, Failure> {
        let mut sources = Vec::new();
        for source in &query.sources {
            let (selector, interval) = (&source.selector, source.interval);
            let view = self.view(selector, interval, origin, snapshots.to_vec(), catalog, host);
            sources.push(Tables::written(|out| tables::write(out, selector, &view)));
        }
        let bytes = query.run(&sources, &self.facts.options)?;
        Ok(Tables { count: 1, bytes })
    }

    /// What a selector's tables are made from.
    fn view<'a>(
        &'a mut self,
        selector: &str,
        interval: bool,
        asking: Origin,
        mut snapshots: Vec<ThreadSnapshot>,
        catalog: &'a HostCatalog,
        host: &'a HostCounts,
    ) -> View<'a> {
        let now_ms = clock::now_us() / 1000;
        let mut since_ms = self.facts.started_ms;
        if interval {
            let seen = Interval { snapshots: snapshots.clone(), taken_ms: now_ms };
            if let Some(earlier) = self.intervals.insert(selector.to_string(), seen) {
                since_ms = earlier.taken_ms;
                interval::subtract(&mut snapshots, &earlier.snapshots);
            }
        }
        View { facts: &self.facts, catalog, asking, snapshots, now_ms, since_ms, host }
    }

    /// Until the next survey; `None` when there is nothing to wait for.
    pub(super) fn survey_time_left(&self, now_us: i64) -> Option<Duration> {
        self.survey.time_left(now_us)
    }
}

impl Control {
    /// `@Statistics`.
    pub(super) fn statistics(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        match StatisticsRequest::read(invocation)? {
            StatisticsRequest::Topology { json } => {
                let facts = Arc::clone(&self.facts);
                self.answer_tables(origin, |out| topology::write(out, &facts, json));
                Ok(Handled::Answered)
            }
            StatisticsRequest::Gather(purpose) => Ok(self.gather(origin, purpose)),
        }
    }

    /// `@QueryStats`: SQL over tables of statistics. As VoltDB's, it has no failures: what is
    /// wrong is the status text of a success without tables.
    pub(super) fn query_statistics(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Handled {
        match read_query(invocation) {
            Ok(query) => self.gather(origin, query),
            Err(failure) => {
                self.answer_with_text(origin, &failure.message, |_| 0);
                Handled::Answered
            }
        }
    }

    /// `@PingPartitions`: answers when the thread of every site has answered.
    pub(super) fn ping_partitions(&mut self, origin: Origin) -> Handled {
        self.gather(origin, Purpose::Ping)
    }

    /// `@ValidatePartitioning`: every site checks its tables.
    pub(super) fn validate_partitioning(&mut self, origin: Origin) -> Handled {
        self.gather(origin, Purpose::Validation)
    }

    fn gather(&mut self, origin: Origin, purpose: Purpose) -> Handled {
        self.statistics.gather(origin, purpose, &mut self.outbox);
        Handled::Pending
    }

    /// A thread's counts arrived.
    pub(super) fn gathered(&mut self, request: u64, snapshot: ThreadSnapshot) {
        let Some(gathering) = self.statistics.gathered(request, snapshot) else { return };
        let counts = self.host_counts();
        let answer = self.statistics.answer(gathering, self.schema.catalog(), &counts);
        let StatisticsAnswer { origin, status_text, tables } = answer;
        match status_text {
            None => self.answer_tables(origin, |out| tables.append_to(out)),
            Some(text) => self.answer_with_text(origin, &text, |out| tables.append_to(out)),
        }
    }

    /// What the components of this thread count.
    fn host_counts(&self) -> HostCounts {
        HostCounts {
            log: self.log_pruner.as_ref().map(LogPruner::status),
            snapshot_status: self.snapshots.status_rows(),
            snapshot_summary: self.snapshots.summary_rows(),
            tasks: self.task_rows(),
            expired: self.expiry.rows(),
            plans: self.planner.counts(),
            rebalance: self.rebalance.rows(&self.facts),
        }
    }

    /// Surveys the sites, if it is time to.
    pub(super) fn begin_survey_if_due(&mut self) {
        if !self.facts.placement().leads_control() {
            return;
        }
        let (known, placement) = (self.planner.known_data(), self.facts.placement());
        let survey = &mut self.statistics.survey;
        survey.begin_if_due(clock::now_us(), known, &placement, &mut self.outbox);
    }

    /// A site's part of a survey arrived.
    pub(super) fn surveyed(&mut self, thread: ThreadId, tables: Vec<SurveyedTable>) {
        let known = self.planner.known_data();
        let survey = &mut self.statistics.survey;
        if let Some(found) = survey.surveyed(thread, tables, self.schema.catalog(), known) {
            self.planner.learn(found);
        }
    }
}
