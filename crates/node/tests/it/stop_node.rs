//! One host of a cluster is stopped by an administrator while the others go on.

use crate::hand_over::{Load, ROWS, Seen, cluster, partitions_of, run_calls, schema};
use crate::support::{Peer, eventually};
use lockstep_node::Server;
use lockstep_types::Datum::{Int, Text};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Hosts that notice a loss soon, and of which a busy machine suspects none that runs.
const TIMES: [&str; 3] = ["heartbeat_interval_ms=100", "suspect_after_ms=2000", "lease_ms=800"];
const SUSPECT_AFTER: Duration = Duration::from_millis(2_000);

/// The hosts, and the numbers of those that are to stop.
fn stoppable() -> (Vec<Option<Server>>, Receiver<usize>) {
    let servers = cluster(1, &TIMES);
    let (stopped, stops) = channel();
    for (host, server) in servers.iter().enumerate() {
        let stopped = stopped.clone();
        server.on_shutdown(move || {
            // Nobody listens at the end of the test.
            let _ = stopped.send(host);
        });
    }
    (servers.into_iter().map(Some).collect(), stops)
}

/// Stops the next host that is to stop.
fn stop_next(servers: &mut [Option<Server>], stops: &Receiver<usize>) -> usize {
    let host = stops.recv_timeout(Duration::from_secs(60)).expect("a host is to stop");
    let server = servers[host].take().expect("it runs");
    server.stop().expect("it stops in order");
    host
}

fn refused(admin: &mut Peer, host: i64) -> String {
    let answer = admin.call("@StopNode", &[Int(host)]);
    assert_eq!(answer.status, -2, "{answer:?}");
    answer.text
}

/// Stops a host while clients of the others make calls.
fn stop_under_load(stopped: usize) {
    let (mut servers, stops) = stoppable();
    let server = |host: usize| servers[host].as_ref().expect("it runs");
    let others: Vec<usize> = (0..3).filter(|host| *host != stopped).collect();
    let mut admin = Peer::login(server(others[1]).admin_address());
    schema(&mut admin);
    let load = Arc::new(Load::default());
    let bump = |host: &usize| {
        let first = *host as i64;
        run_calls(server(*host).client_address(), &load, move |peer, number| {
            let answer = peer.call("bump", &[Int((number * 7 + first) % ROWS)]);
            (answer.status, answer.text)
        })
    };
    let bumps: Vec<JoinHandle<Seen>> = others.iter().map(bump).collect();
    let all = run_calls(server(others[1]).client_address(), &load, |peer, _| {
        let answer = peer.call("bumpall", &[Int(ROWS)]);
        (answer.status, answer.text)
    });
    load.go_on();
    assert!(partitions_of(&mut admin).iter().any(|(leader, _)| *leader == stopped as i64));
    let answer = admin.call("@StopNode", &[Int(stopped as i64)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    assert!(partitions_of(&mut admin).iter().all(|(leader, _)| *leader != stopped as i64));
    assert_eq!(stop_next(&mut servers, &stops), stopped);
    eventually("the others go on without it", || {
        let shown = admin.call("@SystemInformation", &[Text("CLUSTER")]).rows;
        shown.contains("down")
    });
    (0..3).for_each(|_| load.go_on());
    load.is_over.store(true, Ordering::Relaxed);
    let bumps: Vec<Seen> = bumps.into_iter().map(|it| it.join().expect("it ends")).collect();
    let all = all.join().expect("it ends");
    for seen in bumps.iter().chain([&all]) {
        println!("host {stopped}: {} calls, the longest took {:?}", seen.calls, seen.longest);
        assert_eq!(seen.failures, [""; 0], "host {stopped}: {} calls", seen.calls);
        assert!(seen.longest < SUSPECT_AFTER, "a call waited for a suspicion: {:?}", seen.longest);
    }
    // Partitions that have one copy now answer at once, also when nothing else wakes their sites.
    let began = Instant::now();
    for id in 0..ROWS {
        assert_eq!(admin.call("bump", &[Int(id)]).status, 1);
    }
    assert!(began.elapsed() < Duration::from_secs(1), "calls wait: {:?}", began.elapsed());
    let expected = bumps.iter().map(|seen| seen.calls).sum::<i64>() + all.calls * ROWS + ROWS;
    assert_eq!(admin.run("SELECT SUM(n) FROM t"), expected.to_string());
}

#[test]
fn a_host_is_stopped_under_load_and_no_call_fails() {
    stop_under_load(2);
}

#[test]
fn the_host_with_the_coordinator_is_stopped_under_load_and_no_call_fails() {
    stop_under_load(0);
}

#[test]
fn a_stop_that_loses_partitions_is_refused_by_their_names_and_can_be_forced() {
    let (mut servers, stops) = stoppable();
    let mut admin = Peer::login(servers[0].as_ref().expect("it runs").admin_address());
    assert!(refused(&mut admin, 7).contains("Host Id not member of cluster: 7"));
    let mut client = Peer::login(servers[0].as_ref().expect("it runs").client_address());
    let answer = client.call("@StopNode", &[]);
    assert!(answer.status == -2 && answer.text.contains("must provide hostId"), "{answer:?}");
    // VoltDB takes it through the client port, too.
    assert_eq!(client.call("@StopNode", &[Int(2)]).status, 1);
    let text = refused(&mut admin, 1);
    assert!(text.contains("It's unsafe to shutdown node 1"), "{text}");
    assert_eq!(stop_next(&mut servers, &stops), 2);
    // The partitions that host 2 had copies of have one copy by then.
    let mut left = Vec::new();
    eventually("the others go on without it", || {
        let shown = admin.call("@SystemInformation", &[Text("CLUSTER")]).rows;
        left = partitions_of(&mut admin);
        shown.contains("down")
    });
    let only_at =
        |host| left.iter().position(|(leader, others)| *leader == host && others.is_empty());
    let only = only_at(1).expect("host 2 had a copy beside it");
    let text = refused(&mut admin, 1);
    let part = format!("No other host has a copy in sync of partition {only}.");
    assert!(text.contains(&part), "{text}");
    assert_eq!(admin.call("@StopNode", &[Int(1), Int(1)]).status, 1);
    assert_eq!(stop_next(&mut servers, &stops), 1);
}
