//! The same code on a simulated clock: every message takes a hop, every site and the coordinator
//! take time for what they run, one thing at a time. Gives throughputs that no machine disturbs,
//! to compare ways of running multi-partition transactions with each other.
//!
//! The load is a closed loop of deposits at one account and transfers between two.

use crate::plans::Sql;
use crate::world::{Message, Shape, World};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

/// What is simulated.
#[derive(Debug, Clone, Copy)]
pub struct Model {
    /// The host.
    pub shape: Shape,
    /// Of a thousand calls, how many are transfers between two accounts.
    pub transfers_per_mille: u64,
    /// Calls in flight for each partition.
    pub calls_in_flight: usize,
    /// A message's way.
    pub hop_ns: u64,
    /// What a site or the coordinator takes for one message or call.
    pub work_ns: u64,
    /// Simulated time that is measured, after a warm-up of the same length.
    pub measured_ns: u64,
}

/// Calls ended in the measured time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Throughput {
    /// Deposits.
    pub deposits: u64,
    /// Transfers.
    pub transfers: u64,
    /// Messages between the coordinator and partitions.
    pub messages: u64,
}

impl Throughput {
    /// All calls.
    pub fn calls(&self) -> u64 {
        self.deposits + self.transfers
    }
}

const SCHEMA: &str = "
CREATE TABLE accounts (id BIGINT NOT NULL, balance BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE accounts ON COLUMN id;
";
/// Accounts for each partition.
const ACCOUNTS: i64 = 50;

/// A message and when it arrives; ties go by the order of sending.
struct Arrival {
    at_ns: u64,
    number: u64,
    message: Message,
}

impl PartialEq for Arrival {
    fn eq(&self, other: &Arrival) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Arrival {}

impl PartialOrd for Arrival {
    fn partial_cmp(&self, other: &Arrival) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Arrival {
    fn cmp(&self, other: &Arrival) -> std::cmp::Ordering {
        (self.at_ns, self.number).cmp(&(other.at_ns, other.number))
    }
}

struct Timed {
    model: Model,
    world: World,
    change: Sql,
    accounts: i64,
    arrivals: BinaryHeap<Reverse<Arrival>>,
    sent: u64,
    /// When each site, and after them the coordinator, has finished what it has taken.
    free_at_ns: Vec<u64>,
    /// Whether each call is a transfer.
    transfers: Vec<bool>,
}

/// Runs a model.
pub fn run(seed: u64, model: Model) -> Throughput {
    let mut timed = Timed::open(seed, model);
    // In a closed loop, what is slow gathers until it is most of what is in flight.
    let warm_up_ns = model.measured_ns;
    for _ in 0..model.calls_in_flight * model.shape.partitions as usize {
        timed.begin_call(0);
    }
    let mut counted = Throughput { deposits: 0, transfers: 0, messages: 0 };
    while let Some(Reverse(arrival)) = timed.arrivals.pop() {
        if arrival.at_ns > warm_up_ns + model.measured_ns {
            break;
        }
        let end_ns = timed.deliver(arrival);
        let measured = end_ns > warm_up_ns;
        if !measured {
            timed.world.messages = 0;
        }
        for answer in timed.world.take_answers() {
            assert!(answer.outcome.failure.is_none(), "{:?}", answer.outcome);
            if measured && timed.transfers[answer.call] {
                counted.transfers += 1;
            } else if measured {
                counted.deposits += 1;
            }
            // The answer's way to the client, who calls again.
            timed.begin_call(end_ns + model.hop_ns);
        }
    }
    counted.messages = timed.world.messages;
    counted
}

impl Timed {
    fn open(seed: u64, model: Model) -> Timed {
        let mut world = World::new(seed, model.shape);
        world.schema(SCHEMA);
        let insert = world.prepare("INSERT INTO accounts VALUES (?, 1000)");
        let accounts = ACCOUNTS * i64::from(model.shape.partitions);
        for account in 0..accounts {
            world.call(0, &[(&insert, &[account])]);
            world.settle();
        }
        world.take_answers();
        Timed {
            model,
            change: world.prepare("UPDATE accounts SET balance = balance + ? WHERE id = ?"),
            world,
            accounts,
            arrivals: BinaryHeap::new(),
            sent: 0,
            free_at_ns: vec![0; model.shape.partitions as usize + 1],
            transfers: Vec::new(),
        }
    }

    fn begin_call(&mut self, now_ns: u64) {
        let number = self.transfers.len();
        let random = &mut self.world.random;
        let transfer = random.below(1000) < self.model.transfers_per_mille;
        let from = random.below(self.accounts as u64) as i64;
        let to = random.below(self.accounts as u64) as i64;
        self.transfers.push(transfer);
        let change = Arc::clone(&self.change);
        match transfer {
            true => self.world.call(number, &[(&change, &[-1, from]), (&change, &[1, to])]),
            false => self.world.call(number, &[(&change, &[1, from])]),
        }
        self.send_all(now_ns);
    }

    /// What the world has sent arrives a hop later.
    fn send_all(&mut self, now_ns: u64) {
        for message in self.world.take_messages() {
            self.sent += 1;
            let (at_ns, number) = (now_ns + self.model.hop_ns, self.sent);
            self.arrivals.push(Reverse(Arrival { at_ns, number, message }));
        }
    }

    /// Delivers a message when its receiver is free; returns when it has done its work.
    fn deliver(&mut self, arrival: Arrival) -> u64 {
        let coordinator = self.free_at_ns.len() - 1;
        let receiver = arrival.message.partition().map_or(coordinator, |p| p.index());
        let begun = arrival.at_ns.max(self.free_at_ns[receiver]);
        let ran_before = self.world.executed;
        self.world.deliver(arrival.message);
        // One message may let many calls run that waited.
        let ran = (self.world.executed - ran_before).max(1);
        let end_ns = begun + ran * self.model.work_ns;
        self.free_at_ns[receiver] = end_ns;
        self.send_all(end_ns);
        end_ns
    }
}
