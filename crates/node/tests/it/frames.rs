//! Bytes that are no calls: each ends in an error for the one who sent them, and in nothing for
//! anybody else.

use crate::support::{LOGIN, Peer, call_frame, frame, parameters, start};
use lockstep_node::Server;
use lockstep_types::Datum;
use std::net::Shutdown;

/// What a host must still do after bad bytes.
fn serves(server: &Server) {
    let answer = Peer::login(server.client_address()).call("@Ping", &[]);
    assert_eq!((answer.status, answer.rows.as_str()), (1, "0"));
}

#[test]
fn logins_that_are_wrong_get_their_status_and_the_connection_ends() {
    let server = start(1, &[]);
    let changed = |place: usize, byte: u8| {
        let mut login = LOGIN.to_vec();
        login[place] = byte;
        frame(&login)
    };
    let cases: [(&str, Vec<u8>, i8); 7] = [
        ("version 9", changed(0, 9), 3),
        ("hash scheme 7", changed(1, 7), 3),
        ("service names are exact", changed(6, b'D'), 5),
        ("a digest too short", frame(&LOGIN[..LOGIN.len() - 1]), -1),
        ("a digest too long", frame(&[LOGIN, b"x"].concat()), -1),
        ("a user name behind the end", changed(17, 0xff), 3),
        ("nothing but a version", frame(&[1]), 3),
    ];
    for (what, bytes, status) in cases {
        let mut peer = Peer::connect(server.client_address());
        peer.send(&bytes);
        let reply = peer.receive().expect(what);
        assert_eq!(reply, [0, status as u8], "{what}");
        assert!(peer.is_closed(), "{what}");
    }
    serves(&server);
}

#[test]
fn every_version_of_the_login_is_welcome() {
    let server = start(1, &[]);
    let old = [&b"\0\0\0\0\x08database\0\0\0\x01u"[..], &[7; 20]].concat();
    let sha1 = [&b"\x01\0\0\0\0\x08database\0\0\0\x01u"[..], &[7; 20]].concat();
    let mut newest = LOGIN.to_vec();
    newest[0] = 2;
    for login in [&old, &sha1, &newest] {
        let mut peer = Peer::connect(server.client_address());
        peer.send(&frame(login));
        let reply = peer.receive().expect("a reply");
        assert_eq!(reply[..2], [0, 0]);
        assert_eq!(peer.call("@Ping", &[]).status, 1);
    }
}

#[test]
fn frames_that_are_too_long_or_no_frames_end_their_connection() {
    let server = start(1, &["max_invocation_bytes=4096"]);
    let before_login: [&[u8]; 4] =
        [&[0xff; 8], &[0, 0, 0, 0], b"GET / HTTP/1.1\r\n\r\n", &[0x7f, 0xff, 0xff, 0xff]];
    for bytes in before_login {
        let mut peer = Peer::connect(server.client_address());
        peer.send(bytes);
        assert!(peer.is_closed());
    }
    for length in [0, -1, 4097, i32::MAX, i32::MIN] {
        let mut peer = Peer::login(server.client_address());
        peer.send(&length.to_be_bytes());
        assert!(peer.is_closed(), "{length}");
    }
    // At the limit is within it: a text that just fits is parsed.
    let mut peer = Peer::login(server.client_address());
    let around = call_frame("@AdHoc", 1, &parameters(&[Datum::Text("")])).len() - 4;
    let text = "x".repeat(4096 - around);
    let answer = peer.sql(&text);
    assert!(answer.status == -2 && answer.text.contains("unexpected token"), "{answer:?}");
    serves(&server);
}

#[test]
fn a_frame_cut_short_waits_for_its_end_and_dies_with_its_connection() {
    let server = start(1, &[]);
    let whole = call_frame("@Ping", 5, &parameters(&[]));
    for length in 0..whole.len() {
        let mut peer = Peer::login(server.client_address());
        peer.send(&whole[..length]);
        peer.stream.shutdown(Shutdown::Write).expect("an open connection");
        assert!(peer.is_closed());
    }
    serves(&server);
}

