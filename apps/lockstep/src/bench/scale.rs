//! `lockstep bench scale`: a workload over a list of values of something, or over all combinations
//! of several lists; on hosts that it starts itself, or on those that are named.

use super::common::{
    HostsToStart, StartedHosts, command_line, count, number, options_json, run_options,
};
use super::shown::{ProgressLine, option_rows, stop_flag, text_of, write_outputs};
use super::{build, workload_commands};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use lockstep_bench::run::study::{Repeat, Study, StudyPoint, report};
use lockstep_bench::run::{self, RunResult};
use serde_json::{Value, json};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

/// The most points of a study.
const MAX_POINTS: usize = 1000;
/// Arguments of the study, which its runs do not have.
const OWN: [&str; 10] = [
    "vary",
    "repeats",
    "leave-out",
    "sites",
    "start-hosts",
    "kfactor",
    "server-option",
    "json",
    "plot",
    "report",
];

/// Something that can be varied.
struct Dimension {
    name: &'static str,
    /// The argument that it is otherwise.
    argument: &'static str,
    /// It is of the hosts that are started, not of the workload.
    of_hosts: bool,
    /// Whether the law is fitted over it.
    fits: bool,
    /// Its values make other rows or another host.
    new_server: bool,
}

const fn workloads(name: &'static str, argument: &'static str, new_server: bool) -> Dimension {
    Dimension { name, argument, of_hosts: false, fits: false, new_server }
}

const fn servers(name: &'static str, argument: &'static str, fits: bool) -> Dimension {
    Dimension { name, argument, of_hosts: true, fits, new_server: true }
}

const DIMENSIONS: [Dimension; 7] = [
    servers("sites", "sites", true),
    Dimension { fits: true, ..workloads("clients", "clients", false) },
    workloads("warehouses", "warehouses", true),
    workloads("payload", "content-bytes", true),
    workloads("burst", "burst", false),
    servers("hosts", "start-hosts", true),
    servers("k", "kfactor", false),
];

/// Its command line: that of each workload, and what is varied.
pub fn command() -> Command {
    Command::new("scale")
        .about("Run a workload over a list of values, and fit the scalability law")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(workload_commands().into_iter().map(with_study))
}

fn with_study(command: Command) -> Command {
    command
        .mut_group("target", |group| group.required(false))
        .arg(
            Arg::new("vary")
                .long("vary")
                .num_args(2)
                .value_names(["WHAT", "LIST"])
                .action(ArgAction::Append)
                .required(true)
                .help(
                    "What, of sites, clients, warehouses, payload, burst, hosts and k, and its \
                     values; several lists make all combinations",
                ),
        )
        .arg(number("repeats", "N", "3", "Runs of each point"))
        .arg(
            Arg::new("leave-out")
                .long("leave-out")
                .value_name("LIST")
                .value_delimiter(',')
                .value_parser(clap::value_parser!(u64))
                .help("Values that the fit does without; they are drawn all the same"),
        )
        .arg(
            number("sites", "N", "1", "Sites of each host that is started, where not varied")
                .conflicts_with_all(["servers", "embedded"]),
        )
        .arg(
            Arg::new("server-option")
                .long("server-option")
                .value_name("NAME=VALUE")
                .action(ArgAction::Append)
                .conflicts_with_all(["servers", "embedded"])
                .help("An option of the hosts that are started"),
        )
}

/// A dimension and its values.
struct Varied {
    dimension: &'static Dimension,
    values: Vec<u64>,
}

/// What is to be studied.
struct Plan<'a> {
    workload: &'a str,
    arguments: &'a ArgMatches,
    varied: Vec<Varied>,
    repeats: u64,
}

