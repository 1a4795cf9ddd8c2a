//! `lockstep admin cluster add|remove`: the number of hosts changes while the cluster serves calls.

use super::cluster::{Cluster, Host, read};
use super::leaders::{call, server};
use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Between two looks at a host that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Looks in a row without an answer, before the wait ends.
const SILENT_MAX: u32 = 20;
/// Characters of a progress bar.
const BAR: usize = 24;

/// What `admin cluster` does with hosts.
pub fn of_cluster() -> Vec<Command> {
    let wait =
        |help: &'static str| Arg::new("wait").long("wait").action(ArgAction::SetTrue).help(help);
    vec![
        Command::new("add")
            .about("Add a host: it gets its share of copies and leaders; no call fails")
            .long_about(
                "Add a host: it gets a number, and once it is started its share of copies and \
                 leaders, while calls go on. The answer has the options to start it with",
            )
            .arg(
                Arg::new("address")
                    .value_name("HOST:PORT")
                    .required(true)
                    .help("Where it will listen for the other hosts (start --internal)"),
            )
            .arg(wait("Return when it has its share; it is to be started meanwhile"))
            .arg(server()),
        Command::new("remove")
            .about("Remove a host: its copies go to other hosts, then it stops; no call fails")
            .arg(
                Arg::new("host")
                    .value_name("ID")
                    .value_parser(value_parser!(i32).range(0..))
                    .required(true)
                    .help("The number of the host"),
            )
            .arg(
                Arg::new("cancel")
                    .long("cancel")
                    .action(ArgAction::SetTrue)
                    .conflicts_with("wait")
                    .help("It stays, with the copies that it has by now"),
            )
            .arg(wait("Return when it has stopped"))
            .arg(server()),
    ]
}

