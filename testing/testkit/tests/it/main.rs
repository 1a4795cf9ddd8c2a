//! The SQL corpus in every configuration.

mod coverage;
mod explain;
mod generated;
mod power_cuts;
mod recovery;

use lockstep_testkit::configuration::Configuration;
use lockstep_testkit::host::TestHost;
use lockstep_testkit::slt::{Tally, run};
use std::path::{Path, PathBuf};

/// How many records that gave something else are told of at once.
const TOLD_AT_ONCE: usize = 40;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(corpus().join(folder)).expect("the corpus is there");
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("a readable folder").path())
        .filter(|path| path.extension().is_some_and(|found| found == extension))
        .collect();
    files.sort();
    files
}

fn corpus_files() -> Vec<PathBuf> {
    files("slt", "slt")
}

fn configurations() -> Vec<Configuration> {
    let read = |path: PathBuf| {
        let name = path.file_stem().expect("a name").to_string_lossy().to_string();
        let text = std::fs::read_to_string(&path).expect("a configuration");
        Configuration::read(&name, &text).expect("a sound configuration")
    };
    files("configs", "conf").into_iter().map(read).collect()
}

#[test]
fn every_file_gives_its_answers_in_every_configuration() {
    let rewrite = std::env::var("REWRITE").is_ok_and(|value| value == "1");
    let only = std::env::var("ONLY").unwrap_or_default();
    let configurations = configurations();
    let mut failures = Vec::new();
    for (place, configuration) in configurations.iter().enumerate() {
        let mut total = Tally::default();
        for file in corpus_files() {
            let name = file.file_name().expect("a name").to_string_lossy().to_string();
            if configuration.skip.contains(&name) || !name.contains(&only) {
                continue;
            }
            let host = TestHost::start_in(configuration).expect("a host");
            let mut connection = host.connect().expect("a connection");
            configuration.prepare(&mut connection).expect("the routing table");
            let text = std::fs::read_to_string(&file).expect("a file of the corpus");
            let earlier = rewrite.then_some(&configurations[..place]);
            let outcome = run(&mut connection, &text, configuration, earlier).expect("records");
            total.passed += outcome.tally.passed;
            total.skipped += outcome.tally.skipped;
            if rewrite && outcome.rewritten != text {
                std::fs::write(&file, outcome.rewritten).expect("a writable corpus");
            }
            let told = |failure: &String| format!("{name} in {}: {failure}", configuration.name);
            failures.extend(outcome.failures.iter().map(told));
            drop(connection);
            if let Err(problem) = host.stop_and_compare_copies() {
                failures.push(told(&problem));
            }
        }
        println!(
            "{}: {} records passed, {} skipped",
            configuration.name, total.passed, total.skipped
        );
        let ran = total.passed > 0 || !only.is_empty();
        assert!(ran, "{} ran nothing", configuration.name);
    }
    let count = failures.len();
    failures.truncate(TOLD_AT_ONCE);
    assert!(failures.is_empty(), "{count} records differ\n\n{}", failures.join("\n\n"));
}
