//! The suite `rust`: what `cargo test --workspace` runs, in less time.
//!
//! The tests of hosts wait most of their time, for sockets and clocks. So those that compute run
//! beside them, with less priority, and so does the release build that later suites need. What a
//! test program prints is shown when it has ended, in one piece.

use crate::suites::{Counts, SILENCE_MAX, counted, counted_within, succeed};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

/// The packages whose tests start hosts and wait for them.
const WAITING: [&str; 2] = ["apps/lockstep", "crates/node"];
/// The programs that later suites need, each built as they build it: together they would have the
/// features of both.
const RELEASE: [&[&str]; 2] = [
    &["--bin", "lockstep-under-test"],
    &["-p", "lockstep-bench-sim", "--bin", "bench-instructions"],
];
/// How much less priority the tests that compute have, and the release build (`nice(1)`).
const COMPUTES: &str = "10";
const BUILDS: &str = "19";

/// A program of tests.
#[derive(Debug, Clone, PartialEq, Eq)]
struct TestProgram {
    path: PathBuf,
    /// The folder of its package, where it runs.
    folder: PathBuf,
}

impl TestProgram {
    /// Of a line that `cargo test --no-run` writes, if it names one.
    fn parse(line: &str) -> Option<TestProgram> {
        let message: Value = serde_json::from_str(line).ok()?;
        let is_test = message["profile"]["test"].as_bool()?;
        let path = PathBuf::from(message["executable"].as_str()?);
        let folder = Path::new(message["manifest_path"].as_str()?).parent()?.to_path_buf();
        is_test.then_some(TestProgram { path, folder })
    }

    fn waits(&self) -> bool {
        WAITING.iter().any(|package| self.folder.ends_with(package))
    }
}

/// Runs all tests of the workspace.
///
/// # Errors
/// They do not build, or a program of them does not start.
pub fn run(root: &Path) -> Result<Counts, String> {
    let programs = build(root)?;
    let mut release = begin_release_build(root)?;
    let (waiting, computing): (Vec<_>, Vec<_>) = programs.into_iter().partition(TestProgram::waits);
    let output = Mutex::new(());
    let counts = std::thread::scope(|scope| {
        let beside = scope.spawn(|| run_each(&computing, Some(COMPUTES), &output));
        let counts = run_each(&waiting, None, &output);
        let of_computing = beside.join().map_err(|_| "a thread of tests panicked".to_string())?;
        let mut counts = counts?;
        counts.add(of_computing?);
        Ok::<Counts, String>(counts)
    });
    // Whether it was well: the suites that need it build what is missing, and show why.
    let _ = release.wait();
    let mut counts = counts?;
    let mut documented = Command::new("cargo");
    counts.add(counted(root, documented.args(["test", "--workspace", "--doc"]))?);
    Ok(counts)
}

fn build(root: &Path) -> Result<Vec<TestProgram>, String> {
    let mut command = Command::new("cargo");
    command.args(["test", "--workspace", "--no-run"]);
    // With what the compiler says; then once more for the list, which builds nothing.
    succeed(root, &mut command)?;
    let listed = command.arg("--message-format=json").current_dir(root).stderr(Stdio::null());
    let listed = listed.output().map_err(|error| format!("{command:?}: {error}"))?;
    let lines = String::from_utf8_lossy(&listed.stdout);
    let programs: Vec<TestProgram> = lines.lines().filter_map(TestProgram::parse).collect();
    match programs.is_empty() {
        true => Err(format!("{command:?} names no program")),
        false => Ok(programs),
    }
}

/// Builds in the background what is built as a release, unless the suites are given a server.
fn begin_release_build(root: &Path) -> Result<Child, String> {
    let build = |what: &[&str]| format!("cargo build --quiet --release {}", what.join(" "));
    let script = match std::env::var_os("LOCKSTEP_BINARY") {
        Some(_) => build(RELEASE[1]),
        None => RELEASE.map(build).join(" && "),
    };
    let mut command = Command::new("nice");
    command.args(["-n", BUILDS, "sh", "-c", &script]).current_dir(root);
    let quiet = command.stdout(Stdio::null()).stderr(Stdio::null());
    quiet.spawn().map_err(|error| format!("{command:?}: {error}"))
}

/// Runs programs one after the other.
fn run_each(
    programs: &[TestProgram],
    niceness: Option<&str>,
    output: &Mutex<()>,
) -> Result<Counts, String> {
    let mut counts = Counts::default();
    for program in programs {
        let mut command = match niceness {
            None => Command::new(&program.path),
            Some(niceness) => {
                let mut command = Command::new("nice");
                command.args(["-n", niceness]).arg(&program.path);
                command
            }
        };
        command.env("LOCKSTEP_REQUIRE_POSTGRES", "1");
        command.env("CARGO_MANIFEST_DIR", &program.folder);
        let mut lines = String::new();
        // One that others keep from the processor may be silent for longer.
        let ran = counted_within(&program.folder, &mut command, SILENCE_MAX * 2, &mut |line| {
            lines.push_str(line);
            lines.push('\n');
        });
        let _whole = output.lock().map_err(|_| "a thread of tests panicked".to_string())?;
        println!("     Running {} in {}", program.path.display(), program.folder.display());
        println!("{lines}");
        counts.add(ran?);
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_tests_are_found_in_what_cargo_says() {
        let line = |test: bool, executable: &str| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/node/Cargo.toml",
                "profile":{{"test":{test}}},"executable":{executable}}}"#
            )
            .replace('\n', "")
        };
        let program = TestProgram::parse(&line(true, r#""/w/target/debug/deps/it-1""#));
        let (path, folder) = ("/w/target/debug/deps/it-1".into(), "/w/crates/node".into());
        assert_eq!(program, Some(TestProgram { path, folder }));
        assert!(program.is_some_and(|it| it.waits()));
        assert_eq!(TestProgram::parse(&line(false, r#""/w/target/debug/lockstep""#)), None);
        assert_eq!(TestProgram::parse(&line(true, "null")), None);
        assert_eq!(TestProgram::parse(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
