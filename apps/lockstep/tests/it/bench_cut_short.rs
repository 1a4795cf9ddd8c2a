//! Runs of `lockstep bench` that do not end as they were meant to: the host dies, or they are
//! interrupted. They end with what they have, and say that it is partial.

use super::bench::{place, read_json, workload};
use super::{host, text};
use lockstep_client::{ConnectOptions, Connection};

/// Runs a workload at a host, which `end` ends when the workload has begun, and holds the run to
/// what is to be said then.
fn run_at_a_host_that_dies(server: &str, end: impl FnOnce() + Send + 'static) {
    let address = server.to_string();
    let stopper = std::thread::spawn(move || {
        let mut connection =
            Connection::connect(&address, &ConnectOptions::default()).expect("a connection");
        let begun = std::time::Instant::now();
        while connection.sql("SELECT MIN(changes) FROM key_value;").map_or(true, |tables| {
            tables[0].rows[0][0].as_datum().sort_order(lockstep_types::Datum::Int(5)).is_lt()
        }) {
            assert!(begun.elapsed().as_secs() < 60, "the workload begins");
        }
        end();
    });
    let (good, json, shown) =
        workload("contention", &["--servers", server, "--duration", "60", "--warmup", "0"]);
    stopper.join().expect("the host stopped");
    assert!(!good && shown.contains("connections were lost"), "{shown}");
    assert!(shown.contains("PARTIAL"), "{shown}");
    assert_eq!(json["interrupted"], true, "{json}");
    assert!(json["transactions"].as_u64().expect("a count") > 0, "{json}");
    assert!(json["errors"].as_u64().expect("a count") > 0, "{json}");
}

#[test]
fn a_host_that_dies_ends_the_run_with_its_figures() {
    let stopped = host();
    let server = stopped.client_address().to_string();
    run_at_a_host_that_dies(&server, move || stopped.stop().expect("the host stops"));
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_lockstep"));
    command.args(["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let mut killed = super::process::Host::run(&mut command).ready();
    let server = killed.address().to_string();
    run_at_a_host_that_dies(&server, move || killed.kill());
}

/// Starts a command of `lockstep bench`, interrupts it when the workload has begun, and returns
/// whether it was good, its JSON and what it printed.
fn interrupted(arguments: &[&str], server: &str, name: &str) -> (bool, serde_json::Value, String) {
    let json = place(name);
    let begun = "SELECT SUM(changes) FROM key_value;";
    let (good, shown) = interrupted_when(arguments, server, &json, (begun, 20));
    (good, read_json(&json), shown)
}

/// The same when the sum that a statement asks for has reached a number, without the JSON.
fn interrupted_when(
    arguments: &[&str],
    server: &str,
    json: &std::path::Path,
    (sum, reached): (&str, i64),
) -> (bool, String) {
    let mut connection =
        Connection::connect(server, &ConnectOptions::default()).expect("a connection");
    let child = std::process::Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .arg("bench")
        .args(arguments)
        .args(["--servers", server, "--warmup", "0", "--duration", "60", "--json"])
        .arg(json)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the binary runs");
    let begun = std::time::Instant::now();
    while connection.sql(sum).map_or(true, |tables| {
        tables[0].rows[0][0].as_datum().sort_order(lockstep_types::Datum::Int(reached)).is_lt()
    }) {
        assert!(begun.elapsed().as_secs() < 60, "the workload begins");
    }
    let mut interrupt = std::process::Command::new("kill");
    let interrupt = interrupt.args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.expect("kill runs").success());
    let output = child.wait_with_output().expect("it ends");
    assert!(begun.elapsed().as_secs() < 55, "it ends when it is interrupted");
    (output.status.success(), text(&output.stdout) + &text(&output.stderr))
}

#[test]
fn an_interrupted_load_says_what_is_there_and_is_not_run_upon() {
    let host = host();
    let server = host.client_address().to_string();
    let scale = ["key-value", "--rows", "2000000", "--content-bytes", "10"];
    let json = place("interrupted-load.json");
    let begun = ("SELECT COUNT(*) FROM key_value;", 1);
    let (good, shown) = interrupted_when(&scale, &server, &json, begun);
    assert!(!good && shown.contains("interrupted while rows were loaded: "), "{shown}");
    assert!(!json.exists(), "nothing was measured");
    let again = [&scale[1..], &["--servers", &server]].concat();
    let (good, _, shown) = workload("key-value", &again);
    assert!(!good && shown.contains(" rows, this run is for 2000000"), "{shown}");
    host.stop().expect("the host stops");
}

#[test]
fn interrupted_runs_and_studies_say_that_they_are_partial() {
    for more in [&[][..], &["--workers", "2"], &["--ramp", "200"]] {
        let host = host();
        let server = host.client_address().to_string();
        let (good, json, shown) =
            interrupted(&[&["contention"], more].concat(), &server, "interrupted.json");
        assert!(!good && shown.contains("PARTIAL"), "{shown}");
        assert_eq!((&json["interrupted"], &json["consistent"]), (&true.into(), &true.into()));
        assert!(json["transactions"].as_u64().expect("a count") > 0, "{json}");
        host.stop().expect("the host stops");
    }
    let host = host();
    let server = host.client_address().to_string();
    let study = ["scale", "contention", "--vary", "clients", "1,2"];
    let (good, json, shown) = interrupted(&study, &server, "interrupted-study.json");
    assert!(!good && shown.contains("PARTIAL: the study was cut short"), "{shown}");
    assert_eq!(json["interrupted"], true, "{json}");
    host.stop().expect("the host stops");
}
