//! Damaged messages end as errors: every cut and every flipped bit of every captured one.

use crate::corpus::{self, records};
use lockstep_base::bytes::ByteReader;
use lockstep_types::{ParameterSet, TableView};
use lockstep_wire_volt::frame::{DEFAULT_MAX_FRAME_BYTES, frame_bytes};
use lockstep_wire_volt::{FrameError, next_frame};

/// Everything that reads bytes of a peer, walked to its end.
fn read_as_everything(bytes: &[u8]) -> Vec<String> {
    vec![
        corpus::show_login(bytes),
        corpus::show_reply(bytes),
        corpus::show_invocation(bytes),
        corpus::show_response(bytes),
        ParameterSet::new(bytes)
            .map_or_else(|e| e.to_string(), |set| corpus::show_parameters(set).join(", ")),
        TableView::read(&mut ByteReader::new(bytes))
            .map_or_else(|e| e.to_string(), |table| corpus::show_table(&table)),
    ]
}

#[test]
fn no_flipped_bit_is_a_panic() {
    let mut read = 0;
    for file in ["login", "invocations", "parameters", "responses", "tables"] {
        for record in records(file) {
            for start in [0, 4] {
                let mut bytes = record.bytes.get(start..).unwrap_or_default().to_vec();
                for bit in 0..bytes.len() * 8 {
                    bytes[bit / 8] ^= 1 << (bit % 8);
                    read += read_as_everything(&bytes).len();
                    bytes[bit / 8] ^= 1 << (bit % 8);
                }
            }
        }
    }
    assert!(read > 100_000, "{read} readings");
}

#[test]
fn every_cut_is_an_error() {
    let is_error = |text: &str| {
        ["error", "refused", "rejected", "malformed"].iter().any(|word| text.contains(word))
    };
    type Show = fn(&[u8]) -> String;
    let shows: [(&str, Show); 3] = [
        ("login", corpus::show_login),
        ("invocations", corpus::show_invocation),
        ("responses", corpus::show_response),
    ];
    for (file, show) in shows {
        for record in records(file) {
            let show = if record.name.starts_with("reply") { corpus::show_reply } else { show };
            for cut in 4..record.bytes.len() {
                let text = show(&record.bytes[4..cut]);
                assert!(is_error(&text), "{} cut at {cut}: {text}", record.name);
                assert_eq!(next_frame(&record.bytes[..cut], 1000), Ok(None));
            }
        }
    }
}

#[test]
fn lengths_that_no_message_has_are_named() {
    let of = |length: i32, limit| next_frame(&length.to_be_bytes(), limit).map(|f| f.is_some());
    for length in [0, -1, i32::MIN] {
        assert_eq!(of(length, 100), Err(FrameError::NotPositive(length)));
    }
    assert_eq!(of(100, 100), Ok(false));
    assert_eq!(of(101, 100), Err(FrameError::TooLong { length: 101, limit: 100 }));
    let error = of(i32::MAX, DEFAULT_MAX_FRAME_BYTES).expect_err("over the limit");
    assert_eq!(
        error.to_string(),
        "a message announces 2147483647 bytes, over the limit of 52428800 bytes"
    );
    assert_eq!(frame_bytes(&100i32.to_be_bytes(), 100), Ok(Some(104)));
}

#[test]
fn a_stream_gives_its_frames_however_it_is_cut() {
    let captured = records("invocations");
    let stream: Vec<u8> = captured.iter().flat_map(|r| r.bytes.clone()).collect();
    for step in [1, 2, 3, 7, 64, stream.len()] {
        let mut buffer = Vec::new();
        let mut bodies = Vec::new();
        for part in stream.chunks(step) {
            buffer.extend_from_slice(part);
            while let Some((body, consumed)) = next_frame(&buffer, 1000).expect("sound lengths") {
                bodies.push(body.to_vec());
                buffer.drain(..consumed);
            }
        }
        assert!(buffer.is_empty());
        assert!(bodies.iter().eq(captured.iter().map(|r| &r.bytes[4..])), "step {step}");
    }
}
