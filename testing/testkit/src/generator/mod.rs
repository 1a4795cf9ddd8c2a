//! Random schemas, rows and statements from a seed, as scripts for [`crate::comparison`].
//!
//! A script is made before anything runs, so that a failing one can be made smaller. Values are
//! few and small, so that joins meet and keys collide; floats are sums of powers of two, so that
//! the order of an addition does not matter.

mod change;
mod condition;
mod expression;
mod function;
mod phrase;
mod query;
mod schema;
mod select;
mod view;
mod window;

use crate::known::Known;
use lockstep_base::random::SeededRandom;
pub use phrase::{Dialect, Phrase, Role};
use schema::Table;

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// DDL: everybody must do it.
    Schema(Phrase),
    /// A change of rows: everybody does the same, or everybody refuses.
    Change(Phrase),
    /// A query.
    Query {
        /// The statement without its end.
        body: Phrase,
        /// ORDER BY over every column, and LIMIT: with it rows must come in the same order.
        tail: Option<Phrase>,
    },
    /// A view and the query that it stands for: both must give the same rows.
    Same(Phrase, Phrase),
}

impl Step {
    /// The statement; of a pair, the first.
    pub fn phrase(&self) -> Phrase {
        match self {
            Step::Schema(phrase) | Step::Change(phrase) | Step::Same(phrase, _) => phrase.clone(),
            Step::Query { body, tail: None } => body.clone(),
            Step::Query { body, tail: Some(tail) } => {
                Phrase::all_of("", vec![body.clone(), tail.clone()])
            }
        }
    }

    /// The statement in this database's SQL.
    pub fn sql(&self) -> String {
        self.phrase().render(Dialect::Lockstep)
    }
}

/// How much a script holds.
#[derive(Debug, Clone, Copy)]
pub struct ScriptSize {
    /// Statements after the tables are there and filled.
    pub statements: usize,
    /// Most rows of a table at the beginning.
    pub rows: u64,
    /// How many of ten statements are changes.
    pub changes_of_ten: u64,
    /// Views for each table, at most.
    pub views: u64,
}

/// The script of a seed, of statements that a database of this dialect understands too.
pub fn script(seed: u64, size: ScriptSize, against: Dialect) -> Vec<Step> {
    let mut generator = Generator {
        random: SeededRandom::new(seed),
        constants: SeededRandom::new(!seed),
        against,
        tables: Vec::new(),
        views: Vec::new(),
        aliases: 0,
        later: 0,
        dropped: 0,
    };
    let mut steps = generator.schema(size.views);
    for table in 0..generator.tables.len() {
        for _ in 0..generator.random.below(size.rows + 1) {
            steps.push(Step::Change(generator.insert_row(table, false)));
        }
    }
    for _ in 0..size.statements {
        generator.aliases = 0;
        if generator.random.chance(1, 30) {
            generator.later_schema(&mut steps);
            steps.extend(generator.checks());
        }
        let changes = generator.random.chance(size.changes_of_ten, 10);
        // The same statement with other constants: it may share the plan of the first.
        let again = generator.random.chance(1, 3);
        let shape = generator.random.clone();
        generator.statement(changes, &mut steps);
        if again {
            generator.random = shape;
            generator.aliases = 0;
            generator.statement(changes, &mut steps);
        }
    }
    steps
}

/// The kinds of values that are compared and computed with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// TINYINT to BIGINT.
    Integer,
    /// FLOAT.
    Float,
    /// DECIMAL.
    Decimal,
    /// VARCHAR.
    Text,
    /// TIMESTAMP.
    Timestamp,
    /// VARBINARY.
    Bytes,
}

impl Family {
    fn is_number(self) -> bool {
        matches!(self, Family::Integer | Family::Float | Family::Decimal)
    }

    /// A constant.
    fn simplest(self) -> Phrase {
        match self {
            Family::Integer => Phrase::new(Role::Value(self), "1", Vec::new()),
            Family::Float => expression::float("1.0E0"),
            Family::Decimal => Phrase::new(Role::Value(self), "1.5", Vec::new()),
            Family::Text => Phrase::new(Role::Value(self), "'a'", Vec::new()),
            Family::Timestamp => expression::timestamp("2020-01-01 00:00:00"),
            Family::Bytes => expression::bytes("61"),
        }
    }
}

/// A value that a statement can name.
#[derive(Debug, Clone)]
struct Reference {
    text: String,
    family: Family,
    /// Never NULL.
    required: bool,
}

impl Reference {
    fn phrase(&self) -> Phrase {
        Phrase::new(Role::Value(self.family), self.text.as_str(), Vec::new())
    }
}

struct Generator {
    /// Decides the shape of statements.
    random: SeededRandom,
    /// Decides their constants.
    constants: SeededRandom,
    /// The other database.
    against: Dialect,
    tables: Vec<Table>,
    /// Views: what they give and their queries.
    views: Vec<(Table, Phrase)>,
    aliases: usize,
    /// Changes of the schema that came later.
    later: usize,
    /// The last of these that dropped something.
    dropped: usize,
}

impl Generator {
    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.random.below(of.len() as u64) as usize]
    }

    fn text_of(&mut self, of: &[&'static str]) -> &'static str {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn constant_of(&mut self, of: &[&'static str]) -> &'static str {
        of[self.constants.below(of.len() as u64) as usize]
    }

    fn one_of(&mut self, of: &[&'static str]) -> Phrase {
        Phrase::word(self.text_of(of))
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    /// Whether a known difference stands in nobody's way.
    fn may(&self, known: Known) -> bool {
        !known.concerns(self.against)
    }

    fn statement(&mut self, changes: bool, steps: &mut Vec<Step>) {
        match changes {
            true => {
                steps.push(self.change());
                steps.extend(self.checks());
            }
            false => steps.push(self.query()),
        }
    }

    /// What must hold after a change: equal tables, and views that are what their queries give.
    fn checks(&self) -> Vec<Step> {
        let tables = self.tables.iter().map(|table| Step::Query {
            body: Phrase::word(format!("SELECT * FROM {}", table.name)),
            tail: None,
        });
        let views = self.views.iter().map(|(view, body)| {
            Step::Same(Phrase::word(format!("SELECT * FROM {}", view.name)), body.clone())
        });
        tables.chain(views).collect()
    }
}
