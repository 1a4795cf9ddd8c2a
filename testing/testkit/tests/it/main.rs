//! The SQL corpus in every configuration.

use lockstep_testkit::host::TestHost;
use lockstep_testkit::slt::{Tally, run};
use std::path::{Path, PathBuf};

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

fn sites_of(configuration: &Path) -> u32 {
    let text = std::fs::read_to_string(configuration).expect("a configuration");
    let line = text.lines().find_map(|line| line.strip_prefix("sites = ")).expect("sites");
    line.trim().parse().expect("a number of sites")
}

#[test]
fn every_file_gives_its_answers_in_every_configuration() {
    let rewrite = std::env::var("REWRITE").is_ok_and(|value| value == "1");
    let mut failures = Vec::new();
    for configuration in files("configs", "conf") {
        let name = configuration.file_stem().expect("a name").to_string_lossy().to_string();
        let mut total = Tally::default();
        for file in files("slt", "slt") {
            let host = TestHost::start(sites_of(&configuration)).expect("a host");
            let mut connection = host.connect().expect("a connection");
            let text = std::fs::read_to_string(&file).expect("a file of the corpus");
            match run(&mut connection, &text, &name, rewrite) {
                Ok((tally, rewritten)) => {
                    total.passed += tally.passed;
                    total.skipped += tally.skipped;
                    if rewrite && rewritten != text {
                        std::fs::write(&file, rewritten).expect("a writable corpus");
                    }
                }
                Err(error) => failures.push(format!("{} in {name}: {error}", file.display())),
            }
        }
        println!("{name}: {} records passed, {} skipped", total.passed, total.skipped);
        assert!(total.passed > 0, "{name} ran nothing");
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
