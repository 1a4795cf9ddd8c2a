//! Two hosts and a witness: any one of the three may be lost, and the witness comes back as hosts
//! do. With directories a majority of the three is enough for a start.

use crate::durability::data;
use crate::support::{PATIENCE, Peer, configuration, eventually};
use lockstep_durability::directory::{ClusterFile, SeveralHosts, initialize};
use lockstep_env::memory::MemoryDisk;
use lockstep_node::links::ClusterMembership;
use lockstep_node::log::{Durability, directory::new_cluster};
use lockstep_node::options::Options;
use lockstep_node::{Server, ServerConfiguration, Witness, WitnessConfiguration, local_cluster};
use lockstep_types::Datum::{Int, Text};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Instant;

/// Members of which a busy machine suspects none that runs.
const SLOW: [&str; 4] = [
    "heartbeat_interval_ms=100",
    "suspect_after_ms=1500",
    "lease_ms=1000",
    "cluster_start_timeout_ms=60000",
];

/// The same, with a start that ends soon where other members are refused.
const SHORT: [&str; 4] = [SLOW[0], SLOW[1], SLOW[2], "cluster_start_timeout_ms=8000"];

fn options(given: &[&str]) -> Options {
    let mut options = Options::default();
    given.iter().for_each(|option| options.set(option).expect("an option within its range"));
    options
}

/// Two hosts, each of which can be lost and started again, and their witness.
struct Members {
    hosts: Vec<ServerConfiguration>,
    witness: WitnessConfiguration,
    servers: Vec<Option<Server>>,
    running_witness: Option<Witness>,
}

impl Members {
    /// Two hosts with K = 1 and the witness, none of which runs.
    fn new(given: &[&str]) -> Members {
        let new = local_cluster::members_and_witness(2, 1, || configuration(1, given, None));
        let (hosts, membership) = new.expect("there are free ports");
        let witness = WitnessConfiguration { membership, options: options(given), data: None };
        Members { hosts, witness, servers: vec![None, None], running_witness: None }
    }

    /// The same with directories.
    fn durable(disks: &[MemoryDisk]) -> Members {
        let mut members = Members::new(&SLOW);
        members.use_disks(disks);
        members
    }

    fn use_disks(&mut self, disks: &[MemoryDisk]) {
        for (host, disk) in self.hosts.iter_mut().zip(disks) {
            host.data = Some(data(disk, Durability::Sync));
        }
        self.witness.data = Some(data(&disks[2], Durability::Sync));
    }

    /// Starts all members and waits until they are ready.
    fn start(mut self) -> Members {
        let witness = begin_witness(&self.witness);
        self.start_hosts();
        self.running_witness = Some(witness.join().expect("it starts").expect("it agrees"));
        self
    }

    fn start_hosts(&mut self) {
        let started = local_cluster::start(self.hosts.clone()).into_iter();
        self.servers = started.map(|server| Some(server.expect("the cluster is formed"))).collect();
    }

    fn start_witness(&mut self) {
        let witness = Witness::start(self.witness.clone());
        self.running_witness = Some(witness.expect("it takes part"));
    }

    fn lose(&mut self, member: usize) {
        match member {
            2 => drop(self.running_witness.take()),
            host => drop(self.servers[host].take()),
        }
    }

    fn bring_back(&mut self, member: usize) {
        match member {
            2 => self.start_witness(),
            host => {
                let server = Server::start(self.hosts[host].clone());
                self.servers[host] = Some(server.expect("it joins the cluster"));
            }
        }
    }

    fn peer(&self, host: usize) -> Peer {
        Peer::login(self.servers[host].as_ref().expect("it runs").client_address())
    }
}

/// Starts a witness, which waits for the hosts.
fn begin_witness(configuration: &WitnessConfiguration) -> JoinHandle<io::Result<Witness>> {
    let configuration = configuration.clone();
    std::thread::spawn(move || Witness::start(configuration))
}

