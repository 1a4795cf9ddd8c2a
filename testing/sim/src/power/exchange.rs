//! Two tables that exchange their contents while rows are inserted into the first.

use super::{Call, End, Run};
use crate::world::World;
use std::collections::BTreeMap;

const ROW: &str = "INSERT INTO day VALUES (?, ?)";
const NOTE: &str = "INSERT INTO moves (account, number, side, amount) VALUES (?, ?, 0, 0)";

/// A row's call.
#[derive(Debug)]
struct Row {
    /// What [`Exchange::changes`] was when it began.
    since: u64,
    /// Whether it is in the first table, where that is known.
    is_first: Option<bool>,
}

/// The rows of both tables, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Exchange {
    rows: BTreeMap<usize, Row>,
    /// How many exchanges have begun or ended.
    changes: u64,
    is_pending: bool,
}

impl Exchange {
    pub(super) fn begin(&mut self) {
        self.changes += 1;
        self.is_pending = true;
    }

    /// The exchange that was in progress was answered.
    pub(super) fn end(&mut self, is_made: bool) {
        self.changes += 1;
        self.is_pending = false;
        for row in self.rows.values_mut().filter(|_| is_made) {
            row.is_first = row.is_first.map(|first| !first);
        }
    }

    /// A call has succeeded.
    pub(super) fn inserted(&mut self, number: usize) {
        if let Some(row) = self.rows.get_mut(&number) {
            row.is_first = (row.since == self.changes && !self.is_pending).then_some(true);
        }
    }
}

impl Run {
    pub(super) fn insert_exchanged(&mut self, world: &mut World) -> Call {
        let (number, account) = (self.calls.len(), self.account());
        let n = number as i64;
        self.statements(world, &[(ROW, &[n, account]), (NOTE, &[account, n])]);
        let since = self.exchange.changes;
        self.exchange.rows.insert(number, Row { since, is_first: None });
        Call::new(vec![(account, 0, 0)])
    }

    /// After a recovery: each row is in one of the tables, and in the one that is known, but for
    /// an exchange that was cut off.
    pub(super) fn judge_exchange(&mut self, world: &mut World) -> Result<(), String> {
        let mut found = BTreeMap::new();
        for (is_first, text) in [(true, "SELECT id FROM day"), (false, "SELECT id FROM night")] {
            for row in super::judge::read(world, text)? {
                if found.insert(row[0] as usize, is_first).is_some() {
                    return Err(format!("row {} is in both tables", row[0]));
                }
            }
        }
        let mut was_made = None;
        for (number, row) in &mut self.exchange.rows {
            let is_there = self.calls[*number].end == End::Known(true);
            let first = found.remove(number);
            if first.is_some() != is_there {
                return Err(format!("row {number} is there: {}, its call: {is_there}", !is_there));
            }
            if let (Some(known), Some(first)) = (row.is_first, first) {
                let made = *was_made.get_or_insert(known != first);
                if made != (known != first) || (made && !self.exchange.is_pending) {
                    return Err(format!("row {number} is in the other table"));
                }
            }
            row.is_first = first;
        }
        self.exchange.rows.retain(|_, row| row.is_first.is_some());
        self.exchange.is_pending = false;
        self.exchange.changes += 1;
        match found.first_key_value() {
            Some((number, _)) => Err(format!("nobody inserted row {number}")),
            None => Ok(()),
        }
    }
}
