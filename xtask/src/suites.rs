//! `cargo xtask test`: every test suite in turn, and the sum of what they counted.
//!
//! A suite is a command whose output holds counts, in the words of `cargo test` (`test result:`)
//! or in ours (`suite NAME: 3 passed, 0 failed, 1 skipped`). A suite that ends badly without
//! counting a failure, or without counting anything, counts as one failure.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use crate::{check, rust_tests};

/// What a suite counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// A named suite and the way to run it.
struct Suite {
    name: &'static str,
    about: &'static str,
    run: fn(&Path) -> Result<Counts, String>,
    /// Runs only where it is named: its faults are those of a network and of clocks, and what they
    /// do to hosts on a machine that is busy with other things is no defect.
    is_by_name: bool,
}

impl Suite {
    const fn new(
        name: &'static str,
        about: &'static str,
        run: fn(&Path) -> Result<Counts, String>,
    ) -> Suite {
        Suite { name, about, run, is_by_name: false }
    }
}

const SUITES: &[Suite] = &[
    Suite::new("check", "house rules, dependencies, documents", run_check),
    Suite::new("rust", "unit and integration tests, SQL corpus", run_rust),
    Suite::new("python", "VoltDB's Python client and raw sockets", run_python),
    Suite::new("java", "VoltDB's Java clients and JDBC driver", run_java),
    Suite::new("java-api", "the procedure API and the helper for users' tests", run_java_api),
    Suite::new(
        "failover",
        "VoltDB's clients while hosts are lost, added and removed",
        run_failover,
    ),
    Suite {
        is_by_name: true,
        ..Suite::new("namespaces", "clients under faults of network and disks", run_namespaces)
    },
    Suite::new("golden", "recorded answers of VoltDB, kept floors", run_golden),
    Suite::new("instructions", "instructions of a call, held to limits", run_instructions),
];

/// Runs the suites that `arguments` name, or all but those that are to be named; true if nothing
/// failed.
pub fn command(root: &Path, arguments: &[String]) -> Result<bool, String> {
    let wanted = match parse(arguments)? {
        Some(wanted) => wanted,
        None => {
            for suite in SUITES {
                println!("{:12} {}", suite.name, suite.about);
            }
            return Ok(true);
        }
    };
    let mut total = Counts::default();
    let mut lines = Vec::new();
    let is_wanted = |suite: &&Suite| match wanted.is_empty() {
        true => !suite.is_by_name,
        false => wanted.contains(&suite.name),
    };
    for suite in SUITES.iter().filter(is_wanted) {
        println!("== {}: {}", suite.name, suite.about);
        let begin = Instant::now();
        let counts = (suite.run)(root).unwrap_or_else(|message| {
            println!("{}: {message}", suite.name);
            Counts { failed: 1, ..Counts::default() }
        });
        let seconds = begin.elapsed().as_secs_f64();
        lines.push(format!(
            "{:12} {:>7} {:>7} {:>8} {seconds:>8.1}",
            suite.name, counts.passed, counts.failed, counts.skipped
        ));
        total.add(counts);
    }
    println!("\nsuite         passed  failed  skipped  seconds");
    for line in lines {
        println!("{line}");
    }
    let skipped =
        if total.skipped > 0 { format!(" ({} skipped)", total.skipped) } else { "".into() };
    println!("{} passed, {} failed{skipped}", total.passed, total.failed);
    Ok(total.failed == 0)
}