/// The directories of two hosts and of their witness.
fn new_disks() -> Vec<MemoryDisk> {
    let several = Some(SeveralHosts { hosts: 2, sites: 1, kfactor: 1, witnesses: 1 });
    let host = || ClusterFile { several, ..new_cluster(1) };
    let witness = ClusterFile { is_witness: true, ..new_cluster(0) };
    let make = |file| {
        let disk = MemoryDisk::new();
        initialize(&disk, file).expect("an empty disk can be made");
        disk
    };
    [host(), host(), witness].map(make).into()
}

/// The state of the cluster, and by member its state and its role, as a host shows them.
fn shown(peer: &mut Peer) -> (String, Vec<[String; 2]>) {
    let answer = peer.call("@SystemInformation", &[Text("CLUSTER")]);
    let mut tables = answer.rows.split(';');
    let (cluster, hosts) = (tables.next().unwrap_or(""), tables.next().unwrap_or(""));
    let cell = |line: &str, at: usize| line.split(',').nth(at).unwrap_or("").to_string();
    let members = hosts.lines().map(|line| [cell(line, 2), cell(line, 5)]);
    (cell(cluster, 0), members.collect())
}

fn await_state(peer: &mut Peer, member: usize, state: &str) {
    eventually("a member has that state", || {
        shown(peer).1.get(member).is_some_and(|member| member[0] == state)
    });
}

/// Waits until all partitions have copies at both hosts.
fn await_copies(peer: &mut Peer) {
    eventually("all copies are in sync", || {
        let placed = crate::hand_over::partitions_of(peer);
        !placed.is_empty() && placed.iter().all(|(_, followers)| followers.len() == 1)
    });
}

fn make_table(peer: &mut Peer) {
    peer.run(
        "CREATE TABLE t (a BIGINT NOT NULL PRIMARY KEY);
         PARTITION TABLE t ON COLUMN a;",
    );
}

/// Inserts a row; while a host is being lost it is tried again until it is there.
fn insert(peer: &mut Peer, a: i64) {
    eventually("the row is inserted", || {
        let answer = peer.call("T.insert", &[Int(a)]);
        let is_there = answer.status == 1 || answer.text.contains("already");
        assert!(is_there || answer.status < 0, "{answer:?}");
        is_there || peer.call("T.select", &[Int(a)]).rows == a.to_string()
    });
}

/// Waits until a host counts this many rows.
fn await_count(peer: &mut Peer, count: i64) {
    eventually("all rows are there", || {
        let answer = peer.sql("SELECT COUNT(*) FROM t");
        assert!(answer.status != 1 || answer.rows == count.to_string(), "{answer:?}");
        answer.status == 1
    });
}

#[test]
fn each_of_two_hosts_and_a_witness_may_be_lost_and_comes_back() {
    let mut members = Members::new(&SLOW).start();
    make_table(&mut members.peer(0));
    let mut rows = 0;
    for victim in [2, 1, 0, 2, 0] {
        let others = [0, 1].into_iter().filter(|host| *host != victim);
        members.lose(victim);
        for host in others.clone() {
            let peer = &mut members.peer(host);
            insert(peer, rows);
            rows += 1;
            await_state(peer, victim, "down");
            insert(peer, rows);
            rows += 1;
            assert_eq!(shown(peer).0, "running");
        }
        members.bring_back(victim);
        for host in [0, 1] {
            let peer = &mut members.peer(host);
            await_state(peer, victim, "up");
            await_copies(peer);
            await_count(peer, rows);
        }
    }
    let (_, shown) = shown(&mut members.peer(0));
    let roles = [["up", "host"], ["up", "host"], ["up", "witness"]];
    assert_eq!(shown, roles.map(|member| member.map(str::to_string)));
}

