//! A connection that breaks at each byte, in each direction: after a reconnect everything has been
//! delivered once and in order.

use super::support::{at, connect, exchange, feed_into, messages, offer, pair, written};
use lockstep_link::Link;

const MESSAGES: u64 = 12;

fn offer_some(link: &mut Link, from: u64) {
    for number in from..from + MESSAGES {
        offer(link, &number.to_be_bytes().repeat(number as usize % 7));
    }
}

/// Both sides have messages; the stream of `cut_side` breaks after `bytes` of it, all of which are
/// delivered in pieces and taken but for the last `untaken` messages.
fn run(cut_side: usize, bytes: usize, redialer: usize) -> bool {
    let (mut a, mut b) = pair();
    connect(&mut a, &mut b, at(0));
    let mut heard = [Vec::new(), Vec::new()];
    for end in [&mut a, &mut b] {
        offer_some(end, 1);
    }
    let streams = [written(&mut a, at(0)), written(&mut b, at(0))];
    let is_cut = bytes < streams[cut_side].len();
    let given = streams[cut_side].len().min(bytes);
    let mut ends = [a, b];
    let other = 1 - cut_side;
    feed_into(&mut ends[other], &streams[cut_side][..given], at(0), &mut heard[other]).unwrap();
    feed_into(&mut ends[cut_side], &streams[other], at(0), &mut heard[cut_side]).unwrap();
    let [a, b] = &mut ends;
    a.disconnected();
    b.disconnected();
    offer_some(a, MESSAGES + 1);
    let more = match redialer {
        0 => connect(a, b, at(0)),
        _ => {
            let (b, a) = connect(b, a, at(0));
            (a, b)
        }
    };
    heard[0].extend(more.0);
    heard[1].extend(more.1);
    let more = exchange(a, b, at(10_000));
    heard[0].extend(more.0);
    heard[1].extend(more.1);
    // Acknowledgements wait a little for frames to travel with.
    assert_eq!(exchange(a, b, at(20_000)), (vec![], vec![]));
    for (side, count) in [(0, MESSAGES), (1, 2 * MESSAGES)] {
        let found = messages(&heard[side]);
        assert_eq!(found.len() as u64, count, "{cut_side} {bytes} {side}");
        for (expected, (number, bytes)) in (1..).zip(found) {
            assert_eq!(number, expected);
            assert_eq!(bytes, number.to_be_bytes().repeat(number as usize % 7));
        }
    }
    assert_eq!(ends.each_ref().map(|end| end.backlog().messages), [0, 0]);
    is_cut
}

#[test]
fn a_cut_at_every_byte_loses_and_repeats_nothing() {
    for side in [0, 1] {
        for redialer in [0, 1] {
            let mut bytes = 0;
            while run(side, bytes, redialer) {
                bytes += 1;
            }
            assert!(bytes > 300, "{bytes}");
        }
    }
}

#[test]
fn a_cut_at_every_byte_of_the_hellos_leaves_a_pair_that_can_connect() {
    for is_reply in [false, true] {
        for bytes in 0.. {
            let (mut a, mut b) = pair();
            connect(&mut a, &mut b, at(0));
            offer(&mut a, b"kept");
            a.disconnected();
            b.disconnected();
            a.dialed(at(0)).unwrap();
            let hello = written(&mut a, at(0));
            let mut stream = &hello[..];
            let mut accepted = super::support::accepting(&hello[..bytes.min(hello.len())]).unwrap();
            let reply;
            if is_reply {
                accepted = super::support::accepting(&hello).unwrap();
                b.accept(accepted, at(0)).unwrap();
                reply = written(&mut b, at(0));
                stream = &reply;
                let mut heard = Vec::new();
                let given = &reply[..bytes.min(reply.len())];
                feed_into(&mut a, given, at(0), &mut heard).unwrap();
                assert_eq!(heard.is_empty(), bytes < reply.len());
            } else {
                assert_eq!(accepted.hello().unwrap().is_none(), bytes < hello.len());
            }
            a.disconnected();
            b.disconnected();
            let (_, mut heard) = connect(&mut a, &mut b, at(0));
            heard.extend(exchange(&mut a, &mut b, at(0)).1);
            assert_eq!(messages(&heard), [(1, &b"kept"[..])]);
            if bytes >= stream.len() {
                break;
            }
        }
    }
}
