//! Changes of the schema beside the calls, and what must be left of them.

use super::{Call, End, Run};
use crate::classes::SimClasses;
use crate::world::log::LogClock;
use crate::world::{RequestedChange, World};

/// A change that can be made and undone.
struct Toggle {
    /// A word that the schema's text has while it is made.
    word: &'static str,
    make: &'static str,
    undo: &'static str,
    /// It is a global index, whose making takes several steps.
    is_built: bool,
}

const fn toggle(word: &'static str, make: &'static str, undo: &'static str) -> Toggle {
    Toggle { word, make, undo, is_built: false }
}

const fn built(word: &'static str, make: &'static str, undo: &'static str) -> Toggle {
    Toggle { word, make, undo, is_built: true }
}

/// A table whose rows go with it.
const EXTRA: usize = 0;
/// An index over notes, and a view of them.
const BY_AMOUNT: usize = 1;
const OF_SIDES: usize = 2;

const TOGGLES: [Toggle; 9] = [
    toggle(
        "EXTRA ",
        "CREATE TABLE extra (
           id BIGINT NOT NULL, account BIGINT NOT NULL, PRIMARY KEY (account, id)
         );
         PARTITION TABLE extra ON COLUMN account;",
        "DROP TABLE extra;",
    ),
    toggle("BY_AMOUNT", "CREATE INDEX by_amount ON moves (amount);", "DROP INDEX by_amount;"),
    toggle(
        "OF_SIDES",
        "CREATE VIEW of_sides (side, notes) AS SELECT side, COUNT(*) FROM moves GROUP BY side;",
        "DROP VIEW of_sides;",
    ),
    // Fails where it is not so.
    toggle(
        "ONE_A_SIDE",
        "CREATE UNIQUE INDEX one_a_side ON moves (account, side);",
        "DROP INDEX one_a_side;",
    ),
    toggle(
        "REMARK",
        "ALTER TABLE moves ADD COLUMN remark VARCHAR(20) DEFAULT 'none';",
        "ALTER TABLE moves DROP COLUMN remark;",
    ),
    toggle(
        "SINCE",
        "ALTER TABLE rates ADD COLUMN since BIGINT;",
        "ALTER TABLE rates DROP COLUMN since;",
    ),
    toggle(
        "Spare",
        "CREATE PROCEDURE Spare AS SELECT COUNT(*) FROM rates;",
        "DROP PROCEDURE Spare;",
    ),
    built(
        "MOVES_BY_NUMBER",
        "CREATE GLOBAL INDEX moves_by_number ON moves (number);",
        "DROP INDEX moves_by_number;",
    ),
    // Fails where a pair is held.
    built(
        "HOLDS_BY_NUMBER",
        "CREATE GLOBAL UNIQUE INDEX holds_by_number ON holds (number);",
        "DROP INDEX holds_by_number;",
    ),
];

/// Besides those: two tables exchange their contents, another version of the classes, and changes
/// that must be refused.
const SWAP: usize = TOGGLES.len();
const CLASSES: usize = TOGGLES.len() + 1;
const REFUSED: usize = TOGGLES.len() + 2;
/// How often these are drawn, of N and the toggles.
const SHARE: u64 = 6;

/// Changes that must be refused: by the catalog, by the partitions, and in the middle of building a
/// global index.
const REFUSALS: [&str; 3] = [
    "CREATE TABLE accounts (account BIGINT NOT NULL);",
    "CREATE UNIQUE INDEX one_copy ON copies (v);",
    "CREATE GLOBAL UNIQUE INDEX one_twin ON twins (v);",
];
/// What they are refused for: tables with duplicates.
pub(super) const DUPLICATES: &str = "
CREATE TABLE copies (id BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (id));
CREATE TABLE twins (id BIGINT NOT NULL, v BIGINT NOT NULL, PRIMARY KEY (id));
PARTITION TABLE twins ON COLUMN id;
";
pub(super) const TWINS: i64 = 16;

