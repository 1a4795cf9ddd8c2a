//! Row expiration (TTL): when the expired rows of tables with `USING TTL` are deleted. A step
//! function: its inputs are the time, the results of polls and the ends of transactions.
//!
//! Each partition's rows of a table are a *unit*; all rows of a replicated table are one unit,
//! polled at the first partition. When a unit is due, its partition counts the expired rows. If
//! there are none, that costs a look at the first entry of an index. If there are some, a
//! transaction deletes the first of them. While a partition has more, the unit is due again as soon
//! as the table's frequency allows. The poll and the transaction that follows it have the same
//! cut-off, so that no row is deleted too early.

use lockstep_exec::PreparedStatement;
use lockstep_plan_ir::ExpiringTable;
use lockstep_types::{IndexId, PartitionId, TableId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const SECOND_US: i64 = 1_000_000;
/// Rows whose time is over that the polls of a second count beyond those of their transactions.
const COUNTED_ROWS: u64 = 10_000;

/// A table whose rows go when their time is over.
#[derive(Debug, Clone)]
pub struct Expiring {
    /// Its name, for people.
    pub name: String,
    /// The table.
    pub table: TableId,
    /// Every partition has all its rows.
    pub is_replicated: bool,
    /// How long a row lives, in microseconds.
    pub lifetime_us: i64,
    /// The most rows of a transaction.
    pub batch_rows: u64,
    /// The most transactions a second.
    pub max_frequency: u32,
    /// The index with the rows' times first in its key, and what deletes rows by it; none where
    /// there is no such index.
    pub by: Option<(IndexId, Arc<PreparedStatement>)>,
}

impl Expiring {
    /// A table of the catalog, on a host of `partition_count` partitions.
    pub fn new(table: ExpiringTable, partition_count: u32) -> Expiring {
        let prepare =
            |statement| Arc::new(PreparedStatement::for_partitions(statement, partition_count));
        Expiring {
            name: table.name,
            table: table.table,
            is_replicated: table.is_replicated,
            lifetime_us: table.lifetime_us,
            batch_rows: u64::from(table.batch_rows),
            max_frequency: table.max_frequency,
            by: table.by.map(|(index, statement)| (index, prepare(statement))),
        }
    }
}

/// A unit's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExpiryUnitId(pub u64);

/// What a partition is to poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExpiryPoll {
    /// To be sent back with what is seen.
    pub unit: ExpiryUnitId,
    /// Where.
    pub partition: PartitionId,
    /// The table.
    pub table: TableId,
    /// An index with the rows' times first in its key.
    pub index: IndexId,
    /// The latest time that is over, in microseconds since 1970.
    pub cut_off_us: i64,
    /// The most rows that are counted.
    pub rows_max: u64,
}

/// A transaction that deletes rows.
#[derive(Debug, Clone)]
pub struct ExpiryBatch {
    /// To be sent back with its end.
    pub unit: ExpiryUnitId,
    /// The table.
    pub table: TableId,
    /// Where it runs; none for all partitions.
    pub partition: Option<PartitionId>,
    /// What it runs.
    pub statement: Arc<PreparedStatement>,
    /// The statement's first parameter: the latest time that is over.
    pub cut_off_us: i64,
    /// Its second parameter: the most rows.
    pub rows: u64,
}

/// What was deleted of a table since the host started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpiryCounts {
    /// The table's name.
    pub name: String,
    /// Rows deleted.
    pub deleted: u64,
    /// Of those, the ones of the last transaction at each partition.
    pub deleted_last: u64,
    /// Rows that are left although their time is over, as far as they were counted.
    pub remaining: u64,
    /// When rows were deleted the last time, in microseconds since 1970.
    pub last_delete_us: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for its time.
    Waiting,
    /// Its partition polls.
    Polling { cut_off_us: i64 },
    /// A transaction is in progress.
    Deleting,
}

#[derive(Debug)]
struct Unit {
    table: TableId,
    partition: PartitionId,
    phase: Phase,
    due_us: i64,
    /// When its last transaction began.
    began_us: Option<i64>,
    deleted: u64,
    deleted_last: u64,
    remaining: u64,
    last_delete_us: Option<i64>,
}

impl Unit {
    fn wait_until(&mut self, due_us: i64) {
        self.phase = Phase::Waiting;
        self.due_us = due_us;
    }

    /// From when on the table's frequency allows another transaction.
    fn free_us(&self, table: &Expiring) -> i64 {
        let times = i64::from(table.max_frequency.max(1));
        let pause_us = (SECOND_US + times - 1) / times;
        self.began_us.map_or(i64::MIN, |began_us| began_us.saturating_add(pause_us))
    }
}

