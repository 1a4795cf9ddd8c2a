//! Followers that apply their leaders' logs: copies are equal at rest, and faults are caught.

use super::kept_seeds;
use lockstep_sim::lists::Kind;
use lockstep_sim::world::{BrokenCopies, CopyCounts};
use lockstep_sim::{Faults, ReplicaFaults};

#[test]
fn followers_of_every_workload_have_what_their_leaders_have() {
    let sound = lockstep_sim::Faults::default();
    let mut sum = CopyCounts::default();
    for seed in 1..=40 {
        let bank = lockstep_sim::run_seed(seed, 150).unwrap_or_else(|failure| panic!("{failure}"));
        sum.add(&bank.copies);
        let lists = [
            lockstep_sim::lists::run_seed(seed, 80, sound),
            lockstep_sim::lists::run_indexed(seed, 60, sound),
            lockstep_sim::lists::run_growing(seed, 60, sound),
        ];
        for (kind, report) in lists.into_iter().enumerate() {
            let report = report.unwrap_or_else(|failure| panic!("lists {kind}: {failure}"));
            sum.add(&report.copies);
        }
    }
    println!("{sum:?}");
    assert!(sum.applied > 10_000 && sum.digests > 1_000 && sum.changes > 500, "{sum:?}");
    assert!(sum.cuts > 500 && sum.backlog_max > 20, "{sum:?}");
}

/// What a check says of the first seed that it catches.
fn caught(followers: u32, broken: BrokenCopies) -> Option<String> {
    (1..=200).find_map(|seed| {
        let run = || lockstep_sim::bank::run_with_copies(seed, 150, followers, broken);
        let ended = std::panic::catch_unwind(|| run().err().map(|failure| failure.to_string()));
        ended.unwrap_or_else(|_| Some(format!("seed {seed}: a panic")))
    })
}

/// Lists as `lockstep-sim copies` runs them, all kinds with one seed.
fn lists_with_takeovers(seed: u64, faults: Faults) -> Result<(), String> {
    for kind in [Kind::Keyed, Kind::Indexed, Kind::Growing] {
        let ended = lockstep_sim::lists::run_with_takeovers(seed, 100, kind, faults);
        ended.map_err(|failure| failure.to_string())?;
    }
    Ok(())
}