#[test]
fn no_client_is_sent_to_a_witness_and_it_leads_nothing() {
    let members = Members::new(&SLOW).start();
    for host in [0, 1] {
        let peer = &mut members.peer(host);
        let overview = peer.call("@SystemInformation", &[Text("OVERVIEW")]).rows;
        let mut ids: Vec<&str> = overview.lines().filter_map(|row| row.split(',').next()).collect();
        ids.dedup();
        assert_eq!(ids, ["0", "1"], "{overview}");
        let memory = peer.call("@Statistics", &[Text("MEMORY"), Int(0)]).rows;
        let ids: Vec<&str> = memory.lines().filter_map(|row| row.split(',').nth(1)).collect();
        assert_eq!(ids, ["0", "1"], "{memory}");
        let topology = peer.call("@Statistics", &[Text("TOPO"), Int(0)]).rows;
        let sites = topology.split(';').next().expect("a table");
        assert!(sites.contains("0:0") && !sites.contains("2:"), "{sites}");
        let hosts = peer.call("@SystemInformation", &[Text("CLUSTER")]).rows;
        let hosts = hosts.split(';').nth(1).expect("a table of the members");
        let line = hosts.lines().find(|line| line.contains(",witness,")).expect("it is shown");
        assert!(
            line.ends_with(",up,,,witness,,"),
            "it has no ports for clients, no group and no plan: {line}"
        );
        for procedure in ["@StopNode", "@PrepareStopNode"] {
            let refused = peer.call(procedure, &[Int(2)]);
            assert!(refused.text.contains("Host 2 is the witness"), "{refused:?}");
        }
    }
}

#[test]
fn without_the_witness_and_a_host_the_other_one_serves_nothing_and_says_so() {
    let mut members = Members::new(&SLOW).start();
    make_table(&mut members.peer(0));
    members.lose(2);
    await_state(&mut members.peer(0), 2, "down");
    members.lose(1);
    let peer = &mut members.peer(0);
    eventually("it is alone", || shown(peer).0 == "no majority");
    let refused = peer.call("T.insert", &[Int(1)]);
    assert_eq!(refused.status, -5, "{refused:?}");
    assert!(refused.text.contains("not connected with a majority"), "{refused:?}");
}

/// Forwards connections to a host until they are cut.
struct Relay {
    address: SocketAddr,
    /// Both ends of each connection; none once they are cut.
    open: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

impl Relay {
    fn to(target: SocketAddr) -> Relay {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let open = Arc::new(Mutex::new(Some(Vec::new())));
        let of_thread = Arc::clone(&open);
        std::thread::spawn(move || {
            for incoming in listener.incoming() {
                let Ok(incoming) = incoming else { return };
                let Ok(outgoing) = TcpStream::connect(target) else { continue };
                let mut open = of_thread.lock().expect("no thread panicked with it");
                let Some(open) = open.as_mut() else { return };
                for (from, to) in [(&incoming, &outgoing), (&outgoing, &incoming)] {
                    let (from, to) = (from.try_clone(), to.try_clone());
                    let (from, to) = (from.expect("a socket"), to.expect("a socket"));
                    open.push(from.try_clone().expect("a socket"));
                    std::thread::spawn(move || forward(from, to));
                }
            }
        });
        Relay { address, open }
    }

