//! Leaders that are moved on purpose: no call fails, none is lost, and none takes effect twice.

use crate::support::{Peer, configuration, eventually};
use lockstep_node::{Server, local_cluster};
use lockstep_types::Datum::{Int, Text};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Hosts of which a busy machine suspects none that runs.
pub(crate) const SLOW: [&str; 4] = [
    "heartbeat_interval_ms=200",
    "suspect_after_ms=5000",
    "lease_ms=1000",
    "cluster_start_timeout_ms=60000",
];

pub(crate) const ROWS: i64 = 60;

/// Three hosts with two sites each and K + 1 copies of each partition.
pub(crate) fn cluster(kfactor: u8, options: &[&str]) -> Vec<Server> {
    let options = [&SLOW, options].concat();
    let members = local_cluster::members(3, kfactor, || configuration(2, &options, None));
    let started = local_cluster::start(members.expect("there are free ports"));
    let servers = started.into_iter().collect::<std::io::Result<Vec<Server>>>();
    servers.expect("the cluster is formed")
}

/// By partition, its leader and its followers, as a host shows them.
pub(crate) fn partitions_of(peer: &mut Peer) -> Vec<(i64, Vec<i64>)> {
    let answer = peer.call("@SystemInformation", &[Text("CLUSTER")]);
    assert_eq!(answer.status, 1, "{}", answer.text);
    let table = answer.rows.split(';').nth(2).expect("three tables");
    let host = |text: &str| text.parse().expect("hosts have numbers");
    let partition = |line: &str| {
        let cells: Vec<&str> = line.split(',').collect();
        // The followers are listed with commas too.
        let followers = cells[2..cells.len() - 2].iter().filter(|cell| !cell.is_empty());
        (host(cells[1]), followers.map(|cell| host(cell.trim_matches('"'))).collect())
    };
    table.lines().map(partition).collect()
}

/// The epoch of the first partition.
fn epoch_of_first(peer: &mut Peer) -> i64 {
    let rows = peer.call("@SystemInformation", &[Text("CLUSTER")]).rows;
    let first = rows.split(';').nth(2).and_then(|table| table.lines().next());
    let epoch = first.and_then(|line| line.rsplit(',').nth(1)).expect("no host is lost");
    epoch.parse().expect("epochs are numbers")
}

/// What a thread of calls has seen.
pub(crate) struct Seen {
    pub(crate) calls: i64,
    /// Responses that are no success.
    pub(crate) failures: Vec<String>,
    pub(crate) longest: Duration,
}

/// Says when calls are to end, and how many were made.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) is_over: AtomicBool,
    calls: AtomicU64,
}

impl Load {
    /// Waits until more calls were made.
    pub(crate) fn go_on(&self) {
        let until = self.calls.load(Ordering::Relaxed) + 20;
        eventually("calls are made", || self.calls.load(Ordering::Relaxed) >= until);
    }
}

/// Makes calls until they are to end.
pub(crate) fn run_calls(
    address: SocketAddr,
    load: &Arc<Load>,
    call: impl Fn(&mut Peer, i64) -> (i8, String) + Send + 'static,
) -> JoinHandle<Seen> {
    let load = Arc::clone(load);
    std::thread::spawn(move || {
        let mut peer = Peer::login(address);
        let mut seen = Seen { calls: 0, failures: Vec::new(), longest: Duration::ZERO };
        while !load.is_over.load(Ordering::Relaxed) {
            let began = Instant::now();
            let (status, text) = call(&mut peer, seen.calls);
            seen.longest = seen.longest.max(began.elapsed());
            if status != 1 {
                seen.failures.push(format!("{status}: {text}"));
            }
            seen.calls += 1;
            load.calls.fetch_add(1, Ordering::Relaxed);
        }
        seen
    })
}

