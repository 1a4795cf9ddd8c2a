//! Bytes that no sound peer sends: each ends the connection with an error, none a process, and
//! nothing wrong is delivered.

use super::support::{
    Heard, accepting, at, connect, feed, feed_into, identity, length_of, mend, mend_all, offer,
    pair, written,
};
use lockstep_base::random::SeededRandom;
use lockstep_link::{
    Accepting, HEADER_BYTES, Link, LinkError, PREAMBLE_BYTES, RefusalReason, VersionRange,
};

/// A link that has dialed, and the bytes of a sound peer with frames of every kind.
fn dialed_with_stream() -> (Link, Vec<u8>) {
    let (mut a, mut b) = pair();
    a.dialed(at(0)).unwrap();
    b.accept(accepting(&written(&mut a, at(0))).unwrap(), at(0)).unwrap();
    feed(&mut b, &[], at(0)).unwrap();
    let mut stream = written(&mut b, at(0));
    b.offer_datagram(|buffer| buffer.extend_from_slice(b"datagram")).unwrap();
    (0..5u8).for_each(|n| {
        offer(&mut b, &[n; 9]);
    });
    stream.extend(written(&mut b, at(0)));
    b.offer_heartbeat(|buffer| buffer.extend_from_slice(b"heartbeat")).unwrap();
    (5..9u8).for_each(|n| {
        offer(&mut b, &[n; 70]);
    });
    stream.extend(written(&mut b, at(0)));
    (a, stream)
}

#[test]
fn every_prefix_gives_a_prefix_of_what_the_whole_gives() {
    let (mut a, stream) = dialed_with_stream();
    let whole = feed(&mut a, &stream, at(0)).unwrap();
    assert_eq!(whole.len(), 13);
    for end in 0..stream.len() {
        let (mut a, _) = dialed_with_stream();
        let heard = feed(&mut a, &stream[..end], at(0)).unwrap();
        assert!(heard.len() < whole.len() && whole.starts_with(&heard), "{end}");
    }
}

#[test]
fn every_flipped_bit_is_found() {
    let (mut a, stream) = dialed_with_stream();
    let whole = feed(&mut a, &stream, at(0)).unwrap();
    for bit in 0..stream.len() * 8 {
        let mut flipped = stream.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let (mut a, _) = dialed_with_stream();
        let mut heard = Vec::new();
        let error = feed_into(&mut a, &flipped, at(0), &mut heard).unwrap_err();
        assert!(whole.starts_with(&heard), "{bit}: {error}");
        assert!(!error.to_string().is_empty() && !a.is_connected());
        assert_eq!(feed(&mut a, &[], at(0)).unwrap(), [], "nothing more comes");
    }
}

#[test]
fn every_flipped_bit_of_a_hello_is_found() {
    let (mut a, _) = pair();
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    for bit in 0..hello.len() * 8 {
        let mut flipped = hello.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = accepting(&flipped).unwrap_err();
        let is_magic = bit / 8 < 8;
        assert_eq!(error.refusal().is_none(), is_magic, "another protocol gets no answer: {error}");
    }
    for end in 0..hello.len() {
        assert!(accepting(&hello[..end]).unwrap().hello().unwrap().is_none(), "{end}");
    }
}

#[test]
fn bytes_of_another_protocol_are_refused_at_their_first_byte() {
    for (bytes, shown) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "\"GET / HT\""),
        (&b"\x16\x03\x01"[..], "\"\\x16\\x03\\x01\""),
        (&b"LOCKSTEP"[..], "\"LOCKSTEP\""),
    ] {
        let error = accepting(bytes).unwrap_err().to_string();
        assert!(error.contains(shown) && error.contains("\"LOCKLINK\""), "{error}");
        let (mut a, _) = dialed_with_stream();
        assert!(feed(&mut a, bytes, at(0)).unwrap_err().to_string().contains(shown));
        assert_eq!(written(&mut a, at(0)), [], "it gets no answer");
    }
}

#[test]
fn frames_in_the_wrong_order_are_named() {
    let (_, stream) = dialed_with_stream();
    let (preamble, frames) = stream.split_at(PREAMBLE_BYTES);
    let hello_end = HEADER_BYTES + length_of(frames);
    // A frame before the hello; a reply where a hello is due.
    let datagram = &frames[hello_end..];
    let error = accepting(&[preamble, datagram].concat()).unwrap_err().to_string();
    assert_eq!(error, "a datagram frame came where a hello is expected");
    let error = accepting(&stream).unwrap_err().to_string();
    assert_eq!(error, "a hello reply frame came where a hello is expected");
    let (mut a, _) = dialed_with_stream();
    let error = feed(&mut a, &[preamble, datagram].concat(), at(0)).unwrap_err().to_string();
    assert_eq!(error, "a datagram frame came where a hello reply is expected");
    // A second hello.
    let (mut a, _) = dialed_with_stream();
    feed(&mut a, &stream, at(0)).unwrap();
    let error = feed(&mut a, &frames[..hello_end], at(0)).unwrap_err().to_string();
    assert_eq!(error, "a hello reply frame came where a frame after the hello is expected");
}

