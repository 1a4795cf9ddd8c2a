//! Readings of a host's clocks, which callers pass in, and the offset between the wall clocks of
//! two hosts, estimated from round trips.
//!
//! Each stamp carries the sender's clocks and repeats the monotonic reading of the last stamp that
//! it received, with the time since then. From that the receiver computes how long the round
//! trip took. The peer's wall clock was read somewhere within it: in the middle, plus or minus half
//! of the round trip.

use crate::error::Malformed;
use lockstep_base::bytes::{ByteReader, ByteWriter};
use lockstep_base::elapsed::Elapsed;

/// Length of a stamp.
pub(crate) const STAMP_BYTES: usize = 32;
/// Of the latest samples the one with the shortest round trip counts.
const SAMPLES: usize = 8;
/// The hold time of a stamp that repeats nothing.
const NO_ECHO: i64 = -1;

/// What a host's clocks show at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ClockReading {
    /// A clock that never steps, from any origin, in microseconds.
    pub monotonic_us: i64,
    /// Wall-clock time since 1970, in microseconds.
    pub wall_us: i64,
}

/// How far the peer's wall clock is from this host's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockOffset {
    /// Peer's clock minus own clock, in microseconds: positive if the peer's clock is ahead.
    pub offset_us: i64,
    /// The most that the estimate is wrong by: half of the round trip.
    pub error_us: u64,
}

impl ClockOffset {
    /// Whether the clocks differ by more than `limit_us` for certain.
    pub fn exceeds(&self, limit_us: u64) -> bool {
        self.offset_us.unsigned_abs() > limit_us.saturating_add(self.error_us)
    }
}

/// The clock part of a hello and of a heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Stamp {
    pub sent: ClockReading,
    /// The monotonic reading of the last stamp received, and how long ago that was.
    pub echo: Option<(i64, u64)>,
}

impl Stamp {
    pub fn encode(&self) -> [u8; STAMP_BYTES] {
        let (echo, hold) = self.echo.map_or((0, NO_ECHO), |(echo, hold_us)| {
            (echo, i64::try_from(hold_us).unwrap_or(i64::MAX))
        });
        let mut bytes = [0; STAMP_BYTES];
        let fields = [self.sent.monotonic_us, self.sent.wall_us, echo, hold];
        for (field, chunk) in fields.into_iter().zip(bytes.chunks_exact_mut(8)) {
            chunk.copy_from_slice(&field.to_be_bytes());
        }
        bytes
    }

    pub fn put(&self, bytes: &mut Vec<u8>) {
        self.encode().into_iter().for_each(|byte| bytes.put_u8(byte));
    }

    pub fn read(reader: &mut ByteReader<'_>) -> Result<Stamp, Malformed> {
        let mut field = || reader.i64().map_err(|_| Malformed("clock readings"));
        let sent = ClockReading { monotonic_us: field()?, wall_us: field()? };
        let (echo, hold) = (field()?, field()?);
        if hold < NO_ECHO {
            return Err(Malformed("hold time of the clock readings"));
        }
        Ok(Stamp { sent, echo: u64::try_from(hold).ok().map(|hold_us| (echo, hold_us)) })
    }
}

#[derive(Debug, Clone, Copy)]
struct Received {
    /// The peer's monotonic reading.
    peer_us: i64,
    /// This host's monotonic reading when it came.
    at_us: i64,
}

/// The latest samples of one connection.
#[derive(Debug, Default)]
pub(crate) struct ClockSamples {
    received: Option<Received>,
    samples: [Option<ClockOffset>; SAMPLES],
    next: usize,
}

impl ClockSamples {
    /// The stamp to send at `now`.
    pub fn stamp(&self, now: ClockReading) -> Stamp {
        let echo = self.received.map(|received| {
            (received.peer_us, Elapsed::between_us(received.at_us, now.monotonic_us).us())
        });
        Stamp { sent: now, echo }
    }

