//! What must be there after a recovery.

use super::workload::{DRAWN, LOADED};
use super::{End, MONEY, Note, RATE, RATES, Run, sql};
use crate::plans::Request;
use crate::world::replay::Recovered;
use crate::world::{CallNumber, World};
use lockstep_base::bytes::ByteReader;
use lockstep_types::{Datum, PartitionId, Status, TableView, TransactionId};
use std::collections::BTreeMap;

/// Stands for the reads of the checks.
const CHECK: CallNumber = usize::MAX - 4;

impl Run {
    pub(super) fn judge_answers(&mut self, world: &mut World) -> Result<(), String> {
        self.note_expiries(world)?;
        for answer in world.take_answers() {
            if self.hear_expiry(world, &answer)? {
                continue;
            }
            let number = answer.call;
            let call = &mut self.calls[number];
            if call.end != End::Open {
                return Err(format!("call {number} was answered twice"));
            }
            let succeeded = answer.outcome.failure.is_none();
            if call.must_fail && succeeded {
                return Err(format!("call {number} was to fail and passed"));
            }
            self.outstanding -= 1;
            self.schema.extra_open -= usize::from(call.has_extra);
            let failure = answer.outcome.failure.as_ref();
            if failure.is_some_and(|failure| failure.status == Status::ResponseUnknown) {
                self.report.unknown += 1;
                continue;
            }
            call.end = End::Known(succeeded);
            if succeeded {
                self.exchange.inserted(number);
            }
            if self.is_async {
                call.answered = Some((world.log_clock(), answer.at_partition));
            }
            if answer.at_partition && succeeded {
                self.at_partitions.push((number, world.failed_run(number)));
            }
            self.report.answered[usize::from(!succeeded)] += 1;
            if let (Some((_, drawn)), true) = (&mut call.drawn, succeeded) {
                let told = rows(&answer.tables)?.first().and_then(|row| row.first()).copied();
                *drawn = Some(told.ok_or_else(|| format!("call {number} tells nothing"))?);
            }
            if let (Some(counted), true) = (call.counts, succeeded) {
                self.report.read_while_full += u64::from(world.log_waits_for_space());
                let rows = rows(&answer.tables)?;
                let count = rows.first().and_then(|row| row.first()).copied();
                let count = count.ok_or_else(|| format!("call {number} counted nothing"))?;
                let seen = self.seen.entry(counted).or_default();
                *seen = count.max(*seen);
            }
        }
        Ok(())
    }

    /// Older snapshots, and the log alone, must give the same, as far as the log reaches.
    pub(super) fn compare_beginnings(&mut self, newest: &Recovered) -> Result<(), String> {
        let (host, shape, seed) = (self.host_disk(), self.shape, self.seed);
        let mut found = host.candidates(shape.partitions)?;
        while !found.is_empty() {
            found.remove(0);
            let Ok(older) = host.recover_with(&found, seed, shape) else { continue };
            // A snapshot may have what an asynchronous log has lost.
            let falls_short = older.end.1.iter().zip(&newest.end.1).any(|(one, two)| one < two);
            if self.is_async && falls_short {
                continue;
            }
            let newest = &newest.world;
            self.report.beginnings[1] += 1;
            if older.world.content_hashes() != newest.content_hashes() {
                let begun = found.first().map_or("the log alone", |one| &one.nonce);
                let difference = newest.difference(&older.world);
                return Err(format!("recovery from {begun} gives other rows: {difference}"));
            }
            let (known, digests) = (newest.digests(), older.world.digests());
            if known != digests {
                let begun = found.first().map_or("the log alone", |one| &one.nonce);
                return Err(format!("recovery from {begun} gives {digests:?}, not {known:?}"));
            }
            self.report.digests += digests.iter().filter(|digest| **digest != 0).count() as u64;
        }
        Ok(())
    }

