//! The bytes of each frame, which must stay as they are: `corpus/wire/link.txt`. `REWRITE=1`
//! writes the present ones.

use super::support::{accepting, at, feed, identity, link, offer, small, written};
use lockstep_link::{Link, Refusal, VersionRange};
use lockstep_types::HostId;
use std::fmt::Write;

const HEAD: &str = "# Frames of the links between hosts. The format stands at the head of
# crates/link/src/frame.rs. These bytes stay as they are: a change of them is another version of
# the protocol.
";

fn record(text: &mut String, bytes: &[u8], meaning: &str) {
    text.push('\n');
    for line in bytes.chunks(48) {
        text.push_str("  ");
        line.iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
        text.push('\n');
    }
    writeln!(text, "= {meaning}").unwrap();
}

fn frames() -> String {
    let mut text = HEAD.to_string();
    let (mut a, mut b) = (link(1, 5, 2, small()), link(2, 6, 1, small()));
    a.dialed(at(0)).unwrap();
    let hello = written(&mut a, at(0));
    record(&mut text, &hello, "preamble and first hello of host 1 to host 2");
    b.accept(accepting(&hello).unwrap(), at(250)).unwrap();
    let reply = written(&mut b, at(300));
    record(&mut text, &reply, "preamble and reply: a session begins");
    feed(&mut a, &reply, at(500)).unwrap();
    feed(&mut b, &[], at(500)).unwrap();
    offer(&mut a, b"first");
    offer(&mut a, b"");
    offer(&mut a, b"third");
    let messages = written(&mut a, at(600));
    record(&mut text, &messages, "three messages, the second one empty");
    feed(&mut b, &messages, at(700)).unwrap();
    b.offer_datagram(|buffer| buffer.extend_from_slice(b"a datagram")).unwrap();
    let datagram = written(&mut b, at(800));
    record(&mut text, &datagram, "a datagram, which acknowledges the messages");
    feed(&mut a, &datagram, at(900)).unwrap();
    a.offer_heartbeat(|buffer| buffer.extend_from_slice(b"grants")).unwrap();
    let heartbeat = written(&mut a, at(1_000));
    record(&mut text, &heartbeat, "a heartbeat");
    offer(&mut b, b"answer");
    let answer = written(&mut b, at(1_100));
    feed(&mut a, &answer, at(1_100)).unwrap();
    let acknowledgement = written(&mut a, at(6_100));
    record(&mut text, &acknowledgement, "an acknowledgement");
    a.disconnected();
    b.disconnected();
    b.dialed(at(7_000)).unwrap();
    let hello = written(&mut b, at(7_000));
    record(&mut text, &hello, "preamble and hello of host 2, which resumes the session");
    let refusal = Refusal::UnknownHost { host: HostId(2) };
    let bytes = refusal.to_bytes(VersionRange::SUPPORTED);
    record(&mut text, &bytes, "preamble and refusal");
    text
}

#[test]
#[allow(clippy::disallowed_methods)]
fn the_bytes_of_each_frame_are_those_of_the_records() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/wire/link.txt");
    let present = frames();
    if std::env::var("REWRITE").is_ok() {
        std::fs::write(&path, &present).unwrap();
    }
    let records = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(present == records, "not as corpus/wire/link.txt has it: REWRITE=1 cargo test");
}

#[test]
fn a_later_release_may_append_to_the_hello() {
    let mut a = Link::new(identity(1, 1), HostId(2), small()).unwrap();
    let mut b = link(2, 1, 1, small());
    a.dialed(at(0)).unwrap();
    let mut hello = written(&mut a, at(0));
    hello.extend_from_slice(b"a field of version 2");
    let length = (hello.len() - 48) as u32;
    hello[24..28].copy_from_slice(&length.to_be_bytes());
    let payload = crc32fast::hash(&hello[48..]);
    hello[20..24].copy_from_slice(&payload.to_be_bytes());
    let header = crc32fast::hash(&hello[20..48]);
    hello[16..20].copy_from_slice(&header.to_be_bytes());
    b.accept(accepting(&hello).unwrap(), at(0)).unwrap();
    assert_eq!(b.peer().unwrap().name, "host-1");
}
