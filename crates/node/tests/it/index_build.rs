//! Global indexes that are built on tables with rows while clients go on.

use crate::support::{Peer, eventually, start};
use lockstep_base::random::SeededRandom;
use lockstep_types::Datum;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};

use Datum::{Int, Text};

const TABLE: &str = "CREATE TABLE sub (id BIGINT NOT NULL PRIMARY KEY, nbr VARCHAR(20), \
    place INTEGER);
    PARTITION TABLE sub ON COLUMN id;";
const PROCEDURES: &str = "
    CREATE PROCEDURE Move PARTITION ON TABLE sub COLUMN id PARAMETER 0
        AND ON TABLE sub COLUMN id PARAMETER 1
        AS BEGIN DELETE FROM sub WHERE id = ?; INSERT INTO sub VALUES (?, ?, ?); END;
    CREATE PROCEDURE Rename PARTITION ON TABLE sub COLUMN id PARAMETER 1
        AS UPDATE sub SET nbr = ?, place = place + 1 WHERE id = ?;";
const UNIQUE: &str = "CREATE GLOBAL UNIQUE INDEX sub_nbr ON sub (nbr)";
const PLACES: &str = "CREATE GLOBAL INDEX sub_place ON sub (place) INCLUDE (nbr)";

/// Rows are the entries say, and the other way round.
fn assert_right(peer: &mut Peer) {
    let rows = peer.run("SELECT nbr, id FROM sub ORDER BY id");
    let entries = peer.run("SELECT nbr, id FROM \"SUB_NBR#ENTRIES\" ORDER BY id");
    assert_eq!(rows, entries);
    let rows = peer.run(
        "SELECT place, id, nbr, COUNT(*) FROM sub GROUP BY place, id, nbr \
                         ORDER BY 1, 2, 3",
    );
    let entries = peer.run("SELECT * FROM \"SUB_PLACE#ENTRIES\" ORDER BY 1, 2, 3");
    assert_eq!(rows, entries);
}

/// A client that changes rows of its own until it is stopped, each in every way.
fn writer(
    address: SocketAddr,
    client: i64,
    going: &Arc<AtomicBool>,
    answered: &Arc<AtomicU64>,
) -> JoinHandle<()> {
    let (going, answered) = (Arc::clone(going), Arc::clone(answered));
    thread::spawn(move || {
        let mut peer = Peer::login(address);
        let mut random = SeededRandom::new(client as u64);
        let first = 1_000_000 * (client + 1);
        let (mut ids, mut next): (Vec<i64>, i64) = (Vec::new(), first);
        let mut number = 0;
        while going.load(Ordering::Relaxed) {
            number += 1;
            let nbr = format!("c{client} {number}");
            let chosen = random.below(ids.len().max(1) as u64) as usize;
            let id = ids.get(chosen).copied();
            let answer = match (random.below(5), id) {
                (1, Some(id)) => peer.call("Rename", &[Text(&nbr), Int(id)]),
                (2, Some(id)) => {
                    ids.swap_remove(chosen);
                    peer.call("SUB.delete", &[Int(id)])
                }
                (3, Some(id)) => {
                    next += 1;
                    ids[chosen] = next;
                    peer.call("Move", &[Int(id), Int(next), Text(&nbr), Int(number % 9)])
                }
                (4, Some(id)) => peer.call("SUB.upsert", &[Int(id), Text(&nbr), Int(number % 9)]),
                _ => {
                    next += 1;
                    ids.push(next);
                    peer.call("SUB.insert", &[Int(next), Text(&nbr), Int(number % 9)])
                }
            };
            assert_eq!(answer.status, 1, "{answer:?}");
            answered.fetch_add(1, Ordering::Relaxed);
        }
    })
}

fn fill(peer: &mut Peer, rows: i64) {
    for id in 0..rows {
        let inserted = peer.call("SUB.insert", &[Int(id), Text(&format!("n{id}")), Int(id % 7)]);
        assert_eq!(inserted.status, 1, "{inserted:?}");
    }
}