pub(crate) fn schema(peer: &mut Peer) {
    peer.run(
        "CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
         PARTITION TABLE t ON COLUMN id;
         CREATE TABLE r (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
         CREATE PROCEDURE bump PARTITION ON TABLE t COLUMN id AS
             UPDATE t SET n = n + 1 WHERE id = ?;
         CREATE PROCEDURE bumpall AS UPDATE t SET n = n + 1 WHERE id < ?;
         CREATE PROCEDURE bumpr AS UPDATE r SET n = n + 1 WHERE id = ?;",
    );
    for id in 0..ROWS {
        assert_eq!(peer.call("T.insert", &[Int(id), Int(0)]).status, 1);
    }
    assert_eq!(peer.call("R.insert", &[Int(1), Int(0)]).status, 1);
}

#[test]
fn leaders_move_while_calls_run_and_none_fails_or_is_lost() {
    for kfactor in [1, 2] {
        let servers = cluster(kfactor, &[]);
        let address = |host: usize| servers[host].client_address();
        let mut admin = Peer::login(servers[0].admin_address());
        schema(&mut admin);
        let load = Arc::new(Load::default());
        let bump = |host: usize| {
            run_calls(address(host), &load, move |peer, number| {
                let answer = peer.call("bump", &[Int((number * 7 + host as i64) % ROWS)]);
                (answer.status, answer.text)
            })
        };
        let bumps: Vec<JoinHandle<Seen>> = (0..3).map(bump).collect();
        let all = run_calls(address(1), &load, |peer, number| {
            let answer = match number % 2 {
                0 => peer.call("bumpall", &[Int(ROWS)]),
                _ => peer.call("bumpr", &[Int(1)]),
            };
            (answer.status, answer.text)
        });
        for round in 0..6 {
            for (partition, (leader, followers)) in (0..).zip(partitions_of(&mut admin)) {
                let to = followers[round % followers.len()];
                load.go_on();
                let began = Instant::now();
                let answer = admin.call("@MigratePartitionLeader", &[Int(partition), Int(to)]);
                assert_eq!(answer.status, 1, "{partition} from {leader} to {to}: {answer:?}");
                println!("partition {partition}: {leader} to {to} in {:?}", began.elapsed());
            }
        }
        load.is_over.store(true, Ordering::Relaxed);
        let bumps: Vec<Seen> = bumps.into_iter().map(|it| it.join().expect("it ends")).collect();
        let all = all.join().expect("it ends");
        for seen in bumps.iter().chain([&all]) {
            println!("{} calls, the longest took {:?}", seen.calls, seen.longest);
            assert!(seen.failures.is_empty(), "K = {kfactor}: {:?}", seen.failures);
        }
        let single: i64 = bumps.iter().map(|seen| seen.calls).sum();
        let expected = single + (all.calls + 1) / 2 * ROWS;
        assert_eq!(admin.run("SELECT SUM(n) FROM t"), expected.to_string());
        assert_eq!(admin.run("SELECT n FROM r"), (all.calls / 2).to_string());
        // What was moved has its copies, which lead when their host is lost.
        let leads = partitions_of(&mut admin);
        assert!(leads.iter().all(|(_, followers)| followers.len() == usize::from(kfactor)));
    }
}

#[test]
fn a_move_that_cannot_be_is_refused_and_says_why() {
    let servers = cluster(1, &[]);
    let mut admin = Peer::login(servers[1].admin_address());
    let placed = partitions_of(&mut admin);
    let (leader, followers) = placed[0].clone();
    let other = (0..3).find(|host| *host != leader && !followers.contains(host)).expect("K = 1");
    let mut refused = |partition, host| {
        let answer = admin.call("@MigratePartitionLeader", &[Int(partition), Int(host)]);
        (answer.status, answer.text)
    };
    let (status, text) = refused(0, other);
    assert!(status == -2 && text.contains("no copy of partition 0 that is in sync"), "{text}");
    for (partition, host, part) in
        [(99, 0, "no such partition"), (-1, 0, "no such partition"), (0, 9, "Invalid Host Id")]
    {
        let (status, text) = refused(partition, host);
        assert!(status == -2 && text.contains(part), "{text}");
    }
    let (status, text) = refused(0, leader);
    assert!(status == 1 && text.contains("leads partition 0 already"), "{text}");
    let mut client = Peer::login(servers[1].client_address());
    let answer = client.call("@MigratePartitionLeader", &[Int(0), Int(followers[0])]);
    assert!(answer.status != 1 && answer.text.contains("not available to this client"));
    assert_eq!(partitions_of(&mut admin), placed, "nothing has happened");
}

#[test]
fn a_host_whose_leaders_have_moved_leads_nothing_and_its_loss_costs_no_partition() {
    let mut servers: Vec<Option<Server>> = cluster(1, &[]).into_iter().map(Some).collect();
    let server = |host: usize| servers[host].as_ref().expect("it runs");
    let mut admin = Peer::login(server(0).admin_address());
    schema(&mut admin);
    let answer = admin.call("@PrepareStopNode", &[Int(2)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(partitions_of(&mut admin).iter().all(|(leader, _)| *leader != 2));
    drop(servers[2].take());
    for id in 0..ROWS {
        // Nothing is led there: no call is in progress there whose outcome nobody knows.
        assert_eq!(admin.call("bump", &[Int(id)]).status, 1);
    }
    assert_eq!(admin.run("SELECT SUM(n) FROM t"), ROWS.to_string());
    assert!(partitions_of(&mut admin).iter().all(|(_, followers)| !followers.contains(&2)));
}

/// Leaders move, and the host that leads or the one that is to lead is lost in the middle.
#[test]
fn a_host_that_is_lost_while_leaders_move_costs_nothing_that_was_answered() {
    for lost in [0, 2] {
        let mut servers: Vec<Option<Server>> = cluster(1, &[]).into_iter().map(Some).collect();
        let address = |host: usize| servers[host].as_ref().expect("it runs").client_address();
        let admin_address = servers[1].as_ref().expect("it runs").admin_address();
        schema(&mut Peer::login(admin_address));
        let load = Arc::new(Load::default());
        let bumps: Vec<JoinHandle<Seen>> = [0, 1]
            .map(|number| {
                run_calls(address(1), &load, move |peer, call| {
                    let answer = peer.call("bump", &[Int((call * 7 + number) % ROWS)]);
                    (answer.status, answer.text)
                })
            })
            .into();
        let mover = run_calls(admin_address, &load, |admin, number| {
            let placed = partitions_of(admin);
            let Some((_, followers)) = placed.get(number as usize % 3) else {
                return (1, "".into());
            };
            if let Some(to) = followers.first() {
                admin.call("@MigratePartitionLeader", &[Int(number % 3), Int(*to)]);
            }
            (1, String::new())
        });
        (0..5).for_each(|_| load.go_on());
        drop(servers[lost].take());
        (0..20).for_each(|_| load.go_on());
        load.is_over.store(true, Ordering::Relaxed);
        mover.join().expect("it ends");
        let bumps: Vec<Seen> = bumps.into_iter().map(|it| it.join().expect("it ends")).collect();
        let calls: i64 = bumps.iter().map(|seen| seen.calls).sum();
        let failures: Vec<&String> = bumps.iter().flat_map(|seen| &seen.failures).collect();
        // What was in progress there may have been executed.
        assert!(failures.iter().all(|text| text.starts_with("-7")), "{failures:?}");
        let mut peer = Peer::login(address_of(&servers, 1));
        let sum: i64 = peer.run("SELECT SUM(n) FROM t").parse().expect("a number");
        let answered = calls - failures.len() as i64;
        assert!((answered..=calls).contains(&sum), "{sum} of {answered} answered, {calls} calls");
    }
}

fn address_of(servers: &[Option<Server>], host: usize) -> SocketAddr {
    servers[host].as_ref().expect("it runs").client_address()
}

/// What is in progress over several partitions goes on, and with it the leader.
#[test]
fn a_leader_stays_where_a_transaction_takes_longer_than_a_move_may() {
    let servers = cluster(1, &["hand_over_timeout_ms=50"]);
    let mut admin = Peer::login(servers[0].admin_address());
    schema(&mut admin);
    for id in 2..500 {
        assert_eq!(admin.call("R.insert", &[Int(id), Int(0)]).status, 1);
    }
    let placed = partitions_of(&mut admin);
    let load = Arc::new(Load::default());
    let slow = run_calls(servers[1].client_address(), &load, |peer, _| {
        let answer = peer.sql("SELECT COUNT(*) FROM t, r a, r b WHERE t.n + a.n + b.n < 0");
        (answer.status, answer.text)
    });
    let (mut refused, mut before) = (String::new(), 0);
    eventually("a move takes too long", || {
        let leader = partitions_of(&mut admin)[0].0;
        let to = if leader == placed[0].0 { placed[0].1[0] } else { placed[0].0 };
        before = epoch_of_first(&mut admin);
        let answer = admin.call("@MigratePartitionLeader", &[Int(0), Int(to)]);
        refused.clone_from(&answer.text);
        answer.status != 1
    });
    assert!(refused.contains("hand_over_timeout_ms"), "{refused}");
    // It was given up, which is an epoch, and did not begin again.
    let mut after = 0;
    eventually("the host knows that the move was given up", || {
        after = epoch_of_first(&mut admin);
        after > before
    });
    assert_eq!(after, before + 1);
    assert_eq!(admin.call("bump", &[Int(1)]).status, 1, "the leader goes on");
    load.is_over.store(true, Ordering::Relaxed);
    assert_eq!(slow.join().expect("it ends").failures, [""; 0]);
    assert_eq!(admin.call("bumpall", &[Int(ROWS)]).status, 1);
}

#[test]
fn more_calls_than_may_wait_for_leaders_are_refused_by_name() {
    let servers = cluster(1, &["max_waiting_moves=1"]);
    let mut admin = Peer::login(servers[0].admin_address());
    let placed = partitions_of(&mut admin);
    let load = Arc::new(Load::default());
    let movers: Vec<JoinHandle<Seen>> = [0, 1]
        .map(|partition: i64| {
            let (leader, followers) = placed[partition as usize].clone();
            let hosts = [followers[0], leader];
            run_calls(servers[0].admin_address(), &load, move |admin, number| {
                let to = hosts[number as usize % 2];
                let answer = admin.call("@MigratePartitionLeader", &[Int(partition), Int(to)]);
                (answer.status, answer.text)
            })
        })
        .into();
    (0..5).for_each(|_| load.go_on());
    load.is_over.store(true, Ordering::Relaxed);
    let seen = movers.into_iter().map(|it| it.join().expect("it ends"));
    let refused: Vec<String> = seen.flat_map(|seen| seen.failures).collect();
    let names = |text: &&String| text.contains("max_waiting_moves");
    assert!(refused.iter().any(|text| names(&text)), "two calls were never made at a time");
    assert!(refused.iter().all(|text| names(&text)), "{refused:?}");
}
