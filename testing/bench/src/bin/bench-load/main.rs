//! `bench-load`: `lockstep load csv` beside PostgreSQL's COPY, on order lines of TPC-C.
//!
//! Both clients read the same file and send it to a server of their own on this machine, each
//! with the table's primary key and without durability; the time is that of the client from its
//! start to its end. Ratios of one run, medians of repeats in turns.

use clap::{Arg, ArgMatches, Command, value_parser};
use lockstep_base::random::SeededRandom;
use lockstep_bench::postgres::{self, Postgres};
use lockstep_bench::process::ServerProcess;
use lockstep_bench::program;
use lockstep_bench::report::grouped;
use lockstep_bench::verdict::{Bound, align, median, render_options, times, verdict};
use lockstep_client::{ConnectOptions, Connection};
use lockstep_types::Value;
use serde_json::json;
use std::fmt::Write as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{ExitCode, Stdio};
use std::time::Instant;

const OUR_SCHEMA: &str = "\
CREATE TABLE order_line (
  ol_o_id INTEGER NOT NULL, ol_d_id TINYINT NOT NULL, ol_w_id SMALLINT NOT NULL,
  ol_number INTEGER NOT NULL, ol_i_id INTEGER, ol_supply_w_id SMALLINT, ol_delivery_d TIMESTAMP,
  ol_quantity INTEGER, ol_amount FLOAT, ol_dist_info VARCHAR(32),
  PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number));
PARTITION TABLE order_line ON COLUMN ol_w_id;";

const POSTGRES_SCHEMA: &str = "\
CREATE TABLE order_line (
  ol_o_id integer NOT NULL, ol_d_id smallint NOT NULL, ol_w_id smallint NOT NULL,
  ol_number integer NOT NULL, ol_i_id integer, ol_supply_w_id smallint,
  ol_delivery_d timestamp, ol_quantity integer, ol_amount double precision,
  ol_dist_info varchar(32), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number))";

/// Durability is left out on both sides: no sync, and no log of rows that are copied into a table
/// that the same transaction emptied.
const SETTINGS: &[&str] = &[
    "fsync=off",
    "synchronous_commit=off",
    "full_page_writes=off",
    "wal_level=minimal",
    "max_wal_senders=0",
    "max_wal_size=8GB",
    "shared_buffers=1GB",
    "maintenance_work_mem=256MB",
    "autovacuum=off",
];

fn command() -> Command {
    let path = |name: &'static str, value: &'static str, help: &'static str| {
        let parser = value_parser!(PathBuf);
        Arg::new(name).long(name).value_name(value).value_parser(parser).help(help)
    };
    let number = |name: &'static str, default: &'static str, most: u64, help: &'static str| {
        let range = value_parser!(u64).range(1..=most);
        Arg::new(name).long(name).value_parser(range).default_value(default).help(help)
    };
    Command::new("bench-load")
        .about("lockstep load csv beside PostgreSQL's COPY, as a ratio from one run")
        .arg(program::quick_flag("Few rows once: shows that it runs, measures nothing"))
        .arg(number("rows", "1000000", 1 << 30, "Rows of the file"))
        .arg(number("repeats", "3", 100, "Repeats; the median counts"))
        .arg(path("lockstep", "PROGRAM", "The server [default: the one beside this program]"))
        .arg(path("postgres", "FOLDER", "PostgreSQL's programs [default: the newest installed]"))
        .arg(program::json_option("Write figures and samples as JSON"))
}

fn main() -> ExitCode {
    program::exit_code("bench-load", run(&command().get_matches()))
}

/// A file that is removed with this.
struct Rows(PathBuf);

