//! The real process on a file system that is really full.

use super::namespace::Namespace;
use super::process::Host;
use std::process::Stdio;

/// The file system is mounted here, within the namespace only.
const PLACE: &str = "/mnt";
const SMALL: &str = "ip link set lo up && mount -t tmpfs -o size=16m tmpfs /mnt";

fn host(namespace: &Namespace, options: &[&str]) -> Host {
    let mut command = namespace.command(env!("CARGO_BIN_EXE_lockstep-under-test"));
    command.args(["--log", "error", "start", "--client", "127.0.0.1:21212", "--admin"]);
    command.args(["127.0.0.1:21211", "--dir", &format!("{PLACE}/host")]);
    for option in options {
        command.args(["--option", option]);
    }
    Host::run(command.stderr(Stdio::piped())).ready()
}

/// Runs SQL through the shell of the binary, within the namespace; what it said.
fn sql(namespace: &Namespace, text: &str) -> String {
    let mut command = namespace.command(env!("CARGO_BIN_EXE_lockstep"));
    let output = command.args(["sql", "-e", text]).output().expect("the shell runs");
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

#[test]
fn a_full_file_system_refuses_writes_and_loses_nothing() {
    let Some(namespace) = Namespace::or_skip(SMALL) else { return };
    let binary = env!("CARGO_BIN_EXE_lockstep");
    namespace.shell(&format!("{binary} init --dir {PLACE}/host --sites 1"));
    let options =
        ["log_segment_bytes=1048576", "disk_reserve_bytes=4194304", "resource_check_ms=10"];
    let mut running = host(&namespace, &options);
    sql(&namespace, "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)");
    for a in 0..20 {
        sql(&namespace, &format!("INSERT INTO t VALUES ({a})"));
    }
    // Somebody else takes what is left.
    let filler = format!("dd if=/dev/zero of={PLACE}/filler bs=64k 2>/dev/null; true");
    namespace.shell(&filler);
    let until = |what: &str, done: &dyn Fn(&str) -> bool, text: &str| {
        let begun = std::time::Instant::now();
        loop {
            let said = sql(&namespace, text);
            if done(&said) {
                return said;
            }
            assert!(begun.elapsed().as_secs() < 60, "never {what}: {said}");
        }
    };
    let refused = |said: &str| said.contains("are free on the disk of the host's directory");
    until("refused", &refused, "DELETE FROM t WHERE a = -1");
    assert!(sql(&namespace, "SELECT COUNT(*) FROM t").contains("20"));
    // The process ends hard on the full disk; no log can begin there.
    running.kill();
    let mut start = namespace.command(binary);
    start.args(["start", "--dir", &format!("{PLACE}/host"), "--option", options[0]]);
    let output = start.output().expect("the binary runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    for word in ["no space can be reserved for", "/log/0000000", "make room on the disk"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    namespace.shell(&format!("rm {PLACE}/filler"));
    let _running = host(&namespace, &options);
    assert!(sql(&namespace, "SELECT COUNT(*) FROM t").contains("20"));
    let taken = |said: &str| !said.contains("read-only");
    until("taken", &taken, "INSERT INTO t VALUES (1000)");
    assert!(sql(&namespace, "SELECT COUNT(*) FROM t").contains("21"));
}
