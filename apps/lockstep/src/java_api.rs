//! `lockstep java-api`: writes the jar that procedures in Java are compiled against.

use clap::{Arg, ArgMatches, Command, value_parser};
use std::path::PathBuf;
use std::process::ExitCode;

pub fn command() -> Command {
    Command::new("java-api")
        .about("Write the jar of the org.voltdb API that Java procedures are compiled against")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The jar to write"),
        )
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let file: &PathBuf = arguments.get_one("file").expect("the argument is required");
    let jar = lockstep_jvm::runtime_jar();
    if jar.is_empty() {
        return Err("this binary was built without a JDK, and has no Java API".to_string());
    }
    let failed = |error| format!("{} cannot be written: {error}", file.display());
    std::fs::write(file, jar).map_err(failed)?;
    println!("lockstep: wrote {}", file.display());
    Ok(ExitCode::SUCCESS)
}
