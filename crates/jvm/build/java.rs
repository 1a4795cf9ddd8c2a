//! What build scripts that compile Java have in common.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Java that everything is compiled for.
const RELEASE: &str = "17";

/// Has the build run again when another JDK is found.
pub fn rerun_with_another_jdk() {
    for variable in ["JAVA_HOME", "PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
}

/// Compiles all sources of a folder into another one, which is made.
pub fn compile(tools: &Path, from: &Path, library: &Path, classes: &Path) -> Outcome {
    let mut sources = Vec::new();
    find_files(from, "java", &mut sources)?;
    sources.sort();
    fs::create_dir_all(classes)?;
    let list = classes.with_extension("sources");
    let quoted = |source: &PathBuf| format!("\"{}\"\n", source.display());
    fs::write(&list, sources.iter().map(quoted).collect::<String>())?;
    run(Command::new(tools.join("javac"))
        .args(["--release", RELEASE, "-proc:none", "-nowarn", "-encoding", "UTF-8", "-g"])
        .arg("-cp")
        .arg(library)
        .arg("-d")
        .arg(classes)
        .arg(format!("@{}", list.display())))
}

/// Nothing, or why not.
pub type Outcome = Result<(), Box<dyn Error>>;

/// The folder of `javac` and `jar`.
pub fn tools() -> Result<PathBuf, Box<dyn Error>> {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = home.into_iter().chain(env::split_paths(&path));
    let found = folders.into_iter().find(|folder| folder.join("javac").is_file());
    found.ok_or_else(|| "there is no javac in JAVA_HOME or on the PATH (JDK 17 or newer)".into())
}

/// Adds all files of a folder, at any depth, whose names end in this way.
pub fn find_files(folder: &Path, ending: &str, files: &mut Vec<PathBuf>) -> Outcome {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_files(&path, ending, files)?;
        } else if path.extension().is_some_and(|extension| extension == ending) {
            files.push(path);
        }
    }
    Ok(())
}

/// Runs a program to its end.
pub fn run(command: &mut Command) -> Outcome {
    let shown = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{shown} cannot be run: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    let first: Vec<&str> = said.lines().take(5).collect();
    Err(format!("{shown} failed: {}", first.join(" | ")).into())
}
