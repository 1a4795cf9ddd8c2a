//! Placement groups: the copies of a partition are at hosts of different groups, so that all hosts
//! of one group can be lost together.

use crate::durability::data;
use crate::hand_over::SLOW;
use crate::support::{Peer, configuration, eventually};
use lockstep_durability::directory::{ClusterFile, SeveralHosts, initialize};
use lockstep_env::memory::{MemoryDisk, Survival};
use lockstep_node::log::{Durability, directory::new_cluster};
use lockstep_node::{Server, ServerConfiguration, local_cluster};
use lockstep_types::Datum::{Int, Text};
use std::cell::Cell;

/// By host, its placement group.
const GROUPS: [&str; 5] = ["rack-1", "rack-1", "rack-2", "rack-2", "rack-3"];
const ROWS: i64 = 200;

fn members(groups: &[&str]) -> Vec<ServerConfiguration> {
    members_with(groups, || configuration(2, &SLOW, None))
}

fn members_with(
    groups: &[&str],
    configuration: impl Fn() -> ServerConfiguration,
) -> Vec<ServerConfiguration> {
    let members = local_cluster::members(groups.len() as u32, 1, configuration);
    let mut members = members.expect("there are free ports");
    for (member, group) in members.iter_mut().zip(groups) {
        let membership = member.cluster.as_mut().expect("it is a member");
        membership.placement_group = (*group).to_string();
    }
    members
}

fn start(members: &[ServerConfiguration]) -> Vec<Option<Server>> {
    let started = local_cluster::start(members.to_vec()).into_iter();
    started.map(|server| Some(server.expect("the cluster is formed"))).collect()
}

fn login(servers: &[Option<Server>], host: usize) -> Peer {
    Peer::login(servers[host].as_ref().expect("it runs").client_address())
}

/// By partition, the hosts with a copy, the leader first; and by host, its group as it is shown.
fn placed(peer: &mut Peer) -> (Vec<Vec<usize>>, Vec<String>) {
    let answer = peer.call("@SystemInformation", &[Text("CLUSTER")]);
    assert_eq!(answer.status, 1, "{}", answer.text);
    let tables: Vec<&str> = answer.rows.split(';').collect();
    let columns = |table: &str| -> Vec<Vec<String>> {
        table.lines().map(|line| line.split(',').map(str::to_string).collect()).collect()
    };
    let groups = columns(tables[1]).into_iter().map(|mut row| row.remove(6)).collect();
    let hosts = |row: Vec<String>| row[1..=2].iter().filter_map(|host| host.parse().ok()).collect();
    (columns(tables[2]).into_iter().map(hosts).collect(), groups)
}

/// The number of partitions with two copies in one group.
fn sharing(partitions: &[Vec<usize>]) -> usize {
    let shares = |hosts: &&Vec<usize>| hosts.len() == 2 && GROUPS[hosts[0]] == GROUPS[hosts[1]];
    partitions.iter().filter(shares).count()
}

#[test]
fn all_hosts_of_a_group_are_lost_and_nothing_is() {
    let members = members(&GROUPS);
    let mut servers = start(&members);
    let mut peer = login(&servers, 4);
    let (partitions, groups) = placed(&mut peer);
    assert_eq!((partitions.len(), groups), (5, GROUPS.map(str::to_string).to_vec()));
    assert_eq!(sharing(&partitions), 0, "{partitions:?}");
    let overview = peer.call("@SystemInformation", &[Text("OVERVIEW")]).rows;
    for (host, group) in GROUPS.iter().enumerate() {
        let row = format!("{host},PLACEMENTGROUP,{group}");
        assert!(overview.lines().any(|line| line == row), "{row}: {overview}");
    }
    peer.run("CREATE TABLE t (k BIGINT NOT NULL, PRIMARY KEY (k)); PARTITION TABLE t ON COLUMN k");
    for row in 0..ROWS {
        assert_eq!(peer.call("t.insert", &[Int(row)]).status, 1);
    }
    // One is lost and comes back: its copies are loaded there again.
    drop(servers[2].take());
    eventually("host 2 is lost", || placed(&mut peer).0.iter().any(|hosts| hosts.len() == 1));
    servers[2] = Some(Server::start(members[2].clone()).expect("it joins the cluster"));
    eventually("all copies are in sync", || {
        placed(&mut peer).0.iter().all(|hosts| hosts.len() == 2)
    });
    assert_eq!(sharing(&placed(&mut peer).0), 0);
    // The whole group is lost, at the same time.
    let lost: Vec<Server> = [0, 1].into_iter().filter_map(|host| servers[host].take()).collect();
    let ends: Vec<_> = lost.into_iter().map(|it| std::thread::spawn(move || drop(it))).collect();
    ends.into_iter().for_each(|end| end.join().expect("it ends"));
    let mut peer = login(&servers, 3);
    eventually("the others have taken over", || {
        let answer = peer.sql("SELECT COUNT(*) FROM t");
        answer.status == 1 && answer.rows == ROWS.to_string()
    });
}

