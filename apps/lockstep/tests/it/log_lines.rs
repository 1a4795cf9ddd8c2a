//! What a host writes to standard error at the default level, and that it goes on without a
//! terminal.

use super::process::Host;
use super::{lockstep, text};
use lockstep_client::ParameterWriter;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};

/// A host with a site, in memory, with the level of its log as it is by default.
fn host(arguments: &[&str]) -> Host {
    let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
    command.args(["start", "--sites", "1", "--admin", "127.0.0.1:0"]).args(arguments);
    Host::run(command.stderr(Stdio::piped())).ready()
}

fn signal(host: &Host, name: &str) {
    let sent = Command::new("kill").args([name, &host.child.id().to_string()]).status();
    assert!(sent.expect("kill runs").success());
}

/// Whether a line begins with a time and has a level.
fn has_time_and_level(line: &str) -> bool {
    let time = line.split_whitespace().next().unwrap_or("");
    time.starts_with("20")
        && time.contains('T')
        && time.ends_with('Z')
        && [" INFO ", " WARN ", "ERROR "].iter().any(|level| line.contains(level))
}

#[test]
fn what_an_operator_asks_for_is_logged_by_default() {
    let mut host = host(&["--client", "localhost:0", "--option", "slow_call_ms=20"]);
    let mut client = host.connect();
    client.sql("CREATE TABLE t (a BIGINT NOT NULL, PRIMARY KEY (a))").expect("DDL");
    client.sql("PARTITION TABLE t ON COLUMN a").expect("DDL");
    client.sql("CREATE TABLE r (i BIGINT)").expect("DDL");
    client
        .sql(
            "CREATE PROCEDURE Slow PARTITION ON TABLE t COLUMN a PARAMETER 0 AS SELECT COUNT(*) \
             FROM r x, r y, r z WHERE x.i + y.i * z.i <> ?",
        )
        .expect("DDL");
    for i in 0..300 {
        let mut parameters = ParameterWriter::default();
        parameters.bigint(i);
        assert!(client.call("R.insert", &parameters).expect("answered").view().is_success());
    }
    let mut parameters = ParameterWriter::default();
    parameters.bigint(-1);
    assert!(client.call("Slow", &parameters).expect("answered").view().is_success());
    // A frame before the login whose length is negative, and a login that is none.
    for bytes in [&[0xff; 8][..], &[0, 0, 0, 2, 0, 9][..]] {
        let mut stranger = TcpStream::connect(host.address()).expect("the port is open");
        stranger.write_all(bytes).expect("sent");
        // The connection closes.
        let _ = stranger.read_to_end(&mut Vec::new());
    }
    signal(&host, "-HUP");
    client.sql("DROP PROCEDURE Slow").expect("DDL");
    signal(&host, "-TERM");
    let (success, log) = host.wait();
    assert!(success, "{log}");
    for expected in [
        "the host starts",
        "the host is ready",
        "schema changed: CREATE TABLE t (a BIGINT NOT NULL, PRIMARY KEY (a))",
        "schema changed: DROP PROCEDURE Slow",
        "slow call (option slow_call_ms): Slow",
        "connection closed: ",
        "login refused: ",
        "SIGHUP: the host goes on",
        "the host stops",
        "the host has stopped",
    ] {
        let line = log.lines().find(|line| line.contains(expected));
        let line = line.unwrap_or_else(|| panic!("'{expected}' is missing in {log}"));
        assert!(has_time_and_level(line), "{line}");
        assert!(!line.contains('\u{1b}'), "no colours where there is no terminal: {line}");
    }
    assert!(!log.contains("slow call (option slow_call_ms): R.insert"), "{log}");
    assert!(!log.contains("not a loopback address"), "{log}");
}

#[test]
fn a_host_without_its_terminal_goes_on() {
    let mut host = host(&["--client", "127.0.0.1:0"]);
    // Standard error has no reader any more: each line that is logged fails.
    drop(host.child.stderr.take());
    let mut client = host.connect();
    for round in 0..3 {
        signal(&host, "-HUP");
        client.sql(&format!("CREATE TABLE t{round} (a BIGINT)")).expect("the host goes on");
    }
    signal(&host, "-TERM");
    assert!(host.wait().0, "exit code 0");
}

#[test]
fn a_port_that_other_machines_reach_is_warned_of() {
    let mut host = host(&["--client", "0.0.0.0:0"]);
    signal(&host, "-TERM");
    let (_, log) = host.wait();
    let warnings: Vec<&str> = log.lines().filter(|line| line.contains("loopback")).collect();
    assert_eq!(warnings.len(), 1, "{log}");
    assert!(warnings[0].contains("the client port listens at 0.0.0.0:"), "{log}");
    assert!(warnings[0].contains("WARN") && warnings[0].contains("has no users"), "{log}");
}

#[test]
fn addresses_that_name_no_port_of_this_machine_are_refused() {
    for (given, problem) in [
        ("localhost", "invalid socket address"),
        ("no.such.host.invalid:1", "it is not the address or the name of this machine"),
        ("localhost:70000", "invalid port value"),
    ] {
        let output = lockstep(&["start", "--client", given], "");
        assert!(!output.status.success());
        assert!(text(&output.stderr).contains(problem), "{given}: {}", text(&output.stderr));
    }
}
