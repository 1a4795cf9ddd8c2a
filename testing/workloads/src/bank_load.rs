//! Bank as a load: deposits at one account, transfers between two. The sum of all balances changes
//! by deposits only.

use crate::bank;
use crate::distribution::session_random;
use crate::workload::{
    Answer, Check, Database, Found, Next, NextCall, RowSink, Session, TableToFill, Verdict,
    Workload,
};
use lockstep_base::random::SeededRandom;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};

/// What an account has at the beginning.
const BALANCE: i64 = 1_000_000;
const DEPOSIT: usize = 0;
const TRANSFER: usize = 1;

/// How money is moved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transfers {
    /// Two UPDATE statements, in one round.
    OneRound,
    /// A native procedure that reads the balance, decides, then changes both accounts.
    TwoRounds,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct BankLoad {
    name: &'static str,
    accounts: u64,
    transfers_per_mille: u64,
    transfers: Transfers,
    before: i64,
}

impl BankLoad {
    /// Deposits, and N transfers of a thousand transactions.
    ///
    /// # Errors
    /// Fewer than two accounts; a share over the whole.
    pub fn new(
        name: &'static str,
        accounts: u64,
        transfers_per_mille: u64,
        transfers: Transfers,
    ) -> Result<BankLoad, String> {
        if accounts < 2 || transfers_per_mille > 1000 {
            return Err("a bank has two accounts or more, and at most 100 % transfers".to_string());
        }
        Ok(BankLoad { name, accounts, transfers_per_mille, transfers, before: 0 })
    }
}

impl Workload for BankLoad {
    fn name(&self) -> &'static str {
        self.name
    }

    fn transactions(&self) -> &[&'static str] {
        &["DEPOSIT", "TRANSFER"]
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let rounds = if self.transfers == Transfers::OneRound { "1" } else { "2" };
        vec![
            ("accounts", self.accounts.to_string()),
            ("transfers_percent", format!("{}", self.transfers_per_mille as f64 / 10.0)),
            ("rounds", rounds.to_string()),
        ]
    }

    fn schema(&self) -> Vec<String> {
        let native = "CREATE PROCEDURE PARTITION ON TABLE accounts COLUMN id PARAMETER 0 \
                      AND ON TABLE accounts COLUMN id PARAMETER 1 FROM NATIVE Transfer;";
        vec![bank::SCHEMA.to_string(), native.to_string()]
    }

    fn tables(&self) -> Vec<TableToFill> {
        let columns = vec![("id", SqlType::BigInt), ("balance", SqlType::BigInt)];
        let rows = self.accounts;
        vec![TableToFill { name: "accounts", columns, partitioned_by: Some(0), rows }]
    }

    fn fill(&self, rows: &mut dyn RowSink) -> Result<(), String> {
        let balance = Datum::Int(BALANCE);
        (0..self.accounts as i64).try_for_each(|id| rows.row(0, &[Datum::Int(id), balance]))
    }

    fn survey(&self, database: &mut dyn Database) -> Result<Found, String> {
        let Ok(accounts) = database.number("SELECT COUNT(*) FROM accounts;") else {
            return Ok(Found::Nothing);
        };
        match accounts {
            0 => Ok(Found::Tables),
            count if count == self.accounts as i64 => Ok(Found::Rows),
            count => Err(format!("there are {count} accounts, this run is for {}", self.accounts)),
        }
    }

    fn begin(&mut self, database: &mut dyn Database) -> Result<(), String> {
        self.before = database.number("SELECT SUM(balance) FROM accounts;")?;
        Ok(())
    }

    fn session(&self, number: u64, seed: u64) -> Box<dyn Session> {
        let random = session_random(seed, number);
        Box::new(Client { bank: self.clone(), random, last: DEPOSIT, counts: [0; 2] })
    }

    fn counters(&self) -> &[&'static str] {
        &["deposits", "unanswered deposits"]
    }

    fn check(
        &self,
        database: &mut dyn Database,
        counts: &[u64],
        _complete: bool,
    ) -> Result<Vec<Check>, String> {
        let count = |place: usize| counts.get(place).copied().unwrap_or(0) as i64;
        let held = database.number("SELECT SUM(balance) FROM accounts;")? - self.before;
        let accounts = database.number("SELECT COUNT(*) FROM accounts;")?;
        Ok(vec![
            Check::equal("accounts = accounts loaded", accounts, self.accounts as i64),
            Check::within("growth of all balances = deposits", held, count(0), count(1)),
        ])
    }
}

struct Client {
    bank: BankLoad,
    random: SeededRandom,
    last: usize,
    counts: [u64; 2],
}

impl Session for Client {
    fn next_call(&mut self, parameters: &mut ParameterWriter) -> NextCall {
        let accounts = self.bank.accounts;
        let from = self.random.below(accounts);
        if self.random.below(1000) >= self.bank.transfers_per_mille {
            self.last = DEPOSIT;
            parameters.bigint(1).bigint(from as i64);
            return NextCall { transaction: DEPOSIT, procedure: "Deposit" };
        }
        self.last = TRANSFER;
        let to = (from + 1 + self.random.below(accounts - 1)) % accounts;
        let (from, to) = (from as i64, to as i64);
        let procedure = match self.bank.transfers {
            Transfers::OneRound => {
                parameters.bigint(-1).bigint(from).bigint(1).bigint(to);
                "TransferSql"
            }
            Transfers::TwoRounds => {
                parameters.bigint(from).bigint(to).bigint(1);
                "Transfer"
            }
        };
        NextCall { transaction: TRANSFER, procedure }
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Next {
        // An account that has run empty takes its transfers back.
        let verdict = match (answer.is_success(), answer.is_abort() && self.last == TRANSFER) {
            (true, _) => Verdict::Good,
            (false, true) => Verdict::Aborted,
            (false, false) => Verdict::Error,
        };
        self.counts[0] += u64::from(self.last == DEPOSIT && verdict == Verdict::Good);
        Next::end(verdict)
    }

    fn lost(&mut self) {
        self.counts[1] += u64::from(self.last == DEPOSIT);
    }

    fn counts(&self) -> &[u64] {
        &self.counts
    }
}
