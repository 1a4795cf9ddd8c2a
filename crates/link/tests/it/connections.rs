//! Hellos: who is refused and why, and which of two connections survives.

use super::support::{
    Heard, accepting, accepting_of, at, connect, exchange, feed, identity, link, offer, pair,
    refused, small, written,
};
use lockstep_link::{
    AlreadyConnected, Backlog, ClusterId, HostIdentity, Link, LinkError, Refusal, RefusalReason,
    VersionRange,
};
use lockstep_types::HostId;

fn reason(error: &LinkError) -> RefusalReason {
    match error {
        LinkError::Refused(refusal) => refusal.reason,
        other => panic!("no refusal of the peer: {other}"),
    }
}

#[test]
fn both_learn_who_the_other_is() {
    let (mut a, mut b) = pair();
    assert_eq!((a.peer(), a.session(), a.is_connected()), (None, None, false));
    let (heard_a, heard_b) = connect(&mut a, &mut b, at(0));
    let session = a.session().unwrap();
    assert_eq!((session.host, session.incarnation, session.number), (HostId(2), 1, 1));
    assert_eq!(heard_a, [Heard::Began(session), Heard::Connected(false)]);
    assert_eq!(heard_b, heard_a);
    let peer = a.peer().unwrap();
    assert_eq!((peer.host, peer.incarnation, peer.version), (HostId(2), 1, 1));
    assert_eq!((peer.name.as_str(), peer.release.as_str()), ("host-2", "0.1.0"));
    assert_eq!(b.peer().unwrap().name, "host-1");
    assert_eq!(a.dialed(at(0)), Err(AlreadyConnected));
    assert_eq!((a.counters().connections, a.counters().sessions), (1, 1));
    assert_eq!(a.backlog(), Backlog::default());
}

#[test]
fn a_host_of_another_cluster_or_at_another_address_is_refused() {
    let (mut a, mut b) = pair();
    let other = HostIdentity { cluster: ClusterId([8; 16]), ..identity(1, 1) };
    let mut other = Link::new(other, HostId(2), small()).unwrap();
    let (refusal, error) = refused(&mut other, &mut b, at(0));
    assert!(matches!(refusal, Refusal::WrongCluster { .. }));
    assert_eq!(reason(&error), RefusalReason::WrongCluster);
    assert!(error.to_string().contains("this host to 0707"), "{error}");
    other.disconnected();

    let mut lost = link(1, 1, 3, small());
    let (_, error) = refused(&mut lost, &mut b, at(0));
    assert!(error.to_string().contains("the connection is for host 3, and host 2 is"), "{error}");
    let mut third = link(3, 1, 2, small());
    let (_, error) = refused(&mut third, &mut b, at(0));
    assert_eq!(reason(&error), RefusalReason::WrongHost, "the link is that of another host");
    assert!(!b.has_connection() && b.session().is_none(), "the link is as it was");
    connect(&mut a, &mut b, at(0));
}

#[test]
fn the_reply_is_checked_as_the_hello_is() {
    for (host, cluster, expected) in [
        (2, 8, "the hosts belong to different clusters"),
        (3, 7, "the connection is for host 2, and host 3 is at the address"),
    ] {
        let mut a = link(1, 1, 2, small());
        let other = HostIdentity { cluster: ClusterId([cluster; 16]), ..identity(host, 1) };
        // A host that checks nothing: it takes the hello of one that it should not.
        let mut careless = Link::new(other.clone(), HostId(1), small()).unwrap();
        let known = HostIdentity { cluster: other.cluster, ..identity(1, 1) };
        let mut known = Link::new(known, HostId(host), small()).unwrap();
        known.dialed(at(0)).unwrap();
        let hello = written(&mut known, at(0));
        careless.accept(accepting(&hello).unwrap(), at(0)).unwrap();
        let reply = written(&mut careless, at(0));
        a.dialed(at(0)).unwrap();
        written(&mut a, at(0));
        let error = feed(&mut a, &reply, at(0)).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{error}");
        let error = feed(&mut careless, &written(&mut a, at(0)), at(0)).unwrap_err();
        assert!(error.to_string().contains(expected), "the other host can report it: {error}");
    }
}