    /// Takes a stamp that came at `now`.
    pub fn receive(&mut self, stamp: Stamp, now: ClockReading) {
        let at_us = now.monotonic_us;
        self.received = Some(Received { peer_us: stamp.sent.monotonic_us, at_us });
        let Some((sent_us, hold_us)) = stamp.echo else { return };
        let round_trip_us = Elapsed::between_us(sent_us, at_us).us().saturating_sub(hold_us);
        let error_us = round_trip_us.div_ceil(2);
        let read_at = now.wall_us.saturating_sub_unsigned(error_us);
        let offset_us = stamp.sent.wall_us.saturating_sub(read_at);
        self.samples[self.next] = Some(ClockOffset { offset_us, error_us });
        self.next = (self.next + 1) % SAMPLES;
    }

    /// The estimate with the shortest round trip of the latest ones; none before the first.
    pub fn offset(&self) -> Option<ClockOffset> {
        self.samples.iter().flatten().min_by_key(|sample| sample.error_us).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEW_US: i64 = 61_200_000;

    fn reading(true_us: i64, wall_skew_us: i64) -> ClockReading {
        ClockReading { monotonic_us: true_us + 77, wall_us: true_us + wall_skew_us }
    }

    /// One host's heartbeat goes there and comes back with the other's.
    fn round_trip(samples: &mut ClockSamples, at_us: i64, there_us: i64, back_us: i64) {
        let mut peer = ClockSamples::default();
        peer.receive(samples.stamp(reading(at_us, 0)), reading(at_us + there_us, SKEW_US));
        let answered_us = at_us + there_us + 20_000;
        let stamp = peer.stamp(reading(answered_us, SKEW_US));
        samples.receive(stamp, reading(answered_us + back_us, 0));
    }

    #[test]
    fn the_estimate_holds_the_true_offset_whatever_the_ways_take() {
        for (there_us, back_us) in [(0, 0), (100, 100), (9_000, 10), (10, 9_000)] {
            let mut samples = ClockSamples::default();
            assert_eq!(samples.offset(), None);
            round_trip(&mut samples, 5_000, there_us, back_us);
            let offset = samples.offset().unwrap();
            assert_eq!(offset.error_us, (there_us + back_us).unsigned_abs().div_ceil(2));
            assert!((offset.offset_us - SKEW_US).unsigned_abs() <= offset.error_us, "{offset:?}");
            assert!(offset.exceeds(1_000_000));
            assert!(!offset.exceeds(61_200_000));
        }
    }

    #[test]
    fn the_shortest_of_the_latest_round_trips_counts() {
        let mut samples = ClockSamples::default();
        round_trip(&mut samples, 0, 10, 10);
        round_trip(&mut samples, 100_000, 50_000, 10);
        assert_eq!(samples.offset().unwrap().error_us, 10);
        for round in 2..10 {
            round_trip(&mut samples, round * 100_000, 3_000, 1_000);
        }
        assert_eq!(samples.offset().unwrap().error_us, 2_000, "the first one is too old");
    }

    #[test]
    fn stamps_are_read_back_and_extremes_end_in_numbers() {
        for echo in [None, Some((-5, 0)), Some((i64::MAX, i64::MAX as u64))] {
            let sent = ClockReading { monotonic_us: i64::MIN, wall_us: i64::MAX };
            let stamp = Stamp { sent, echo };
            let bytes = stamp.encode();
            let mut reader = ByteReader::new(&bytes);
            assert_eq!(Stamp::read(&mut reader), Ok(stamp));
            let mut samples = ClockSamples::default();
            for wall_us in [i64::MIN, i64::MAX] {
                samples.receive(stamp, ClockReading { monotonic_us: wall_us, wall_us });
                let _ = samples.offset().map(|offset| offset.exceeds(u64::MAX));
            }
            let cut = &mut ByteReader::new(&bytes[1..]);
            assert_eq!(Stamp::read(cut), Err(Malformed("clock readings")));
        }
        let mut bytes = [0; STAMP_BYTES];
        bytes[24..].copy_from_slice(&(-2i64).to_be_bytes());
        assert!(Stamp::read(&mut ByteReader::new(&bytes)).is_err());
    }
}
