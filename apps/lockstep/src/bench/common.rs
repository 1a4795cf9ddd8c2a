//! What all workloads have in common: where, how fast, for how long, and what is shown.

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgGroup, ArgMatches, Command, value_parser};
use lockstep_bench::cluster::{ClusterProcesses, ClusterShape};
use lockstep_bench::process::ServerProcess;
use lockstep_bench::run::ramp::Ramp;
use lockstep_bench::run::workers::{MAX_WORKERS, WorkerOptions, Workers};
use lockstep_bench::run::{Pace, RunOptions};
use lockstep_node::links::KFACTOR_MAX;
use lockstep_workloads::{Form, Workload};
use serde_json::{Map, Value, json};
use std::path::PathBuf;
use std::time::Duration;

/// The most hosts that are started on one machine.
const HOSTS_MAX: u32 = 16;
/// Hosts share this machine's cores with each other and with the load: none is suspected because
/// another one uses its core. Options that are given overrule these.
const PATIENT: [&str; 3] = ["heartbeat_interval_ms=100", "suspect_after_ms=3000", "lease_ms=2000"];

/// Adds the arguments that all workloads take.
pub fn with_common(command: Command) -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    command
        .arg(servers())
        .arg(flag("embedded", "No sockets: one site inside this process, called on one thread"))
        .arg(
            Arg::new("start")
                .long("start")
                .value_name("SITES")
                .value_parser(value_parser!(u32).range(1..=1024))
                .help("Start hosts with N sites each on this machine, for this run"),
        )
        .args(cluster_arguments())
        .group(ArgGroup::new("target").args(["servers", "embedded", "start"]).required(true))
        .arg(number("connections", "C", "8", "Connections"))
        .arg(number("clients", "N", "64", "Clients over the connections, one call in flight each"))
        .arg(rate("rate", "Transactions per second, due at even intervals [default: closed loop]"))
        .arg(rate("ramp", "Raise the rate by this much, step by step, until it is too much"))
        .arg(rate("ramp-from", "The ramp's first rate [default: that of a step]"))
        .arg(
            number(
                "ramp-p99-ms",
                "MS",
                "100",
                "A step whose 99th percentile is greater is no good",
            )
            .requires("ramp"),
        )
        .group(ArgGroup::new("paced").args(["rate", "ramp"]))
        .arg(
            number("burst", "N", "1", "Of a rate or ramp, transactions that are due at once")
                .requires("paced"),
        )
        .arg(seconds("duration", "15", "Measured time in seconds; of a ramp, that of each step"))
        .arg(seconds("warmup", "2", "Time before the measured time in seconds"))
        .arg(
            Arg::new("workers")
                .long("workers")
                .value_name("N|HOST:PORT,...")
                .value_parser(workers)
                .conflicts_with("embedded")
                .help("Load from N processes, or from `lockstep bench worker` elsewhere"),
        )
        .arg(
            number("clock-limit-ms", "MS", "10", "Warn of workers' clocks that are further apart")
                .requires("workers"),
        )
        .arg(
            flag("check-only", "Make no calls: hold what is there to the checks")
                .conflicts_with("embedded"),
        )
        .arg(flag("no-load", "Use the rows that are there; fail where there are none"))
        .arg(
            Arg::new("seed")
                .long("seed")
                .value_name("N")
                .value_parser(value_parser!(u64))
                .default_value("1")
                .help("What the calls follow from"),
        )
        .args(outputs())
}

fn servers() -> Arg {
    Arg::new("servers")
        .long("servers")
        .value_name("HOST:PORT,...")
        .value_delimiter(',')
        .action(ArgAction::Append)
        .help(
            "Hosts; connections are spread over them, and calls go to the host that leads their \
             partition",
        )
}

/// Where the result goes beside the table.
pub fn outputs() -> [Arg; 3] {
    let file = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).value_parser(value_parser!(PathBuf)).help(help)
    };
    [
        file("json", "FILE", "Write the result as JSON"),
        file("plot", "SVG", "Draw the charts into a file, one below the other"),
        file("report", "HTML", "Write a page with charts, options and machine, whole in itself"),
    ]
}

