//! The SQL corpus, stopped and started again: what the log brings back is what was there, slot by
//! slot. Every kind of statement is in the corpus, so every kind of log entry is replayed.

use super::{configurations, corpus_files};
use lockstep_client::Connection;
use lockstep_client::rows::Table;
use lockstep_node::options::{Bytes, Options};
use lockstep_testkit::configuration::Configuration;
use lockstep_testkit::host::{MemoryDirectory, TestHost};
use lockstep_testkit::slt::run;

/// What clients can ask of a catalog.
const LISTINGS: [&str; 4] = ["COLUMNS", "INDEXINFO", "PROCEDURES", "PRIMARYKEYS"];

/// The configurations that bring all kinds of entries: one partition, statements of text over
/// several, statements of procedures over several, replicated tables.
const CONFIGURATIONS: [&str; 5] = [
    "one_site",
    "three_sites",
    "three_sites_procedures",
    "three_sites_replicated",
    "two_sites_shared",
];

fn listings(connection: &mut Connection) -> Vec<Vec<Table>> {
    let mut list = |selector: &str| {
        let mut parameters = lockstep_client::ParameterWriter::default();
        parameters.text(selector);
        let response = connection.call("@SystemCatalog", &parameters).expect("a listing");
        response.tables().expect("its tables")
    };
    LISTINGS.map(&mut list).to_vec()
}

/// Files are short.
fn options(configuration: &Configuration) -> Options {
    Options { log_segment_bytes: Bytes(256 << 10), ..configuration.options() }
}

fn check(name: &str, text: &str, configuration: &Configuration) -> Result<(), String> {
    let directory = MemoryDirectory::new(configuration.partition_count());
    let host = TestHost::start_on(options(configuration), &directory);
    let host = host.map_err(|error| error.to_string())?;
    let mut connection = host.connect().map_err(|error| error.to_string())?;
    configuration.prepare(&mut connection)?;
    // What the records answer is for another test to say.
    run(&mut connection, text, configuration, None)?;
    let before = listings(&mut connection);
    drop(connection);
    let digests = host.stop_with_digests().map_err(|error| error.to_string())?;
    for time in ["first", "second"] {
        let host = TestHost::start_on(options(configuration), &directory);
        let host = host.map_err(|error| format!("the {time} recovery: {error}"))?;
        let mut connection = host.connect().map_err(|error| error.to_string())?;
        let after = listings(&mut connection);
        drop(connection);
        if after != before {
            return Err(format!("{name}: the catalog differs after the {time} recovery"));
        }
        let recovered = host.stop_with_digests().map_err(|error| error.to_string())?;
        if recovered != digests {
            return Err(format!(
                "{name}: partitions hash to {recovered:x?} after the {time} recovery, and to \
                 {digests:x?} before"
            ));
        }
    }
    Ok(())
}

#[test]
fn every_file_leaves_what_recovery_brings_back() {
    let only = std::env::var("ONLY").unwrap_or_default();
    let mut failures = Vec::new();
    let mut count = 0;
    for configuration in configurations() {
        if !CONFIGURATIONS.contains(&configuration.name.as_str()) {
            continue;
        }
        for file in corpus_files() {
            let name = file.file_name().expect("a name").to_string_lossy().to_string();
            if configuration.skip.contains(&name) || !name.contains(&only) {
                continue;
            }
            let text = std::fs::read_to_string(&file).expect("a file of the corpus");
            count += 1;
            if let Err(problem) = check(&name, &text, &configuration) {
                failures.push(format!("{name} in {}: {problem}", configuration.name));
            }
        }
    }
    println!("{count} files recovered in {} configurations", CONFIGURATIONS.len());
    assert!(count > 0, "nothing ran");
    assert!(failures.is_empty(), "{} of {count}\n{}", failures.len(), failures.join("\n"));
}
