//! Several hosts as processes of one machine.

use super::directory::refused;
use super::process::Host;
use super::{lockstep, text};
use std::net::TcpListener;
use std::process::{Command, Stdio};

/// Addresses of free ports, as `--peers` takes them.
fn free_addresses(count: usize) -> Vec<String> {
    let free = |_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let listeners: Vec<TcpListener> = (0..count).map(free).collect();
    let address = |listener: &TcpListener| listener.local_addr().expect("it is bound").to_string();
    listeners.iter().map(address).collect()
}

/// Starts hosts and waits until all are ready.
fn start(count: usize, options: &[&str]) -> Vec<Host> {
    let peers = free_addresses(count);
    let spawn = |internal: &String| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
        command.args(["--log", "error", "start", "--sites", "2"]);
        command.args(["--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
        command.args(["--internal", internal, "--peers", &peers.join(",")]).args(options);
        Host::run(command.stderr(Stdio::piped()))
    };
    let spawned: Vec<Host> = peers.iter().map(spawn).collect();
    spawned.into_iter().map(Host::ready).collect()
}

#[test]
fn three_processes_are_one_database_until_one_is_gone() {
    let mut hosts = start(3, &["--kfactor", "0", "--option", "host_timeout_ms=500"]);
    for (number, host) in hosts.iter().enumerate() {
        assert!(host.said.contains(&format!("host {number} of 3, 2 sites")), "{}", host.said);
    }
    hosts[2].connect().sql("CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY)").expect("it is made");
    hosts[1].connect().sql("PARTITION TABLE t ON COLUMN a").expect("it is partitioned");
    for a in 0..30 {
        let host = &hosts[a % 3];
        host.connect().sql(&format!("INSERT INTO t VALUES ({a})")).expect("it is inserted");
    }
    for host in &hosts {
        let shown =
            lockstep(&["sql", "--server", host.address(), "-e", "SELECT COUNT(*) FROM t"], "");
        assert!(text(&shown.stdout).contains("30"), "{}", text(&shown.stdout));
        let shown = lockstep(&["admin", "cluster", "--json", "--server", &host.admin()], "");
        let cluster: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("it is JSON");
        assert_eq!(cluster["state"], "running");
        let ids: Vec<_> = (0..3).map(|at| cluster["hosts"][at]["id"].as_i64()).collect();
        assert_eq!(ids, [Some(0), Some(1), Some(2)], "{cluster}");
        let partitions = cluster["partitions"].as_array().expect("a list");
        assert_eq!(partitions.len(), 6);
        assert_eq!((&partitions[5]["leader"], &partitions[5]["epoch"]), (&2.into(), &1.into()));
    }
    hosts[1].kill();
    for number in [0, 2] {
        let (is_well, said) = hosts[number].wait();
        assert!(!is_well && said.contains("host 1 is lost"), "{said}");
    }
}

#[test]
fn a_shutdown_ends_every_process_cleanly() {
    let mut hosts = start(2, &[]);
    let stopped = lockstep(&["admin", "shutdown", "--server", &hosts[1].admin()], "");
    assert!(stopped.status.success(), "{}", text(&stopped.stderr));
    for host in &mut hosts {
        let (is_well, said) = host.wait();
        assert!(is_well, "{said}");
    }
}

#[test]
fn members_that_do_not_fit_are_refused_with_what_would() {
    let start = |arguments: &[&str]| {
        let mut all = vec!["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"];
        all.extend_from_slice(arguments);
        lockstep(&all, "")
    };
    let two = "127.0.0.1:4001,127.0.0.1:4002";
    let of = |more: &[&str]| {
        let mut all = vec!["--peers", two, "--internal", "127.0.0.1:4001"];
        all.extend_from_slice(more);
        start(&all)
    };
    refused(&of(&["--hosts", "3"]), &["--hosts is 3", "--peers names 2"]);
    refused(&of(&["--kfactor", "1"]), &["--kfactor is 1", "not available"]);
    refused(&start(&["--peers", two]), &["--internal"]);
    refused(
        &start(&["--peers", two, "--internal", "127.0.0.1:4003"]),
        &["127.0.0.1:4003", "none of --peers"],
    );
    let twice = "127.0.0.1:4001,127.0.0.1:4001";
    let internal = ["--peers", twice, "--internal", "127.0.0.1:4001"];
    refused(&start(&internal), &["names 127.0.0.1:4001 twice"]);
}