    /// Everything that must hold after a recovery.
    pub(super) fn judge(&mut self, world: &mut World) -> Result<(), String> {
        self.judge_schema(world)?;
        let mut notes: BTreeMap<usize, Vec<Note>> = BTreeMap::new();
        for row in read(world, "SELECT number, account, side, amount FROM moves")? {
            notes.entry(row[0] as usize).or_default().push((row[1], row[2], row[3]));
        }
        let rates = self.replicated(world)?;
        for row in rates.iter().filter(|row| row[0] >= LOADED) {
            notes.entry((row[0] - LOADED) as usize).or_default().push((-1, 0, row[1]));
        }
        notes.values_mut().for_each(|notes| notes.sort_unstable());
        if let Some((number, _)) = notes.iter().find(|(number, _)| **number >= self.calls.len()) {
            return Err(format!("there are notes of call {number}, which nobody made"));
        }
        self.judge_turns(world)?;
        let mut left = notes.clone();
        for row in read(world, "SELECT number, account, stamp FROM stamps")? {
            left.entry(row[0] as usize).or_default().push((row[1], DRAWN, row[2]));
        }
        self.judge_calls(&left)?;
        self.judge_beginnings(world)?;
        self.judge_exchange(world)?;
        self.judge_aging(world)?;
        self.judge_rates(&rates)?;
        let of_all = notes.into_values().flatten().filter(|note| note.0 >= 0);
        let of_all: Vec<Note> = of_all.collect();
        self.judge_money(world, &of_all)?;
        self.judge_made(world, &of_all)?;
        self.judge_reads(&of_all)?;
        judge_holds(&read(world, "SELECT account, number FROM holds ORDER BY account")?)?;
        let rows = read(world, "SELECT tag, id FROM tags ORDER BY tag")?;
        let entries = read(world, "SELECT * FROM \"TAGS_BY_TAG#ENTRIES\" ORDER BY tag")?;
        let pairs = |rows: &[Vec<i64>]| -> Vec<(i64, i64)> {
            rows.iter().map(|row| (row[0], row[1])).collect()
        };
        match pairs(&rows) == pairs(&entries) {
            true => Ok(()),
            false => Err(format!("the table has {rows:?}, its index {entries:?}")),
        }
    }

    fn judge_calls(&mut self, notes: &BTreeMap<usize, Vec<Note>>) -> Result<(), String> {
        for (number, call) in self.calls.iter_mut().enumerate() {
            let mut expected = call.notes.clone();
            let there = notes.get(&number).map_or(&[][..], Vec::as_slice);
            if let Some((account, drawn)) = &mut call.drawn {
                let found = there.iter().find(|note| (note.0, note.1) == (*account, DRAWN));
                *drawn = drawn.or_else(|| found.map(|note| note.2));
                expected.push((*account, DRAWN, drawn.unwrap_or(0)));
            }
            expected.sort_unstable();
            let is_whole = there == expected;
            if !there.is_empty() && !is_whole {
                return Err(format!("of call {number} there is {there:?}, not {expected:?}"));
            }
            let is_there = !there.is_empty();
            match call.end {
                End::Known(true) if !is_whole => {
                    return Err(format!("call {number} was answered and is not there"));
                }
                End::Known(false) if is_there => {
                    return Err(format!("call {number} was told to have failed and is there"));
                }
                End::Open if is_there && call.must_fail => {
                    return Err(format!("call {number} was to fail and is there"));
                }
                End::Open if !expected.is_empty() => {
                    self.report.cut_off[usize::from(!is_there)] += 1;
                }
                _ => {}
            }
            // From now on it is known.
            call.end = End::Known(is_there || (expected.is_empty() && !call.must_fail));
        }
        self.report.calls = self.calls.len() as u64;
        Ok(())
    }

