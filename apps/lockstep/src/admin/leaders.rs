//! `lockstep admin cluster move-leader|move-copy|balance|kfactor`: leaders and copies are moved
//! between hosts, and partitions get other numbers of copies, while the cluster serves calls.

use super::cluster::{Cluster, Host, read};
use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_client::{ConnectOptions, Connection, OwnedResponse, ParameterWriter};
use lockstep_types::Value;
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;

/// What `admin cluster` does besides showing it.
pub fn of_cluster() -> Vec<Command> {
    let number = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name(value)
            .value_parser(value_parser!(i32).range(0..))
            .required(true)
            .help(help)
    };
    vec![
        Command::new("move-leader")
            .about("Let another host lead a partition; no call fails")
            .arg(number("partition", "PARTITION", "The number of the partition"))
            .arg(number("to", "HOST", "The host: it has a copy that is in sync"))
            .arg(server()),
        Command::new("balance")
            .about("Move leaders so that each host leads about as many partitions; no call fails")
            .arg(server()),
        Command::new("move-copy")
            .about("Move the copy of a partition to another host, with its leader; no call fails")
            .arg(number("partition", "PARTITION", "The number of the partition"))
            .arg(number("from", "HOST", "The host that gives its copy up at the end"))
            .arg(number("to", "HOST", "The host: it has no copy of it, and capacity for one"))
            .arg(server()),
        Command::new("kfactor")
            .about("Change how many hosts may be lost, K, while calls are served")
            .long_about(
                "Change how many hosts may be lost, K, while calls are served: each partition gets \
                 a copy more, which is loaded beside the calls, or gives one up. \
                 `lockstep admin cluster --watch` shows the copies that are being loaded",
            )
            .arg(
                Arg::new("k")
                    .value_name("K")
                    .value_parser(value_parser!(i32))
                    .allow_negative_numbers(true)
                    .required(true)
                    .help("The number of hosts, 0 to 2"),
            )
            .arg(Arg::new("json").long("json").action(ArgAction::SetTrue).help("As JSON"))
            .arg(server()),
    ]
}

pub fn server() -> Arg {
    Arg::new("server")
        .long("server")
        .value_name("HOST:PORT")
        .default_value("127.0.0.1:21211")
        .help("The admin port of any of the hosts")
}

