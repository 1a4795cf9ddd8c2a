//! `lockstep start`: runs a host in the foreground until it is told to stop.

use crate::Procedures;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;

pub fn command() -> Command {
    Command::new("start")
        .about("Run a host in the foreground; Ctrl-C or SIGTERM stops it in order")
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help("Directory of the host; nothing is kept there yet, data lives in memory"),
        )
        .arg(
            Arg::new("sites")
                .long("sites")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..=1024))
                .help("Number of sites, each a thread with a partition [default: the cores]"),
        )
        .arg(address("client", "127.0.0.1:21212", "Where clients connect; port 0 takes a free one"))
        .arg(address("admin", "127.0.0.1:21211", "Where administrators connect"))
        .arg(
            Arg::new("option")
                .long("option")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .help("Set a limit or option; `lockstep help options` lists them"),
        )
        .arg(
            Arg::new("java-option")
                .long("java-option")
                .value_name("OPTION")
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .help("An option for the JVM of Java procedures, such as -Xlog:gc"),
        )
        .arg(
            Arg::new("pin")
                .long("pin")
                .value_name("CORES")
                .value_delimiter(',')
                .value_parser(value_parser!(usize))
                .help("Cores to pin the sites to, in order, separated by commas"),
        )
}

fn address(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("ADDRESS:PORT")
        .default_value(default)
        .value_parser(value_parser!(SocketAddr))
        .help(help)
}

/// The procedures of a binary, for a host.
pub fn natives(procedures: Procedures) -> NativeRegistry {
    let mut natives = NativeRegistry::default();
    for procedure in procedures() {
        natives.register(procedure);
    }
    natives
}

/// The sites of a host that was not told: one a core.
pub fn default_sites() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32)
}

pub fn run(arguments: &ArgMatches, procedures: Procedures) -> Result<ExitCode, String> {
    let mut options = Options::default();
    for setting in arguments.get_many::<String>("option").into_iter().flatten() {
        options.set(setting).map_err(|error| error.to_string())?;
    }
    let socket =
        |name: &str| *arguments.get_one::<SocketAddr>(name).expect("the argument has a default");
    let sites = arguments.get_one::<u32>("sites").copied().unwrap_or_else(default_sites);
    let configuration = ServerConfiguration {
        sites,
        client: socket("client"),
        admin: socket("admin"),
        options,
        natives: natives(procedures),
        pin_to_cores: arguments.get_many("pin").into_iter().flatten().copied().collect(),
        java_options: arguments.get_many("java-option").into_iter().flatten().cloned().collect(),
    };
    // Before the ready line, so that a signal right behind it is not lost.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let server = Server::start(configuration).map_err(|error| error.to_string())?;
    // An administrator's @Shutdown ends the host as the signal does.
    server.on_shutdown(|| {
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            eprintln!("lockstep: cannot stop: {error}");
        }
    });
    println!(
        "lockstep: {sites} site{}, data in memory only (nothing survives a stop), admin port {}",
        if sites == 1 { "" } else { "s" },
        server.admin_address().port()
    );
    println!("lockstep: ready on {}", server.client_address());
    signals.forever().next();
    server.stop().map_err(|error| format!("the host did not stop cleanly: {error}"))?;
    println!("lockstep: stopped");
    Ok(ExitCode::SUCCESS)
}
