//! The host as a process of its own, with a directory.

use lockstep_client::rows::Table;
use lockstep_client::{ConnectOptions, Connection};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a test waits for what must come to be.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Times by which a busy machine suspects no member of a cluster that runs.
pub const TIMES: [&str; 6] = [
    "--option",
    "heartbeat_interval_ms=100",
    "--option",
    "suspect_after_ms=1500",
    "--option",
    "lease_ms=1000",
];

/// A host's process; it is killed at the end, if not before.
pub struct Host {
    pub child: Child,
    address: String,
    /// What it said before it was ready.
    pub said: String,
}

impl Host {
    /// Starts it on a directory and waits until it is ready.
    pub fn start(directory: &Path) -> Host {
        Host::spawn(directory, &["log_segment_bytes=1048576".to_string()]).ready()
    }

    /// Starts it on a directory, with options.
    pub fn spawn(directory: &Path, options: &[String]) -> Host {
        Host::run(&mut Host::command(directory, options))
    }

    /// Starts it with its standard error kept, and waits until it is ready.
    pub fn start_heard(directory: &Path, options: &[String]) -> Host {
        Host::run(Host::command(directory, options).stderr(Stdio::piped())).ready()
    }

    /// What starts it.
    pub fn command(directory: &Path, options: &[String]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_lockstep-under-test"));
        command
            .args([
                "--log",
                "error",
                "start",
                "--client",
                "127.0.0.1:0",
                "--admin",
                "127.0.0.1:0",
                "--dir",
            ])
            .arg(directory);
        for option in options {
            command.args(["--option", option]);
        }
        command
    }

    /// Starts the process of a command.
    pub fn run(command: &mut Command) -> Host {
        let child = command.stdout(Stdio::piped()).spawn();
        let child = child.expect("the binary runs");
        Host { child, address: String::new(), said: String::new() }
    }

    /// Waits until it is ready.
    pub fn ready(mut self) -> Host {
        let output = self.child.stdout.take().expect("piped");
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if let Some((_, address)) = line.split_once("ready on ") {
                self.address = address.trim().to_string();
                return self;
            }
            self.said += &line;
            self.said.push('\n');
        }
        panic!("the host did not become ready: {}", self.said);
    }

    pub fn connect(&self) -> Connection {
        let connected = Connection::connect(&self.address, &ConnectOptions::default());
        connected.expect("the host takes connections")
    }

    /// Asks until it is answered: on a busy machine a host that runs may be suspected meanwhile,
    /// and what is asked then fails.
    pub fn sql_in_the_end(&self, statement: &str) -> Vec<Table> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let connected = Connection::connect(&self.address, &ConnectOptions::default());
            match connected.and_then(|mut connection| connection.sql(statement)) {
                Ok(tables) => return tables,
                Err(error) => assert!(Instant::now() < deadline, "{statement}: {error}"),
            }
        }
    }

    /// Where clients connect.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Where administrators connect.
    pub fn admin(&self) -> String {
        let (_, behind) = self.said.split_once("admin port ").expect("it is said at the start");
        format!("127.0.0.1:{}", behind.lines().next().expect("a line").trim())
    }

    /// Waits until it has ended; whether it says that all is well, and what it wrote to standard
    /// error, if that was piped.
    pub fn wait(&mut self) -> (bool, String) {
        let mut said = String::new();
        if let Some(mut errors) = self.child.stderr.take() {
            errors.read_to_string(&mut said).expect("it is text");
        }
        (self.child.wait().expect("it ends").success(), said)
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
