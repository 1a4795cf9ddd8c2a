//! Transactional statements: the same runs on both systems, in turns, each its own transaction.

use crate::Plan;
use crate::statements::{
    Arguments, CONTENTS, Draw, Measured, OUR_SCHEMA, READS, SQLITE_SCHEMA, Size, WRITES,
    initial_rows,
};
use crate::systems::{
    Argument, Checksum, Keeper, Ours, Prepared, compare, open_sqlite, sqlite_error,
};
use lockstep_bench::verdict::median;
use rusqlite::Connection;
use std::time::{Duration, Instant};

/// A statement's time on both systems, in nanoseconds.
#[derive(Debug, Clone)]
pub struct Pair {
    /// Which.
    pub name: &'static str,
    /// Ours, one a repeat.
    pub ours_ns: Vec<f64>,
    /// SQLite's, one a repeat.
    pub sqlite_ns: Vec<f64>,
}

impl Pair {
    /// How often ours goes into SQLite's time.
    pub fn ratio(&self) -> f64 {
        self.sqlite() / self.ours().max(1e-9)
    }

    /// The middle of ours.
    pub fn ours(&self) -> f64 {
        median(self.ours_ns.iter().copied())
    }

    /// The middle of SQLite's.
    pub fn sqlite(&self) -> f64 {
        median(self.sqlite_ns.iter().copied())
    }
}

/// Runs whose rows are compared one by one before anything is timed.
const COMPARED_RUNS: i64 = 200;
/// Runs that find out how many fit a repeat.
const TRIAL_RUNS: i64 = 500;
/// Fewest and most runs of one repeat.
const RUNS: std::ops::RangeInclusive<i64> = 1_000..=100_000;

struct Bench<'c> {
    ours: Ours,
    sqlite: &'c Connection,
    size: Size,
    arguments: Vec<Argument>,
}

/// Measures all whose names hold `plan.only`.
///
/// # Errors
/// A system refuses a statement, or they disagree.
pub fn all(plan: &Plan) -> Result<Vec<Pair>, String> {
    let sqlite = open_sqlite()?;
    let size = Size { accounts: if plan.quick { 2_000 } else { 100_000 } };
    let mut bench = Bench { ours: Ours::new()?, sqlite: &sqlite, size, arguments: Vec::new() };
    bench.set_up()?;
    let mut pairs = Vec::new();
    for statement in READS.iter().chain(WRITES).filter(|s| plan.is_wanted(s.name)) {
        let pair = bench.measure(plan, statement).map_err(|e| format!("{}: {e}", statement.name));
        let pair = pair?;
        eprintln!(
            "{:26} {:>9.0} ns, SQLite {:>9.0} ns, {:.2} x",
            pair.name,
            pair.ours(),
            pair.sqlite(),
            pair.ratio()
        );
        pairs.push(pair);
    }
    bench.compare_contents()?;
    Ok(pairs)
}