impl Rows {
    /// Writes N order lines.
    fn write(count: u64) -> Result<Rows, String> {
        let name = format!("order-lines-{}.csv", std::process::id());
        let rows = Rows(std::env::temp_dir().join(name));
        let failed = |error: std::io::Error| format!("{}: {error}", rows.0.display());
        let mut file = std::io::BufWriter::new(std::fs::File::create(&rows.0).map_err(failed)?);
        let mut random = SeededRandom::new(15);
        let mut line = String::new();
        for number in 0..count {
            line.clear();
            write_row(&mut line, number, &mut random);
            file.write_all(line.as_bytes()).map_err(failed)?;
        }
        file.flush().map_err(failed)?;
        Ok(rows)
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Rows {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// One order line: ten to an order, orders of ten districts in turns, a third not delivered.
fn write_row(line: &mut String, number: u64, random: &mut SeededRandom) {
    let order = number / 10;
    let (district, warehouse, id) = (order % 10 + 1, order / 30_000 + 1, order / 10 % 3_000 + 1);
    let item = random.below(100_000) + 1;
    let delivered = match random.below(3) {
        0 => String::new(),
        _ => format!("2025-03-{:02} 12:{:02}:00", random.below(28) + 1, random.below(60)),
    };
    let amount = random.below(1_000_000) as f64 / 100.0;
    let text: String = (0..24).map(|_| (b'a' + random.below(26) as u8) as char).collect();
    // Writing into a String does not fail.
    let _ = writeln!(
        line,
        "{id},{district},{warehouse},{},{item},{warehouse},{delivered},5,{amount},{text}",
        number % 10 + 1
    );
}

/// Runs a client to its end; its seconds.
fn seconds_of(command: &mut std::process::Command) -> Result<f64, String> {
    command.stdin(Stdio::null()).stdout(Stdio::null());
    let start = Instant::now();
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    match status.success() {
        true => Ok(start.elapsed().as_secs_f64()),
        false => Err(format!("{command:?} ended with {status}")),
    }
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    let quick = matches.get_flag("quick");
    let number = |name: &str| matches.get_one::<u64>(name).copied().unwrap_or(1);
    let path = |name: &str| matches.get_one::<PathBuf>(name).cloned();
    let (count, repeats) = if quick { (10_000, 1) } else { (number("rows"), number("repeats")) };
    let programs = postgres::find(path("postgres").as_deref())?;
    let program = match path("lockstep") {
        Some(program) => program,
        None => std::env::current_exe().map_err(|e| e.to_string())?.with_file_name("lockstep"),
    };
    let rows = Rows::write(count)?;
    let folder = std::env::temp_dir().join(format!("bench-load-{}", std::process::id()));
    let postgres = Postgres::start(&programs, &folder, SETTINGS, None)?;
    postgres.sql(POSTGRES_SCHEMA)?;
    let mut start = std::process::Command::new(&program);
    start.args(["start", "--sites", "1", "--client", "127.0.0.1:0", "--admin", "127.0.0.1:0"]);
    let server = ServerProcess::start_with_ready_line(start).map_err(|error| error.to_string())?;
    let address = server.address.to_string();
    let text = |error: lockstep_client::ClientError| error.to_string();
    let mut connection = Connection::connect(&address, &ConnectOptions::default()).map_err(text)?;
    connection.sql(OUR_SCHEMA).map_err(text)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for repeat in 1..=repeats {
        connection.sql("TRUNCATE TABLE order_line").map_err(text)?;
        let mut load = std::process::Command::new(&program);
        load.args(["load", "csv", "--table", "order_line", "--server", &address]);
        ours.push(count as f64 / seconds_of(load.arg(rows.path()))?);
        let loaded = connection.sql("SELECT COUNT(*) FROM order_line").map_err(text)?;
        let loaded = &loaded[0].rows[0][0];
        if *loaded != Value::Int(count as i64) {
            return Err(format!("{loaded} rows are in the table, {count} in the file"));
        }
        let copy = format!("\\copy order_line FROM '{}' WITH (FORMAT csv)", rows.path().display());
        let mut client = postgres.client();
        client.args(["-c", "BEGIN", "-c", "TRUNCATE order_line", "-c", &copy, "-c", "COMMIT"]);
        theirs.push(count as f64 / seconds_of(&mut client)?);
        let copied = postgres.sql("SELECT COUNT(*) FROM order_line")?;
        if copied != count.to_string() {
            return Err(format!("PostgreSQL has {copied} rows, the file {count}"));
        }
        let (our, their) = (ours[ours.len() - 1] as u64, theirs[theirs.len() - 1] as u64);
        eprintln!("repeat {repeat}: {} rows/s, COPY {} rows/s", grouped(our), grouped(their));
    }
    let options = vec![
        ("rows", grouped(count)),
        ("repeats", repeats.to_string()),
        ("our side", "lockstep load csv into one site, primary key".to_string()),
        (
            "PostgreSQL",
            format!("{}, psql \\copy, primary key, no sync, minimal log", postgres.version()?),
        ),
    ];
    let json = report(&ours, &theirs, &options);
    program::end_run(matches, || json)
}

/// Prints the report; returns it as JSON.
fn report(ours: &[f64], theirs: &[f64], options: &[(&str, String)]) -> serde_json::Value {
    let (our, their) = (median(ours.iter().copied()), median(theirs.iter().copied()));
    let (ratio, must) = (our / their, Bound::AtLeast(0.5));
    let verdict = verdict(ratio, must, must);
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let detail = format!("{} against {} rows a second", grouped(our as u64), grouped(their as u64));
    let lines = [
        words(&["figure", "reached", "must", "verdict", "detail"]),
        words(&["load csv / COPY", &times(ratio), &times(must.value()), verdict, &detail]),
    ];
    println!("{}\n{}", render_options(options), align(&lines, |column| matches!(column, 1 | 2)));
    let options: serde_json::Map<String, serde_json::Value> =
        options.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    json!({
        "ratio": ratio, "verdict": verdict, "ours_rows_per_s": ours, "copy_rows_per_s": theirs,
        "options": options,
    })
}
