//! The start of a cluster from the directories of its hosts: who takes part, whose log of a
//! partition counts, and what each host lacks.
//!
//! The hosts report what their directories have. The newest placement that one of them has says
//! which copies were in sync; all of its hosts must be there, since any of them may have acted on
//! one that is newer still, in which there are fewer hosts and never more. Of the copies in sync
//! the one counts whose last entry is of the latest epoch, and among those the longest; the others
//! are brought to its end before anything is replayed.

use lockstep_durability::ClusterId;
use lockstep_durability::recovery::CopyEnd;
use lockstep_types::{HostId, PartitionId, TransactionId};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// What a host's directory has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReport {
    /// The name of the directory.
    pub directory: ClusterId,
    /// By number of a host, its directory by what is known there, if the cluster has begun; zeros
    /// where it is not known.
    pub members: Option<Vec<ClusterId>>,
    /// The directory is to take the place of one that is lost.
    pub replaces: bool,
    /// The newest placement that is known there.
    pub placement: DurablePlacement,
    /// By partition, where the log ends.
    pub ends: Vec<CopyEnd>,
    /// The transaction of the newest snapshot of the host's copies; 0 for none. Its log may lack
    /// what comes before.
    pub saved: TransactionId,
}

/// Who had which copies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DurablePlacement {
    /// Its epoch; 0 for the first placement, before any was agreed on.
    pub epoch: u64,
    /// The hosts of the cluster.
    pub up: BTreeSet<HostId>,
    /// By partition, the hosts whose copies were in sync.
    pub in_sync: Vec<Vec<HostId>>,
}

/// What the reports lead to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Assembly {
    /// Hosts are missing, each with partitions that it has a copy of.
    Waits(BTreeMap<HostId, Vec<PartitionId>>),
    /// The cluster went on without this host: it joins the others once they serve.
    Out,
    /// All are there.
    Complete(AssemblyPlan),
}

/// What a host that starts is to a cluster that serves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlaceAmongServing {
    /// Nothing counts that its directory has: it joins as a host without data.
    Out,
    /// Its copies count. The others have not noticed that it was lost, or are about to.
    Counts,
    /// Nobody else has copies of these that count: the cluster has to start with this host.
    HasLast(Vec<PartitionId>),
}

/// What a host is to a cluster that serves, whose leader goes by the placement `serves`. The host
/// itself knows of the placement `known`.
pub fn place_among_serving(
    own: HostId,
    known: &DurablePlacement,
    serves: &DurablePlacement,
) -> PlaceAmongServing {
    let numbered = || (0..).map(PartitionId).zip(&serves.in_sync);
    let last = numbered().filter(|(_, hosts)| hosts[..] == [own]);
    let last: Vec<PartitionId> = last.map(|(partition, _)| partition).collect();
    let counts = numbered().any(|(_, hosts)| hosts.contains(&own));
    assert!(counts || last.is_empty(), "the only copy counts");
    match (counts, last.is_empty()) {
        // Of an older placement nothing follows: its copies may have come to count since.
        (false, _) if serves.epoch >= known.epoch => PlaceAmongServing::Out,
        (_, true) => PlaceAmongServing::Counts,
        (_, false) => PlaceAmongServing::HasLast(last),
    }
}

/// How a cluster starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AssemblyPlan {
    /// The hosts that take part.
    pub hosts: BTreeSet<HostId>,
    /// Nothing was kept anywhere: the cluster begins.
    pub is_new: bool,
    /// An earlier run has agreed on a placement: that one is in force again in a new epoch.
    pub is_placed: bool,
    /// By partition, the host whose log counts.
    pub winners: Vec<HostId>,
    /// By partition, where that ends.
    pub ends: Vec<CopyEnd>,
    /// By partition, the snapshot that it goes on from ([`HostReport::saved`]).
    pub settled: Vec<TransactionId>,
    /// By partition, whether this host has a copy in sync.
    pub own: Vec<bool>,
    /// The partitions whose log here lacks entries, and after which one.
    pub lacks: Vec<(PartitionId, u64)>,
}

