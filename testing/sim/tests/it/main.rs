//! A short set of seeds, and that a seed decides everything.

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
    }
}
