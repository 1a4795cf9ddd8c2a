//! `lockstep start`: runs a host in the foreground until it is stopped.

use crate::output::write_out;
use crate::{ChangeFilter, Procedures, WrapDisk, huge_pages, last_word, membership, recovery};
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_node::log::{Data, Durability, directory};
use lockstep_node::options::{Count, MAX_PARTITIONS_PER_SITE, Options};
use lockstep_node::{
    MAX_SITES, NativeRegistry, Server, ServerConfiguration, TestSettings, prepare_allocator,
};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Once};

/// As much as the main thread has.
const START_STACK_BYTES: usize = 8 << 20;

pub fn command() -> Command {
    Command::new("start")
        .about("Run a host in the foreground; Ctrl-C or SIGTERM shuts it down cleanly")
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
                .help("Report what was recovered from the directory as JSON"),
        )
        .arg(sites())
        .arg(partitions_per_site())
        .args(membership::arguments())
        .args(membership::addresses(resolve))
        .arg(address("client", "127.0.0.1:21212", "Where clients connect; port 0 takes a free one"))
        .arg(address("admin", "127.0.0.1:21211", "Where administrators connect"))
        .arg(option())
        .arg(
            Arg::new("java-option")
                .long("java-option")
                .value_name("OPTION")
                .action(ArgAction::Append)
                .allow_hyphen_values(true)
                .help("An option for the JVM of Java procedures, such as -Xlog:gc"),
        )
        .arg(Arg::new("stop-with-input").long("stop-with-input").action(ArgAction::SetTrue).help(
            "Stop when standard input is closed, as when the process that started the host ends",
        ))
        .arg(
            Arg::new("pin")
                .long("pin")
                .value_name("CORES")
                .value_delimiter(',')
                .value_parser(value_parser!(usize))
                .help("Cores to pin the sites to, in order, separated by commas"),
        )
}

/// A limit or option that is set.
pub fn option() -> Arg {
    Arg::new("option")
        .long("option")
        .value_name("NAME=VALUE")
        .action(ArgAction::Append)
        .help("Set a limit or option; `lockstep help options` lists them")
}

fn address(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("HOST:PORT")
        .default_value(default)
        .value_parser(resolve)
        .help(help)
}

/// The socket address of `HOST:PORT`, where the host is an address or a name. A name that has
/// several stands for the first one of IPv4, which all clients can connect to.
pub fn resolve(given: &str) -> Result<SocketAddr, String> {
    let found = given.to_socket_addrs().map_err(|error| {
        format!("it is not the address or the name of this machine, `:` and a port: {error}")
    })?;
    let found: Vec<SocketAddr> = found.collect();
    let first = found.iter().find(|address| address.is_ipv4()).or(found.first());
    first.copied().ok_or_else(|| "the name has no address".to_string())
}

/// Warns of ports that other machines reach: there are no users yet.
pub fn warn_of_open_ports(ports: &[(&str, Option<SocketAddr>)]) {
    for (port, address) in ports {
        let Some(address) = address else { continue };
        if !address.ip().is_loopback() {
            tracing::warn!(
                "the {port} port listens at {address}, which is not a loopback address. This \
                 release has no users and checks no passwords: anyone who reaches it may read, \
                 change and delete everything. Let only trusted machines reach it."
            );
        }
    }
}

/// The procedures of a binary, for a host.
pub fn natives(procedures: Procedures) -> NativeRegistry {
    let mut natives = NativeRegistry::default();
    for procedure in procedures() {
        natives.register(procedure);
    }
    natives
}

/// How many sites a host has.
pub fn sites() -> Arg {
    Arg::new("sites")
        .long("sites")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..=i64::from(MAX_SITES)))
        .help("Number of sites, which are threads that serve partitions [default: the cores]")
}

/// How many partitions each site serves.
pub fn partitions_per_site() -> Arg {
    Arg::new("partitions-per-site")
        .long("partitions-per-site")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..=MAX_PARTITIONS_PER_SITE as i64))
        .help("Partitions of each site [default: the option partitions_per_site, which is 1]")
}

/// The sites that were asked for, else as many as serve the partitions of the directory. A number
/// that does not divide those is refused later, with what to do about it.
fn site_count(arguments: &ArgMatches, data: Option<&Data>, partitions_per_site: u32) -> u32 {
    let asked = arguments.get_one::<u32>("sites").copied();
    let made = data.map(|data| match data.cluster.several {
        Some(several) => several.sites,
        None => (data.cluster.partition_count / partitions_per_site).max(1),
    });
    asked.or(made).unwrap_or_else(default_sites)
}

