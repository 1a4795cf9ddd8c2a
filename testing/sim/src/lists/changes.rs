//! Schema changes while lists are read and written: one that comes and goes, and beside it changes
//! that wait for the end of others, and changes that must be refused, at once, by the partitions,
//! or in the middle of building a global index. What is refused leaves the schema as it was.

use super::{CHANGES, CHANGES_BACK, Form, Lists, growth};
use crate::plans::{Request, invocation_of};
use crate::world::{ChangeAnswer, ChangeNumber, FAILED, NO_INTAKE, UNKNOWN};
use lockstep_base::bytes::ByteReader;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, TableView};
use std::collections::BTreeSet;

/// A table that refuses a unique index of its values, and has enough rows for some steps; and one
/// whose calls run at one partition as long as it has no global index.
const TABLES: &str = "
CREATE TABLE twins (k BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (k));
PARTITION TABLE twins ON COLUMN k;
CREATE TABLE grown (id BIGINT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE grown ON COLUMN id;
CREATE PROCEDURE Grow PARTITION ON TABLE grown COLUMN id AS INSERT INTO grown VALUES (?, ?);
";
const TWIN_ROWS: i64 = 24;

/// A change that comes and goes. With another statement beside it, an index is built in the
/// transaction of the change.
const BESIDE: &str = "
CREATE GLOBAL UNIQUE INDEX grown_n ON grown (n);
CREATE TABLE beside (k BIGINT NOT NULL);
";
const BESIDE_BACK: &str = "DROP TABLE beside; DROP INDEX grown_n;";

/// Changes that must fail, with a word of the reason.
const REFUSED: [(&str, &str); 5] = [
    ("CREATE TABLE twins (k BIGINT NOT NULL);", "TWINS"),
    ("DROP INDEX no_index;", "NO_INDEX"),
    ("CREATE GLOBAL INDEX lists_k ON lists (k);", "LISTS_K"),
    ("ALTER TABLE same ADD UNIQUE (v);", "SAME"),
    ("CREATE GLOBAL UNIQUE INDEX twins_v ON twins (v);", "TWINS_V"),
];

/// A change that was requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Requested {
    /// The one that comes and goes, by its place in the list.
    Toggle(usize),
    /// The index of the table that grows.
    Beside,
    /// A change that must fail.
    Refused(usize),
}

/// What became of changes beside the one that comes and goes.
#[derive(Debug, Default)]
pub(super) struct Beside {
    is_there: bool,
    /// Those that were made, and those that were refused.
    pub(super) made: usize,
    pub(super) refused: usize,
    /// Builds of global indexes that were given up.
    pub(super) given_up: usize,
}

impl Lists {
    /// Creates what changes are refused for.
    pub(super) fn prepare_refusals(&mut self) {
        self.world.schema(TABLES);
        let insert = self.world.prepare("INSERT INTO twins VALUES (?, ?)");
        for k in 0..TWIN_ROWS {
            self.world.call(0, &[(&insert, &[k, k / 2])]);
        }
        self.world.settle();
        let loaded = self.world.take_answers();
        assert!(loaded.iter().all(|answer| answer.outcome.failure.is_none()), "{loaded:?}");
        self.world.census.forget_visits();
        if self.world.random.chance(1, 3) {
            self.world.refuse_intake(12);
            self.refuses_intake = true;
        }
    }

    pub(super) fn request_change(&mut self, requested: Requested, ddl: &str) {
        let number: ChangeNumber = self.world.begin_schema(ddl);
        self.requested.insert(number, requested);
    }

    /// Whether the change that comes and goes is in progress.
    pub(super) fn is_toggling(&self) -> bool {
        self.requested.values().any(|requested| matches!(requested, Requested::Toggle(_)))
    }

    /// Now and then one of the changes comes, or goes.
    pub(super) fn toggle(&mut self) {
        if self.is_toggling() || !self.world.random.chance(1, 60) {
            return;
        }
        let (change, ddl) = match self.changed {
            Some(change) => (change, CHANGES_BACK[change]),
            None => {
                let change = self.world.random.below(CHANGES.len() as u64) as usize;
                (change, CHANGES[change])
            }
        };
        self.request_change(Requested::Toggle(change), ddl);
    }

