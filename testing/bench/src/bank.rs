//! Bank as a load inside the sites' own threads: deposits at one partition, transfers over two.

use crate::inner_host;
use lockstep_base::random::SeededRandom;
use lockstep_client::{CallOptions, Connection, ParameterWriter, Response};
use lockstep_node::options::Options;
use lockstep_node::{Server, SiteLoad};
use lockstep_types::{Datum, HashRing, PartitionId};
use lockstep_wire_volt::invocation;
use lockstep_workloads::bank;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Bytes of a frame's length.
const LENGTH_BYTES: usize = 4;
/// What an account has at the beginning.
const BALANCE: i64 = 1_000_000;

/// What loads do, to be changed while they run.
#[derive(Debug, Default)]
pub struct Steering {
    /// They call.
    pub running: AtomicBool,
    /// Of a thousand calls, how many are transfers.
    pub transfers_per_mille: AtomicU64,
    /// Transfers read before they change, in two rounds.
    pub two_rounds: AtomicBool,
    /// Only a bystander calls.
    pub only_bystander: AtomicBool,
}

/// Calls that were answered to one load.
#[derive(Debug, Default)]
pub struct Counts {
    /// Deposits.
    pub deposits: AtomicU64,
    /// Transfers.
    pub transfers: AtomicU64,
    /// Failures of either kind.
    pub errors: AtomicU64,
}

impl Counts {
    /// All calls.
    pub fn calls(&self) -> u64 {
        self.deposits.load(Ordering::Relaxed) + self.transfers.load(Ordering::Relaxed)
    }
}

/// What a bank host is made for.
#[derive(Debug, Clone)]
pub struct BankShape {
    /// Its sites, one on each core from the first, as far as there are cores.
    pub sites: u32,
    /// Accounts in all.
    pub accounts: i64,
    /// Calls in flight at each site.
    pub in_flight: usize,
    /// Its options.
    pub options: Options,
    /// The last site is a bystander: it makes this many deposits at its own partition, and
    /// nobody else's calls go there.
    pub bystander_calls: Option<u64>,
}

/// A host with the bank in it, whose sites make the load themselves.
pub struct BankHost {
    server: Server,
    /// Changes what the loads do.
    pub steering: Arc<Steering>,
    /// Per site.
    pub counts: Vec<Arc<Counts>>,
    accounts: i64,
}

impl BankHost {
    /// Starts the host and fills its accounts. The loads wait.
    ///
    /// # Errors
    /// What the system or the host refused.
    pub fn start(shape: &BankShape) -> Result<BankHost, String> {
        let steering = Arc::new(Steering::default());
        let counts: Vec<Arc<Counts>> = (0..shape.sites).map(|_| Arc::default()).collect();
        let load = |site: u32| -> Box<dyn SiteLoad> {
            let counts = Arc::clone(&counts[site as usize]);
            Box::new(BankLoad::new(site, shape, Arc::clone(&steering), counts))
        };
        let loads = (0..shape.sites).map(load).collect();
        let server = inner_host::start(loads, &shape.options)?;
        let host = BankHost { server, steering, counts, accounts: shape.accounts };
        let mut connection = host.connect()?;
        for statement in [bank::SCHEMA, bank::NATIVE_SCHEMA] {
            connection.sql(statement).map_err(|error| error.to_string())?;
        }
        // One by one: of a statement with all rows some site would give the memory back, and which
        // one differs between runs whose instructions are compared.
        let mut writer = ParameterWriter::default();
        for id in 0..shape.accounts {
            writer.clear();
            writer.bigint(id).bigint(BALANCE);
            let answer = connection.call("ACCOUNTS.insert", &writer).map_err(|e| e.to_string())?;
            if !answer.view().is_success() {
                return Err(format!("account {id}: {:?}", answer.view().status_text));
            }
        }
        Ok(host)
    }

    /// A connection to the host.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn connect(&self) -> Result<Connection, String> {
        inner_host::connect(&self.server)
    }

    /// Checks, when nothing is in flight, that no call failed and that the sum of all balances is
    /// what it was and all deposits, those made elsewhere included.
    ///
    /// # Errors
    /// Says what is wrong.
    pub fn check(&self, deposits_elsewhere: u64) -> Result<(), String> {
        let sum = |count: fn(&Counts) -> &AtomicU64| -> u64 {
            self.counts.iter().map(|counts| count(counts).load(Ordering::Relaxed)).sum()
        };
        let errors = sum(|counts| &counts.errors);
        if errors > 0 {
            return Err(format!("{errors} calls failed"));
        }
        let deposits = (sum(|counts| &counts.deposits) + deposits_elsewhere) as i64;
        let expected = self.accounts * BALANCE + deposits;
        let tables = self.connect()?.sql("SELECT SUM(balance) FROM accounts;");
        let tables = tables.map_err(|error| error.to_string())?;
        let held = tables.first().map(|table| format!("{table:?}")).unwrap_or_default();
        match held.contains(&expected.to_string()) {
            true => Ok(()),
            false => Err(format!("the accounts hold {held}, not {expected}")),
        }
    }
}

/// The load of one site.
struct BankLoad {
    random: SeededRandom,
    /// Per partition that takes part, its accounts.
    accounts: Vec<Vec<i64>>,
    steering: Arc<Steering>,
    counts: Arc<Counts>,
    in_flight: usize,
    most_in_flight: usize,
    /// Of a bystander, what is left to be done.
    calls_left: Option<u64>,
    writer: ParameterWriter,
}

