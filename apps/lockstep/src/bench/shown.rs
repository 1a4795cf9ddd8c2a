//! Runs a workload with progress on standard error, and shows, draws and writes its result.

use super::common::{HostsToStart, StartedHosts, options_json, run_options};
use clap::ArgMatches;
use lockstep_bench::chart::{Chart, stacked};
use lockstep_bench::page::Page;
use lockstep_bench::report::{Progress, grouped};
use lockstep_bench::run::{self, Report, RunOptions, RunResult, plots, report};
use lockstep_workloads::Workload;
use serde_json::{Map, Value};
use signal_hook::consts::SIGINT;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// What a workload shows beside the common figures.
pub type Own = fn(&dyn Workload, &RunOptions, &RunResult) -> OwnFigures;

/// See [`Own`].
#[derive(Default)]
pub struct OwnFigures {
    /// Rows of the table.
    pub rows: Vec<(String, String)>,
    /// Keys of the JSON.
    pub keys: Map<String, Value>,
    /// Text in front of the tables.
    pub text: String,
}

impl OwnFigures {
    /// Rows of what sessions counted. They count over the whole run, as the checks of the data
    /// do, while the transactions that are shown above are those of the measured time.
    pub fn add_counts<'n>(&mut self, counts: impl Iterator<Item = (&'n str, u64)>) {
        self.rows.push(("whole run, warm-up included:".to_string(), String::new()));
        let row = |(name, count): (&str, u64)| (format!("  {name}"), grouped(count));
        self.rows.extend(counts.map(row));
    }
}

/// Of a workload that shows nothing more.
pub fn nothing(_: &dyn Workload, _: &RunOptions, _: &RunResult) -> OwnFigures {
    OwnFigures::default()
}

/// Becomes true with the first interrupt; the second one ends the program.
///
/// # Errors
/// The system does not let interrupts be caught.
pub fn stop_flag() -> Result<Arc<AtomicBool>, String> {
    let stop = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register_conditional_shutdown(SIGINT, 130, stop.clone())
        .and_then(|_| signal_hook::flag::register(SIGINT, stop.clone()))
        .map_err(|error| format!("interrupts cannot be caught: {error}"))?;
    Ok(stop)
}

/// Runs a workload, shows its progress and its result.
///
/// # Errors
/// As for [`run::run`]; a file cannot be written.
pub fn run_and_report(
    workload: &mut dyn Workload,
    (name, arguments): (&str, &ArgMatches),
    own: Own,
) -> Result<ExitCode, String> {
    let mut options = run_options(name, arguments);
    if arguments.get_flag("check-only") {
        let server = options.servers.first().ok_or("--check-only needs --servers")?;
        let checks = run::check_only(workload, server)?;
        print!("{}", report::checks_table(&checks));
        let holds = checks.iter().all(|check| check.holds);
        return Ok(if holds { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let sites = arguments.get_one::<u32>("start");
    let to_start = sites.map(|sites| HostsToStart::of(arguments, u64::from(*sites)));
    let hosts = to_start.map(|hosts| hosts.start(std::iter::empty())).transpose()?;
    options.servers.extend(hosts.iter().flat_map(StartedHosts::addresses));
    let stop = stop_flag()?;
    let mut line = ProgressLine::default();
    let result = run::run(workload, &options, &stop, &mut |state| line.show(&text_of(state)));
    line.end();
    let result = result?;
    let own = own(workload, &options, &result);
    print!("{}{}", own.text, report::table(&result, &own.rows));
    if let Some((rows, time)) = result.loaded {
        println!("{} rows were loaded in {:.1} s", grouped(rows), time.as_secs_f64());
    }
    if let Some(error) = &result.figures.first_error {
        eprintln!("lockstep: the first error was: {error}");
    }
    let shown = options_json(workload, &options);
    let rows = option_rows(&shown);
    let title = format!("lockstep bench {}", workload.name());
    write_outputs(
        arguments,
        &|| plots::charts(&result),
        &|| plots::page(&title, &result, &rows, &own.rows),
        &|| report::json(&result, shown.clone(), own.keys.clone()),
    )?;
    Ok(if result.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Writes what the command line names a file for.
///
/// # Errors
/// A file cannot be written.
pub fn write_outputs(
    arguments: &ArgMatches,
    charts: &dyn Fn() -> Vec<Chart>,
    page: &dyn Fn() -> Page,
    json: &dyn Fn() -> Value,
) -> Result<(), String> {
    let write = |name: &str, text: &dyn Fn() -> Result<String, String>| {
        let Some(file) = arguments.get_one::<PathBuf>(name) else { return Ok(()) };
        std::fs::write(file, text()?).map_err(|error| format!("{}: {error}", file.display()))
    };
    write("plot", &|| Ok(stacked(&charts())))?;
    write("report", &|| Ok(page().to_html()))?;
    write("json", &|| {
        let text = serde_json::to_string_pretty(&json()).map_err(|error| error.to_string())?;
        Ok(text + "\n")
    })
}

/// Options of a run as rows; those of the workload stand among the others.
pub fn option_rows(options: &Value) -> Vec<(String, String)> {
    let mut rows = Vec::new();
    for (name, value) in options.as_object().into_iter().flatten() {
        match value {
            Value::Null => {}
            Value::Object(_) => rows.extend(option_rows(value)),
            Value::String(text) => rows.push((name.clone(), text.clone())),
            Value::Array(items) => {
                let items: Vec<&str> = items.iter().filter_map(Value::as_str).collect();
                rows.push((name.clone(), items.join(", ")));
            }
            value => rows.push((name.clone(), value.to_string())),
        }
    }
    rows
}

/// A state in a line.
pub fn text_of(state: &Report<'_>) -> String {
    match state {
        Report::Run(progress) => Progress::line(progress),
        Report::Checking => "checking".to_string(),
        Report::Fill(state) => {
            const WIDTH: u64 = 16;
            let filled = (state.rows * WIDTH / state.total.max(1)).min(WIDTH) as usize;
            let bar = "#".repeat(filled) + &"-".repeat(WIDTH as usize - filled);
            format!("[{bar}] loaded {} of {} rows", grouped(state.rows), grouped(state.total))
        }
    }
}

/// Progress on standard error: one line that changes on a terminal, else a line a few times.
#[derive(Default)]
pub struct ProgressLine {
    shown_at: Option<std::time::Instant>,
    drawn: bool,
}

/// Between two lines on a terminal, and elsewhere.
const INTERVALS: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(5)];

impl ProgressLine {
    /// Shows a state, if the last one stood long enough.
    pub fn show(&mut self, text: &str) {
        let mut errors = std::io::stderr();
        let terminal = errors.is_terminal();
        let interval = INTERVALS[usize::from(!terminal)];
        if self.shown_at.get_or_insert_with(std::time::Instant::now).elapsed() < interval {
            return;
        }
        self.shown_at = Some(std::time::Instant::now());
        self.drawn = terminal;
        // Progress that cannot be shown is no reason to stop measuring.
        let _ = match terminal {
            true => write!(errors, "\r\x1b[K{text}"),
            false => writeln!(errors, "{text}"),
        };
    }

    /// Takes the line away.
    pub fn end(&self) {
        if self.drawn {
            eprint!("\r\x1b[K");
        }
    }
}