impl Bench<'_> {
    fn set_up(&mut self) -> Result<(), String> {
        self.ours.execute(OUR_SCHEMA)?;
        self.sqlite.execute_batch(SQLITE_SCHEMA).map_err(sqlite_error)?;
        for statement in READS.iter().chain(WRITES) {
            self.ours.execute(&procedure(statement))?;
        }
        for (seed, (procedure, text, count, row)) in initial_rows(self.size).into_iter().enumerate()
        {
            let seed = seed as u64;
            self.fill(procedure, &[text.to_string()], (seed, 0..count), row)?;
        }
        self.sqlite.execute_batch("ANALYZE").map_err(sqlite_error)
    }

    /// Inserts on both sides, untimed, and in one transaction on SQLite's.
    fn fill(
        &mut self,
        procedure: &str,
        texts: &[String],
        (seed, runs): (u64, std::ops::Range<i64>),
        row: Arguments,
    ) -> Result<(), String> {
        let mut sink = Checksum::default();
        let mut draw = Draw::new(seed, self.size);
        self.sqlite.execute_batch("BEGIN").map_err(sqlite_error)?;
        let mut prepared = Prepared::new(self.sqlite, texts)?;
        for run in runs {
            self.arguments.clear();
            row(run, &mut draw, &mut self.arguments);
            self.ours.call(procedure, &self.arguments, &mut sink)?;
            prepared.run(&self.arguments, &mut sink)?;
        }
        self.sqlite.execute_batch("COMMIT").map_err(sqlite_error)
    }

    fn measure(&mut self, plan: &Plan, statement: &Measured) -> Result<Pair, String> {
        let connection = self.sqlite;
        let mut prepared = Prepared::new(connection, &sqlite_texts(statement))?;
        let mut next = 0;
        self.prepare(statement, 0..COMPARED_RUNS)?;
        self.compare_rows(statement, &mut prepared, COMPARED_RUNS)?;
        next += COMPARED_RUNS;
        let trial = self.repeat(statement, &mut prepared, next..next + TRIAL_RUNS, true)?;
        next += TRIAL_RUNS;
        let slower = trial.0.max(trial.1).max(1.0);
        let runs = (plan.repeat_time.as_nanos() as f64 / slower) as i64;
        let runs = if plan.quick { TRIAL_RUNS } else { runs.clamp(*RUNS.start(), *RUNS.end()) };
        let mut pair = Pair { name: statement.name, ours_ns: Vec::new(), sqlite_ns: Vec::new() };
        // The first repeat warms up; turns change so that neither is always after the other.
        for repeat in 0..=plan.repeats {
            let first = repeat % 2 == 0;
            let (ours, sqlite) = self.repeat(statement, &mut prepared, next..next + runs, first)?;
            next += runs;
            if repeat > 0 {
                pair.ours_ns.push(ours);
                pair.sqlite_ns.push(sqlite);
            }
        }
        Ok(pair)
    }

    /// Puts the rows there that the runs need.
    fn prepare(&mut self, statement: &Measured, runs: std::ops::Range<i64>) -> Result<(), String> {
        let Some((by, rows, arguments)) = statement.prepared_by else { return Ok(()) };
        let insert = WRITES.iter().find(|s| s.name == by).ok_or("no such insert")?;
        let range = runs.start * rows..runs.end * rows;
        self.fill(by, &sqlite_texts(insert), (runs.start as u64, range), arguments)
    }

    fn compare_rows(
        &mut self,
        statement: &Measured,
        prepared: &mut Prepared<'_>,
        runs: i64,
    ) -> Result<(), String> {
        let mut draw = Draw::new(99, self.size);
        let mut found = 0;
        for run in 0..runs {
            self.arguments.clear();
            (statement.arguments)(run, &mut draw, &mut self.arguments);
            let (mut ours, mut theirs) = (Keeper::default(), Keeper::default());
            self.ours.call(statement.name, &self.arguments, &mut ours)?;
            prepared.run(&self.arguments, &mut theirs)?;
            found += ours.rows.len();
            compare(ours.rows, theirs.rows, false)
                .map_err(|difference| format!("{:?}: {difference}", self.arguments))?;
        }
        match found {
            0 => Err("no run gave a row: nothing was compared".to_string()),
            _ => Ok(()),
        }
    }

    /// The same runs on both: nanoseconds of one, ours and SQLite's.
    fn repeat(
        &mut self,
        statement: &Measured,
        prepared: &mut Prepared<'_>,
        runs: std::ops::Range<i64>,
        ours_first: bool,
    ) -> Result<(f64, f64), String> {
        self.prepare(statement, runs.clone())?;
        let (mut ours, mut sqlite) = (None, None);
        for turn in [ours_first, !ours_first] {
            let mut draw = Draw::new(runs.start as u64, self.size);
            let arguments = |run, out: &mut Vec<Argument>| {
                out.clear();
                (statement.arguments)(run, &mut draw, out);
            };
            let memory = &mut self.arguments;
            if turn {
                let host = &mut self.ours;
                let call = |a: &[Argument], sink: &mut _| host.call(statement.name, a, sink);
                ours = Some(timed(runs.clone(), arguments, memory, call)?);
            } else {
                let call = |a: &[Argument], sink: &mut _| prepared.run(a, sink);
                sqlite = Some(timed(runs.clone(), arguments, memory, call)?);
            }
        }
        let (ours, sqlite) = ours.zip(sqlite).ok_or("both had their turn")?;
        if ours.1 != sqlite.1 {
            return Err(format!("results {:?}, SQLite gives {:?}", ours.1, sqlite.1));
        }
        let each = |time: Duration| time.as_nanos() as f64 / (runs.end - runs.start) as f64;
        Ok((each(ours.0), each(sqlite.0)))
    }

    fn compare_contents(&mut self) -> Result<(), String> {
        for query in CONTENTS {
            let (mut ours, mut theirs) = (Keeper::default(), Keeper::default());
            self.ours.ad_hoc(query, &mut ours)?;
            Prepared::new(self.sqlite, &[query.to_string()])?.run(&[], &mut theirs)?;
            compare(ours.rows, theirs.rows, false)
                .map_err(|e| format!("at the end: {query}: {e}"))?;
        }
        Ok(())
    }
}

#[inline]
fn timed(
    runs: std::ops::Range<i64>,
    mut arguments: impl FnMut(i64, &mut Vec<Argument>),
    memory: &mut Vec<Argument>,
    mut call: impl FnMut(&[Argument], &mut Checksum) -> Result<(), String>,
) -> Result<(Duration, Checksum), String> {
    let mut sink = Checksum::default();
    let start = Instant::now();
    for run in runs {
        arguments(run, memory);
        call(memory, &mut sink)?;
    }
    Ok((start.elapsed(), sink))
}

/// Our procedure: a statement for one partition that the caller names.
fn procedure(statement: &Measured) -> String {
    match statement.ours {
        [one] => format!("CREATE PROCEDURE {} DIRECTED AS {one};", statement.name),
        several => {
            let body = several.join("; ");
            format!("CREATE PROCEDURE {} DIRECTED AS BEGIN {body}; END;", statement.name)
        }
    }
}

fn sqlite_texts(statement: &Measured) -> Vec<String> {
    let texts = if statement.sqlite.is_empty() { statement.ours } else { statement.sqlite };
    texts.iter().map(|text| text.to_string()).collect()
}
