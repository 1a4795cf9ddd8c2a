//! `lockstep witness`: runs a witness in the foreground until a signal stops it.

use crate::output::write_out;
use crate::start::{self, await_signal, set_options, warn_of_open_ports};
use crate::{last_word, membership};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_node::log::directory;
use lockstep_node::{Witness, WitnessConfiguration};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub fn command() -> Command {
    Command::new("witness")
        .about(
            "Run a witness in the foreground: the third vote beside two hosts, without data; \
             Ctrl-C or SIGTERM shuts it down cleanly",
        )
        .arg(
            Arg::new("dir")
                .long("dir")
                .value_name("DIR")
                .value_parser(value_parser!(PathBuf))
                .help(
                    "Directory of the witness, made by `lockstep init --witness`: where the hosts \
                     have directories, and only there",
                ),
        )
        .args(membership::addresses(start::resolve).map(|argument| argument.required(true)))
        .arg(start::option())
        .arg(Arg::new("stop-with-input").long("stop-with-input").action(ArgAction::SetTrue).help(
            "Stop when standard input is closed, as when the process that started the witness ends",
        ))
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    // A terminal that goes away does not end the witness.
    let hung_up = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, hung_up).map_err(|error| error.to_string())?;
    let options = set_options(arguments)?;
    let membership = membership::read_witness(arguments, &options)?;
    let data = arguments.get_one::<PathBuf>("dir").map(|path| directory::open_for_witness(path));
    let data = data.transpose().map_err(|error| error.to_string())?;
    let kept = match &data {
        Some(data) => format!("votes in {}", data.disk.shown("")),
        None => "votes in memory only".to_string(),
    };
    let shape = format!("witness of {} hosts", membership.terms.hosts);
    last_word::end_with_panics(
        "witness",
        "It has no data. Start it again with the same command.".to_string(),
    );
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| error.to_string())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the witness starts: {shape}, {kept}");
    let stops = await_signal(signals, "witness");
    let configuration = WitnessConfiguration { membership, options, data };
    // On a thread of its own: the system gives signals to the main thread first.
    let started = std::thread::spawn(move || Witness::start(configuration)).join();
    let witness = started.map_err(|_| "the thread that starts the witness panicked".to_string())?;
    let witness = witness.map_err(|error| error.to_string())?;
    stops.serves.store(true, Ordering::Release);
    witness.on_end(|| {
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            eprintln!("lockstep: cannot stop: {error}");
        }
    });
    write_out(&format!("lockstep: {shape}, {kept}\n"))?;
    if arguments.get_flag("stop-with-input") {
        start::stop_with_input();
    }
    let address = witness.address();
    warn_of_open_ports(&[("internal", Some(address))]);
    tracing::info!(%address, "the witness is ready");
    write_out(&format!("lockstep: ready on {address}\n"))?;
    // The thread that waits for signals ends with the process.
    let _ = stops.receiver.recv();
    tracing::info!("the witness stops");
    let stopped = witness.stop();
    stopped.map_err(|error| format!("the witness did not stop cleanly: {error}"))?;
    tracing::info!("the witness has stopped");
    write_out("lockstep: stopped\n")?;
    Ok(ExitCode::SUCCESS)
}
