//! The binary as people use it: the shell against a host, benchmarks, and the demo.

mod bad_input;
mod bench;
mod bench_cut_short;
mod clock;
mod cluster;
mod cluster_logs;
mod cluster_page;
mod crash;
mod csv;
mod directory;
mod durable;
mod help;
mod hosts;
mod java_batches;
mod last_word;
mod log_lines;
mod namespace;
mod no_java;
mod operate;
mod process;
mod readme;
mod restore;
mod rolling_restart;
mod shell;
mod small_disk;
mod snapshots;
mod terminal;
mod trace;
mod truth;
mod witness;

use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration, TestSettings};
use std::io::Write;
use std::process::{Command, Output, Stdio};

/// A host with two sites on free ports, and voter's procedures.
fn host() -> Server {
    let mut natives = NativeRegistry::default();
    lockstep_workloads::native_procedures().into_iter().for_each(|p| natives.register(p));
    let loopback = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    Server::start(ServerConfiguration {
        sites: 2,
        for_tests: TestSettings::default(),
        client: loopback,
        admin: loopback,
        options: Options::default(),
        natives,
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data: None,
        cluster: None,
    })
    .expect("a host starts")
}

/// Runs the binary.
fn lockstep(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the binary runs");
    // A command that does not read its input may have ended already.
    let _ = child.stdin.take().expect("piped").write_all(input.as_bytes());
    child.wait_with_output().expect("the binary ends")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is text")
}