impl Plan<'_> {
    fn new<'a>(workload: &'a str, arguments: &'a ArgMatches) -> Result<Plan<'a>, String> {
        let occurrences = arguments.get_occurrences::<String>("vary").into_iter().flatten();
        let pairs: Vec<Vec<&String>> = occurrences.map(Iterator::collect).collect();
        let mut varied: Vec<Varied> = Vec::new();
        for pair in pairs {
            let [name, list] = pair.as_slice() else {
                return Err("--vary takes a name and a list".to_string());
            };
            let found = dimension(name, workload)?;
            if varied.iter().any(|varied| varied.dimension.name == found.name) {
                return Err(format!("--vary {name} is given twice"));
            }
            varied.push(Varied { dimension: found, values: values(name, list)? });
        }
        let plan = Plan { workload, arguments, varied, repeats: count(arguments, "repeats") };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), String> {
        if self.has("start") {
            return Err("a study starts hosts by itself: leave --start out".to_string());
        }
        let points: usize =
            self.varied.iter().fold(1, |points, varied| points.saturating_mul(varied.values.len()));
        if points > MAX_POINTS {
            return Err(format!("{points} points are more than a study has: {MAX_POINTS}"));
        }
        for Varied { dimension: Dimension { name, argument, new_server, .. }, values } in
            &self.varied
        {
            let given = self.arguments.value_source(argument);
            if given == Some(ValueSource::CommandLine) {
                return Err(format!("{name} is varied: leave its own option out"));
            }
            if *new_server && self.has("servers") {
                return Err(format!(
                    "each value of {name} needs a host of its own: leave --servers out, and hosts \
                     are started"
                ));
            }
            if *name == "sites" && self.has("embedded") && values.iter().any(|sites| *sites != 1) {
                return Err("--embedded is one site: leave it out to vary sites".to_string());
            }
        }
        if self.starts_servers() {
            self.points().iter().try_for_each(|point| self.hosts_of(point).check())?;
        }
        let left_out: Vec<&u64> = self.left_out().collect();
        match (self.varied.as_slice(), left_out.first()) {
            (_, None) => Ok(()),
            ([one], Some(_)) if one.dimension.fits => {
                match left_out.iter().find(|value| !one.values.contains(value)) {
                    Some(other) => Err(format!("--leave-out {other} is none of the values")),
                    None => Ok(()),
                }
            }
            _ => Err("--leave-out needs one list, of sites, clients or hosts".to_string()),
        }
    }

    fn has(&self, argument: &str) -> bool {
        self.arguments.value_source(argument) == Some(ValueSource::CommandLine)
    }

    fn left_out(&self) -> impl Iterator<Item = &u64> {
        self.arguments.get_many::<u64>("leave-out").into_iter().flatten()
    }

    /// Whether hosts are started.
    fn starts_servers(&self) -> bool {
        !self.has("servers") && !self.has("embedded")
    }

    /// All combinations, the first list's values changing first.
    fn points(&self) -> Vec<Vec<u64>> {
        let mut points: Vec<Vec<u64>> = vec![Vec::new()];
        for Varied { values, .. } in self.varied.iter().rev() {
            let longer = points.iter().flat_map(|rest| {
                values.iter().map(move |value| {
                    let mut point = vec![*value];
                    point.extend(rest);
                    point
                })
            });
            points = longer.collect();
        }
        points
    }

    /// What must be the same for two points to share a host: sites, and what makes rows.
    fn host_of(&self, point: &[u64]) -> Vec<u64> {
        let varied = self.varied.iter().zip(point);
        varied.filter(|(varied, _)| varied.dimension.new_server).map(|(_, value)| *value).collect()
    }

    /// What a point is run on, where hosts are started.
    fn hosts_of(&self, point: &[u64]) -> HostsToStart {
        let value = |argument: &str| {
            let mut varied = self.varied.iter().zip(point);
            let varied = varied.find(|(varied, _)| varied.dimension.argument == argument);
            varied.map_or_else(|| count(self.arguments, argument), |(_, value)| *value)
        };
        HostsToStart {
            hosts: value("start-hosts"),
            kfactor: value("kfactor"),
            sites: value("sites"),
        }
    }

    fn start_server(&self, point: &[u64]) -> Result<StartedHosts, String> {
        let options = self.arguments.get_many::<String>("server-option").into_iter().flatten();
        self.hosts_of(point).start(options)
    }

    /// The command line of a point's run.
    fn line(&self, point: &[u64], server: Option<&StartedHosts>) -> Vec<String> {
        let mut line = vec!["bench".to_string(), self.workload.to_string()];
        line.extend(command_line(self.arguments, &OWN));
        if let Some(server) = server {
            line.extend(["--servers".to_string(), server.addresses().join(",")]);
        }
        for (varied, value) in self.varied.iter().zip(point) {
            if !varied.dimension.of_hosts {
                line.extend([format!("--{}", varied.dimension.argument), value.to_string()]);
            }
        }
        line
    }

    fn title_of(&self, point: &[u64]) -> String {
        let varied = self.varied.iter().zip(point);
        let parts: Vec<String> =
            varied.map(|(varied, value)| format!("{} {value}", varied.dimension.name)).collect();
        parts.join(", ")
    }
}