    /// Of the calls that ran at one partition, a partition has the first ones.
    ///
    /// One whose first run, after an undecided transaction, failed may be missing before others.
    /// Its entry says that it failed, theirs follow, and what an asynchronous log has lost may be
    /// the abort, after which all ran again and it succeeded. What is left is a beginning of the
    /// partition's log, in which the call has failed; a log that says otherwise has it.
    fn judge_beginnings(&mut self, world: &World) -> Result<(), String> {
        let mut missing: BTreeMap<PartitionId, usize> = BTreeMap::new();
        let outcome = self.outcome.as_ref().ok_or("nothing was recovered")?;
        let failed = |id: TransactionId| outcome.is_void(id.partition(), id);
        for (number, failed_run) in std::mem::take(&mut self.at_partitions) {
            let call = &self.calls[number];
            let account = call.notes.first().map(|note| note.0);
            let account = account.or(call.drawn.map(|(account, _)| account));
            let Some(account) = account.filter(|account| *account >= 0) else { continue };
            let partition = world.partition_of(account);
            match (call.end, missing.get(&partition)) {
                (End::Known(false), None) if !failed_run.is_some_and(failed) => {
                    missing.insert(partition, number);
                }
                (End::Known(true), Some(before)) => {
                    return Err(format!(
                        "partition {partition} has call {number}, and not {before} before it"
                    ));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// The rows of the replicated table, which must be the same everywhere.
    fn replicated(&self, world: &mut World) -> Result<Vec<Vec<i64>>, String> {
        let mut first: Option<Vec<Vec<i64>>> = None;
        for partition in (0..world.partition_count()).map(PartitionId) {
            let text = sql("SELECT id, value FROM rates ORDER BY id");
            let found = ask(world, Request::At(partition, text))?;
            match &first {
                None => first = Some(found),
                Some(first) if *first == found => {}
                Some(first) => {
                    return Err(format!(
                        "the replicated table has {first:?} at partition 0, and {found:?} at \
                         partition {partition}"
                    ));
                }
            }
        }
        Ok(first.unwrap_or_default())
    }

    /// The replicated table has what the calls did that are there.
    fn judge_rates(&self, rates: &[Vec<i64>]) -> Result<(), String> {
        let mut expected: Vec<Vec<i64>> = (0..RATES).map(|id| vec![id, RATE]).collect();
        let there = self.calls.iter().filter(|call| call.end == End::Known(true));
        for (id, change) in there.filter_map(|call| call.rate) {
            expected[id as usize][1] += change;
        }
        let found: Vec<&Vec<i64>> = rates.iter().filter(|row| row[0] < LOADED).collect();
        match found == expected.iter().collect::<Vec<_>>() {
            true => Ok(()),
            false => Err(format!("the replicated table has {found:?}, not {expected:?}")),
        }
    }

    fn judge_money(&self, world: &mut World, notes: &[Note]) -> Result<(), String> {
        let mut totals: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
        for (account, _, amount) in notes {
            let (count, sum) = totals.entry(*account).or_default();
            *count += 1;
            *sum += amount;
        }
        let sum = |account| totals.get(&account).map_or(0, |(_, sum)| *sum);
        let expected: Vec<Vec<i64>> =
            (0..self.accounts).map(|account| vec![account, MONEY + sum(account)]).collect();
        let money = read(world, "SELECT account, money FROM accounts ORDER BY account")?;
        if money != expected {
            return Err(format!("the accounts have {money:?}, the notes say {expected:?}"));
        }
        let expected: Vec<Vec<i64>> =
            totals.iter().map(|(account, (count, sum))| vec![*account, *count, *sum]).collect();
        let view = read(world, "SELECT account, notes, amount FROM totals ORDER BY account")?;
        match view == expected {
            true => Ok(()),
            false => Err(format!("the view has {view:?}, its table {expected:?}")),
        }
    }

    fn judge_reads(&self, notes: &[Note]) -> Result<(), String> {
        for (of, seen) in &self.seen {
            let counts = |note: &&Note| of.is_none_or(|account| note.0 == account);
            let count = notes.iter().filter(counts).count() as i64;
            if count < *seen {
                return Err(format!("{seen} notes of {of:?} were read, and {count} are there"));
            }
        }
        Ok(())
    }
}

fn judge_holds(holds: &[Vec<i64>]) -> Result<(), String> {
    for pair in holds.chunks(2) {
        let whole = pair.len() == 2
            && pair[0][0] % 2 == 0
            && pair[1][0] == pair[0][0] + 1
            && pair[0][1] == pair[1][1];
        if !whole {
            return Err(format!("half a pair is held: {holds:?}"));
        }
    }
    Ok(())
}

/// The rows that a statement reads, once everything has come to rest.
pub(crate) fn read(world: &mut World, text: &str) -> Result<Vec<Vec<i64>>, String> {
    ask(world, Request::Statements(vec![(sql(text), Vec::new())]))
}

fn ask(world: &mut World, request: Request) -> Result<Vec<Vec<i64>>, String> {
    world.request(CHECK, request.clone());
    world.settle();
    let answers = world.take_answers();
    match answers.as_slice() {
        [answer] if answer.outcome.failure.is_none() => rows(&answer.tables),
        _ => Err(format!("{request:?} gives {answers:?}")),
    }
}

/// The integers of the first table.
pub(super) fn rows(tables: &[u8]) -> Result<Vec<Vec<i64>>, String> {
    let table = TableView::read(&mut ByteReader::new(tables)).map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    for row in table.rows() {
        let mut values = Vec::new();
        row.and_then(|row| row.read_into(&mut values)).map_err(|error| error.to_string())?;
        let integer = |value: &Datum<'_>| match value {
            Datum::Int(number) => *number,
            _ => i64::MIN,
        };
        rows.push(values.iter().map(integer).collect());
    }
    Ok(rows)
}
