//! Tasks: a short set of seeds, and a fault that the checks must notice.

use lockstep_sim::Faults;
use lockstep_sim::schedules::{Report, run_seed};

const STEPS: usize = 800;

#[test]
fn schedules_have_one_call_at_a_time_and_each_is_counted() {
    let mut sum = Report::default();
    for seed in 1..=40 {
        let report = run_seed(seed, STEPS, Faults::default()).unwrap_or_else(|f| panic!("{f}"));
        sum.calls.iter_mut().zip(report.calls).for_each(|(sum, count)| *sum += count);
        sum.changes += report.changes;
        sum.outlived += report.outlived;
        sum.stopped += report.stopped;
    }
    // The checks looked at something.
    println!("{sum:?}");
    assert!(sum.calls[0] > 1_000 && sum.calls[1] > 50 && sum.calls[2] > 50, "{sum:?}");
    assert!(sum.changes > 500 && sum.outlived > 20 && sum.stopped > 20, "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_schedules() {
    let run = || run_seed(3, STEPS, Faults::default()).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(run(), run());
}

#[test]
fn calls_of_tasks_that_are_forgotten_are_caught() {
    let faults = Faults { forget_task_runs: true, ..Faults::default() };
    let caught = (1..=40).find_map(|seed| run_seed(seed, STEPS, faults).err());
    let caught = caught.expect("a schedule with two calls goes unnoticed").to_string();
    println!("{caught}");
    assert!(caught.contains("are in progress"), "{caught}");
}
