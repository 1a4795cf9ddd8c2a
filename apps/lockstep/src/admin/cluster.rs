//! `lockstep admin cluster`: the hosts of a cluster, and who leads which partition.

use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command};
use lockstep_client::{ConnectOptions, Connection, ParameterWriter};
use lockstep_types::{Status, Value};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::time::{Duration, Instant};

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
        .subcommands(super::leaders::of_cluster())
        .subcommands(super::resize::of_cluster())
}

/// How often a call is made.
const ATTEMPTS: usize = 10;

pub struct Host {
    pub id: i64,
    pub name: String,
    /// `up`, `loading` while it loads copies, `joining`, `down`, or `added` before it joins first.
    pub state: String,
    pub client: String,
    pub admin: String,
    /// `host`, or `witness`, which has a vote and no partitions.
    pub role: String,
    /// Hosts of one placement group may fail together.
    pub group: String,
    /// What becomes of its copies: `stays`, `fills` or `leaves`.
    pub plan: String,
}

impl Host {
    /// Whether it is a witness.
    pub fn is_witness(&self) -> bool {
        self.role == "witness"
    }

    /// Its state, and for one that is up what becomes of its copies.
    fn shown_state(&self) -> &str {
        match (self.state.as_str(), self.plan.as_str()) {
            ("up" | "loading", "fills") => "filling",
            ("up" | "loading", "leaves") => "leaving",
            (state, _) => state,
        }
    }
}

/// A partition: its number, its leader and the other hosts that have a copy, and since which epoch.
pub struct Partition {
    pub id: i64,
    pub leader: i64,
    pub followers: Vec<i64>,
    pub epoch: i64,
    /// `available` or `unavailable`.
    state: String,
    /// By host of a follower, the bytes of the leader's log that it has and has not applied.
    lag_bytes: BTreeMap<i64, i64>,
    /// The hosts that load a copy, which does not count yet.
    loading: Vec<i64>,
    /// By such a host, how far it is.
    loads: BTreeMap<i64, Load>,
}

/// How far a copy is that is being loaded.
#[derive(Clone, Copy)]
struct Load {
    rows: i64,
    bytes: i64,
    /// Rows that it is to have, about.
    all_rows: i64,
    /// Rows that came each second since the cluster was shown last.
    rows_per_s: Option<f64>,
}

/// What a host answers about its cluster.
pub struct Cluster {
    state: String,
    pub epoch: i64,
    pub coordinator: i64,
    /// How many hosts may be lost with nothing lost.
    kfactor: i64,
    pub hosts: Vec<Host>,
    pub partitions: Vec<Partition>,
}

pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    if let Some((what @ ("add" | "remove"), arguments)) = arguments.subcommand() {
        return super::resize::run(what, arguments);
    }
    if let Some((what, arguments)) = arguments.subcommand() {
        return super::leaders::run(what, arguments);
    }
    let server = arguments.get_one::<String>("server").map_or("", String::as_str);
    let mut connection = Connection::connect(server, &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let mut before: Option<(Instant, Cluster)> = None;
    loop {
        let mut cluster = read(&mut connection)?;
        read_copies(&mut connection, &mut cluster);
        let now = Instant::now();
        if let Some((then, before)) = &before {
            note_speeds(&mut cluster, before, now.duration_since(*then));
        }
        match arguments.get_flag("json") {
            true => write_out(&format!("{}\n", as_json(&cluster)))?,
            false => write_out(&as_text(&cluster))?,
        }
        if !arguments.get_flag("watch") {
            return Ok(ExitCode::SUCCESS);
        }
        before = Some((now, cluster));
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// How fast copies are loaded, by what was shown before.
fn note_speeds(cluster: &mut Cluster, before: &Cluster, since: Duration) {
    for partition in &mut cluster.partitions {
        let known = before.partitions.iter().find(|it| it.id == partition.id);
        for (host, load) in &mut partition.loads {
            let Some(then) = known.and_then(|it| it.loads.get(host)) else { continue };
            // It may have begun again.
            let came = load.rows - then.rows;
            load.rows_per_s = (came > 0).then(|| came as f64 / since.as_secs_f64());
        }
    }
}

/// The cluster as the host of a connection has it.
///
/// # Errors
/// The host does not answer, or with something else.
pub fn read(connection: &mut Connection) -> Result<Cluster, String> {
    let mut parameters = ParameterWriter::default();
    parameters.text("CLUSTER");
    let tables = tables(connection, "@SystemInformation", &parameters)?;
    let [cluster, hosts, partitions, loading] = &tables[..] else {
        return Err(format!("the host answers with {} tables, not 4", tables.len()));
    };
    let unknown = || "the host does not say what the cluster's state is".to_string();
    let [Value::Text(state), numbers @ ..] = &cluster.first().ok_or_else(unknown)?[..] else {
        return Err(unknown());
    };
    let [Value::Int(epoch), Value::Int(coordinator), Value::Int(kfactor)] = numbers else {
        return Err(unknown());
    };
    let mut partitions: Vec<Partition> =
        partitions.iter().filter_map(|row| partition(row)).collect();
    for row in loading {
        let [Value::Int(id), Value::Int(host)] = &row[..] else { continue };
        let loaded = partitions.iter_mut().filter(|partition| partition.id == *id);
        loaded.for_each(|partition| partition.loading.push(*host));
    }
    Ok(Cluster {
        state: state.to_string(),
        epoch: *epoch,
        coordinator: *coordinator,
        kfactor: *kfactor,
        hosts: hosts.iter().filter_map(|row| host(row)).collect(),
        partitions,
    })
}

/// Adds how far the followers of partitions lag, and how far copies are that are being loaded. Each
/// host knows that of its own copies; where not all that are up answer, nothing is added.
fn read_copies(connection: &mut Connection, cluster: &mut Cluster) {
    let mut parameters = ParameterWriter::default();
    parameters.text("COPIES").integer(0);
    let Ok(tables) = tables(connection, "@Statistics", &parameters) else { return };
    for row in tables.iter().flatten() {
        let [_, Value::Int(host), _, _, Value::Int(partition), role, _, bytes, loaded @ ..] =
            &row[..]
        else {
            continue;
        };
        let (Value::Text(role), Value::Int(bytes)) = (role, bytes) else { continue };
        let known = cluster.partitions.iter_mut().find(|it| it.id == *partition);
        if let ("LOADING", [Value::Int(rows), Value::Int(bytes), Value::Int(all_rows)]) =
            (&**role, loaded)
        {
            let (rows, bytes, all_rows) = (*rows, *bytes, *all_rows);
            let load = Load { rows, bytes, all_rows, rows_per_s: None };
            if let Some(known) = known {
                known.loads.insert(*host, load);
            }
            continue;
        }
        if let Some(known) = known.filter(|it| &**role == "FOLLOWER" && it.followers.contains(host))
        {
            known.lag_bytes.insert(*host, *bytes);
        }
    }
}

fn host(row: &[Value]) -> Option<Host> {
    let [Value::Int(id), texts @ ..] = row else { return None };
    let text = |at: usize| match texts.get(at) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    };
    let [name, state, client, admin, role, group, plan] = [0, 1, 2, 3, 4, 5, 6].map(text);
    Some(Host { id: *id, name, state, client, admin, role, group, plan })
}

fn partition(row: &[Value]) -> Option<Partition> {
    let [id, leader, followers, epoch, state] = row else { return None };
    let (Value::Int(id), Value::Int(leader), Value::Int(epoch)) = (id, leader, epoch) else {
        return None;
    };
    let (Value::Text(followers), Value::Text(state)) = (followers, state) else { return None };
    let followers = followers.split(',').filter_map(|host| host.parse().ok()).collect();
    let state = state.to_string();
    let (lag_bytes, loading, loads) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    let (id, leader, epoch) = (*id, *leader, *epoch);
    Some(Partition { id, leader, followers, epoch, state, lag_bytes, loading, loads })
}

/// The rows of the tables of a system procedure's answer. A call that was in progress when a host
/// was lost is made again, since it only reads.
fn tables(
    connection: &mut Connection,
    procedure: &str,
    parameters: &ParameterWriter,
) -> Result<Vec<Vec<Vec<Value>>>, String> {
    for _ in 0..ATTEMPTS {
        let response = connection.call(procedure, parameters).map_err(|error| error.to_string())?;
        let view = response.view();
        if view.status == Status::ResponseUnknown.code() {
            continue;
        }
        if !view.is_success() {
            return Err(view.status_text.unwrap_or("the host gave no reason").to_string());
        }
        let mut tables = Vec::new();
        for table in view.tables() {
            let table = table.map_err(|error| error.to_string())?;
            tables.push(lockstep_client::rows::rows(&table).map_err(|error| error.to_string())?);
        }
        return Ok(tables);
    }
    Err("hosts were lost while the call was in progress: retry".to_string())
}

fn as_json(cluster: &Cluster) -> String {
    let host = |host: &Host| {
        json!({
            "id": host.id,
            "name": host.name,
            "state": host.state,
            "client": host.client,
            "admin": host.admin,
            "role": host.role,
            "group": host.group,
            "plan": host.plan,
        })
    };
    let partition = |partition: &Partition| {
        let lag = partition.lag_bytes.iter().map(|(host, bytes)| (host.to_string(), json!(bytes)));
        json!({
            "id": partition.id,
            "leader": partition.leader,
            "followers": partition.followers,
            "epoch": partition.epoch,
            "state": partition.state,
            "lag_bytes": lag.collect::<serde_json::Map<_, _>>(),
            "loading": partition.loading,
            "loads": partition.loads.iter().map(|(host, load)| json!({
                "host": host,
                "rows": load.rows,
                "bytes": load.bytes,
                "rows_to_load": load.all_rows,
            })).collect::<Vec<_>>(),
        })
    };
    json!({
        "state": cluster.state,
        "epoch": cluster.epoch,
        "coordinator": cluster.coordinator,
        "kfactor": cluster.kfactor,
        "hosts": cluster.hosts.iter().map(host).collect::<Vec<_>>(),
        "partitions": cluster.partitions.iter().map(partition).collect::<Vec<_>>(),
    })
    .to_string()
}

fn as_text(cluster: &Cluster) -> String {
    let Cluster { state, epoch, coordinator, kfactor, hosts, partitions } = cluster;
    let witnesses = hosts.iter().filter(|host| host.is_witness()).count();
    let count = hosts.len() - witnesses;
    let beside = if witnesses > 0 { " and a witness" } else { "" };
    let mut out = format!(
        "cluster: {state}, {count} hosts{beside}, K = {kfactor}, epoch {epoch}, coordinator at \
         host {coordinator}\n"
    );
    let listed = |is_in: &dyn Fn(&Partition) -> bool| {
        let numbers = partitions.iter().filter(|partition| is_in(partition));
        numbers.map(|partition| partition.id.to_string()).collect::<Vec<_>>().join(" ")
    };
    // One group of all hosts is none.
    let with_data = hosts.iter().filter(|host| !host.is_witness());
    let groups: BTreeSet<&str> = with_data.map(|host| host.group.as_str()).collect();
    let longest = groups.iter().map(|group| group.len()).max().unwrap_or(0).max("group".len());
    let grouped = |group: &str| match groups.len() {
        0 | 1 => String::new(),
        _ => format!("{group:<longest$} "),
    };
    let mut line = |id: &str, texts: [&str; 5], leads: &str, follows: &str| {
        let [name, group, state, client, lag] = texts;
        let group = grouped(group);
        let shown = format!(
            "{id:>4}  {name:<20} {group}{state:<8} {client:<22} {lag:>10}  {leads:<16} {follows}"
        );
        out += shown.trim_end();
        out.push('\n');
    };
    line("host", ["name", "group", "state", "client port", "lag"], "leads", "follows");
    for host in hosts {
        let Host { id, name, group, client, .. } = host;
        let state = host.shown_state();
        if host.is_witness() {
            line(&id.to_string(), [name, group, state, "(witness)", ""], "", "");
            continue;
        }
        let leads = listed(&|partition| partition.leader == *id);
        let follows = listed(&|partition| partition.followers.contains(id));
        let lags = partitions.iter().filter_map(|partition| partition.lag_bytes.get(id));
        let lag = lags.max().map_or(String::new(), |bytes| format!("{bytes} B"));
        line(&id.to_string(), [name, group, state, client, &lag], &leads, &follows);
    }
    let loading = partitions.iter().flat_map(|it| it.loading.iter().map(move |to| (it.id, to)));
    let loading: Vec<String> = loading.map(|(id, to)| format!("{id} to host {to}")).collect();
    if !loading.is_empty() {
        let (in_sync, wanted) = in_sync(cluster);
        out += &format!(
            "{in_sync} of {wanted} copies are in sync; partitions being loaded: {}\n",
            loading.join(", ")
        );
        let loads = partitions.iter().flat_map(|it| it.loads.iter().map(move |of| (it.id, of)));
        loads.for_each(|(id, (host, load))| out += &load.line(id, *host));
    }
    let unavailable = listed(&|partition| partition.state == "unavailable");
    if !unavailable.is_empty() {
        out += &format!("unavailable partitions: {unavailable}\n");
    }
    out
}

impl Load {
    /// A copy of a partition at a host, with a progress bar.
    fn line(&self, partition: i64, host: i64) -> String {
        const BAR: usize = 24;
        let Load { rows, bytes, all_rows, rows_per_s } = *self;
        let share = if all_rows == 0 { 0.0 } else { (rows as f64 / all_rows as f64).min(1.0) };
        let filled = (share * BAR as f64) as usize;
        let left = rows_per_s.map(|speed| (all_rows - rows).max(0) as f64 / speed);
        let left = left.map_or(String::new(), |left_s| format!(", {:.0} s left", left_s.ceil()));
        format!(
            "  partition {partition} to host {host} [{}{}] {:3.0} %, {rows} rows, {:.1} MB{left}\n",
            "#".repeat(filled),
            " ".repeat(BAR - filled),
            share * 100.0,
            bytes as f64 / 1e6
        )
    }
}

/// How many copies are in sync, and how many there are to be.
fn in_sync(cluster: &Cluster) -> (usize, i64) {
    let in_sync = cluster.partitions.iter().map(|partition| partition.followers.len() + 1).sum();
    (in_sync, cluster.partitions.len() as i64 * (cluster.kfactor + 1))
}

#[cfg(test)]
impl Host {
    pub fn example(id: i64, state: &str) -> Host {
        let (name, client, admin) = Default::default();
        let [role, group, plan] = ["host", "0", "stays"].map(str::to_string);
        Host { id, name, state: state.to_string(), client, admin, role, group, plan }
    }
}

#[cfg(test)]
impl Partition {
    pub fn example(id: i64, leader: i64, followers: &[i64]) -> Partition {
        let state = "available".to_string();
        let (followers, lag_bytes, loads) = (followers.to_vec(), BTreeMap::new(), BTreeMap::new());
        Partition { id, leader, followers, epoch: 1, state, lag_bytes, loading: Vec::new(), loads }
    }
}

#[cfg(test)]
impl Cluster {
    pub fn example(hosts: Vec<Host>, partitions: Vec<Partition>) -> Cluster {
        let state = "running".to_string();
        Cluster { state, epoch: 1, coordinator: 0, kfactor: 1, hosts, partitions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_loaded_has_a_bar_and_the_time_that_is_left() {
        let mut before = Cluster::example(Vec::new(), vec![Partition::example(3, 0, &[])]);
        let load = Load { rows: 0, bytes: 0, all_rows: 400, rows_per_s: None };
        before.partitions[0].loads.insert(2, load);
        let mut now = Cluster::example(Vec::new(), vec![Partition::example(3, 0, &[])]);
        let load = Load { rows: 100, bytes: 2_500_000, ..load };
        now.partitions[0].loads.insert(2, load);
        now.partitions[0].loading.push(2);
        note_speeds(&mut now, &before, Duration::from_secs(2));
        let text = as_text(&now);
        let bar = format!("[{}{}]  25 %", "#".repeat(6), " ".repeat(18));
        let line = format!("  partition 3 to host 2 {bar}, 100 rows, 2.5 MB, 6 s left\n");
        assert!(text.ends_with(&line), "{text}");
        let loads = &serde_json::from_str::<serde_json::Value>(&as_json(&now)).expect("it is");
        assert_eq!(loads["partitions"][0]["loads"][0]["rows_to_load"], 400);
        let begun = Load { all_rows: 0, rows: 0, ..load };
        assert!(begun.line(1, 0).contains("  0 %"), "{}", begun.line(1, 0));
    }
}