pub fn run(what: &str, arguments: &ArgMatches) -> Result<ExitCode, String> {
    let server = arguments.get_one::<String>("server").map_or("", String::as_str);
    let number = |name: &str| arguments.get_one::<i32>(name).copied().unwrap_or_default();
    let mut connection = Connection::connect(server, &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let said = match what {
        "move-leader" => {
            let (partition, to) = (number("partition"), number("to"));
            let text = call(&mut connection, "@MigratePartitionLeader", &[partition, to])?;
            text.unwrap_or_else(|| format!("host {to} leads partition {partition}"))
        }
        "move-copy" => {
            let numbers = [number("partition"), number("from"), number("to")];
            let text = call(&mut connection, "@MovePartitionCopy", &numbers)?;
            text.unwrap_or_default()
        }
        "kfactor" => set_k(&mut connection, arguments)?,
        _ => balance(&mut connection)?,
    };
    write_out(&format!("{said}\n"))?;
    Ok(ExitCode::SUCCESS)
}

/// Has the hosts agree on another K.
fn set_k(connection: &mut Connection, arguments: &ArgMatches) -> Result<String, String> {
    let k = arguments.get_one::<i32>("k").copied().unwrap_or_default();
    let response = call_with(connection, "@SetKFactor", &[k])?;
    let view = response.view();
    let tables = view.tables().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
    let rows = tables.first().map(lockstep_client::rows::rows).transpose();
    let row = rows.map_err(|error| error.to_string())?.and_then(|rows| rows.into_iter().next());
    let Some([Value::Int(kfactor), Value::Int(to_load), Value::Int(given_up)]) = row.as_deref()
    else {
        return Err("the host answers without the K in force".to_string());
    };
    Ok(match arguments.get_flag("json") {
        true => json!({
            "kfactor": kfactor,
            "copies_to_load": to_load,
            "copies_given_up": given_up,
        })
        .to_string(),
        false => view.status_text.unwrap_or_default().to_string(),
    })
}

/// Moves leaders one by one.
fn balance(connection: &mut Connection) -> Result<String, String> {
    let moves = balancing(&read(connection)?);
    for (partition, to) in &moves {
        call(connection, "@MigratePartitionLeader", &[*partition as i32, *to as i32])?;
    }
    Ok(match moves.len() {
        0 => "the leaders are balanced".to_string(),
        1 => "1 leader was moved".to_string(),
        count => format!("{count} leaders were moved"),
    })
}

/// The moves that make the numbers of partitions that hosts lead differ by one at most, as far as
/// their copies allow.
fn balancing(cluster: &Cluster) -> Vec<(i64, i64)> {
    let stays = |host: &&Host| host.state == "up" && host.plan != "leaves";
    let up = cluster.hosts.iter().filter(stays);
    let mut counts: BTreeMap<i64, usize> = up.map(|host| (host.id, 0)).collect();
    let mut leaders: Vec<i64> = cluster.partitions.iter().map(|it| it.leader).collect();
    for leader in &leaders {
        *counts.entry(*leader).or_default() += 1;
    }
    let mut moves = BTreeMap::new();
    // Each move makes the sum of squares less, so that this ends.
    loop {
        let places = cluster.partitions.iter().zip(&leaders).enumerate();
        let moved = places.flat_map(|(place, (partition, leader))| {
            let copies = partition.followers.iter().chain([&partition.leader]);
            let better =
                copies.filter(|to| counts.get(to).is_some_and(|to| to + 1 < counts[leader]));
            better.map(move |to| (place, *to)).collect::<Vec<_>>()
        });
        let Some((place, to)) = moved.min_by_key(|(_, to)| counts[to]) else { break };
        *counts.entry(leaders[place]).or_default() -= 1;
        *counts.entry(to).or_default() += 1;
        leaders[place] = to;
        moves.insert(cluster.partitions[place].id, to);
    }
    moves.into_iter().collect()
}

/// The status text of an answer that is a success.
pub fn call(
    connection: &mut Connection,
    procedure: &str,
    numbers: &[i32],
) -> Result<Option<String>, String> {
    let response = call_with(connection, procedure, numbers)?;
    let text = response.view().status_text;
    Ok(text.filter(|text| !text.is_empty()).map(str::to_string))
}

/// An answer that is a success.
fn call_with(
    connection: &mut Connection,
    procedure: &str,
    numbers: &[i32],
) -> Result<OwnedResponse, String> {
    let mut parameters = ParameterWriter::default();
    for number in numbers {
        parameters.scalar(
            lockstep_types::SqlType::Integer,
            lockstep_types::Datum::Int(i64::from(*number)),
        );
    }
    let response = connection.call(procedure, &parameters).map_err(|error| error.to_string())?;
    if !response.view().is_success() {
        let text = response.view().status_text;
        return Err(text.unwrap_or("the host gave no reason").to_string());
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::cluster::Partition;

    #[test]
    fn leaders_move_to_hosts_with_copies_that_lead_fewer_partitions() {
        let cluster = |partitions: &[(i64, &[i64])]| {
            Cluster::example(
                (0..3).map(|id| Host::example(id, "up")).collect(),
                (0..)
                    .zip(partitions)
                    .map(|(id, (leader, followers))| Partition::example(id, *leader, followers))
                    .collect(),
            )
        };
        let uneven: [(i64, &[i64]); 4] = [(0, &[1]), (0, &[2]), (0, &[1]), (1, &[0])];
        assert_eq!(balancing(&cluster(&uneven)), [(1, 2)]);
        let without_copies: [(i64, &[i64]); 3] = [(0, &[]), (0, &[]), (1, &[0])];
        assert_eq!(balancing(&cluster(&without_copies)), []);
        let through_another: [(i64, &[i64]); 4] = [(0, &[1]), (0, &[1]), (1, &[2]), (1, &[2])];
        let moved = balancing(&cluster(&through_another));
        assert!(!moved.is_empty() && moved.iter().all(|(_, to)| *to == 2), "{moved:?}");
    }
}
