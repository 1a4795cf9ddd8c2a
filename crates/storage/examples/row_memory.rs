//! Memory per row of TPC-C's two largest tables with their indexes, against the raw bytes of the
//! rows: for each value the bytes of its column's type, for text its length. The tables are
//! VoltDB's: CUSTOMER with its primary key, its unique constraint and its index by name;
//! ORDER_LINE with its primary key and its index by order. Rows are loaded in the order of the
//! warehouse's initial population; then new orders come, one district after the other.
//!
//! ```text
//! cargo run --release -p lockstep-storage --example row_memory
//! ```

use lockstep_base::random::SeededRandom;
use lockstep_storage::{ColumnLayout, IndexDefinition, KeySource, TableLayout, UndoLog};
use lockstep_storage::{Table, Tables};
use lockstep_types::{Datum, SqlType, TableId, Value};

const CUSTOMER: &[(SqlType, u32)] = &[
    (SqlType::Integer, 0),
    (SqlType::TinyInt, 0),
    (SqlType::SmallInt, 0),
    (SqlType::Varchar, 32),
    (SqlType::Varchar, 2),
    (SqlType::Varchar, 32),
    (SqlType::Varchar, 32),
    (SqlType::Varchar, 32),
    (SqlType::Varchar, 32),
    (SqlType::Varchar, 2),
    (SqlType::Varchar, 9),
    (SqlType::Varchar, 32),
    (SqlType::Timestamp, 0),
    (SqlType::Varchar, 2),
    (SqlType::Float, 0),
    (SqlType::Float, 0),
    (SqlType::Float, 0),
    (SqlType::Float, 0),
    (SqlType::Integer, 0),
    (SqlType::Integer, 0),
    (SqlType::Varchar, 500),
];

const ORDER_LINE: &[(SqlType, u32)] = &[
    (SqlType::Integer, 0),
    (SqlType::TinyInt, 0),
    (SqlType::SmallInt, 0),
    (SqlType::Integer, 0),
    (SqlType::Integer, 0),
    (SqlType::SmallInt, 0),
    (SqlType::Timestamp, 0),
    (SqlType::Integer, 0),
    (SqlType::Float, 0),
    (SqlType::Varchar, 32),
];

const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

fn table(name: &str, columns: &[(SqlType, u32)], indexes: &[(bool, &[usize])]) -> Table {
    // Lengths are in characters, of up to four bytes.
    let columns: Vec<ColumnLayout> = columns
        .iter()
        .map(|(sql_type, length)| ColumnLayout::variable(*sql_type, length * 4))
        .collect();
    let mut table = Table::new(name, TableLayout::new(&columns).expect("a legal layout"));
    for (unique, columns) in indexes {
        let source = KeySource::Columns(columns.to_vec());
        let definition = IndexDefinition { name: "I".into(), unique: *unique, source };
        table.add_index(definition).expect("a legal index");
    }
    table
}

fn text(random: &mut SeededRandom, least: i64, most: i64) -> Value {
    let length = random.between(least, most);
    let letters = (0..length).map(|_| char::from(b'a' + random.below(26) as u8));
    Value::Text(letters.collect::<String>().into())
}

fn customer(random: &mut SeededRandom, district: i64, number: i64) -> Vec<Value> {
    let name = if number <= 1000 { number - 1 } else { random.below(1000) as i64 };
    let syllable = |place: i64| SYLLABLES[(place % 10) as usize];
    let last = format!("{}{}{}", syllable(name / 100), syllable(name / 10), syllable(name));
    vec![
        Value::Int(number),
        Value::Int(district),
        Value::Int(1),
        text(random, 8, 16),
        Value::Text("OE".into()),
        Value::Text(last.into()),
        text(random, 10, 20),
        text(random, 10, 20),
        text(random, 10, 20),
        text(random, 2, 2),
        text(random, 9, 9),
        text(random, 16, 16),
        Value::Timestamp(1_700_000_000_000_000),
        Value::Text("GC".into()),
        Value::Float(50_000.0),
        Value::Float(0.1),
        Value::Float(-10.0),
        Value::Float(10.0),
        Value::Int(1),
        Value::Int(0),
        text(random, 300, 500),
    ]
}