#[test]
fn repeated_and_missing_messages_are_named() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    let mut frames = Vec::new();
    for n in 0..3u8 {
        offer(&mut a, &[n]);
        frames.push(written(&mut a, at(0)));
    }
    feed(&mut b, &frames[0], at(0)).unwrap();
    let error = feed(&mut b, &frames[2], at(0)).unwrap_err();
    assert_eq!(error, LinkError::MessageNumber { found: 3, expected: 2 });
    let (mut a, mut c) = pair();
    connect(&mut a, &mut c, at(0));
    feed(&mut c, &frames[0], at(0)).unwrap();
    let error = feed(&mut c, &frames[0], at(0)).unwrap_err();
    assert_eq!(error.to_string(), "message 1 came where message 2 is expected");
    let error = feed(&mut a, &written(&mut c, at(0)), at(0)).unwrap_err();
    match error {
        LinkError::Refused(refusal) => assert_eq!(refusal.reason, RefusalReason::Protocol),
        other => panic!("the sender can report what was wrong: {other}"),
    }
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_is_named() {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    offer(&mut a, b"1");
    feed(&mut b, &written(&mut a, at(0)), at(0)).unwrap();
    let acknowledgement = written(&mut b, at(5_000));
    let (mut c, mut d) = pair();
    connect(&mut c, &mut d, at(0));
    let error = feed(&mut c, &acknowledgement, at(0)).unwrap_err();
    assert_eq!(error, LinkError::Acknowledged { found: 1, earlier: 0, sent: 0 });
    // And one that goes back.
    feed(&mut a, &acknowledgement, at(0)).unwrap();
    d.offer_heartbeat(|_| {}).unwrap();
    let error = feed(&mut a, &written(&mut d, at(0)), at(0)).unwrap_err();
    assert_eq!(error, LinkError::Acknowledged { found: 0, earlier: 1, sent: 1 });
}

#[test]
fn messages_that_do_not_fill_their_frame_are_malformed() {
    for (length, text) in [(3u32, "wrong"), (6, "wrong"), (u32::MAX, "wrong")] {
        let (mut a, mut b) = pair();
        connect(&mut a, &mut b, at(0));
        offer(&mut a, b"12345");
        let mut frame = written(&mut a, at(0));
        frame[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&length.to_be_bytes());
        mend(&mut frame);
        let error = feed(&mut b, &frame, at(0)).unwrap_err().to_string();
        assert!(error.contains(text) && error.contains("length of a message"), "{error}");
        assert!(!b.is_connected());
    }
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    offer(&mut a, b"");
    let mut frame = written(&mut a, at(0));
    frame.truncate(HEADER_BYTES);
    frame[8..12].copy_from_slice(&[0; 4]);
    mend(&mut frame);
    let error = feed(&mut b, &frame, at(0)).unwrap_err().to_string();
    assert!(error.contains("first message"), "{error}");
}

/// Sound checksums around random changes: what a faulty peer may send, and what chance may do to
/// every field.
#[test]
fn random_bytes_with_sound_checksums_end_in_errors_or_events() {
    let mut random = SeededRandom::new(11);
    let (mut errors, mut events) = (0, 0);
    for round in 0..4_000 {
        let (mut a, stream) = dialed_with_stream();
        let mut stream = match round % 2 {
            0 => stream,
            _ => {
                let mut bytes = stream[..PREAMBLE_BYTES].to_vec();
                bytes.extend((0..random.below(200)).map(|_| random.next_u64() as u8));
                bytes
            }
        };
        for _ in 0..=random.below(3) {
            let at = random.below(stream.len() as u64) as usize;
            stream[at] = random.next_u64() as u8;
        }
        mend_all(&mut stream);
        let mut heard = Vec::new();
        errors += usize::from(feed_into(&mut a, &stream, at(0), &mut heard).is_err());
        events += heard.len();
        let mut accepted = Accepting::new(VersionRange::SUPPORTED);
        let count = accepted.read_space().len().min(stream.len());
        accepted.read_space()[..count].copy_from_slice(&stream[..count]);
        accepted.filled(count);
        let _ = accepted.hello();
        written(&mut a, at(0));
        a.disconnected();
    }
    assert!(errors > 1_000 && events > 1_000, "{errors} errors, {events} events");
}

#[test]
fn a_header_costs_no_memory_before_its_payload_comes() {
    let limits = lockstep_link::LinkLimits { read_bytes: 256, ..Default::default() };
    let mut wide = Link::new(identity(1, 1), lockstep_types::HostId(2), limits).unwrap();
    let mut peer = Link::new(identity(2, 1), lockstep_types::HostId(1), limits).unwrap();
    connect(&mut peer, &mut wide, at(0));
    peer.offer(at(0), |buffer| buffer.resize(buffer.len() + (1 << 20), 1)).unwrap();
    let frame = written(&mut peer, at(0));
    feed(&mut wide, &frame[..1_000], at(0)).unwrap();
    assert!(wide.read_space().len() <= 2_048, "as much again as has come, at most");
    let heard = feed(&mut wide, &frame[1_000..], at(0)).unwrap();
    assert!(matches!(&heard[..], [Heard::Message(1, bytes)] if bytes.len() == 1 << 20));
    let shrinks = (0..100).any(|_| wide.read_space().len() == 256);
    assert!(shrinks, "when no more long frames come");
}
