//! Links, and functions that move bytes between them.

use lockstep_link::{
    Accepting, ClockReading, ClusterId, Event, HEADER_BYTES, HostIdentity, Link, LinkError,
    LinkLimits, PREAMBLE_BYTES, Refusal, SessionId, VersionRange,
};
use lockstep_types::HostId;
use std::io::IoSlice;

/// An event with bytes of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Heard {
    Ended(SessionId),
    Began(SessionId),
    Connected(bool),
    Message(u64, Vec<u8>),
    Datagram(Vec<u8>),
    Heartbeat(Vec<u8>),
}

impl Heard {
    pub fn of(event: Event<'_>) -> Heard {
        match event {
            Event::SessionEnded { session } => Heard::Ended(session),
            Event::SessionBegan { session } => Heard::Began(session),
            Event::Connected { resumed } => Heard::Connected(resumed),
            Event::Message { number, bytes } => Heard::Message(number, bytes.to_vec()),
            Event::Datagram(bytes) => Heard::Datagram(bytes.to_vec()),
            Event::Heartbeat(bytes) => Heard::Heartbeat(bytes.to_vec()),
        }
    }
}

pub fn identity(host: u32, incarnation: u64) -> HostIdentity {
    HostIdentity {
        cluster: ClusterId([7; 16]),
        host: HostId(host),
        incarnation,
        process: u64::from(host) << 32 | incarnation,
        name: format!("host-{host}"),
        release: "0.1.0".to_string(),
        versions: VersionRange::SUPPORTED,
    }
}

pub fn link(host: u32, incarnation: u64, peer: u32, limits: LinkLimits) -> Link {
    Link::new(identity(host, incarnation), HostId(peer), limits).unwrap()
}

/// The ends of the link between hosts 1 and 2, without a connection.
pub fn pair() -> (Link, Link) {
    (link(1, 1, 2, small()), link(2, 1, 1, small()))
}

/// Limits at which everything ends soon.
pub fn small() -> LinkLimits {
    LinkLimits {
        frame_bytes_max: 512,
        backlog_bytes_max: 4_096,
        backlog_messages_max: 100,
        datagram_bytes_max: 1_024,
        datagrams_max: 8,
        chunk_bytes: 256,
        spare_bytes_max: 4_096,
        read_bytes: 256,
        acknowledge_after_us: 5_000,
        acknowledge_after_bytes: 1_000,
    }
}

pub fn at(us: i64) -> ClockReading {
    ClockReading { monotonic_us: us, wall_us: 1_795_244_523_000_000 + us }
}

/// All that a link wants to write.
pub fn written(link: &mut Link, now: ClockReading) -> Vec<u8> {
    let mut bytes = Vec::new();
    while link.wants_to_write(now) {
        let begin = bytes.len();
        let mut slices = [IoSlice::new(&[]); 8];
        let count = link.write_slices(now, &mut slices);
        slices[..count].iter().for_each(|slice| bytes.extend_from_slice(slice));
        link.wrote(bytes.len() - begin);
        assert!(bytes.len() > begin, "it has something to write");
    }
    bytes
}

/// Gives bytes to a link, and what happens.
pub fn feed(link: &mut Link, bytes: &[u8], now: ClockReading) -> Result<Vec<Heard>, LinkError> {
    let mut heard = Vec::new();
    feed_into(link, bytes, now, &mut heard)?;
    Ok(heard)
}

/// The same, with what happened before an error.
pub fn feed_into(
    link: &mut Link,
    bytes: &[u8],
    now: ClockReading,
    heard: &mut Vec<Heard>,
) -> Result<(), LinkError> {
    let mut rest = bytes;
    loop {
        while let Some(event) = link.next_event(now)? {
            heard.push(Heard::of(event));
        }
        if rest.is_empty() {
            return Ok(());
        }
        let space = link.read_space();
        assert!(!space.is_empty(), "all frames were taken");
        let count = space.len().min(rest.len());
        space[..count].copy_from_slice(&rest[..count]);
        link.filled(count);
        rest = &rest[count..];
    }
}

