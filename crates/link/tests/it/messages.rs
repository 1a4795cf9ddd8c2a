//! Messages, datagrams and acknowledgements over one connection.

use super::support::{Heard, at, connect, exchange, feed, messages, offer, pair, written};
use lockstep_link::{HEADER_BYTES, Link, OfferError};
use std::io::IoSlice;

fn connected() -> (Link, Link) {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    (a, b)
}

#[test]
fn messages_come_in_order_whatever_the_pieces_of_the_stream_are() {
    for piece in [1, 2, 3, 7, 31, 32, 33, 100, 10_000] {
        let (mut a, mut b) = connected();
        let sent: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n; usize::from(n) * 3]).collect();
        sent.iter().for_each(|bytes| {
            offer(&mut a, bytes);
        });
        let bytes = written(&mut a, at(0));
        let mut heard = Vec::new();
        for piece in bytes.chunks(piece) {
            heard.extend(feed(&mut b, piece, at(0)).unwrap());
        }
        let expected: Vec<(u64, &[u8])> = (1..).zip(sent.iter().map(Vec::as_slice)).collect();
        assert_eq!(messages(&heard), expected);
    }
}

#[test]
fn many_small_messages_share_one_frame() {
    let (mut a, mut b) = connected();
    (0..10).for_each(|_| {
        offer(&mut a, b"small");
    });
    let bytes = written(&mut a, at(0));
    assert_eq!(bytes.len(), HEADER_BYTES + 10 * (4 + 5));
    assert_eq!(feed(&mut b, &bytes, at(0)).unwrap().len(), 10);
}

#[test]
fn what_a_write_did_not_take_is_written_next() {
    let (mut a, mut b) = connected();
    let mut heard = Vec::new();
    let mut taken = 0;
    for round in 0..200u32 {
        if round < 60 {
            offer(&mut a, &[round as u8; 50]);
            a.offer_datagram(|buffer| buffer.resize(30, round as u8)).unwrap();
        }
        let mut bytes = Vec::new();
        let mut slices = [IoSlice::new(&[]); 6];
        let count = a.write_slices(at(0), &mut slices);
        slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
        // Any number of the bytes, none and all of them too.
        let accepted = (round as usize * 37 % 120).min(bytes.len());
        a.wrote(accepted);
        taken += accepted;
        heard.extend(feed(&mut b, &bytes[..accepted], at(0)).unwrap());
    }
    heard.extend(feed(&mut b, &written(&mut a, at(0)), at(0)).unwrap());
    assert!(taken > 1_000);
    let found = messages(&heard);
    assert_eq!(found.len(), 60);
    for (index, (number, bytes)) in found.into_iter().enumerate() {
        assert_eq!((number, bytes), (index as u64 + 1, &[index as u8; 50][..]));
    }
    let datagrams: Vec<u8> = heard
        .iter()
        .filter_map(|heard| match heard {
            Heard::Datagram(bytes) => Some(bytes[0]),
            _ => None,
        })
        .collect();
    assert!(datagrams.is_sorted_by(|a, b| a < b), "each once: {datagrams:?}");
    let dropped = a.counters().datagrams_dropped;
    assert_eq!(datagrams.len() as u64 + dropped, 60, "{dropped} were dropped");
}

#[test]
fn a_datagram_overtakes_all_messages_that_are_not_begun() {
    let (mut a, mut b) = connected();
    (0..20).for_each(|_| {
        offer(&mut a, &[1; 100]);
    });
    let mut slices = [IoSlice::new(&[]); 8];
    let count = a.write_slices(at(0), &mut slices);
    let begun: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
    let begun = &begun[..HEADER_BYTES + 1];
    a.wrote(HEADER_BYTES + 1);
    a.offer_datagram(|buffer| buffer.push(2)).unwrap();
    a.offer_heartbeat(|buffer| buffer.push(3)).unwrap();
    feed(&mut b, begun, at(0)).unwrap();
    let heard = feed(&mut b, &written(&mut a, at(0)), at(0)).unwrap();
    let first_datagram = heard.iter().position(|heard| matches!(heard, Heard::Datagram(_)));
    assert_eq!(first_datagram, Some(3), "after the messages of the frame that was begun");
    assert_eq!(heard[4], Heard::Heartbeat(vec![3]));
    assert_eq!(messages(&heard).len(), 20);
}

