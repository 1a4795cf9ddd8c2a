//! Rows whose time is over, in a partitioned and a replicated table, while hosts are lost: none
//! goes before its time by the clock of the host that orders that, none comes back, rows of a later
//! time stay, and all others have gone at rest.

use super::expiry::{Deletion, DeletionEnd};
use super::judge::{End, Judge, Kind, rows};
use super::{Cluster, FORM_US, READS_AT_REST, Shared, TICK_US};
use crate::plans::Request;
use lockstep_base::random::SeededRandom;
use lockstep_plan::Catalog;
use lockstep_types::{Datum, HashRing, IndexId, PartitionId, TableId};
use std::collections::{BTreeMap, BTreeSet};

pub(super) const SCHEMA: &str = "
CREATE TABLE aging (
  id BIGINT NOT NULL, account BIGINT NOT NULL, made TIMESTAMP NOT NULL, PRIMARY KEY (account, id)
) USING TTL 1 SECONDS ON COLUMN made BATCH_SIZE 3 MAX_FREQUENCY 100;
PARTITION TABLE aging ON COLUMN account;
CREATE INDEX aging_made ON aging (made);
CREATE TABLE fading (
  id BIGINT NOT NULL, account BIGINT NOT NULL, made TIMESTAMP NOT NULL, PRIMARY KEY (id)
) USING TTL 1 SECONDS ON COLUMN made BATCH_SIZE 2 MAX_FREQUENCY 50;
CREATE INDEX fading_made ON fading (made, id);
";

/// A partitioned and a replicated table.
const NAMES: [&str; 2] = ["AGING", "FADING"];
const REPLICATED: usize = 1;
const LIFETIME_US: i64 = 1_000_000;
/// The wall clocks of hosts show this at least, at the true time 0.
const WALL_US: i64 = 1_700_000_000_000_000;
/// Times that are not over in a run.
const FAR_US: i64 = 3_600_000_000;

/// A row that a call has inserted, or was to insert.
#[derive(Debug)]
struct Row {
    /// Where it is; none for all partitions.
    partition: Option<PartitionId>,
    made_us: i64,
    end: Option<End>,
    /// Since which event of the run it is known to have been there.
    known: Option<u64>,
    /// Since which event of the run it is known to have gone.
    gone: Option<u64>,
}

impl Row {
    fn stays(&self) -> bool {
        self.made_us > WALL_US + FAR_US / 2
    }
}

/// A read that was begun at this event of the run, of one account or of all.
#[derive(Debug)]
struct Read {
    table: usize,
    account: Option<i64>,
    begun: u64,
}

/// A table whose rows go.
#[derive(Debug)]
struct Table {
    id: TableId,
    index: IndexId,
    /// By call that inserts it.
    rows: BTreeMap<usize, Row>,
    /// By partition, the latest time up to which rows were to be deleted.
    cut_offs_us: BTreeMap<Option<PartitionId>, i64>,
    /// Rows of deletions that were answered.
    deleted: u64,
    /// The most rows of those with no known end.
    open: u64,
}

/// The tables of a run whose rows go.
#[derive(Debug)]
pub(super) struct Aging {
    ring: HashRing,
    accounts: u64,
    events: u64,
    tables: [Table; 2],
    reads: BTreeMap<usize, Read>,
    inserts: BTreeMap<usize, usize>,
    accounts_of: BTreeMap<usize, i64>,
    /// Deletions that the judge knows, by number.
    deletions: Vec<Deletion>,
}

impl Aging {
    /// The tables of a catalog.
    pub(super) fn new(catalog: &Catalog, ring: HashRing, accounts: i64) -> Aging {
        let table = |name: &str| {
            let mut tables = catalog.expiring_tables();
            let table = tables.find(|table| table.name == name);
            let table = table.expect("the schema has the table");
            let (index, _) = table.by.expect("the schema has the index");
            let (rows, cut_offs_us) = (BTreeMap::new(), BTreeMap::new());
            Table { id: table.table, index, rows, cut_offs_us, deleted: 0, open: 0 }
        };
        Aging {
            ring,
            accounts: accounts as u64,
            events: 0,
            tables: NAMES.map(table),
            reads: BTreeMap::new(),
            inserts: BTreeMap::new(),
            accounts_of: BTreeMap::new(),
            deletions: Vec::new(),
        }
    }

    /// A row: most of them are to go soon, or had to go already; some stay.
    fn insert(&mut self, call: usize, now_us: i64, random: &mut SeededRandom) -> Request {
        let table = random.below(NAMES.len() as u64) as usize;
        let account = random.below(self.accounts) as i64;
        let soon_us = WALL_US + now_us - LIFETIME_US + random.between(-30_000, 400_000);
        let made_us = if random.chance(1, 8) { soon_us + FAR_US } else { soon_us };
        let partition = (table != REPLICATED).then(|| self.ring.partition_of(Datum::Int(account)));
        let row = Row { partition, made_us, end: None, known: None, gone: None };
        self.tables[table].rows.insert(call, row);
        self.inserts.insert(call, table);
        self.accounts_of.insert(call, account);
        let text = format!("INSERT INTO {} VALUES (?, ?, ?)", NAMES[table]);
        Request::Statements(vec![(text.into(), vec![call as i64, account, made_us])])
    }

