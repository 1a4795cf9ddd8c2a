//! `@Statistics`: what the host itself knows is answered at once; what the site threads count is
//! gathered from all of them first.

use super::system::text_parameter;
use super::{Control, answer};
use crate::clock;
use crate::log::LogPruner;
use crate::message::{Envelope, Origin};
use crate::statistics::ThreadSnapshot;
use lockstep_host::placement::{Placement, SitePlace};
use lockstep_host::schema::Handled;
use lockstep_types::{
    Datum, Failure, HostId, Parameter, PartitionId, SqlType, Status, TableBuilder, TableSchema,
};
use lockstep_wire_volt::Invocation;
use lockstep_wire_volt::topology::{
    PartitionSites, RingForm, SiteAddress, json_ring, raw_ring, write_topology,
};
use std::io::Write;

mod interval;
mod query;
mod tables;

use query::{StatisticsQuery, Tables};

pub(super) use interval::Interval;

/// A call that waits until all threads have sent their numbers.
pub(super) struct Gathering {
    origin: Origin,
    purpose: Purpose,
    snapshots: Vec<ThreadSnapshot>,
}

/// What the numbers are for.
enum Purpose {
    /// `@Statistics`.
    Statistics {
        selector: String,
        /// Numbers since the last call that asked so, instead of since the start.
        interval: bool,
    },
    /// `@QueryStats`.
    Query(StatisticsQuery),
    /// `@ValidatePartitioning`.
    Validation,
    /// `@PingPartitions`.
    Ping,
}

/// Resident memory of this process in KiB; 0 when the system does not say.
pub(super) fn resident_kb() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    pages.unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(0) / 1024
}

/// Physical memory of the machine, in KiB; 0 when the system does not say.
pub(super) fn physical_memory_kb() -> u64 {
    // SAFETY: sysconf reads a constant of the system and touches no memory of ours.
    let (pages, page_bytes) =
        unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    u64::try_from(pages).unwrap_or(0) * u64::try_from(page_bytes).unwrap_or(0) / 1024
}

