//! Procedures over several partitions: declared ones, those that find out, and many at once.

use crate::support::{Peer, start};
use lockstep_types::Datum::Int;
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

fn total(peer: &mut Peer) -> String {
    peer.call("Total", &[]).rows
}

#[test]
fn rounds_read_decide_and_write_whether_declared_or_not() {
    for (sites, options) in [(1, &[][..]), (3, &[]), (5, &["stop_everything=1"])] {
        let (_server, mut peer) = host(sites, options);
        for name in ["Transfer", "TransferAnywhere"] {
            for (from, to) in [(1, 2), (2, 3), (3, 30), (7, 7)] {
                let answer = peer.call(name, &[Int(from), Int(to), Int(5)]);
                assert_eq!(answer.status, 1, "{name} {from} {to}: {answer:?}");
            }
            let refused = peer.call(name, &[Int(4), Int(5), Int(1000)]);
            assert_eq!(refused.status, -1, "{refused:?}");
            assert!(refused.text.contains("account 4 has 100, not 1000"), "{refused:?}");
            // The first change was made already.
            let refused = peer.call(name, &[Int(4), Int(999), Int(10)]);
            assert!(refused.text.contains("there is no account 999"), "{refused:?}");
        }
        for name in ["TransferSql", "TransferAll"] {
            let answer = peer.call(name, &[Int(-3), Int(8), Int(3), Int(9)]);
            assert_eq!((answer.status, answer.rows.as_str()), (1, "1;1"), "{answer:?}");
        }
        assert_eq!(peer.run("SELECT balance FROM accounts WHERE id = 4"), "100");
        assert_eq!(peer.run("SELECT balance FROM accounts WHERE id = 8"), "94");
        assert_eq!(total(&mut peer), format!("{},{ACCOUNTS}", ACCOUNTS * 100));
    }
}

#[test]
fn a_procedure_that_leaves_its_declared_partitions_changes_nothing() {
    let (_server, mut peer) = host(5, &[]);
    peer.run(
        "CREATE PROCEDURE Strays PARTITION ON TABLE accounts COLUMN id PARAMETER 0 \
         AND ON TABLE accounts COLUMN id PARAMETER 1 AS BEGIN \
           UPDATE accounts SET balance = balance + 1 WHERE id = ?; \
           UPDATE accounts SET balance = balance + 1 WHERE id = ?; \
           UPDATE accounts SET balance = balance + 1 WHERE id = ?; END;",
    );
    let mut strayed = 0;
    for third in 0..ACCOUNTS {
        let answer = peer.call("Strays", &[Int(0), Int(1), Int(third)]);
        if answer.status != 1 {
            strayed += 1;
            assert!(answer.text.contains("procedure Strays declares the partitions"), "{answer:?}");
        }
    }
    // Of five partitions, some accounts live at the two declared ones.
    assert!((1..ACCOUNTS).contains(&strayed), "{strayed}");
    let moved = 3 * (ACCOUNTS - strayed);
    assert_eq!(total(&mut peer), format!("{},{ACCOUNTS}", ACCOUNTS * 100 + moved));
}

#[test]
fn many_clients_at_once_keep_the_sum() {
    for options in [&[][..], &["max_speculative_calls=0"], &["max_active_multi=1"]] {
        let (server, mut peer) = host(3, options);
        let address = server.client_address();
        let client = |seed: i64| {
            std::thread::spawn(move || {
                let mut peer = Peer::login(address);
                for number in 0..150 {
                    let from = (number * 7 + seed * 13) % ACCOUNTS;
                    let to = (number * 11 + seed * 5 + 1) % ACCOUNTS;
                    // Every other one asks for too much.
                    let amount = if number % 2 == 0 { 3 } else { 100_000 };
                    peer.call("Transfer", &[Int(from), Int(to), Int(amount)]);
                    peer.call("TransferSql", &[Int(-1), Int(from), Int(1), Int(to)]);
                    // An account that is not there violates the key of none; the second row
                    // of the batch breaks one behind a change.
                    let broken = "UPDATE accounts SET balance = balance + 1; \
                                  INSERT INTO accounts VALUES (1, 1)";
                    if number % 25 == 0 {
                        peer.call("@AdHoc", &[lockstep_types::Datum::Text(broken)]);
                    }
                    peer.call("Deposit", &[Int(0), Int(to)]);
                    let total = total(&mut peer);
                    assert_eq!(total, format!("{},{ACCOUNTS}", ACCOUNTS * 100), "{number}");
                }
            })
        };
        let clients: Vec<_> = (0..4).map(client).collect();
        clients.into_iter().for_each(|client| client.join().expect("the sum holds"));
        assert_eq!(total(&mut peer), format!("{},{ACCOUNTS}", ACCOUNTS * 100));
    }
}

#[test]
fn a_procedure_whose_tables_are_too_large_together_fails_whole() {
    let (_server, mut peer) = host(3, &["max_response_bytes=2000"]);
    // Each statement's table is within the limit.
    peer.run(
        "CREATE PROCEDURE Twice AS BEGIN UPDATE accounts SET balance = balance + 1; \
         SELECT * FROM accounts; SELECT * FROM accounts; SELECT * FROM accounts; END;",
    );
    let answer = peer.call("Twice", &[]);
    assert_eq!(answer.status, -2, "{answer:?}");
    assert!(answer.text.contains("option max_response_bytes"), "{answer:?}");
    assert_eq!(total(&mut peer), format!("{},{ACCOUNTS}", ACCOUNTS * 100));
}
