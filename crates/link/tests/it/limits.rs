//! Limits: what is over one is refused with its value, and nothing of it is kept.

use super::support::{at, connect, exchange, feed, link, offer, pair, small, written};
use lockstep_link::{Backlog, Link, LinkError, LinkLimits, OfferError};

fn fill(link: &mut Link) -> OfferError {
    loop {
        if let Err(error) = link.offer(at(0), |buffer| buffer.extend_from_slice(&[5; 46])) {
            return error;
        }
    }
}

#[test]
fn a_full_link_takes_messages_again_once_some_are_acknowledged() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    let error = fill(&mut a);
    let Backlog { messages, bytes } = a.backlog();
    assert_eq!((messages, bytes), (81, 4_050));
    let text = error.to_string();
    assert!(text.starts_with("the backlog of the link is full: 4050 bytes (limit 4096"), "{text}");
    let sent = written(&mut a, at(0));
    assert_eq!(fill(&mut a), error, "what was sent is kept");
    assert_eq!(a.backlog(), Backlog { messages, bytes });
    feed(&mut b, &sent, at(0)).unwrap();
    let acknowledgement = written(&mut b, at(5_000));
    feed(&mut a, &acknowledgement, at(5_000)).unwrap();
    assert_eq!(a.backlog(), Backlog::default());
    assert_eq!(offer(&mut a, b"again"), 82);
}

#[test]
fn a_slow_peer_shows_in_the_age_of_the_backlog() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    assert_eq!(a.oldest_unacknowledged(at(9)), None);
    a.offer(at(100), |buffer| buffer.push(1)).unwrap();
    let first = written(&mut a, at(100));
    a.offer(at(300), |buffer| buffer.push(2)).unwrap();
    let second = written(&mut a, at(300));
    let age_us = |link: &Link, now_us| link.oldest_unacknowledged(at(now_us)).map(|age| age.us());
    assert_eq!(age_us(&a, 1_000), Some(900));
    feed(&mut b, &first, at(1_000)).unwrap();
    let acknowledgement = written(&mut b, at(6_000));
    feed(&mut a, &acknowledgement, at(6_000)).unwrap();
    assert_eq!(age_us(&a, 6_000), Some(5_700));
    feed(&mut b, &second, at(6_000)).unwrap();
    let acknowledgement = written(&mut b, at(20_000));
    feed(&mut a, &acknowledgement, at(20_000)).unwrap();
    assert_eq!(a.oldest_unacknowledged(at(20_000)), None);
}

#[test]
fn the_lower_limit_of_the_two_hosts_bounds_a_message() {
    let wide = LinkLimits { frame_bytes_max: 1_000, datagram_bytes_max: 4_096, ..small() };
    for dialer_is_wide in [true, false] {
        let (a, b) = if dialer_is_wide { (wide, small()) } else { (small(), wide) };
        let (mut a, mut b) = (link(1, 1, 2, a), link(2, 1, 1, b));
        connect(&mut a, &mut b, at(0));
        for end in [&mut a, &mut b] {
            let error = end.offer(at(0), |buffer| buffer.resize(buffer.len() + 509, 0));
            assert_eq!(error, Err(OfferError::TooLong { bytes: 509, bytes_max: 508 }));
            let error = end.offer_datagram(|buffer| buffer.resize(513, 0));
            assert_eq!(error, Err(OfferError::TooLong { bytes: 513, bytes_max: 512 }));
        }
        exchange(&mut a, &mut b, at(0));
    }
}

#[test]
fn a_frame_over_the_limit_ends_the_connection_before_it_comes() {
    let wide = LinkLimits { frame_bytes_max: 1_000, datagram_bytes_max: 4_096, ..small() };
    let (mut a, mut b) = (link(1, 1, 2, wide), link(2, 1, 1, wide));
    connect(&mut a, &mut b, at(0));
    a.offer(at(0), |buffer| buffer.resize(buffer.len() + 700, 0)).unwrap();
    let bytes = written(&mut a, at(0));
    let (mut c, mut narrow) = pair();
    connect(&mut c, &mut narrow, at(0));
    let error = feed(&mut narrow, &bytes[..32], at(0)).unwrap_err();
    assert!(matches!(error, LinkError::FrameTooLong { length: 704, limit: 512, .. }), "{error}");
    let error = feed(&mut c, &written(&mut narrow, at(0)), at(0)).unwrap_err().to_string();
    assert!(error.contains("704 bytes (limit 512, frame_bytes_max of the link)"), "{error}");
}

#[test]
fn limits_and_identities_that_cannot_be_are_refused() {
    use super::support::identity;
    use lockstep_types::HostId;
    let limits = LinkLimits { backlog_bytes_max: 1, ..small() };
    let error = Link::new(identity(1, 1), HostId(2), limits).unwrap_err().to_string();
    assert_eq!(error, "backlog_bytes_max of the link is 1: it must be 512 or more");
    let error = Link::new(identity(1, 0), HostId(2), small()).unwrap_err().to_string();
    assert_eq!(error, "incarnation of the link is 0: it must be 1 or more");
}
