//! `lockstep start`: runs a host in the foreground until it is told to stop.

use crate::output::write_out;
use crate::{Procedures, WrapDisk, huge_pages, last_word, recovery};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_node::log::{Data, Durability, directory};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

pub fn command() -> Command {
    Command::new("start")
        .about("Run a host in the foreground; Ctrl-C or SIGTERM stops it in order")
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Directory of the host, made by `lockstep init`; without it, data lives in \
                     memory only",
                ),
        )
        .arg(
            Arg::new("durability")
                .long("durability")
                .value_name("MODE")
                .value_parser(["sync", "async", "none"])
                .requires("dir")
                .help(
                    "When writes are answered: `sync` once they are on disk (the default with \
                     --dir), `async` at once, the log synced at intervals, `none` not logged",
                ),
        )
        .arg(
            Arg::new("json")
                .long("json")
                .action(ArgAction::SetTrue)
                .requires("dir")
                .help("Say what was brought back from the directory as JSON"),
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
            Arg::new("stop-with-input")
                .long("stop-with-input")
                .action(ArgAction::SetTrue)
                .help("Stop when standard input ends, as it does with whoever started the host"),
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

/// Opens the directory that was named, if one was.
fn open_data(arguments: &ArgMatches, wrap_disk: WrapDisk) -> Result<Option<Data>, String> {
    let Some(path) = arguments.get_one::<PathBuf>("dir") else { return Ok(None) };
    let durability = match arguments.get_one::<String>("durability").map(String::as_str) {
        Some("none") => Durability::None,
        Some("async") => Durability::Async,
        _ => Durability::Sync,
    };
    let mut data = directory::open(path, durability).map_err(|error| error.to_string())?;
    data.disk = wrap_disk(data.disk);
    Ok(Some(data))
}

/// What the start line says of the data.
fn said_of_data(data: Option<&Data>) -> String {
    let Some(data) = data else {
        return "data in memory only (nothing survives a stop)".to_string();
    };
    let directory = data.disk.shown("");
    match data.durability {
        Durability::Sync => format!("data in {directory}, durability sync"),
        Durability::Async => {
            format!("data in {directory}, durability async (a crash loses the last moments)")
        }
        Durability::None => {
            format!(
                "data in {directory}, durability none (changes from now on do not survive a stop)"
            )
        }
    }
}

/// Sends this process the signal to stop when its input ends.
fn stop_with_input() {
    std::thread::spawn(|| {
        // What is written there means nothing; an input that cannot be read has ended.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            eprintln!("lockstep: cannot stop: {error}");
        }
    });
}

pub fn run(
    arguments: &ArgMatches,
    procedures: Procedures,
    wrap_disk: WrapDisk,
) -> Result<ExitCode, String> {
    // First of all: the process begins anew.
    huge_pages::take();
    let mut options = Options::default();
    for setting in arguments.get_many::<String>("option").into_iter().flatten() {
        options.set(setting).map_err(|error| error.to_string())?;
    }
    let socket =
        |name: &str| *arguments.get_one::<SocketAddr>(name).expect("the argument has a default");
    let data = open_data(arguments, wrap_disk)?;
    let asked = arguments.get_one::<u32>("sites").copied();
    let made = data.as_ref().map(|data| data.cluster.partition_count);
    let sites = asked.or(made).unwrap_or_else(default_sites);
    let kept = said_of_data(data.as_ref());
    let place = data.as_ref().map(|data| (data.disk.shown(""), data.durability));
    last_word::end_with_panics(place);
    let configuration = ServerConfiguration {
        sites,
        client: socket("client"),
        admin: socket("admin"),
        options,
        natives: natives(procedures),
        pin_to_cores: arguments.get_many("pin").into_iter().flatten().copied().collect(),
        java_options: arguments.get_many("java-option").into_iter().flatten().cloned().collect(),
        data,
    };
    // Before the ready line, so that a signal right behind it is not lost.
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(|error| error.to_string())?;
    let progress = configuration.data.as_ref().map(|data| Arc::clone(&data.progress));
    let line = recovery::ProgressLine::show(progress);
    let started = Server::start(configuration);
    drop(line);
    let server = started.map_err(|error| error.to_string())?;
    // An administrator's @Shutdown ends the host as the signal does.
    server.on_shutdown(|| {
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            eprintln!("lockstep: cannot stop: {error}");
        }
    });
    println!(
        "lockstep: {sites} site{}, {kept}, admin port {}",
        if sites == 1 { "" } else { "s" },
        server.admin_address().port()
    );
    match server.recovery() {
        Some(summary) if arguments.get_flag("json") => println!("{}", recovery::as_json(summary)),
        Some(summary) if summary.entries > 0 || summary.snapshot.is_some() => {
            println!("lockstep: {}", recovery::told(summary))
        }
        _ => {}
    }
    if arguments.get_flag("stop-with-input") {
        stop_with_input();
    }
    println!("lockstep: ready on {}", server.client_address());
    signals.forever().next();
    server.stop().map_err(|error| format!("the host did not stop cleanly: {error}"))?;
    // Whoever waited for the line above may have closed its end since.
    write_out("lockstep: stopped\n")?;
    Ok(ExitCode::SUCCESS)
}
