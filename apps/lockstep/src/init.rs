//! `lockstep init`: makes the directory of a host.

use crate::start::default_sites;
use clap::{Arg, ArgMatches, Command, value_parser};
use lockstep_node::log::directory;
use std::path::PathBuf;
use std::process::ExitCode;

pub fn command() -> Command {
    Command::new("init")
        .about("Make a directory in which a host keeps its data")
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .required(true)
                .value_parser(value_parser!(PathBuf))
                .help("The directory: one that is empty or does not exist"),
        )
        .arg(
            Arg::new("sites")
                .long("sites")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=1024))
                .help("Number of sites, each a thread with a partition [default: the cores]"),
        )
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let path = arguments.get_one::<PathBuf>("dir").expect("the argument is required");
    let sites = arguments.get_one::<u32>("sites").copied().unwrap_or_else(default_sites);
    let made = directory::create(path, sites).map_err(|error| error.to_string())?;
    println!(
        "lockstep: made {} for {sites} site{}, cluster {}",
        path.display(),
        if sites == 1 { "" } else { "s" },
        made.cluster
    );
    println!("lockstep: `lockstep start --dir {}` starts the host", path.display());
    Ok(ExitCode::SUCCESS)
}
