//! Two hosts over a simulated network, from a seed: connections that break at any byte, silently or
//! not, hosts that dial at once and are restarted, sessions that are ended. What is delivered is
//! judged as it comes; when the faults stop, everything has to come.

mod judge;
mod network;
mod world;

use lockstep_link::LinkFaults;
use world::{Counters, run};

const SEEDS: u64 = 4_000;

#[test]
fn what_is_delivered_is_a_prefix_of_what_was_offered_and_all_comes_once_faults_stop() {
    let mut counters = Counters::default();
    for seed in 0..SEEDS {
        match run(seed, LinkFaults::default()) {
            Ok(of_seed) => counters += of_seed,
            Err(error) => panic!("seed {seed}: {error}"),
        }
    }
    for (name, count, minimum) in counters.minimums() {
        let minimum = minimum * SEEDS / 1_000;
        assert!(count >= minimum, "{name} happened {count} times < {minimum}: {counters:?}");
    }
}

#[test]
fn a_seed_gives_the_same_run_again() {
    for seed in [1, 2, 3] {
        let again = || format!("{:?}", run(seed, LinkFaults::default()));
        assert_eq!(again(), again());
    }
}

/// How many of a hundred seeds show what was broken, in these words and in any.
fn caught(faults: LinkFaults, words: &str) -> (usize, usize) {
    let errors: Vec<String> = (0..100).filter_map(|seed| run(seed, faults).err()).collect();
    (errors.iter().filter(|error| error.contains(words)).count(), errors.len())
}

#[test]
fn lost_messages_are_caught() {
    let faults = LinkFaults { drop_suffix: true, ..LinkFaults::default() };
    let (delivered, all) = caught(faults, "is not what was offered");
    assert!(delivered >= 5 && all >= 25, "{delivered}, {all} of 100");
}

#[test]
fn repeated_messages_are_caught() {
    let faults = LinkFaults { resend_on_reconnect: true, ..LinkFaults::default() };
    let (delivered, all) = caught(faults, "was delivered as number");
    assert!(delivered >= 20 && all >= 20, "{delivered}, {all} of 100");
}
