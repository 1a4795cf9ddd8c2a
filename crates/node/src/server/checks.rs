//! What a host is started with, checked and completed.

use super::ServerConfiguration;
use crate::links::DEFAULT_PLACEMENT_GROUP;
use crate::log::Data;
use crate::options::OnOff;
use lockstep_host::placement::MAX_SITES;
use lockstep_types::PartitionId;
use std::io;

/// What a host is started with: copies of partitions are compared by their digests.
///
/// # Errors
/// There are more sites or partitions than can have numbers, or the directory is of one of several
/// hosts.
pub(super) fn checked(mut configuration: ServerConfiguration) -> io::Result<ServerConfiguration> {
    check_partition_limit(&configuration)?;
    let data = configuration.data.as_ref();
    match &mut configuration.cluster {
        Some(cluster) => {
            cluster.terms.durability = data.map(|data| data.durability);
            cluster.terms.placement_groups = cluster.placement_group != DEFAULT_PLACEMENT_GROUP;
        }
        None => check_is_alone(data).map_err(io::Error::other)?,
    }
    let cluster = configuration.cluster.as_ref();
    if cluster.is_some_and(|cluster| cluster.terms.kfactor > 0) {
        configuration.options.replica_digests = OnOff::On;
    }
    Ok(configuration)
}

/// Refuses to start a host of a cluster without the others.
fn check_is_alone(data: Option<&Data>) -> Result<(), String> {
    match data.and_then(|data| Some((data, data.cluster.several?))) {
        None => Ok(()),
        Some((data, several)) => Err(format!(
            "{} is of one of {} hosts: start it with --internal and --peers, which names all of \
             them",
            data.disk.shown(""),
            several.hosts
        )),
    }
}

/// Refuses a host with more sites or partitions than can have numbers.
fn check_partition_limit(configuration: &ServerConfiguration) -> io::Result<()> {
    if configuration.sites > MAX_SITES {
        let asked = configuration.sites;
        return Err(io::Error::other(format!("a host has 1 to {MAX_SITES} sites, not {asked}")));
    }
    let partitions = configuration.partition_count().map_err(io::Error::other)?;
    let limit = PartitionId::LIMIT - 1;
    if (1..=limit).contains(&partitions) {
        return Ok(());
    }
    let (sites, each) = (configuration.sites, configuration.options.partitions_per_site.to_u32());
    Err(io::Error::other(format!(
        "{sites} sites with {each} partitions each (option partitions_per_site) have {partitions} \
         partitions, and a cluster has 1 to {limit}"
    )))
}

/// A directory is started with as many partitions as it was made with.
pub(super) fn check_partition_count(
    configuration: &ServerConfiguration,
    data: &Data,
) -> Result<(), String> {
    let (partitions, sites) = (data.cluster.partition_count, configuration.sites);
    let each = configuration.options.partitions_per_site.to_u32();
    if partitions == configuration.partition_count()? {
        return Ok(());
    }
    let directory = data.disk.shown("");
    let asked = match each {
        1 => format!("{sites} sites were asked for"),
        _ => format!("{sites} sites with {each} partitions each were asked for"),
    };
    let advice = match partitions % each {
        0 => format!("start it with --sites {}", partitions / each),
        _ => format!("start it with --sites {partitions} and the option partitions_per_site=1"),
    };
    Err(format!(
        "the directory {directory} is of a cluster with {partitions} partitions, and {asked}: \
         {advice}"
    ))
}
