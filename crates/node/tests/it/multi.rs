//! Procedures over several partitions: declared ones, those that find out, and many at once.

use crate::support::{Answer, Peer, call_frame, eventually, parameters, start};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::Datum::{Int, Text};
use lockstep_types::{PartitionId, SqlType, Status};
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
    for (sites, options) in
        [(1, &[][..]), (3, &[]), (5, &["stop_everything=1"]), (5, &["stop_everything=2"])]
    {
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

/// `Catches(id)`: makes an account, fails to make it once more, and goes on as if nothing were.
pub struct Catches;

impl NativeProcedure for Catches {
    fn name(&self) -> &str {
        "Catches"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[ProcedureParameter { sql_type: SqlType::BigInt, is_array: false }]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[("make", "INSERT INTO accounts VALUES (?, 0);")]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let Int(id) = context.parameter(0) else { return Err(context.abort("a number")) };
        context.queue(0, &[Int(id)])?;
        context.execute()?;
        context.queue(0, &[Int(id + 1)])?;
        context.queue(0, &[Int(id)])?;
        let _ = context.execute();
        context.queue(0, &[Int(id + 2)])?;
        let _ = context.execute();
        context.return_scalar(i64::from(context.partition() == PartitionId::MULTI));
        Ok(())
    }
}

#[test]
fn a_failed_batch_that_is_caught_ends_a_call_over_partitions_at_one_partition_too() {
    let mut told = Vec::new();
    for sites in [1, 2] {
        let (_server, mut peer) = host(sites, &[]);
        peer.run("CREATE PROCEDURE FROM NATIVE Catches");
        let refused = peer.call("Catches", &[Int(1_000)]);
        assert_eq!((refused.status, refused.rows.as_str()), (-2, ""), "{sites}: {refused:?}");
        assert_eq!(total(&mut peer), format!("{},{ACCOUNTS}", ACCOUNTS * 100), "at {sites}");
        told.push(refused.text);
    }
    assert_eq!(told[0], told[1]);
    // A single-partition procedure may go on.
    let (_server, mut peer) = host(1, &[]);
    peer.run("CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM NATIVE Catches");
    let answer = peer.call("Catches", &[Int(1_000)]);
    assert_eq!((answer.status, answer.rows.as_str()), (1, "0"), "{answer:?}");
    let rows = peer.run("SELECT id FROM accounts WHERE id >= 1000 ORDER BY id");
    assert_eq!(rows, "1000\n1002", "the batch alone is undone");
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
fn a_procedure_reads_replicated_tables_at_a_partition_that_it_declares() {
    let (_server, mut peer) = host(5, &[]);
    peer.run(
        "CREATE TABLE rates (id BIGINT NOT NULL, rate BIGINT, PRIMARY KEY (id)); \
         CREATE PROCEDURE Rated PARTITION ON TABLE accounts COLUMN id PARAMETER 0 \
         AND ON TABLE accounts COLUMN id PARAMETER 1 AS BEGIN \
           SELECT balance FROM accounts WHERE id = ?; \
           SELECT balance FROM accounts WHERE id = ?; \
           SELECT rate FROM rates WHERE id = 1; END;",
    );
    peer.run("INSERT INTO rates VALUES (1, 7)");
    // Whichever partitions these are, one of them has the replicated table.
    for account in 0..10 {
        let answer = peer.call("Rated", &[Int(account), Int(account + 1)]);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "100;100;7"), "{answer:?}");
    }
}

