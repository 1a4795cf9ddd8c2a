//! `@Statistics`: what the host itself knows is answered at once; what the site threads count is
//! gathered from all of them first.

use super::Control;
use super::system::text_parameter;
use crate::clock;
use crate::message::{Envelope, Origin};
use crate::statistics::ShardSnapshot;
use lockstep_types::{Datum, Failure, HostId, Parameter, PartitionId, Status};
use lockstep_wire_volt::Invocation;
use lockstep_wire_volt::topology::{
    PartitionSites, RingForm, SiteAddress, json_ring, raw_ring, write_topology,
};
use std::io::Write;

mod tables;

/// A call that waits until all threads have sent their numbers.
pub(super) struct Gathering {
    origin: Origin,
    selector: String,
    /// Numbers since the last call that asked so, instead of since the start.
    interval: bool,
    snapshots: Vec<Box<ShardSnapshot>>,
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
    ) -> Result<(), Failure> {
        let count = invocation.parameters.count();
        if !(1..=2).contains(&count) {
            return Err(Failure::graceful(format!(
                "Incorrect number of arguments to @Statistics (expects 2, received {count})"
            )));
        }
        let Some(selector) = text_parameter(invocation, 0) else {
            return Err(Failure::graceful(
                "First argument to @Statistics must be a valid STRING selector, instead was NULL",
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
            return Ok(());
        }
        if !tables::is_selector(&selector) {
            return Err(Failure::graceful(format!(
                "First argument to @Statistics must be a valid STRING selector, instead was \
                 {selector}"
            )));
        }
        let request = self.next_gather;
        self.next_gather += 1;
        let gathering =
            Gathering { origin, selector, interval: second == 1, snapshots: Vec::new() };
        self.gathers.insert(request, gathering);
        for thread in 0..self.facts.partition_count as usize {
            self.outbox.send(thread, Envelope::Gather { request });
        }
        Ok(())
    }

    /// A thread's numbers arrived.
    pub(super) fn gathered(&mut self, request: u64, snapshot: Box<ShardSnapshot>) {
        let Some(gathering) = self.gathers.get_mut(&request) else { return };
        gathering.snapshots.push(snapshot);
        if gathering.snapshots.len() < self.facts.partition_count as usize {
            return;
        }
        let Some(mut gathering) = self.gathers.remove(&request) else { return };
        gathering.snapshots.sort_by_key(|snapshot| snapshot.index);
        let view = tables::View {
            facts: std::sync::Arc::clone(&self.facts),
            catalog: std::sync::Arc::clone(&self.catalog),
            snapshots: gathering.snapshots,
            now_ms: clock::now_us() / 1000,
            interval: gathering.interval,
            plans: (self.plans.len(), self.plans.hits, self.plans.misses),
        };
        self.answer_tables(gathering.origin, |out| tables::write(out, &gathering.selector, &view));
    }

    fn topology(&mut self, origin: Origin, json: bool) {
        let facts = std::sync::Arc::clone(&self.facts);
        let ring = match json {
            false => raw_ring(&facts.ring),
            true => gzip(json_ring(&facts.ring).as_bytes()),
        };
        let form = if json { RingForm::CompressedJson(&ring) } else { RingForm::Raw(&ring) };
        let partitions = partition_sites(facts.partition_count);
        self.answer_tables(origin, |out| write_topology(out, &partitions, form));
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).expect("writing to a vector cannot fail")
}

/// One host: every partition's only replica is its site here, and the coordinator is at site 0.
fn partition_sites(partition_count: u32) -> Vec<PartitionSites> {
    let place = |partition: PartitionId, site: u32| {
        let address = SiteAddress { host: HostId(0), site };
        PartitionSites { partition, sites: vec![address], leader: Some(address) }
    };
    (0..partition_count)
        .map(|number| place(PartitionId(number), number))
        .chain([place(PartitionId::MULTI, 0)])
        .collect()
}
