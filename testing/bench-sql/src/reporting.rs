//! Reporting queries over a large table: from the text to the last value of the result.

use crate::Plan;
use crate::systems::{
    Argument, Checksum, Keeper, Ours, Prepared, compare, open_sqlite, sqlite_error,
};
use crate::transactional::Pair;
use lockstep_base::random::SeededRandom;
use rusqlite::Connection;
use std::time::Instant;

const OUR_SCHEMA: &str = "\
CREATE TABLE sale (id BIGINT NOT NULL, customer INTEGER NOT NULL, product INTEGER NOT NULL,
  region INTEGER NOT NULL, day INTEGER NOT NULL, quantity INTEGER NOT NULL, amount BIGINT NOT NULL,
  discount FLOAT NOT NULL, status VARCHAR(12) NOT NULL, note VARCHAR(48), PRIMARY KEY (id));
PARTITION TABLE sale ON COLUMN id;
CREATE TABLE customer (id INTEGER NOT NULL, segment INTEGER NOT NULL, nation INTEGER NOT NULL,
  name VARCHAR(32) NOT NULL, PRIMARY KEY (id));
CREATE TABLE nation (id INTEGER NOT NULL, name VARCHAR(16) NOT NULL, PRIMARY KEY (id));";

const SQLITE_SCHEMA: &str = "\
CREATE TABLE sale (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, product INTEGER NOT NULL,
  region INTEGER NOT NULL, day INTEGER NOT NULL, quantity INTEGER NOT NULL, amount INTEGER NOT NULL,
  discount REAL NOT NULL, status TEXT NOT NULL, note TEXT);
CREATE TABLE customer (id INTEGER PRIMARY KEY, segment INTEGER NOT NULL, nation INTEGER NOT NULL,
  name TEXT NOT NULL);
CREATE TABLE nation (id INTEGER PRIMARY KEY, name TEXT NOT NULL);";

/// A query with the name that `--only` knows it by. The same text goes to both.
struct Report {
    name: &'static str,
    query: &'static str,
    /// The order of its rows is fixed.
    ordered: bool,
}

const fn any(name: &'static str, query: &'static str) -> Report {
    Report { name, query, ordered: false }
}

const fn ordered(name: &'static str, query: &'static str) -> Report {
    Report { name, query, ordered: true }
}

const REPORTS: &[Report] = &[
    any(
        "scan_aggregate",
        "SELECT COUNT(*), SUM(amount), MIN(amount), MAX(day), AVG(discount) FROM sale",
    ),
    any(
        "filter_arithmetic",
        "SELECT COUNT(*), SUM(amount * quantity) FROM sale \
         WHERE quantity * 3 + region > 20 AND amount - day * 10 < 40000",
    ),
    any("filter_like", "SELECT COUNT(*) FROM sale WHERE note LIKE '%parcel%'"),
    any(
        "group_few",
        "SELECT region, COUNT(*), SUM(amount), MAX(quantity) FROM sale GROUP BY region",
    ),
    any("group_many", "SELECT customer, COUNT(*), SUM(amount) FROM sale GROUP BY customer"),
    any("group_text", "SELECT status, COUNT(*), SUM(quantity) FROM sale GROUP BY status"),
    any(
        "join_aggregate",
        "SELECT c.segment, COUNT(*), SUM(s.amount) FROM sale s \
         JOIN customer c ON c.id = s.customer GROUP BY c.segment",
    ),
    any(
        "join_three",
        "SELECT n.name, COUNT(*), SUM(s.amount) FROM sale s JOIN customer c ON c.id = s.customer \
         JOIN nation n ON n.id = c.nation WHERE s.day < 180 GROUP BY n.name",
    ),
    ordered("top_n", "SELECT id, amount FROM sale ORDER BY amount DESC, id LIMIT 10"),
    ordered("order_all", "SELECT id, amount FROM sale ORDER BY amount, id"),
    any("count_distinct", "SELECT COUNT(DISTINCT customer) FROM sale"),
    any("distinct", "SELECT DISTINCT region, day FROM sale"),
    any(
        "window",
        "SELECT MAX(place), SUM(running) FROM (SELECT RANK() OVER (PARTITION BY customer \
         ORDER BY day) AS place, SUM(quantity) OVER (PARTITION BY customer ORDER BY day) \
         AS running FROM sale) w",
    ),
    any(
        "semi_join",
        "SELECT COUNT(*), SUM(amount) FROM sale WHERE customer IN \
         (SELECT id FROM customer WHERE segment = 3)",
    ),
];

const CUSTOMERS: u64 = 10_000;
const NATIONS: u64 = 25;

fn customer(run: i64, random: &mut SeededRandom, out: &mut Vec<Argument>) {
    let (segment, nation) = (random.below(8) as i64, random.below(NATIONS) as i64);
    out.extend([Argument::Int(run), Argument::Int(segment), Argument::Int(nation)]);
    out.push(Argument::Text("a customer's name"));
}