fn dimension(name: &str, workload: &str) -> Result<&'static Dimension, String> {
    let Some(found) = DIMENSIONS.iter().find(|dimension| dimension.name == name) else {
        let names = DIMENSIONS.map(|dimension| dimension.name).join(", ");
        return Err(format!("--vary {name}: there is {names}"));
    };
    if found.of_hosts {
        return Ok(found);
    }
    let has = |command: &Command| command.get_arguments().any(|own| own.get_id() == found.argument);
    let with: Vec<String> = workload_commands()
        .iter()
        .filter(|command| has(command))
        .map(|command| command.get_name().to_string())
        .collect();
    match with.iter().any(|name| name == workload) {
        true => Ok(found),
        false => Err(format!("{workload} has no {name}; {} have it", with.join(", "))),
    }
}

fn values(name: &str, list: &str) -> Result<Vec<u64>, String> {
    let value = |text: &str| match text.trim().parse::<u64>() {
        Ok(value) if value <= 100_000_000 => Ok(value),
        _ => Err(format!("--vary {name} {list}: '{text}' is no number up to 100000000")),
    };
    let values: Vec<u64> = list.split(',').map(value).collect::<Result<_, _>>()?;
    let mut sorted = values.clone();
    sorted.sort_unstable();
    sorted.dedup();
    match sorted.len() == values.len() {
        true => Ok(values),
        false => Err(format!("--vary {name} {list}: a value is there twice")),
    }
}

