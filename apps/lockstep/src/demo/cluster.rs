//! `lockstep demo --hosts N`: hosts as processes of this machine, one of which is killed.

use super::view::{View, seconds};
use crate::admin::cluster::{self, Cluster};
use clap::{Arg, ArgAction, ArgMatches, value_parser};
use lockstep_bench::cluster::load::{ClusterLoad, Gap};
use lockstep_bench::cluster::watch::{Watch, read_routing};
use lockstep_bench::cluster::{ClusterProcesses, ClusterShape};
use lockstep_bench::report::grouped;
use lockstep_bench::voter::{self, Form};
use lockstep_client::{ConnectOptions, Connection, Routing};
use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// More processes than that are of no use on one machine.
const HOSTS_MAX: i64 = 9;
/// How often the state of the cluster is read.
const WATCH_INTERVAL: Duration = Duration::from_millis(100);

/// How long calls in flight are waited for at the end.
const FINISH: Duration = Duration::from_secs(10);

/// The options of a demo of several hosts.
pub fn arguments() -> [Arg; 5] {
    let named = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).requires("hosts").help(help)
    };
    [
        Arg::new("hosts")
            .long("hosts")
            .value_name("N")
            .value_parser(value_parser!(u32).range(2..=HOSTS_MAX))
            .help("Start a cluster of N hosts as processes of this machine, and show it"),
        named("kfactor", "K", "How many hosts may be lost without a loss of data")
            .value_parser(value_parser!(u8).range(0..=2))
            .default_value("1"),
        named("kill-after", "S", "Kill a host after this many seconds, as `kill -9` does")
            .value_parser(value_parser!(u64).range(1..=3600)),
        named("rate", "R", "Calls per second")
            .value_parser(value_parser!(u32).range(1..=100_000))
            .default_value("2000"),
        named("option", "NAME=VALUE", "Set an option of the hosts").action(ArgAction::Append),
    ]
}

/// Runs the demo.
///
/// # Errors
/// The hosts do not start, or none of them can be reached any more.
pub fn run(arguments: &ArgMatches, hosts: u32, duration: Duration) -> Result<ExitCode, String> {
    let kfactor = arguments.get_one::<u8>("kfactor").copied().unwrap_or(1);
    let rate = arguments.get_one::<u32>("rate").copied().unwrap_or(2000);
    let kill_after = arguments.get_one::<u64>("kill-after").copied().map(Duration::from_secs);
    let copies = u32::from(kfactor) + 1;
    if kill_after.is_some() && kfactor == 0 {
        return Err("with --kfactor 0 the cluster stops with any of its hosts: a demo with \
                    --kill-after needs --kfactor 1 or 2"
            .to_string());
    }
    let shape = ClusterShape {
        program: std::env::current_exe().map_err(|error| error.to_string())?,
        hosts,
        kfactor,
        sites: 1,
        // As many copies as fit any number of hosts, two partitions led by each.
        partitions_per_site: 2 * copies,
        options: arguments.get_many("option").into_iter().flatten().cloned().collect(),
        cores: Vec::new(),
    };
    println!("Starting {hosts} hosts as processes of this machine, K = {kfactor}.");
    let processes = ClusterProcesses::start(&shape)?;
    for (number, host) in processes.hosts.iter().enumerate() {
        println!("host {number}: process {}, serves {}", host.id(), host.client);
    }
    println!("Voter: {} calls a second, over connections with all hosts.\n", grouped(rate.into()));
    let mut demo = Demo::set_up(processes, hosts as usize * 2, f64::from(rate), duration)?;
    demo.kills_left = kfactor.into();
    demo.run(kill_after, duration)?;
    demo.summary()
}

struct Demo {
    processes: ClusterProcesses,
    load: ClusterLoad,
    watch: Watch<(Cluster, Arc<Routing>)>,
    view: View,
    /// What was shown last.
    known: Option<Arc<(Cluster, Arc<Routing>)>>,
    /// Hosts that may still be lost.
    kills_left: u32,
    /// The longest time without an answer, when the load ended.
    gap: Option<Gap>,
}

impl Demo {
    fn set_up(
        processes: ClusterProcesses,
        partitions: usize,
        rate: f64,
        duration: Duration,
    ) -> Result<Demo, String> {
        let text = |error: lockstep_client::ClientError| error.to_string();
        let addresses = processes.addresses();
        let mut connection =
            Connection::connect(&addresses[0], &ConnectOptions::default()).map_err(text)?;
        voter::set_up(&mut connection, Form::Native).map_err(text)?;
        let routing = Arc::new(read_routing(&mut connection)?);
        let load = ClusterLoad::connect(&addresses, routing, partitions, rate).map_err(text)?;
        let mut epoch = None;
        let mut routing = Arc::new(Routing::default());
        let watch = Watch::start(addresses, WATCH_INTERVAL, move |connection| {
            let cluster = cluster::read(connection)?;
            // It is long; it changes with the epoch only.
            if epoch != Some(cluster.epoch) {
                routing = Arc::new(read_routing(connection)?);
                epoch = Some(cluster.epoch);
            }
            Ok((cluster, Arc::clone(&routing)))
        });
        let view = View::new(partitions, duration);
        Ok(Demo { processes, load, watch, view, known: None, kills_left: 0, gap: None })
    }

