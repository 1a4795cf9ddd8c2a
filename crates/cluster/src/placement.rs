//! The first placement: which host has which copies, and who leads. It follows from the shape and
//! the placement groups alone.

use crate::error::Refusal;
use crate::ids::Epoch;
use crate::state::{Copy, PartitionState, Shape};
use lockstep_types::{HostId, PartitionId, ThreadId};
use std::collections::BTreeMap;

/// Number of partitions of a shape: hosts x sites x replicas per site / (K + 1).
///
/// # Errors
/// The copies cannot be spread evenly, or there are too few hosts or too many partitions. The text
/// says which values would fit.
pub fn partition_count(shape: &Shape) -> Result<u32, String> {
    let Shape { hosts, witnesses, sites_per_host, partitions_per_site, k } = *shape;
    let copies = u64::from(k) + 1;
    let per_host = u64::from(sites_per_host) * u64::from(partitions_per_site);
    if hosts == 0 || per_host == 0 {
        return Err("a cluster has at least one host, one site and one replica per site".into());
    }
    if shape.members() > crate::ids::HOST_LIMIT {
        let limit = crate::ids::HOST_LIMIT;
        return Err(format!("{hosts} hosts and {witnesses} witnesses are over the limit {limit}"));
    }
    if u64::from(hosts) < copies {
        return Err(format!(
            "K = {k} needs {copies} hosts, and {hosts} are configured: K = {} would fit",
            hosts - 1
        ));
    }
    let total = u64::from(hosts) * per_host;
    if total % copies != 0 {
        return Err(format!(
            "{hosts} hosts x {per_host} replicas cannot be divided by {copies} copies (K = {k}): \
             {} would fit",
            fitting(hosts, sites_per_host, partitions_per_site, copies)
        ));
    }
    match total / copies {
        count if count <= u64::from(PartitionId::LIMIT) => Ok(count as u32),
        count => Err(format!(
            "{count} partitions are over the limit {}: fewer sites per host would fit",
            PartitionId::LIMIT
        )),
    }
}

/// The nearest values that divide, in words.
fn fitting(hosts: u32, sites: u16, per_site: u16, copies: u64) -> String {
    let divides =
        |hosts: u64, sites: u64| (hosts * sites * u64::from(per_site)).is_multiple_of(copies);
    let (hosts, sites) = (u64::from(hosts), u64::from(sites));
    let mut values = Vec::new();
    let mut near = |what: &str, least: u64, value: u64, fits: &dyn Fn(u64) -> bool| {
        let below = (least..value).rev().find(|&value| fits(value));
        let above = (value + 1..=value + copies).find(|&value| fits(value));
        values.extend([below, above].into_iter().flatten().map(|value| format!("{value} {what}")));
    };
    near("sites per host", 1, sites, &|sites| divides(hosts, sites));
    near("hosts", copies, hosts, &|hosts| divides(hosts, sites));
    values.join(", ")
}

/// The first placement, in epoch 1.
///
/// * Each host has as many copies as any other, and each of its sites as many as any other site.
/// * Leaders are spread over all hosts as evenly as their number allows.
/// * The copies of a partition are at different hosts, and in different placement groups where
///   the groups allow it.
/// * The followers of the leaders of one host are spread over all other hosts, so that its
///   failure gives each of them a part of the load.
///
/// `groups` has the placement group of each host, by number.
///
/// # Errors
/// As for [`partition_count`].
pub fn first_placement(shape: &Shape, groups: &[&str]) -> Result<Vec<PartitionState>, Refusal> {
    let count = partition_count(shape).map_err(Refusal::Shape)?;
    assert_eq!(groups.len(), shape.hosts as usize, "each host has a placement group");
    let order = interleave(groups);
    let mut copies = spread(shape, &order, count);
    separate_groups(&mut copies, groups);
    let leaders = choose_leaders(&copies, shape.hosts);
    let threads = choose_threads(shape, &copies, &leaders);
    let partitions = copies.iter().zip(&leaders).enumerate().map(|(partition, (hosts, leader))| {
        let copy = |&host: &HostId| Copy { host, thread: threads[&(partition, host)] };
        let mut copies: Vec<Copy> = hosts.iter().map(copy).collect();
        copies.sort();
        let (epoch, leader) = (Epoch(1), *leader);
        PartitionState {
            epoch,
            leader,
            copies,
            learning: Vec::new(),
            hand_over: None,
            moving: None,
            previous: None,
            handed_over_since: epoch,
        }
    });
    Ok(partitions.collect())
}