/// Runs a study.
///
/// # Errors
/// What is to be varied cannot be; a file cannot be written. A point that does not run ends the
/// study with what there is.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let (workload, arguments) =
        arguments.subcommand().ok_or("a workload is needed; try `lockstep bench scale --help`")?;
    let plan = Plan::new(workload, arguments)?;
    let stop = stop_flag()?;
    let mut study = Study {
        workload: workload.to_string(),
        varied: plan.varied.iter().map(|varied| varied.dimension.name.to_string()).collect(),
        fits: plan.varied.len() == 1 && plan.varied[0].dimension.fits,
        ..Study::default()
    };
    let mut options = Value::Null;
    measure(&plan, &stop, &mut study, &mut options);
    study.interrupted = stop.load(Ordering::Relaxed);
    print!("{}", report::table(&study));
    let title = format!("lockstep bench scale {workload}");
    let options = all_options(&plan, options);
    write_outputs(
        arguments,
        &|| report::charts(&study),
        &|| report::page(&title, &study, &option_rows(&options)),
        &|| report::json(&study, &options),
    )?;
    Ok(if study.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The options of the study's last run, those that are varied as the lists that they take.
fn all_options(plan: &Plan<'_>, mut options: Value) -> Value {
    if let Value::Object(map) = &mut options {
        if plan.starts_servers() {
            map.remove("servers");
        }
        for varied in &plan.varied {
            let values: Vec<String> = varied.values.iter().map(u64::to_string).collect();
            map.insert(varied.dimension.name.to_string(), json!(values));
        }
        map.insert("repeats".to_string(), json!(plan.repeats));
        for dimension in DIMENSIONS.iter().filter(|_| plan.starts_servers()) {
            if dimension.of_hosts && !map.contains_key(dimension.name) {
                let value = count(plan.arguments, dimension.argument);
                map.insert(dimension.name.to_string(), json!(value));
            }
        }
    }
    options
}

/// Runs the points in order, each as often as it is repeated, until one does not run. A host
/// serves as many points as it fits.
fn measure(plan: &Plan<'_>, stop: &AtomicBool, study: &mut Study, options: &mut Value) {
    let points = plan.points();
    let mut server: Option<(Vec<u64>, StartedHosts)> = None;
    for (number, values) in points.iter().enumerate() {
        let mut point = StudyPoint {
            left_out: plan.left_out().any(|left_out| values.first() == Some(left_out)),
            values: values.clone(),
            ..StudyPoint::default()
        };
        for repeat in 1..=plan.repeats {
            let what = plan.title_of(values);
            let of = points.len();
            let title =
                format!("{what}, point {} of {of}, run {repeat} of {}", number + 1, plan.repeats);
            let ran = run_point(plan, values, &mut server, stop, &title);
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match ran {
                Ok((kept, result, shown)) => {
                    point.repeats.push(kept);
                    (study.server, *options) = (result.server, shown);
                }
                Err(error) => {
                    point.failed = Some(error);
                    break;
                }
            }
        }
        let ends = point.failed.is_some() || stop.load(Ordering::Relaxed);
        if point.failed.is_some() || !point.repeats.is_empty() {
            study.points.push(point);
        }
        if ends {
            return;
        }
    }
}

/// One run of a point, on the host of the last one if it fits.
fn run_point(
    plan: &Plan<'_>,
    values: &[u64],
    server: &mut Option<(Vec<u64>, StartedHosts)>,
    stop: &AtomicBool,
    title: &str,
) -> Result<(Repeat, RunResult, Value), String> {
    if plan.starts_servers() {
        let host = plan.host_of(values);
        if server.as_ref().is_none_or(|(of, _)| *of != host) {
            // The old one ends before the new one takes its memory.
            drop(server.take());
            *server = Some((host, plan.start_server(values)?));
        }
    }
    let started = server.as_ref().map(|(_, server)| server);
    let line = plan.line(values, started);
    let matches = super::command().try_get_matches_from(&line).map_err(|error| {
        let text = error.to_string();
        text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_string()
    })?;
    let (name, arguments) = matches.subcommand().ok_or("a workload is needed")?;
    let (mut workload, _) = build(name, arguments)?;
    let options = run_options(name, arguments);
    let mut progress = ProgressLine::default();
    let result = run::run(&mut *workload, &options, stop, &mut |state| {
        progress.show(&format!("{title}: {}", text_of(state)));
    });
    progress.end();
    let result = result?;
    let bytes = started.and_then(StartedHosts::peak_resident_bytes);
    let shown = options_json(&*workload, &options);
    Ok((Repeat::of(&result, bytes), result, shown))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench;

    fn plan(line: &str, check: impl FnOnce(Plan<'_>)) {
        let matches = bench::command().get_matches_from(line.split_whitespace());
        let arguments = matches.subcommand().expect("scale").1;
        let (workload, arguments) = arguments.subcommand().expect("a workload");
        check(Plan::new(workload, arguments).expect("a plan"));
    }

    #[test]
    fn points_are_runs_of_the_workload() {
        plan(
            "bench scale lock-store --vary clients 5,10 --vary payload 100,4000 --rate 50 \
             --records 9 --no-load --repeats 2 --json x",
            |plan| {
                assert_eq!(
                    plan.points(),
                    [[5, 100], [10, 100], [5, 4000], [10, 4000]].map(Vec::from)
                );
                assert_eq!((plan.repeats, plan.starts_servers()), (2, true));
                let line = plan.line(&[5, 100], None).join(" ");
                assert!(line.starts_with("bench lock-store "), "{line}");
                for part in
                    ["--rate 50", "--records 9", "--no-load", "--clients 5", "--content-bytes 100"]
                {
                    assert!(line.contains(part), "{part}: {line}");
                }
                for part in ["vary", "repeats", "json", "connections"] {
                    assert!(!line.contains(part), "{part}: {line}");
                }
                assert_eq!(
                    (plan.host_of(&[5, 100]), plan.host_of(&[10, 100])),
                    (vec![100], vec![100])
                );
            },
        );
    }

    #[test]
    fn what_cannot_be_varied_is_said() {
        for (line, says) in [
            (
                "tpcc --vary payload 1",
                "tpcc has no payload; key-value, contention, lock-store have it",
            ),
            ("voter --vary warehouses 1", "voter has no warehouses; tpcc have it"),
            ("voter --vary cores 1", "--vary cores: there is sites, clients"),
            ("voter --vary hosts 0,3", "hosts 0 cannot be run: there are 1 to 16"),
            ("voter --vary hosts 17", "hosts 17 cannot be run: there are 1 to 16"),
            (
                "voter --vary k 1",
                "hosts 1 with k 1 cannot be run: a partition has its leader and 1",
            ),
            ("voter --vary k 0,3 --start-hosts 5", "k 3 cannot be run: it is 0 to 2"),
            ("voter --vary hosts 2,3 --start-hosts 2", "hosts is varied: leave its own option"),
            ("voter --vary hosts 2 --servers a:1", "each value of hosts needs a host of its own"),
            ("voter --vary clients 1,x", "'x' is no number"),
            ("voter --vary clients 1,1", "a value is there twice"),
            ("voter --vary clients 1 --vary clients 2", "--vary clients is given twice"),
            ("voter --vary clients 1,2 --leave-out 3", "--leave-out 3 is none of the values"),
            ("key-value --vary payload 1,2 --leave-out 1", "--leave-out needs one list"),
            ("voter --vary sites 1,2 --servers a:1", "each value of sites needs a host of its own"),
            ("voter --vary sites 1,2 --embedded", "--embedded is one site"),
            ("voter --vary clients 1,2 --start 3", "a study starts hosts by itself"),
            ("voter --vary clients 1,2 --clients 3", "clients is varied: leave its own option"),
        ] {
            let line = format!("bench scale {line}");
            let matches = bench::command().get_matches_from(line.split_whitespace());
            let (_, arguments) = matches.subcommand().expect("scale");
            let (workload, arguments) = arguments.subcommand().expect("a workload");
            let error = Plan::new(workload, arguments).err().unwrap_or_default();
            assert!(error.contains(says), "{line}: {error}");
        }
    }
}