impl Control {
    pub(super) fn statistics(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<Handled, Failure> {
        let count = invocation.parameters.count();
        if !(1..=2).contains(&count) {
            return Err(Failure::graceful(format!(
                "Incorrect number of arguments to @Statistics (expects 2, received {count})"
            )));
        }
        let Some(selector) = text_parameter(invocation, 0) else {
            return Err(Failure::graceful(
                "First argument to @Statistics must be a valid STRING selector, instead was null",
            ));
        };
        let second = match invocation.parameters.get(1) {
            None => 0,
            Some(Ok(Parameter::Scalar(_, Datum::Int(number)))) => number,
            Some(_) => {
                return Err(Failure::new(
                    Status::OperationalFailure,
                    "Failed to get statistics (the second argument is not a number)",
                ));
            }
        };
        let selector = selector.to_ascii_uppercase();
        if selector == "TOPO" {
            self.topology(origin, second == 1);
            return Ok(Handled::Answered);
        }
        if !tables::is_selector(&selector) {
            return Err(Failure::graceful(format!(
                "First argument to @Statistics must be a valid STRING selector, instead was \
                 {selector}"
            )));
        }
        self.gather(origin, Purpose::Statistics { selector, interval: second == 1 });
        Ok(Handled::Pending)
    }

    /// `@QueryStats`: SQL over tables of statistics. As VoltDB's, it has no failures: what is
    /// wrong is the status text of a success without tables.
    pub(super) fn query_statistics(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Handled {
        let query = match (invocation.parameters.count(), text_parameter(invocation, 0)) {
            (1, Some(text)) => StatisticsQuery::read(text),
            _ => Err(Failure::graceful("@QueryStats requires the SQL text as its only parameter.")),
        };
        match query {
            Ok(query) => {
                self.gather(origin, Purpose::Query(query));
                Handled::Pending
            }
            Err(failure) => {
                self.answer_with_text(origin, &failure.message, |_| 0);
                Handled::Answered
            }
        }
    }

    /// `@PingPartitions`: answers when the thread of every site has answered.
    pub(super) fn ping_partitions(&mut self, origin: Origin) -> Result<(), Failure> {
        self.gather(origin, Purpose::Ping);
        Ok(())
    }

    /// `@ValidatePartitioning`: every site looks through its tables.
    pub(super) fn validate_partitioning(&mut self, origin: Origin) -> Result<(), Failure> {
        self.gather(origin, Purpose::Validation);
        Ok(())
    }

    fn gather(&mut self, origin: Origin, purpose: Purpose) {
        let request = self.next_gather;
        self.next_gather += 1;
        let validate = matches!(purpose, Purpose::Validation);
        self.gathers.insert(request, Gathering { origin, purpose, snapshots: Vec::new() });
        for thread in self.facts.placement.sites() {
            self.outbox.send(thread, Envelope::Gather { request, validate });
        }
    }

    /// A thread's numbers arrived.
    pub(super) fn gathered(&mut self, request: u64, snapshot: Box<ThreadSnapshot>) {
        let Some(gathering) = self.gathers.get_mut(&request) else { return };
        gathering.snapshots.push(*snapshot);
        if gathering.snapshots.len() < usize::from(self.facts.placement.site_count()) {
            return;
        }
        let Some(mut gathering) = self.gathers.remove(&request) else { return };
        gathering.snapshots.sort_by_key(|snapshot| snapshot.thread);
        let (origin, snapshots) = (gathering.origin, gathering.snapshots);
        match gathering.purpose {
            Purpose::Validation => {
                let host = self.facts.placement.host();
                self.answer_tables(origin, |out| write_validation(out, host, &snapshots))
            }
            Purpose::Statistics { selector, interval } => {
                let view = self.view(&selector, interval, origin, snapshots);
                self.answer_tables(origin, |out| tables::write(out, &selector, &view));
            }
            Purpose::Ping => self.answer_tables(origin, answer::write_status),
            Purpose::Query(query) => self.answer_query(origin, &query, &snapshots),
        }
    }

    fn answer_query(
        &mut self,
        origin: Origin,
        query: &StatisticsQuery,
        snapshots: &[ThreadSnapshot],
    ) {
        let mut sources = Vec::new();
        for source in &query.sources {
            let view = self.view(&source.selector, source.interval, origin, snapshots.to_vec());
            let mut table = Vec::new();
            let count = tables::write(&mut table, &source.selector, &view);
            sources.push(Tables { count, bytes: table });
        }
        match query.run(&sources, &self.facts.options) {
            Err(failure) => self.answer_with_text(origin, &failure.message, |_| 0),
            Ok(result) => self.answer_with_text(origin, "SUCCESS", |out| {
                out.extend_from_slice(&result);
                1
            }),
        }
    }

    /// What a selector's tables are made from.
    fn view(
        &mut self,
        selector: &str,
        interval: bool,
        asking: Origin,
        mut snapshots: Vec<ThreadSnapshot>,
    ) -> tables::View {
        let now_ms = clock::now_us() / 1000;
        let mut since_ms = self.facts.started_ms;
        if interval {
            let seen = Interval { snapshots: snapshots.clone(), taken_ms: now_ms };
            if let Some(earlier) = self.intervals.insert(selector.to_string(), seen) {
                since_ms = earlier.taken_ms;
                interval::subtract(&mut snapshots, &earlier.snapshots);
            }
        }
        tables::View {
            facts: std::sync::Arc::clone(&self.facts),
            catalog: std::sync::Arc::clone(self.schema.catalog()),
            asking,
            snapshots,
            now_ms,
            log: self.log_pruner.as_ref().map(LogPruner::status),
            since_ms,
            snapshot_status: self.snapshot_status(),
            snapshot_summary: self.snapshot_summary(),
            tasks: self.task_rows(),
            expired: self.expiry.rows(),
            plans: tables::PlannerCounts {
                kept: self.plans.len() as u64,
                hits: self.plans.hits,
                misses: self.plans.misses,
                planned: self.plans.planned,
                failures: self.plans.failures,
                planning_ns: self.plans.planning_ns,
            },
        }
    }

    fn topology(&mut self, origin: Origin, json: bool) {
        let facts = std::sync::Arc::clone(&self.facts);
        let ring = match json {
            false => raw_ring(&facts.ring),
            true => gzip(json_ring(&facts.ring).as_bytes()),
        };
        let form = if json { RingForm::CompressedJson(&ring) } else { RingForm::Raw(&ring) };
        let partitions = partition_sites(&facts.placement);
        self.answer_tables(origin, |out| write_topology(out, &partitions, form));
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).expect("writing to a vector cannot fail")
}

/// Where each partition is, and, under the number that clients know it by, the coordinator.
fn partition_sites(placement: &Placement) -> Vec<PartitionSites> {
    let at = |partition: PartitionId, place: SitePlace| {
        let address = SiteAddress { host: place.host, site: place.thread.0.into() };
        PartitionSites { partition, sites: vec![address], leader: Some(address) }
    };
    (0..placement.partition_count())
        .map(PartitionId)
        .map(|partition| at(partition, placement.leader_of(partition)))
        .chain([at(PartitionId::MULTI, placement.coordinator())])
        .collect()
}

/// The tables of `@ValidatePartitioning`: misplaced rows per site and table, and that every site
/// hashes alike, because they share one ring.
fn write_validation(out: &mut Vec<u8>, host: HostId, snapshots: &[ThreadSnapshot]) -> u16 {
    let host = Datum::Int(host.0.into());
    let site = [
        ("HOST_ID", SqlType::Integer),
        ("SITE_ID", SqlType::Integer),
        ("PARTITION_ID", SqlType::Integer),
    ];
    let rows = [("TABLE", SqlType::Varchar), ("MISPARTITIONED_ROWS", SqlType::BigInt)];
    let schema = TableSchema::new(&[&site[..], &rows[..]].concat());
    let mut table = TableBuilder::begin(out, &schema);
    let replicas = || snapshots.iter().flat_map(|thread| &thread.replicas);
    for snapshot in replicas() {
        let (site, partition) = (snapshot.site(), snapshot.partition());
        let misplaced = snapshot.mispartitioned.as_deref().unwrap_or(&[]);
        for statistics in &snapshot.tables {
            let found = misplaced.iter().find(|(id, _)| *id == statistics.table);
            let count = found.map_or(0, |(_, count)| *count as i64);
            let name = Datum::Text(&statistics.name);
            let (site, partition) = (site.as_datum(), partition.as_datum());
            table.row(&schema, &[host, site, partition, name, Datum::Int(count)]);
        }
    }
    table.finish();
    let hashing = [("HASHINATOR_MATCHES", SqlType::TinyInt)];
    let schema = TableSchema::new(&[&site[..], &hashing[..]].concat());
    let mut table = TableBuilder::begin(out, &schema);
    for snapshot in replicas() {
        let (site, partition) = (snapshot.site(), snapshot.partition());
        table.row(&schema, &[host, site.as_datum(), partition.as_datum(), Datum::Int(1)]);
    }
    table.finish();
    2
}