/// The handle of a call says what it is.
const DEPOSIT: i64 = 1;
const TRANSFER: i64 = 2;

impl BankLoad {
    fn new(site: u32, shape: &BankShape, steering: Arc<Steering>, counts: Arc<Counts>) -> BankLoad {
        let ring = HashRing::new(shape.sites);
        let of = |partition: u32| -> Vec<i64> {
            let is_here = |id: &i64| ring.partition_of(Datum::Int(*id)) == PartitionId(partition);
            (0..shape.accounts).filter(is_here).collect()
        };
        let last = shape.sites - 1;
        let calls_left = shape.bystander_calls.filter(|_| site == last);
        let accounts = match (calls_left, shape.bystander_calls) {
            (Some(_), _) => vec![of(last)],
            (None, Some(_)) => (0..last).map(of).collect(),
            (None, None) => (0..shape.sites).map(of).collect(),
        };
        BankLoad {
            random: SeededRandom::new(u64::from(site) + 1),
            accounts,
            steering,
            counts,
            in_flight: 0,
            most_in_flight: shape.in_flight,
            calls_left,
            writer: ParameterWriter::default(),
        }
    }

    fn draw(&mut self, partition: usize) -> i64 {
        let accounts = &self.accounts[partition];
        accounts[self.random.below(accounts.len() as u64) as usize]
    }
}

impl SiteLoad for BankLoad {
    fn wants_to_call(&mut self) -> bool {
        self.in_flight < self.most_in_flight
            && self.calls_left != Some(0)
            && self.steering.running.load(Ordering::Relaxed)
            && (self.calls_left.is_some() || !self.steering.only_bystander.load(Ordering::Relaxed))
    }

    fn next_call(&mut self, frame: &mut Vec<u8>) {
        self.in_flight += 1;
        self.calls_left = self.calls_left.map(|left| left - 1);
        let partitions = self.accounts.len();
        let here = self.random.below(partitions as u64) as usize;
        let share = self.steering.transfers_per_mille.load(Ordering::Relaxed);
        let transfer = self.calls_left.is_none() && self.random.below(1000) < share;
        self.writer.clear();
        let (procedure, handle) = if !transfer {
            let account = self.draw(here);
            self.writer.bigint(1).bigint(account);
            ("Deposit", DEPOSIT)
        } else {
            let there = (here + 1) % partitions;
            let (from, to) = (self.draw(here), self.draw(there));
            match self.steering.two_rounds.load(Ordering::Relaxed) {
                true => {
                    self.writer.bigint(from).bigint(to).bigint(1);
                    ("Transfer", TRANSFER)
                }
                false => {
                    self.writer.bigint(-1).bigint(from).bigint(1).bigint(to);
                    ("TransferSql", TRANSFER)
                }
            }
        };
        let options = CallOptions::default();
        invocation::encode(frame, procedure, handle, &options, self.writer.bytes());
    }

    fn answered(&mut self, frame: &[u8]) {
        self.in_flight -= 1;
        let response = frame.get(LENGTH_BYTES..).map(Response::decode);
        let (counter, succeeded) = match &response {
            Some(Ok(response)) if response.client_handle == TRANSFER => {
                (&self.counts.transfers, response.is_success())
            }
            Some(Ok(response)) => (&self.counts.deposits, response.is_success()),
            _ => (&self.counts.deposits, false),
        };
        // The counters have one writer.
        let counter = if succeeded { counter } else { &self.counts.errors };
        counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Waits for a condition, with patience.
    fn until(what: &str, mut holds: impl FnMut() -> bool) {
        let start = Instant::now();
        while !holds() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what}");
            std::thread::yield_now();
        }
    }

    #[test]
    fn the_sites_call_each_other_and_no_money_is_lost() {
        let shape = BankShape {
            sites: 2,
            accounts: 100,
            in_flight: 16,
            options: Options::default(),
            bystander_calls: None,
        };
        let host = BankHost::start(&shape).expect("the host starts");
        host.steering.transfers_per_mille.store(500, Ordering::Relaxed);
        for two_rounds in [false, true] {
            host.steering.two_rounds.store(two_rounds, Ordering::Relaxed);
            host.steering.running.store(true, Ordering::Relaxed);
            let begun: Vec<u64> = host.counts.iter().map(|counts| counts.calls()).collect();
            until("both sites call", || {
                host.counts.iter().zip(&begun).all(|(counts, begun)| counts.calls() > begun + 500)
            });
        }
        host.steering.running.store(false, Ordering::Relaxed);
        // Queries come after what is in flight only when that is answered.
        until("the sum is right", || host.check(0).is_ok());
        assert!(host.check(1).is_err());
    }

    #[test]
    fn a_bystander_makes_its_calls_alone() {
        let shape = BankShape {
            sites: 3,
            accounts: 90,
            in_flight: 16,
            options: Options::default(),
            bystander_calls: Some(200),
        };
        let host = BankHost::start(&shape).expect("the host starts");
        host.steering.transfers_per_mille.store(1000, Ordering::Relaxed);
        host.steering.running.store(true, Ordering::Relaxed);
        until("the others transfer", || {
            host.counts[2].calls() == 200 && host.counts[0].calls() > 100
        });
        host.steering.running.store(false, Ordering::Relaxed);
        assert_eq!(host.counts[2].transfers.load(Ordering::Relaxed), 0);
        assert_eq!(host.counts[0].deposits.load(Ordering::Relaxed), 0);
        until("the sum is right", || host.check(0).is_ok());
    }
}
