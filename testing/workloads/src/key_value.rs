//! Key-value: reads and updates of rows by their key, as YCSB's workloads A and B and, with one
//! key, contention.

use crate::distribution::{YCSB_THETA, Zipfian, letters, session_random};
use crate::form::Form;
use crate::workload::{
    Answer, Check, Database, Found, Next, NextCall, RowSink, Session, TableToFill, Verdict,
    Workload, check_content,
};
use lockstep_base::random::SeededRandom;
use lockstep_exec::procedure::{NativeProcedure, ProcedureContext, ProcedureError};
use lockstep_plan_ir::procedure::ProcedureParameter;
use lockstep_types::parameter::ParameterWriter;
use lockstep_types::{Datum, SqlType};
use std::sync::Arc;

const TABLES: &str = "\
CREATE TABLE key_value (
  id BIGINT NOT NULL, changes BIGINT NOT NULL, content VARCHAR(65536 BYTES) NOT NULL,
  PRIMARY KEY (id)
);
PARTITION TABLE key_value ON COLUMN id;
";

const READ_TEXT: &str = "SELECT content FROM key_value WHERE id = ?;";
const UPDATE_TEXT: &str = "UPDATE key_value SET content = ?, changes = changes + 1 WHERE id = ?;";

const DROPPED: &str = "\
DROP PROCEDURE KeyValueRead IF EXISTS;
DROP PROCEDURE KeyValueUpdate IF EXISTS;
";

const ROUTE_READ: &str = "PARTITION ON TABLE key_value COLUMN id PARAMETER 0";
const ROUTE_UPDATE: &str = "PARTITION ON TABLE key_value COLUMN id PARAMETER 1";

/// The native procedures: each runs the statement that it is in SQL, with its parameters.
pub fn procedures() -> [Arc<dyn NativeProcedure>; 2] {
    [Arc::new(OneStatement(READ)), Arc::new(OneStatement(UPDATE))]
}

struct OneStatement(usize);

impl NativeProcedure for OneStatement {
    fn name(&self) -> &str {
        ["KeyValueRead", "KeyValueUpdate"][self.0]
    }

    fn parameters(&self) -> &[ProcedureParameter] {
        const ID: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::BigInt, is_array: false };
        const TEXT: ProcedureParameter =
            ProcedureParameter { sql_type: SqlType::Varchar, is_array: false };
        if self.0 == READ { const { &[ID] } } else { const { &[TEXT, ID] } }
    }

    fn statements(&self) -> &[(&str, &str)] {
        if self.0 == READ { &[("read", READ_TEXT)] } else { &[("update", UPDATE_TEXT)] }
    }

    fn run(&self, context: &mut ProcedureContext<'_>) -> Result<(), ProcedureError> {
        match self.0 {
            READ => context.queue(0, &[context.parameter(0)])?,
            _ => context.queue(0, &[context.parameter(0), context.parameter(1)])?,
        };
        context.execute()?;
        context.return_result(0)
    }
}

const READ: usize = 0;
const UPDATE: usize = 1;

/// Which keys are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// All alike.
    Uniform,
    /// Some much more often, spread over all.
    Zipfian,
}

/// What is run.
#[derive(Debug, Clone)]
pub struct KeyValue {
    /// Its name.
    pub name: &'static str,
    /// Rows.
    pub rows: u64,
    /// Bytes of a row's content, at most 65,536.
    pub content_bytes: usize,
    /// Of a hundred transactions, how many read.
    pub read_percent: u64,
    /// Which keys.
    pub keys: Keys,
    /// What its procedures are in.
    form: Form,
    /// Updates that the rows counted before the run.
    before: i64,
}

impl KeyValue {
    /// Reads and updates.
    pub fn new(
        rows: u64,
        content_bytes: usize,
        read_percent: u64,
        keys: Keys,
    ) -> Result<KeyValue, String> {
        if rows == 0 || read_percent > 100 {
            return Err("there must be a row, and at most 100 % reads".to_string());
        }
        if content_bytes == 0 || content_bytes > 65_536 {
            return Err(format!("{content_bytes} bytes > a content has 1 to 65536 bytes"));
        }
        let name = if rows == 1 { "contention" } else { "key-value" };
        Ok(KeyValue {
            name,
            rows,
            content_bytes,
            read_percent,
            keys,
            form: Form::Native,
            before: 0,
        })
    }

    /// The same with procedures of another form.
    pub fn in_form(self, form: Form) -> KeyValue {
        KeyValue { form, ..self }
    }

    fn content(&self, random: &mut SeededRandom, out: &mut String) {
        out.clear();
        letters(random, self.content_bytes, out);
    }
}

