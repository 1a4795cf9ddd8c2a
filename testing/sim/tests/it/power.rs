//! Power cuts: a short set of seeds, and faults that the checks must notice.

use lockstep_durability::command_log::LogFaults;
use lockstep_sim::power::{Broken, Report, run_seed};

const CALLS: usize = 50;

#[test]
fn what_was_answered_survives_power_cuts() {
    let mut sum = Report::default();
    for seed in 1..=100 {
        let report = run_seed(seed, CALLS, Broken::default()).unwrap_or_else(|f| panic!("{f}"));
        sum.answered[0] += report.answered[0];
        sum.answered[1] += report.answered[1];
        sum.cut_off[0] += report.cut_off[0];
        sum.cut_off[1] += report.cut_off[1];
        sum.torn += report.torn;
        sum.left_out += report.left_out;
        sum.damaged += report.damaged;
        sum.ends.iter_mut().zip(report.ends).for_each(|(sum, count)| *sum += count);
    }
    // The checks looked at something.
    println!("{sum:?}");
    assert!(sum.answered.iter().all(|count| *count > 800), "{sum:?}");
    assert!(sum.cut_off.iter().all(|count| *count > 20), "{sum:?}");
    assert!(sum.torn > 5 && sum.left_out > 20 && sum.damaged > 150, "{sum:?}");
    assert!(sum.ends.iter().all(|count| *count > 20), "{sum:?}");
}

#[test]
fn the_same_seed_gives_the_same_lives() {
    for seed in [5, 77, 4_321] {
        let run = || run_seed(seed, CALLS, Broken::default()).unwrap_or_else(|f| panic!("{f}"));
        let first = run();
        assert_eq!(first, run());
        assert_ne!(first.trace, 0);
    }
}

/// What a check says of a seed; a failed assertion of the code under test counts.
fn caught(seed: u64, broken: Broken) -> Option<String> {
    let run = || run_seed(seed, CALLS, broken).err().map(|failure| failure.to_string());
    std::panic::catch_unwind(run).unwrap_or_else(|_| Some(format!("seed {seed}: a panic")))
}

#[test]
fn faults_of_the_log_are_caught() {
    let sound = Broken::default();
    let log = LogFaults::default();
    for (name, broken) in [
        ("skip_sync", Broken { log: LogFaults { skip_sync: true, ..log }, ..sound }),
        ("ignore_checksum", Broken { log: LogFaults { ignore_checksum: true, ..log }, ..sound }),
        ("ignore_watermark", Broken { log: LogFaults { ignore_watermark: true, ..log }, ..sound }),
        ("answers_leave_early", Broken { answers_leave_early: true, ..sound }),
        ("votes_leave_early", Broken { votes_leave_early: true, ..sound }),
    ] {
        let caught = (1..=300).find_map(|seed| caught(seed, broken));
        println!("{name}: {caught:?}");
        assert!(caught.is_some(), "{name} goes unnoticed");
    }
}
