//! Memory of rows of TPC-C with their indexes: what the host states, and what its process grew
//! by. Measured in a process of its own, so that nothing else grows it.

use crate::Plan;
use crate::systems::{Argument, Checksum, Ours};
use lockstep_base::random::SeededRandom;
use lockstep_bench::process::resident_bytes_of;
use serde_json::{Value, json};
use std::process::Command;

/// Tables of TPC-C as its benchmarks declare them.
const SCHEMA: &str = "\
CREATE TABLE customer (
  c_id INTEGER NOT NULL, c_d_id TINYINT NOT NULL, c_w_id SMALLINT NOT NULL,
  c_first VARCHAR(32), c_middle VARCHAR(2), c_last VARCHAR(32), c_street_1 VARCHAR(32),
  c_street_2 VARCHAR(32), c_city VARCHAR(32), c_state VARCHAR(2), c_zip VARCHAR(9),
  c_phone VARCHAR(32), c_since TIMESTAMP, c_credit VARCHAR(2), c_credit_lim FLOAT,
  c_discount FLOAT, c_balance FLOAT, c_ytd_payment FLOAT, c_payment_cnt INTEGER,
  c_delivery_cnt INTEGER, c_data VARCHAR(500), PRIMARY KEY (c_w_id, c_d_id, c_id));
PARTITION TABLE customer ON COLUMN c_w_id;
CREATE INDEX customer_name ON customer (c_w_id, c_d_id, c_last, c_first);
CREATE TABLE order_line (
  ol_o_id INTEGER NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id SMALLINT NOT NULL,
  ol_number INTEGER NOT NULL, ol_i_id INTEGER, ol_supply_w_id SMALLINT, ol_delivery_d TIMESTAMP,
  ol_quantity INTEGER, ol_amount FLOAT, ol_dist_info VARCHAR(32),
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
PARTITION TABLE order_line ON COLUMN ol_w_id;";

/// What was found of a table.
#[derive(Debug, Clone)]
pub struct Memory {
    /// Its name.
    pub table: String,
    /// Bytes of the values of a row: fixed widths, and text with nothing around it.
    pub raw: f64,
    /// What the host states, indexes included.
    pub stated: f64,
    /// Of that, indexes.
    pub stated_indexes: f64,
    /// What the process grew by.
    pub grown: f64,
    /// Rows that were inserted between the two readings.
    pub rows: u64,
}

/// The name of the subcommand that this program starts itself with.
pub const PROBE: &str = "memory-probe";

/// Measures it in processes of their own, if `plan.only` wants it.
///
/// # Errors
/// What a probe says.
pub fn measure(plan: &Plan) -> Result<Vec<Memory>, String> {
    if !plan.is_wanted("memory") {
        return Ok(Vec::new());
    }
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let share = if plan.quick { 100 } else { 1 };
    let mut found = Vec::new();
    for (table, rows) in [("CUSTOMER", 120_000), ("ORDER_LINE", 2_000_000)] {
        let output = Command::new(&program)
            .args([PROBE, table, &(rows / share).to_string()])
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(format!("memory: {}", String::from_utf8_lossy(&output.stderr)));
        }
        let read: Value =
            serde_json::from_slice(&output.stdout).map_err(|error| error.to_string())?;
        let number = |key: &str| read[key].as_f64().unwrap_or(0.0);
        let memory = Memory {
            table: table.to_string(),
            raw: number("raw"),
            stated: number("stated"),
            stated_indexes: number("indexes"),
            grown: number("grown"),
            rows: number("rows") as u64,
        };
        eprintln!("memory of a row: {memory:?}");
        found.push(memory);
    }
    Ok(found)
}

/// A reading: stated bytes, those of indexes, resident bytes, raw bytes.
type Reading = [f64; 4];

