//! The part of the README's tour that stops a host hard and starts it again, run as printed.

use super::namespace::Namespace;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

const PART: &str = "### Stop it hard, start it again";
const BINARY: &str = "target/release/lockstep";

/// The commands of the part, each a block of indented lines.
fn commands(readme: &str) -> Vec<String> {
    let (_, part) = readme.split_once(PART).expect("the tour has that part");
    let part = part.split("\n## ").next().unwrap_or(part);
    let mut commands = Vec::new();
    let mut block = String::new();
    for line in part.lines().chain([""]) {
        match line.strip_prefix("    ") {
            Some(code) => block += &format!("{code}\n"),
            None if block.is_empty() => {}
            None => commands.push(std::mem::take(&mut block)),
        }
    }
    commands
}

/// A host that the tour started; it is killed at the end of the test, if it is there still.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_tour_stops_a_host_hard_and_finds_everything_again() {
    let Some(namespace) = Namespace::or_skip("ip link set lo up") else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readme = std::fs::read_to_string(root.join("README.md")).expect("the README");
    let place = std::env::temp_dir().join(format!("lockstep-readme-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&place);
    std::fs::create_dir_all(&place).expect("it can be made");
    let mut hosts = Vec::new();
    let mut said = String::new();
    for command in commands(&readme) {
        assert!(command.contains(BINARY) || command.starts_with("kill "), "{command}");
        let starts = command.contains(&format!("{BINARY} start "));
        let binary = env!("CARGO_BIN_EXE_lockstep");
        let binary = if starts { format!("exec {binary}") } else { binary.to_string() };
        let line = command.replace(BINARY, &binary);
        let line = format!("cd {} && {}", place.display(), line.trim_end());
        if !starts {
            said += &namespace.shell(&line);
            continue;
        }
        let mut shell = namespace.command("sh");
        let started = shell.args(["-c", &line]).stdout(Stdio::piped()).spawn();
        let mut host = Started(started.expect("it runs"));
        let output = host.0.stdout.take().expect("piped");
        let mut lines = BufReader::new(output).lines().map_while(Result::ok);
        for line in lines.by_ref() {
            said += &format!("{line}\n");
            if line.contains("ready on ") {
                break;
            }
        }
        hosts.push(host);
    }
    assert_eq!(hosts.len(), 2, "it is started twice");
    for word in ["recovered in ", "ada     100", "bob      75", "stopped, with a snapshot"] {
        assert!(said.contains(word), "'{word}' is not in: {said}");
    }
    drop(hosts);
    std::fs::remove_dir_all(&place).expect("it is ours");
}