fn order_line(random: &mut SeededRandom, district: i64, order: i64, line: i64) -> Vec<Value> {
    vec![
        Value::Int(order),
        Value::Int(district),
        Value::Int(1),
        Value::Int(line),
        Value::Int(random.between(1, 100_000)),
        Value::Int(1),
        Value::Timestamp(1_700_000_000_000_000),
        Value::Int(5),
        Value::Float(0.0),
        text(random, 24, 24),
    ]
}

/// A table that is filled, and the raw bytes of what went in.
struct Filled {
    tables: Tables,
    id: TableId,
    undo: UndoLog,
    raw_bytes: usize,
}

impl Filled {
    fn new(table: Table) -> Filled {
        let mut tables = Tables::new();
        let id = tables.add(table);
        Filled { tables, id, undo: UndoLog::default(), raw_bytes: 0 }
    }

    fn insert(&mut self, row: &[Value]) {
        let values: Vec<Datum<'_>> = row.iter().map(Value::as_datum).collect();
        // Two customers of a district may draw the same name: one of them is enough.
        if self.tables[self.id].insert(&values, &mut self.undo).is_err() {
            return;
        }
        self.undo.release_all(&mut self.tables);
        let layout = self.tables[self.id].layout();
        for (value, column) in values.iter().zip(layout.columns()) {
            self.raw_bytes += match value {
                Datum::Text(text) => text.len(),
                _ => column.sql_type.fixed_bytes().unwrap_or(0),
            };
        }
    }

    fn report(&self, when: &str) {
        let table = &self.tables[self.id];
        let rows = table.row_count() as f64;
        let memory = table.memory();
        let indexes: Vec<usize> = table.indexes().iter().map(|i| i.allocated_bytes()).collect();
        let all = memory.allocated_bytes() + indexes.iter().sum::<usize>();
        let per_row = |bytes: usize| bytes as f64 / rows;
        let indexes: Vec<String> =
            indexes.iter().map(|bytes| format!("{:.1}", per_row(*bytes))).collect();
        println!(
            "{:10} {when:8} {:7} rows, raw {:6.1} B: slots {:6.1}, strings {:6.1}, indexes {:18} \
             = {:6.1} B, {:.2} x raw",
            table.name(),
            table.row_count(),
            per_row(self.raw_bytes),
            per_row(memory.block_bytes),
            per_row(memory.string_allocated_bytes),
            indexes.join(" + "),
            per_row(all),
            all as f64 / self.raw_bytes as f64,
        );
    }
}

fn main() {
    let mut random = SeededRandom::new(1);
    let keys: &[(bool, &[usize])] =
        &[(true, &[2, 1, 0]), (true, &[2, 1, 5, 3]), (false, &[2, 1, 5])];
    let mut customers = Filled::new(table("CUSTOMER", CUSTOMER, keys));
    for district in 1..=10 {
        for number in 1..=3000 {
            customers.insert(&customer(&mut random, district, number));
        }
    }
    customers.report("loaded");
    let keys: &[(bool, &[usize])] = &[(true, &[2, 1, 0, 3]), (false, &[2, 1, 0])];
    let mut lines = Filled::new(table("ORDER_LINE", ORDER_LINE, keys));
    for district in 1..=10 {
        for order in 1..=3000 {
            for line in 1..=random.between(5, 15) {
                lines.insert(&order_line(&mut random, district, order, line));
            }
        }
    }
    lines.report("loaded");
    for order in 3001..=9000 {
        for district in 1..=10 {
            for line in 1..=random.between(5, 15) {
                lines.insert(&order_line(&mut random, district, order, line));
            }
        }
    }
    lines.report("+ orders");
}
