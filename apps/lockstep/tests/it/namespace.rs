//! A namespace of the system's, in which a test may mount a small file system or take any port.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A process that keeps the namespace as long as this lives.
pub struct Namespace {
    holder: Child,
}

impl Namespace {
    /// Makes one and runs a command of the shell in it. `None`, with a word on standard error,
    /// where the system does not let this user.
    pub fn new(preparation: &str) -> Option<Namespace> {
        let script = format!("{preparation} && echo made && exec cat");
        let holder = Command::new("unshare")
            .args(["--mount", "--net", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut namespace = Namespace { holder: holder.ok()? };
        let output = namespace.holder.stdout.take()?;
        let said = BufReader::new(output).lines().next()?.ok()?;
        (said == "made").then_some(namespace)
    }

    /// As [`Namespace::new`]; says so where there is none, and the test ends well.
    pub fn or_skip(preparation: &str) -> Option<Namespace> {
        let made = Namespace::new(preparation);
        if made.is_none() {
            eprintln!("SKIPPED: this user may not make namespaces (`{preparation}`)");
        }
        made
    }

    /// A command that will run in it.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        let holder = self.holder.id().to_string();
        command.args(["--target", &holder, "--mount", "--net", "--", program]);
        command
    }

    /// Runs a line of the shell in it, which has to succeed; what it printed.
    pub fn shell(&self, line: &str) -> String {
        let output = self.command("sh").args(["-c", line]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let problem = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line}: {said}{problem}");
        said
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
