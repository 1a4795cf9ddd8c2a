//! A procedure that does what its parameters say, in as many rounds as they say: it reads lists,
//! appends to them, decides by what it has read where to append, writes the replicated list, and
//! aborts or violates a key at any point.

use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::{Datum, SqlType, TableSchema};
use std::sync::Arc;

/// One step of a walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Appends a value to a list.
    Append(i64, i64),
    /// Reads a list.
    Read(i64),
    /// Inserts a list that is there: violates its key.
    Break(i64),
    /// Ends a round: what was queued is executed.
    Round,
    /// Aborts by itself.
    Abort,
    /// Appends a value to the list after a given one by as many as the last executed read has
    /// seen items: the partition is known only then.
    Hop(i64, i64),
    /// Appends a value to the replicated list.
    AppendShared(i64),
    /// Reads the replicated list, at some partition.
    ReadShared,
    /// Takes a list to another place: reads it, deletes it and inserts it with another id. Only
    /// where lists are found by a global index.
    Move(i64, i64),
    /// Gives a list another key, which is no other list's; twice is as it was before.
    Rename(i64),
}

impl Step {
    /// As the procedure's parameters have it.
    pub fn encode(self) -> [i64; 3] {
        match self {
            Step::Append(key, value) => [0, key, value],
            Step::Read(key) => [1, key, 0],
            Step::Break(key) => [2, key, 0],
            Step::Round => [3, 0, 0],
            Step::Abort => [4, 0, 0],
            Step::Hop(key, value) => [5, key, value],
            Step::AppendShared(value) => [6, 0, value],
            Step::ReadShared => [7, 0, 0],
            Step::Move(key, id) => [8, key, id],
            Step::Rename(key) => [9, key, 0],
        }
    }

    fn decode(parts: [i64; 3]) -> Option<Step> {
        let [kind, key, value] = parts;
        Some(match kind {
            0 => Step::Append(key, value),
            1 => Step::Read(key),
            2 => Step::Break(key),
            3 => Step::Round,
            4 => Step::Abort,
            5 => Step::Hop(key, value),
            6 => Step::AppendShared(value),
            7 => Step::ReadShared,
            8 => Step::Move(key, value),
            9 => Step::Rename(key),
            _ => return None,
        })
    }
}

/// Stands for the replicated list where a key is expected.
pub const SHARED: i64 = -1;

/// The lists, and one that every partition has. `Walk` finds its partitions on the way,
/// `WalkDeclared` names those of its first two parameters, `WalkHere` runs at one partition. The
/// others are calls of one round.
pub const SCHEMA: &str = "
CREATE TABLE lists (k BIGINT NOT NULL, items VARCHAR(100000 BYTES) NOT NULL, PRIMARY KEY (k));
PARTITION TABLE lists ON COLUMN k;
CREATE TABLE shared (id BIGINT NOT NULL, items VARCHAR(100000 BYTES) NOT NULL, PRIMARY KEY (id));
CREATE PROCEDURE FROM NATIVE Walk;
CREATE PROCEDURE
  PARTITION ON TABLE lists COLUMN k PARAMETER 0 AND ON TABLE lists COLUMN k PARAMETER 1
  FROM NATIVE WalkDeclared;
CREATE PROCEDURE PARTITION ON TABLE lists COLUMN k PARAMETER 0 FROM NATIVE WalkHere;
CREATE PROCEDURE AppendRead AS BEGIN
  UPDATE lists SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' WHERE k = ?;
  SELECT items FROM lists WHERE k = ?;
END;
CREATE PROCEDURE ReadAppend AS BEGIN
  SELECT items FROM lists WHERE k = ?;
  UPDATE lists SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' WHERE k = ?;
END;
CREATE PROCEDURE ReadRead AS BEGIN
  SELECT items FROM lists WHERE k = ?;
  SELECT items FROM lists WHERE k = ?;
END;
CREATE PROCEDURE AppendBreak AS BEGIN
  UPDATE lists SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' WHERE k = ?;
  INSERT INTO lists (k, items) VALUES (?, '');
END;
";

