//! Sessions: what a reconnect resumes, and what ends.

use super::support::{
    Heard, accepting, at, connect, exchange, feed, link, mend_all, messages, offer, pair, small,
    written,
};
use lockstep_link::{Backlog, HEADER_BYTES, LinkError, OfferError, PREAMBLE_BYTES};

#[test]
fn a_reconnect_resumes_the_session_and_only_the_rest_is_sent() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    (1..=6).for_each(|byte| {
        offer(&mut a, &[byte]);
    });
    let bytes = written(&mut a, at(0));
    // Two messages of the frame are taken; then the connection breaks.
    let space = b.read_space();
    space[..bytes.len()].copy_from_slice(&bytes);
    b.filled(bytes.len());
    for _ in 0..2 {
        assert!(b.next_event(at(0)).unwrap().is_some());
    }
    a.disconnected();
    b.disconnected();
    assert_eq!(feed(&mut b, &[], at(0)).unwrap(), []);
    offer(&mut a, &[7]);
    let session = a.session();
    let (mut heard, heard_a) = connect(&mut b, &mut a, at(0));
    assert_eq!((&heard[0], &heard_a[..]), (&Heard::Connected(true), &[Heard::Connected(true)][..]));
    heard.extend(exchange(&mut a, &mut b, at(0)).1);
    let numbers: Vec<u64> = messages(&heard).iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [3, 4, 5, 6, 7]);
    assert_eq!((a.session(), a.counters().messages_resent), (session, 4));
}

#[test]
fn a_message_is_taken_while_there_is_no_connection() {
    let (mut a, mut b) = pair();
    let error = a.offer(at(0), |_| panic!("nothing is written")).unwrap_err();
    assert_eq!(error, OfferError::NoSession);
    connect(&mut a, &mut b, at(0));
    a.disconnected();
    assert_eq!(offer(&mut a, b"later"), 1);
    assert!(!a.wants_to_write(at(1 << 40)));
    connect(&mut a, &mut b, at(0));
    let (_, heard) = exchange(&mut a, &mut b, at(0));
    assert_eq!(messages(&heard), [(1, &b"later"[..])]);
}

#[test]
fn nothing_of_a_session_is_delivered_after_one_side_was_restarted() {
    for restarted in [0, 1] {
        for dialer in [0, 1] {
            let (a, b) = pair();
            let mut ends = [a, b];
            let [a, b] = &mut ends;
            connect(a, b, at(0));
            let old = a.session().unwrap();
            offer(a, b"of the old session");
            offer(b, b"likewise");
            ends[restarted] = link(restarted as u32 + 1, 2, 2 - restarted as u32, small());
            ends[1 - restarted].disconnected();
            let [a, b] = &mut ends;
            let heard = match dialer {
                0 => connect(a, b, at(0)),
                _ => {
                    let (heard_b, heard_a) = connect(b, a, at(0));
                    (heard_a, heard_b)
                }
            };
            let (fresh, other) = if restarted == 0 { heard } else { (heard.1, heard.0) };
            let new = a.session().unwrap();
            let began = [Heard::Began(new), Heard::Connected(false)];
            assert_eq!(fresh, began);
            assert_eq!(other[0], Heard::Ended(old));
            assert_eq!(other[1..], began);
            assert_eq!(exchange(a, b, at(0)), (vec![], vec![]));
            assert_eq!((a.backlog().messages, b.backlog().messages), (0, 0));
            assert_eq!(offer(a, b"new"), 1);
            let (_, heard) = exchange(a, b, at(0));
            assert_eq!(messages(&heard), [(1, &b"new"[..])]);
        }
    }
}

#[test]
fn a_session_that_one_side_ends_ends_for_both() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    let old = a.session().unwrap();
    offer(&mut a, b"never sent");
    offer(&mut b, b"sent and not taken");
    let bytes = written(&mut b, at(0));
    let space = a.read_space();
    space[..bytes.len()].copy_from_slice(&bytes);
    a.filled(bytes.len());
    a.end_session();
    assert!(!a.has_connection() && a.session().is_none());
    assert_eq!(a.backlog(), Backlog::default());
    assert_eq!(a.oldest_unacknowledged(at(9)), None);
    assert_eq!(feed(&mut a, &[], at(0)).unwrap(), [Heard::Ended(old)]);
    assert_eq!(a.offer(at(0), |_| {}), Err(OfferError::NoSession));
    // The other side still is in it.
    assert_eq!(offer(&mut b, b"of the old session"), 2);
    b.disconnected();
    let (heard_b, heard_a) = connect(&mut b, &mut a, at(0));
    let new = a.session().unwrap();
    assert_ne!(new, old);
    assert_eq!(heard_b, [Heard::Ended(old), Heard::Began(new), Heard::Connected(false)]);
    assert_eq!(heard_a, [Heard::Began(new), Heard::Connected(false)]);
    assert_eq!(exchange(&mut a, &mut b, at(0)), (vec![], vec![]));
    a.end_session();
    a.end_session();
    assert_eq!(feed(&mut a, &[], at(0)).unwrap(), [Heard::Ended(new)]);
}