/// The units of a host's tables.
#[derive(Debug)]
pub struct ExpirySchedule {
    partition_count: u32,
    /// How often partitions poll; 0 for never.
    check_us: i64,
    /// The most rows of a transaction, whatever the table says.
    batch_rows_max: u64,
    tables: BTreeMap<TableId, Expiring>,
    units: BTreeMap<ExpiryUnitId, Unit>,
    next_unit: u64,
    /// The units that wait for their time, with that.
    waiting: BTreeSet<(i64, ExpiryUnitId)>,
}

impl ExpirySchedule {
    /// A schedule without tables; `check_us` 0 is for one in which nothing is ever due.
    pub fn new(partition_count: u32, check_us: i64, batch_rows_max: u64) -> ExpirySchedule {
        ExpirySchedule {
            partition_count,
            check_us,
            batch_rows_max,
            tables: BTreeMap::new(),
            units: BTreeMap::new(),
            next_unit: 1,
            waiting: BTreeSet::new(),
        }
    }

    /// These are the tables from now on. What was counted of one that stays is kept.
    pub fn set_tables(&mut self, tables: impl IntoIterator<Item = Expiring>, now_us: i64) {
        let before = std::mem::take(&mut self.tables);
        self.tables = tables.into_iter().map(|table| (table.table, table)).collect();
        let tables = &self.tables;
        let stays = |table: &Expiring| {
            let old = before.get(&table.table);
            let same =
                |old: &Expiring| old.name == table.name && old.is_replicated == table.is_replicated;
            old.is_some_and(same)
        };
        self.units.retain(|_, unit| tables.get(&unit.table).is_some_and(stays));
        for table in self.tables.values().filter(|table| !stays(table)) {
            let partitions = if table.is_replicated { 1 } else { self.partition_count };
            for partition in (0..partitions).map(PartitionId) {
                let unit = Unit {
                    table: table.table,
                    partition,
                    phase: Phase::Waiting,
                    due_us: now_us,
                    began_us: None,
                    deleted: 0,
                    deleted_last: 0,
                    remaining: 0,
                    last_delete_us: None,
                };
                self.units.insert(ExpiryUnitId(self.next_unit), unit);
                self.next_unit += 1;
            }
        }
        self.waiting.clear();
        let ids: Vec<ExpiryUnitId> = self.units.keys().copied().collect();
        ids.into_iter().for_each(|id| self.queue(id));
    }

    /// A unit that waits will be due, unless its table has no index.
    fn queue(&mut self, id: ExpiryUnitId) {
        let Some(unit) = self.units.get(&id).filter(|unit| unit.phase == Phase::Waiting) else {
            return;
        };
        let has_index = self.tables.get(&unit.table).is_some_and(|table| table.by.is_some());
        if has_index && self.check_us > 0 {
            self.waiting.insert((unit.due_us, id));
        }
    }

    /// Takes a unit that is due by now.
    fn take_due(&mut self, now_us: i64) -> Option<ExpiryUnitId> {
        let first = self.waiting.first().filter(|(due_us, _)| *due_us <= now_us).copied()?;
        self.waiting.remove(&first);
        Some(first.1)
    }

