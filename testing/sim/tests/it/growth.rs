//! What a call costs does not depend on how many hosts there are.

use lockstep_sim::hosts::growth::{Costs, Growth, Traffic, run, slope_per_host};

fn traffic(hosts: u32, k: u8, transfers_per_mille: u64) -> Traffic {
    let growth = Growth { hosts, k, calls: 200, transfers_per_mille };
    run(1, growth).unwrap_or_else(|problem| panic!("{hosts} hosts, K = {k}: {problem}"))
}

#[test]
fn a_call_of_one_partition_takes_as_much_whatever_the_number_of_hosts() {
    for hosts in [1, 4, 16] {
        assert_eq!(traffic(hosts, 0, 0).messages, 0, "a call without a copy stays at its host");
    }
    let counted = [2, 4, 8, 16, 32].map(|hosts| (hosts, traffic(hosts, 1, 0)));
    let of = |figure: fn(&Traffic) -> f64| {
        counted.iter().map(|(hosts, traffic)| (*hosts, figure(traffic))).collect::<Vec<_>>()
    };
    let (messages, bytes) = (of(Traffic::messages_a_call), of(Traffic::bytes_a_call));
    for points in [&messages, &bytes] {
        assert!(slope_per_host(points).abs() < 0.01, "{points:?}");
    }
    // A piece of the log and its receipt, or one of both for several calls.
    assert!(messages.iter().all(|(_, messages)| (1.0..=2.0).contains(messages)), "{messages:?}");
}

#[test]
fn transfers_make_the_host_of_the_coordinator_busy_first() {
    let costs = Costs { call_ns: 1.0, entry_ns: 1.0, message_ns: 1.0 };
    let counted = traffic(8, 0, 500);
    let (most_per_s, host) = counted.most_per_s(&costs);
    assert_eq!(host, 0, "{counted:?}");
    assert!(most_per_s < traffic(8, 0, 0).most_per_s(&costs).0 / 2.0, "{counted:?}");
}

#[test]
fn a_slope_is_a_part_of_the_mean() {
    let grows = |by: f64| [1, 2, 4].map(|hosts| (hosts, 10.0 + by * f64::from(hosts)));
    assert!(slope_per_host(&grows(0.0)).abs() < 1e-12);
    assert!((slope_per_host(&grows(3.0)) - 3.0 / 17.0).abs() < 1e-12);
    assert_eq!(slope_per_host(&[(1, 0.0), (2, 0.0)]), 0.0);
}