fn rate(name: &'static str, help: &'static str) -> Arg {
    let parse = |text: &str| match text.parse::<f64>() {
        Ok(rate) if rate > 0.0 && rate <= 1e9 => Ok(rate),
        _ => Err("a number of transactions per second".to_string()),
    };
    let argument = Arg::new(name).long(name).value_name("R").value_parser(parse).help(help);
    match name {
        // What conflicts with what is required would be let through.
        "ramp-from" => argument.requires("ramp").conflicts_with("embedded"),
        "ramp" => argument.conflicts_with_all(["rate", "embedded"]),
        _ => argument.conflicts_with("embedded"),
    }
}

/// An argument that is a number from 1.
pub fn number(
    name: &'static str,
    value: &'static str,
    default: &'static str,
    help: &'static str,
) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name(value)
        .value_parser(value_parser!(u32).range(1..=100_000_000))
        .default_value(default)
        .help(help)
}

/// An argument that is a time.
pub fn seconds(name: &'static str, default: &'static str, help: &'static str) -> Arg {
    let parse = |text: &str| match text.parse::<f64>() {
        Ok(seconds) if (0.0..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("a number of seconds from 0 to 86400".to_string()),
    };
    Arg::new(name).long(name).value_name("S").value_parser(parse).default_value(default).help(help)
}

/// Arguments of what is started: how many hosts, with which K.
fn cluster_arguments() -> [Arg; 2] {
    let hosts = number("start-hosts", "N", "1", "Hosts that are started")
        .value_parser(value_parser!(u32).range(1..=i64::from(HOSTS_MAX)));
    let kfactor = number("kfactor", "K", "0", "Copies of each partition beside its leader")
        .value_parser(value_parser!(u32).range(0..=i64::from(KFACTOR_MAX)));
    [hosts, kfactor].map(|argument| argument.conflicts_with_all(["servers", "embedded"]))
}

/// Hosts that were started for a run, on free ports of this machine; they end when this is dropped.
pub enum StartedHosts {
    /// One host.
    One(ServerProcess),
    /// A cluster.
    Several(ClusterProcesses),
}

/// What to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostsToStart {
    /// Hosts.
    pub hosts: u64,
    /// Copies of each partition beside its leader.
    pub kfactor: u64,
    /// Sites of each host.
    pub sites: u64,
}

impl HostsToStart {
    /// As many as the command line has, of `sites` each.
    pub fn of(arguments: &ArgMatches, sites: u64) -> HostsToStart {
        let (hosts, kfactor) = (count(arguments, "start-hosts"), count(arguments, "kfactor"));
        HostsToStart { hosts, kfactor, sites }
    }

    /// Whether there can be such hosts.
    ///
    /// # Errors
    /// There are too few for the copies.
    pub fn check(&self) -> Result<(), String> {
        let HostsToStart { hosts, kfactor, .. } = self;
        match *kfactor < *hosts && *hosts <= u64::from(HOSTS_MAX) {
            true if *kfactor <= u64::from(KFACTOR_MAX) => Ok(()),
            true => Err(format!("k {kfactor} cannot be run: it is 0 to {KFACTOR_MAX}")),
            false if *hosts == 0 || *hosts > u64::from(HOSTS_MAX) => {
                Err(format!("hosts {hosts} cannot be run: there are 1 to {HOSTS_MAX}"))
            }
            false => Err(format!(
                "hosts {hosts} with k {kfactor} cannot be run: a partition has its leader and \
                 {kfactor} copies on different hosts, which takes {} hosts",
                kfactor + 1
            )),
        }
    }

    /// Starts them.
    ///
    /// # Errors
    /// As of [`HostsToStart::check`], or they do not become ready.
    pub fn start<'o>(
        &self,
        options: impl Iterator<Item = &'o String>,
    ) -> Result<StartedHosts, String> {
        self.check()?;
        if self.hosts == 1 {
            return start_host(self.sites, options).map(StartedHosts::One);
        }
        let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
        let defaults = if self.kfactor > 0 { &PATIENT[..] } else { &[] };
        let mut all: Vec<String> = defaults.iter().map(|option| (*option).to_string()).collect();
        all.extend(options.cloned());
        let shape = ClusterShape {
            program: std::env::current_exe().map_err(|error| error.to_string())?,
            hosts: small(self.hosts),
            kfactor: self.kfactor.to_le_bytes()[0],
            sites: small(self.sites),
            // As many partitions as sites, whatever K is.
            partitions_per_site: small(self.kfactor + 1),
            options: all,
            cores: Vec::new(),
        };
        ClusterProcesses::start(&shape).map(StartedHosts::Several)
    }
}