#[test]
fn a_reply_to_an_earlier_dial_is_an_error() {
    let (mut a, mut b) = pair();
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    a.disconnected();
    b.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    let reply = written(&mut b, at(0));
    a.dialed(at(0)).unwrap();
    written(&mut a, at(0));
    let error = feed(&mut a, &reply, at(0)).unwrap_err().to_string();
    assert!(error.contains("number of the dial"), "{error}");
}

#[test]
fn hosts_without_a_common_version_report_both_ranges() {
    let speaks =
        |host, min, max| HostIdentity { versions: VersionRange { min, max }, ..identity(host, 1) };
    let mut new = Link::new(speaks(1, 3, 5), HostId(2), small()).unwrap();
    let mut old = Link::new(speaks(2, 1, 2), HostId(1), small()).unwrap();
    new.dialed(at(0)).unwrap();
    let hello = written(&mut new, at(0));
    let error = accepting_of(&hello, VersionRange { min: 1, max: 2 }).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("this host speaks versions 1 to 2, the other host versions 3 to 5"));
    // The dialing host finds the same from the preamble of the refusal.
    let refusal = error.refusal().unwrap().to_bytes(VersionRange { min: 1, max: 2 });
    let error = feed(&mut new, &refusal, at(0)).unwrap_err();
    let (ours, theirs) = (VersionRange { min: 3, max: 5 }, VersionRange { min: 1, max: 2 });
    assert_eq!(error, LinkError::NoCommonVersion { ours, theirs });

    let mut newer = Link::new(speaks(1, 2, 9), HostId(2), small()).unwrap();
    newer.dialed(at(0)).unwrap();
    let hello = written(&mut newer, at(0));
    let accepted = accepting_of(&hello, VersionRange { min: 1, max: 2 }).unwrap();
    old.accept(accepted, at(0)).unwrap();
    let reply = written(&mut old, at(0));
    feed(&mut newer, &reply, at(0)).unwrap();
    assert_eq!((newer.peer().unwrap().version, old.peer().unwrap().version), (2, 2));
}

#[test]
fn of_two_processes_with_one_host_id_the_older_is_refused() {
    let (mut a, mut b) = pair();
    let mut second = link(1, 7, 2, small());
    connect(&mut a, &mut b, at(0));
    let (_, heard) = connect(&mut second, &mut b, at(0));
    assert!(matches!(heard[..], [Heard::Ended(_), Heard::Began(_), Heard::Connected(false)]));
    a.disconnected();
    let (_, error) = refused(&mut a, &mut b, at(0));
    assert_eq!(reason(&error), RefusalReason::DuplicateHost);
    assert!(
        error.to_string().contains("host id 1: incarnation 7 is taken, incarnation 1 is refused"),
        "{error}"
    );
    assert!(b.is_connected(), "the newer one stays");
    // The same incarnation, on a copy of the directory.
    second.disconnected();
    let copy = HostIdentity { process: 1, ..identity(1, 7) };
    let mut copy = Link::new(copy, HostId(2), small()).unwrap();
    let (_, error) = refused(&mut copy, &mut b, at(0));
    assert_eq!(reason(&error), RefusalReason::DuplicateHost);
    assert!(error.to_string().contains("host id 1 and the incarnation 7: one runs on a copy"));
    assert!(b.is_connected());
    connect(&mut second, &mut b, at(0));
    // A host that dials itself, or one with its id.
    let mut twin = link(2, 3, 1, small());
    twin.dialed(at(0)).unwrap();
    let hello = written(&mut twin, at(0));
    let mut own = link(1, 9, 2, small());
    own.accept(accepting(&hello).unwrap(), at(0)).unwrap();
}

