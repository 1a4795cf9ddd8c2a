//! `lockstep bench worker`: drives a share of a load for a `lockstep bench` elsewhere.

use super::{build, command as bench};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::run::workers::serve::serve;
use lockstep_workloads::Workload;
use std::net::{SocketAddr, TcpListener};
use std::process::ExitCode;

/// Its command line.
pub fn command() -> Command {
    Command::new("worker")
        .about("Wait for a `lockstep bench ... --workers` elsewhere, and make a share of its load")
        .arg(
            Arg::new("listen")
                .long("listen")
                .value_name("ADDRESS:PORT")
                .value_parser(value_parser!(SocketAddr))
                .required(true)
                .help("Where it listens; every process that can connect there can start load"),
        )
        .arg(
            Arg::new("leash")
                .long("leash")
                .action(ArgAction::SetTrue)
                .help("End after the first run, or when standard input ends"),
        )
}

/// Serves until it is ended.
///
/// # Errors
/// It cannot listen.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let address = *arguments.get_one::<SocketAddr>("listen").ok_or("--listen is needed")?;
    let leash = arguments.get_flag("leash");
    let listener = TcpListener::bind(address).map_err(|error| format!("{address}: {error}"))?;
    let address = listener.local_addr().map_err(|error| error.to_string())?;
    if leash {
        std::thread::spawn(|| {
            // The one that holds the other end has ended, and with it the run.
            let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
            std::process::exit(0);
        });
    }
    println!("lockstep: worker ready on {address}");
    serve(&listener, leash, &prepared)?;
    Ok(ExitCode::SUCCESS)
}

/// The workload of a coordinator's command line.
fn prepared(line: &[String]) -> Result<Box<dyn Workload>, String> {
    let matches = bench().try_get_matches_from(line).map_err(|error| error.to_string())?;
    let (name, arguments) = matches.subcommand().ok_or("no workload is named")?;
    match name {
        "scale" | "worker" => Err(format!("{name} is no workload")),
        name => Ok(build(name, arguments)?.0),
    }
}