impl StartedHosts {
    /// Where clients connect.
    pub fn addresses(&self) -> Vec<String> {
        match self {
            StartedHosts::One(host) => vec![host.address.to_string()],
            StartedHosts::Several(hosts) => hosts.addresses(),
        }
    }

    /// The most resident memory that they ever had together, in bytes; `None` if one is gone.
    pub fn peak_resident_bytes(&self) -> Option<u64> {
        match self {
            StartedHosts::One(host) => host.peak_resident_bytes().ok(),
            StartedHosts::Several(hosts) => {
                hosts.hosts.iter().map(|host| host.peak_resident_bytes().ok()).sum()
            }
        }
    }
}

/// Starts a host of this binary on free ports of this machine; it ends with this process.
///
/// # Errors
/// It does not become ready.
fn start_host<'o>(
    sites: u64,
    options: impl Iterator<Item = &'o String>,
) -> Result<ServerProcess, String> {
    const FREE: &str = "127.0.0.1:0";
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut command = std::process::Command::new(program);
    command.args(["start", "--stop-with-input", "--client", FREE, "--admin", FREE]);
    command.args(["--sites", &sites.to_string()]);
    for option in options {
        command.args(["--option", option]);
    }
    ServerProcess::start_on_leash(command).map_err(|error| format!("a host: {error}"))
}

/// The value of a number argument.
pub fn count(arguments: &ArgMatches, name: &str) -> u64 {
    arguments.get_one::<u32>(name).map_or(1, |number| u64::from(*number))
}