#[test]
fn the_dial_of_the_lower_host_survives_when_both_dial_at_once() {
    for lower_first in [true, false] {
        let (mut a, mut b) = pair();
        a.dialed(at(0)).unwrap();
        b.dialed(at(0)).unwrap();
        let (hello_a, hello_b) = (written(&mut a, at(0)), written(&mut b, at(0)));
        let refuse = |a: &mut Link| {
            let refusal = a.accept(accepting(&hello_b).unwrap(), at(0)).unwrap_err();
            // The reply says of the dial that it was given up.
            let superseded = Refusal::SupersededDial { dial: 1, newest: 1 };
            let expected = if lower_first { Refusal::SimultaneousDial } else { superseded };
            assert_eq!(refusal, expected);
            assert!(refusal.reason().is_harmless());
        };
        if lower_first {
            refuse(&mut a);
        }
        b.accept(accepting(&hello_a).unwrap(), at(0)).unwrap();
        let reply = written(&mut b, at(0));
        feed(&mut a, &reply, at(0)).unwrap();
        if !lower_first {
            refuse(&mut a);
        }
        assert!(a.is_connected() && b.is_connected());
        assert_eq!(a.session(), b.session());
    }
}

#[test]
fn a_newer_connection_replaces_the_present_one() {
    // (which host dialed first, which one dials again because it has lost that connection)
    for (first, second) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let (a, b) = pair();
        let mut ends = [a, b];
        dial(&mut ends, first);
        ends.iter_mut().for_each(|end| drop(feed(end, &[], at(0)).unwrap()));
        offer(&mut ends[0], b"kept");
        written(&mut ends[0], at(0));
        ends[second].disconnected();
        let mut heard = dial(&mut ends, second);
        assert!(ends[0].is_connected() && ends[1].is_connected(), "{first} {second}");
        let [a, b] = &mut ends;
        heard.extend(exchange(a, b, at(0)).1);
        assert!(heard.contains(&Heard::Message(1, b"kept".to_vec())), "{first} {second}");
    }
}

/// Gives what the dialer hears.
fn dial(ends: &mut [Link; 2], dialer: usize) -> Vec<Heard> {
    ends[dialer].dialed(at(0)).unwrap();
    let hello = written(&mut ends[dialer], at(0));
    ends[1 - dialer].accept(accepting(&hello).unwrap(), at(0)).unwrap();
    let reply = written(&mut ends[1 - dialer], at(0));
    feed(&mut ends[dialer], &reply, at(0)).unwrap()
}

#[test]
fn a_hello_that_was_overtaken_is_refused() {
    let (mut a, mut b) = pair();
    a.dialed(at(0)).unwrap();
    let late = written(&mut a, at(0));
    a.disconnected();
    connect(&mut a, &mut b, at(0));
    let refusal = b.accept(accepting(&late).unwrap(), at(0)).unwrap_err();
    assert_eq!(refusal, Refusal::SupersededDial { dial: 1, newest: 2 });
    // A reply says which dials were given up, too.
    a.disconnected();
    b.disconnected();
    a.dialed(at(0)).unwrap();
    let late = written(&mut a, at(0));
    a.disconnected();
    connect(&mut b, &mut a, at(0));
    let refusal = b.accept(accepting(&late).unwrap(), at(0)).unwrap_err();
    assert_eq!(refusal, Refusal::SupersededDial { dial: 3, newest: 3 });
    assert!(a.is_connected() && b.is_connected());
}

#[test]
fn a_restarted_host_is_accepted_though_the_old_connection_seems_open() {
    // The lower host has dialed; its peer died and dials again as another process.
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    let mut restarted = link(2, 2, 1, small());
    let (_, heard) = connect(&mut restarted, &mut a, at(0));
    assert!(matches!(heard[..], [Heard::Ended(_), Heard::Began(_), Heard::Connected(false)]));
    assert_eq!(a.session(), restarted.session());
}

