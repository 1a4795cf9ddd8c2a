//! Compiles the Java runtime (`java/runtime`) into one jar, which becomes part of the binary.
//! Without a JDK, or without the one library that the runtime needs, the jar is empty: then the
//! server runs without Java procedures, and says so.

#![allow(clippy::disallowed_methods)] // A build script is told what to do by its environment.

#[path = "build/java.rs"]
mod java;
#[path = "build/relocate.rs"]
mod relocate;

use java::{compile, rerun_with_another_jdk, run, tools};
use relocate::relocate;
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The package of ASM, and where it is in the runtime: users compile against the runtime's jar and
/// may have an ASM of their own.
const ASM: &str = "org/objectweb/asm";
const RELOCATED_ASM: &str = "org/lockstepdb/asm";

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let runtime = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../../java/runtime");
    println!("cargo::rerun-if-changed={}", runtime.join("src/main").display());
    println!("cargo::rerun-if-changed={}", runtime.join("pom.xml").display());
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=../../LICENSE");
    rerun_with_another_jdk();
    let jar = out.join("runtime.jar");
    // Build scripts of crates that compile procedures find it there.
    println!("cargo::metadata=jar={}", jar.display());
    if let Err(reason) = build(&runtime, &out, &jar) {
        println!("cargo::warning=Java procedures are left out of this build: {reason}");
        fs::write(&jar, b"")?;
    }
    Ok(())
}

fn build(runtime: &Path, out: &Path, jar: &Path) -> Result<(), Box<dyn Error>> {
    let tools = tools()?;
    let library = asm(runtime, out)?;
    let classes = out.join("classes");
    let _ = fs::remove_dir_all(&classes);
    fs::create_dir_all(&classes)?;
    // In the classes' place, so that both end in one jar.
    run(Command::new(tools.join("jar")).current_dir(&classes).arg("xf").arg(&library))?;
    let _ = fs::remove_file(classes.join("module-info.class"));
    let _ = fs::remove_dir_all(classes.join("META-INF"));
    compile(&tools, &runtime.join("src/main/java"), &library, &classes)?;
    relocate(&classes, ASM, RELOCATED_ASM)?;
    let notices = classes.join("META-INF");
    fs::create_dir_all(&notices)?;
    fs::copy(runtime.join("../../LICENSE"), notices.join("LICENSE"))?;
    let resources = runtime.join("src/main/resources");
    let mut pack = Command::new(tools.join("jar"));
    pack.arg("cf").arg(jar).arg("-C").arg(&classes).arg(".");
    if resources.is_dir() {
        pack.arg("-C").arg(&resources).arg(".");
    }
    run(&mut pack)
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
