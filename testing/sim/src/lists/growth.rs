//! Lists that are added while others are read and written: calls of one round that know from
//! their parameters where the entries of the global index live. Some of their keys are taken, at
//! the row's partition or at the entry's: such a call leaves nothing at either. And a second global
//! index, which is built in steps and dropped again.

use super::changes::Requested;
use super::{Form, Lists, Report, Transaction};
use crate::plans::{Request, invocation_of};
use crate::walk::FIRST_PUT_KEY;
use crate::world::FAILED;
use lockstep_base::bytes::ByteReader;
use lockstep_base::random::SeededRandom;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, TableView};
use std::collections::BTreeSet;

/// The place of the second index among the changes of the schema.
pub(super) const SECOND_INDEX: usize = 3;
const CREATE: &str = "CREATE GLOBAL UNIQUE INDEX lists_more ON lists (k) INCLUDE (items);";
const DROP: &str = "DROP INDEX lists_more;";
/// What it is made of, and what it has.
pub(super) const SECOND: [&str; 2] = [
    "SELECT k, id, items FROM lists ORDER BY k",
    "SELECT k, id, items FROM \"LISTS_MORE#ENTRIES\" ORDER BY k",
];
/// Ids that lists are added with.
const FIRST_PUT_ID: i64 = 3_000_000_000;
/// Keys and ids are drawn from N values, so that some are drawn twice.
const PUT_KEYS: u64 = 40;

/// A call that adds lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Put {
    name: &'static str,
    /// Id and key of each; the second is not used by all.
    rows: [(i64, i64); 2],
}

impl Put {
    pub(super) fn draw(random: &mut SeededRandom) -> Put {
        let name = ["PutHere", "PutAnywhere", "PutTwo"][random.below(3) as usize];
        let mut number = || random.below(PUT_KEYS) as i64;
        let mut row = || (FIRST_PUT_ID + number(), FIRST_PUT_KEY + number());
        Put { name, rows: [row(), row()] }
    }

    fn rows(&self) -> &[(i64, i64)] {
        if self.name == "PutTwo" { &self.rows } else { &self.rows[..1] }
    }

    /// Whether both cannot be there.
    fn is_against(&self, other: &Put) -> bool {
        let clash = |a: &(i64, i64), b: &(i64, i64)| a.0 == b.0 || a.1 == b.1;
        self.rows().iter().any(|own| other.rows().iter().any(|theirs| clash(own, theirs)))
    }

    fn is_against_itself(&self) -> bool {
        let [first, second] = self.rows() else { return false };
        first.0 == second.0 || first.1 == second.1
    }
}

/// The rows of the second index and what it is made of, if they were read, are the same.
pub(super) fn same_rows(tables: &[u8]) -> Result<(), String> {
    let mut reader = ByteReader::new(tables);
    let (Ok(rows), Ok(entries)) = (TableView::read(&mut reader), TableView::read(&mut reader))
    else {
        return Ok(());
    };
    let text = |table: &TableView<'_>| -> Vec<String> {
        let mut texts = Vec::new();
        for row in table.rows().flatten() {
            let mut values = Vec::new();
            let _ = row.read_into(&mut values);
            texts.push(format!("{values:?}"));
        }
        texts
    };
    let (rows, entries) = (text(&rows), text(&entries));
    match rows == entries {
        true => Ok(()),
        false => Err(format!("the table has {rows:?}, its index lists_more {entries:?}")),
    }
}

impl Lists {
    /// Whether the second index is in force, and stays so until nobody reads it any more.
    pub(super) fn has_second(&self) -> bool {
        self.changed == Some(SECOND_INDEX) && !self.is_toggling()
    }

    /// Now and then the second index is built, or dropped.
    pub(super) fn build_or_drop(&mut self) {
        if self.is_toggling() || !self.world.random.chance(1, 60) {
            return;
        }
        if self.changed.is_none() {
            self.request_change(Requested::Toggle(SECOND_INDEX), CREATE);
        } else {
            let reads = |t: &Transaction| t.open && t.form == Form::Snapshot { second: true };
            if self.transactions.iter().any(reads) {
                return;
            }
            self.request_change(Requested::Toggle(SECOND_INDEX), DROP);
        }
    }

    pub(super) fn put(&mut self, number: usize, put: Put) {
        let mut writer = ParameterWriter::default();
        for (id, key) in put.rows() {
            writer.bigint(*id).bigint(*key);
        }
        let call = invocation_of(put.name, writer.bytes());
        self.world.request(number, Request::Procedure(call));
    }

    /// Lists that were added are there, and the one that was refused had a rival.
    pub(super) fn judge_puts(&mut self, before: usize, report: &mut Report) -> Result<(), String> {
        if !self.grows {
            return Ok(());
        }
        let found = self.put_rows(before)?;
        let puts: Vec<(usize, &Transaction, Put)> = self.transactions[..before]
            .iter()
            .enumerate()
            .filter_map(|(number, t)| match t.form {
                Form::Put(put) => Some((number, t, put)),
                _ => None,
            })
            .collect();
        let (mut expected, mut possible) = (BTreeSet::new(), BTreeSet::new());
        for (number, transaction, put) in &puts {
            if transaction.gone {
                possible.extend(put.rows());
                report.gone += 1;
                continue;
            }
            let Some(failure) = &transaction.failure else {
                report.committed += 1;
                report.put += put.rows().len();
                if put.is_against_itself() || !put.rows().iter().all(|row| expected.insert(*row)) {
                    return Err(format!("{number} put what was there: {put:?}"));
                }
                continue;
            };
            let cut = failure == FAILED && self.fails
                || failure.contains("transaction_timeout_ms") && self.expires;
            report.cut_off += usize::from(cut);
            if cut {
                continue;
            }
            report.refused += 1;
            let rival = |(other, t, theirs): &(usize, &Transaction, Put)| {
                let may_be_there = t.gone || t.committed;
                let in_time = transaction.answered.is_some_and(|answered| t.begun < answered);
                other != number && may_be_there && in_time && put.is_against(theirs)
            };
            if !failure.contains("LISTS") || !put.is_against_itself() && !puts.iter().any(rival) {
                return Err(format!("{number} was refused though nothing was there: {failure}"));
            }
        }
        possible.extend(&expected);
        if !found.is_superset(&expected) || !found.is_subset(&possible) {
            return Err(format!("{expected:?} was put, {found:?} is there"));
        }
        Ok(())
    }

    /// Ids and keys of the lists that were added.
    fn put_rows(&mut self, number: usize) -> Result<BTreeSet<(i64, i64)>, String> {
        let text = format!("SELECT id, k FROM lists WHERE k >= {FIRST_PUT_KEY} ORDER BY k");
        let read = Request::Statements(vec![(self.world.prepare(&text), Vec::new())]);
        self.world.request(number, read);
        self.world.settle();
        let answer = self.world.take_answers().pop().ok_or("the last read has no answer")?;
        let table = TableView::read(&mut ByteReader::new(&answer.tables));
        let table = table.map_err(|error| error.to_string())?;
        let mut found = BTreeSet::new();
        for row in table.rows().flatten() {
            let mut values = Vec::new();
            let _ = row.read_into(&mut values);
            let [Datum::Int(id), Datum::Int(key)] = values.as_slice() else { continue };
            found.insert((*id, *key));
        }
        Ok(found)
    }
}