    /// Checks what holds between two calls: what waits for its time is listed with it, once.
    /// Visits everything.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check_invariants(&self) {
        for (due_us, id) in &self.waiting {
            let unit = self.units.get(id).expect("what waits is of a table that expires");
            assert_eq!(unit.phase, Phase::Waiting, "what is polled or deleted does not wait");
            assert_eq!(unit.due_us, *due_us, "what waits is listed under its time");
        }
        let mut units = BTreeSet::new();
        for (id, unit) in &self.units {
            let table = self.tables.get(&unit.table).expect("a table that expires has its row");
            assert!(id.0 < self.next_unit, "ids are given upwards, once");
            assert!(
                units.insert((unit.table, unit.partition)),
                "a table is polled once a partition"
            );
            let count = if table.is_replicated { 1 } else { self.partition_count };
            assert!(unit.partition.0 < count, "a table is polled where it has rows");
            let waits = unit.phase == Phase::Waiting && table.by.is_some() && self.check_us > 0;
            assert_eq!(
                self.waiting.contains(&(unit.due_us, *id)),
                waits,
                "what waits for its time is listed"
            );
            assert!(
                unit.deleted >= unit.deleted_last,
                "the last transaction is counted in the sum"
            );
        }
    }

    /// When the next unit is due, if any will be by itself.
    pub fn due_us(&self) -> Option<i64> {
        self.waiting.first().map(|(due_us, _)| *due_us)
    }

    /// The polls that are due.
    pub fn begin_polls(&mut self, now_us: i64) -> Vec<ExpiryPoll> {
        let mut polls = Vec::new();
        while let Some(id) = self.take_due(now_us) {
            let Some(unit) = self.units.get_mut(&id) else { continue };
            let Some(table) = self.tables.get(&unit.table) else { continue };
            let Some((index, _)) = table.by else { continue };
            let cut_off_us = now_us.saturating_sub(table.lifetime_us);
            unit.phase = Phase::Polling { cut_off_us };
            let counted = (COUNTED_ROWS / u64::from(table.max_frequency.max(1))).max(1);
            polls.push(ExpiryPoll {
                unit: id,
                partition: unit.partition,
                table: unit.table,
                index,
                cut_off_us,
                rows_max: table.batch_rows.min(self.batch_rows_max) + counted,
            });
        }
        polls
    }

    /// Nothing may be deleted at the moment: what is due is due again later.
    pub fn put_off(&mut self, now_us: i64) {
        while let Some(id) = self.take_due(now_us) {
            if let Some(unit) = self.units.get_mut(&id) {
                unit.due_us = now_us + self.check_us;
                self.queue(id);
            }
        }
    }

    /// A partition has polled and found `rows` that have expired; none where its catalog is not the
    /// one of the poll. Gives the transaction that begins, if rows are to be deleted.
    pub fn seen(
        &mut self,
        id: ExpiryUnitId,
        rows: Option<u64>,
        now_us: i64,
    ) -> Option<ExpiryBatch> {
        let batch = self.take_seen(id, rows, now_us);
        self.queue(id);
        batch
    }

    fn take_seen(
        &mut self,
        id: ExpiryUnitId,
        rows: Option<u64>,
        now_us: i64,
    ) -> Option<ExpiryBatch> {
        let unit = self.units.get_mut(&id)?;
        let Phase::Polling { cut_off_us } = unit.phase else { return None };
        let table = self.tables.get(&unit.table)?;
        unit.wait_until((now_us + self.check_us).max(unit.free_us(table)));
        unit.remaining = rows?;
        if unit.remaining == 0 {
            return None;
        }
        let (_, statement) = table.by.as_ref()?;
        unit.phase = Phase::Deleting;
        unit.began_us = Some(now_us);
        Some(ExpiryBatch {
            unit: id,
            table: table.table,
            partition: (!table.is_replicated).then_some(unit.partition),
            statement: Arc::clone(statement),
            cut_off_us,
            rows: table.batch_rows.min(self.batch_rows_max),
        })
    }

    /// Answers to polls and transactions may never come, because a host is lost: what is in
    /// progress is due again later. Answers that come all the same are not taken, or count for what
    /// was begun since.
    pub fn give_up_waiting(&mut self, now_us: i64) {
        let waits = |unit: &Unit| matches!(unit.phase, Phase::Polling { .. } | Phase::Deleting);
        let waiting = self.units.iter().filter(|(_, unit)| waits(unit)).map(|(id, _)| *id);
        for id in waiting.collect::<Vec<_>>() {
            if let Some(unit) = self.units.get_mut(&id) {
                unit.wait_until(now_us + self.check_us);
            }
            self.queue(id);
        }
    }

    /// A transaction has ended, having deleted `deleted` rows; none if it failed, so that the unit
    /// waits as long as one without work.
    pub fn ended(&mut self, id: ExpiryUnitId, deleted: Option<u64>, now_us: i64) {
        self.take_end(id, deleted, now_us);
        self.queue(id);
    }

    fn take_end(&mut self, id: ExpiryUnitId, deleted: Option<u64>, now_us: i64) {
        let Some(unit) = self.units.get_mut(&id).filter(|unit| unit.phase == Phase::Deleting)
        else {
            return;
        };
        let Some(table) = self.tables.get(&unit.table) else { return };
        let free_us = unit.free_us(table);
        unit.wait_until((now_us + self.check_us).max(free_us));
        let Some(deleted) = deleted else { return };
        unit.deleted += deleted;
        unit.deleted_last = deleted;
        unit.remaining = unit.remaining.saturating_sub(deleted);
        if deleted > 0 {
            unit.last_delete_us = Some(now_us);
        }
        if unit.remaining > 0 {
            unit.due_us = free_us;
        }
    }

    /// What was deleted of each table, in the order of their names.
    pub fn counts(&self) -> Vec<ExpiryCounts> {
        let of_table = |table: &Expiring| {
            let units = || self.units.values().filter(|unit| unit.table == table.table);
            ExpiryCounts {
                name: table.name.clone(),
                deleted: units().map(|unit| unit.deleted).sum(),
                deleted_last: units().map(|unit| unit.deleted_last).sum(),
                remaining: units().map(|unit| unit.remaining).sum(),
                last_delete_us: units().filter_map(|unit| unit.last_delete_us).max(),
            }
        };
        let mut counts: Vec<ExpiryCounts> = self.tables.values().map(of_table).collect();
        counts.sort_by(|one, other| one.name.cmp(&other.name));
        counts
    }
}

#[cfg(test)]
mod tests;
