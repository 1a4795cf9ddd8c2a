//! Random schemas, rows and statements from a seed, as scripts for [`crate::comparison`].
//!
//! A script is made before anything runs, so that a failing one can be made smaller by leaving
//! steps out. Values are few and small, so that joins meet and keys collide; floats are sums of
//! powers of two, so that the order of an addition does not matter.

mod change;
mod expression;
mod query;
mod schema;

use lockstep_base::random::SeededRandom;
use schema::Table;

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// DDL, or a change of rows: both hosts must do it, or both refuse.
    Change(String),
    /// A query; with `ordered`, rows must come in the same order.
    Query {
        /// The statement.
        sql: String,
        /// ORDER BY names every column.
        ordered: bool,
    },
    /// Two queries that must give the same rows at each host: a view and what it stands for.
    Same(String, String),
}

/// How much a script holds.
#[derive(Debug, Clone, Copy)]
pub struct ScriptSize {
    /// Statements after the tables are there and filled.
    pub statements: usize,
    /// Most rows of a table at the beginning.
    pub rows: u64,
}

/// The script of a seed.
pub fn script(seed: u64, size: ScriptSize) -> Vec<Step> {
    let mut generator = Generator {
        random: SeededRandom::new(seed),
        tables: Vec::new(),
        views: Vec::new(),
        aliases: 0,
    };
    let mut steps = generator.schema();
    for table in 0..generator.tables.len() {
        for _ in 0..generator.random.below(size.rows + 1) {
            steps.push(Step::Change(generator.insert_values(table, "INSERT")));
        }
    }
    for _ in 0..size.statements {
        if generator.random.chance(1, 3) {
            steps.push(Step::Change(generator.change()));
            steps.extend(generator.checks());
        } else {
            steps.push(generator.query());
        }
    }
    steps
}

/// The kinds of values that are compared and computed with each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Family {
    Integer,
    Float,
    Decimal,
    Text,
    Timestamp,
    Bytes,
}

impl Family {
    fn is_number(self) -> bool {
        matches!(self, Family::Integer | Family::Float | Family::Decimal)
    }
}

/// A value that a statement can name.
#[derive(Debug, Clone)]
struct Reference {
    text: String,
    family: Family,
}

struct Generator {
    random: SeededRandom,
    tables: Vec<Table>,
    /// Name and query of each view.
    views: Vec<(String, String)>,
    aliases: usize,
}

impl Generator {
    fn pick<'t, T>(&mut self, of: &'t [T]) -> &'t T {
        &of[self.random.below(of.len() as u64) as usize]
    }

    fn alias(&mut self) -> String {
        self.aliases += 1;
        format!("x{}", self.aliases)
    }

    /// What must hold after a change: equal tables, and views that are what their queries give.
    fn checks(&self) -> Vec<Step> {
        let tables = self.tables.iter().map(|table| Step::Query {
            sql: format!("SELECT * FROM {}", table.name),
            ordered: false,
        });
        let views = self
            .views
            .iter()
            .map(|(name, body)| Step::Same(format!("SELECT * FROM {name}"), body.clone()));
        tables.chain(views).collect()
    }
}