/// The named suites (none named means those that need no name); `None` asks for the list.
fn parse(arguments: &[String]) -> Result<Option<Vec<&str>>, String> {
    let mut wanted = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.as_str() {
            "--list" => return Ok(None),
            "--only" => {
                let name = rest.next().ok_or("--only needs the name of a suite")?;
                if !SUITES.iter().any(|suite| suite.name == name) {
                    return Err(format!("no suite is named {name}; --list shows them"));
                }
                wanted.push(name.as_str());
            }
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(Some(wanted))
}

fn run_check(root: &Path) -> Result<Counts, String> {
    let report = check::run(root)?;
    for finding in &report.findings {
        println!("{finding}");
    }
    let failed = report.findings.len() as u64;
    Ok(Counts { passed: u64::from(failed == 0), failed, skipped: 0 })
}

fn run_rust(root: &Path) -> Result<Counts, String> {
    // Random SQL is compared with PostgreSQL; the test starts a server of its own.
    if !has_postgres() {
        install("postgresql")?;
    }
    // One test traces the system calls of a host. Where that is not allowed, it says so.
    require("strace", "strace")?;
    rust_tests::run(root)
}

/// Whether PostgreSQL's server programs are there, in Debian's place or in the path.
fn has_postgres() -> bool {
    let versions = std::fs::read_dir("/usr/lib/postgresql");
    let versions = versions.into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    versions.chain(std::env::split_paths(&path)).any(|folder| folder.join("initdb").exists())
}

fn run_python(root: &Path) -> Result<Counts, String> {
    build_server(root)?;
    let python = python_environment(root)?;
    counted(root, Command::new(python).arg("testing/clients/python/run.py"))
}

fn run_java(root: &Path) -> Result<Counts, String> {
    build_server(root)?;
    let python = python_environment(root)?;
    require("mvn", "maven")?;
    require("javac", "default-jdk-headless")?;
    counted(root, Command::new(python).arg("java/driver-tests/run.py"))
}

fn run_java_api(root: &Path) -> Result<Counts, String> {
    build_server(root)?;
    let python = python_environment(root)?;
    require("mvn", "maven")?;
    require("javac", "default-jdk-headless")?;
    counted(root, Command::new(python).arg("java/runtime/run.py"))
}

/// The short form, or as many lost hosts for each client as FAILOVERS says.
fn run_failover(root: &Path) -> Result<Counts, String> {
    build_server(root)?;
    let python = python_environment(root)?;
    require("mvn", "maven")?;
    require("javac", "default-jdk-headless")?;
    let mut command = Command::new(python);
    command.arg("testing/clients/failover/run.py");
    match std::env::var("FAILOVERS") {
        Ok(rounds) => {
            let changes = rounds.parse::<u32>().map_or(1, |rounds| rounds.div_ceil(4)).to_string();
            command.args(["--rounds", &rounds, "--registers", "3", "--changes", &changes])
        }
        // By these options a busy machine suspects no host that runs.
        Err(_) => command.args(["--rounds", "1", "--registers", "1", "--change", "resize"]).args([
            "--option",
            "suspect_after_ms=1000",
            "--option",
            "lease_ms=600",
        ]),
    };
    counted(root, &mut command)
}

/// Each kind of fault once, or as many times as NAMESPACE_ROUNDS says.
fn run_namespaces(root: &Path) -> Result<Counts, String> {
    build_server(root)?;
    let python = python_environment(root)?;
    for (program, package) in [("nft", "nftables"), ("faketime", "faketime")] {
        // The suite skips what needs them.
        if let Err(problem) = require(program, package) {
            println!("{problem}");
        }
    }
    let mut command = Command::new(python);
    command.arg("testing/clients/namespaces/run.py");
    match std::env::var("NAMESPACE_ROUNDS") {
        Ok(rounds) => command.args(["--rounds", &rounds, "--seconds", "2"]),
        // By these options a busy machine suspects no host that runs.
        Err(_) => command.args(["--option", "suspect_after_ms=500", "--option", "lease_ms=300"]),
    };
    counted(root, &mut command)
}

fn run_golden(root: &Path) -> Result<Counts, String> {
    build_server(root)?;
    let python = python_environment(root)?;
    counted(root, Command::new(python).arg("testing/clients/python/golden.py"))
}

fn run_instructions(root: &Path) -> Result<Counts, String> {
    require("valgrind", "valgrind")?;
    let program = ["--release", "-p", "lockstep-bench-sim", "--bin", "bench-instructions"];
    succeed(root, Command::new("cargo").arg("build").args(program))?;
    counted(root, Command::new("cargo").arg("run").args(program))
}

/// Builds the server with the procedures that only tests call, unless LOCKSTEP_BINARY names one
/// that the client suites shall use.
fn build_server(root: &Path) -> Result<(), String> {
    if std::env::var_os("LOCKSTEP_BINARY").is_some() {
        return Ok(());
    }
    let arguments = ["build", "--release", "--bin", "lockstep-under-test"];
    succeed(root, Command::new("cargo").args(arguments))
}

/// The Python with the client that the tests use, in `target/venv`; made at the first call.
fn python_environment(root: &Path) -> Result<std::path::PathBuf, String> {
    let folder = root.join("target/venv");
    let python = folder.join("bin/python");
    let requirements = "testing/clients/python/requirements.txt";
    let wanted = std::fs::read_to_string(root.join(requirements))
        .map_err(|e| format!("{requirements}: {e}"))?;
    let stamp = folder.join("installed.txt");
    if python.exists() && std::fs::read_to_string(&stamp).is_ok_and(|text| text == wanted) {
        return Ok(python);
    }
    let target = folder.to_string_lossy().into_owned();
    let make = || succeed(root, Command::new("python3").args(["-m", "venv", "--clear", &target]));
    if make().is_err() {
        install("python3-venv")?;
        make()?;
    }
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
    succeed(root, Command::new(&python).args(pip).arg(requirements))?;
    std::fs::write(&stamp, wanted).map_err(|e| format!("{}: {e}", stamp.display()))?;
    Ok(python)
}

/// Makes sure that `program` can be started, by installing `package` if need be.
fn require(program: &str, package: &str) -> Result<(), String> {
    let starts = || {
        let mut command = Command::new(program);
        command.arg("-version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok()
    };
    if starts() {
        return Ok(());
    }
    install(package)?;
    if starts() {
        Ok(())
    } else {
        Err(format!("{program} does not start after installing {package}"))
    }
}

/// Installs a Debian package; without the right to, says what to install.
fn install(package: &str) -> Result<(), String> {
    let by_hand = format!("install the Debian package {package} (apt-get install {package})");
    let is_root = Command::new("id").arg("-u").output().is_ok_and(|o| o.stdout.starts_with(b"0"));
    if !is_root {
        return Err(by_hand);
    }
    println!("installing {package}");
    let run = |arguments: &[&str]| {
        let mut command = Command::new("apt-get");
        command.args(arguments).env("DEBIAN_FRONTEND", "noninteractive").stdout(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    // Package lists may be stale or absent on a fresh machine.
    let arguments = ["install", "-y", "--no-install-recommends", package];
    if run(&arguments) || (run(&["update"]) && run(&arguments)) { Ok(()) } else { Err(by_hand) }
}

/// Runs a command to its end; anything but success is an error that names it.
pub(crate) fn succeed(root: &Path, command: &mut Command) -> Result<(), String> {
    let status = command.current_dir(root).status().map_err(|e| format!("{command:?}: {e}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}")) }
}

/// How long a suite may print nothing before it counts as hanging.
pub(crate) const SILENCE_MAX: Duration = Duration::from_secs(600);

/// Runs a command, passes its output on and adds up the counts in it. One that hangs is ended, so
/// that the suites after it run and its failure is counted.
pub(crate) fn counted(root: &Path, command: &mut Command) -> Result<Counts, String> {
    let counts = counted_within(root, command, SILENCE_MAX, &mut |line| println!("{line}"))?;
    // What is called a suite has tests.
    Ok(with_outcome(counts, counts != Counts::default()))
}

/// [`counted`] for a command that hangs when it prints nothing for `silence_max`; `show` gets what
/// it prints.
pub(crate) fn counted_within(
    folder: &Path,
    command: &mut Command,
    silence_max: Duration,
    show: &mut dyn FnMut(&str),
) -> Result<Counts, String> {
    let mut child = command
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{command:?}: {e}"))?;
    let output = child.stdout.take().ok_or("a child without its output")?;
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines() {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    let (mut counts, mut has_counted) = (Counts::default(), false);
    loop {
        match lines.recv_timeout(silence_max) {
            Ok(line) => {
                let line = line.map_err(|e| format!("output of {command:?}: {e}"))?;
                show(&line);
                let counted = parse_counts(&line);
                has_counted |= counted.is_some();
                counts.add(counted.unwrap_or_default());
            }
            Err(RecvTimeoutError::Disconnected) => break,
            Err(RecvTimeoutError::Timeout) => {
                let silence_s = silence_max.as_secs();
                show(&format!(
                    "nothing was printed for {silence_s} s: {command:?} hangs and is ended"
                ));
                end_with_children(child.id());
                counts.failed += 1;
                break;
            }
        }
    }
    let status = child.wait().map_err(|e| format!("{command:?}: {e}"))?;
    Ok(with_outcome(counts, has_counted && status.success()))
}

/// Ends a process and everything that it started. A group of its own would be simpler, but then
/// Ctrl-C in a terminal would not reach it.
fn end_with_children(process: u32) {
    let children = Command::new("ps").args(["-o", "pid=", "--ppid", &process.to_string()]).output();
    let _ = Command::new("kill").args(["-KILL", &process.to_string()]).status();
    let children = children.map_or(String::new(), |it| String::from_utf8_lossy(&it.stdout).into());
    children.split_whitespace().filter_map(|it| it.parse().ok()).for_each(end_with_children);
}

/// What ended badly, or counted nothing, has failed even if no test says so.
fn with_outcome(mut counts: Counts, is_well: bool) -> Counts {
    if !is_well && counts.failed == 0 {
        counts.failed += 1;
    }
    counts
}

/// The counts of one line of output, if it holds any.
fn parse_counts(line: &str) -> Option<Counts> {
    let line = line.trim_start();
    if !line.starts_with("test result: ") && !line.starts_with("suite ") {
        return None;
    }
    let number = |word: &str| -> Option<u64> {
        let end = line.find(word)?;
        line[..end].trim_end().rsplit([' ', ':', '.']).next()?.parse().ok()
    };
    let passed = number("passed")?;
    let failed = number("failed")?;
    let skipped = number("skipped").or_else(|| number("ignored")).unwrap_or(0);
    Some(Counts { passed, failed, skipped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_from_both_kinds_of_lines() {
        let cargo =
            "test result: FAILED. 12 passed; 2 failed; 1 ignored; 0 measured; 3 filtered out";
        assert_eq!(parse_counts(cargo), Some(Counts { passed: 12, failed: 2, skipped: 1 }));
        let ours = "suite python: 3 passed, 0 failed, 4 skipped";
        assert_eq!(parse_counts(ours), Some(Counts { passed: 3, failed: 0, skipped: 4 }));
        assert_eq!(
            parse_counts("suite rust: 3 passed, 0 failed"),
            parse_counts("suite x: 3 passed, 0 failed, 0 skipped")
        );
        assert_eq!(parse_counts("suite python: all passed, none failed"), None);
        assert_eq!(parse_counts("5 passed, 0 failed"), None);
    }

    #[test]
    fn a_suite_without_counts_has_failed() {
        let good = Counts { passed: 3, ..Counts::default() };
        assert_eq!(with_outcome(good, true), good);
        assert_eq!(with_outcome(good, false).failed, 1);
        let bad = Counts { failed: 2, ..good };
        assert_eq!(with_outcome(bad, false), bad);
        // A program may have no tests, and say so; a suite has some.
        let says = |script: &str| {
            let mut command = Command::new("sh");
            let command = command.args(["-c", script]);
            counted_within(Path::new("."), command, SILENCE_MAX, &mut |_| {}).expect("it runs")
        };
        let none = "echo 'test result: ok. 0 passed; 0 failed; 0 ignored'";
        assert_eq!(says(none), Counts::default());
        assert_eq!(says("echo nothing").failed, 1);
        let mut suite = Command::new("sh");
        let suite = counted(Path::new("."), suite.args(["-c", none])).expect("it runs");
        assert_eq!(suite.failed, 1);
    }

    #[test]
    fn arguments_name_suites() {
        let parse_words = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| word.to_string()).collect();
            parse(&words).map(|names| names.map(|names| names.join(",")))
        };
        assert_eq!(parse_words(&[]), Ok(Some(String::new())));
        assert_eq!(
            parse_words(&["--only", "java", "--only", "rust"]),
            Ok(Some("java,rust".into()))
        );
        assert_eq!(parse_words(&["--list"]), Ok(None));
        assert!(parse_words(&["--only", "nothing"]).is_err());
        assert!(parse_words(&["--only"]).is_err());
        assert!(parse_words(&["java"]).is_err());
    }

    #[test]
    fn commands_are_counted_as_they_run() {
        let root = Path::new(".");
        let script =
            "echo 'suite a: 2 passed, 0 failed'; echo other; echo 'suite b: 1 passed, 1 failed'";
        let counts = counted(root, Command::new("sh").args(["-c", script]));
        assert_eq!(counts, Ok(Counts { passed: 3, failed: 1, skipped: 0 }));
        assert!(counted(root, &mut Command::new("no-such-program-here")).is_err());
        // A test that hangs, in a process that the command started.
        let script = "echo 'suite a: 2 passed, 0 failed'; sleep 1000; echo never";
        let silence_max = Duration::from_millis(300);
        let mut command = Command::new("sh");
        let command = command.args(["-c", script]);
        let counts = counted_within(root, command, silence_max, &mut |line| println!("{line}"));
        assert_eq!(counts, Ok(Counts { passed: 2, failed: 1, skipped: 0 }));
        assert!(succeed(root, &mut Command::new("false")).is_err());
    }
}