/// A change that is in progress.
#[derive(Debug)]
struct Pending {
    toggle: usize,
    /// The schema's text after it.
    text: String,
    is_build: bool,
}

/// The schema, as far as is known.
#[derive(Debug, Default)]
pub(super) struct Schema {
    text: String,
    pending: Option<Pending>,
    one_in: u64,
    /// Calls with a row in the extra table, since that was made, and how many are unanswered.
    extra: Vec<usize>,
    pub(super) extra_open: usize,
    /// With an asynchronous log: what was in force before changes that may be lost, and how far
    /// the log was when they were answered.
    pub(super) before: Vec<(String, LogClock)>,
}

impl Schema {
    /// One call in N is followed by a change; 0 for none.
    pub(super) fn new(one_in: u64) -> Schema {
        Schema { one_in, ..Schema::default() }
    }

    /// Begins with what is in force.
    pub(super) fn set(&mut self, text: String) {
        self.text = text;
    }

    pub(super) fn is_changing(&self) -> bool {
        self.pending.is_some()
    }

    fn has(&self, toggle: usize) -> bool {
        self.text.contains(TOGGLES[toggle].word)
    }

    /// Whether rows may be inserted into the extra table.
    pub(super) fn has_extra(&self) -> bool {
        self.pending.is_none() && self.has(EXTRA)
    }

    /// A call inserts one.
    pub(super) fn add_extra(&mut self, number: usize) {
        self.extra.push(number);
        self.extra_open += 1;
    }

    fn end(&mut self, pending: &Pending) {
        self.text.clone_from(&pending.text);
        if pending.toggle == EXTRA {
            self.extra.clear();
        }
    }
}

impl Run {
    /// Begins a change, unless one is in progress or must not be.
    pub(super) fn draw_change(&mut self, world: &mut World) {
        let one_in = self.schema.one_in;
        if one_in == 0 || self.schema.is_changing() || !self.random.chance(1, one_in) {
            return;
        }
        let toggle = self.random.below(TOGGLES.len() as u64 + SHARE) as usize;
        match toggle.checked_sub(SWAP) {
            None => {}
            Some(other @ 0..4) => {
                return self.change_without_text(world, SWAP + other % 2);
            }
            Some(_) => return self.request_refused(world),
        }
        let chosen = &TOGGLES[toggle];
        let is_made = self.schema.has(toggle);
        if is_made && toggle == EXTRA && self.schema.extra_open > 0 {
            return;
        }
        // Of these more is known than the schema's text.
        if self.is_async && (toggle == EXTRA || chosen.is_built) {
            return;
        }
        let ddl = if is_made { chosen.undo } else { chosen.make };
        let text = world.schema_after(ddl);
        let is_build = chosen.is_built && !is_made;
        world.begin_schema(ddl);
        self.report.changes[0] += 1;
        self.schema.pending = Some(Pending { toggle, text, is_build });
    }

    /// Begins a change that the schema's text does not show.
    fn change_without_text(&mut self, world: &mut World, toggle: usize) {
        if self.is_async && toggle == SWAP {
            return;
        }
        let classes = SimClasses(world.latest().1.classes().unwrap_or(0) + 1);
        world.begin_change(match toggle {
            SWAP => RequestedChange::Swap("DAY", "NIGHT"),
            _ => RequestedChange::Classes(classes.jar().into()),
        });
        self.report.changes[0] += 1;
        self.report.without_text[usize::from(toggle >= CLASSES)] += 1;
        if toggle == SWAP {
            self.exchange.begin();
        }
        let text = self.schema.text.clone();
        self.schema.pending = Some(Pending { toggle, text, is_build: false });
    }

    /// Requests a change that must fail.
    fn request_refused(&mut self, world: &mut World) {
        let chosen = self.random.below(REFUSALS.len() as u64) as usize;
        let is_build = REFUSALS[chosen].contains("GLOBAL");
        if self.is_async && is_build {
            return;
        }
        world.begin_schema(REFUSALS[chosen]);
        self.report.changes[0] += 1;
        self.report.refusals[0] += 1;
        let text = self.schema.text.clone();
        self.schema.pending = Some(Pending { toggle: REFUSED, text, is_build });
    }