#[test]
fn bytes_may_come_one_by_one() {
    let server = start(2, &[]);
    let mut peer = Peer::connect(server.client_address());
    let mut bytes = frame(LOGIN);
    bytes.extend(call_frame("@Ping", 7, &parameters(&[])));
    bytes.extend(call_frame("@AdHoc", 8, &parameters(&[Datum::Text("SELECT 1 FROM NOWHERE")])));
    for byte in bytes {
        peer.send(&[byte]);
    }
    assert_eq!(peer.receive().expect("the login's reply")[..2], [0, 0]);
    assert_eq!(peer.answer().handle, 7);
    let answer = peer.answer();
    assert_eq!((answer.handle, answer.status), (8, -2));
}

#[test]
fn frames_in_the_wrong_order_are_refused() {
    let server = start(1, &[]);
    // A call before the login is a login that is malformed.
    let mut peer = Peer::connect(server.client_address());
    peer.send(&call_frame("@Ping", 1, &parameters(&[])));
    let reply = peer.receive().expect("a reply");
    assert_eq!((reply.len(), reply[0]), (2, 0));
    assert_ne!(reply[1], 0);
    assert!(peer.is_closed());
    // A second login is a call that is malformed; the connection goes on.
    let mut peer = Peer::login(server.client_address());
    peer.send(&frame(LOGIN));
    assert_eq!(peer.answer().status, -3);
    assert_eq!(peer.call("@Ping", &[]).status, 1);
}

#[test]
fn calls_that_are_malformed_are_answered_and_the_connection_goes_on() {
    let server = start(1, &[]);
    let mut peer = Peer::login(server.client_address());
    let handle = [0, 0, 0, 0, 0, 0, 0, 9];
    let cases: [(&str, Vec<u8>); 9] = [
        ("an unknown version", vec![77]),
        ("nothing behind the version", vec![0]),
        ("no name", [&b"\0\0\0\0\0"[..], &handle, &[0, 0]].concat()),
        ("a name of length -1", [&b"\0\xff\xff\xff\xff"[..], &handle, &[0, 0]].concat()),
        ("a name longer than the frame", b"\0\0\0\xff\xff@Ping".to_vec()),
        ("a name that is no UTF-8", [&b"\0\0\0\0\x02\xc3\x28"[..], &handle, &[0, 0]].concat()),
        (
            "31 extensions",
            [&b"\x02\0\0\0\x05@Ping"[..], &handle, &[31], &[9, 0].repeat(31), &[0, 0]].concat(),
        ),
        (
            "an extension of wrong length",
            [&b"\x02\0\0\0\x05@Ping"[..], &handle, &[1, 3, 2, 0, 0, 0]].concat(),
        ),
        (
            "a negative timeout",
            [&b"\x01\x01\xff\xff\xff\xff\0\0\0\x05@Ping"[..], &handle, &[0, 0]].concat(),
        ),
    ];
    for (what, body) in cases {
        peer.send(&frame(&body));
        assert_eq!(peer.answer().status, -3, "{what}");
        assert_eq!(peer.call("@Ping", &[]).status, 1, "{what}");
    }
}

#[test]
fn random_bytes_never_stop_the_host() {
    let server = start(1, &["max_invocation_bytes=65536"]);
    let mut random = lockstep_base::random::SeededRandom::new(42);
    for round in 0..300 {
        let mut bytes: Vec<u8> = (0..random.below(400)).map(|_| random.below(256) as u8).collect();
        // Half of them as the body of a frame after a login, so that they reach the decoders.
        if round % 2 == 0 {
            let mut peer = Peer::connect(server.client_address());
            peer.send(&bytes);
            continue;
        }
        let mut peer = Peer::login(server.client_address());
        if bytes.is_empty() {
            continue;
        }
        bytes[0] %= 3;
        peer.send(&frame(&bytes));
        assert_ne!(peer.answer().status, 1);
    }
    serves(&server);
}