/// Reads a hello from bytes.
pub fn accepting(hello: &[u8]) -> Result<Accepting, LinkError> {
    accepting_of(hello, VersionRange::SUPPORTED)
}

pub fn accepting_of(hello: &[u8], versions: VersionRange) -> Result<Accepting, LinkError> {
    let mut accepting = Accepting::new(versions);
    let mut rest = hello;
    while accepting.hello()?.is_none() && !rest.is_empty() {
        let space = accepting.read_space();
        let count = space.len().min(rest.len());
        space[..count].copy_from_slice(&rest[..count]);
        accepting.filled(count);
        rest = &rest[count..];
    }
    Ok(accepting)
}

/// `a` dials `b`; what both hear.
pub fn connect(a: &mut Link, b: &mut Link, now: ClockReading) -> (Vec<Heard>, Vec<Heard>) {
    a.dialed(now).unwrap();
    let hello = written(a, now);
    b.accept(accepting(&hello).unwrap(), now).unwrap();
    let heard_b = feed(b, &[], now).unwrap();
    let reply = written(b, now);
    (feed(a, &reply, now).unwrap(), heard_b)
}

/// `a` dials `b`, which refuses.
pub fn refused(a: &mut Link, b: &mut Link, now: ClockReading) -> (Refusal, LinkError) {
    a.dialed(now).unwrap();
    let hello = written(a, now);
    let refusal = b.accept(accepting(&hello).unwrap(), now).unwrap_err();
    let bytes = refusal.to_bytes(VersionRange::SUPPORTED);
    (refusal, feed(a, &bytes, now).unwrap_err())
}

pub fn offer(link: &mut Link, bytes: &[u8]) -> u64 {
    link.offer(at(0), |buffer| buffer.extend_from_slice(bytes)).unwrap()
}

/// Everything that each has to write is given to the other, until nothing more is.
pub fn exchange(a: &mut Link, b: &mut Link, now: ClockReading) -> (Vec<Heard>, Vec<Heard>) {
    let (mut heard_a, mut heard_b) = (Vec::new(), Vec::new());
    loop {
        let (from_a, from_b) = (written(a, now), written(b, now));
        if from_a.is_empty() && from_b.is_empty() {
            return (heard_a, heard_b);
        }
        heard_b.extend(feed(b, &from_a, now).unwrap());
        heard_a.extend(feed(a, &from_b, now).unwrap());
    }
}

pub fn messages(heard: &[Heard]) -> Vec<(u64, &[u8])> {
    heard
        .iter()
        .filter_map(|heard| match heard {
            Heard::Message(number, bytes) => Some((*number, bytes.as_slice())),
            _ => None,
        })
        .collect()
}

/// The length of a frame's payload.
pub fn length_of(frame: &[u8]) -> usize {
    u32::from_be_bytes(frame[8..12].try_into().unwrap()) as usize
}

/// Gives a frame the checksums of its bytes.
pub fn mend(frame: &mut [u8]) {
    let payload = crc32fast::hash(&frame[HEADER_BYTES..]);
    frame[4..8].copy_from_slice(&payload.to_be_bytes());
    let header = crc32fast::hash(&frame[4..HEADER_BYTES]);
    frame[..4].copy_from_slice(&header.to_be_bytes());
}

/// Gives a preamble and the frames after it the checksums of their bytes.
pub fn mend_all(stream: &mut [u8]) {
    let preamble = crc32fast::hash(&stream[..12]);
    stream[12..16].copy_from_slice(&preamble.to_be_bytes());
    let mut at = PREAMBLE_BYTES;
    while stream.len() - at >= HEADER_BYTES {
        let end = (at + HEADER_BYTES).saturating_add(length_of(&stream[at..])).min(stream.len());
        mend(&mut stream[at..end]);
        at = end;
    }
}
