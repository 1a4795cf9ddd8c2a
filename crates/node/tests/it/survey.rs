//! What the planner learns of the data while the host runs.

use crate::support::{Peer, call_frame, eventually, parameters, start};
use lockstep_types::Datum::{Int, Text};

const SCHEMA: &str = "\
    CREATE TABLE big (k BIGINT NOT NULL, g INTEGER, PRIMARY KEY (k));
    PARTITION TABLE big ON COLUMN k;
    CREATE TABLE small (g INTEGER NOT NULL, name VARCHAR(8), PRIMARY KEY (g));";

/// The text of a plan.
fn plan(peer: &mut Peer, text: &str) -> String {
    let answer = peer.call("@Explain", &[Text(text)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    answer.rows
}

/// A plan for few rows is not kept for many: the same text is planned again once the host has
/// seen that the table has grown.
#[test]
fn a_plan_follows_the_number_of_rows() {
    for sites in [1, 3] {
        let server = start(sites, &["statistics_interval_ms=20"]);
        let mut peer = Peer::login(server.client_address());
        peer.run(SCHEMA);
        let text = "SELECT COUNT(*) FROM big, small WHERE big.g = small.g";
        peer.run(text);
        let misses = |peer: &mut Peer| -> u64 {
            let row = peer.call("@Statistics", &[Text("PLANNER"), Int(0)]).rows;
            row.split(',').nth(9).expect("the misses").parse().expect("a number")
        };
        let before = misses(&mut peer);
        peer.run(text);
        assert_eq!(misses(&mut peer), before, "the plan is kept");
        let frames: Vec<u8> = (0..3000)
            .flat_map(|n| call_frame("BIG.insert", n, &parameters(&[Int(n), Int(n % 7)])))
            .collect();
        peer.send(&frames);
        (0..3000).for_each(|_| assert_eq!(peer.answer().status, 1));
        eventually("planned again", || {
            peer.run(text);
            misses(&mut peer) > before
        });
        assert!(!plan(&mut peer, text).is_empty());
    }
}