#[test]
fn datagrams_are_lost_with_a_connection() {
    let (mut a, mut b) = connected();
    a.offer_datagram(|buffer| buffer.push(1)).unwrap();
    a.disconnected();
    let error = a.offer_datagram(|_| panic!("nothing is written")).unwrap_err();
    assert_eq!(error, OfferError::NotConnected);
    assert_eq!(a.counters().datagrams_dropped, 2);
    connect(&mut a, &mut b, at(0));
    assert_eq!(exchange(&mut a, &mut b, at(0)), (vec![], vec![]));
}

#[test]
fn every_frame_acknowledges_and_one_of_its_own_does_where_nothing_is_sent() {
    let (mut a, mut b) = connected();
    (0..3).for_each(|_| {
        offer(&mut a, b"m");
    });
    let bytes = written(&mut a, at(0));
    feed(&mut b, &bytes, at(1_000)).unwrap();
    assert_eq!(a.backlog().messages, 3);
    assert_eq!(b.write_deadline_us(), Some(6_000));
    assert!(!b.wants_to_write(at(5_999)));
    // A heartbeat carries it.
    b.offer_heartbeat(|_| {}).unwrap();
    let bytes = written(&mut b, at(2_000));
    feed(&mut a, &bytes, at(2_000)).unwrap();
    assert_eq!((a.backlog().messages, a.backlog().bytes), (0, 0));
    assert_eq!(b.write_deadline_us(), None);
    // Nothing does.
    offer(&mut a, b"m");
    let bytes = written(&mut a, at(10_000));
    feed(&mut b, &bytes, at(10_000)).unwrap();
    assert_eq!(written(&mut b, at(14_999)), []);
    let bytes = written(&mut b, at(15_000));
    assert_eq!(bytes.len(), HEADER_BYTES);
    feed(&mut a, &bytes, at(15_000)).unwrap();
    assert_eq!(a.backlog().messages, 0);
    assert!(!b.wants_to_write(at(1 << 40)), "it is sent once");
    // By bytes, without waiting.
    for _ in 0..3 {
        (0..4).for_each(|_| {
            offer(&mut a, &[0; 100]);
        });
        let bytes = written(&mut a, at(20_000));
        feed(&mut b, &bytes, at(20_000)).unwrap();
    }
    let bytes = written(&mut b, at(20_000));
    feed(&mut a, &bytes, at(20_000)).unwrap();
    assert_eq!(a.backlog().messages, 0);
}

#[test]
fn an_acknowledgement_that_was_not_written_is_written_later() {
    let (mut a, mut b) = connected();
    offer(&mut a, b"1");
    let bytes = written(&mut a, at(0));
    feed(&mut b, &bytes, at(0)).unwrap();
    let mut slices = [IoSlice::new(&[]); 8];
    assert_eq!(b.write_slices(at(5_000), &mut slices), 1);
    b.wrote(0);
    assert!(b.wants_to_write(at(5_000)));
    offer(&mut a, b"2");
    let bytes = written(&mut a, at(5_000));
    feed(&mut b, &bytes, at(5_000)).unwrap();
    let bytes = written(&mut b, at(5_000));
    feed(&mut a, &bytes, at(5_000)).unwrap();
    assert_eq!(a.backlog().messages, 0, "with all that was delivered until then");
}

#[test]
fn empty_messages_and_the_longest_are_messages() {
    let (mut a, mut b) = connected();
    offer(&mut a, b"");
    offer(&mut a, &[9; 508]);
    offer(&mut a, b"");
    let error = a.offer(at(0), |buffer| buffer.resize(buffer.len() + 509, 0)).unwrap_err();
    assert_eq!(error.to_string(), "a message of 509 bytes (limit 508, by frame_bytes_max)");
    let (_, heard) = exchange(&mut a, &mut b, at(0));
    assert_eq!(messages(&heard), [(1, &b""[..]), (2, &[9; 508][..]), (3, &b""[..])]);
    for length in [512, 513] {
        let fits = length == 512;
        let datagram = a.offer_datagram(|buffer| buffer.resize(length, 1));
        let heartbeat = a.offer_heartbeat(|buffer| buffer.resize(length, 1));
        assert_eq!((datagram.is_ok(), heartbeat.is_ok()), (fits, fits));
    }
}