/// The work of the probe: a quarter of the rows first, which makes the buffers grow that every
/// host has, then the rest.
///
/// # Errors
/// A row is refused.
pub fn probe(table: &str, rows: u64) -> Result<(), String> {
    let mut ours = Ours::new()?;
    ours.execute(SCHEMA)?;
    let mut random = SeededRandom::new(7);
    let mut raw = 0;
    let mut insert = |ours: &mut Ours, runs: std::ops::Range<u64>| -> Result<Reading, String> {
        let (mut arguments, mut sink) = (Vec::new(), Checksum::default());
        for run in runs {
            arguments.clear();
            raw += match table {
                "CUSTOMER" => customer(run as i64, &mut random, &mut arguments),
                _ => order_line(run as i64, &mut random, &mut arguments),
            };
            ours.call(&format!("{table}.insert"), &arguments, &mut sink)?;
        }
        let statistics = ours.host.table_statistics();
        let of_table = statistics.iter().find(|s| s.name == table).ok_or("no such table")?;
        let indexes: usize = of_table.indexes.iter().map(|index| index.allocated_bytes).sum();
        let stated = of_table.memory.allocated_bytes() + indexes;
        let resident = resident_bytes_of("self").map_err(|error| error.to_string())?;
        Ok([stated as f64, indexes as f64, resident as f64, raw as f64])
    };
    let first = insert(&mut ours, 0..rows / 4)?;
    let second = insert(&mut ours, rows / 4..rows)?;
    let added = rows - rows / 4;
    let per_row = |place: usize| (second[place] - first[place]) / added as f64;
    println!(
        "{}",
        json!({
            "stated": per_row(0), "indexes": per_row(1), "grown": per_row(2), "raw": per_row(3),
            "rows": added,
        })
    );
    Ok(())
}

/// Text of a length between two bounds.
fn text(random: &mut SeededRandom, least: i64, most: i64) -> (Argument, usize) {
    const LETTERS: &str = "the quick brown fox jumps over the lazy dog and runs away from it until \
        the evening comes and stars shine over the hills where it lives with its family of eight \
        small foxes who never saw a dog in their lives and so do not believe a word of what they \
        are told about it when they go to sleep, which is late, since there is so much else to \
        talk about: rabbits, the river, the moon, the man with the lamp who walks along the road \
        at night, and what may lie behind the last of the hills, where nobody has been as yet.";
    let length = random.between(least, most) as usize;
    let start = random.below((LETTERS.len() - length) as u64 + 1) as usize;
    (Argument::Text(&LETTERS[start..start + length]), length)
}

/// Pushes a customer; returns its raw bytes.
fn customer(run: i64, random: &mut SeededRandom, out: &mut Vec<Argument>) -> usize {
    use Argument::{Float, Int};
    // 3 000 customers of each of ten districts of a warehouse.
    out.extend([Int(run / 10 % 3000), Int(run % 10), Int(run / 30_000)]);
    let mut raw = 4 + 1 + 2;
    let mut push_text = |out: &mut Vec<Argument>, least, most| {
        let (argument, bytes) = text(random, least, most);
        out.push(argument);
        raw += bytes;
    };
    for (least, most) in
        [(8, 16), (2, 2), (6, 18), (10, 20), (10, 20), (10, 20), (2, 2), (9, 9), (16, 16)]
    {
        push_text(out, least, most);
    }
    out.push(Int(1_700_000_000_000_000 + run));
    push_text(out, 2, 2);
    out.extend([Float(50_000.0), Float(0.25), Float(-10.0), Float(10.0), Int(1), Int(0)]);
    push_text(out, 300, 500);
    raw + 8 + 4 * 8 + 2 * 4
}

/// Pushes an order line; returns its raw bytes.
fn order_line(run: i64, random: &mut SeededRandom, out: &mut Vec<Argument>) -> usize {
    use Argument::{Float, Int};
    // Ten lines an order; the orders of ten districts in turns.
    let order = run / 10;
    out.extend([Int(order / 10), Int(order % 10), Int(0), Int(run % 10)]);
    out.extend([Int(random.below(100_000) as i64), Int(0), Int(1_700_000_000_000_000 + run)]);
    out.extend([Int(5), Float(random.below(1_000_000) as f64 / 100.0)]);
    let (argument, bytes) = text(random, 24, 24);
    out.push(argument);
    4 + 1 + 2 + 4 + 4 + 2 + 8 + 4 + 8 + bytes
}