lockstep_base::faults! {
    /// Ways to break a start on purpose, for the tests of its checks; nothing in a server.
    pub struct AssemblyFaults {
        /// The log of a copy counts that was not in sync.
        start_stale,
        /// Of the copies in sync the first one counts, however far its log goes.
        start_behind,
    }
}

impl HostReport {
    /// Whether something was kept.
    pub fn has_begun(&self) -> bool {
        self.placement.epoch > 0 || self.ends.iter().any(|end| end.end > 0)
    }
}

/// What follows from the reports that have come, the own one among them.
///
/// # Errors
/// The hosts cannot start together: the text for the user.
pub fn assemble(
    own: HostId,
    reports: &BTreeMap<HostId, HostReport>,
    faults: AssemblyFaults,
) -> Result<Assembly, String> {
    check_directories(reports)?;
    let newest = reports.values().map(|report| &report.placement).max_by_key(|it| it.epoch);
    let newest = newest.expect("the own report is there");
    if !newest.up.contains(&own) {
        return Ok(Assembly::Out);
    }
    let missing: BTreeMap<HostId, Vec<PartitionId>> = newest
        .up
        .iter()
        .filter(|host| !reports.contains_key(host))
        .map(|host| (*host, partitions_of(*host, newest)))
        .collect();
    if !missing.is_empty() {
        return Ok(Assembly::Waits(missing));
    }
    let mut plan = AssemblyPlan {
        hosts: newest.up.clone(),
        is_new: !reports.values().any(HostReport::has_begun),
        is_placed: newest.epoch > 0,
        winners: Vec::new(),
        ends: Vec::new(),
        settled: Vec::new(),
        own: Vec::new(),
        lacks: Vec::new(),
    };
    for (number, in_sync) in newest.in_sync.iter().enumerate() {
        let end_at = |host: &HostId| &reports[host].ends[number];
        let key = |host: &&HostId| match faults.start_behind() {
            true => (0, 0, Reverse(**host)),
            false => (end_at(host).epoch(), end_at(host).end, Reverse(**host)),
        };
        let is_in_sync = |host: &&HostId| in_sync.contains(host) || faults.start_stale();
        let counts = newest.up.iter().filter(is_in_sync);
        let winner = *counts.max_by_key(key).ok_or_else(|| {
            format!("no host of the cluster has a copy of partition {number} that is in sync")
        })?;
        let (end, is_own) = (end_at(&winner), in_sync.contains(&own));
        if is_own && end_at(&own) != end {
            let common = end.common_end(end_at(&own));
            if common < end.end {
                plan.lacks.push((PartitionId(number as u32), common));
            }
        }
        plan.winners.push(winner);
        plan.settled.push(reports[&winner].saved);
        plan.ends.push(end.clone());
        plan.own.push(is_own);
    }
    assert_eq!(plan.winners.len(), plan.own.len(), "each partition has a log that counts");
    assert!(plan.winners.iter().all(|host| plan.hosts.contains(host)), "it is of a host here");
    Ok(Assembly::Complete(plan))
}

fn partitions_of(host: HostId, placement: &DurablePlacement) -> Vec<PartitionId> {
    let all = (0..).map(PartitionId).zip(&placement.in_sync);
    all.filter(|(_, hosts)| hosts.contains(&host)).map(|(partition, _)| partition).collect()
}