#[test]
fn a_cluster_with_groups_and_logs_comes_back_after_a_power_cut() {
    let several = Some(SeveralHosts { hosts: 4, sites: 2, kfactor: 1, witnesses: 0 });
    let make = |_| {
        let disk = MemoryDisk::new();
        let file = ClusterFile { several, ..new_cluster(4) };
        initialize(&disk, file).expect("an empty disk can be made");
        disk
    };
    let disks: Vec<MemoryDisk> = (0..4).map(make).collect();
    let start_with = |disks: &[MemoryDisk]| {
        let number = Cell::new(0);
        let host = || {
            let disk = &disks[number.replace(number.get() + 1)];
            configuration(2, &SLOW, Some(data(disk, Durability::Sync)))
        };
        start(&members_with(&GROUPS[..4], host))
    };
    let servers = start_with(&disks);
    let mut peer = login(&servers, 0);
    assert_eq!(sharing(&placed(&mut peer).0), 0);
    peer.run("CREATE TABLE t (k BIGINT NOT NULL, PRIMARY KEY (k)); PARTITION TABLE t ON COLUMN k");
    for row in 0..ROWS {
        assert_eq!(peer.call("t.insert", &[Int(row)]).status, 1);
    }
    let survivors = MemoryDisk::survivors(&disks, |_| Survival::Lost);
    drop(servers);
    let servers = start_with(&survivors);
    let mut peer = login(&servers, 3);
    assert_eq!(peer.run("SELECT COUNT(*) FROM t"), ROWS.to_string());
    assert_eq!(sharing(&placed(&mut peer).0), 0);
}

#[test]
fn hosts_with_a_group_and_hosts_without_are_no_cluster() {
    let mut members = members(&["rack-1", "0", "rack-2"]);
    for member in &mut members {
        member.options.set("cluster_start_timeout_ms=8000").expect("within its range");
    }
    let started = local_cluster::start(members).into_iter();
    let errors = started.map(|it| it.err().expect("it is refused").to_string());
    let errors: Vec<String> = errors.collect();
    // The last one may find that the others have ended.
    assert!(errors.iter().any(|error| error.contains("placement_groups=")), "{errors:?}");
}

#[test]
fn hosts_that_name_no_group_are_of_one() {
    let servers = start(&members(&["0"; 5]));
    let mut peer = login(&servers, 0);
    let (partitions, groups) = placed(&mut peer);
    assert_eq!(groups, ["0"; 5].map(str::to_string).to_vec());
    assert!(
        sharing(&partitions) > 0,
        "the groups of the other test change nothing: {partitions:?}"
    );
}

#[test]
fn names_of_groups_that_cannot_be_are_refused() {
    for (name, text) in [
        ("", "the name of a placement group has 1 to 64 bytes, not 0"),
        ("a b", "the name of a placement group has ' '"),
        (&"g".repeat(65), "1 to 64 bytes, not 65"),
    ] {
        let start = Server::start(members(&[name, "rack-2"]).remove(0));
        let error = start.err().expect("it is refused").to_string();
        assert!(error.contains(text), "{error}");
    }
}