    fn read(&mut self, call: usize, table: usize, account: Option<i64>) -> Request {
        self.events += 1;
        self.reads.insert(call, Read { table, account, begun: self.events });
        let name = NAMES[table];
        Request::Statements(vec![match account {
            Some(account) => {
                let text = format!("SELECT id FROM {name} WHERE account = ? ORDER BY id");
                (text.into(), vec![account])
            }
            None => (format!("SELECT id FROM {name} ORDER BY id").into(), Vec::new()),
        }])
    }

    fn draw_read(&mut self, call: usize, random: &mut SeededRandom) -> Request {
        let table = random.below(NAMES.len() as u64) as usize;
        let account = random.below(self.accounts) as i64;
        self.read(call, table, random.chance(3, 4).then_some(account))
    }

    fn end(&mut self, call: usize, end: End) {
        self.events += 1;
        let Some(table) = self.inserts.get(&call) else { return };
        let row = self.tables[*table].rows.get_mut(&call).expect("the call inserts it");
        row.end = Some(end);
        if end == End::Done {
            row.known.get_or_insert(self.events);
        }
    }

    fn answer(&mut self, call: usize, tables: &[u8]) -> Result<(), String> {
        self.events += 1;
        let Some(Read { table, account, begun }) = self.reads.remove(&call) else { return Ok(()) };
        let found: BTreeSet<usize> = rows(tables).iter().map(|row| row[0] as usize).collect();
        let (events, name) = (self.events, NAMES[table]);
        let table = &mut self.tables[table];
        if let Some(id) = found.iter().find(|id| !table.rows.contains_key(id)) {
            return Err(format!("read {call} found row {id} of {name}, which nobody inserted"));
        }
        for (id, row) in &mut table.rows {
            if account.is_some_and(|account| self.accounts_of[id] != account) {
                continue;
            }
            let is_known = row.known.is_some_and(|since| since < begun);
            if found.contains(id) {
                let has_gone = row.gone.is_some_and(|since| since < begun);
                if has_gone || row.end == Some(End::Failed) {
                    return Err(format!("read {call} found row {id} of {name}: {row:?}"));
                }
                row.known.get_or_insert(events);
            } else if is_known {
                let cut_off_us = table.cut_offs_us.get(&row.partition).copied();
                if cut_off_us < Some(row.made_us) {
                    return Err(format!(
                        "read {call} missed row {id} of {name}, and rows up to {cut_off_us:?} \
                         were to be deleted: {row:?}"
                    ));
                }
                row.gone.get_or_insert(events);
            }
        }
        Ok(())
    }

    /// A deletion was ordered.
    fn ordered(&mut self, deletion: Deletion) -> Result<(), String> {
        let Deletion { host, table, partition, cut_off_us, rows, at_us, .. } = deletion;
        if cut_off_us > at_us - LIFETIME_US {
            return Err(format!("host {host} deletes rows up to {cut_off_us} at {at_us}"));
        }
        let table = self.tables.iter_mut().find(|it| it.id == table);
        let table = table.ok_or("rows are deleted of a table where they stay")?;
        let known_us = table.cut_offs_us.entry(partition).or_insert(cut_off_us);
        *known_us = cut_off_us.max(*known_us);
        table.open += rows;
        self.deletions.push(deletion);
        Ok(())
    }

    /// A deletion has ended; gives the rows that it has deleted.
    fn deletion_ended(&mut self, number: usize, end: DeletionEnd) -> Result<u64, String> {
        let Deletion { table, rows, .. } = self.deletions[number];
        let table = self.tables.iter_mut().find(|it| it.id == table);
        let table = table.expect("it was looked at when it was ordered");
        let deleted = match end {
            DeletionEnd::Unknown => return Ok(0),
            DeletionEnd::Failed => 0,
            DeletionEnd::Deleted(deleted) => deleted,
        };
        table.open -= rows;
        table.deleted = table.deleted.saturating_add(deleted);
        match deleted <= rows {
            true => Ok(deleted),
            false => Err(format!("a deletion of {rows} rows at most has deleted {deleted}")),
        }
    }

