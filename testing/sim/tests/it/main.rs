//! A short set of seeds, and that a seed decides everything.

mod copies;
mod copy_logs;
mod growth;
mod hosts;
mod power;
mod replicas;
mod schedules;

/// The seeds of a file of seeds that failed once.
fn kept_seeds(file: &str) -> Vec<u64> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/seeds/");
    let text = std::fs::read_to_string(format!("{path}{file}"));
    let text = text.expect("the kept seeds are there");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| line.parse().expect("a seed")).collect()
}

#[test]
fn sums_hold_and_reads_see_what_they_must() {
    let (mut aborted, mut reads) = (0, 0);
    for seed in 1..=60 {
        let report = lockstep_sim::run_seed(seed, 200).unwrap_or_else(|f| panic!("{f}"));
        aborted += report.aborted;
        reads += report.reads;
    }
    // The checks looked at something.
    assert!(aborted > 100 && reads > 500, "{aborted} aborted, {reads} reads");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [3, 99, 12_345] {
        let first = lockstep_sim::run_seed(seed, 300).unwrap_or_else(|f| panic!("{f}"));
        let second = lockstep_sim::run_seed(seed, 300).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(first, second);
        assert_ne!(first.trace, 0);
        let sound = lockstep_sim::Faults::default();
        let lists = || lockstep_sim::lists::run_seed(seed, 150, sound);
        let first = lists().unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(first, lists().unwrap_or_else(|f| panic!("{f}")));
    }
}

#[test]
fn lists_have_a_serial_order_that_respects_real_time() {
    let (mut aborted, mut edges, mut cut_off, mut gone) = (0, 0, 0, 0);
    let (mut changes, mut again) = (0, 0);
    for seed in 1..=60 {
        let sound = lockstep_sim::Faults::default();
        let report = lockstep_sim::lists::run_seed(seed, 120, sound);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        aborted += report.aborted;
        edges += report.edges;
        cut_off += report.cut_off;
        gone += report.gone;
        changes += report.schema_changes;
        again += report.planned_again;
    }
    assert!(aborted > 100 && edges > 100_000, "{aborted} aborted, {edges} edges");
    assert!(cut_off > 50 && gone > 20, "{cut_off} cut off, {gone} gone");
    assert!(changes > 50 && again > 50, "{changes} schema changes overtook {again} calls");
}

#[test]
fn a_global_index_has_what_its_table_has() {
    let sound = lockstep_sim::Faults::default();
    let (mut snapshots, mut lookups, mut led, mut hops, mut given_up) = (0, 0, 0, 0, 0);
    for seed in 1..=80 {
        let report = lockstep_sim::lists::run_indexed(seed, 120, sound);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        snapshots += report.snapshots;
        lookups += report.lookups;
        led += report.led;
        hops += report.hops;
        given_up += report.given_up;
    }
    println!("{lookups} lookups, {led} led calls with {hops} hops, {given_up} given up");
    assert!(lookups > led && led > 700 && hops > 500 && given_up > 0, "{lookups} {led} {hops}");
    assert!(snapshots > 200, "{snapshots} snapshots");
    // Kept: rounds that ran out of time let more messages overtake one than a site would hold.
    let kept = lockstep_sim::lists::run_indexed(11_605, 100, sound);
    kept.unwrap_or_else(|failure| panic!("{failure}"));
    let broken = lockstep_sim::Faults { skip_index_upkeep: true, ..sound };
    let caught =
        (1..=50).find_map(|seed| lockstep_sim::lists::run_indexed(seed, 120, broken).err());
    let caught = caught.expect("an index that is not kept is noticed");
    let differs = ["LISTS_K", "its index"];
    assert!(differs.iter().any(|part| caught.message.contains(part)), "{caught}");
}

#[test]
fn added_rows_and_indexes_built_in_steps_keep_index_and_table_equal() {
    let sound = lockstep_sim::Faults::default();
    let (mut put, mut refused, mut built, mut one_round) = (0, 0, 0, 0);
    let mut beside = [0; 3];
    for seed in 1..=40 {
        let report = lockstep_sim::lists::run_growing(seed, 120, sound);
        let report = report.unwrap_or_else(|failure| panic!("{failure}"));
        put += report.put;
        refused += report.refused;
        built += report.built;
        one_round += report.one_round;
        beside.iter_mut().zip(report.beside).for_each(|(sum, count)| *sum += count);
    }
    println!("{put} put, {refused} refused, {built} built, {one_round} calls of one round");
    assert!(put > 500 && refused > 200, "{put} lists were added, {refused} refused");
    assert!(built > 20 && one_round > 500, "{built} indexes, {one_round} calls of one round");
    let [made, refused, given_up] = beside;
    println!("changes beside: {made} made, {refused} refused; {given_up} builds given up");
    assert!(made > 20 && refused > 40 && given_up > 2, "{beside:?}");
    for broken in [
        lockstep_sim::Faults { lose_build_entries: true, ..sound },
        lockstep_sim::Faults { skip_index_upkeep: true, ..sound },
        lockstep_sim::Faults { skip_undo: true, ..sound },
    ] {
        std::panic::set_hook(Box::new(|_| {}));
        let caught = (1..=50).find(|seed| {
            let growing = || lockstep_sim::lists::run_growing(*seed, 120, broken).is_err();
            std::panic::catch_unwind(growing).unwrap_or(true)
        });
        let _ = std::panic::take_hook();
        assert!(caught.is_some(), "{broken:?} goes unnoticed");
    }
}