fn nation(run: i64, _: &mut SeededRandom, out: &mut Vec<Argument>) {
    const NAMES: [&str; 5] = ["Alba", "Borneo", "Chile", "Denmark", "Estonia"];
    out.extend([Argument::Int(run), Argument::Text(NAMES[run as usize % NAMES.len()])]);
}

fn sale(run: i64, random: &mut SeededRandom, out: &mut Vec<Argument>) {
    const STATUS: [&str; 6] = ["open", "packed", "shipped", "delivered", "returned", "cancelled"];
    const NOTES: [&str; 8] = [
        "leave it at the door",
        "ring twice",
        "a parcel for the neighbour",
        "handle with care, glass inside",
        "no note",
        "deliver after six in the evening",
        "second parcel follows",
        "gift wrapping wanted",
    ];
    let mut below = |bound| random.below(bound) as i64;
    out.push(Argument::Int(run));
    for bound in [CUSTOMERS, 1_000, 8, 365, 10, 100_000] {
        out.push(Argument::Int(below(bound)));
    }
    out.push(Argument::Float(below(1000) as f64 / 1000.0));
    out.push(Argument::Text(STATUS[below(6) as usize]));
    out.push(Argument::Text(NOTES[below(8) as usize]));
}

type Row = fn(i64, &mut SeededRandom, &mut Vec<Argument>);

fn fill(ours: &mut Ours, sqlite: &Connection, rows: i64) -> Result<(), String> {
    let tables: [(&str, &str, i64, Row); 3] = [
        ("SALE.insert", "INSERT INTO sale VALUES (?,?,?,?,?,?,?,?,?,?)", rows, sale),
        ("CUSTOMER.insert", "INSERT INTO customer VALUES (?,?,?,?)", CUSTOMERS as i64, customer),
        ("NATION.insert", "INSERT INTO nation VALUES (?,?)", NATIONS as i64, nation),
    ];
    let mut arguments = Vec::new();
    let mut sink = Checksum::default();
    sqlite.execute_batch("BEGIN").map_err(sqlite_error)?;
    for (procedure, text, count, row) in tables {
        let mut random = SeededRandom::new(count as u64);
        let mut prepared = Prepared::new(sqlite, &[text.to_string()])?;
        for run in 0..count {
            arguments.clear();
            row(run, &mut random, &mut arguments);
            ours.call(procedure, &arguments, &mut sink)?;
            prepared.run(&arguments, &mut sink)?;
        }
    }
    sqlite.execute_batch("COMMIT; ANALYZE").map_err(sqlite_error)
}

/// Measures all whose names hold `plan.only`.
///
/// # Errors
/// A system refuses a query, or they disagree.
pub fn all(plan: &Plan) -> Result<Vec<Pair>, String> {
    let wanted: Vec<_> = REPORTS.iter().filter(|r| plan.is_wanted(r.name)).collect();
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let sqlite = open_sqlite()?;
    sqlite.execute_batch(SQLITE_SCHEMA).map_err(sqlite_error)?;
    let mut ours = Ours::new()?;
    ours.execute(OUR_SCHEMA)?;
    eprintln!("loading {} rows into both", plan.report_rows);
    fill(&mut ours, &sqlite, plan.report_rows)?;
    let mut pairs = Vec::new();
    for report in wanted {
        let pair = measure(plan, report, &mut ours, &sqlite);
        let pair = pair.map_err(|error| format!("{}: {error}", report.name))?;
        eprintln!(
            "{:26} {:>9.2} ms, SQLite {:>9.2} ms, {:.2} x",
            pair.name,
            pair.ours() / 1e6,
            pair.sqlite() / 1e6,
            pair.ratio()
        );
        pairs.push(pair);
    }
    Ok(pairs)
}

fn measure(
    plan: &Plan,
    report: &Report,
    ours: &mut Ours,
    sqlite: &Connection,
) -> Result<Pair, String> {
    let mut prepared = Prepared::new(sqlite, &[report.query.to_string()])?;
    let (mut our_rows, mut their_rows) = (Keeper::default(), Keeper::default());
    ours.ad_hoc(report.query, &mut our_rows)?;
    prepared.run(&[], &mut their_rows)?;
    compare(our_rows.rows, their_rows.rows, report.ordered)?;
    let mut pair = Pair { name: report.name, ours_ns: Vec::new(), sqlite_ns: Vec::new() };
    for _ in 0..plan.repeats {
        let (mut our_sum, mut their_sum) = (Checksum::default(), Checksum::default());
        let start = Instant::now();
        ours.ad_hoc(report.query, &mut our_sum)?;
        pair.ours_ns.push(start.elapsed().as_nanos() as f64);
        let start = Instant::now();
        prepared.run(&[], &mut their_sum)?;
        pair.sqlite_ns.push(start.elapsed().as_nanos() as f64);
        if our_sum != their_sum {
            return Err(format!("results {our_sum:?}, SQLite gives {their_sum:?}"));
        }
    }
    Ok(pair)
}
