//! Shapes, and where their copies are placed.

use super::*;
use std::collections::BTreeSet;

fn shape(hosts: u32, sites_per_host: u16, partitions_per_site: u16, k: u8) -> Shape {
    Shape { hosts, witnesses: 0, sites_per_host, partitions_per_site, k }
}

#[test]
fn every_shape_that_divides_is_spread_evenly_and_every_other_one_names_what_would_fit() {
    let (mut placed, mut refused) = (0, 0);
    for hosts in 1..=9 {
        for sites in 1..=5 {
            for per_site in 1..=3 {
                for k in 0..=4 {
                    let shape = shape(hosts, sites, per_site, k);
                    let groups = vec![""; hosts as usize];
                    let total = hosts * u32::from(sites) * u32::from(per_site);
                    let fits = hosts > u32::from(k) && total.is_multiple_of(u32::from(k) + 1);
                    match first_placement(&shape, &groups) {
                        Ok(partitions) => {
                            assert!(fits, "{shape:?}");
                            check(&shape, &partitions);
                            placed += 1;
                        }
                        Err(Refusal::Shape(text)) => {
                            assert!(!fits && text.contains("would fit"), "{shape:?}: {text}");
                            refused += 1;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
            }
        }
    }
    assert!(placed > 200 && refused > 100, "{placed} {refused}");
}

fn check(shape: &Shape, partitions: &[PartitionState]) {
    let hosts = shape.hosts as usize;
    let mut led = vec![0; hosts];
    let mut sites = BTreeMap::new();
    for partition in partitions {
        assert_eq!(partition.copies.len(), shape.copies());
        let at: BTreeSet<HostId> = partition.copies.iter().map(|copy| copy.host).collect();
        assert_eq!(at.len(), shape.copies(), "copies are at different hosts");
        assert!(at.contains(&partition.leader));
        led[partition.leader.0 as usize] += 1;
        for copy in &partition.copies {
            *sites.entry(*copy).or_insert(0) += 1;
        }
    }
    assert_eq!(sites.len(), hosts * usize::from(shape.sites_per_host));
    assert!(sites.values().all(|filled| *filled == shape.partitions_per_site));
    let (least, most) = (led.iter().min().expect("hosts"), led.iter().max().expect("hosts"));
    assert!(most - least <= 1, "leaders are spread: {led:?} for {shape:?}");
}

#[test]
fn followers_of_one_host_are_spread_over_the_others() {
    let shape = shape(5, 8, 1, 1);
    let partitions = first_placement(&shape, &[""; 5]).expect("it fits");
    for host in (0..5).map(HostId) {
        let mut by_follower = BTreeMap::new();
        for partition in partitions.iter().filter(|partition| partition.leader == host) {
            let follower = partition.followers().next().expect("K = 1");
            *by_follower.entry(follower).or_insert(0) += 1;
        }
        assert_eq!(by_follower.len(), 4, "host {host}: {by_follower:?}");
        assert!(by_follower.values().all(|count| *count == 1), "host {host}: {by_follower:?}");
    }
}

#[test]
fn copies_are_in_different_groups_where_the_groups_allow_it() {
    let cases: &[(&[&str], u16, u8, bool)] = &[
        (&["a", "a", "b", "b"], 4, 1, true),
        (&["a", "a", "b", "b"], 3, 1, true),
        (&["a", "a", "b", "b", "c", "c"], 4, 2, true),
        (&["a", "a", "b", "b", "c", "c"], 4, 1, true),
        (&["a", "b", "a", "b", "a", "b"], 5, 1, true),
        // More than half of the copies are in one group.
        (&["a", "a", "a", "b"], 2, 1, false),
        (&["a", "a"], 2, 1, false),
    ];
    for &(groups, sites, k, apart) in cases {
        let shape = shape(groups.len() as u32, sites, 1, k);
        let partitions = first_placement(&shape, groups).expect("it fits");
        check(&shape, &partitions);
        let shared = partitions.iter().filter(|partition| {
            let used = partition.copies.iter().map(|copy| groups[copy.host.0 as usize]);
            used.collect::<BTreeSet<_>>().len() < shape.copies()
        });
        assert_eq!(shared.count() == 0, apart, "{groups:?} {sites} {k}");
    }
}

#[test]
fn errors_name_the_values_that_would_fit() {
    let cases = [
        (
            shape(3, 3, 1, 1),
            "3 hosts x 3 replicas cannot be divided by 2 copies (K = 1): 2 sites per host, \
             4 sites per host, 2 hosts, 4 hosts would fit",
        ),
        (shape(2, 2, 1, 2), "K = 2 needs 3 hosts, and 2 are configured: K = 1 would fit"),
        (
            shape(512, 64, 1, 0),
            "32768 partitions are over the limit 16383: fewer sites per host would fit",
        ),
    ];
    for (shape, expected) in cases {
        assert_eq!(partition_count(&shape).expect_err("it does not fit"), expected);
    }
}