    fn cut(&self) {
        let open = self.open.lock().expect("no thread panicked with it").take();
        for stream in open.expect("it is cut once") {
            // The other end may have closed it before.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    let mut bytes = vec![0; 1 << 16];
    loop {
        let read = match from.read(&mut bytes) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other.unwrap_or(0),
        };
        if read == 0 || to.write_all(&bytes[..read]).is_err() {
            // The other end may have closed it before.
            let _ = to.shutdown(Shutdown::Both);
            return;
        }
    }
}

#[test]
fn of_two_hosts_that_are_cut_from_each_other_exactly_one_goes_on() {
    let mut members = Members::new(&SLOW);
    let address = |members: &Members, host: usize| {
        members.hosts[host].cluster.as_ref().map(ClusterMembership::own_address)
    };
    let mut relays = Vec::new();
    for (host, other) in [(0, 1), (1, 0)] {
        let relay = Relay::to(address(&members, other).expect("it is a member"));
        let membership = members.hosts[host].cluster.as_mut().expect("it is a member");
        membership.addresses[other] = relay.address;
        relays.push(relay);
    }
    let members = members.start();
    let mut peers = [members.peer(0), members.peer(1)];
    make_table(&mut peers[0]);
    (0..20).for_each(|a| insert(&mut peers[a as usize % 2], a));
    relays.iter().for_each(Relay::cut);
    let states = |peers: &mut [Peer; 2]| peers.each_mut().map(|peer| shown(peer).0);
    eventually("one of them serves nothing", || {
        states(&mut peers).iter().filter(|state| *state == "no majority").count() == 1
    });
    let goes_on = states(&mut peers).iter().position(|state| state == "running");
    let goes_on = goes_on.expect("the other one goes on");
    insert(&mut peers[goes_on], 20);
    await_count(&mut peers[goes_on], 21);
    let refused = peers[1 - goes_on].call("T.insert", &[Int(21)]);
    assert_eq!(refused.status, -5, "{refused:?}");
    let down = shown(&mut peers[goes_on]).1.into_iter().map(|member| member[0] == "down");
    assert_eq!(down.collect::<Vec<_>>(), [goes_on == 1, goes_on == 0, false]);
}

#[test]
fn hosts_in_memory_that_are_all_started_again_form_a_cluster_with_the_witness_that_ran_on() {
    let mut members = Members::new(&SLOW).start();
    make_table(&mut members.peer(0));
    members.lose(0);
    members.lose(1);
    members.start_hosts();
    let peer = &mut members.peer(0);
    make_table(peer);
    insert(peer, 1);
    members.lose(1);
    insert(&mut members.peer(0), 2);
    await_count(&mut members.peer(0), 2);
}

#[test]
fn a_witness_of_a_cluster_that_is_over_ends_and_one_with_a_new_directory_takes_its_place() {
    let mut members = Members::durable(&new_disks()).start();
    make_table(&mut members.peer(0));
    members.lose(0);
    members.lose(1);
    let disks = new_disks();
    members.hosts[0].data = Some(data(&disks[0], Durability::Sync));
    members.hosts[1].data = Some(data(&disks[1], Durability::Sync));
    let ended = Arc::new(AtomicBool::new(false));
    let witness = members.running_witness.take().expect("it runs");
    let sees_end = Arc::clone(&ended);
    witness.on_end(move || sees_end.store(true, Ordering::Release));
    let hosts = members.hosts.clone();
    let started = std::thread::spawn(move || local_cluster::start(hosts));
    eventually("the witness ends", || ended.load(Ordering::Acquire));
    let problem = witness.stop().expect_err("its cluster is over").to_string();
    assert!(problem.contains("the directory of the witness is of their cluster before"));
    members.witness.data = Some(data(&disks[2], Durability::Sync));
    members.start_witness();
    let started = started.join().expect("the starts end").into_iter();
    members.servers = started.map(|server| Some(server.expect("the cluster is formed"))).collect();
    make_table(&mut members.peer(0));
    members.lose(1);
    insert(&mut members.peer(0), 1);
}

#[test]
fn a_start_from_directories_needs_a_majority_of_the_hosts_and_the_witness() {
    let disks = new_disks();
    let mut members = Members::durable(&disks).start();
    make_table(&mut members.peer(0));
    insert(&mut members.peer(1), 1);
    (0..3).for_each(|member| members.lose(member));
    // Two hosts are a majority.
    members.use_disks(&disks);
    members.start_hosts();
    let peer = &mut members.peer(0);
    await_state(peer, 2, "down");
    insert(peer, 2);
    // It comes back with its directory, and also with a new one.
    let new_directory = new_disks().swap_remove(2);
    for disk in [&disks[2], &new_directory] {
        members.lose(2);
        await_state(peer, 2, "down");
        members.witness.data = Some(data(disk, Durability::Sync));
        members.start_witness();
        await_state(peer, 2, "up");
    }
    let disks = [&disks[0], &disks[1], &new_directory].map(MemoryDisk::clone);
    // It votes: without it the loss of a host would end the service.
    members.lose(1);
    insert(peer, 3);
    await_count(peer, 3);
    (0..3).for_each(|member| members.lose(member));
    // A host and the witness are a majority, the host alone is none.
    members.use_disks(&disks);
    let mut alone = members.hosts[0].clone();
    alone.options = options(&["cluster_start_timeout_ms=1000"]);
    alone.options.suspect_after_ms = members.hosts[0].options.suspect_after_ms;
    alone.options.heartbeat_interval_ms = members.hosts[0].options.heartbeat_interval_ms;
    alone.options.lease_ms = members.hosts[0].options.lease_ms;
    let problem = Server::start(alone).err().expect("it is alone").to_string();
    assert!(problem.contains("the witness (host 2) at "), "{problem}");
    members.use_disks(&disks);
    let witness = begin_witness(&members.witness);
    members.bring_back(0);
    members.running_witness = Some(witness.join().expect("it starts").expect("it agrees"));
    await_count(&mut members.peer(0), 3);
    insert(&mut members.peer(0), 4);
}

#[test]
fn a_start_that_failed_can_be_tried_again_at_once() {
    let mut members = Members::new(&[SLOW[0], SLOW[1], SLOW[2], "cluster_start_timeout_ms=500"]);
    let free = |membership: &ClusterMembership| {
        // As a host does, the standard library reuses addresses.
        let address = membership.own_address();
        drop(TcpListener::bind(address).expect("nobody listens there any more"));
    };
    let disks = new_disks();
    for attempt in 0..6 {
        // From a host in memory to hosts with directories: they wait at different moments.
        if attempt == 4 {
            members.use_disks(&disks);
        }
        let host = &members.hosts[0];
        let problem = Server::start(host.clone()).err().expect("it is alone").to_string();
        assert!(problem.contains("500 ms (option cluster_start_timeout_ms)"), "{problem}");
        assert!(problem.contains("host 1 at "), "{problem}");
        free(host.cluster.as_ref().expect("a member"));
        let witness = Witness::start(members.witness.clone());
        let problem = witness.err().expect("it is alone").to_string();
        assert!(problem.contains("host 0 at "), "{problem}");
        free(&members.witness.membership);
    }
    members.hosts.iter_mut().for_each(|host| host.options = options(&SLOW));
    members.witness.options = options(&SLOW);
    let members = members.start();
    make_table(&mut members.peer(0));
    insert(&mut members.peer(1), 1);
}

/// Starts the hosts and the witness, which do not fit together; what the starts end with.
fn refused(members: Members) -> Vec<String> {
    let witness = begin_witness(&members.witness);
    let hosts = local_cluster::start(members.hosts);
    let problems = hosts.into_iter().map(|server| server.err().map(|error| error.to_string()));
    let begun = Instant::now();
    while !witness.is_finished() {
        assert!(begun.elapsed() < PATIENCE, "the witness does not end");
        std::thread::yield_now();
    }
    let witness = witness.join().expect("it ends").err().map(|error| error.to_string());
    problems.chain([witness]).flatten().collect()
}

#[test]
fn members_that_do_not_fit_are_refused_by_name() {
    let mut members = Members::new(&SHORT);
    members.witness.options = options(&["suspect_after_ms=1600", "lease_ms=1000"]);
    members.witness.options.heartbeat_interval_ms = members.hosts[0].options.heartbeat_interval_ms;
    members.witness.membership.terms.times_ms[1] = 1600;
    let problems = refused(members);
    assert!(problems.iter().any(|it| it.contains("suspect_after_ms=1600")), "{problems:?}");

    let mut members = Members::new(&SHORT);
    members.witness.data = Some(data(&new_disks()[2], Durability::Sync));
    let problems = refused(members);
    assert!(problems.iter().any(|it| it.contains("a witness has a directory")), "{problems:?}");

    let mut members = Members::new(&SHORT);
    members.witness.data = Some(data(&new_disks()[0], Durability::Sync));
    let problem = Witness::start(members.witness).err().expect("it is of a host").to_string();
    assert!(problem.contains("is the directory of a host"), "{problem}");

    let mut members = Members::new(&SHORT);
    members.hosts[0].cluster.as_mut().expect("a member").terms.kfactor = 0;
    let problem = Server::start(members.hosts.swap_remove(0)).err().expect("it is of no use");
    assert!(problem.to_string().contains("K is 0"), "{problem}");
}