#[test]
fn a_transaction_that_waits_too_long_is_undone_and_frees_its_partitions() {
    let (server, mut peer) = host(2, &["transaction_timeout_ms=50"]);
    let ring = lockstep_types::HashRing::new(2);
    let at = |partition| {
        let here = |id: &i64| ring.partition_of(Int(*id)).index() == partition;
        (0..ACCOUNTS).find(here).expect("both partitions have accounts")
    };
    let (free, busy) = (at(0), at(1));
    // Keeps the second partition busy: it joins the rows of a replicated table many times.
    peer.run("CREATE TABLE numbers (n BIGINT NOT NULL, PRIMARY KEY (n))");
    for number in 0..180 {
        assert_eq!(peer.call("NUMBERS.insert", &[Int(number)]).status, 1);
    }
    let mut other = Peer::login(server.client_address());
    let began = std::time::Instant::now();
    let slow = std::thread::spawn(move || {
        other.run(&format!(
            "SELECT COUNT(*) FROM accounts, numbers a, numbers b, numbers c \
             WHERE id = {busy} AND a.n + b.n * c.n > balance"
        ));
        began.elapsed()
    });
    let (mut undone, mut done) = (0, 0);
    while !slow.is_finished() {
        let answer = peer.call("TransferAnywhere", &[Int(free), Int(busy), Int(1)]);
        match answer.status {
            1 => done += 1,
            _ => {
                assert!(answer.text.contains("transaction_timeout_ms"), "{answer:?}");
                undone += 1;
                // Its first partition is free, and has nothing of it.
                let deposit = peer.call("Deposit", &[Int(0), Int(free)]);
                assert_eq!(deposit.status, 1, "{deposit:?}");
            }
        }
    }
    let took = slow.join().expect("the query ends");
    println!("busy for {took:?}: {undone} undone, {done} done");
    assert!(undone > 0, "a partition was busy for {took:?}");
    assert_eq!(
        peer.run(&format!("SELECT balance FROM accounts WHERE id = {free}")),
        format!("{}", 100 - done)
    );
    assert_eq!(total(&mut peer), format!("{},{ACCOUNTS}", ACCOUNTS * 100));
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
                    // of the batch breaks one after a change.
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

/// Of the selector TRANSACTIONS: a procedure's line of the first table, from its calls on.
fn counted(peer: &mut Peer, procedure: &str) -> Vec<u64> {
    let answer = peer.call("@Statistics", &[Text("TRANSACTIONS"), Int(0)]);
    assert_eq!(answer.status, 1, "{answer:?}");
    let calls = answer.rows.split(';').next().expect("two tables");
    let lines = calls.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let line = lines.into_iter().find(|line| line[1] == procedure);
    let line = line.unwrap_or_else(|| panic!("no line of {procedure}: {calls}"));
    line[2..].iter().map(|count| count.parse().expect("a count")).collect()
}

/// Of its second table: a column of each partition's line of a procedure.
fn at_partitions(peer: &mut Peer, procedure: &str, column: usize) -> Vec<u64> {
    let answer = peer.call("@Statistics", &[Text("TRANSACTIONS"), Int(0)]);
    let waits = answer.rows.split(';').nth(1).expect("two tables").to_string();
    let lines = waits.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let own = lines.filter(|line| line[5] == procedure);
    own.map(|line| line[column].parse().expect("a count")).collect()
}

#[test]
fn statistics_tell_at_how_many_partitions_calls_ran_and_in_how_many_rounds() {
    let (_server, mut peer) = host(3, &[]);
    assert_eq!(counted(&mut peer, "ACCOUNTS.insert"), [40, 40, 0, 0, 0, 0, 0, 0]);
    for id in 0..5 {
        peer.run(&format!("SELECT balance FROM accounts WHERE id = {id}"));
    }
    let ad_hoc = counted(&mut peer, "@AdHoc");
    assert_eq!(ad_hoc[..4], [5, 5, 0, 0]);
    assert_eq!(total(&mut peer), format!("{},{ACCOUNTS}", ACCOUNTS * 100));
    assert_eq!(counted(&mut peer, "Total")[..6], [1, 0, 0, 1, 1, 0]);
    let mut few = 0;
    for to in 1..ACCOUNTS {
        let answer = peer.call("Transfer", &[Int(0), Int(to), Int(1)]);
        assert_eq!(answer.status, 1, "{answer:?}");
        let now = counted(&mut peer, "Transfer");
        assert_eq!((now[0], now[3]), (to as u64, 0), "two of three partitions: {now:?}");
        assert_eq!(now[1] + now[2], now[0], "{now:?}");
        few = now[2];
    }
    assert!((1..39).contains(&few), "{few} of 39 transfers went to another partition");
    let rounds = counted(&mut peer, "Transfer")[4];
    assert_eq!(rounds, 2 * 39, "reads, then writes");
    let at = at_partitions(&mut peer, "Transfer", 6);
    assert_eq!(at.iter().sum::<u64>(), 2 * (39 + few), "{at:?}");
    // Account 0's partition stood between the rounds of all of them.
    assert!(at_partitions(&mut peer, "Transfer", 10).iter().any(|stopped| *stopped > 0));
    // One that does not declare its partitions finds them out.
    for to in 1..ACCOUNTS {
        peer.call("TransferAnywhere", &[Int(0), Int(to), Int(1)]);
    }
    let anywhere = counted(&mut peer, "TransferAnywhere");
    assert_eq!((anywhere[0], anywhere[1] + anywhere[2]), (39, 39), "{anywhere:?}");
}

#[test]
fn lists_of_partitioning_values_name_the_partitions_that_take_part() {
    let (_server, mut peer) = host(5, &[]);
    let ring = lockstep_types::HashRing::new(5);
    let owner = |id: i64| ring.partition_of(Int(id));
    let beside = (1..ACCOUNTS).find(|id| owner(*id) == owner(0)).expect("it has another");
    let apart = (1..ACCOUNTS).find(|id| owner(*id) != owner(0)).expect("others have some");
    peer.run("CREATE PROCEDURE Listed AS SELECT COUNT(*) FROM accounts WHERE id IN ?");
    peer.run("CREATE PROCEDURE Raise AS UPDATE accounts SET balance = 200 WHERE id IN ?");
    peer.run("CREATE PROCEDURE Pair AS SELECT COUNT(*) FROM accounts WHERE id IN (?, ?)");
    let everybody: Vec<i64> = (0..ACCOUNTS).collect();
    // And how many calls ran at one, some and all partitions by then.
    let lists = [
        (vec![0, beside], [1, 0, 0]),
        (vec![apart, 0, apart], [1, 1, 0]),
        (Vec::new(), [2, 1, 0]),
        (everybody, [2, 1, 1]),
    ];
    for (ids, so_far) in &lists {
        let elements: Vec<_> = ids.iter().map(|id| Int(*id)).collect();
        let found = ids.iter().filter(|id| (0..ACCOUNTS).contains(*id));
        let count = found.collect::<std::collections::BTreeSet<_>>().len();
        for name in ["Listed", "Raise"] {
            let mut writer = lockstep_types::parameter::ParameterWriter::default();
            writer.array(lockstep_types::SqlType::BigInt, &elements);
            peer.send(&call_frame(name, 1, &writer));
            let answer = peer.answer();
            assert_eq!((answer.status, answer.rows), (1, count.to_string()), "{name} {ids:?}");
            assert_eq!(counted(&mut peer, name)[1..4], so_far[..], "{name} {ids:?}");
        }
    }
    let raised = peer.run("SELECT COUNT(*) FROM accounts WHERE balance = 200");
    assert_eq!(raised, ACCOUNTS.to_string());
    for (other, at_one) in [(beside, 1), (apart, 1)] {
        assert_eq!(peer.call("Pair", &[Int(0), Int(other)]).rows, "2");
        let pairs = counted(&mut peer, "Pair");
        assert_eq!((pairs[1], pairs[3]), (at_one, 0), "{pairs:?}");
    }
}

#[test]
fn statistics_tell_what_ran_speculatively_and_again() {
    let (server, mut peer) = host(3, &[]);
    let calls = 400;
    let client = |number: i64| {
        let address = server.client_address();
        std::thread::spawn(move || {
            let mut peer = Peer::login(address);
            let frames: Vec<u8> = (0..calls)
                .flat_map(|call| {
                    // Every other one breaks a key after a change at all partitions.
                    let (name, values) = match (number, call % 2) {
                        (0, 0) => ("Breaks", vec![Int(1)]),
                        (0, _) => ("Total", vec![]),
                        (1, 0) => ("Again", vec![Int(call % ACCOUNTS)]),
                        _ => ("Deposit", vec![Int(0), Int(call % ACCOUNTS)]),
                    };
                    call_frame(name, call, &parameters(&values))
                })
                .collect();
            peer.send(&frames);
            (0..calls).for_each(|_| assert_ne!(peer.answer().status, -3));
        })
    };
    peer.run(
        "CREATE PROCEDURE Breaks AS BEGIN UPDATE accounts SET balance = balance + 1; \
         INSERT INTO accounts VALUES (?, 1); END; \
         CREATE PROCEDURE Again PARTITION ON TABLE accounts COLUMN id \
         AS INSERT INTO accounts VALUES (?, 1);",
    );
    let (mut speculative, mut repeated) = (0, 0);
    eventually("something ran again", || {
        let clients: Vec<_> = (0..3).map(client).collect();
        clients.into_iter().for_each(|client| client.join().expect("all are answered"));
        let deposits = counted(&mut peer, "Deposit");
        let breaks = counted(&mut peer, "Breaks");
        assert_eq!(deposits[0], deposits[1], "each call is counted once: {deposits:?}");
        assert_eq!(deposits[0] % (3 * calls as u64 / 2), 0, "{deposits:?}");
        assert_eq!(breaks[0], breaks[3], "{breaks:?}");
        let failing = counted(&mut peer, "Again");
        speculative = deposits[6] + breaks[6] + failing[6];
        repeated = deposits[7] + breaks[7] + failing[7];
        // Those that fail run again as well.
        speculative > 0 && failing[7] > 0 && deposits[7] > 0
    });
    assert!(repeated <= speculative, "{repeated} of {speculative}");
    let at_each = at_partitions(&mut peer, "Breaks", 6);
    assert_eq!(at_each.len(), 3);
    let invocations = peer.call("@Statistics", &[Text("PROCEDUREPROFILE"), Int(0)]).rows;
    let line = invocations.lines().find(|line| line.contains(",Deposit,")).expect("its line");
    let count: u64 = line.split(',').nth(3).expect("INVOCATIONS").parse().expect("a count");
    assert_eq!(count, counted(&mut peer, "Deposit")[0]);
    let line = invocations.lines().find(|line| line.contains(",Again,")).expect("its line");
    let failures: u64 = line.rsplit(',').next().expect("FAILURES").parse().expect("a count");
    assert_eq!(failures, counted(&mut peer, "Again")[0]);
}

#[test]
fn whoever_makes_a_procedure_hears_how_it_can_run_at_fewer_partitions() {
    let (_server, mut peer) = host(3, &[]);
    let made = peer.sql("CREATE PROCEDURE Look AS SELECT balance FROM accounts WHERE id = ?");
    assert_eq!((made.status, made.rows.as_str()), (1, "0"), "{made:?}");
    let fix = "Declare it with PARTITION ON TABLE ACCOUNTS COLUMN ID PARAMETER 0.";
    assert!(made.note.contains("Procedure Look") && made.note.ends_with(fix), "{made:?}");
    let explained = peer.call("@ExplainProc", &[Text("Look")]);
    assert_eq!(explained.note, made.note, "{explained:?}");
    assert!(explained.rows.contains("because ACCOUNTS.ID = ?0"), "{explained:?}");
    let declared = peer.sql("PARTITION PROCEDURE Look ON TABLE accounts COLUMN id PARAMETER 0");
    assert_eq!((declared.status, declared.note.as_str()), (1, ""), "{declared:?}");
    let explained = peer.call("@ExplainProc", &[Text("Look")]);
    assert!(explained.rows.contains("the partition of the procedure's call"), "{explained:?}");
    for (name, why) in [
        ("TransferSql", "because ACCOUNTS.ID = ?1"),
        ("Total", "at all partitions, because no value of ACCOUNTS.ID is known"),
    ] {
        let explained = peer.call("@ExplainProc", &[Text(name)]);
        assert!(explained.note.is_empty() && explained.rows.contains(why), "{explained:?}");
    }
}

/// Sends calls of all partitions and of one in one piece, on several connections, and stops the
/// host when the first of each is answered. Returns how many answers did not come.
fn lost_by_stopping(options: &[&str]) -> usize {
    let (server, _peer) = host(3, options);
    let clients: Vec<Peer> = (0..5).map(|_| Peer::login(server.client_address())).collect();
    let calls = 60;
    let ahead: Vec<_> = clients
        .into_iter()
        .map(|mut client| {
            let frames: Vec<u8> = (0..calls)
                .flat_map(|call| match call % 3 {
                    0 => call_frame(
                        "TransferAnywhere",
                        call,
                        &parameters(&[Int(1), Int(call), Int(0)]),
                    ),
                    1 => call_frame("Total", call, &parameters(&[])),
                    _ => call_frame("Deposit", call, &parameters(&[Int(0), Int(call % ACCOUNTS)])),
                })
                .collect();
            client.send(&frames);
            // All of them have been read when one is answered.
            assert!(client.receive().is_some());
            client
        })
        .collect();
    let stopping = std::thread::spawn(move || server.stop());
    let mut lost = 0;
    for mut client in ahead {
        let answered = 1 + std::iter::from_fn(|| client.receive()).count();
        lost += calls as usize - answered;
    }
    stopping.join().expect("it ends").expect("the host stops in order");
    lost
}

#[test]
fn a_host_that_stops_finishes_and_answers_what_is_under_way() {
    assert_eq!(lost_by_stopping(&[]), 0);
    // Without time for that it ends all the same.
    eventually("a call is lost", || lost_by_stopping(&["stop_timeout_ms=0"]) > 0);
}

/// Stops a host that has work, and calls it meanwhile: the answer to the first call that fails.
/// None where the host had ended before.
fn refused_by_stopping() -> Option<Answer> {
    let (server, mut peer) = host(3, &[]);
    let mut busy = Peer::login(server.client_address());
    let frames: Vec<u8> =
        (0..1_000).flat_map(|call| call_frame("Total", call, &parameters(&[]))).collect();
    busy.send(&frames);
    assert!(busy.receive().is_some());
    let stopping = std::thread::spawn(move || server.stop());
    let mut answers = std::iter::from_fn(|| {
        peer.send(&call_frame("Deposit", 7, &parameters(&[Int(1), Int(3)])));
        peer.next_answer()
    });
    let refused = answers.find(|answer| answer.status != 1);
    stopping.join().expect("it ends").expect("the host stops in order");
    refused
}

#[test]
fn a_host_that_stops_refuses_what_comes_meanwhile() {
    let mut refused = None;
    eventually("a call comes while the host stops", || {
        refused = refused_by_stopping();
        refused.is_some()
    });
    let refused = refused.expect("it was seen");
    assert_eq!(refused.status, Status::ServerUnavailable.code(), "{refused:?}");
    assert!(refused.text.contains("was not executed"), "{refused:?}");
}
