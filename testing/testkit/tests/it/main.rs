//! The SQL corpus in every configuration.

mod coverage;
mod explain;
mod generated;
mod power_cuts;
mod recovery;

use lockstep_testkit::configuration::Configuration;
use lockstep_testkit::host::TestHost;
use lockstep_testkit::slt::{Tally, run};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

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

/// A file in a configuration.
struct Case<'a> {
    configuration: &'a Configuration,
    file: &'a Path,
    /// When files are written: the configurations before this one, whose answers stay.
    earlier: Option<&'a [Configuration]>,
}

impl Case<'_> {
    fn name(&self) -> String {
        self.file.file_name().expect("a name").to_string_lossy().to_string()
    }

    /// Runs it: how many records passed or were skipped, and those that gave something else.
    fn run(&self) -> (Tally, Vec<String>) {
        let (name, configuration) = (self.name(), self.configuration);
        let host = TestHost::start_in(configuration).expect("a host");
        let mut connection = host.connect().expect("a connection");
        configuration.prepare(&mut connection).expect("the routing table");
        let text = std::fs::read_to_string(self.file).expect("a file of the corpus");
        let outcome = run(&mut connection, &text, configuration, self.earlier).expect("records");
        if self.earlier.is_some() && outcome.rewritten != text {
            std::fs::write(self.file, outcome.rewritten).expect("a writable corpus");
        }
        drop(connection);
        let compared = host.stop_and_compare_copies();
        let told = |failure: &String| format!("{name} in {}: {failure}", configuration.name);
        let mut failures: Vec<String> = outcome.failures.iter().map(told).collect();
        failures.extend(compared.err().iter().map(told));
        (outcome.tally, failures)
    }
}

/// Runs all cases, one on each core at a time: what each gave, in the order of the cases. Files
/// that are written are so one after the other.
fn run_all(cases: &[Case<'_>], is_written: bool) -> Vec<(Tally, Vec<String>)> {
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let next = AtomicUsize::new(0);
    let results = Mutex::new(BTreeMap::new());
    let work = || {
        while let place = next.fetch_add(1, Ordering::Relaxed)
            && let Some(case) = cases.get(place)
        {
            let result = case.run();
            results.lock().expect("no case has failed in between").insert(place, result);
        }
    };
    std::thread::scope(|scope| {
        (0..if is_written { 1 } else { cores }).for_each(|_| {
            scope.spawn(work);
        });
    });
    results.into_inner().expect("all have ended").into_values().collect()
}

#[test]
fn every_file_gives_its_answers_in_every_configuration() {
    let rewrite = std::env::var("REWRITE").is_ok_and(|value| value == "1");
    let only = std::env::var("ONLY").unwrap_or_default();
    let (configurations, files) = (configurations(), corpus_files());
    let mut cases = Vec::new();
    for (place, configuration) in configurations.iter().enumerate() {
        let earlier = rewrite.then_some(&configurations[..place]);
        cases.extend(files.iter().map(|file| Case { configuration, file, earlier }));
    }
    cases.retain(|it| {
        let name = it.name();
        !it.configuration.skip.contains(&name) && name.contains(&only)
    });
    let (mut failures, mut totals) = (Vec::new(), BTreeMap::<&str, Tally>::new());
    for (case, (tally, failed)) in cases.iter().zip(run_all(&cases, rewrite)) {
        let total = totals.entry(&case.configuration.name).or_default();
        total.passed += tally.passed;
        total.skipped += tally.skipped;
        failures.extend(failed);
    }
    for Configuration { name, .. } in &configurations {
        let total = totals.remove(name.as_str()).unwrap_or_default();
        println!("{name}: {} records passed, {} skipped", total.passed, total.skipped);
        assert!(total.passed > 0 || !only.is_empty(), "{name} ran nothing");
    }
    let count = failures.len();
    failures.truncate(TOLD_AT_ONCE);
    assert!(failures.is_empty(), "{count} records differ\n\n{}", failures.join("\n\n"));
}
