//! The tables of `@Statistics TOPO`: where the partitions are, and the ring that maps hashes to
//! them.

use crate::shard::HostFacts;
use lockstep_host::placement::Placement;
use lockstep_types::{PartitionId, ThreadId};
use lockstep_wire_volt::topology::{
    PartitionSites, RingForm, SiteAddress, json_ring, raw_ring, write_topology,
};
use std::io::Write;

/// Appends the tables, with the ring as JSON or as bytes; returns their number.
pub(super) fn write(out: &mut Vec<u8>, facts: &HostFacts, json: bool) -> u16 {
    let ring = match json {
        false => raw_ring(&facts.ring),
        true => gzip(json_ring(&facts.ring).as_bytes()),
    };
    let form = if json { RingForm::CompressedJson(&ring) } else { RingForm::Raw(&ring) };
    write_topology(out, &partition_sites(&facts.placement()), form)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    let written = encoder.write_all(bytes);
    written.and_then(|()| encoder.finish()).expect("writing to a vector cannot fail")
}

/// Where the copies of each partition are, and, under the number that clients know it by, the
/// coordinator.
fn partition_sites(placement: &Placement) -> Vec<PartitionSites> {
    let address =
        |thread: &ThreadId| SiteAddress { host: thread.host(), site: thread.index() as u32 };
    let at = |partition: PartitionId, leader: ThreadId, followers: &[ThreadId]| {
        let mut copies: Vec<ThreadId> = followers.iter().copied().chain([leader]).collect();
        copies.sort_unstable();
        let sites = copies.iter().map(address).collect();
        PartitionSites { partition, sites, leader: Some(address(&leader)) }
    };
    let of_partition = |partition| {
        at(partition, placement.leader_of(partition), placement.followers_of(partition))
    };
    (0..placement.partition_count())
        .map(PartitionId)
        .map(of_partition)
        .chain([at(PartitionId::MULTI, placement.coordinator(), &[])])
        .collect()
}
