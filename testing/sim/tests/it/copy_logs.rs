//! Copies with command logs: a short set of seeds, and faults that the checks must notice.

use super::kept_seeds;
use lockstep_durability::command_log::LogFaults;
use lockstep_host::recovery::assembly::AssemblyFaults;
use lockstep_sim::ReplicaFaults;
use lockstep_sim::copies::logs::{Broken, Report, run_seed};

const STEPS: usize = 400;

fn sum_of(seeds: impl Iterator<Item = u64>) -> Report {
    let mut sum = Report::default();
    for seed in seeds {
        let report = run_seed(seed, STEPS, Broken::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    println!("{sum}");
    sum
}

#[test]
fn copies_come_back_from_their_logs() {
    let sum = sum_of(1..=600);
    // The checks looked at something.
    assert!(sum.answered > 5_000 && sum.starts > 2_000 && sum.takeovers > 1_500, "{sum}");
    assert!(sum.cuts_after_takeovers > 200 && sum.cuts_while_starting > 150, "{sum}");
    assert!(sum.cuts_of_one > 200 && sum.torn > 20 && sum.completed > 1_000, "{sum}");
    assert!(sum.with_replaced > 5 && sum.replaced > 100, "{sum}");
    assert!(sum.from_snapshots > 300 && sum.saves > 1_000 && sum.pruned > 1_000, "{sum}");
    assert!(sum.diverged > 100 && sum.loaded > 500 && sum.in_sync_again > 200, "{sum}");
}

#[test]
fn seeds_of_copies_with_logs_that_failed_once_pass() {
    sum_of(kept_seeds("copy-logs.txt").into_iter());
}

#[test]
fn the_same_seed_gives_the_same_lives_of_copies() {
    for seed in [3, 99, 12_345] {
        let run = || run_seed(seed, STEPS, Broken::default()).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(run(), run());
    }
}

/// The first seed that a check catches; a failed assertion of the code under test counts.
fn caught(broken: Broken) -> Option<String> {
    (1..=400).find_map(|seed| {
        let run = || run_seed(seed, STEPS, broken).err().map(|failure| failure.to_string());
        std::panic::catch_unwind(run).unwrap_or_else(|_| Some(format!("seed {seed}: a panic")))
    })
}

#[test]
fn faults_of_copies_with_logs_are_caught() {
    let sound = Broken::default();
    let log = |log| Broken { log, ..sound };
    let start = |start| Broken { start, ..sound };
    let streams = |streams| Broken { streams, ..sound };
    let (log_faults, replica_faults) = (LogFaults::default(), ReplicaFaults::default());
    let start_faults = AssemblyFaults::default();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = [
        ("keep_old_tail", log(LogFaults { keep_old_tail: true, ..log_faults })),
        ("skip_sync", log(LogFaults { skip_sync: true, ..log_faults })),
        ("prune_too_many", log(LogFaults { prune_too_many: true, ..log_faults })),
        ("start_stale", start(AssemblyFaults { start_stale: true, ..start_faults })),
        ("start_behind", start(AssemblyFaults { start_behind: true, ..start_faults })),
        ("ack_before_sync", Broken { ack_before_sync: true, ..sound }),
        ("count_unkept", Broken { count_unkept: true, ..sound }),
        (
            "answer_before_receipt",
            streams(ReplicaFaults { answer_before_receipt: true, ..replica_faults }),
        ),
    ]
    .map(|(name, broken)| (name, caught(broken)));
    let _ = std::panic::take_hook();
    for (name, caught) in caught {
        println!("{name}: {caught:?}");
        assert!(caught.is_some(), "{name} goes unnoticed");
    }
}
