//! Random scripts: one site and three sites agree on everything, and views are what their
//! queries give.
//!
//! `SEED=n SCRIPTS=m cargo test -p lockstep-testkit generated` runs others than the kept ones.

use lockstep_testkit::comparison::{compare, shrink};
use lockstep_testkit::generator::{ScriptSize, Step, script};

const SIZE: ScriptSize = ScriptSize { statements: 60, rows: 14 };

/// A number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().expect("a number"),
        Err(_) => otherwise,
    }
}

#[test]
fn one_site_and_three_sites_give_the_same_answers() {
    let first = setting("SEED", 1);
    let (mut answered, mut refused) = (0, 0);
    for seed in first..first + setting("SCRIPTS", 150) {
        let steps = script(seed, SIZE);
        let comparison = compare(&steps).expect("hosts");
        answered += comparison.answered;
        refused += comparison.refused;
        if let Some(difference) = comparison.difference {
            let smaller = shrink(&steps, &difference).expect("hosts");
            let [one, three] = compare(&smaller)
                .expect("hosts")
                .difference
                .map_or_else(|| difference.answers.clone(), |found| found.answers);
            panic!("seed {seed}:\n{smaller:#?}\nfirst\n{one}\nsecond\n{three}");
        }
    }
    println!("{answered} statements answered, {refused} refused");
    assert!(answered > 10 * refused, "{answered} answered, {refused} refused");
}

#[test]
fn a_seed_gives_one_script() {
    let steps = script(7, SIZE);
    assert_eq!(steps, script(7, SIZE));
    assert_ne!(steps, script(8, SIZE));
    assert!(steps.iter().any(|step| matches!(step, Step::Same(..) | Step::Query { .. })));
}
