//! `lockstep load csv`: rows of a file into a table, in batches for one partition each.

mod batch;
mod progress;
mod refused;
pub mod row;
mod sender;
pub mod target;

pub use progress::Progress;

use crate::csv::reader::{Reader, Record};
use crate::csv::{Dialect, dialect_arguments, header_argument};
use batch::CallWriter;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::report::grouped;
use lockstep_client::{ConnectOptions, Connection};
use refused::Refused;
use row::{Encoder, Rules, Times};
use sender::{Sender, SenderOptions};
use std::fs::File;
use std::io::{self, Read};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};
use target::Target;

/// What is read as NULL, unless `--null-string` says otherwise: nothing, and what VoltDB's tools
/// write.
pub const NULLS: [&str; 2] = ["", "\\N"];
/// The exit code of a load that went to its end but for refused records.
const SOME_REFUSED: u8 = 3;
/// Records between two looks at the clock.
const RECORDS_PER_LOOK: u64 = 1024;

/// `--server` of commands that talk to one host.
pub fn server_argument() -> Arg {
    Arg::new("server")
        .long("server")
        .value_name("HOST:PORT")
        .default_value("127.0.0.1:21212")
        .help("The host to connect to")
}

fn number(name: &'static str, default: &'static str, least: u64, help: &'static str) -> Arg {
    let range = value_parser!(u64).range(least..=1 << 32);
    Arg::new(name).long(name).value_name("N").value_parser(range).default_value(default).help(help)
}

/// The command line of `lockstep load`.
pub fn command() -> Command {
    let text = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    let csv = Command::new("csv")
        .about("Load comma-separated values into a table")
        .arg(
            Arg::new("file")
                .value_name("FILE")
                .required(true)
                .help("A file, or - for standard input"),
        )
        .arg(server_argument())
        .arg(text("table", "TABLE", "The table to fill").required(true))
        .arg(
            text("columns", "A,B,...", "The columns of the file's values [default: the table's]")
                .value_delimiter(','),
        )
        .args(dialect_arguments())
        .arg(header_argument("The first line names the columns, unless --columns does"))
        .arg(text("null-string", "TEXT", "What stands for NULL [default: nothing, and \\N]"))
        .arg(
            text("timestamps", "FORM", "TIMESTAMP values: text, or s, ms, us since 1970")
                .value_parser(["text", "s", "ms", "us"])
                .default_value("text"),
        )
        .arg(number("skip", "0", 0, "Lines to leave out at the start"))
        .arg(
            text("on-error", "WHAT", "Stop after more than --max-errors, or go on to the end")
                .value_parser(["stop", "continue"])
                .default_value("stop"),
        )
        .arg(number("max-errors", "100", 0, "Refused records before a load stops"))
        .arg(text("errors-file", "FILE", "Keep refused records: line, reason, record"))
        .arg(number("max-record-bytes", "16777216", 16, "The longest record that is read"))
        .arg(number("batch", "500", 1, "Rows of one transaction"))
        .arg(number("connections", "2", 1, "Connections; each has several batches in flight"))
        .arg(
            Arg::new("upsert")
                .long("upsert")
                .action(ArgAction::SetTrue)
                .help("Replace rows that have the same primary key"),
        )
        .after_help(
            "Exit code: 0 when every record was loaded, 3 when some were refused, 1 when the load \
             stopped early, 2 for a wrong command line. A batch is one transaction; the load as a \
             whole is not.",
        );
    Command::new("load").about("Fill a table").subcommand_required(true).subcommand(csv)
}

/// How a load ended.
enum End {
    /// Everything was read.
    Whole,
    /// Too many records were refused; the line where reading ended.
    Stopped(u64),
}

/// Runs the load that was asked for.
///
/// # Errors
/// The file cannot be read, the server not be reached, or the table not be filled at all.
pub fn run(arguments: &ArgMatches) -> Result<ExitCode, String> {
    let Some(("csv", arguments)) = arguments.subcommand() else {
        return Err("there is no such form; try `lockstep load --help`".to_string());
    };
    let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
    let file = text("file").unwrap_or("-");
    let (input, total_bytes): (Box<dyn Read>, Option<u64>) = match file {
        "-" => (Box::new(io::stdin().lock()), None),
        name => {
            let failed = |error: io::Error| format!("{name}: {error}");
            let opened = File::open(name).map_err(failed)?;
            let metadata = opened.metadata().map_err(failed)?;
            (Box::new(opened), metadata.is_file().then_some(metadata.len()))
        }
    };
    let source = if file == "-" { "stdin" } else { file };
    let mut refused = Refused::new(source, text("errors-file"))?;
    let mut progress = Progress::new(total_bytes);
    let mut load = Load::new(arguments, input)?;
    let end = load.run(&mut refused, &mut progress);
    progress.clear();
    refused.finish()?;
    let (loaded, seconds) = (load.sender.loaded, progress.elapsed().as_secs_f64());
    let s = |count: u64| if count == 1 { "" } else { "s" };
    if end.is_ok() || loaded > 0 {
        println!(
            "{} row{} loaded into {} in {seconds:.1} s ({}/s), {} record{} refused",
            grouped(loaded),
            s(loaded),
            load.table,
            grouped((loaded as f64 / seconds.max(1e-3)) as u64),
            grouped(refused.count),
            s(refused.count)
        );
    }
    match end.map_err(|error| format!("{source}: {error}"))? {
        End::Whole if refused.count == 0 => Ok(ExitCode::SUCCESS),
        End::Whole => Ok(ExitCode::from(SOME_REFUSED)),
        End::Stopped(line) => {
            eprintln!(
                "lockstep: {source}: stopped before line {line}: {} refused, --max-errors is {} \
                 (--on-error continue goes on); what stands before it is loaded or refused",
                refused.count,
                load.max_errors.unwrap_or(0)
            );
            Ok(ExitCode::FAILURE)
        }
    }
}