impl Workload for KeyValue {
    fn name(&self) -> &'static str {
        self.name
    }

    fn transactions(&self) -> &[&'static str] {
        &["READ", "UPDATE"]
    }

    fn options(&self) -> Vec<(&'static str, String)> {
        let keys = if self.keys == Keys::Uniform { "uniform" } else { "zipfian" };
        vec![
            ("rows", self.rows.to_string()),
            ("content_bytes", self.content_bytes.to_string()),
            ("read_percent", self.read_percent.to_string()),
            ("keys", keys.to_string()),
            ("procedures", self.form.name().to_string()),
        ]
    }

    fn schema(&self) -> Vec<String> {
        vec![TABLES.to_string()]
    }

    fn procedures(&self) -> Vec<String> {
        let native = [
            format!("CREATE PROCEDURE {ROUTE_READ} FROM NATIVE KeyValueRead;\n"),
            format!("CREATE PROCEDURE {ROUTE_UPDATE} FROM NATIVE KeyValueUpdate;\n"),
        ];
        let made = match self.form {
            Form::Native => native.concat(),
            Form::Java(_) => Form::in_package(&native.concat(), "keyvalue"),
            Form::Sql => format!(
                "CREATE PROCEDURE KeyValueRead {ROUTE_READ} AS {READ_TEXT}\n\
                 CREATE PROCEDURE KeyValueUpdate {ROUTE_UPDATE} AS {UPDATE_TEXT}\n"
            ),
        };
        vec![DROPPED.to_string(), made]
    }

    fn classes(&self) -> Result<Option<&[u8]>, String> {
        self.form.classes()
    }

    fn tables(&self) -> Vec<TableToFill> {
        let columns = vec![
            ("id", SqlType::BigInt),
            ("changes", SqlType::BigInt),
            ("content", SqlType::Varchar),
        ];
        let rows = self.rows;
        vec![TableToFill { name: "key_value", columns, partitioned_by: Some(0), rows }]
    }

    fn fill(&self, rows: &mut dyn RowSink) -> Result<(), String> {
        let mut random = SeededRandom::new(self.rows);
        let mut content = String::new();
        (0..self.rows as i64).try_for_each(|id| {
            self.content(&mut random, &mut content);
            rows.row(0, &[Datum::Int(id), Datum::Int(0), Datum::Text(&content)])
        })
    }

    fn survey(&self, database: &mut dyn Database) -> Result<Found, String> {
        let Ok(rows) = database.number("SELECT COUNT(*) FROM key_value;") else {
            return Ok(Found::Nothing);
        };
        match rows {
            0 => Ok(Found::Tables),
            rows if rows == self.rows as i64 => {
                check_content(database, "key_value", self.content_bytes)?;
                Ok(Found::Rows)
            }
            rows => Err(format!("key_value has {rows} rows, this run is for {}", self.rows)),
        }
    }

    fn begin(&mut self, database: &mut dyn Database) -> Result<(), String> {
        self.before = database.number("SELECT SUM(changes) FROM key_value;")?;
        Ok(())
    }

    fn session(&self, number: u64, seed: u64) -> Box<dyn Session> {
        let skew = (self.keys == Keys::Zipfian).then(|| Zipfian::new(self.rows, YCSB_THETA));
        let mut random = session_random(seed, number);
        let mut content = String::new();
        self.content(&mut random, &mut content);
        let shape = self.clone();
        Box::new(Client { shape, random, skew, content, last: READ, counts: [0; 2] })
    }

    fn counters(&self) -> &[&'static str] {
        &["updates", "unanswered updates"]
    }

    fn check(
        &self,
        database: &mut dyn Database,
        counts: &[u64],
        _complete: bool,
    ) -> Result<Vec<Check>, String> {
        let count = |place: usize| counts.get(place).copied().unwrap_or(0) as i64;
        let rows = database.number("SELECT COUNT(*) FROM key_value;")?;
        let changes = database.number("SELECT SUM(changes) FROM key_value;")? - self.before;
        Ok(vec![
            Check::equal("rows = rows loaded", rows, self.rows as i64),
            Check::within("changes of all rows = answered updates", changes, count(0), count(1)),
        ])
    }
}

struct Client {
    shape: KeyValue,
    random: SeededRandom,
    skew: Option<Zipfian>,
    content: String,
    last: usize,
    counts: [u64; 2],
}

impl Session for Client {
    fn next_call(&mut self, parameters: &mut ParameterWriter) -> NextCall {
        let id = match &self.skew {
            Some(skew) => skew.draw_scattered(&mut self.random),
            None => self.random.below(self.shape.rows),
        } as i64;
        if self.random.below(100) < self.shape.read_percent {
            self.last = READ;
            parameters.bigint(id);
            return NextCall { transaction: READ, procedure: "KeyValueRead" };
        }
        self.last = UPDATE;
        // A new content that costs little to draw: the old one with another beginning.
        let first = (b'a' + self.random.below(26) as u8) as char;
        self.content.replace_range(..1, first.encode_utf8(&mut [0; 4]));
        parameters.text(&self.content).bigint(id);
        NextCall { transaction: UPDATE, procedure: "KeyValueUpdate" }
    }

    fn answered(&mut self, answer: &Answer<'_>) -> Next {
        let good = match self.last {
            READ => answer.is_success() && answer.row_count(0) == Some(1),
            _ => answer.is_success() && answer.number(0) == Some(1),
        };
        self.counts[0] += u64::from(self.last == UPDATE && good);
        Next::end(if good { Verdict::Good } else { Verdict::Error })
    }

    fn lost(&mut self) {
        self.counts[1] += u64::from(self.last == UPDATE);
    }

    fn counts(&self) -> &[u64] {
        &self.counts
    }
}
