//! The streams between the copies of a partition: a short set of seeds, and faults that the checks
//! must notice.

use lockstep_sim::ReplicaFaults;
use lockstep_sim::copies::{Report, run_seed};

const STEPS: usize = 1_000;

#[test]
fn nothing_that_was_answered_is_lost_and_copies_become_equal() {
    let mut sum = Report::default();
    for seed in 1..=600 {
        let report = run_seed(seed, STEPS, ReplicaFaults::default());
        sum.add(&report.unwrap_or_else(|failure| panic!("{failure}")));
    }
    // The checks looked at something.
    println!("{sum:?}");
    assert!(sum.answered > 20_000 && sum.epochs.iter().all(|count| *count > 150), "{sum:?}");
    assert!(sum.refused > 1_000 && sum.resumed > 500 && sum.diverged > 50, "{sum:?}");
    assert!(sum.given_up > 50 && sum.held_back > 100, "{sum:?}");
}

/// The first seed that a check catches; a failed assertion of the code under test counts.
fn caught(faults: ReplicaFaults) -> Option<String> {
    (1..=400).find_map(|seed| {
        let run = || run_seed(seed, STEPS, faults).err().map(|failure| failure.to_string());
        std::panic::catch_unwind(run).unwrap_or_else(|_| Some(format!("seed {seed}: a panic")))
    })
}

#[test]
fn faults_of_the_streams_are_caught() {
    let sound = ReplicaFaults::default();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = [
        ("drop_suffix", ReplicaFaults { drop_suffix: true, ..sound }),
        ("resend_on_reconnect", ReplicaFaults { resend_on_reconnect: true, ..sound }),
        ("ack_after_seal", ReplicaFaults { ack_after_seal: true, ..sound }),
        ("skip_epoch_check", ReplicaFaults { skip_epoch_check: true, ..sound }),
        ("answer_before_receipt", ReplicaFaults { answer_before_receipt: true, ..sound }),
        ("rejoin_keeps_tail", ReplicaFaults { rejoin_keeps_tail: true, ..sound }),
        ("start_stale", ReplicaFaults { start_stale: true, ..sound }),
    ]
    .map(|(name, faults)| (name, caught(faults)));
    let _ = std::panic::take_hook();
    for (name, caught) in caught {
        println!("{name}: {caught:?}");
        assert!(caught.is_some(), "{name} goes unnoticed");
    }
}
