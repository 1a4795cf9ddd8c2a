//! Codes of accounts that a global index finds: their changes write entries at other partitions,
//! and reads go from the index to the row. A code is a number that each change raises, one change
//! after the other; one whose outcome is not known is the last of its account.

use super::judge::{End, Judge, Kind};
use super::{Cluster, FORM_US, READS_AT_REST, TICK_US};
use crate::plans::{Request, Sql};
use lockstep_base::random::SeededRandom;
use std::collections::BTreeMap;

pub(super) const SCHEMA: &str = "
CREATE TABLE codes (id BIGINT NOT NULL, code BIGINT NOT NULL, mark BIGINT NOT NULL,
  PRIMARY KEY (id));
PARTITION TABLE codes ON COLUMN id;
CREATE GLOBAL UNIQUE INDEX codes_by_code ON codes (code);
";

/// Codes of one account.
const CODES: i64 = 1_000_000;

/// How often the code of an account was changed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Code {
    /// By changes that are answered, or that a read has found.
    least: i64,
    /// By changes that have begun.
    most: i64,
    /// A change is in progress, or nobody knows its outcome.
    is_open: bool,
}

impl Judge {
    /// The codes that the accounts have at first.
    pub(super) fn load_codes(&mut self) -> Vec<(usize, Request)> {
        let insert: Sql = "INSERT INTO codes VALUES (?, ?, 0)".into();
        let accounts = self.accounts().end;
        let one = |account| {
            let call = self.begin(Kind::Load);
            let given = vec![account, account * CODES];
            (call, Request::Statements(vec![(insert.clone(), given)]))
        };
        (0..accounts).map(one).collect()
    }

    /// A client changes a code, or looks for one.
    pub(super) fn call_code(
        &mut self,
        account: i64,
        random: &mut SeededRandom,
    ) -> (usize, Request) {
        let code = &mut self.codes[account as usize];
        if code.is_open || random.chance(2, 3) {
            let number = random.between((code.least - 1).max(0), code.most);
            return self.read_code(account, number);
        }
        code.most += 1;
        code.is_open = true;
        let number = code.most;
        let call = self.begin(Kind::ChangeCode(account, number));
        let update = "UPDATE codes SET code = ? WHERE id = ?";
        let given = vec![account * CODES + number, account];
        (call, Request::Statements(vec![(update.into(), given)]))
    }

    fn read_code(&mut self, account: i64, number: i64) -> (usize, Request) {
        let least = self.codes[account as usize].least;
        let call = self.begin(Kind::ReadCode(account, number, least));
        // The first is answered by the entries of the index, the other one by the row.
        let read = match call % 2 {
            0 => "SELECT id FROM codes WHERE code = ?",
            _ => "SELECT id, mark FROM codes WHERE code = ?",
        };
        (call, Request::Statements(vec![(read.into(), vec![account * CODES + number])]))
    }

    /// A change of a code has ended.
    pub(super) fn code_changed(&mut self, account: i64, number: i64, end: End) {
        let code = &mut self.codes[account as usize];
        match end {
            End::Done => {
                code.least = code.least.max(number);
                code.is_open = false;
            }
            End::Failed => {
                code.most -= 1;
                code.is_open = false;
            }
            End::Unknown => {}
        }
    }

    /// A read has found the account of a code, or none.
    pub(super) fn judge_code(
        &mut self,
        call: usize,
        (account, number, least): (i64, i64, i64),
        rows: &[Vec<i64>],
    ) -> Result<(), String> {
        let code = &mut self.codes[account as usize];
        let holds = match rows {
            [row] => row[0] == account && (least..=code.most).contains(&number),
            // It was the code all the time.
            [] => number != least || code.most > least,
            _ => false,
        };
        if !holds {
            return Err(format!(
                "code {number} of account {account}, which is {least} at least, was found as \
                 {rows:?}; {code:?}"
            ));
        }
        if rows.is_empty() {
            return Ok(());
        }
        code.least = code.least.max(number);
        self.found_codes.insert(call, account);
        Ok(())
    }

    /// The reads at the end of all codes that accounts may have.
    pub(super) fn read_codes(&mut self) -> Vec<(usize, Request)> {
        let codes: Vec<(i64, Code)> = self.accounts().zip(self.codes.clone()).collect();
        let mut calls = Vec::new();
        for (account, code) in codes {
            calls.extend((code.least..=code.most).map(|number| self.read_code(account, number)));
        }
        calls
    }

    /// Each account was found by one code among the last calls, if all of these succeeded.
    pub(super) fn judge_codes(&self, first: usize) -> Result<bool, String> {
        let mut found: BTreeMap<i64, usize> = self.accounts().map(|it| (it, 0)).collect();
        for account in self.found_codes.range(first..).map(|(_, account)| *account) {
            *found.entry(account).or_default() += 1;
        }
        if !self.are_done_since(first) {
            return Ok(false);
        }
        match found.values().all(|count| *count == 1) {
            true => Ok(true),
            false => Err(format!("by account, its codes: {found:?}")),
        }
    }
}

impl Cluster {
    /// At rest each account has one of the codes that it may have, by the index.
    pub(super) fn read_codes(&mut self) -> Result<(), String> {
        for attempt in 0..READS_AT_REST {
            let first = self.judge.next_call();
            let serving = self.serving();
            for call in self.judge.read_codes() {
                self.call_at(serving[attempt % serving.len()], call);
            }
            let limit_us = self.now_us + FORM_US;
            if !self.run_until(limit_us, |it| it.judge.outstanding == 0)? {
                return Err("a read of a code at rest is not answered".to_string());
            }
            if self.judge.judge_codes(first)? {
                return Ok(());
            }
            self.run_until(self.now_us + TICK_US, |_| false)?;
        }
        Err("reads of codes at rest fail".to_string())
    }
}