/// How many sites there are and what they serve, in words.
pub fn shape(sites: u32, partitions_per_site: u32) -> String {
    match (sites, partitions_per_site) {
        (1, 1) => "1 site".to_string(),
        (_, 1) => format!("{sites} sites"),
        (1, each) => format!("1 site with {each} partitions"),
        (_, each) => format!("{sites} sites with {each} partitions each"),
    }
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

/// Why a host that serves, or a witness, stops.
pub enum Stop {
    /// A signal or an administrator wants it.
    Asked,
    /// The other hosts have put it out: it begins again and joins them.
    PutOut,
}

/// How the threads of this process tell that the host is to stop.
pub struct Stops {
    /// Set while the host serves.
    pub serves: Arc<AtomicBool>,
    sender: Sender<Stop>,
    pub receiver: Receiver<Stop>,
}

/// Waits for a signal on a thread of its own. One that comes before the host serves ends the
/// process at once: a start may take long, or hang on a disk that does not answer.
pub fn await_signal(mut signals: Signals, role: &'static str) -> Stops {
    let serves = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = channel();
    let stops = Stops { serves: Arc::clone(&serves), sender: sender.clone(), receiver };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if signal == SIGHUP {
                tracing::info!("SIGHUP: the {role} goes on; SIGTERM stops it");
                continue;
            }
            if !serves.load(Ordering::Acquire) {
                eprintln!("lockstep: stopped before the {role} was ready");
                std::process::exit(1);
            }
            // The host stops already.
            let _ = sender.send(Stop::Asked);
        }
    });
    stops
}

/// Starts the host on a thread of its own. The system gives signals to the main thread first, and
/// one that waits for a disk takes none.
fn start_beside(configuration: ServerConfiguration) -> Result<Server, String> {
    let builder = std::thread::Builder::new().name("start".to_string());
    let builder = builder.stack_size(START_STACK_BYTES);
    let thread = builder.spawn(move || Server::start(configuration));
    let thread = thread.map_err(|error| format!("the system gives no thread: {error}"))?;
    match thread.join() {
        Ok(started) => started.map_err(|error| error.to_string()),
        Err(_) => Err("the thread that starts the host panicked".to_string()),
    }
}

/// Sends this process the signal to stop when its input ends.
pub fn stop_with_input() {
    static BEGUN: Once = Once::new();
    let watch = || {
        // What is written there means nothing; an input that cannot be read has ended.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            eprintln!("lockstep: cannot stop: {error}");
        }
    };
    // A host that begins again watches it already.
    BEGUN.call_once(|| drop(std::thread::spawn(watch)));
}

/// The options that were set by `--option`.
pub fn set_options(arguments: &ArgMatches) -> Result<Options, String> {
    let mut options = Options::default();
    for setting in arguments.get_many::<String>("option").into_iter().flatten() {
        options.set(setting).map_err(|error| error.to_string())?;
    }
    Ok(options)
}

/// The options that were set.
fn options(arguments: &ArgMatches) -> Result<Options, String> {
    let mut options = set_options(arguments)?;
    if let Some(partitions) = arguments.get_one::<u32>("partitions-per-site") {
        options.partitions_per_site = Count(u64::from(*partitions));
    }
    Ok(options)
}

/// Prints what was brought back from the directory.
fn report_recovery(server: &Server, json: bool) {
    match server.recovery() {
        Some(summary) if json => println!("{}", recovery::as_json(summary)),
        Some(summary) if summary.entries > 0 || summary.snapshot.is_some() => {
            println!("lockstep: {}", recovery::describe(summary))
        }
        _ => {}
    }
}