    /// Hears of the end of a change.
    ///
    /// # Errors
    /// A change was made that had to be refused.
    pub(super) fn hear_change(&mut self, world: &mut World) -> Result<(), String> {
        let Some(ended) = world.take_change_answer() else { return Ok(()) };
        let pending = self.schema.pending.take().expect("one was in progress");
        if pending.toggle == REFUSED {
            self.report.refusals[1] += 1;
            if ended.failure.is_none() {
                return Err("a schema change was made that had to be refused".to_string());
            }
        }
        if pending.toggle == SWAP {
            self.exchange.end(ended.failure.is_none());
        }
        match ended.failure {
            None => {
                self.report.changes[1] += 1;
                if self.is_async {
                    self.schema.before.push((self.schema.text.clone(), world.log_clock()));
                }
                self.schema.end(&pending);
            }
            Some(_) => self.report.changes[2] += 1,
        }
        Ok(())
    }

    /// After a recovery: the schema is the one before the change that was in progress, or the one
    /// after it, and if it was answered that one. A global index that was being built goes on.
    pub(super) fn judge_schema(&mut self, world: &mut World) -> Result<(), String> {
        self.schema.extra_open = 0;
        let text = world.schema_text();
        let interrupted = world.interrupted_index();
        match (self.schema.pending.take(), interrupted) {
            (Some(pending), Some(_)) if pending.is_build => {
                self.report.changes[3] += 1;
                self.schema.pending = Some(pending);
            }
            (_, Some(index)) => return Err(format!("{index} is being built by nobody")),
            (None, None) if text == self.schema.text => {}
            (_, None) if self.schema.before.iter().any(|(before, _)| *before == text) => {
                self.report.lost_changes += 1;
                self.schema.text = text;
            }
            (Some(_), None) if text == self.schema.text => self.report.changes[4] += 1,
            (Some(pending), None) if text == pending.text => {
                self.report.changes[5] += 1;
                self.schema.end(&pending);
            }
            (pending, None) => {
                let expected = &self.schema.text;
                return Err(format!("the schema is\n{text}\nnot\n{expected}\nnor {pending:?}"));
            }
        }
        self.schema.before.clear();
        world.check_indexes()
    }

    /// What changes of the schema have made of the notes, and the rows of the extra table.
    pub(super) fn judge_made(
        &mut self,
        world: &mut World,
        notes: &[super::Note],
    ) -> Result<(), String> {
        if self.schema.has(BY_AMOUNT) {
            let found =
                super::judge::read(world, "SELECT COUNT(*) FROM moves WHERE amount > -1000000000")?;
            if found != [[notes.len() as i64]] {
                return Err(format!("the index finds {found:?} of {} notes", notes.len()));
            }
        }
        if self.schema.has(OF_SIDES) {
            let of = |side| notes.iter().filter(|note| note.1 == side).count() as i64;
            let sides = (0..8).map(|side| vec![side, of(side)]);
            let expected: Vec<Vec<i64>> = sides.filter(|row| row[1] > 0).collect();
            let found =
                super::judge::read(world, "SELECT side, notes FROM of_sides ORDER BY side")?;
            if found != expected {
                return Err(format!("the view of sides has {found:?}, its table {expected:?}"));
            }
        }
        if self.schema.has(EXTRA) {
            let is_there = |call: &Call| call.end == End::Known(true);
            let expected =
                self.schema.extra.iter().filter(|number| is_there(&self.calls[**number]));
            let mut expected: Vec<Vec<i64>> = expected.map(|number| vec![*number as i64]).collect();
            expected.sort_unstable();
            let found = super::judge::read(world, "SELECT id FROM extra ORDER BY id")?;
            if found != expected {
                return Err(format!("the extra table has {found:?}, not {expected:?}"));
            }
        }
        Ok(())
    }
}