    /// Now and then another change is requested, whatever is in progress.
    pub(super) fn change_beside(&mut self) {
        if !self.world.random.chance(1, 60) {
            return;
        }
        let is_open = self.requested.values().any(|requested| *requested == Requested::Beside);
        if !is_open && self.world.random.chance(1, 2) {
            let ddl = if self.beside.is_there { BESIDE_BACK } else { BESIDE };
            return self.request_change(Requested::Beside, ddl);
        }
        let refused = self.world.random.below(REFUSED.len() as u64) as usize;
        self.request_change(Requested::Refused(refused), REFUSED[refused].0);
    }

    /// A schema change was answered.
    pub(super) fn change_ended(&mut self, answer: ChangeAnswer) -> Result<(), String> {
        let number = answer.change.ok_or("the host resumed a build")?;
        let requested = self.requested.remove(&number);
        let requested = requested.ok_or_else(|| format!("change {number} was answered twice"))?;
        self.schema_changes += 1;
        let failure = answer.failure;
        let is_cut_off = match &failure {
            Some(text) if text == FAILED => self.fails,
            Some(text) if text.contains("transaction_timeout_ms") => self.expires,
            Some(text) if text == NO_INTAKE => self.refuses_intake,
            Some(text) if text == UNKNOWN || text.contains("has changed. Everything is undone") => {
                self.moves.is_some()
            }
            _ => false,
        };
        match (requested, &failure) {
            (Requested::Toggle(2), None) => {
                return Err("a table with duplicates took UNIQUE".to_string());
            }
            (Requested::Toggle(change), None) => {
                self.changed = self.changed.is_none().then_some(change);
                self.built += usize::from(self.changed == Some(growth::SECOND_INDEX));
            }
            (Requested::Toggle(2), Some(_)) => {}
            (Requested::Toggle(growth::SECOND_INDEX), Some(_)) if is_cut_off => {
                self.beside.given_up += 1;
            }
            (Requested::Beside, None) => {
                self.beside.is_there ^= true;
                self.beside.made += 1;
            }
            (Requested::Refused(refused), Some(text)) if text.contains(REFUSED[refused].1) => {
                self.beside.refused += 1;
            }
            (_, Some(_)) if is_cut_off => {}
            (requested, failure) => {
                return Err(format!("schema change {requested:?} ended with {failure:?}"));
            }
        }
        self.judge_schema(requested)
    }

    /// A row is inserted by a call that runs at one partition, unless its table has a global index.
    pub(super) fn grow(&mut self, number: usize) {
        let mut writer = ParameterWriter::default();
        writer.bigint(number as i64).bigint(number as i64);
        self.world.request(number, Request::Procedure(invocation_of("Grow", writer.bytes())));
    }

    /// The rows that were inserted so are there, and no others.
    pub(super) fn judge_grown(&mut self, before: usize) -> Result<(), String> {
        if !self.grows {
            return Ok(());
        }
        let read = self.world.prepare("SELECT id FROM grown ORDER BY id");
        self.world.call(before, &[(&read, &[])]);
        self.world.settle();
        let answer = self.world.take_answers().pop().ok_or("the last read has no answer")?;
        let table = TableView::read(&mut ByteReader::new(&answer.tables));
        let mut found = BTreeSet::new();
        for row in table.map_err(|error| error.to_string())?.rows().flatten() {
            let mut values = Vec::new();
            row.read_into(&mut values).map_err(|error| error.to_string())?;
            let [Datum::Int(id)] = values.as_slice() else { continue };
            found.insert(*id as usize);
        }
        for (number, transaction) in self.transactions[..before].iter().enumerate() {
            let is_there = found.remove(&number);
            let is_known = transaction.form == Form::Grow && !transaction.gone;
            if is_known && is_there != transaction.failure.is_none() {
                return Err(format!("row {number} is there: {is_there}; {transaction:?}"));
            }
        }
        match found.first() {
            Some(id) => Err(format!("nobody inserted row {id}")),
            None => Ok(()),
        }
    }

    /// What a change that was answered has left.
    fn judge_schema(&self, requested: Requested) -> Result<(), String> {
        let is_there = |name: &str| self.world.schema_text().contains(name);
        match requested {
            Requested::Refused(_) if is_there("TWINS_V") || is_there("twins_v") => {
                Err("a global index that was refused is declared still".to_string())
            }
            Requested::Beside if is_there("GROWN_N") != self.beside.is_there => {
                Err(format!("the index grown_n is there: {}", !self.beside.is_there))
            }
            _ => Ok(()),
        }
    }
}
