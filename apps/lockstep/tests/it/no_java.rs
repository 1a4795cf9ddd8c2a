//! A server on a machine without Java: what needs it says so, and all else goes on.

use super::{lockstep, text};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

/// A server process, ended with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a server whose environment has these variables alone; gives its address, too.
fn start(environment: &[(&str, &str)]) -> (Process, String) {
    let child = Command::new(env!("CARGO_BIN_EXE_lockstep"))
        .args(["start", "--sites", "1", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"])
        .env_clear()
        .envs(environment.iter().copied())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the binary runs");
    let mut process = Process(child);
    let output = process.0.stdout.take().expect("piped");
    for line in BufReader::new(output).lines() {
        let line = line.expect("output is text");
        if let Some(address) = line.strip_prefix("lockstep: ready on ") {
            return (process, address.to_string());
        }
    }
    panic!("the server ended before it was ready");
}

#[test]
fn a_server_without_java_says_so_when_classes_are_loaded() {
    let folder = std::env::temp_dir().join(format!("lockstep-no-java-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let jar = folder.join("app.jar");
    std::fs::write(&jar, b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").expect("a file");
    let empty = folder.to_str().expect("a path that is text");
    for (environment, reason) in [
        (&[("PATH", empty)][..], "JAVA_HOME is not set and no `java` is on the PATH"),
        (&[("PATH", empty), ("JAVA_HOME", empty)], "There is no JVM"),
    ] {
        let (_process, address) = start(environment);
        let input = format!(
            "create table t (a int not null primary key);\nload classes {};\n\
             create function f from method A.b;\ninsert into t values (1);\nselect a from t;\n",
            jar.display()
        );
        let output = lockstep(&["sql", "--server", &address, "--continue-on-error"], &input);
        let said = text(&output.stderr);
        let without = said.contains("This binary was built without Java procedures");
        assert!(without || said.contains(reason) && said.contains("Install Java 17"), "{said}");
        assert!(said.contains("no classes are loaded"), "{said}");
        let shown = text(&output.stdout);
        assert!(shown.contains("(1 row changed") && shown.contains("\n1\n"), "{shown}");
        let line = ["bench", "tpcc", "--procedures", "java", "--servers", &address];
        let output = lockstep(&line, "");
        let said = text(&output.stderr);
        let refused = said.contains("the server takes no classes") && said.contains(reason);
        assert!(!output.status.success() && (without || refused), "{said}");
    }
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}
