//! Many random scripts against one reference, with what happens on the way shown.

use crate::comparison::{Comparison, Tally, compare};
use crate::generator::{Dialect, ScriptSize, Step, script};
use crate::shrink;
use crate::system::System;
use crate::system::host::{HostSystem, Rules};
use crate::system::postgres::{Postgres, PostgresServer};
use crate::system::postgres_wire::PostgresConnection;
use crate::system::sqlite::Sqlite;
use std::collections::BTreeMap;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// What answers are compared with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reference {
    /// One site with three sites.
    Sites,
    /// Plans with and without each of the planner's rules.
    Rules,
    /// Views with their queries after every change.
    Views,
    /// SQLite.
    Sqlite,
    /// PostgreSQL.
    Postgres,
}

impl Reference {
    /// All, with their names.
    pub const ALL: [(&str, Reference); 5] = [
        ("sites", Reference::Sites),
        ("rules", Reference::Rules),
        ("views", Reference::Views),
        ("sqlite", Reference::Sqlite),
        ("postgres", Reference::Postgres),
    ];

    /// The reference of a name.
    pub fn named(name: &str) -> Option<Reference> {
        Reference::ALL.iter().find(|(known, _)| *known == name).map(|(_, reference)| *reference)
    }

    fn dialect(self) -> Dialect {
        match self {
            Reference::Sites | Reference::Rules | Reference::Views => Dialect::Lockstep,
            Reference::Sqlite => Dialect::Sqlite,
            Reference::Postgres => Dialect::Postgres,
        }
    }

    fn size(self) -> ScriptSize {
        match self {
            Reference::Views => {
                ScriptSize { statements: 40, rows: 10, changes_of_ten: 9, views: 3 }
            }
            _ => ScriptSize { statements: 60, rows: 14, changes_of_ten: 3, views: 1 },
        }
    }
}

/// What to run.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// Compared with whom.
    pub reference: Reference,
    /// The first script's seed; the next have the next ones.
    pub seed: u64,
    /// Runs until N statements are compared.
    pub statements: u64,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Scripts that ran.
    pub scripts: u64,
    /// The counts of their statements.
    pub tally: Tally,
    /// How messages of refused statements begin, and how many do.
    pub reasons: BTreeMap<String, u64>,
    /// For each difference the seed and a script that shows it.
    pub differences: Vec<(u64, String)>,
}

/// After N differences a campaign stops.
const DIFFERENCES_MAX: usize = 5;

/// Where scripts of one reference run.
pub struct Arena {
    reference: Reference,
    postgres: Option<(PostgresConnection, PostgresServer)>,
}

impl Arena {
    /// Starts what lasts longer than a script.
    ///
    /// # Errors
    /// `NotFound` where PostgreSQL is needed and not installed.
    pub fn open(reference: Reference) -> io::Result<Arena> {
        let postgres = match reference {
            Reference::Postgres => {
                let server = PostgresServer::start()?;
                Some((server.connect()?, server))
            }
            _ => None,
        };
        Ok(Arena { reference, postgres })
    }

    /// Runs a script from nothing; `seed` decides how many sites meet the other database.
    ///
    /// # Errors
    /// A database does not start.
    pub fn run(&mut self, steps: &[Step], seed: u64) -> io::Result<Comparison> {
        let sites = if seed.is_multiple_of(2) { 1 } else { 3 };
        let (sites, rules) = match self.reference {
            Reference::Rules => (sites, Rules::EachOff),
            _ if self.is_own() => (1, Rules::On),
            _ => (sites, Rules::On),
        };
        // Batches on either side, or both, or none.
        let batches = [seed & 2 == 0, seed & 4 == 0];
        let mut own = HostSystem::start(sites, rules, batches[0])?;
        match (self.reference, &mut self.postgres) {
            (Reference::Sqlite, _) => {
                let mut other = Sqlite::open()?;
                Ok(compare(steps, &mut [&mut own, &mut other]))
            }
            (Reference::Postgres, Some((connection, _))) => {
                let mut other = Postgres::begin(connection)?;
                Ok(compare(steps, &mut [&mut own, &mut other]))
            }
            _ => {
                let rules = match self.reference {
                    Reference::Rules => Rules::InTurn,
                    _ => Rules::On,
                };
                let mut other = HostSystem::start(3, rules, batches[1])?;
                let systems: &mut [&mut dyn System] = &mut [&mut own, &mut other];
                Ok(compare(steps, systems))
            }
        }
    }

