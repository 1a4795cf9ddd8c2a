//! The host as a process of its own, with a directory.

use lockstep_client::{ConnectOptions, Connection};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A host's process; it is killed at the end, if not before.
pub struct Host {
    pub child: Child,
    address: String,
}

impl Host {
    /// Starts it on a directory and waits until it is ready.
    pub fn start(directory: &Path) -> Host {
        let child = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"))
            .args(["start", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--dir"])
            .arg(directory)
            .args(["--option", "log_segment_bytes=1048576"])
            .env("RUST_LOG", "error")
            .stdout(Stdio::piped())
            .spawn()
            .expect("the binary runs");
        let mut host = Host { child, address: String::new() };
        let output = host.child.stdout.take().expect("piped");
        let mut said = Vec::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once("ready on ") {
                host.address = address.trim().to_string();
                return host;
            }
            said.push(line);
        }
        panic!("the host did not become ready: {said:?}");
    }

    pub fn connect(&self) -> Connection {
        let connected = Connection::connect(&self.address, &ConnectOptions::default());
        connected.expect("the host takes connections")
    }

    /// Ends it as `kill -9` does, by its own id.
    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it has ended");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