#[test]
fn a_caller_may_refuse_an_open_connection_for_the_clocks() {
    let (mut a, mut b) = pair();
    let ahead = |us: i64| {
        let mut now = at(us);
        now.wall_us += 61_200_000;
        now
    };
    a.dialed(at(0)).unwrap();
    b.accept(accepting(&written(&mut a, at(0))).unwrap(), ahead(100)).unwrap();
    feed(&mut b, &[], ahead(100)).unwrap();
    let reply = written(&mut b, ahead(100));
    feed(&mut a, &reply, at(300)).unwrap();
    assert_eq!(a.clock_offset().unwrap().error_us, 150, "by the reply to the hello");
    assert!(!b.refuse_clock_offset(1_000_000), "a hello is no round trip");
    for round in 1..4 {
        let us = round * 50_000;
        a.offer_heartbeat(|buffer| buffer.push(1)).unwrap();
        b.offer_heartbeat(|_| {}).unwrap();
        let (from_a, from_b) = (written(&mut a, at(us)), written(&mut b, ahead(us)));
        let heard = feed(&mut b, &from_a, ahead(us + 200)).unwrap();
        assert_eq!(heard, [Heard::Heartbeat(vec![1])]);
        assert_eq!(feed(&mut a, &from_b, at(us + 200)).unwrap(), [Heard::Heartbeat(vec![])]);
    }
    let offset = a.clock_offset().unwrap();
    assert!((offset.offset_us - 61_200_000).unsigned_abs() <= offset.error_us, "{offset:?}");
    assert!(offset.error_us <= 200, "{offset:?}");
    assert!(a.refuse_clock_offset(1_000_000));
    assert!(!a.is_connected() && a.has_connection());
    let bytes = written(&mut a, at(0));
    assert!(a.read_space().is_empty());
    let error = feed(&mut b, &bytes, ahead(0)).unwrap_err();
    assert_eq!(reason(&error), RefusalReason::ClockOffset);
    assert!(error.to_string().contains("(limit 1000000 us)"), "{error}");
    a.disconnected();
    b.disconnected();
    assert!(a.session().is_some(), "only the connection is over");
    // The clock was set right: what was measured before does not count.
    connect(&mut a, &mut b, at(0));
    assert!(!a.refuse_clock_offset(1_000_000) && !b.refuse_clock_offset(1_000_000));
}

#[test]
fn last_heard_is_when_the_last_frame_came() {
    let (mut a, mut b) = pair();
    assert_eq!(b.last_heard_us(), None);
    connect(&mut a, &mut b, at(10));
    assert_eq!(b.last_heard_us(), Some(10));
    a.offer_heartbeat(|_| {}).unwrap();
    let bytes = written(&mut a, at(20));
    feed(&mut b, &bytes[..bytes.len() - 1], at(30)).unwrap();
    assert_eq!(b.last_heard_us(), Some(10));
    feed(&mut b, &bytes[bytes.len() - 1..], at(40)).unwrap();
    assert_eq!(b.last_heard_us(), Some(40));
    b.disconnected();
    assert_eq!(b.last_heard_us(), None);
}

#[test]
fn what_the_peer_saw_of_an_earlier_run_is_not_about_this_one() {
    // The peer has seen a dial of this host's earlier process, and dials at once with the new one.
    let (mut a, mut b) = pair();
    for _ in 0..5 {
        connect(&mut a, &mut b, at(0));
        a.disconnected();
        b.disconnected();
    }
    let mut restarted = link(1, 2, 2, small());
    b.dialed(at(0)).unwrap();
    let hello_b = written(&mut b, at(0));
    restarted.dialed(at(0)).unwrap();
    let refusal = restarted.accept(accepting(&hello_b).unwrap(), at(0)).unwrap_err();
    assert_eq!(refusal, Refusal::SimultaneousDial);
    let hello = written(&mut restarted, at(0));
    b.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    let reply = written(&mut b, at(0));
    feed(&mut restarted, &reply, at(0)).unwrap();
    assert!(restarted.is_connected() && b.is_connected());
}

#[test]
fn dials_of_a_restarted_host_are_counted_from_the_first() {
    let (mut a, mut b) = pair();
    for _ in 0..5 {
        connect(&mut b, &mut a, at(0));
        a.disconnected();
        b.disconnected();
    }
    // It is met again by a dial to it, whose reply says that it has not dialed.
    let mut restarted = link(2, 2, 1, small());
    connect(&mut a, &mut restarted, at(0));
    a.disconnected();
    restarted.disconnected();
    connect(&mut restarted, &mut a, at(0));
    assert!(a.is_connected() && restarted.is_connected());
}
