//! Compiles the procedures in Java of the workloads (`testing/workloads/java`) into a jar, which
//! becomes part of the binary. Without a JDK the jar is empty: then `--procedures java` says so.

#![allow(clippy::disallowed_methods)] // A build script is told what to do by its environment.

#[path = "../../crates/jvm/build/java.rs"]
mod java;

use java::{Outcome, compile, rerun_with_another_jdk, run, tools};
use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(env::var("OUT_DIR")?);
    let sources = PathBuf::from(env::var("CARGO_MANIFEST_DIR")?).join("../workloads/java");
    let runtime = PathBuf::from(env::var("DEP_LOCKSTEP_JAVA_RUNTIME_JAR")?);
    println!("cargo::rerun-if-changed={}", sources.display());
    println!("cargo::rerun-if-changed=../../crates/jvm/build");
    rerun_with_another_jdk();
    let jar = out.join("workloads.jar");
    fs::write(&jar, b"")?;
    // The runtime's build has said why there is none.
    if fs::metadata(&runtime)?.len() > 0
        && let Err(reason) = build(&sources, &runtime, &out, &jar)
    {
        println!("cargo::warning=The workloads' procedures in Java are left out: {reason}");
        fs::write(&jar, b"")?;
    }
    Ok(())
}

fn build(sources: &Path, runtime: &Path, out: &Path, jar: &Path) -> Outcome {
    let (tools, classes) = (tools()?, out.join("classes"));
    // Of classes that there are no more.
    let _ = fs::remove_dir_all(&classes);
    compile(&tools, sources, runtime, &classes)?;
    run(Command::new(tools.join("jar")).arg("cf").arg(jar).arg("-C").arg(&classes).arg("."))
}