/// A load in progress.
struct Load {
    reader: Reader<Box<dyn Read>>,
    target: Target,
    table: String,
    names: Option<Vec<String>>,
    skip: u64,
    header: bool,
    rules: Rules,
    sender: Sender,
    /// `None`: however many.
    max_errors: Option<u64>,
}

impl Load {
    fn new(arguments: &ArgMatches, input: Box<dyn Read>) -> Result<Load, String> {
        let text = |name: &str| arguments.get_one::<String>(name).map(String::as_str);
        let number = |name: &str| arguments.get_one::<u64>(name).copied().unwrap_or(1);
        let dialect = Dialect::of(arguments)?;
        let options = SenderOptions {
            server: text("server").unwrap_or_default().to_string(),
            connections: number("connections").min(64) as usize,
            batch_rows: number("batch").min(100_000) as usize,
        };
        let mut connection = Connection::connect(&options.server, &ConnectOptions::default())
            .map_err(|error| error.to_string())?;
        let target = Target::read(&mut connection, text("table").unwrap_or_default())?;
        let upsert = arguments.get_flag("upsert");
        if upsert && !target.has_primary_key {
            return Err(format!("--upsert needs a primary key, and {} has none", target.name));
        }
        let columns: Vec<_> =
            target.columns.iter().map(|column| (column.name.clone(), column.sql_type)).collect();
        let replicated = target.partition_columns.is_empty();
        let writer = CallWriter::new(&target.name, &columns, upsert, replicated);
        let nulls = match text("null-string") {
            Some(null) => vec![null.to_string()],
            None => NULLS.map(str::to_string).to_vec(),
        };
        let times = match text("timestamps") {
            Some("s") => Times::Number(1_000_000),
            Some("ms") => Times::Number(1_000),
            Some("us") => Times::Number(1),
            _ => Times::Text,
        };
        let names = arguments.get_many::<String>("columns");
        Ok(Load {
            reader: Reader::new(input, dialect, number("max-record-bytes") as usize),
            table: target.name.clone(),
            target,
            names: names.map(|names| names.cloned().collect()),
            skip: number("skip"),
            header: arguments.get_flag("header"),
            rules: Rules { nulls, times },
            sender: Sender::connect(&mut connection, &options, writer)?,
            max_errors: (text("on-error") != Some("continue")).then(|| number("max-errors")),
        })
    }

    fn run(&mut self, refused: &mut Refused, progress: &mut Progress) -> Result<End, String> {
        let failed = |error: io::Error| error.to_string();
        self.reader.skip_lines(self.skip).map_err(failed)?;
        let header = if self.header { self.read_header()? } else { None };
        let names = self.names.take().or(header);
        let mapping = self.target.map(names.as_deref(), now_us())?;
        let mut encoder = Encoder::new(&self.target, mapping, self.rules.clone());
        let mut records = 0;
        loop {
            records += 1;
            if records % RECORDS_PER_LOOK == 0 {
                progress.update(self.sender.loaded, self.reader.consumed(), refused.count);
            }
            let record = match self.reader.next().map_err(failed)? {
                None => break,
                Some(record) => record,
            };
            let before = refused.count;
            match record {
                Err(malformed) => {
                    let place = (malformed.line, malformed.column);
                    progress.clear();
                    refused.add(place, &malformed.reason, &malformed.text)?;
                }
                Ok(record) => match encoder.encode(&record) {
                    Ok(()) => {
                        let origin = (record.line, record.text);
                        self.sender.push(&encoder.row, encoder.key(), origin, refused)?;
                    }
                    Err(refusal) => {
                        let place = place_of(&record, refusal.place);
                        progress.clear();
                        refused.add(place, &refusal.reason, record.text)?;
                    }
                },
            }
            let too_many = self.max_errors.is_some_and(|most| refused.count > most);
            if refused.count > before && too_many {
                let line = self.reader.line();
                self.sender.finish(refused)?;
                return Ok(End::Stopped(line));
            }
        }
        self.sender.finish(refused)?;
        match self.max_errors {
            Some(most) if refused.count > most => Ok(End::Stopped(self.reader.line())),
            _ => Ok(End::Whole),
        }
    }

    /// The names in the first record; `None` for an empty file.
    fn read_header(&mut self) -> Result<Option<Vec<String>>, String> {
        match self.reader.next().map_err(|error| error.to_string())? {
            None => Ok(None),
            Some(Err(error)) => Err(format!(
                "line {}, column {}: the header cannot be read: {}",
                error.line, error.column, error.reason
            )),
            Some(Ok(record)) => {
                let name = |place| match std::str::from_utf8(record.value(place).bytes) {
                    Ok(name) => Ok(name.trim().to_string()),
                    Err(_) => Err(format!("name {} of the header is not UTF-8", place + 1)),
                };
                (0..record.len()).map(name).collect::<Result<_, _>>().map(Some)
            }
        }
    }
}

/// Line and column of a value, or of the record's end where it has too few.
fn place_of(record: &Record<'_>, place: Option<usize>) -> (u64, u64) {
    match place {
        Some(place) => record.position(place),
        None => (record.line, 1),
    }
}

fn now_us() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}