#[test]
fn lists_that_an_index_finds_are_looked_for_where_they_are() {
    let sound = lockstep_sim::Faults::default();
    let caught = |faults| {
        let run = |seed| lockstep_sim::lists::run_indexed(seed, 120, faults).err();
        (1..=300).find_map(run).map(|failure| failure.to_string())
    };
    // Calls run where their row was, not where it is.
    let skipped = caught(lockstep_sim::Faults { skip_recheck: true, ..sound });
    println!("skip_recheck: {skipped:?}");
    assert!(skipped.is_some(), "calls that miss their row go unnoticed");
    let everyone = caught(lockstep_sim::Faults { take_everyone: true, ..sound });
    println!("take_everyone: {everyone:?}");
    let everyone = everyone.expect("messages to partitions that have no part go unnoticed");
    assert!(everyone.contains("looked one list up"), "{everyone}");
}

#[test]
fn faults_of_schema_changes_are_caught() {
    use lockstep_sim::Faults;
    std::panic::set_hook(Box::new(|_| {}));
    let sound = Faults::default();
    let faults = [
        ("use_refused_catalog", Faults { use_refused_catalog: true, ..sound }),
        ("lose_deferred_calls", Faults { lose_deferred_calls: true, ..sound }),
        ("end_builds_early", Faults { end_builds_early: true, ..sound }),
        ("keep_failed_builds", Faults { keep_failed_builds: true, ..sound }),
    ];
    let caught = faults.map(|(name, faults)| {
        let growing = |seed| lockstep_sim::lists::run_growing(seed, 120, faults).err();
        let seed = (1..=300).find_map(|seed| {
            let ended = std::panic::catch_unwind(|| growing(seed));
            match ended {
                Ok(failure) => failure.map(|failure| failure.to_string()),
                Err(_) => Some(format!("seed {seed}: a panic")),
            }
        });
        (name, seed)
    });
    let _ = std::panic::take_hook();
    for (name, caught) in caught {
        println!("{name}: {caught:?}");
        assert!(caught.is_some(), "{name} goes unnoticed");
    }
}

/// Two-partition transfers with hops of 50 us: throughput, and messages a transfer.
fn timed(
    partitions: u32,
    transfers_per_mille: u64,
    stop_everything: lockstep_sim::StopEverything,
) -> (f64, f64) {
    let shape = lockstep_sim::world::Shape {
        stop_everything,
        active_multi: 1_000,
        ..lockstep_sim::world::Shape::of(partitions)
    };
    let model = lockstep_sim::timed::Model {
        shape,
        transfers_per_mille,
        calls_in_flight: 16,
        hop_ns: 50_000,
        work_ns: 2_000,
        measured_ns: 40_000_000,
    };
    let result = lockstep_sim::timed::run(1, model);
    let per_transfer = result.messages as f64 / result.transfers.max(1) as f64;
    (result.calls() as f64, per_transfer)
}

#[test]
fn transfers_stop_only_the_partitions_that_they_need() {
    let (few, messages) = timed(8, 100, lockstep_sim::StopEverything::Never);
    let (all, _) = timed(8, 100, lockstep_sim::StopEverything::ByFragments);
    println!("8 partitions, 10 % transfers: {:.1} x, {messages:.2} messages each", few / all);
    assert!(few / all >= 3.0, "{few} against {all} calls");
    // Three for each of two partitions; some transfers stay within one.
    assert!(messages <= 6.1, "{messages}");
}

/// Runs seeds until one fails; a failed assertion of the code under test counts.
fn seeds_until_caught(faults: lockstep_sim::Faults) -> Option<u64> {
    (1..=300).find(|seed| {
        let run = std::panic::catch_unwind(|| lockstep_sim::run_with(*seed, 200, faults).is_err());
        run.unwrap_or(true)
    })
}

/// The same by lists alone.
fn lists_until_caught(faults: lockstep_sim::Faults) -> Option<u64> {
    (1..=300).find(|seed| {
        let lists = || lockstep_sim::lists::run_seed(*seed, 120, faults).is_err();
        std::panic::catch_unwind(lists).unwrap_or(true)
    })
}

#[test]
fn injected_faults_are_caught() {
    use lockstep_sim::Faults;
    std::panic::set_hook(Box::new(|_| {}));
    let sound = Faults::default();
    for (name, faults) in [
        ("skip_undo", Faults { skip_undo: true, ..sound }),
        ("answer_early", Faults { answer_early: true, ..sound }),
        ("drop_vote", Faults { drop_vote: true, ..sound }),
        ("lose_order", Faults { lose_order: true, ..sound }),
        ("accept_repeats", Faults { accept_repeats: true, ..sound }),
        ("keep_void_answers", Faults { keep_void_answers: true, ..sound }),
        ("lose_held_calls", Faults { lose_held_calls: true, ..sound }),
    ] {
        for caught in [seeds_until_caught(faults), lists_until_caught(faults)] {
            println!("{name}: {caught:?}");
            assert!(caught.is_some(), "{name} goes unnoticed");
        }
    }
    // Only where the schema changes while calls run.
    let faults = Faults { keep_old_plans: true, ..sound };
    let caught = (1..=300).find(|seed| {
        let growing = || lockstep_sim::lists::run_growing(*seed, 120, faults).is_err();
        std::panic::catch_unwind(growing).unwrap_or(true)
    });
    println!("keep_old_plans: {caught:?}");
    let _ = std::panic::take_hook();
    assert!(caught.is_some(), "calls that run as an older schema planned them go unnoticed");
}
