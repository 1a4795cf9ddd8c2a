//! `lockstep admin cluster`: the hosts of a cluster, and who leads which partition.

use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::{Datum, SqlType, Value};
use serde_json::json;
use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

/// The number by which clients know the coordinator, among the partitions.
const COORDINATOR: i64 = 16383;

pub fn command() -> Command {
    let flag = |name: &'static str, help: &'static str| {
        Arg::new(name).long(name).action(ArgAction::SetTrue).help(help)
    };
    Command::new("cluster")
        .about("Show the hosts of the cluster, and who leads which partition")
        .arg(
            Arg::new("server")
                .long("server")
                .value_name("HOST:PORT")
                .default_value("127.0.0.1:21211")
                .help("The admin port of any of the hosts"),
        )
        .arg(flag("json", "As JSON"))
        .arg(flag("watch", "Show it again every second, until interrupted"))
}

/// The state of a host that has answered.
const ANSWERS: &str = "up";

/// One host, by the names of its properties.
type Host = BTreeMap<String, String>;

/// A partition: its number, its leader and the other hosts that have a copy.
struct Partition {
    id: i64,
    leader: i64,
    followers: Vec<i64>,
}

struct Cluster {
    hosts: BTreeMap<i64, Host>,
    partitions: Vec<Partition>,
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let server = arguments.get_one::<String>("server").map_or("", String::as_str);
    let mut connection = Connection::connect(server, &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    loop {
        let cluster = read(&mut connection)?;
        match arguments.get_flag("json") {
            true => write_out(&format!("{}\n", as_json(&cluster)))?,
            false => write_out(&as_text(&cluster))?,
        }
        if !arguments.get_flag("watch") {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(Duration::from_secs(1));
    }
}

fn read(connection: &mut Connection) -> Result<Cluster, String> {
    let mut parameters = ParameterWriter::default();
    parameters.text("OVERVIEW");
    let mut hosts: BTreeMap<i64, Host> = BTreeMap::new();
    for row in rows(connection, "@SystemInformation", &parameters)? {
        if let [Value::Int(host), Value::Text(key), Value::Text(value)] = &row[..] {
            hosts.entry(*host).or_default().insert(key.to_string(), value.to_string());
        }
    }
    let mut parameters = ParameterWriter::default();
    parameters.text("TOPO").scalar(SqlType::TinyInt, Datum::Int(0));
    let mut partitions = Vec::new();
    for row in rows(connection, "@Statistics", &parameters)? {
        let [Value::Int(id), Value::Text(sites), Value::Text(leader), ..] = &row[..] else {
            continue;
        };
        if *id == COORDINATOR {
            continue;
        }
        let host_of = |site: &str| site.split(':').next().and_then(|host| host.parse().ok());
        let leader = host_of(leader).ok_or_else(|| format!("partition {id} has no leader"))?;
        let followers = sites.split(',').filter_map(host_of).filter(|host| *host != leader);
        partitions.push(Partition { id: *id, leader, followers: followers.collect() });
    }
    Ok(Cluster { hosts, partitions })
}

/// The rows of the first table of a system procedure's answer.
fn rows(
    connection: &mut Connection,
    procedure: &str,
    parameters: &ParameterWriter,
) -> Result<Vec<Vec<Value>>, String> {
    let response = connection.call(procedure, parameters).map_err(|error| error.to_string())?;
    let view = response.view();
    if !view.is_success() {
        return Err(view.status_text.unwrap_or("the host gave no reason").to_string());
    }
    let table = view.tables().next().ok_or("the answer has no table")?;
    let table = table.map_err(|error| error.to_string())?;
    lockstep_client::rows::rows(&table).map_err(|error| error.to_string())
}

fn property<'a>(host: &'a Host, key: &str) -> &'a str {
    host.get(key).map_or("", String::as_str)
}

/// The address of a port of a host.
fn port(host: &Host, which: &str) -> String {
    let part = |what: &str| property(host, &format!("{which}{what}"));
    format!("{}:{}", part("INTERFACE"), part("PORT"))
}

/// The state that the hosts are in: that of the first one which is not like the others, if any.
fn state(cluster: &Cluster) -> String {
    let states = || cluster.hosts.values().map(|host| property(host, "CLUSTERSTATE"));
    let other = states().find(|state| *state != "RUNNING").or(states().next());
    other.unwrap_or_default().to_lowercase()
}

fn as_json(cluster: &Cluster) -> String {
    let host = |(id, host): (&i64, &Host)| {
        json!({
            "id": id,
            "name": property(host, "HOSTNAME"),
            "state": ANSWERS,
            "client": port(host, "CLIENT"),
            "admin": port(host, "ADMIN"),
        })
    };
    let epochs: BTreeMap<i64, i64> = cluster
        .hosts
        .iter()
        .filter_map(|(id, host)| Some((*id, property(host, "LOCKSTEPEPOCH").parse().ok()?)))
        .collect();
    let partition = |partition: &Partition| {
        json!({
            "id": partition.id,
            "leader": partition.leader,
            "followers": partition.followers,
            "epoch": epochs.get(&partition.leader),
        })
    };
    json!({
        "state": state(cluster),
        "hosts": cluster.hosts.iter().map(host).collect::<Vec<_>>(),
        "partitions": cluster.partitions.iter().map(partition).collect::<Vec<_>>(),
    })
    .to_string()
}

fn as_text(cluster: &Cluster) -> String {
    let mut out = format!("cluster: {}, {} hosts\n", state(cluster), cluster.hosts.len());
    out += &format!("{:>4}  {:<20} {:<6} {:<22} leads\n", "host", "name", "state", "client port");
    for (id, host) in &cluster.hosts {
        let leads = cluster.partitions.iter().filter(|partition| partition.leader == *id);
        let leads: Vec<String> = leads.map(|partition| partition.id.to_string()).collect();
        let client = port(host, "CLIENT");
        let (name, leads) = (property(host, "HOSTNAME"), leads.join(" "));
        out += &format!("{id:>4}  {name:<20} {:<6} {client:<22} {leads}\n", ANSWERS);
    }
    out
}
