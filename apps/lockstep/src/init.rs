//! `lockstep init`: makes the directory of a host, or of a witness.

use crate::membership::{hosts, kfactor, witnesses};
use crate::start::{default_sites, partitions_per_site, shape, sites};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_node::links::ClusterTerms;
use lockstep_node::log::directory::{self, SeveralHosts};
use lockstep_node::options::{Count, Options};
use lockstep_types::PartitionId;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

pub fn command() -> Command {
    Command::new("init")
        .about("Make a directory in which a host keeps its data, or a witness its votes")
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
        .arg(hosts().help("Number of hosts of the cluster that the directory is of [default: 1]"))
        .arg(kfactor().requires("hosts").help(
            "How many hosts may be lost without a loss of data: each partition has K + 1 copies \
             [default: 0]",
        ))
        .arg(witnesses().requires("hosts").help(
            "Number of witnesses beside the hosts: 1 where a process `lockstep witness` has a vote \
             [default: 0]",
        ))
        .arg(
            Arg::new("witness")
                .long("witness")
                .action(ArgAction::SetTrue)
                .conflicts_with_all([
                    "sites",
                    "partitions-per-site",
                    "hosts",
                    "kfactor",
                    "witnesses",
                ])
                .help("Make the directory of the witness itself, which has no data"),
        )
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let path = arguments.get_one::<PathBuf>("dir").expect("the argument is required");
    if arguments.get_flag("witness") {
        return make_for_witness(path);
    }
    let sites = arguments.get_one::<u32>("sites").copied().unwrap_or_else(default_sites);
    let each = arguments.get_one::<u32>("partitions-per-site").copied().unwrap_or(1);
    let hosts = arguments.get_one::<u32>("hosts").copied().unwrap_or(1);
    let kfactor = arguments.get_one::<u8>("kfactor").copied().unwrap_or(0);
    let witnesses = arguments.get_one::<u32>("witnesses").copied().unwrap_or(0);
    let options = Options { partitions_per_site: Count(each.into()), ..Options::default() };
    let terms = ClusterTerms { witnesses, ..ClusterTerms::new(hosts, sites, kfactor, &options) };
    let partitions = terms.partition_count()?;
    terms.check_witnesses()?;
    let several = (hosts > 1).then_some(SeveralHosts { hosts, sites, kfactor, witnesses });
    if partitions >= PartitionId::LIMIT {
        return Err(format!(
            "{}{} have {partitions} partitions, and a cluster has {} at most",
            several.map_or(String::new(), |several| format!("{} hosts with ", several.hosts)),
            shape(sites, each),
            PartitionId::LIMIT - 1
        ));
    }
    let made = directory::create(path, partitions, several);
    let made = made.map_err(|error| error.to_string())?;
    let shape = shape(sites, each);
    let (shown, cluster) = (path.display(), made.cluster);
    match several {
        None => println!("lockstep: made {shown} for {shape}, cluster {cluster}"),
        Some(_) => println!(
            "lockstep: made {shown} for one of {hosts} hosts with {shape} each, K = \
             {kfactor},{} directory {cluster}",
            if witnesses > 0 { " a witness," } else { "" }
        ),
    }
    let advice = match each {
        1 => String::new(),
        _ => format!(" --partitions-per-site {each}"),
    };
    let addresses = match several {
        None => "",
        Some(_) => " --internal HOST:PORT --peers HOST:PORT,...",
    };
    println!("lockstep: `lockstep start --dir {shown}{advice}{addresses}` starts the host");
    Ok(ExitCode::SUCCESS)
}

fn make_for_witness(path: &Path) -> Result<ExitCode, String> {
    let made = directory::create_for_witness(path).map_err(|error| error.to_string())?;
    let shown = path.display();
    println!("lockstep: made {shown} for a witness, directory {}", made.cluster);
    println!(
        "lockstep: `lockstep witness --dir {shown} --internal HOST:PORT --peers HOST:PORT,...` \
         starts it"
    );
    Ok(ExitCode::SUCCESS)
}
