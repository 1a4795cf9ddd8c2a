//! Power cuts at random moments while clients move money between partitions: every transaction is
//! there whole or not at all, and what was answered before the cut is there.

use lockstep_base::random::SeededRandom;
use lockstep_client::{Connection, ParameterWriter};
use lockstep_env::memory::{Survival, UnsyncedWrite};
use lockstep_node::options::{Bytes, Options};
use lockstep_testkit::host::{MemoryDirectory, TestHost};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

const ACCOUNTS: i64 = 20;
const BALANCE: i64 = 1_000;
const CLIENTS: i64 = 3;
const CUTS: u64 = 12;

const SCHEMA: &str = "
    CREATE TABLE account (id BIGINT NOT NULL PRIMARY KEY, balance BIGINT NOT NULL);
    PARTITION TABLE account ON COLUMN id;
    CREATE TABLE done (client BIGINT NOT NULL PRIMARY KEY, number BIGINT NOT NULL);
    PARTITION TABLE done ON COLUMN client;
    CREATE PROCEDURE transfer AS BEGIN
      UPDATE account SET balance = balance - ? WHERE id = ?;
      UPDATE account SET balance = balance + ? WHERE id = ?;
      UPDATE done SET number = ? WHERE client = ?;
    END;
    CREATE PROCEDURE refused AS BEGIN
      UPDATE account SET balance = balance + 1 WHERE id = ?;
      INSERT INTO account VALUES (?, 0);
    END;";

fn options() -> Options {
    Options { log_segment_bytes: Bytes(64 << 10), ..Options::default() }
}

fn value(connection: &mut Connection, sql: &str) -> String {
    let tables = connection.sql(sql).expect("a query");
    format!("{:?}", tables[0].rows)
}

/// Transfers until it is stopped; counts those that were answered.
fn transfer(host: &TestHost, client: i64, stop: &AtomicBool, answered: &AtomicI64) {
    let mut random = SeededRandom::new(client as u64);
    let mut connection = host.connect().expect("a connection");
    let mut number = 0;
    while !stop.load(Ordering::Acquire) {
        let mut account = || random.below(ACCOUNTS as u64) as i64;
        let (from, to) = (account(), account());
        let mut parameters = ParameterWriter::default();
        if number % 4 == 3 {
            // A duplicate: undone at both partitions, with others speculating after it.
            parameters.bigint(from).bigint(to);
            let refused = connection.call("refused", &parameters).expect("an answer");
            assert!(refused.tables().is_err());
            parameters.clear();
        }
        number += 1;
        parameters.bigint(7).bigint(from).bigint(7).bigint(to).bigint(number).bigint(client);
        let done = connection.call("transfer", &parameters).expect("an answer");
        assert!(done.tables().is_ok());
        answered.store(number, Ordering::Release);
    }
}

/// Recovers what a cut left and checks it.
fn check(directory: &MemoryDirectory, answered: &[i64]) {
    let host = TestHost::start_on(options(), directory).expect("a recovery");
    let mut connection = host.connect().expect("a connection");
    let sum = value(&mut connection, "SELECT SUM(balance), COUNT(*) FROM account");
    let whole = format!("{}", ACCOUNTS * BALANCE);
    assert!(sum.contains(&whole) && sum.contains(&ACCOUNTS.to_string()), "{sum}");
    for (client, least) in answered.iter().enumerate() {
        let sql =
            format!("SELECT COUNT(*) FROM done WHERE client = {client} AND number >= {least}");
        let found = value(&mut connection, &sql);
        assert!(found.contains('1'), "client {client} was answered {least} times: {found}");
    }
    drop(connection);
    let first = host.stop_with_digests().expect("an end");
    let again = TestHost::start_on(options(), directory).expect("a second recovery");
    assert_eq!(again.stop_with_digests().expect("an end"), first);
}

#[test]
fn transfers_are_whole_and_answered_ones_are_there_after_power_cuts() {
    let directory = MemoryDirectory::new(2);
    let host = TestHost::start_on(options(), &directory).expect("a host");
    let mut connection = host.connect().expect("a connection");
    connection.sql(SCHEMA).expect("the schema");
    for id in 0..ACCOUNTS {
        connection.sql(&format!("INSERT INTO account VALUES ({id}, {BALANCE})")).expect("a row");
    }
    for client in 0..CLIENTS {
        connection.sql(&format!("INSERT INTO done VALUES ({client}, 0)")).expect("a row");
    }
    let stop = AtomicBool::new(false);
    let answered: Vec<AtomicI64> = (0..CLIENTS).map(|_| AtomicI64::new(0)).collect();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let (host, stop, answered) = (&host, &stop, &answered[client as usize]);
            scope.spawn(move || transfer(host, client, stop, answered));
        }
        let mut random = SeededRandom::new(1);
        for cut in 0..CUTS {
            // Each cut comes after more answers than the one before.
            while answered.iter().any(|a| a.load(Ordering::Acquire) < cut as i64 * 5 + 1) {
                std::thread::yield_now();
            }
            let least: Vec<i64> = answered.iter().map(|a| a.load(Ordering::Acquire)).collect();
            let left = directory.after_power_cut(|write: &UnsyncedWrite<'_>| {
                match (random.below(3), write) {
                    (0, _) => Survival::Lost,
                    (1, UnsyncedWrite::Bytes { bytes, .. }) => {
                        Survival::Torn(random.below(bytes.len() as u64 + 1) as usize)
                    }
                    _ => Survival::Kept,
                }
            });
            check(&left, &least);
        }
        stop.store(true, Ordering::Release);
    });
}
