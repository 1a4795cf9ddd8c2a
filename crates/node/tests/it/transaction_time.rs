//! The time limit of transactions over several partitions: one that takes too long is undone
//! everywhere, whatever it does meanwhile, and its partitions are free.

use crate::support::{Peer, eventually, start};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_node::Server;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::Datum::{self, Int};
use lockstep_types::{HashRing, SqlType};
use lockstep_workloads::bank;
use std::time::{Duration, Instant};

const ACCOUNTS: i64 = 40;
const PARTITIONS: u32 = 2;
/// More rounds than fit into the limit of the tests, each of them short.
const MANY_ROUNDS: i64 = 20_000;

/// `ManyRounds(from, to)`: moves 1 from an account to another in every round.
pub struct ManyRounds;

impl NativeProcedure for ManyRounds {
    fn name(&self) -> &str {
        "ManyRounds"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        &[NUMBER, NUMBER]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("change", "UPDATE accounts SET balance = balance + ? WHERE id = ?;")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let (from, to) = (context.parameter(0), context.parameter(1));
        for _ in 0..MANY_ROUNDS {
            context.queue(0, &[Datum::Int(-1), from])?;
            context.queue(0, &[Datum::Int(1), to])?;
            context.execute()?;
        }
        Ok(())
    }
}

fn host(options: &[&str]) -> (Server, Peer) {
    host_of(PARTITIONS, options)
}

fn host_of(sites: u32, options: &[&str]) -> (Server, Peer) {
    let server = start(sites, options);
    let mut peer = Peer::login(server.client_address());
    peer.run(bank::SCHEMA);
    for account in 0..ACCOUNTS {
        assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(100)]).status, 1);
    }
    (server, peer)
}

/// An account of each partition.
fn accounts() -> [i64; 2] {
    let ring = HashRing::new(PARTITIONS);
    [0, 1].map(|partition| {
        let here = |id: &i64| ring.partition_of(Int(*id)).index() == partition;
        (0..ACCOUNTS).find(here).expect("both partitions have accounts")
    })
}

fn assert_undone(peer: &mut Peer) {
    let total = peer.call("Total", &[]).rows;
    assert_eq!(total, format!("{},{ACCOUNTS}", ACCOUNTS * 100));
    assert_eq!(peer.run("SELECT COUNT(*) FROM accounts WHERE balance <> 100"), "0");
}

#[test]
fn a_transaction_of_many_short_rounds_is_limited_as_a_whole() {
    // Where one thread has both partitions and the coordinator, its loop goes on meanwhile.
    for (sites, shape) in [(2, "partitions_per_site=1"), (1, "partitions_per_site=2")] {
        let (_server, mut peer) = host_of(sites, &["transaction_timeout_ms=100", shape]);
        peer.run("CREATE PROCEDURE FROM NATIVE ManyRounds");
        let [one, other] = accounts();
        let refused = peer.call("ManyRounds", &[Int(one), Int(other)]);
        assert!(refused.status < 0, "{refused:?}");
        assert!(refused.text.contains("option transaction_timeout_ms"), "{refused:?}");
        for account in [one, other] {
            assert_eq!(peer.call("Deposit", &[Int(0), Int(account)]).rows, "1");
        }
        assert_undone(&mut peer);
    }
}

/// The other partition is free at once, and that of the slow part soon, although the part would
/// run for minutes.
#[test]
fn a_part_that_writes_is_stopped_where_it_is() {
    let (server, mut peer) = host(&["transaction_timeout_ms=100"]);
    let [free, busy] = accounts();
    peer.run("CREATE TABLE numbers (n BIGINT NOT NULL, PRIMARY KEY (n))");
    for number in 0..300 {
        assert_eq!(peer.call("NUMBERS.insert", &[Int(number)]).status, 1);
    }
    let slow = "(SELECT COUNT(*) FROM numbers a, numbers b, numbers c, numbers d \
                 WHERE a.n + b.n + c.n + d.n > ?)";
    peer.run(&format!(
        "CREATE PROCEDURE SlowHere PARTITION ON TABLE accounts COLUMN id PARAMETER 0 \
           AND ON TABLE accounts COLUMN id PARAMETER 2 AS BEGIN \
           UPDATE accounts SET balance = balance + 1 WHERE id = ?; \
           UPDATE accounts SET balance = balance + {slow} WHERE id = ?; END;"
    ));
    peer.run(&format!(
        "CREATE PROCEDURE SlowAnywhere AS BEGIN \
           UPDATE accounts SET balance = balance + 1 WHERE id = ?; \
           UPDATE accounts SET balance = balance + {slow} WHERE id = ? AND balance <= 100; \
           UPDATE accounts SET balance = balance + 1 WHERE balance > 1000; END;"
    ));
    for name in ["SlowHere", "SlowAnywhere"] {
        let address = server.client_address();
        let began = Instant::now();
        let caller = std::thread::spawn(move || {
            Peer::login(address).call(name, &[Int(free), Int(-1), Int(busy)])
        });
        let refused = caller.join().expect("it is answered");
        assert!(refused.status < 0, "{name}: {refused:?}");
        assert!(refused.text.contains("option transaction_timeout_ms"), "{name}: {refused:?}");
        assert_eq!(peer.call("Deposit", &[Int(0), Int(free)]).rows, "1", "{name}");
        eventually("the busy partition is free", || {
            peer.call("Deposit", &[Int(0), Int(busy)]).rows == "1"
        });
        let took = began.elapsed();
        assert!(took < Duration::from_secs(15), "{name} held its partition for {took:?}");
        assert_undone(&mut peer);
    }
}