/// The hosts in an order in which neighbours are of different groups, as far as possible: the
/// first of each group, then the second of each, greater groups first.
fn interleave(groups: &[&str]) -> Vec<HostId> {
    let mut by_group: BTreeMap<&str, Vec<HostId>> = BTreeMap::new();
    for (number, group) in (0..).zip(groups) {
        by_group.entry(group).or_default().push(HostId(number));
    }
    let mut lists: Vec<Vec<HostId>> = by_group.into_values().collect();
    lists.sort_by_key(|hosts| (std::cmp::Reverse(hosts.len()), hosts[0]));
    let longest = lists.first().map_or(0, Vec::len);
    let nth = |n: usize| lists.iter().filter_map(move |hosts| hosts.get(n).copied());
    (0..longest).flat_map(nth).collect()
}

/// By partition, its hosts; the first one leads. Whole rows of as many partitions as hosts give
/// each host one leader and K followers; what is left is dealt out in turn.
fn spread(shape: &Shape, order: &[HostId], count: u32) -> Vec<Vec<HostId>> {
    let hosts = order.len();
    let (count, followers) = (count as usize, usize::from(shape.k));
    let in_rows = count - count % hosts;
    let in_row = |partition: usize| {
        let (leader, row) = (partition % hosts, partition / hosts);
        let follower = |nth| order[(leader + 1 + (row + nth) % (hosts - 1)) % hosts];
        std::iter::once(order[leader]).chain((0..followers).map(follower)).collect()
    };
    let left_over = |partition: usize| {
        let first = (partition - in_rows) * shape.copies();
        (first..first + shape.copies()).map(|at| order[at % hosts]).collect()
    };
    (0..count).map(|p| if p < in_rows { in_row(p) } else { left_over(p) }).collect()
}

/// How many of a partition's hosts share their group with one before them.
pub(crate) fn conflicts(hosts: &[HostId], groups: &[&str]) -> usize {
    let group = |host: &HostId| groups[host.0 as usize];
    let shared = |at: usize| hosts[..at].iter().any(|before| group(before) == group(&hosts[at]));
    (1..hosts.len()).filter(|&at| shared(at)).count()
}

/// Swaps followers between partitions as long as fewer copies share a group by it. Each host keeps
/// its number of copies.
fn separate_groups(copies: &mut [Vec<HostId>], groups: &[&str]) {
    for a in 0..copies.len() {
        for slot in 1..copies[a].len() {
            if conflicts(&copies[a], groups) == 0 {
                break;
            }
            for b in 0..copies.len() {
                if (1..copies[b].len()).any(|other| try_swap(copies, groups, (a, slot), (b, other)))
                {
                    break;
                }
            }
        }
    }
}

/// Lets two partitions exchange one of their hosts each, if fewer copies share a group by it.
pub(crate) fn try_swap(
    copies: &mut [Vec<HostId>],
    groups: &[&str],
    (a, slot): (usize, usize),
    (b, other): (usize, usize),
) -> bool {
    let (from, to) = (copies[a][slot], copies[b][other]);
    if a == b || copies[a].contains(&to) || copies[b].contains(&from) {
        return false;
    }
    let before = conflicts(&copies[a], groups) + conflicts(&copies[b], groups);
    (copies[a][slot], copies[b][other]) = (to, from);
    let better = conflicts(&copies[a], groups) + conflicts(&copies[b], groups) < before;
    if !better {
        (copies[a][slot], copies[b][other]) = (from, to);
    }
    better
}

/// By partition, the one of its hosts that leads fewest partitions so far; of several, the first.
fn choose_leaders(copies: &[Vec<HostId>], hosts: u32) -> Vec<HostId> {
    let mut led = vec![0usize; hosts as usize];
    let mut choose = |partition: &Vec<HostId>| {
        let least = partition.iter().min_by_key(|host| led[host.0 as usize]);
        let leader = *least.expect("a partition has a copy");
        led[leader.0 as usize] += 1;
        leader
    };
    copies.iter().map(&mut choose).collect()
}

/// The site of each copy: a host's leaders are spread over its sites first, then its followers
/// fill the sites up.
fn choose_threads(
    shape: &Shape,
    copies: &[Vec<HostId>],
    leaders: &[HostId],
) -> BTreeMap<(usize, HostId), ThreadId> {
    let mut filled = vec![vec![0u16; usize::from(shape.sites_per_host)]; shape.hosts as usize];
    let mut threads = BTreeMap::new();
    for leading in [true, false] {
        for (partition, hosts) in copies.iter().enumerate() {
            for host in hosts.iter().filter(|host| (**host == leaders[partition]) == leading) {
                let sites = &mut filled[host.0 as usize];
                let least = (0..sites.len()).min_by_key(|site| sites[*site]);
                let site = least.expect("a host has a site");
                sites[site] += 1;
                threads.insert((partition, *host), ThreadId(site as u16));
            }
        }
    }
    let full = filled.iter().flatten().all(|filled| *filled == shape.partitions_per_site);
    assert!(full, "each site has the configured number of replicas");
    threads
}

#[cfg(test)]
mod tests;
