//! Compiles the Java runtime (`java/runtime`) into one jar, which becomes part of the binary.
//! Without a JDK, or without the one library that the runtime needs, the jar is empty: then the
//! server runs without Java procedures, and says so.

#![allow(clippy::disallowed_methods)] // A build script is told what to do by its environment.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Java that the runtime is compiled for.
const RELEASE: &str = "17";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let runtime = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../java/runtime");
    println!("cargo::rerun-if-changed={}", runtime.join("src/main").display());
    println!("cargo::rerun-if-changed={}", runtime.join("pom.xml").display());
    for variable in ["JAVA_HOME", "PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    let jar = out.join("runtime.jar");
    if let Err(reason) = build(&runtime, &out, &jar) {
        println!("cargo::warning=Java procedures are left out of this build: {reason}");
        fs::write(&jar, b"")?;
    }
    Ok(())
}

fn build(runtime: &Path, out: &Path, jar: &Path) -> Result<(), Box<dyn Error>> {
    let tools = tools()?;
    let library = asm(runtime, out)?;
    let mut sources = Vec::new();
    find_sources(&runtime.join("src/main/java"), &mut sources)?;
    sources.sort();
    let classes = out.join("classes");
    let _ = fs::remove_dir_all(&classes);
    fs::create_dir_all(&classes)?;
    // In the classes' place, so that both end in one jar.
    run(Command::new(tools.join("jar")).current_dir(&classes).arg("xf").arg(&library))?;
    let _ = fs::remove_file(classes.join("module-info.class"));
    let _ = fs::remove_dir_all(classes.join("META-INF"));
    let list = out.join("sources.txt");
    let quoted = |source: &PathBuf| format!("\"{}\"\n", source.display());
    fs::write(&list, sources.iter().map(quoted).collect::<String>())?;
    run(Command::new(tools.join("javac"))
        .args(["--release", RELEASE, "-proc:none", "-nowarn", "-encoding", "UTF-8", "-g"])
        .arg("-cp")
        .arg(&library)
        .arg("-d")
        .arg(&classes)
        .arg(format!("@{}", list.display())))?;
    let resources = runtime.join("src/main/resources");
    let mut pack = Command::new(tools.join("jar"));
    pack.arg("cf").arg(jar).arg("-C").arg(&classes).arg(".");
    if resources.is_dir() {
        pack.arg("-C").arg(&resources).arg(".");
    }
    run(&mut pack)
}

/// The folder of `javac` and `jar`.
fn tools() -> Result<PathBuf, Box<dyn Error>> {
    let home = env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin"));
    let path = env::var_os("PATH").unwrap_or_default();
    let folders = home.into_iter().chain(env::split_paths(&path));
    let found = folders.into_iter().find(|folder| folder.join("javac").is_file());
    found.ok_or_else(|| "there is no javac in JAVA_HOME or on the PATH (JDK 17 or newer)".into())
}

/// The jar of ASM, in the version that the runtime's `pom.xml` names: from Maven's local
/// repository, where Maven puts it if it is not there.
fn asm(runtime: &Path, out: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let pom = fs::read_to_string(runtime.join("pom.xml"))?;
    let version = pom
        .split_once("<artifactId>asm</artifactId>")
        .and_then(|(_, rest)| rest.split_once("<version>"))
        .and_then(|(_, rest)| rest.split_once("</version>"))
        .map(|(version, _)| version.trim().to_string())
        .ok_or("java/runtime/pom.xml names no version of ASM")?;
    let name = format!("asm-{version}.jar");
    if let Some(home) = env::var_os("HOME") {
        let place = format!(".m2/repository/org/ow2/asm/asm/{version}/{name}");
        let kept = PathBuf::from(home).join(place);
        if kept.is_file() {
            return Ok(kept);
        }
    }
    let folder = out.join("library");
    run(Command::new("mvn")
        .args(["-q", "-B", "dependency:copy"])
        .arg(format!("-Dartifact=org.ow2.asm:asm:{version}"))
        .arg(format!("-DoutputDirectory={}", folder.display())))?;
    Ok(folder.join(name))
}

fn find_sources(folder: &Path, sources: &mut Vec<PathBuf>) -> Result<(), Box<dyn Error>> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            find_sources(&path, sources)?;
        } else if path.extension().is_some_and(|extension| extension == "java") {
            sources.push(path);
        }
    }
    Ok(())
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
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