/// Arguments that choose what procedures are in; `forms` are the possible ones, the default first.
pub fn procedures(forms: &[&'static str], help: &'static str) -> [Arg; 2] {
    let own = Arg::new("procedures")
        .long("procedures")
        .value_parser(clap::builder::PossibleValuesParser::new(forms.to_vec()))
        .default_value(forms.first().copied().unwrap_or_default())
        .help(help);
    let jar =
        Arg::new("jar").long("jar").value_name("FILE").value_parser(value_parser!(PathBuf)).help(
            "Procedures in Java of another jar, classes of the same names [default: our own]",
        );
    [own, jar]
}

/// What procedures are to be in.
///
/// # Errors
/// The jar cannot be read, or nothing is taken from it.
pub fn form(arguments: &ArgMatches) -> Result<Form, String> {
    let jar = arguments.get_one::<PathBuf>("jar");
    match (arguments.get_one::<String>("procedures").map(String::as_str), jar) {
        (Some("java"), None) => Ok(Form::Java(lockstep_bench::java::workloads_jar().into())),
        (Some("java"), Some(file)) => {
            let jar =
                std::fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
            Ok(Form::Java(jar.into()))
        }
        (_, Some(_)) => Err("--jar is for --procedures java".to_string()),
        (Some("sql"), None) => Ok(Form::Sql),
        (_, None) => Ok(Form::Native),
    }
}

/// What the command line says of how to run.
pub fn run_options(name: &str, arguments: &ArgMatches) -> RunOptions {
    let time = |name: &str| {
        Duration::from_secs_f64(arguments.get_one::<f64>(name).copied().unwrap_or(0.0))
    };
    let rate = |name: &str| arguments.get_one::<f64>(name).copied();
    let pace = match (rate("rate"), rate("ramp")) {
        (Some(rate), _) => Pace::Rate(rate),
        (None, Some(step_per_s)) => Pace::Ramp(Ramp {
            first_per_s: rate("ramp-from").unwrap_or(step_per_s),
            step_per_s,
            p99_limit: Duration::from_millis(count(arguments, "ramp-p99-ms")),
        }),
        (None, None) => Pace::Closed,
    };
    let connections = count(arguments, "connections") as usize;
    RunOptions {
        servers: arguments.get_many("servers").into_iter().flatten().cloned().collect(),
        connections,
        clients: clients(arguments, connections),
        pace,
        burst: count(arguments, "burst"),
        duration: time("duration"),
        warmup: time("warmup"),
        seed: arguments.get_one::<u64>("seed").copied().unwrap_or(1),
        no_load: arguments.get_flag("no-load"),
        workers: worker_options(name, arguments),
        keep_calls_of: None,
    }
}

/// Clients as they are named, or by the calls in flight on each connection.
fn clients(arguments: &ArgMatches, connections: usize) -> usize {
    match (arguments.get_one::<u32>("clients"), arguments.try_get_one::<u32>("pipeline")) {
        (None, Ok(Some(pipeline))) => connections.saturating_mul(*pipeline as usize),
        _ => count(arguments, "clients") as usize,
    }
}

fn workers(text: &str) -> Result<Workers, String> {
    let count = match text.parse::<usize>() {
        Ok(count) => count,
        Err(_) => text.split(',').count(),
    };
    if !(1..=MAX_WORKERS).contains(&count) {
        return Err(format!("there may be 1 to {MAX_WORKERS} workers"));
    }
    if text.parse::<usize>().is_ok() {
        return Ok(Workers::Started(count));
    }
    match text.split(',').find(|address| !address.contains(':')) {
        Some(wrong) => Err(format!("a number, or addresses of workers; {wrong} has no port")),
        None => Ok(Workers::At(text.split(',').map(str::to_string).collect())),
    }
}

/// Where the load runs, and of what command line workers make the workload.
fn worker_options(name: &str, arguments: &ArgMatches) -> WorkerOptions {
    // The one that begins the run loads the classes.
    const OWN: [&str; 10] = [
        "workers",
        "clock-limit-ms",
        "servers",
        "start",
        "start-hosts",
        "kfactor",
        "json",
        "plot",
        "report",
        "jar",
    ];
    let mut line = vec!["bench".to_string(), name.to_string()];
    // Workers are told the servers apart; their command line needs some.
    line.extend(["--servers".to_string(), "named:1".to_string()]);
    line.extend(command_line(arguments, &OWN));
    WorkerOptions {
        workers: arguments.get_one::<Workers>("workers").cloned().unwrap_or_default(),
        arguments: line,
        clock_limit: Duration::from_millis(count(arguments, "clock-limit-ms")),
    }
}

/// The arguments that stood on the command line, but for some.
pub fn command_line(arguments: &ArgMatches, but: &[&str]) -> Vec<String> {
    // These name groups, not arguments.
    const GROUPS: [&str; 2] = ["target", "paced"];
    let mut line = Vec::new();
    let given = |id: &&clap::Id| {
        let id = id.as_str();
        arguments.value_source(id) == Some(ValueSource::CommandLine)
            && !but.contains(&id)
            && !GROUPS.contains(&id)
    };
    for id in arguments.ids().filter(given) {
        // A flag's value is no text of the command line.
        if let Ok(Some(true)) = arguments.try_get_one::<bool>(id.as_str()) {
            line.push(format!("--{id}"));
            continue;
        }
        for value in arguments.get_raw(id.as_str()).into_iter().flatten() {
            line.extend([format!("--{id}"), value.to_string_lossy().into_owned()]);
        }
    }
    line
}

/// All options of a run, for its JSON and its page.
pub fn options_json(workload: &dyn Workload, options: &RunOptions) -> Value {
    let own = workload.options();
    let own: Map<String, Value> =
        own.into_iter().map(|(name, value)| (name.to_string(), Value::String(value))).collect();
    let (rate, ramp) = match &options.pace {
        Pace::Closed => (None, None),
        Pace::Rate(rate) => (Some(*rate), None),
        Pace::Ramp(ramp) => (None, Some(ramp)),
    };
    json!({
        "workload": workload.name(),
        "workload_options": own,
        "servers": options.servers,
        "embedded": options.servers.is_empty(),
        "connections": options.connections,
        "clients": options.clients,
        "rate_per_s": rate,
        "ramp": ramp.map(|ramp| json!({
            "first_per_s": ramp.first_per_s, "step_per_s": ramp.step_per_s,
            "p99_limit_ms": ramp.p99_limit.as_millis() as u64,
        })),
        "burst": options.burst,
        "workers": match &options.workers.workers {
            Workers::Own => Value::Null,
            Workers::Started(count) => json!(count),
            Workers::At(addresses) => json!(addresses),
        },
        "duration_s": options.duration.as_secs_f64(),
        "warmup_s": options.warmup.as_secs_f64(),
        "seed": options.seed,
    })
}
