//! Several hosts with the control plane of each: a short set of seeds, and faults that the judges
//! must notice.

use super::kept_seeds;
use lockstep_sim::hosts::{
    HostFaults, Report, run_aging, run_kfactor, run_lists, run_reads, run_resizes, run_seed,
    run_tpcc,
};
use lockstep_sim::{Failure, Faults, ReplicaFaults};

const CALLS: usize = 300;

#[test]
fn nothing_is_lost_and_nothing_is_stale_whichever_host_is_lost() {
    let mut sum = Report::default();
    for seed in 1..=450 {
        let report = run_seed(seed, CALLS, HostFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    // The judges looked at something.
    println!("{sum}");
    assert!(sum.answered > 50_000 && sum.unknown > 300 && sum.epochs > 300, "{sum:?}");
    assert!(sum.killed > 100 && sum.lost > 200 && sum.false_suspicions > 50, "{sum:?}");
    assert!(sum.minorities > 30 && sum.lease_refusals > 200 && sum.long_pauses > 50, "{sum:?}");
    assert!(sum.one_way_cuts > 50 && sum.cuts > 100 && sum.sessions > 20, "{sum:?}");
    // A host with the only copy of a partition is put out, and takes part again.
    assert!(sum.resumed > 0, "{sum:?}");
    // More is lost than there are copies for: what needs it is refused, and the rest goes on.
    assert!(sum.refused_unavailable > 100 && sum.ended_unavailable > 0, "{sum:?}");
    assert!(sum.left_unavailable > 0, "{sum:?}");
    // The schema changes meanwhile, and coordinators find what they have to end of that.
    assert!(sum.changes > 500 && sum.planned_again > 200, "{sum:?}");
    assert!(sum.changes_found_made > 20 && sum.changes_found_undone > 0, "{sum:?}");
    assert!(sum.hops > 1_000, "{sum:?}");
    assert!(sum.moved > 100 && sum.coordinators_moved > 100, "{sum:?}");
    // Lost hosts are started again and load their copies, several times over where things fail.
    assert!(sum.started_again > 500 && sum.joined > 500 && sum.loaded > 800, "{sum:?}");
    assert!(sum.loads_again > 20 && sum.in_sync > 800, "{sum:?}");
    assert!(sum.returned_leaders > 500 && sum.stuck < 5, "{sum:?}");
    assert!(sum.leaders > 150 && sum.reopened > 200 && sum.coordinators > 50, "{sum:?}");
}

#[test]
fn copies_are_loaded_although_leaders_forget_what_they_have_asked_for() {
    let mut sum = Report::default();
    for seed in 1..=60 {
        let faults = HostFaults { lose_asks: true, ..HostFaults::default() };
        let report = run_seed(seed, CALLS, faults);
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    assert!(sum.asks_lost > 50 && sum.asks_repeated > 50 && sum.in_sync > 50, "{sum:?}");
}

#[test]
fn k_changes_whichever_host_is_lost() {
    let mut sum = Report::default();
    for seed in 1..=150 {
        let report = run_kfactor(seed, CALLS, HostFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    assert!(
        sum.k_changes > 100 && sum.copy_moves > 50 && sum.in_sync > 300 && sum.leaders > 50,
        "{sum:?}"
    );
}

#[test]
fn hosts_are_added_and_removed_whichever_host_is_lost() {
    let mut sum = Report::default();
    for seed in 1..=60 {
        let report = run_resizes(seed, CALLS, HostFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    assert!(sum.added > 60 && sum.removed > 30 && sum.in_sync > 300, "{sum:?}");
}

#[test]
fn transactions_over_lists_have_an_order_whichever_host_is_lost() {
    let mut sum = Report::default();
    for seed in 1..=100 {
        let report = run_lists(seed, CALLS, HostFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    assert!(sum.answered > 10_000 && sum.unknown > 50 && sum.edges > 1_000_000, "{sum:?}");
    assert!(sum.leaders > 30 && sum.coordinators > 10 && sum.returned_leaders > 50, "{sum:?}");
}

#[test]
fn copies_answer_reads_that_are_no_staler_than_they_say() {
    let mut sum = Report::default();
    for seed in 1..=150 {
        let report = run_reads(seed, CALLS, HostFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    assert!(sum.reads_at_copies > 1_000 && sum.reads_too_stale > 1_000, "{sum:?}");
    assert!(sum.leaders > 30 && sum.moved > 30 && sum.returned_leaders > 50, "{sum:?}");
}

#[test]
fn rows_go_when_their_time_is_over_whichever_host_is_lost() {
    let mut sum = Report::default();
    for seed in 1..=120 {
        let report = run_aging(seed, CALLS, HostFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    assert!(sum.answered > 10_000 && sum.unknown > 50, "{sum:?}");
    assert!(sum.deletions > 10_000 && sum.expired > 10_000, "{sum:?}");
    // Also where the host was lost, or the coordinator moved, that had rows deleted.
    assert!(sum.expired_after_takeover > 5_000 && sum.coordinators > 50, "{sum:?}");
    assert!(sum.leaders > 200 && sum.returned_leaders > 50, "{sum:?}");
}

#[test]
fn the_conditions_of_tpc_c_hold_whichever_host_is_lost() {
    let mut sum = Report::default();
    for seed in 1..=80 {
        let report = run_tpcc(seed, CALLS, HostFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    assert!(sum.orders > 5_000 && sum.payments > 5_000 && sum.deliveries > 1_000, "{sum:?}");
    assert!(sum.remote > 2_000 && sum.rollbacks > 20 && sum.snapshots > 1_000, "{sum:?}");
    assert!(sum.unknown > 50 && sum.leaders > 100 && sum.coordinators > 30, "{sum:?}");
}

#[test]
fn transactions_of_tpc_c_that_are_lost_or_made_twice_are_caught() {
    let sound = HostFaults::default();
    let twice = HostFaults { resend_handed_call: true, ..sound };
    let found = (1..=300).find_map(|seed| {
        let failure = run_tpcc(seed, CALLS, twice).err()?.to_string();
        failure.contains("TPC-C").then_some(failure)
    });
    assert!(found.is_some(), "resend_handed_call goes unnoticed");
    // With assertions on, the code under test notices it before the judge does.
    let lost = HostFaults { lose_vote: true, ..sound };
    assert!(caught(run_tpcc, lost).is_some(), "lose_vote goes unnoticed");
}

#[test]
fn rows_that_go_early_or_stay_after_a_takeover_are_caught() {
    let found = |faults, text: &str| {
        let found = (1..=300).find_map(|seed| {
            let failure = run_aging(seed, CALLS, faults).err()?.to_string();
            failure.contains(text).then_some(failure)
        });
        println!("{found:?}");
        found.is_some()
    };
    let sound = HostFaults::default();
    let early = HostFaults { expire_early: true, ..sound };
    assert!(found(early, "missed row"), "expire_early goes unnoticed");
    let stopped = HostFaults { stop_expiring: true, ..sound };
    assert!(found(stopped, "rows are left"), "stop_expiring goes unnoticed");
}

#[test]
fn reads_at_copies_that_are_staler_than_they_say_are_caught() {
    let faults = HostFaults { read_before_applied: true, ..HostFaults::default() };
    let found = (1..=3_000).find_map(|seed| {
        let failure = run_reads(seed, CALLS, faults).err()?.to_string();
        failure.contains("found version").then_some(failure)
    });
    assert!(found.is_some(), "read_before_applied goes unnoticed");
}

#[test]
fn the_same_seed_gives_the_same_run_of_hosts() {
    for seed in [5, 77] {
        for run in [run_seed, run_lists, run_reads, run_aging, run_tpcc, run_kfactor, run_resizes] {
            let run = || run(seed, CALLS, HostFaults::default());
            let first = run().unwrap_or_else(|failure| panic!("{failure}"));
            assert_eq!(first, run().unwrap_or_else(|failure| panic!("{failure}")));
        }
    }
}

#[test]
fn seeds_of_hosts_that_failed_once_pass() {
    for seed in kept_seeds("hosts.txt") {
        for calls in [200, CALLS, 400] {
            let ran = run_seed(seed, calls, HostFaults::default());
            ran.unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

type Run = fn(u64, usize, HostFaults) -> Result<Report, Failure>;

/// The first seed that a judge catches; a failed assertion of the code under test counts.
fn caught(run: Run, faults: HostFaults) -> Option<String> {
    (1..=3_000).find_map(|seed| {
        let run = || run(seed, CALLS, faults).err().map(|failure| failure.to_string());
        std::panic::catch_unwind(run).unwrap_or_else(|_| Some(format!("seed {seed}: a panic")))
    })
}

#[test]
fn faults_of_hosts_are_caught() {
    let sound = HostFaults::default();
    let streams = |streams| HostFaults { streams, ..sound };
    let site = |site| HostFaults { site, ..sound };
    let (stream, one) = (ReplicaFaults::default(), Faults::default());
    let lease = lockstep_cluster::Faults { serve_after_lease: true, ..Default::default() };
    std::panic::set_hook(Box::new(|_| {}));
    let caught = [
        ("serve_after_lease", HostFaults { cluster: lease, ..sound }),
        ("shrink_without_epoch", HostFaults { shrink_without_epoch: true, ..sound }),
        ("run_after_seal", HostFaults { run_after_seal: true, ..sound }),
        ("resend_handed_call", HostFaults { resend_handed_call: true, ..sound }),
        ("answer_before_receipt", streams(ReplicaFaults { answer_before_receipt: true, ..stream })),
        (
            "rejoin_from_wrong_position",
            streams(ReplicaFaults { rejoin_from_wrong_position: true, ..stream }),
        ),
        ("prune_during_rejoin", streams(ReplicaFaults { prune_during_rejoin: true, ..stream })),
        ("skip_epoch_check", site(Faults { skip_epoch_check: true, ..one })),
        ("decide_before_fence", site(Faults { decide_before_fence: true, ..one })),
        ("keep_old_plans", site(Faults { keep_old_plans: true, ..one })),
        ("skip_index_upkeep", site(Faults { skip_index_upkeep: true, ..one })),
        ("lose_vote", HostFaults { lose_vote: true, ..sound }),
        (
            "trust_logged_yes",
            HostFaults {
                trust_logged_yes: true,
                site: Faults { trust_logged_yes: true, ..one },
                ..sound
            },
        ),
    ]
    .map(|(name, faults)| {
        let caught = caught(run_seed, faults);
        println!("{name}: {caught:?}");
        (name, caught)
    });
    let _ = std::panic::take_hook();
    for (name, caught) in caught {
        assert!(caught.is_some(), "{name} goes unnoticed");
    }
}

/// These leave all appends in place, and only the order of the transactions is wrong.
#[test]
fn reads_that_are_stale_are_caught_by_the_order_of_transactions() {
    let lease = lockstep_cluster::Faults { serve_after_lease: true, ..Default::default() };
    let faults = HostFaults { cluster: lease, ..HostFaults::default() };
    let found = (1..=3_000).find_map(|seed| {
        let failure = run_lists(seed, CALLS, faults).err()?.to_string();
        failure.contains("no serial order").then_some(failure)
    });
    assert!(found.is_some(), "serve_after_lease goes unnoticed");
}
