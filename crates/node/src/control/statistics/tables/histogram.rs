//! Latency histograms as HdrHistogram's libraries read them: version 2 of its encoding, plain and
//! deflated.

use super::{Row, View};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use hdrhistogram::Histogram;
use lockstep_types::Value;
use std::io::Write;

/// Version 2, words of variable length.
const PLAIN: u32 = 0x1c84_9303 | 0x10;
const COMPRESSED: u32 = 0x1c84_9304 | 0x10;

/// A number of variable length: seven bits a byte, the ninth byte whole.
fn put_number(out: &mut Vec<u8>, value: i64) {
    let mut bits = ((value << 1) ^ (value >> 63)) as u64;
    for _ in 0..8 {
        if bits < 0x80 {
            return out.push(bits as u8);
        }
        out.push(bits as u8 | 0x80);
        bits >>= 7;
    }
    out.push(bits as u8);
}

/// The counts in order; a negative number stands for N zeros.
fn counts(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut out = Vec::new();
    let mut zeros = 0i64;
    for place in histogram.iter_all() {
        match i64::try_from(place.count_at_value()).unwrap_or(i64::MAX) {
            0 => zeros += 1,
            count => {
                if zeros > 0 {
                    put_number(&mut out, -std::mem::take(&mut zeros));
                }
                put_number(&mut out, count);
            }
        }
    }
    out
}

fn plain(histogram: &Histogram<u64>) -> Vec<u8> {
    let counts = counts(histogram);
    let mut out = PLAIN.to_be_bytes().to_vec();
    out.extend_from_slice(&(counts.len() as u32).to_be_bytes());
    out.extend_from_slice(&0u32.to_be_bytes());
    out.extend_from_slice(&u32::from(histogram.sigfig()).to_be_bytes());
    out.extend_from_slice(&histogram.low().to_be_bytes());
    out.extend_from_slice(&histogram.high().to_be_bytes());
    out.extend_from_slice(&1f64.to_be_bytes());
    out.extend_from_slice(&counts);
    out
}

fn deflated(plain: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    let written = encoder.write_all(plain).and_then(|()| encoder.finish());
    let payload = written.expect("writing to a vector cannot fail");
    let mut out = COMPRESSED.to_be_bytes().to_vec();
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes());
    out.extend_from_slice(&payload);
    out
}

fn rows(view: &View, cells: fn(Vec<u8>) -> Vec<Vec<u8>>) -> Vec<Row> {
    let row = |snapshot: &crate::statistics::ThreadSnapshot| {
        let histograms = cells(plain(&snapshot.latency_us));
        let site = snapshot.site();
        [site].into_iter().chain(histograms.into_iter().map(|h| Value::Bytes(h.into()))).collect()
    };
    view.snapshots.iter().map(row).collect()
}

/// Each site's histogram, deflated.
pub(super) fn compressed(view: &View) -> Vec<Row> {
    rows(view, |plain| vec![deflated(&plain)])
}

/// Each site's histogram, deflated and plain.
pub(super) fn both(view: &View) -> Vec<Row> {
    rows(view, |plain| vec![deflated(&plain), plain])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_as_few_bytes_as_they_need() {
        let bytes = |value: i64| {
            let mut out = Vec::new();
            put_number(&mut out, value);
            out
        };
        assert_eq!(bytes(0), [0]);
        assert_eq!(bytes(-1), [1]);
        assert_eq!(bytes(1), [2]);
        assert_eq!(bytes(-64), [127]);
        assert_eq!(bytes(64), [0x80, 1]);
        assert_eq!(bytes(i64::MIN), [0xff; 9]);
    }

    #[test]
    fn counts_stand_at_their_places() {
        let mut histogram = Histogram::<u64>::new_with_bounds(1, 3_600_000_000, 2).expect("valid");
        histogram.record_n(0, 3).expect("in range");
        histogram.record_n(5, 2).expect("in range");
        // Three at 0, four places without, two at 5.
        assert_eq!(counts(&histogram), [6, 7, 4]);
        let plain = plain(&histogram);
        assert_eq!(plain[..8], [0x1c, 0x84, 0x93, 0x13, 0, 0, 0, 3]);
        assert_eq!(plain.len(), 40 + 3);
        assert_eq!(deflated(&plain)[..4], [0x1c, 0x84, 0x93, 0x14]);
    }
}