pub fn run(
    arguments: &ArgMatches,
    procedures: Procedures,
    wrap_disk: WrapDisk,
    change_filter: ChangeFilter,
) -> Result<ExitCode, String> {
    // First of all: the process begins again.
    huge_pages::take();
    // A terminal that goes away does not end the host; from here on, not before it is ready either.
    let hung_up = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(SIGHUP, hung_up).map_err(|error| error.to_string())?;
    let options = options(arguments)?;
    let socket =
        |name: &str| *arguments.get_one::<SocketAddr>(name).expect("the argument has a default");
    let data = open_data(arguments, wrap_disk)?;
    let each_has = options.partitions_per_site.to_u32();
    let sites = site_count(arguments, data.as_ref(), each_has);
    let kept = said_of_data(data.as_ref());
    let made = data.as_ref().and_then(|data| data.cluster.several);
    let cluster = membership::read(arguments, sites, &options, made)?;
    let shape = membership::shown(cluster.as_ref(), shape(sites, each_has));
    let directory = data.as_ref().map(|data| (data.disk.shown(""), data.durability));
    last_word::end_with_panics("host", last_word::remedy_of_host(directory));
    let configuration = ServerConfiguration {
        sites,
        for_tests: TestSettings::default(),
        client: socket("client"),
        admin: socket("admin"),
        options,
        natives: natives(procedures),
        pin_to_cores: arguments.get_many("pin").into_iter().flatten().copied().collect(),
        java_options: arguments.get_many("java-option").into_iter().flatten().cloned().collect(),
        data,
        cluster,
    };
    // Before there are other threads.
    prepare_allocator(&configuration.options, sites).map_err(|error| error.to_string())?;
    // Before the ready line, so that a signal directly after it is not lost.
    let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|error| error.to_string())?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "the host starts: {shape}, {kept}");
    let stops = await_signal(signals, "host");
    let mut configuration = configuration;
    let (json, ends_with_input) =
        (arguments.get_flag("json"), arguments.get_flag("stop-with-input"));
    let said = Said { shape, kept, json, ends_with_input };
    while let Stop::PutOut = serve(&mut configuration, &said, &stops, &change_filter)? {
        write_out("lockstep: the other hosts go on without this one: it begins again\n")?;
    }
    tracing::info!("the host has stopped");
    // The one that waited for the line above may have closed its end since.
    write_out("lockstep: stopped\n")?;
    Ok(ExitCode::SUCCESS)
}

/// What the lines at a start say.
struct Said {
    shape: String,
    kept: String,
    json: bool,
    /// The host stops when its input ends.
    ends_with_input: bool,
}

/// Runs the host until it stops. Where it is to begin again, the configuration is that of a host
/// that joins its cluster, with the ports that it has. Its directory stays locked meanwhile.
fn serve(
    configuration: &mut ServerConfiguration,
    said: &Said,
    stops: &Stops,
    change_filter: &ChangeFilter,
) -> Result<Stop, String> {
    let progress = configuration.data.as_ref().map(|data| Arc::clone(&data.progress));
    let line = recovery::ProgressLine::show(progress);
    let started = start_beside(configuration.clone());
    drop(line);
    let server = started?;
    stops.serves.store(true, Ordering::Release);
    // An administrator's @Shutdown ends the host as the signal does.
    server.on_shutdown(|| {
        if let Err(error) = signal_hook::low_level::raise(SIGTERM) {
            eprintln!("lockstep: cannot stop: {error}");
        }
    });
    let sender = stops.sender.clone();
    // The host stops already.
    server.on_put_out(move || drop(sender.send(Stop::PutOut)));
    let change_filter = Arc::clone(change_filter);
    server.on_log_filter(move |filter| change_filter(filter));
    let admin_port = server.admin_address().port();
    write_out(&format!("lockstep: {}, {}, admin port {admin_port}\n", said.shape, said.kept))?;
    report_recovery(&server, said.json);
    if said.ends_with_input {
        stop_with_input();
    }
    warn_of_open_ports(&[
        ("client", Some(server.client_address())),
        ("admin", Some(server.admin_address())),
        ("internal", server.internal_address()),
    ]);
    let (client, admin) = (server.client_address(), server.admin_address());
    tracing::info!(%client, %admin, "the host is ready");
    // The reader of this line may have closed its end when the host begins again.
    write_out(&format!("lockstep: ready on {client}\n"))?;
    // The thread that waits for signals ends with the process.
    let stop = stops.receiver.recv().unwrap_or(Stop::Asked);
    let is_asked = matches!(stop, Stop::Asked);
    // A signal ends the process while the host begins again.
    stops.serves.store(is_asked, Ordering::Release);
    tracing::info!("the host stops");
    let stopped = server.stop().map_err(|error| format!("the host did not stop cleanly: {error}"));
    if let Some(cluster) = configuration.cluster.as_mut().filter(|_| !is_asked) {
        cluster.rejoins = true;
        (configuration.client, configuration.admin) = (client, admin);
        stopped.unwrap_or_else(|problem| tracing::error!("{problem}"));
        return Ok(stop);
    }
    stopped.map(|()| stop)
}
