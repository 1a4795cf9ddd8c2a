//! `lockstep admin host drain|stop|status`: one host of a cluster, by its number or its name.

use super::cluster::{Cluster, Host, read};
use super::leaders::{call, server};
use crate::output::write_out;
use clap::{Arg, ArgAction, ArgMatches, Command};
use lockstep_client::{ConnectOptions, Connection};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How long a host that stops is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
/// Between two looks at it.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// What is done with one host of a cluster.
pub fn command() -> Command {
    let host = || Arg::new("host").value_name("NAME|ID").help("The name or the number of the host");
    let force = Arg::new("force")
        .long("force")
        .action(ArgAction::SetTrue)
        .help("Also where that loses partitions, or where the others would be no majority");
    Command::new("host")
        .about("Administer one host of a cluster")
        .subcommand_required(true)
        .subcommand(
            Command::new("drain")
                .about("Move the leaders of a host's partitions to other hosts; no call fails")
                .arg(host().required(true))
                .arg(server()),
        )
        .subcommand(
            Command::new("stop")
                .about("Move the leaders of a host's partitions to other hosts, and stop it")
                .arg(host().required(true))
                .arg(force)
                .arg(server()),
        )
        .subcommand(
            Command::new("status")
                .about("Show whether a host is up, and what it leads and has copies of")
                .arg(host().help("The name or the number of the host [default: all]"))
                .arg(server()),
        )
}

pub fn run(what: &str, arguments: &ArgMatches) -> Result<ExitCode, String> {
    let text = |name: &str| arguments.get_one::<String>(name).map_or("", String::as_str);
    let mut connection = Connection::connect(text("server"), &ConnectOptions::default())
        .map_err(|error| error.to_string())?;
    let cluster = read(&mut connection)?;
    let named = arguments.get_one::<String>("host");
    let named = named.map(|name| find(&cluster, name)).transpose()?;
    let said = match (what, named) {
        ("status", None) => cluster.hosts.iter().map(|host| status(&cluster, host)).collect(),
        ("status", Some(host)) => status(&cluster, host),
        ("drain", Some(host)) => {
            call(&mut connection, "@PrepareStopNode", &[number(host)])?;
            format!("host {} leads no partition\n", host.id)
        }
        (_, Some(host)) => {
            let force: &[i32] = if arguments.get_flag("force") { &[1] } else { &[] };
            call(&mut connection, "@StopNode", &[&[number(host)], force].concat())?;
            wait_for_stop(&mut connection, host.id)
        }
        (_, None) => unreachable!("clap requires a host"),
    };
    write_out(&said)?;
    Ok(ExitCode::SUCCESS)
}

fn number(host: &Host) -> i32 {
    i32::try_from(host.id).expect("numbers of hosts are small")
}

/// Looks until a host is down, or is the one that answers no more.
fn wait_for_stop(connection: &mut Connection, host: i64) -> String {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        // The host of this connection may be the one that stops.
        let Ok(cluster) = read(connection) else { break };
        let is_down = |it: &Host| it.id == host && it.state == "down";
        if cluster.hosts.iter().any(is_down) {
            return format!("host {host} is down\n");
        }
        std::thread::sleep(LOOK_EVERY);
    }
    format!("host {host} stops\n")
}

/// The host with a number, or else with a name.
fn find<'c>(cluster: &'c Cluster, wanted: &str) -> Result<&'c Host, String> {
    if let Ok(id) = wanted.parse::<i64>()
        && let Some(host) = cluster.hosts.iter().find(|host| host.id == id)
    {
        return Ok(host);
    }
    let mut named = cluster.hosts.iter().filter(|host| host.name == wanted);
    match (named.next(), named.next()) {
        (Some(host), None) => Ok(host),
        (Some(_), Some(_)) => Err(format!("several hosts are named {wanted}: give the number")),
        (None, _) => {
            let known = cluster.hosts.iter().map(|host| format!("{} ({})", host.id, host.name));
            let known: Vec<String> = known.collect();
            Err(format!("the cluster has no host {wanted}: it has {}", known.join(", ")))
        }
    }
}

/// A host, as text.
fn status(cluster: &Cluster, host: &Host) -> String {
    let Host { id, name, state, client, admin, .. } = host;
    if host.is_witness() {
        return format!(
            "host {id}: {name}, {state}, the witness: it votes and has no partitions\n"
        );
    }
    let listed = |is_in: &dyn Fn(&super::cluster::Partition) -> bool| {
        let numbers = cluster.partitions.iter().filter(|partition| is_in(partition));
        let numbers: Vec<String> = numbers.map(|partition| partition.id.to_string()).collect();
        if numbers.is_empty() { "nothing".to_string() } else { numbers.join(" ") }
    };
    let leads = listed(&|partition| partition.leader == *id);
    let follows = listed(&|partition| partition.followers.contains(id));
    let only = listed(&|partition| partition.leader == *id && partition.followers.is_empty());
    let mut out = format!("host {id}: {name}, {state}, client port {client}, admin port {admin}\n");
    out += &format!("  leads {leads}, follows {follows}\n");
    if only != "nothing" {
        out += &format!("  has the only copy of {only}: a stop would lose it\n");
    }
    if cluster.coordinator == *id {
        out += "  runs the transactions over several partitions\n";
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::cluster::Partition;

    fn cluster() -> Cluster {
        let named = |id, name: &str| Host { name: name.to_string(), ..Host::example(id, "up") };
        Cluster::example(
            vec![named(0, "red"), named(1, "blue"), named(2, "blue")],
            vec![Partition::example(0, 0, &[1]), Partition::example(1, 1, &[])],
        )
    }

    #[test]
    fn hosts_are_found_by_number_and_by_a_name_that_only_one_has() {
        let cluster = cluster();
        assert_eq!(find(&cluster, "1").map(|host| host.id), Ok(1));
        assert_eq!(find(&cluster, "red").map(|host| host.id), Ok(0));
        let refused = |name: &str| find(&cluster, name).err().expect("it is refused");
        assert!(refused("blue").contains("several hosts"));
        assert!(refused("7").contains("it has 0 (red), 1 (blue), 2 (blue)"));
    }

    #[test]
    fn the_status_of_a_host_names_what_its_stop_would_lose() {
        let cluster = cluster();
        let text = status(&cluster, &cluster.hosts[1]);
        assert!(text.contains("leads 1, follows 0") && text.contains("only copy of 1"), "{text}");
        let text = status(&cluster, &cluster.hosts[0]);
        assert!(text.contains("leads 0, follows nothing") && text.contains("over several"));
        assert!(!text.contains("only copy"), "{text}");
    }
}
