//! Replicated tables, written by procedures of one partition: all partitions stay in step.

use crate::support::{Peer, start};
use lockstep_types::Datum::{Int, Text};
use std::thread;

const SCHEMA: &str = "\
    CREATE TABLE item (id BIGINT NOT NULL PRIMARY KEY, n BIGINT NOT NULL);
    PARTITION TABLE item ON COLUMN id;
    CREATE TABLE rate (id BIGINT NOT NULL PRIMARY KEY, rate BIGINT NOT NULL);
    CREATE PROCEDURE Set PARTITION ON TABLE item COLUMN id AS BEGIN
        UPDATE item SET n = n + 1 WHERE id = ?;
        UPSERT INTO rate VALUES (?, ?);
        SELECT n FROM item WHERE id = ?;
    END;
    CREATE PROCEDURE Both PARTITION ON TABLE item COLUMN id PARAMETER 0
        AND ON TABLE item COLUMN id PARAMETER 1 AS BEGIN
        UPDATE item SET n = n + 1 WHERE id = ?;
        UPDATE item SET n = n + 1 WHERE id = ?;
        UPDATE rate SET rate = rate + ? WHERE id = 1;
    END;
    CREATE PROCEDURE Add PARTITION ON TABLE item COLUMN id AS BEGIN
        UPDATE item SET n = n + 1 WHERE id = ?;
        INSERT INTO rate VALUES (?, 0);
    END;
    CREATE PROCEDURE Rates PARTITION ON TABLE item COLUMN id AS
        SELECT CAST(? AS BIGINT), SUM(id), SUM(rate), COUNT(*) FROM rate;";
const ITEMS: i64 = 30;

fn host(sites: u32) -> (lockstep_node::Server, Peer) {
    let server = start(sites, &[]);
    let mut peer = Peer::login(server.client_address());
    peer.run(SCHEMA);
    for id in 0..ITEMS {
        assert_eq!(peer.call("ITEM.insert", &[Int(id), Int(0)]).status, 1);
    }
    (server, peer)
}

/// The same at every partition: one of the items is at each.
fn rates(peer: &mut Peer) -> String {
    let mut seen = None;
    for id in 0..ITEMS {
        let answer = peer.call("Rates", &[Int(id)]);
        assert_eq!(answer.status, 1, "{answer:?}");
        let (_, rates) = answer.rows.split_once(',').expect("columns");
        assert_eq!(seen.get_or_insert_with(|| rates.to_string()), rates);
    }
    seen.unwrap_or_default()
}

#[test]
fn a_procedure_of_one_partition_writes_replicated_tables_everywhere() {
    for sites in [1, 3] {
        let (_server, mut peer) = host(sites);
        let answer = peer.call("Set", &[Int(3), Int(1), Int(10), Int(3)]);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "1;1;1"), "{answer:?}");
        let answer = peer.call("Both", &[Int(1), Int(2), Int(5)]);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "1;1;1"), "{answer:?}");
        assert_eq!(rates(&mut peer), "1,15,1");
        // The second statement fails at all partitions, and the first is undone.
        let refused = peer.call("Add", &[Int(4), Int(1)]);
        assert!(refused.status < 0 && refused.text.contains("RATE"), "{refused:?}");
        assert_eq!(peer.run("SELECT SUM(n) FROM item"), "3");
        assert_eq!(rates(&mut peer), "1,15,1");
    }
}

#[test]
fn calls_from_many_clients_keep_the_partitions_in_step() {
    let (server, mut peer) = host(3);
    peer.run("INSERT INTO rate VALUES (1, 0)");
    let address = server.client_address();
    let client = |number: i64| {
        thread::spawn(move || {
            let mut peer = Peer::login(address);
            for call in 0..60 {
                let id = (call * 7 + number) % ITEMS;
                let answer = match call % 3 {
                    0 => peer.call("Both", &[Int(id), Int((id + 1) % ITEMS), Int(1)]),
                    1 => peer.call("Set", &[Int(id), Int(100 + number), Int(call), Int(id)]),
                    // Each number once; all others fail after a change.
                    _ => peer.call("Add", &[Int(id), Int(1000 + call)]),
                };
                assert!(answer.status == 1 || call % 3 == 2, "{answer:?}");
            }
        })
    };
    let clients: Vec<_> = (0..4).map(client).collect();
    clients.into_iter().for_each(|client| client.join().expect("a client"));
    // 80 calls of Both add one to the rate; 4 of Set's rows end with 58; 20 rows of Add.
    let ids: i64 = 1 + (100..104).sum::<i64>() + (0..60).filter(|c| c % 3 == 2).sum::<i64>();
    assert_eq!(rates(&mut peer), format!("{},{},25", ids + 20 * 1000, 80 + 4 * 58));
    let changes = 80 * 2 + 80 + 20;
    assert_eq!(peer.run("SELECT SUM(n) FROM item"), changes.to_string());
}

#[test]
fn clients_see_a_procedure_of_all_partitions() {
    let (_server, mut peer) = host(3);
    let listed = peer.call("@SystemCatalog", &[Text("PROCEDURES")]).rows;
    let line = |name: &str| {
        let found = listed.lines().find(|line| line.contains(&format!(",{name},")));
        found.expect("it is listed").to_string()
    };
    assert!(line("Set").contains("\"singlePartition\":false"), "{}", line("Set"));
    assert!(line("Rates").contains("\"singlePartition\":true"), "{}", line("Rates"));
}
