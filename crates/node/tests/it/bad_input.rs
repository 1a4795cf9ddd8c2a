//! What goes wrong in the middle of transactions over several partitions: afterwards nothing has
//! changed at any of them, and all are free.

use crate::support::{Peer, call_frame, parameters, start};
use lockstep_types::Datum::{Int, Text};
use lockstep_types::HashRing;
use lockstep_workloads::bank;

const ACCOUNTS: i64 = 40;

fn host(sites: u32, options: &[&str]) -> (lockstep_node::Server, Peer) {
    let server = start(sites, options);
    let mut peer = Peer::login(server.client_address());
    peer.run(bank::SCHEMA);
    peer.run(bank::NATIVE_SCHEMA);
    for account in 0..ACCOUNTS {
        assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
    }
    (server, peer)
}

/// An account of each partition.
fn account_of_each(sites: u32) -> Vec<i64> {
    let ring = HashRing::new(sites);
    let first_at = |partition: u32| {
        (0..ACCOUNTS).find(|id| ring.partition_of(Int(*id)).index() == partition as usize)
    };
    (0..sites).map(|partition| first_at(partition).expect("each has one")).collect()
}

/// Each partition takes a call of its own.
fn assert_free(peer: &mut Peer, sites: u32) {
    for account in account_of_each(sites) {
        let answer = peer.call("Deposit", &[Int(0), Int(account)]);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "1"), "{answer:?}");
    }
}

#[test]
fn a_duplicate_in_a_global_index_behind_changes_elsewhere_undoes_them_all() {
    let sites = 5;
    let (_server, mut peer) = host(sites, &[]);
    peer.run("CREATE TABLE names (id BIGINT NOT NULL PRIMARY KEY, name VARCHAR(20), n BIGINT)");
    peer.run("PARTITION TABLE names ON COLUMN id");
    peer.run("CREATE GLOBAL UNIQUE INDEX by_name ON names (name)");
    peer.run(
        "CREATE PROCEDURE Register AS BEGIN \
           UPDATE accounts SET balance = balance + 1; \
           INSERT INTO names VALUES (?, ?, 0); \
           UPDATE names SET n = n + 1; \
           INSERT INTO names VALUES (?, ?, 0); END; \
         CREATE PROCEDURE RegisterOne PARTITION ON TABLE names COLUMN id PARAMETER 0 AS BEGIN \
           UPDATE names SET n = n + 1 WHERE id = ?; \
           INSERT INTO names VALUES (?, ?, 0); END;",
    );
    for id in 0..20 {
        let inserted = peer.call("NAMES.insert", &[Int(id), Text(&format!("n{id}")), Int(0)]);
        assert_eq!(inserted.status, 1, "{inserted:?}");
    }
    let all = |peer: &mut Peer| {
        let mut tables = peer.run("SELECT * FROM names ORDER BY id");
        tables += &peer.run("SELECT * FROM \"BY_NAME#ENTRIES\" ORDER BY id");
        tables += &peer.run("SELECT * FROM accounts ORDER BY id");
        tables
    };
    let before = all(&mut peer);
    let (new, taken) = (Text("new"), Text("n7"));
    let refusals = [
        peer.call("Register", &[Int(100), new, Int(101), taken]),
        peer.call("Register", &[Int(100), taken, Int(101), new]),
        peer.call("Register", &[Int(100), new, Int(101), new]),
        peer.call("RegisterOne", &[Int(3), Int(3), taken]),
        peer.sql("UPDATE names SET n = 5; INSERT INTO names VALUES (100, 'n7', 1)"),
        peer.sql("UPDATE names SET name = 'same' WHERE id < 10"),
        peer.sql("INSERT INTO names SELECT id + 100, name, n FROM names WHERE id = 7"),
    ];
    for (number, answer) in refusals.iter().enumerate() {
        assert!(answer.status < 0, "{answer:?}");
        // The row that is there has the primary key as well.
        let named = answer.text.contains("BY_NAME") || number == 3;
        let value = ["n7", "new", "same"].iter().any(|value| answer.text.contains(value));
        assert!(named && value, "{answer:?}");
    }
    assert_eq!(all(&mut peer), before);
    assert_free(&mut peer, sites);
    let done = peer.call("Register", &[Int(100), new, Int(101), Text("newer")]);
    assert_eq!(done.status, 1, "{done:?}");
}