/// A cluster that has begun starts with the directories that it had.
///
/// A directory may have taken the place of another one since: the newest placement comes with the
/// directories of all hosts that take part in it. The others join when these serve.
fn check_directories(reports: &BTreeMap<HostId, HostReport>) -> Result<(), String> {
    let begun = reports.iter().filter(|(_, report)| report.has_begun());
    let Some(newest) = begun.clone().map(|(_, report)| report.placement.epoch).max() else {
        return Ok(());
    };
    for (host, report) in begun.filter(|(_, report)| report.placement.epoch == newest) {
        let Some(members) = &report.members else { continue };
        let takes_part = |other: &HostId| other != host && report.placement.up.contains(other);
        for (other, found) in reports.iter().filter(|(other, _)| takes_part(other)) {
            let had = members.get(other.0 as usize);
            if had == Some(&ClusterId::default()) {
                continue;
            }
            if had != Some(&found.directory) {
                return Err(other_directory((*other, found), *host, had));
            }
        }
    }
    Ok(())
}

/// What a host gets that was started with another directory than the cluster of a host has there.
pub fn other_directory(
    (host, report): (HostId, &HostReport),
    of: HostId,
    had: Option<&ClusterId>,
) -> String {
    let had = had.map_or("none".to_string(), ClusterId::to_string);
    let what = format!(
        "host {host} was started with the directory {}, and the cluster that host {of} is of has \
         {had} there",
        report.directory
    );
    match (report.replaces, report.has_begun()) {
        (true, true) => format!("{what}: only an empty directory can take its place"),
        (true, false) => format!(
            "{what}, with copies that count: start each host with the directory that it had"
        ),
        (false, _) => format!(
            "{what}: start each host with the directory that it had. Where that is lost, a new one \
             takes its place with --rejoin, beside hosts that serve"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(number: u8) -> ClusterId {
        ClusterId([number; 16])
    }

    fn end(epoch: u32, end: u64) -> CopyEnd {
        CopyEnd { begins: (1..=epoch).map(|it| (it, if it == 1 { 1 } else { end })).collect(), end }
    }

    /// Three hosts, each partition at two of them: partition N at the hosts N and N + 1.
    fn report(host: u8, epoch: u64, up: &[u32], ends: [CopyEnd; 3]) -> HostReport {
        let up: BTreeSet<HostId> = up.iter().copied().map(HostId).collect();
        let copies = (0..3).map(|number| {
            let hosts = [HostId(number), HostId((number + 1) % 3)];
            hosts.into_iter().filter(|host| up.contains(host)).collect()
        });
        HostReport {
            directory: directory(host),
            members: Some((0..3).map(directory).collect()),
            replaces: false,
            placement: DurablePlacement { epoch, in_sync: copies.collect(), up },
            ends: ends.to_vec(),
            saved: TransactionId(0),
        }
    }

    fn start(own: HostId, reports: &BTreeMap<HostId, HostReport>) -> Result<Assembly, String> {
        assemble(own, reports, AssemblyFaults::default())
    }

    fn nothing() -> CopyEnd {
        CopyEnd::default()
    }

    #[test]
    fn the_latest_epoch_and_then_the_longest_log_counts() {
        let reports = BTreeMap::from([
            (HostId(0), report(0, 1, &[0, 1, 2], [end(1, 9), nothing(), end(2, 4)])),
            (HostId(1), report(1, 1, &[0, 1, 2], [end(1, 7), end(1, 3), nothing()])),
            (HostId(2), report(2, 1, &[0, 1, 2], [nothing(), end(1, 3), end(1, 8)])),
        ]);
        let Ok(Assembly::Complete(plan)) = start(HostId(1), &reports) else { panic!("all") };
        assert_eq!(plan.winners, [HostId(0), HostId(1), HostId(0)]);
        assert_eq!(plan.own, [true, true, false]);
        assert_eq!(plan.lacks, [(PartitionId(0), 7)]);
        let Ok(Assembly::Complete(plan)) = start(HostId(2), &reports) else { panic!("all") };
        // What it has of the epoch before, where the later one begins, does not count.
        assert_eq!(plan.lacks, [(PartitionId(2), 3)]);
    }

    #[test]
    fn a_stale_copy_never_wins_and_is_not_waited_for() {
        let mut reports = BTreeMap::from([
            (HostId(2), report(2, 1, &[0, 1, 2], [nothing(), end(1, 30), end(1, 80)])),
            (HostId(0), report(0, 1, &[0, 1, 2], [end(1, 9), nothing(), end(1, 5)])),
        ]);
        // Nobody here knows that host 2 was lost: host 1 may.
        let waits = BTreeMap::from([(HostId(1), vec![PartitionId(0), PartitionId(1)])]);
        assert_eq!(start(HostId(0), &reports), Ok(Assembly::Waits(waits)));
        reports.insert(HostId(1), report(1, 4, &[0, 1], [end(1, 9), end(2, 3), nothing()]));
        let Ok(Assembly::Complete(plan)) = start(HostId(0), &reports) else { panic!("both") };
        assert_eq!(plan.winners, [HostId(0), HostId(1), HostId(0)]);
        assert_eq!(plan.hosts, BTreeSet::from([HostId(0), HostId(1)]));
        assert_eq!(start(HostId(2), &reports), Ok(Assembly::Out), "it was lost");
    }

    #[test]
    fn data_are_superfluous_only_by_a_placement_that_is_no_older_than_the_known_one() {
        let of =
            |epoch, up: &[u32]| report(0, epoch, up, [nothing(), nothing(), nothing()]).placement;
        let place = |known: u64, serves: u64, up: &[u32]| {
            place_among_serving(HostId(2), &of(known, &[0, 1, 2]), &of(serves, up))
        };
        assert_eq!(place(3, 4, &[0, 1]), PlaceAmongServing::Out);
        assert_eq!(place(4, 4, &[0, 1]), PlaceAmongServing::Out);
        assert_eq!(place(5, 4, &[0, 1]), PlaceAmongServing::Counts, "an old one");
        assert_eq!(place(3, 4, &[0, 1, 2]), PlaceAmongServing::Counts);
        let last = vec![PartitionId(1)];
        assert_eq!(place(3, 4, &[0, 2]), PlaceAmongServing::HasLast(last));
    }

    #[test]
    fn another_directory_is_refused_once_the_cluster_has_begun() {
        let ends = || [nothing(), nothing(), nothing()];
        let mut reports: BTreeMap<HostId, HostReport> =
            (0..3).map(|host| (HostId(host.into()), report(host, 0, &[0, 1, 2], ends()))).collect();
        reports.get_mut(&HostId(2)).expect("it is there").directory = directory(9);
        let Ok(Assembly::Complete(plan)) = start(HostId(0), &reports) else { panic!("new") };
        assert!(plan.is_new && !plan.is_placed && plan.lacks.is_empty());
        reports.get_mut(&HostId(0)).expect("it is there").ends[0] = end(1, 1);
        let error = start(HostId(0), &reports).expect_err("a directory is lost");
        assert!(error.contains("host 2 was started with the directory 0909"), "{error}");
    }

    #[test]
    fn the_newest_placement_says_which_directory_has_taken_the_place_of_another_one() {
        let ends = || [end(1, 3), end(1, 3), end(1, 3)];
        let reports = |up: &[u32]| -> BTreeMap<HostId, HostReport> {
            let of = |host: u8| match host {
                0 => {
                    let members = Some([0, 1, 9].map(directory).into());
                    HostReport { members, ..report(0, 5, up, ends()) }
                }
                _ => report(host, 4, &[0, 1, 2], ends()),
            };
            (0..3).map(|host| (HostId(host.into()), of(host))).collect()
        };
        let without = reports(&[0, 1]);
        for own in [HostId(0), HostId(1)] {
            let Ok(Assembly::Complete(plan)) = start(own, &without) else { panic!("{own}") };
            assert_eq!(plan.hosts, BTreeSet::from([HostId(0), HostId(1)]));
        }
        assert_eq!(start(HostId(2), &without), Ok(Assembly::Out));
        let error = start(HostId(1), &reports(&[0, 1, 2])).expect_err("it has another one");
        assert!(error.contains("host 2 was started with the directory 0202"), "{error}");
        assert!(error.contains("of has 0909"), "{error}");
    }
}