    fn run(&mut self, kill_after: Option<Duration>, duration: Duration) -> Result<(), String> {
        let keys = std::io::stdin().is_terminal().then(keys);
        let begun = Instant::now();
        let mut kill_at = kill_after.map(|after| begun + after);
        while begun.elapsed() < duration {
            let may_kill = keys.is_some() && self.kills_left > 0;
            self.view.hint = if may_kill { "Enter kills a host." } else { "" };
            if let Some(host) = self.load.step().map_err(|error| error.to_string())? {
                self.watch.ask(host);
            }
            self.note_changes();
            if keys.as_ref().is_some_and(|keys| keys.try_recv().is_ok()) {
                self.view.key();
                self.kill();
            }
            if kill_at.take_if(|at| Instant::now() >= *at).is_some() {
                self.kill();
            }
            self.view.show(&self.load, self.known.as_ref().map(|known| &known.0));
        }
        self.gap = Some(self.load.longest_gap());
        self.load.finish(FINISH).map_err(|error| error.to_string())
    }

    /// Kills the last host that is up.
    fn kill(&mut self) {
        let alive = self.processes.hosts.iter().rposition(|host| host.is_alive());
        let Some(number) = alive.filter(|_| self.kills_left > 0) else {
            return self.view.event("no further host can be lost without a loss of data");
        };
        self.kills_left -= 1;
        let host = &mut self.processes.hosts[number];
        let id = host.id();
        match host.kill() {
            Ok(()) => self.view.event(&format!("host {number} (process {id}) is killed")),
            Err(error) => self.view.event(&format!("host {number} had ended: {error}")),
        }
    }

    /// Tells what is different from what was known.
    fn note_changes(&mut self) {
        let Some(latest) = self.watch.latest() else { return };
        if self.known.as_ref().is_some_and(|known| Arc::ptr_eq(known, &latest)) {
            return;
        }
        let before = self.known.replace(Arc::clone(&latest));
        self.load.set_routing(Arc::clone(&latest.1));
        let Some(before) = before else { return };
        for (now, then) in latest.0.hosts.iter().zip(&before.0.hosts) {
            if now.state != then.state {
                self.view.event(&format!("host {} is {}", now.id, now.state));
            }
        }
        for (now, then) in latest.0.partitions.iter().zip(&before.0.partitions) {
            if now.leader != then.leader {
                let (id, leader, epoch) = (now.id, now.leader, now.epoch);
                let what = format!("partition {id}: host {leader} leads, epoch {epoch}");
                self.view.event(&what);
            } else if now.followers.len() < then.followers.len() {
                let (id, epoch) = (now.id, now.epoch);
                self.view.event(&format!("partition {id}: a copy less, epoch {epoch}"));
            }
        }
    }

    /// Compares what was acknowledged with what is there.
    fn summary(mut self) -> Result<ExitCode, String> {
        self.view.end();
        let addresses = self.processes.addresses();
        let address = addresses.first().ok_or("all hosts were killed")?;
        let counted = Connection::connect(address, &ConnectOptions::default())
            .and_then(|mut connection| voter::vote_count(&mut connection))
            .map_err(|error| error.to_string())?;
        let (counts, gap) = (self.load.counts(), self.gap);
        let (lost, doubled) = (counts.lost(counted), counts.doubled(counted));
        let latency = self.load.latency_us();
        println!(
            "\ncalls        {} sent, {} answered, {} unknown, {} failed",
            grouped(counts.sent),
            grouped(counts.answered),
            grouped(counts.unknown),
            grouped(counts.failed)
        );
        if let Some(text) = self.load.first_failure() {
            println!("             the first failure: {text}");
        }
        println!(
            "latency      p50 {} us, p99 {} us",
            grouped(latency.value_at_quantile(0.5)),
            grouped(latency.value_at_quantile(0.99))
        );
        if let Some(Gap { partition, lasted }) = gap {
            println!("longest gap  {} without an answer, partition {partition}", seconds(lasted));
        }
        println!(
            "votes        {} acknowledged, {} counted: {lost} lost, {doubled} doubled",
            grouped(counts.acknowledged),
            grouped(counted)
        );
        let is_well = lost == 0 && doubled == 0;
        Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Lines that are typed. The thread ends with the process.
fn keys() -> Receiver<()> {
    let (tell, told) = channel();
    std::thread::spawn(move || {
        let mut line = String::new();
        while std::io::stdin().read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
            if tell.send(()).is_err() {
                return;
            }
        }
    });
    told
}