#[test]
fn seeds_of_takeovers_that_failed_once_pass() {
    let sound = (BrokenCopies::default(), Faults::default());
    for seed in kept_seeds("takeovers.txt") {
        let bank = lockstep_sim::bank::run_with_takeovers(seed, 200, 120, sound).map(drop);
        bank.unwrap_or_else(|failure| panic!("{failure}"));
        lists_with_takeovers(seed, sound.1).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn seeds_of_copies_that_failed_once_pass() {
    let (sound, faults) = (BrokenCopies::default(), lockstep_sim::Faults::default());
    for seed in kept_seeds("copies.txt") {
        let bank = lockstep_sim::run_seed(seed, 400).map(drop);
        let lists = lockstep_sim::lists::run_seed(seed, 200, faults).map(drop);
        let indexed = lockstep_sim::lists::run_indexed(seed, 100, faults).map(drop);
        let growing = lockstep_sim::lists::run_growing(seed, 100, faults).map(drop);
        for ended in [bank, lists, indexed, growing] {
            ended.unwrap_or_else(|failure| panic!("{failure}"));
        }
        // It still meets what it is kept for; where it does not, another seed takes its place.
        let broken = BrokenCopies { settle_early: true, ..sound };
        let caught = (1..=2).find_map(|followers| {
            lockstep_sim::bank::run_with_copies(seed, 400, followers, broken).err()
        });
        println!("settle_early: {caught:?}");
        assert!(caught.is_some(), "settle_early goes unnoticed by seed {seed}");
    }
}

#[test]
fn faults_of_followers_are_caught() {
    let (sound, streams) = (BrokenCopies::default(), ReplicaFaults::default());
    std::panic::set_hook(Box::new(|_| {}));
    let caught = [
        ("run_failed_write", BrokenCopies { run_failed_write: true, ..sound }),
        ("apply_unsettled", BrokenCopies { apply_unsettled: true, ..sound }),
        (
            "drop_suffix",
            BrokenCopies { streams: ReplicaFaults { drop_suffix: true, ..streams }, ..sound },
        ),
        (
            "resend_on_reconnect",
            BrokenCopies {
                streams: ReplicaFaults { resend_on_reconnect: true, ..streams },
                ..sound
            },
        ),
    ]
    .map(|(name, broken)| (name, caught(1, broken)));
    let _ = std::panic::take_hook();
    for (name, caught) in caught {
        println!("{name}: {caught:?}");
        assert!(caught.is_some(), "{name} goes unnoticed");
    }
}

#[test]
fn leaders_that_are_lost_or_handed_over_lose_nothing_that_was_answered() {
    let (mut sum, mut unknown) = (CopyCounts::default(), 0);
    for seed in 1..=150 {
        let sound = BrokenCopies::default();
        let report =
            lockstep_sim::bank::run_with_takeovers(seed, 150, 120, (sound, Faults::default()));
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        unknown += report.unknown;
        sum.add(&report.copies);
    }
    println!("{sum:?}, {unknown} unknown");
    assert!(sum.takeovers.iter().all(|count| *count > 30) && unknown > 100, "{sum:?} {unknown}");
    assert!(sum.coordinators > 100 && sum.interrupted > 10, "{sum:?}");
    assert!(sum.resolved.iter().all(|count| *count > 50), "{sum:?}");
}

#[test]
fn seeds_of_coordinators_that_failed_once_pass() {
    let sound = (BrokenCopies::default(), Faults::default());
    for seed in kept_seeds("coordinators.txt") {
        let bank = lockstep_sim::bank::run_with_takeovers(seed, 200, 120, sound).map(drop);
        let lists =
            |kind| lockstep_sim::lists::run_with_takeovers(seed, 100, kind, sound.1).map(drop);
        for ended in [bank, lists(Kind::Keyed), lists(Kind::Indexed), lists(Kind::Growing)] {
            ended.unwrap_or_else(|failure| panic!("{failure}"));
        }
    }
}

#[test]
fn faults_of_takeovers_are_caught() {
    let (sound, streams) = (BrokenCopies::default(), ReplicaFaults::default());
    std::panic::set_hook(Box::new(|_| {}));
    let copies = |broken: BrokenCopies| (broken, Faults::default());
    let protocol = |faults: Faults| (sound, faults);
    let answers_early = ReplicaFaults { answer_before_receipt: true, ..streams };
    let caught = [
        ("answer_before_receipt", copies(BrokenCopies { streams: answers_early, ..sound })),
        ("lose_vote", copies(BrokenCopies { lose_vote: true, ..sound })),
        ("remember_few", copies(BrokenCopies { remember_few: true, ..sound })),
        ("forget_outcomes", copies(BrokenCopies { forget_outcomes: true, ..sound })),
        (
            "trust_logged_yes",
            (
                BrokenCopies { trust_logged_yes: true, ..sound },
                Faults { trust_logged_yes: true, ..Faults::default() },
            ),
        ),
        (
            "decide_before_fence",
            protocol(Faults { decide_before_fence: true, ..Faults::default() }),
        ),
        ("skip_epoch_check", protocol(Faults { skip_epoch_check: true, ..Faults::default() })),
    ]
    .map(|(name, broken)| {
        let caught = (1..=300).find_map(|seed| {
            let run = || lockstep_sim::bank::run_with_takeovers(seed, 150, 120, broken).err();
            let ended = std::panic::catch_unwind(|| run().map(|failure| failure.to_string()));
            ended.unwrap_or_else(|_| Some(format!("seed {seed}: a panic")))
        });
        (name, caught)
    });
    let _ = std::panic::take_hook();
    for (name, caught) in caught {
        println!("{name}: {caught:?}");
        assert!(caught.is_some(), "{name} goes unnoticed");
    }
}

#[test]
fn lists_stay_strictly_serializable_while_leaders_move() {
    let (mut sum, mut gone) = (CopyCounts::default(), 0);
    for seed in 1..=100 {
        for kind in [Kind::Keyed, Kind::Indexed, Kind::Growing] {
            let report =
                lockstep_sim::lists::run_with_takeovers(seed, 100, kind, Faults::default());
            let report = report.unwrap_or_else(|f| panic!("{kind:?}: {f}"));
            gone += report.gone;
            sum.add(&report.copies);
        }
    }
    println!("{sum:?}, {gone} gone");
    assert!(sum.takeovers.iter().all(|count| *count > 30) && gone > 100, "{sum:?} {gone}");
}