/// The lists where their key is not what they are partitioned by: a global index finds them.
/// `WalkLed` runs where a list is, and so does `WalkLedChange`, which changes index entries.
pub const INDEXED_SCHEMA: &str = "
CREATE TABLE lists (
  id BIGINT NOT NULL, k BIGINT NOT NULL, items VARCHAR(100000 BYTES) NOT NULL, PRIMARY KEY (id)
);
PARTITION TABLE lists ON COLUMN id;
CREATE GLOBAL UNIQUE INDEX lists_k ON lists (k);
CREATE TABLE shared (id BIGINT NOT NULL, items VARCHAR(100000 BYTES) NOT NULL, PRIMARY KEY (id));
CREATE PROCEDURE FROM NATIVE WalkIndexed;
CREATE PROCEDURE PARTITION ON TABLE lists COLUMN id VIA GLOBAL INDEX lists_k PARAMETER 0
  FROM NATIVE WalkLed;
CREATE PROCEDURE PARTITION ON TABLE lists COLUMN id VIA GLOBAL INDEX lists_k PARAMETER 0
  FROM NATIVE WalkLedChange;
";

/// Keys of lists that are added begin here.
pub const FIRST_PUT_KEY: i64 = 1000;

/// Calls that add lists: their parameters say where the entries of the index live.
pub const GROWING_SCHEMA: &str = "
CREATE PROCEDURE PutHere PARTITION ON TABLE lists COLUMN id
  AS INSERT INTO lists (id, k, items) VALUES (?, ?, '');
CREATE PROCEDURE PutAnywhere AS INSERT INTO lists (id, k, items) VALUES (?, ?, '');
CREATE PROCEDURE PutTwo AS BEGIN
  INSERT INTO lists (id, k, items) VALUES (?, ?, '');
  INSERT INTO lists (id, k, items) VALUES (?, ?, '');
END;
";

const APPEND: usize = 0;
const READ: usize = 1;
const BREAK: usize = 2;
const READ_SHARED: usize = 3;
const APPEND_SHARED: usize = 4;
const REMOVE: usize = 5;
const PUT: usize = 6;
const RENAME: usize = 7;

const STATEMENTS: &[(&str, &str)] = &[
    (
        "append",
        "UPDATE lists SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' WHERE k = ?;",
    ),
    ("read", "SELECT items FROM lists WHERE k = ?;"),
    ("break", "INSERT INTO lists (k, items) VALUES (?, '');"),
    ("readShared", "SELECT items FROM shared WHERE id = 1;"),
    (
        "appendShared",
        "UPDATE shared SET items = items || CAST(CAST(? AS BIGINT) AS VARCHAR) || ',' \
         WHERE id = 1;",
    ),
];

const INDEXED_STATEMENTS: &[(&str, &str)] = &[
    STATEMENTS[APPEND],
    STATEMENTS[READ],
    ("break", "INSERT INTO lists (id, k, items) VALUES (-1, ?, '');"),
    STATEMENTS[READ_SHARED],
    STATEMENTS[APPEND_SHARED],
    ("remove", "DELETE FROM lists WHERE k = ?;"),
    ("put", "INSERT INTO lists (id, k, items) VALUES (?, ?, ?);"),
    ("rename", "UPDATE lists SET k = -2 - k WHERE k = ?;"),
];

/// Changes no index entries, so that calls stay at one partition.
const LED_STATEMENTS: &[(&str, &str)] = &[
    STATEMENTS[APPEND],
    STATEMENTS[READ],
    ("neverBreak", "SELECT items FROM lists WHERE k = ?;"),
    STATEMENTS[READ_SHARED],
];

/// Beside reads and appends this one renames.
const LED_CHANGE_STATEMENTS: &[(&str, &str)] = &[
    STATEMENTS[APPEND],
    STATEMENTS[READ],
    ("neverBreak", "SELECT items FROM lists WHERE k = ?;"),
    STATEMENTS[READ_SHARED],
    ("neverAppend", "SELECT items FROM lists WHERE k = ?;"),
    ("neverRemove", "SELECT items FROM lists WHERE k = ?;"),
    ("neverPut", "SELECT items FROM lists WHERE k = ?;"),
    INDEXED_STATEMENTS[RENAME],
];

/// `(key, key, number of lists, steps)`: answers with a table of `(key, value, items)`, a row for
/// each read (value 0) and each append (without items).
struct Walk {
    name: &'static str,
    statements: &'static [(&'static str, &'static str)],
}