#[test]
fn indexes_are_right_that_are_built_beside_every_kind_of_change() {
    for (sites, step) in [(1, "index_build_rows=3"), (3, "index_build_rows=2")] {
        let server = start(sites, &[step]);
        let mut peer = Peer::login(server.client_address());
        peer.run(TABLE);
        peer.run(PROCEDURES);
        fill(&mut peer, 300);
        let (going, answered) = (Arc::new(AtomicBool::new(true)), Arc::default());
        let address = server.client_address();
        let writers: Vec<_> =
            (0..3).map(|client| writer(address, client, &going, &answered)).collect();
        eventually("the writers write", || answered.load(Ordering::Relaxed) >= 30);
        let mut most = 0;
        for round in 0..4 {
            if round > 0 {
                peer.run("DROP INDEX sub_nbr");
                peer.run("DROP INDEX sub_place");
            }
            let before = answered.load(Ordering::Relaxed);
            peer.run(UNIQUE);
            most = most.max(answered.load(Ordering::Relaxed) - before);
            peer.run(PLACES);
        }
        // Were writers stopped meanwhile, each of the three would have one answer, of the call
        // that was in progress. How many steps of a hundred they use is the scheduler's choice,
        // and in one build of four it may be none.
        assert!(most >= 12, "{most} calls were answered while an index was built");
        going.store(false, Ordering::Relaxed);
        writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
        assert_right(&mut peer);
        assert_eq!(peer.run("SELECT id FROM sub WHERE nbr = 'n17'"), "17");
    }
}

#[test]
fn a_duplicate_ends_the_build_and_nothing_is_left() {
    for sites in [1, 2] {
        let server = start(sites, &["index_build_rows=5"]);
        let mut peer = Peer::login(server.client_address());
        peer.run(TABLE);
        fill(&mut peer, 100);
        peer.run("INSERT INTO sub VALUES (500, 'n93', 0)");
        let before = peer.run("SELECT * FROM sub ORDER BY id");
        let refused = peer.sql(UNIQUE);
        assert!(refused.status < 0, "{refused:?}");
        assert!(refused.text.contains("SUB_NBR") && refused.text.contains("n93"), "{refused:?}");
        assert_eq!(peer.run("SELECT * FROM sub ORDER BY id"), before);
        let entries = peer.sql("SELECT * FROM \"SUB_NBR#ENTRIES\"");
        assert!(entries.status < 0 && entries.text.contains("SUB_NBR#ENTRIES"), "{entries:?}");
        assert!(peer.sql("DROP INDEX sub_nbr").status < 0);
        peer.run("INSERT INTO sub VALUES (501, 'n93', 0)");
        peer.run("DELETE FROM sub WHERE id >= 500");
        peer.run(UNIQUE);
        peer.run(PLACES);
        assert_right(&mut peer);
        let refused = peer.call("SUB.insert", &[Int(501), Text("n93"), Int(0)]);
        assert!(refused.status < 0 && refused.text.contains("SUB_NBR"), "{refused:?}");
    }
}

#[test]
fn other_schema_changes_wait_for_the_end_of_a_build() {
    let server = start(2, &["index_build_rows=1"]);
    let mut peer = Peer::login(server.client_address());
    peer.run(TABLE);
    fill(&mut peer, 300);
    let address = server.client_address();
    let going = Arc::new(AtomicBool::new(true));
    let still_going = Arc::clone(&going);
    // Tables that come and go, and queries, all the time.
    let other = thread::spawn(move || {
        let mut peer = Peer::login(address);
        let mut changes = 0;
        while still_going.load(Ordering::Relaxed) || changes == 0 {
            peer.run("CREATE TABLE other (id BIGINT)");
            assert_eq!(peer.run("SELECT COUNT(*) FROM sub"), "300");
            peer.run("DROP TABLE other");
            changes += 1;
        }
    });
    for _ in 0..3 {
        peer.run(UNIQUE);
        peer.run(PLACES);
        assert_right(&mut peer);
        peer.run("DROP INDEX sub_nbr");
        peer.run("DROP INDEX sub_place");
    }
    going.store(false, Ordering::Relaxed);
    other.join().expect("the other client");
}
