//! What another host can send: to a port that hosts connect to, and to a link that has dialed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_link::{
    Accepting, ClockReading, ClusterId, Event, HEADER_BYTES, HostIdentity, Link, LinkLimits,
    PREAMBLE_BYTES, VersionRange,
};
use lockstep_types::HostId;
use std::io::IoSlice;

const NOW: ClockReading = ClockReading { monotonic_us: 1_000, wall_us: 1_795_244_523_000_000 };

/// Those of the hosts in the seeds.
fn end(host: u32, incarnation: u64, peer: u32) -> Link {
    let identity = HostIdentity {
        cluster: ClusterId([7; 16]),
        host: HostId(host),
        incarnation,
        process: u64::from(host) << 32 | incarnation,
        name: format!("host-{host}"),
        release: "0.1.0".to_string(),
        versions: VersionRange::SUPPORTED,
    };
    let limits = LinkLimits { frame_bytes_max: 4_096, ..LinkLimits::default() };
    Link::new(identity, HostId(peer), limits).expect("the limits fit together")
}

/// Gives the preamble and the frames the checksums that they should have.
fn mend(bytes: &mut [u8]) {
    let Some((preamble, mut frames)) = bytes.split_at_mut_checked(PREAMBLE_BYTES) else { return };
    let checksum = crc32fast::hash(&preamble[..12]);
    preamble[12..].copy_from_slice(&checksum.to_be_bytes());
    while frames.len() >= HEADER_BYTES {
        let length = u32::from_be_bytes(frames[8..12].try_into().expect("four bytes")) as usize;
        let end = HEADER_BYTES.saturating_add(length).min(frames.len());
        let (frame, rest) = frames.split_at_mut(end);
        let payload = crc32fast::hash(&frame[HEADER_BYTES..]);
        frame[4..8].copy_from_slice(&payload.to_be_bytes());
        let header = crc32fast::hash(&frame[4..HEADER_BYTES]);
        frame[..4].copy_from_slice(&header.to_be_bytes());
        frames = rest;
    }
}

/// What a link made of bytes: its events, and whether an error ended them.
#[derive(Debug, Default, PartialEq)]
struct Outcome {
    events: Vec<String>,
    failed: bool,
}

impl Outcome {
    const FAILED: Outcome = Outcome { events: Vec::new(), failed: true };
}

/// Gives bytes to a link in pieces.
fn feed(link: &mut Link, bytes: &[u8], piece: usize) -> Outcome {
    let mut outcome = Outcome::default();
    let mut next = 1;
    // The last one is empty: what came with the hello may be all.
    for mut piece in bytes.chunks(piece).chain([&[][..]]) {
        loop {
            match link.next_event(NOW) {
                Ok(Some(event)) => {
                    if let Event::Message { number, .. } = event {
                        assert_eq!(number, next, "numbers are consecutive");
                        next += 1;
                    }
                    outcome.events.push(format!("{event:?}"));
                    continue;
                }
                Ok(None) if piece.is_empty() => break,
                Ok(None) => {}
                Err(error) => {
                    assert!(!link.is_connected(), "an error ends the connection");
                    assert!(!error.to_string().is_empty(), "it has a text");
                    outcome.failed = true;
                    return outcome;
                }
            }
            let space = link.read_space();
            let count = space.len().min(piece.len());
            assert!(count > 0, "all frames were taken");
            space[..count].copy_from_slice(&piece[..count]);
            link.filled(count);
            piece = &piece[count..];
        }
    }
    outcome
}

/// Takes what a link wants to write.
fn drain(link: &mut Link) {
    while link.wants_to_write(NOW) {
        let mut slices = [IoSlice::new(&[]); 8];
        let count = link.write_slices(NOW, &mut slices);
        let bytes = slices[..count].iter().map(|slice| slice.len()).sum();
        assert!(bytes > 0, "it has something to write");
        link.wrote(bytes);
    }
}

/// A connection to the port for hosts.
fn accept(bytes: &[u8], piece: usize) -> Outcome {
    let mut accepting = Accepting::new(VersionRange::SUPPORTED);
    let mut rest = bytes;
    loop {
        match accepting.hello() {
            Ok(Some(_)) => break,
            Ok(None) if rest.is_empty() => return Outcome::default(),
            Ok(None) => {}
            Err(error) => {
                let refusal = error.refusal().map(|r| r.to_bytes(VersionRange::SUPPORTED));
                assert!(refusal.is_none_or(|bytes| bytes.len() > PREAMBLE_BYTES + HEADER_BYTES));
                return Outcome::FAILED;
            }
        }
        let space = accepting.read_space();
        let count = space.len().min(rest.len()).min(piece);
        space[..count].copy_from_slice(&rest[..count]);
        accepting.filled(count);
        rest = &rest[count..];
    }
    let mut link = end(2, 6, 1);
    if link.accept(accepting, NOW).is_err() {
        return Outcome::FAILED;
    }
    drain(&mut link);
    let outcome = feed(&mut link, rest, piece);
    drain(&mut link);
    outcome
}

/// The answer to a link that has dialed.
fn dial(bytes: &[u8], piece: usize) -> Outcome {
    let mut link = end(1, 5, 2);
    link.dialed(NOW).expect("there is no connection");
    drain(&mut link);
    let outcome = feed(&mut link, bytes, piece);
    drain(&mut link);
    outcome
}

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.to_vec();
    // The last byte says whether damage is to be found by its checksum, and how long pieces are.
    let last = bytes.last().copied().unwrap_or_default();
    if last % 2 == 0 {
        mend(&mut bytes);
    }
    let piece = usize::from(last / 2) + 1;
    for run in [accept, dial] {
        assert_eq!(run(&bytes, piece), run(&bytes, usize::MAX), "pieces make no difference");
    }
});