/// Adds or removes a host.
///
/// # Errors
/// The cluster refuses it, or does not answer: the text for the user.
pub fn run(what: &str, arguments: &ArgMatches) -> Result<ExitCode, String> {
    let text = |name: &str| arguments.get_one::<String>(name).map_or("", String::as_str);
    let mut connection = Connection::connect(text("server"), &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let (host, said) = match what {
        "add" => add(&mut connection, text("address"))?,
        _ => {
            let host = arguments.get_one::<i32>("host").copied().unwrap_or_default();
            let procedure = match arguments.get_flag("cancel") {
                true => "@KeepHost",
                false => "@RemoveHost",
            };
            (i64::from(host), call(&mut connection, procedure, &[host])?.unwrap_or_default())
        }
    };
    write_out(&format!("{said}\n"))?;
    if arguments.get_flag("wait") {
        wait(&mut connection, text("server"), host)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn add(connection: &mut Connection, address: &str) -> Result<(i64, String), String> {
    let address = crate::start::resolve(address)?.to_string();
    let mut parameters = ParameterWriter::default();
    parameters.text(&address);
    let response = connection.call("@AddHost", &parameters).map_err(|error| error.to_string())?;
    let view = response.view();
    let text = view.status_text.unwrap_or("the host gave no reason").to_string();
    if !view.is_success() {
        return Err(text);
    }
    let table = view.tables().next().and_then(Result::ok);
    let rows = table.and_then(|table| lockstep_client::rows::rows(&table).ok());
    match rows.and_then(|rows| rows.into_iter().next()).as_deref() {
        Some([lockstep_types::Value::Int(host), ..]) => Ok((*host, text)),
        _ => Err("the host answers without the number of the new host".to_string()),
    }
}

/// How far a host is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Progress {
    /// It has all that it is to have, or is gone.
    Done(&'static str),
    /// Copies that it has, of as many as it had or is to have.
    Copies(usize, usize),
    /// What is waited for.
    Waits(&'static str),
}

/// Copies that a host has.
fn copies_at(cluster: &Cluster, host: i64) -> usize {
    let has = |partition: &&super::cluster::Partition| {
        partition.leader == host || partition.followers.contains(&host)
    };
    cluster.partitions.iter().filter(has).count()
}

fn progress(cluster: &Cluster, host: i64) -> Progress {
    let Some(shown) = cluster.hosts.iter().find(|it| it.id == host) else {
        return Progress::Done("is not of the cluster any more");
    };
    match (shown.state.as_str(), shown.plan.as_str()) {
        ("added", "fills") => Progress::Waits("is to be started"),
        ("joining" | "down", "fills") => Progress::Waits("is joining"),
        (_, "leaves") => Progress::Copies(copies_at(cluster, host), 0),
        (_, "fills") => {
            let all: usize = cluster.partitions.iter().map(|it| it.followers.len() + 1).sum();
            let stays = |host: &&Host| !host.is_witness() && host.plan != "leaves";
            let hosts = cluster.hosts.iter().filter(stays).count();
            Progress::Copies(copies_at(cluster, host), (all / hosts.max(1)).max(1))
        }
        _ => Progress::Done("has its share of copies"),
    }
}

/// Shows how far a host is until it is done. The host of the connection may be the one that is
/// removed: the others are not known here, and so that ends the wait.
fn wait(connection: &mut Connection, server: &str, host: i64) -> Result<(), String> {
    let (mut most, mut silent, mut last) = (1, 0, None);
    let is_terminal = std::io::stdout().is_terminal();
    loop {
        let cluster = match read(connection) {
            Ok(cluster) => cluster,
            Err(problem) => {
                silent += 1;
                if silent > SILENT_MAX {
                    return Err(format!("{server} does not answer any more: {problem}"));
                }
                if let Ok(again) = Connection::connect(server, &ConnectOptions::default()) {
                    *connection = again;
                }
                std::thread::sleep(LOOK_EVERY);
                continue;
            }
        };
        silent = 0;
        let now = progress(&cluster, host);
        let line = match now {
            Progress::Done(text) | Progress::Waits(text) => format!("host {host} {text}"),
            Progress::Copies(left, 0) => {
                most = most.max(left);
                bar(host, most - left, most, &format!("{left} copies left"))
            }
            Progress::Copies(has, share) => {
                bar(host, has.min(share), share, &format!("{has} of {share} copies"))
            }
        };
        let is_done = matches!(now, Progress::Done(_));
        match is_terminal {
            true => write_out(&format!("\r{line:<70}{}", if is_done { "\n" } else { "" }))?,
            false if last.as_ref() != Some(&line) => write_out(&format!("{line}\n"))?,
            false => {}
        }
        let _ = std::io::stdout().flush();
        last = Some(line);
        if is_done {
            return Ok(());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn bar(host: i64, done: usize, of: usize, text: &str) -> String {
    let filled = BAR * done / of.max(1);
    format!("host {host} [{}{}] {text}", "#".repeat(filled), " ".repeat(BAR - filled))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::cluster::Partition;

    fn cluster(plan: &str, state: &str, partitions: Vec<Partition>) -> Cluster {
        let mut hosts: Vec<Host> = (0..3).map(|id| Host::example(id, "up")).collect();
        let mut shown = Host::example(3, state);
        shown.plan = plan.to_string();
        hosts.push(shown);
        Cluster::example(hosts, partitions)
    }

    #[test]
    fn the_progress_of_a_host_is_counted_in_copies() {
        let partitions =
            || (0..6).map(|id| Partition::example(id, id % 2, &[2 + id % 2])).collect();
        let of = |plan, state| progress(&cluster(plan, state, partitions()), 3);
        assert_eq!(of("fills", "added"), Progress::Waits("is to be started"));
        assert_eq!(of("fills", "up"), Progress::Copies(3, 3));
        assert_eq!(of("stays", "up"), Progress::Done("has its share of copies"));
        assert_eq!(of("leaves", "up"), Progress::Copies(3, 0));
        let gone = Cluster::example(vec![Host::example(0, "up")], partitions());
        assert_eq!(progress(&gone, 3), Progress::Done("is not of the cluster any more"));
        assert_eq!(bar(3, 1, 2, "x"), format!("host 3 [{}{}] x", "#".repeat(12), " ".repeat(12)));
    }
}
