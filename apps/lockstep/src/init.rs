//! `lockstep init`: makes the directory of a host.

use crate::start::{default_sites, partitions_per_site, shape, sites};
use clap::{Arg, ArgMatches, Command, value_parser};
use lockstep_node::log::directory;
use lockstep_types::PartitionId;
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
        .arg(sites())
        .arg(partitions_per_site())
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let path = arguments.get_one::<PathBuf>("dir").expect("the argument is required");
    let sites = arguments.get_one::<u32>("sites").copied().unwrap_or_else(default_sites);
    let each = arguments.get_one::<u32>("partitions-per-site").copied().unwrap_or(1);
    let partitions = sites.saturating_mul(each);
    if partitions >= PartitionId::LIMIT {
        return Err(format!(
            "{} have {partitions} partitions, and a cluster has {} at most",
            shape(sites, each),
            PartitionId::LIMIT - 1
        ));
    }
    let made = directory::create(path, partitions).map_err(|error| error.to_string())?;
    println!(
        "lockstep: made {} for {}, cluster {}",
        path.display(),
        shape(sites, each),
        made.cluster
    );
    let advice = match each {
        1 => String::new(),
        _ => format!(" --partitions-per-site {each}"),
    };
    println!("lockstep: `lockstep start --dir {}{advice}` starts the host", path.display());
    Ok(ExitCode::SUCCESS)
}
