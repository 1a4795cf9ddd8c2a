//! Clients that misbehave, and too many of them: the others are served.

use crate::support::{Peer, call_frame, eventually, parameters, start};
use lockstep_types::Datum::{Int, Text};
use std::io::{ErrorKind, Write};

#[test]
fn a_client_that_never_reads_is_paused_then_closed_and_nobody_else_notices() {
    let server = start(1, &["max_unread_bytes=65536", "unread_timeout_ms=300"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE big (id INTEGER NOT NULL PRIMARY KEY, text VARCHAR(10000));
        PARTITION TABLE big ON COLUMN id;",
    );
    let text = "x".repeat(9000);
    assert_eq!(peer.call("BIG.insert", &[Int(1), Text(&text)]).status, 1);
    let mut deaf = Peer::login(server.client_address());
    deaf.stream.set_nonblocking(true).expect("a socket option");
    let calls = call_frame("BIG.select", 1, &parameters(&[Int(1)])).repeat(20_000);
    let mut sent_bytes = 0;
    let mut closed = false;
    let mut served = 0;
    // It sends for ever. While it is paused its own sends do not go through; then it is closed.
    eventually("the connection that never reads is closed", || {
        match deaf.stream.write(&calls[sent_bytes % calls.len()..]) {
            Ok(count) => sent_bytes += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => closed = true,
        }
        served += i32::from(peer.call("BIG.select", &[Int(1)]).status == 1);
        closed
    });
    assert!(served > 0);
    // It was paused: the host ran no more of its calls than sockets and the limit hold answers.
    let counts = peer.call("@Statistics", &[Text("PROCEDURE"), Int(0)]).rows;
    let row = counts.split('\n').find(|row| row.contains("BIG.select")).expect("its row");
    let calls: i32 = row.split(',').nth(6).and_then(|count| count.parse().ok()).expect("a count");
    assert!(calls - served < 1000, "{calls} calls ran, {served} of them for the other client");
    let limits = peer.call("@Statistics", &[Text("LIMITS"), Int(0)]);
    let dropped = limits.rows.rsplit(',').next().expect("columns");
    assert_eq!(dropped, "1", "{}", limits.rows);
}

#[test]
fn a_client_that_reads_late_gets_everything() {
    const CALLS: i64 = 500;
    let server = start(2, &["max_unread_bytes=65536"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(
        "CREATE TABLE big (id INTEGER NOT NULL PRIMARY KEY, text VARCHAR(100000));
        PARTITION TABLE big ON COLUMN id;",
    );
    let text = "x".repeat(90_000);
    assert_eq!(peer.call("BIG.insert", &[Int(1), Text(&text)]).status, 1);
    let mut bytes = Vec::new();
    for handle in 0..CALLS {
        bytes.extend(call_frame("BIG.select", handle, &parameters(&[Int(1)])));
    }
    peer.send(&bytes);
    for handle in 0..CALLS {
        let answer = peer.answer();
        assert_eq!((answer.handle, answer.status), (handle, 1));
        assert_eq!(answer.rows.len(), text.len() + 2);
    }
}

/// Raises the number of files that this process may open as far as it may.
fn open_file_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: both calls use a structure that lives on this stack frame.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit), 0);
        limit.rlim_cur = limit.rlim_max;
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit), 0);
    }
    limit.rlim_cur
}

#[test]
fn ten_thousand_idle_connections_cost_the_others_nothing() {
    // Both ends are files of this process. Without the right to that many, as many as there can be.
    let connections = (open_file_limit().saturating_sub(500) / 2).min(10_000);
    assert!(connections >= 200, "too few files to say anything: {connections}");
    let server = start(2, &[]);
    let address = server.client_address();
    let mut worker = Peer::login(address);
    worker.run("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id;");
    let mut idle = Vec::new();
    for number in 0..connections {
        idle.push(Peer::login(address));
        if number % 100 == 0 {
            assert_eq!(worker.call("T.insert", &[Int(number as i64)]).status, 1);
        }
    }
    for number in 0..1000 {
        assert_eq!(worker.call("T.upsert", &[Int(number)]).status, 1);
    }
    // They are idle, not dead.
    for peer in idle.iter_mut().step_by(97) {
        assert_eq!(peer.call("@Ping", &[]).status, 1);
    }
    drop(idle);
    eventually("the connections are forgotten", || {
        let limits = worker.call("@Statistics", &[Text("LIMITS"), Int(0)]).rows;
        limits.split(',').nth(6) == Some("1")
    });
    println!("{connections} connections");
}

#[test]
fn connections_over_the_limit_are_told_so_and_room_is_used_again() {
    let server = start(2, &["max_connections=3"]);
    let address = server.client_address();
    let mut peers: Vec<Peer> = (0..3).map(|_| Peer::login(address)).collect();
    let mut refused = Peer::connect(address);
    assert_eq!(refused.receive().expect("a refusal"), [0, 1]);
    assert!(refused.is_closed());
    for peer in &mut peers {
        assert_eq!(peer.call("@Ping", &[]).status, 1);
    }
    peers.pop();
    eventually("the freed place is given again", || {
        let mut peer = Peer::connect(address);
        // The host may have refused and closed already.
        let _ = peer.stream.write_all(&crate::support::frame(crate::support::LOGIN));
        peer.receive().is_some_and(|reply| reply[..2] == [0, 0])
    });
}

#[test]
fn a_connection_that_does_not_log_in_is_told_and_closed() {
    let server = start(2, &["login_timeout_ms=200"]);
    let mut silent = Peer::connect(server.client_address());
    let mut halfway = Peer::connect(server.client_address());
    halfway.send(&[0, 0]);
    let mut logged_in = Peer::login(server.client_address());
    for peer in [&mut silent, &mut halfway] {
        assert_eq!(peer.receive().expect("a refusal"), [0, 2]);
        assert!(peer.is_closed());
    }
    assert_eq!(logged_in.call("@Ping", &[]).status, 1, "who logged in in time stays");
}

#[test]
fn a_client_that_goes_away_in_the_middle_leaves_its_work_done() {
    let server = start(2, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run("CREATE TABLE t (id BIGINT NOT NULL PRIMARY KEY); PARTITION TABLE t ON COLUMN id;");
    let mut gone = Peer::login(server.client_address());
    for id in 0..200 {
        gone.send(&call_frame("T.insert", id, &parameters(&[Int(id)])));
    }
    // The first answer shows that the host reads; the rest is never read.
    assert_eq!(gone.answer().status, 1);
    drop(gone);
    eventually("the connection is forgotten", || {
        let limits = peer.call("@Statistics", &[Text("LIMITS"), Int(0)]).rows;
        limits.split(',').nth(6) == Some("1")
    });
    // Whole calls ran, in order of their partitions; nobody waits for the rest.
    assert!(peer.run("SELECT COUNT(*) FROM t").parse::<i64>().is_ok_and(|count| count >= 1));
    assert_eq!(peer.call("T.insert", &[Int(1000)]).status, 1);
}