#[test]
fn no_procedure_runs_inside_another() {
    let (_server, mut peer) = host(3, &[]);
    for text in [
        "CREATE PROCEDURE Outer AS EXEC Total",
        "CREATE PROCEDURE Outer AS BEGIN SELECT COUNT(*) FROM accounts; EXEC Total; END;",
        "CREATE PROCEDURE Outer AS BEGIN CALL Total(); END;",
    ] {
        let refused = peer.sql(text);
        assert!(refused.status < 0, "{text}: {refused:?}");
        assert!(!refused.text.is_empty());
        let unknown = peer.call("Outer", &[]);
        assert!(unknown.text.contains("Procedure Outer was not found"), "{unknown:?}");
    }
    assert_free(&mut peer, 3);
}

#[test]
fn clients_that_go_away_between_rounds_leave_whole_transactions() {
    let sites = 3;
    let (server, mut peer) = host(sites, &[]);
    for round in 0..10 {
        let mut leaving = Peer::login(server.client_address());
        let mut frames = Vec::new();
        for number in 0..40 {
            let (from, to) = ((number + round) % ACCOUNTS, (number * 7 + 1) % ACCOUNTS);
            let name = ["Transfer", "TransferAnywhere"][number as usize % 2];
            let call = parameters(&[Int(from), Int(to), Int(1)]);
            frames.extend_from_slice(&call_frame(name, number, &call));
        }
        leaving.send(&frames);
        // Some have been answered, others are in progress or have not begun.
        for _ in 0..round {
            leaving.answer();
        }
        drop(leaving);
        let total = peer.call("Total", &[]).rows;
        assert_eq!(total, format!("{},{ACCOUNTS}", ACCOUNTS * 100));
        assert_free(&mut peer, sites);
    }
}

#[test]
fn a_fragment_over_the_result_limit_undoes_what_was_written_before_it() {
    let sites = 3;
    let (_server, mut peer) = host(sites, &["max_response_bytes=2000"]);
    peer.run(
        "CREATE TABLE texts (id BIGINT NOT NULL PRIMARY KEY, body VARCHAR(3000)); \
         PARTITION TABLE texts ON COLUMN id; \
         CREATE PROCEDURE WriteAndRead AS BEGIN \
           UPDATE accounts SET balance = balance + ?; \
           SELECT * FROM texts; END;",
    );
    let long = "x".repeat(1_500);
    for id in 0..2 {
        peer.call("TEXTS.insert", &[Int(id), Text(&long[..10])]);
    }
    assert_eq!(peer.call("WriteAndRead", &[Int(0)]).status, 1);
    // Two rows of one partition are more than its fragment may send.
    let here = account_of_each(1)[0];
    let ring = HashRing::new(sites);
    let mut there =
        (here..).filter(|id| ring.partition_of(Int(*id)) == ring.partition_of(Int(here)));
    for _ in 0..3 {
        let id = there.next().expect("numbers go on");
        peer.call("TEXTS.upsert", &[Int(id), Text(&long)]);
    }
    let before = peer.call("Total", &[]).rows;
    let refused = peer.call("WriteAndRead", &[Int(1)]);
    assert!(refused.status < 0 && refused.text.contains("max_response_bytes"), "{refused:?}");
    let refused = peer.sql("UPDATE accounts SET balance = 0; SELECT * FROM texts");
    assert!(refused.status < 0 && refused.text.contains("max_response_bytes"), "{refused:?}");
    assert_eq!(peer.call("Total", &[]).rows, before);
    assert_free(&mut peer, sites);
}
