//! A site's thread allocates nothing for a voter call: read from the socket, routed, logged,
//! executed, committed, answered. What tables need to grow is made ready between the calls.
//! Neither does it for its part of a transfer between two partitions.

use crate::support::{Peer, call_frame, parameters, sends_bytes, start};
use lockstep_base::counting::{allocations_apart, allocations_so_far};
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_node::Server;
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::Datum::Int;
use lockstep_types::{HashRing, SqlType};
use lockstep_workloads::{bank, voter};

/// `Allocations(phone number)`: how often the site's thread that runs it has allocated so far, in
/// calls and in what it does between calls.
pub struct Allocations;

impl NativeProcedure for Allocations {
    fn name(&self) -> &str {
        "Allocations"
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        &[ProcedureParameter { sql_type: SqlType::BigInt, is_array: false }]
    }

    fn statements(&self) -> &[(&str, &str)] {
        &[]
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        // Two numbers in one result.
        let (calls, between) = (allocations_so_far() as i64, allocations_apart() as i64);
        context.return_scalar(calls << 32 | between);
        Ok(())
    }
}

/// A number of an area code that exists.
fn phone_number(number: i64) -> i64 {
    i64::from(voter::AREA_CODES[number as usize % voter::AREA_CODES.len()].0) * 10_000_000 + number
}

/// A client of a host with the voter workload.
pub struct Voter {
    pub peer: Peer,
}

impl Voter {
    /// Makes the schema and fills the replicated tables.
    pub fn new(server: &Server) -> Voter {
        let mut peer = Peer::login(server.client_address());
        peer.run(voter::SCHEMA);
        peer.run(voter::NATIVE_PROCEDURE);
        for statement in voter::load_statements(voter::CONTESTANTS) {
            peer.run(&statement);
        }
        Voter { peer }
    }

    /// Allocations in calls, and between them.
    fn allocations(&mut self) -> (i64, i64) {
        let both = self.peer.call("Allocations", &[Int(1)]).rows;
        let both: i64 = both.parse().expect("a count");
        (both >> 32, both & 0xffff_ffff)
    }

    /// Votes once for each of `numbers`, `depth` calls in flight; all must answer `expected`.
    pub fn vote(&mut self, numbers: std::ops::Range<i64>, depth: usize, expected: i64) {
        let numbers: Vec<i64> = numbers.collect();
        let expected = expected.to_string();
        for batch in numbers.chunks(depth) {
            let mut bytes = Vec::new();
            for number in batch {
                let values = parameters(&[Int(phone_number(*number)), Int(1), Int(1)]);
                bytes.extend(call_frame("Vote", *number, &values));
            }
            self.peer.send(&bytes);
            for _ in batch {
                let answer = self.peer.answer();
                assert_eq!((answer.status, answer.rows.as_str()), (1, expected.as_str()));
            }
        }
    }
}

#[test]
fn a_voter_call_allocates_nothing_on_the_sites_thread() {
    let server = start(1, &["statistics_interval_ms=0"]);
    let mut voter = Voter::new(&server);
    voter.peer.run(
        "CREATE PROCEDURE PARTITION ON TABLE votes COLUMN phone_number FROM NATIVE Allocations",
    );
    assert!(voter.allocations().0 > 0, "the allocator counts");
    const WARM: i64 = 20_000;
    const CALLS: i64 = 5_000;
    for depth in [1, 64] {
        let first = depth as i64 * 1_000_000;
        voter.vote(first..first + WARM, depth, voter::ACCEPTED);
        // Votes that are refused change nothing, so nothing grows: exactly none.
        voter.vote(first..first + 100, depth, voter::OVER_LIMIT);
        let before = voter.allocations();
        voter.vote(first..first + CALLS, depth, voter::OVER_LIMIT);
        let refused = voter.allocations().0 - before.0;
        assert_eq!(refused, 0, "{CALLS} calls that are refused, {depth} in flight");
        // Votes that count make tables and indexes grow, by blocks and nodes.
        let before = voter.allocations();
        voter.vote(first + WARM..first + WARM + CALLS, depth, voter::ACCEPTED);
        let after = voter.allocations();
        assert_eq!(after.0 - before.0, 0, "{CALLS} votes that count, {depth} in flight");
        assert!(after.1 > before.1, "tables grow between the calls");
    }
}

/// A client of a host of two sites with a bank, and an account of each.
struct Bank {
    peer: Peer,
    accounts: [i64; 2],
}

impl Bank {
    fn new(server: &Server) -> Bank {
        let mut peer = Peer::login(server.client_address());
        peer.run(bank::SCHEMA);
        peer.run("CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id FROM NATIVE Allocations");
        let ring = HashRing::new(2);
        let first_at = |partition: usize| {
            let is_there = |id: &i64| ring.partition_of(Int(*id)).index() == partition;
            (0..).find(is_there).expect("each partition has numbers")
        };
        let accounts = [first_at(0), first_at(1)];
        for account in accounts {
            assert_eq!(peer.call("ACCOUNTS.insert", &[Int(account), Int(0)]).status, 1);
        }
        Bank { peer, accounts }
    }

    /// Allocations of both sites in calls.
    fn allocations(&mut self) -> i64 {
        let peer = &mut self.peer;
        let mut of = |account: i64| -> i64 {
            let both = peer.call("Allocations", &[Int(account)]).rows;
            both.parse::<i64>().expect("a count") >> 32
        };
        self.accounts.map(&mut of).iter().sum()
    }

    /// Transfers to and fro with a deposit after each, `depth` of both in flight.
    fn transfer(&mut self, count: usize, depth: usize) {
        let [first, second] = self.accounts;
        for batch in 0..count / depth {
            let mut bytes = Vec::new();
            for number in 0..depth as i64 {
                let (from, to) = if number % 2 == 0 { (first, second) } else { (second, first) };
                let values = parameters(&[Int(-1), Int(from), Int(1), Int(to)]);
                bytes.extend(call_frame("TransferSql", number, &values));
                bytes.extend(call_frame("Deposit", number, &parameters(&[Int(1), Int(to)])));
            }
            self.peer.send(&bytes);
            for _ in 0..2 * depth {
                assert_eq!(self.peer.answer().status, 1, "batch {batch}");
            }
        }
    }
}

#[test]
fn a_transfer_between_two_partitions_allocates_nothing_on_either_sites_thread() {
    // Messages in their byte form are made of memory.
    if sends_bytes() {
        return;
    }
    let server = start(2, &["statistics_interval_ms=0"]);
    let mut bank = Bank::new(&server);
    assert!(bank.allocations() > 0, "the allocator counts");
    const TRANSFERS: usize = 6_400;
    bank.transfer(TRANSFERS, 64);
    bank.transfer(TRANSFERS, 1);
    let before = bank.allocations();
    bank.transfer(TRANSFERS, 1);
    let allocated = bank.allocations() - before;
    assert_eq!(allocated, 0, "{TRANSFERS} transfers, one after the other");
    // How many are in progress at a time is the threads' affair: where it is more than ever before,
    // a list grows.
    bank.transfer(TRANSFERS, 64);
    let before = bank.allocations();
    bank.transfer(TRANSFERS, 64);
    let allocated = bank.allocations() - before;
    assert!(allocated < TRANSFERS as i64 / 100, "{allocated} for {TRANSFERS} transfers");
}
