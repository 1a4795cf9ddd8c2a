//! Tables whose rows go when their time is over, by the simulated clock: none early, none that no
//! transaction of the host's deleted, and what went stays away.

use super::{Call, End, Run};
use crate::world::log::LogClock;
use crate::world::{Answer, CallNumber, SentBatch, World, is_expiry};
use lockstep_types::{Status, TableId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const SCHEMA: &str = "
CREATE TABLE aging (
  id BIGINT NOT NULL, account BIGINT NOT NULL, made TIMESTAMP NOT NULL, PRIMARY KEY (account, id)
) USING TTL 1 SECONDS ON COLUMN made BATCH_SIZE 2 MAX_FREQUENCY 500;
PARTITION TABLE aging ON COLUMN account;
CREATE INDEX aging_made ON aging (made);
CREATE VIEW ages (account, n) AS SELECT account, COUNT(*) FROM aging GROUP BY account;
CREATE TABLE linked (
  id BIGINT NOT NULL, account BIGINT NOT NULL, made TIMESTAMP NOT NULL, PRIMARY KEY (account, id)
) USING TTL 1 SECONDS ON COLUMN made BATCH_SIZE 3 MAX_FREQUENCY 200;
PARTITION TABLE linked ON COLUMN account;
CREATE INDEX linked_made ON linked (made, id);
CREATE GLOBAL UNIQUE INDEX linked_ids ON linked (id);
CREATE TABLE fading (
  id BIGINT NOT NULL, account BIGINT NOT NULL, made TIMESTAMP NOT NULL, PRIMARY KEY (id)
) USING TTL 1 SECONDS ON COLUMN made BATCH_SIZE 1 MAX_FREQUENCY 500;
CREATE INDEX fading_made ON fading (made);
";

const TABLES: [&str; 3] = ["AGING", "LINKED", "FADING"];
const LIFETIME_US: i64 = 1_000_000;
const NOTE: &str = "INSERT INTO moves (account, number, side, amount) VALUES (?, ?, 0, 0)";

/// A table, as far as is known.
#[derive(Debug, Default)]
struct Aged {
    /// The time of each call's row.
    rows: BTreeMap<usize, i64>,
    /// Rows that had gone after the last recovery.
    gone: BTreeSet<usize>,
    /// Of this life: the latest cut-off of a transaction that was sent.
    cut_off_us: Option<i64>,
    /// Transactions that were answered.
    told: Vec<Told>,
    /// The most rows of those that nobody has heard of.
    open: BTreeMap<CallNumber, u64>,
    /// The most rows of those whose end nobody knows.
    unknown: u64,
}

/// What was told of a transaction.
#[derive(Debug)]
struct Told {
    /// Rows that it deleted; none if it failed.
    deleted: u64,
    /// The most rows, if what was told is lost: then a failure may be, too, and so may the abort
    /// of what had inserted further rows before it.
    most: u64,
    /// How far the log was then.
    then: LogClock,
    at_partition: bool,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Aging {
    tables: [Aged; 3],
    of_call: BTreeMap<CallNumber, usize>,
}

impl Run {
    /// Inserts a row that will go soon, or that is to go already.
    pub(super) fn insert_aging(&mut self, world: &mut World) -> Call {
        let (number, account) = (self.calls.len(), self.account());
        let n = number as i64;
        let made_us = world.now_us() - LIFETIME_US + self.random.between(-30_000, 80_000);
        let place = self.random.below(TABLES.len() as u64) as usize;
        let text = format!("INSERT INTO {} VALUES (?, ?, ?)", TABLES[place]);
        self.statements(world, &[(&text, &[n, account, made_us]), (NOTE, &[account, n])]);
        self.aging.tables[place].rows.insert(number, made_us);
        Call::new(vec![(account, 0, 0)])
    }

    /// Now and then the host has its partitions poll for expired rows.
    pub(super) fn draw_expiry(&mut self, world: &mut World) {
        if self.random.chance(1, 6) {
            world.expire_rows();
        }
    }

    /// Takes note of transactions that the host has sent for expired rows.
    pub(super) fn note_expiries(&mut self, world: &mut World) -> Result<(), String> {
        for call in world.take_overtaken_expiries() {
            self.aging.tables.iter_mut().for_each(|aged| {
                aged.open.remove(&call);
            });
        }
        for sent in world.take_sent_expiries() {
            let SentBatch { call, table, cut_off_us, rows, at_us } = sent;
            if cut_off_us > at_us - LIFETIME_US {
                return Err(format!("rows up to {cut_off_us} are deleted at {at_us}"));
            }
            let place = place_of(world, table)?;
            let aged = &mut self.aging.tables[place];
            aged.cut_off_us = aged.cut_off_us.max(Some(cut_off_us));
            aged.open.insert(call, rows);
            self.aging.of_call.insert(call, place);
            self.report.expiries[0] += 1;
        }
        Ok(())
    }

    /// Takes an answer if it is of such a transaction.
    pub(super) fn hear_expiry(
        &mut self,
        world: &mut World,
        answer: &Answer,
    ) -> Result<bool, String> {
        if !is_expiry(answer.call) {
            return Ok(false);
        }
        let place = self.aging.of_call.get(&answer.call).copied().unwrap_or_default();
        let aged = &mut self.aging.tables[place];
        let most = aged.open.remove(&answer.call).ok_or("an answer to what nobody sent")?;
        let failure = answer.outcome.failure.as_ref().map(|failure| failure.status);
        let deleted = match failure {
            None => {
                let rows = super::judge::rows(&answer.tables)?;
                rows.first().and_then(|row| row.first()).map(|count| *count as u64)
            }
            Some(_) => None,
        };
        if deleted.is_some_and(|deleted| deleted > most) {
            return Err(format!("{deleted:?} rows went at once, not {most} at most"));
        }
        if failure == Some(Status::ResponseUnknown) {
            aged.unknown += most;
        } else {
            let (then, at_partition) = (world.log_clock(), answer.at_partition);
            let told = Told { deleted: deleted.unwrap_or(0), most, then, at_partition };
            self.report.expiries[1] += told.deleted;
            aged.told.push(told);
        }
        world.expiry_ended(answer, deleted);
        Ok(true)
    }

    /// What an asynchronous log may have lost need not have gone, nor to have failed.
    pub(super) fn forget_uncovered_expiries(&mut self, now: LogClock) {
        for aged in &mut self.aging.tables {
            let is_covered = |told: &Told| now.covers(told.then, told.at_partition);
            let lost = aged.told.iter().filter(|told| !is_covered(told)).map(|told| told.most);
            aged.unknown += lost.sum::<u64>();
            aged.told.retain(is_covered);
        }
    }

    /// After a recovery.
    pub(super) fn judge_aging(&mut self, world: &mut World) -> Result<(), String> {
        for (name, aged) in TABLES.iter().zip(&mut self.aging.tables) {
            let text = format!("SELECT id FROM {name} ORDER BY id");
            let found = super::judge::read(world, &text)?;
            let found: BTreeSet<usize> = found.iter().map(|row| row[0] as usize).collect();
            let calls = &self.calls;
            // An asynchronous log may have lost the rows themselves.
            let is_there = |number: &usize| calls[*number].end == End::Known(true);
            aged.rows.retain(|number, _| is_there(number));
            if let Some(number) = found.iter().find(|number| !aged.rows.contains_key(number)) {
                return Err(format!("{name} has row {number}, which nobody inserted"));
            }
            if let Some(number) = aged.gone.intersection(&found).next() {
                return Err(format!("row {number} of {name} had gone and is there"));
            }
            let is_news = |number: &usize| !found.contains(number) && !aged.gone.contains(number);
            let news: Vec<usize> = aged.rows.keys().copied().filter(is_news).collect();
            let early = news.iter().find(|number| Some(aged.rows[number]) > aged.cut_off_us);
            if let Some(number) = early {
                return Err(format!("row {number} of {name} went before its time"));
            }
            let told: u64 = aged.told.iter().map(|told| told.deleted).sum();
            let most = told + aged.unknown + aged.open.values().sum::<u64>();
            if !(told..=most).contains(&(news.len() as u64)) {
                let count = news.len();
                return Err(format!("{count} rows of {name} have gone, not {told} to {most}"));
            }
            self.report.expiries[2] += news.len() as u64;
            aged.gone.extend(news);
            aged.cut_off_us = None;
            aged.unknown = 0;
            aged.told.clear();
            aged.open.clear();
        }
        self.aging.of_call.clear();
        let counted = "SELECT account, COUNT(*) FROM aging GROUP BY account ORDER BY account";
        let (table, view) = (
            super::judge::read(world, counted)?,
            super::judge::read(world, "SELECT account, n FROM ages ORDER BY account")?,
        );
        match table == view {
            true => Ok(()),
            false => Err(format!("the view of ages has {view:?}, its table {table:?}")),
        }
    }
}

fn place_of(world: &World, table: TableId) -> Result<usize, String> {
    let tables = &world.latest().1.host.plan.tables;
    let is_it = |name: &&str| tables.get(*name).is_some_and(|t| t.definition.id == table);
    TABLES.iter().position(is_it).ok_or("a table of nobody's".to_string())
}