#[test]
fn no_message_is_taken_before_the_event_of_the_session() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    a.end_session();
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    b.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    for _ in 0..2 {
        assert_eq!(b.offer(at(0), |_| {}), Err(OfferError::NoSession));
        assert!(b.next_event(at(0)).unwrap().is_some());
    }
    assert_eq!(offer(&mut b, b"of the new session"), 1);
}

#[test]
fn a_session_that_ends_before_it_was_reported_is_not_reported() {
    let (mut a, mut b) = pair();
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    b.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    b.end_session();
    assert_eq!(feed(&mut b, &[], at(0)).unwrap(), []);
    a.disconnected();
    let (_, heard) = connect(&mut a, &mut b, at(0));
    assert_eq!(heard, [Heard::Began(b.session().unwrap()), Heard::Connected(false)]);
    assert_eq!(b.session().unwrap().number, 2);
}

#[test]
fn a_session_that_only_one_side_has_begun_is_not_resumed() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    a.end_session();
    feed(&mut a, &[], at(0)).unwrap();
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    b.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    feed(&mut b, &[], at(0)).unwrap();
    offer(&mut b, b"of the session that only one side knows");
    // The reply is lost.
    a.disconnected();
    let (heard_a, heard_b) = connect(&mut a, &mut b, at(0));
    assert_eq!(heard_a.len(), 2);
    assert!(matches!(heard_b[..], [Heard::Ended(_), Heard::Began(_), Heard::Connected(false)]));
    assert_eq!(exchange(&mut a, &mut b, at(0)), (vec![], vec![]));
}

#[test]
fn a_peer_that_lost_its_position_begins_another_session() {
    // Not what a sound peer does: it is in the session, and at a position before one that it
    // acknowledged.
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    offer(&mut a, b"1");
    a.disconnected();
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    a.disconnected();
    b.disconnected();
    connect(&mut b, &mut a, at(0));
    exchange(&mut a, &mut b, at(0));
    exchange(&mut a, &mut b, at(10_000));
    assert_eq!(a.backlog().messages, 0);
    let error = b.accept(accepting(&hello).unwrap(), at(0)).unwrap_err();
    assert!(error.reason().is_harmless(), "the number of the dial shows it: {error}");
    // The same with a reply: of a message that was never sent.
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    offer(&mut b, b"1");
    let session = a.session();
    let bytes = written(&mut b, at(0));
    feed(&mut a, &bytes, at(0)).unwrap();
    a.disconnected();
    let mut amnesiac = link(2, 1, 1, small());
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    amnesiac.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    let reply = written(&mut amnesiac, at(0));
    let error = feed(&mut a, &reply, at(0)).unwrap_err();
    assert!(matches!(error, LinkError::Malformed { .. }), "it began before: {error}");
    assert_eq!(feed(&mut a, &[], at(0)).unwrap(), [Heard::Ended(session.unwrap())]);
    assert_eq!(a.session(), None, "the next connection begins another");
}

#[test]
fn a_session_is_between_two_processes() {
    // Another process that says it is in the session.
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    let old = b.session().unwrap();
    a.disconnected();
    a.dialed(at(0)).unwrap();
    let mut hello = written(&mut a, at(0));
    let incarnation = PREAMBLE_BYTES + HEADER_BYTES + 24;
    assert_eq!(hello[incarnation..incarnation + 8], 1u64.to_be_bytes());
    hello[incarnation..incarnation + 8].copy_from_slice(&2u64.to_be_bytes());
    mend_all(&mut hello);
    b.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    let heard = feed(&mut b, &[], at(0)).unwrap();
    assert_eq!(heard[0], Heard::Ended(old));
}

#[test]
fn positions_of_a_session_are_not_those_of_the_last_one() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    (0..7).for_each(|byte| {
        offer(&mut b, &[byte]);
    });
    exchange(&mut a, &mut b, at(10_000));
    b.end_session();
    feed(&mut b, &[], at(10_000)).unwrap();
    a.disconnected();
    connect(&mut a, &mut b, at(10_000));
    offer(&mut b, b"first of the new session");
    exchange(&mut a, &mut b, at(10_000));
    assert_eq!(a.write_deadline_us(), Some(15_000));
    exchange(&mut a, &mut b, at(15_000));
    assert_eq!(b.backlog().messages, 0);
}