/// The procedures.
pub(crate) fn procedures() -> Vec<Arc<dyn NativeProcedure>> {
    let walk = |name, statements| Arc::new(Walk { name, statements }) as _;
    vec![
        walk("Walk", STATEMENTS),
        // One that may write what every partition has takes the partitions that it needs.
        walk("WalkDeclared", &STATEMENTS[..APPEND_SHARED]),
        // At one partition it may not write that.
        walk("WalkHere", &STATEMENTS[..APPEND_SHARED]),
        walk("WalkIndexed", INDEXED_STATEMENTS),
        walk("WalkLed", LED_STATEMENTS),
        walk("WalkLedChange", LED_CHANGE_STATEMENTS),
    ]
}

/// What a walk has seen and done.
#[derive(Default)]
struct Seen {
    rows: Vec<(i64, i64, String)>,
    /// Queued steps: the list and, of an append, the value.
    queued: Vec<(i64, i64)>,
    /// Items that the last read has seen.
    items: i64,
}

impl Seen {
    fn execute(&mut self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        if self.queued.is_empty() {
            return Ok(());
        }
        let results = context.execute()?;
        for (number, (key, value)) in self.queued.drain(..).enumerate() {
            let text = match results.scalar(number)? {
                Some(Datum::Text(text)) if value == 0 => text.to_string(),
                _ => String::new(),
            };
            if value == 0 {
                self.items = text.matches(',').count() as i64;
            }
            self.rows.push((key, value, text));
        }
        Ok(())
    }

    fn answer(&self, context: &mut ProcedureContext<'_>) {
        let schema = TableSchema::new(&[
            ("KEY", SqlType::BigInt),
            ("VALUE", SqlType::BigInt),
            ("ITEMS", SqlType::Varchar),
        ]);
        let rows: Vec<[Datum<'_>; 3]> = self
            .rows
            .iter()
            .map(|(key, value, items)| [Datum::Int(*key), Datum::Int(*value), Datum::Text(items)])
            .collect();
        context.return_table(&schema, rows.iter().map(|row| row.as_slice()));
    }
}

impl NativeProcedure for Walk {
    fn name(&self) -> &str {
        self.name
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const NUMBER: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        const NUMBERS: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: true };
        const { &[NUMBER, NUMBER, NUMBER, NUMBERS] }
    }

    fn statements(&self) -> &[(&str, &str)] {
        self.statements
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        let Datum::Int(lists) = context.parameter(2) else {
            return Err(context.abort("the number of lists is NULL"));
        };
        let numbers: Vec<i64> = context
            .array_parameter(3)
            .map(|value| if let Datum::Int(number) = value { number } else { 0 })
            .collect();
        let mut seen = Seen::default();
        for parts in numbers.chunks_exact(3) {
            let step = Step::decode([parts[0], parts[1], parts[2]]);
            let step = step.ok_or_else(|| context.abort("an unknown step"))?;
            let int = Datum::Int;
            match step {
                Step::Append(key, value) => {
                    context.queue(APPEND, &[int(value), int(key)])?;
                    seen.queued.push((key, value));
                }
                Step::Hop(key, value) => {
                    let key = (key + seen.items).rem_euclid(lists.max(1));
                    context.queue(APPEND, &[int(value), int(key)])?;
                    seen.queued.push((key, value));
                }
                Step::Read(key) => {
                    context.queue(READ, &[int(key)])?;
                    seen.queued.push((key, 0));
                }
                Step::Break(key) => {
                    context.queue(BREAK, &[int(key)])?;
                    seen.queued.push((key, -1));
                }
                Step::AppendShared(value) => {
                    context.queue(APPEND_SHARED, &[int(value)])?;
                    seen.queued.push((SHARED, value));
                }
                Step::ReadShared => {
                    context.queue(READ_SHARED, &[])?;
                    seen.queued.push((SHARED, 0));
                }
                Step::Move(key, id) => {
                    context.queue(READ, &[int(key)])?;
                    seen.queued.push((key, 0));
                    seen.execute(context)?;
                    let items = seen.rows.last().map_or(String::new(), |row| row.2.clone());
                    context.queue(REMOVE, &[int(key)])?;
                    seen.queued.push((key, -1));
                    context.queue(PUT, &[int(id), int(key), Datum::Text(&items)])?;
                    seen.queued.push((key, -1));
                }
                Step::Rename(key) => {
                    context.queue(RENAME, &[int(key)])?;
                    seen.queued.push((key, -1));
                }
                Step::Round => seen.execute(context)?,
                Step::Abort => return Err(context.abort("the walk ends here")),
            }
        }
        seen.execute(context)?;
        seen.answer(context);
        Ok(())
    }
}