    fn is_own(&self) -> bool {
        self.reference.dialect() == Dialect::Lockstep
    }
}

impl Campaign {
    /// The first script, in the reference's SQL.
    pub fn text(&self) -> String {
        let dialect = self.reference.dialect();
        let steps = script(self.seed, self.reference.size(), dialect);
        let lines = steps.iter().map(|step| step.phrase().render(dialect));
        lines.filter(|line| !line.is_empty()).map(|line| line + ";\n").collect()
    }

    /// Runs scripts until enough statements are compared or too much differs.
    ///
    /// # Errors
    /// A database does not start.
    pub fn run(&self) -> io::Result<Report> {
        let mut arena = Arena::open(self.reference)?;
        let mut progress = Progress::new(self);
        let mut report = Report::default();
        let mut seed = self.seed;
        while report.tally.answered + report.tally.refused < self.statements
            && report.differences.len() < DIFFERENCES_MAX
        {
            let steps = script(seed, self.reference.size(), self.reference.dialect());
            let comparison = arena.run(&steps, seed)?;
            report.scripts += 1;
            report.tally += comparison.tally;
            for (reason, count) in comparison.reasons {
                *report.reasons.entry(reason).or_default() += count;
            }
            if let Some(difference) = comparison.difference {
                let statement = steps[difference.step].sql();
                progress.note(&format!("seed {seed}: making the script smaller of: {statement}"));
                let run = |steps: &[Step]| arena.run(steps, seed);
                let smaller = shrink::shrink(&steps, &difference, run)?;
                let found = arena.run(&smaller, seed)?.difference.unwrap_or(difference);
                let text = shrink::text(&smaller, &found, self.reference.dialect());
                progress.note(&format!("-- seed {seed}\n{text}"));
                report.differences.push((seed, text));
            }
            progress.show(&report);
            seed += 1;
        }
        progress.end(&report);
        Ok(report)
    }
}

/// A line that tells how far a campaign is, on a terminal; on anything else, now and then.
struct Progress {
    name: &'static str,
    goal: u64,
    begin: Instant,
    shown: Instant,
    terminal: bool,
}

const WIDTH: u64 = 30;

impl Progress {
    fn new(campaign: &Campaign) -> Progress {
        let named = |(_, reference): &&(&str, Reference)| *reference == campaign.reference;
        let name = Reference::ALL.iter().find(named).map_or("", |(name, _)| *name);
        let terminal = io::stderr().is_terminal();
        let now = Instant::now();
        Progress { name, goal: campaign.statements.max(1), begin: now, shown: now, terminal }
    }

    fn line(&self, report: &Report) -> String {
        let Tally { answered, empty, refused, other_ways, by_order, unsupported } = report.tally;
        let done = answered + refused;
        let filled = (done * WIDTH / self.goal).min(WIDTH) as usize;
        let seconds = self.begin.elapsed().as_secs_f64().max(0.001);
        let bar = format!("{}{}", "#".repeat(filled), ".".repeat(WIDTH as usize - filled));
        let rate = done as f64 / seconds;
        let (goal, scripts, found) = (self.goal, report.scripts, report.differences.len());
        format!(
            "{} [{bar}] {done} of {goal} statements in {scripts} scripts, {rate:.0}/s: {answered} \
             answered ({empty} without rows), {refused} refused, {other_ways} in other ways, \
             {by_order} by order, {unsupported} not supported, {found} differences",
            self.name
        )
    }

    fn show(&mut self, report: &Report) {
        let pause = Duration::from_millis(if self.terminal { 200 } else { 20_000 });
        if self.shown.elapsed() < pause {
            return;
        }
        self.shown = Instant::now();
        let line = self.line(report);
        match self.terminal {
            true => eprint!("\r{line}"),
            false => eprintln!("{line}"),
        }
        let _ = io::stderr().flush();
    }

    fn note(&self, text: &str) {
        eprintln!("{}{text}", if self.terminal { "\r\n" } else { "" });
    }

    fn end(&self, report: &Report) {
        self.note(&self.line(report));
    }
}