    /// At rest all rows have gone but those that stay, as often as deletions have said.
    fn judge_at_rest(&self) -> Result<(), String> {
        for (name, table) in NAMES.iter().zip(&self.tables) {
            let was_there = |row: &&Row| row.known.is_some();
            let left = table
                .rows
                .iter()
                .find(|(_, row)| was_there(row) && row.gone.is_none() && !row.stays());
            if let Some((id, row)) = left {
                return Err(format!("row {id} of {name} is left at rest: {row:?}"));
            }
            let count = |is_it: &dyn Fn(&Row) -> bool| {
                table.rows.values().filter(|row| is_it(row)).count() as u64
            };
            let gone = count(&|row| row.gone.is_some());
            let unknown = |row: &Row| row.end == Some(End::Unknown);
            let maybe = count(&|row| row.known.is_none() && unknown(row) && !row.stays());
            let (least, most) = (table.deleted, table.deleted + table.open);
            if gone > most || gone + maybe < least {
                return Err(format!(
                    "{gone} to {} rows of {name} have gone, and {least} to {most} were deleted",
                    gone + maybe
                ));
            }
        }
        Ok(())
    }
}

impl Judge {
    /// A client's call, where the run has rows that go and it is their turn.
    pub(super) fn call_aging(&mut self, random: &mut SeededRandom) -> Option<(usize, Request)> {
        if self.aging.is_none() || random.chance(1, 4) {
            return None;
        }
        let call = self.begin(Kind::Aging);
        let now_us = self.now_us as i64;
        let aging = self.aging.as_mut().expect("it was looked at");
        let request = match random.chance(1, 2) {
            true => aging.insert(call, now_us, random),
            false => aging.draw_read(call, random),
        };
        Some((call, request))
    }

    /// A read of all rows of a table.
    fn read_aging(&mut self, table: usize) -> (usize, Request) {
        let call = self.begin(Kind::Aging);
        let aging = self.aging.as_mut().expect("the run has rows that go");
        (call, aging.read(call, table, None))
    }

    /// A call has ended.
    pub(super) fn aging_ended(&mut self, call: usize, end: End) {
        self.aging.as_mut().expect("the run has rows that go").end(call, end);
    }

    /// A call was answered with these tables.
    pub(super) fn aging_answered(&mut self, call: usize, tables: &[u8]) -> Result<(), String> {
        self.aging.as_mut().expect("the run has rows that go").answer(call, tables)
    }

    /// What hosts have ordered since the last time, and what has become of that.
    pub(super) fn take_deletions(&mut self, shared: &mut Shared) -> Result<(), String> {
        let Some(aging) = &mut self.aging else { return Ok(()) };
        for deletion in &shared.deletions[aging.deletions.len()..] {
            aging.ordered(*deletion)?;
            shared.report.deletions += 1;
        }
        for (number, end) in std::mem::take(&mut shared.deletions_ended) {
            let deleted = aging.deletion_ended(number, end)?;
            shared.report.expired += deleted;
            if shared.deletions[number].is_after_takeover {
                shared.report.expired_after_takeover += deleted;
            }
        }
        Ok(())
    }
}

impl Cluster {
    /// Whether no row is left whose time is over, in partitions that can be served. Nothing is
    /// deleted while the coordinator takes over and waits for a partition that is lost, and nothing
    /// of a replicated table while one is lost.
    pub(super) fn is_aged(&self) -> bool {
        let Some(aging) = &self.judge.aging else { return true };
        let Some(state) = self.state() else { return false };
        let Some(lost) = self.left_unavailable(state) else { return false };
        let coordinator = self.processes[state.coordinator.0 as usize].as_ref();
        let coordinator = coordinator.and_then(|process| process.host.coordinator.as_ref());
        if !lost.is_empty() && coordinator.is_none_or(|it| it.is_taking_over()) {
            return true;
        }
        let count = if lost.is_empty() { NAMES.len() } else { REPLICATED };
        let partitions = (0..).map(PartitionId).zip(&state.partitions);
        let partitions = partitions.filter(|(number, _)| !lost.contains(number));
        let mut led = partitions.filter_map(|(number, partition)| {
            let process = self.processes[partition.leader.0 as usize].as_ref()?;
            process.host.replicas.get(&number)
        });
        led.all(|replica| {
            aging.tables[..count].iter().all(|table| {
                let until_us = WALL_US + FAR_US / 2;
                let database = replica.site.database();
                database.rows_up_to(table.id, table.index, until_us, 1) == Some(0)
            })
        })
    }

    /// At rest both tables are read.
    pub(super) fn judge_aging(&mut self) -> Result<(), String> {
        if self.judge.aging.is_none() {
            return Ok(());
        }
        for attempt in 0..READS_AT_REST {
            let first = self.judge.next_call();
            let serving = self.serving();
            for table in 0..NAMES.len() {
                let call = self.judge.read_aging(table);
                self.call_at(serving[attempt % serving.len()], call);
            }
            let limit_us = self.now_us + FORM_US;
            if !self.run_until(limit_us, |it| it.judge.outstanding == 0)? {
                return Err("a read of rows that go is not answered at rest".to_string());
            }
            if self.judge.are_done_since(first) {
                let aging = self.judge.aging.as_ref().expect("the run has rows that go");
                return aging.judge_at_rest();
            }
            self.run_until(self.now_us + TICK_US, |_| false)?;
        }
        Err("reads of rows that go fail at rest".to_string())
    }
}
