//! `lockstep bench tpcc`, and what it shows in the form of the PyTPCC harness.

use super::common::{count, form, number, procedures, with_common};
use super::shown::OwnFigures;
use super::simple::choice;
use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use lockstep_bench::report::grouped;
use lockstep_bench::run::figures::{Figures, TransactionFigures};
use lockstep_bench::run::{RunOptions, RunResult};
use lockstep_types::timestamp;
use lockstep_workloads::tpcc::scale::{Delivery, Partitioning, Rules, Scale};
use lockstep_workloads::tpcc::session::NEW_ORDER;
use lockstep_workloads::tpcc::{Tpcc, TpccOptions};
use lockstep_workloads::{Form, Workload};
use serde_json::{Map, Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// The command line.
pub fn command() -> Command {
    let command = Command::new("tpcc")
        .about("TPC-C: as the PyTPCC harness runs it, or by the specification")
        .arg(number("warehouses", "W", "4", "Warehouses"))
        .arg(number("scale-divisor", "N", "1", "Makes items, customers and orders fewer"))
        .arg(choice("partitioning", &["warehouse", "district"], "What rows live by"))
        .arg(choice("delivery", &["original", "split", "none"], "Delivery whole, in ten, or not"))
        .arg(choice("remote", &["on", "off"], "Items and customers of other warehouses"))
        .arg(choice("money", &["default", "float", "decimal"], "The type of amounts"))
        .args(procedures(&["native", "java", "sql"], "What the transactions are in"))
        .arg(
            Arg::new("spec")
                .long("spec")
                .action(ArgAction::SetTrue)
                .help("By the specification: ten terminals a warehouse, waits, rollbacks, decks"),
        )
        .arg(
            number("waits", "PERCENT", "100", "Of the specification's keying and think times")
                .value_parser(value_parser!(u32).range(0..=100))
                .requires("spec"),
        );
    with_common(command)
}

/// Why there is no TPC-C of SQL statements alone.
const NO_SQL: &str = "\
TPC-C cannot be run by procedures of SQL statements alone, whose statements see nothing of one \
another's results: NewOrder is taken back for an item that is not there, and has 5 to 15 lines; \
Payment and OrderStatus look for the middle one of the customers of a name; Delivery passes on \
what it finds, and skips districts without orders. Only StockLevel would be one statement. Use \
--procedures native or java";

/// TPC-C as the command line wants it.
///
/// # Errors
/// A scale or procedures that there are not; a jar that cannot be read.
pub fn workload(arguments: &ArgMatches) -> Result<Tpcc, String> {
    let tpcc = Tpcc::new(options(arguments)?);
    match form(arguments)? {
        Form::Sql => Err(NO_SQL.to_string()),
        Form::Java(jar) => Ok(tpcc.with_java(jar)),
        Form::Native => Ok(tpcc),
    }
}

fn options(arguments: &ArgMatches) -> Result<TpccOptions, String> {
    let chosen = |name: &str| arguments.get_one::<String>(name).map_or("", String::as_str);
    let spec = arguments.get_flag("spec");
    Ok(TpccOptions {
        scale: Scale::new(count(arguments, "warehouses"), count(arguments, "scale-divisor"))?,
        partitioning: match chosen("partitioning") {
            "district" => Partitioning::District,
            _ => Partitioning::Warehouse,
        },
        delivery: match chosen("delivery") {
            "split" => Delivery::Split,
            "none" => Delivery::LeftOut,
            _ => Delivery::Original,
        },
        remote: chosen("remote") != "off",
        rules: match spec {
            true => Rules::Spec { waits_percent: count(arguments, "waits") },
            false => Rules::Py,
        },
        exact_money: match chosen("money") {
            "decimal" => true,
            "float" => false,
            _ => spec,
        },
    })
}

/// The harness's lines and keys.
pub fn shown(workload: &dyn Workload, options: &RunOptions, result: &RunResult) -> OwnFigures {
    let figures = &result.figures;
    let tpmc = tpmc(figures);
    let warehouses = workload.options().iter().find(|(name, _)| *name == "warehouses").cloned();
    let warehouses = warehouses.map_or(0, |(_, value)| value.parse().unwrap_or(0));
    let load_s = result.loaded.map(|(_, time)| time.as_secs());
    let run = HarnessRun { warehouses, threads: options.clients, date: now(), load_s };
    let mut own = OwnFigures {
        rows: vec![("tpmC".to_string(), grouped(tpmc as u64))],
        keys: harness_keys(figures, &run),
        text: harness_text(figures, &run),
    };
    let rules = workload.options().into_iter().find(|(name, _)| *name == "rules");
    if rules.is_some_and(|(_, rules)| rules.starts_with("spec")) {
        show_limits(figures, &run, &mut own);
    }
    own
}

/// What 90 of a hundred transactions of a kind must be answered within, in seconds [5.2.5.3];
/// Delivery within the time of its deferred part [2.7.4.1].
const RESPONSE_LIMITS: [(&str, f64); 5] = [
    ("NEW_ORDER", 5.0),
    ("PAYMENT", 5.0),
    ("ORDER_STATUS", 5.0),
    ("DELIVERY", 80.0),
    ("STOCK_LEVEL", 20.0),
];
/// New-Orders a minute that ten terminals of a warehouse can reach with all waits [4.1].
const MOST_TPMC: f64 = 12.86;
/// Terminals of a warehouse [4.2.2].
const TERMINALS: u64 = 10;

/// Holds a run to the specification's limits.
fn show_limits(figures: &Figures, run: &HarnessRun, own: &mut OwnFigures) {
    let mut keys = Map::new();
    for kind in figures.transactions.iter().filter(|kind| kind.answered() > 0) {
        let limit = RESPONSE_LIMITS.iter().find(|(name, _)| *name == kind.name);
        let Some((name, limit_s)) = limit else { continue };
        let p90_s = kind.latency_us.value_at_quantile(0.9) as f64 / 1e6;
        let holds = p90_s <= *limit_s;
        let verdict = if holds { "holds" } else { "MISSED" };
        let row = (
            format!("{name} p90"),
            format!("{:.2} ms, {limit_s} s at most: {verdict}", 1e3 * p90_s),
        );
        own.rows.push(row);
        keys.insert(
            (*name).to_string(),
            json!({ "p90_s": p90_s, "limit_s": limit_s, "holds": holds }),
        );
    }
    own.keys.insert("response_limits".to_string(), keys.into());
    let (warehouses, terminals) = (run.warehouses, run.threads as u64);
    let each = tpmc(figures) / warehouses.max(1) as f64;
    let most = format!("{each:.2}, {MOST_TPMC} at most with all waits");
    own.rows.push(("tpmC a warehouse".to_string(), most));
    let wanted = TERMINALS * warehouses;
    if terminals != wanted {
        let text = format!("{terminals}, the specification has {wanted}: --clients {wanted}");
        own.rows.push(("terminals".to_string(), text));
    }
}

/// New-Order transactions that were committed, a minute.
fn tpmc(figures: &Figures) -> f64 {
    let seconds = figures.duration.as_secs_f64().max(1e-9);
    figures.transactions[NEW_ORDER].good as f64 * 60.0 / seconds
}

fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = timestamp::format(i64::try_from(since.as_micros()).unwrap_or(0));
    text.chars().take("2026-01-01 00:00:00".len()).collect()
}

/// What the harness says of a run beside its figures.
struct HarnessRun {
    warehouses: u64,
    threads: usize,
    date: String,
    /// How long the rows were loaded, in seconds, where they were.
    load_s: Option<u64>,
}

/// The percentiles of the harness, in milliseconds.
const QUANTILES: [(&str, f64); 5] =
    [("p50", 0.5), ("p75", 0.75), ("p90", 0.9), ("p95", 0.95), ("p99", 0.99)];

fn milliseconds(us: u64) -> f64 {
    us as f64 / 1000.0
}

/// Time spent in a kind of transaction, in seconds.
fn time_s(kind: &TransactionFigures) -> f64 {
    kind.latency_us.mean() * kind.answered() as f64 / 1e6
}

/// The keys of the harness's JSON, as far as they are not about another database's settings.
fn harness_keys(figures: &Figures, run: &HarnessRun) -> Map<String, Value> {
    let mut keys = Map::new();
    for kind in figures.transactions.iter().filter(|kind| kind.good > 0) {
        let latency = &kind.latency_us;
        let mut values: Map<String, Value> = QUANTILES
            .iter()
            .map(|(name, q)| (name.to_string(), milliseconds(latency.value_at_quantile(*q)).into()))
            .collect();
        values.insert("min".to_string(), milliseconds(latency.min()).into());
        values.insert("max".to_string(), milliseconds(latency.max()).into());
        keys.insert(kind.name.to_string(), json!({ "latency": values, "total": kind.good }));
    }
    let aborts: u64 = figures.transactions.iter().map(|kind| kind.aborted + kind.errors).sum();
    let total: u64 = figures.transactions.iter().map(|kind| kind.good).sum();
    let own = json!({
        "tpmc": tpmc(figures), "duration": figures.duration.as_secs_f64(),
        "warehouses": run.warehouses, "date": run.date, "threads": run.threads,
        "total": total, "aborts": aborts, "total_retries": 0,
        "denorm": false, "txn": true, "batch_writes": true, "all_in_one_txn": true,
    });
    keys.extend(own.as_object().cloned().unwrap_or_default());
    keys
}

/// Columns of the harness's table, and the width of each.
const COLUMNS: [&str; 13] = [
    "",
    "Complete",
    "Time (µs)",
    "Percentage",
    "Retries",
    "minLatMs",
    "p50",
    "p75",
    "p90",
    "p95",
    "p99",
    "maxLatMs",
    "Aborts",
];
const COLUMN_WIDTH: usize = 16;

fn harness_row(cells: &[String]) -> String {
    let cells: String = cells.iter().map(|cell| format!("{cell:<COLUMN_WIDTH$}")).collect();
    format!("\n  {}", cells.trim_end())
}

/// The lines that the harness prints.
fn harness_text(figures: &Figures, run: &HarnessRun) -> String {
    let width = COLUMN_WIDTH * COLUMNS.len() - 8;
    let line = "-".repeat(width);
    let seconds = figures.duration.as_secs_f64();
    let mut text = "=".repeat(width) + "\n";
    if let Some(seconds) = run.load_s {
        text.push_str(&format!("Data Loading Time: {seconds} seconds\n\n"));
    }
    text.push_str(&format!("Execution Results after {seconds:.0} seconds\n{line}"));
    text.push_str(&harness_row(&COLUMNS.map(str::to_string)));
    let total: u64 = figures.transactions.iter().map(|kind| kind.good).sum();
    for kind in figures.transactions.iter().filter(|kind| kind.answered() > 0) {
        let at = |us: u64| format!("{:6.2}", milliseconds(us));
        let share = 100.0 * kind.good as f64 / total.max(1) as f64;
        let mut cells = vec![
            kind.name.to_string(),
            kind.good.to_string(),
            format!("{:9.3}", time_s(kind)),
            format!("{share:5.2}"),
            "0,0".to_string(),
            at(kind.latency_us.min()),
        ];
        cells.extend(QUANTILES.map(|(_, q)| at(kind.latency_us.value_at_quantile(q))));
        cells.extend([at(kind.latency_us.max()), (kind.aborted + kind.errors).to_string()]);
        text.push_str(&harness_row(&cells));
    }
    let time: f64 = figures.transactions.iter().map(time_s).sum();
    text.push_str(&format!("\n{line}"));
    text.push_str(&harness_row(&["TOTAL".into(), total.to_string(), format!("{time:12.3}")]));
    text + &summary_line(figures, run, total)
}

/// The harness's line of a run. What it says of another database's settings stands as `-`.
fn summary_line(figures: &Figures, run: &HarnessRun, total: u64) -> String {
    let new_order = &figures.transactions[NEW_ORDER];
    let latency = &new_order.latency_us;
    let percentiles: String = QUANTILES
        .map(|(name, q)| format!("{name} {:6.2} ", milliseconds(latency.value_at_quantile(q))))
        .concat();
    let aborts: u64 = figures.transactions.iter().map(|kind| kind.aborted + kind.errors).sum();
    format!(
        "\n{} TpmC for normal {} thr with txn {} WH: {:.0} {} total {:.0} durSec, batch on 0 \
         retries 0.0% w/o  fnM - {percentiles}max {:6.2} WC - causal false 10in1 true retry \
         false {total} {aborts}\n\n",
        run.date,
        run.threads,
        run.warehouses,
        tpmc(figures),
        new_order.good,
        figures.duration.as_secs_f64(),
        milliseconds(latency.max()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::command;
    use lockstep_workloads::Verdict;
    use lockstep_workloads::tpcc::session::{PAYMENT, TRANSACTIONS};
    use std::time::Duration;

    #[test]
    fn the_command_line_is_understood() {
        let parse = |line: &str| command().try_get_matches_from(line.split_whitespace());
        let chosen = |line: &str| {
            let matches = parse(line).expect("a command line");
            options(matches.subcommand().expect("a workload").1)
        };
        let plain = chosen("bench tpcc --embedded").expect("options");
        assert_eq!((plain.scale.warehouses, plain.rules), (4, Rules::Py));
        assert!(plain.remote && !plain.exact_money);
        let spec = chosen("bench tpcc --embedded --spec --waits 0 --delivery split --remote off");
        let spec = spec.expect("options");
        assert_eq!(spec.rules, Rules::Spec { waits_percent: 0 });
        assert_eq!((spec.delivery, spec.remote, spec.exact_money), (Delivery::Split, false, true));
        let district = chosen("bench tpcc --embedded --partitioning district").expect("options");
        assert_eq!(district.partitioning, Partitioning::District);
        assert!(chosen("bench tpcc --embedded --warehouses 40000").is_err());
        assert!(parse("bench tpcc --embedded --waits 5").is_err());
    }

    #[test]
    fn procedures_are_native_or_java_and_never_sql() {
        let built = |more: &str| {
            let line = format!("bench tpcc --start 1 {more}");
            let matches = command().try_get_matches_from(line.split_whitespace());
            let matches = matches.expect("a command line");
            workload(matches.subcommand().expect("a workload").1)
        };
        let form = |tpcc: Tpcc| tpcc.options().last().cloned().expect("options").1;
        assert_eq!(built("").map(form), Ok("native".to_string()));
        assert_eq!(built("--procedures java").map(form), Ok("java".to_string()));
        let refused = |more: &str| built(more).map(form).expect_err("it is refused");
        let sql = refused("--procedures sql");
        for named in ["NewOrder", "Payment", "OrderStatus", "Delivery", "StockLevel"] {
            assert!(sql.contains(named), "{sql}");
        }
        assert!(refused("--jar x.jar").contains("--procedures java"));
        let missing = refused("--procedures java --jar /no/such.jar");
        assert!(missing.contains("/no/such.jar: No such file"), "{missing}");
    }

    #[test]
    fn runs_by_the_specification_are_held_to_its_limits() {
        let mut figures = Figures::new(&TRANSACTIONS, Duration::from_secs(60));
        (0..20).for_each(|_| figures.record(NEW_ORDER, Verdict::Good, Duration::from_millis(9)));
        (0..8).for_each(|_| figures.record(PAYMENT, Verdict::Good, Duration::from_secs(1)));
        (0..2).for_each(|_| figures.record(PAYMENT, Verdict::Good, Duration::from_secs(6)));
        let date = String::new();
        let run = HarnessRun { warehouses: 2, threads: 8, date, load_s: None };
        let mut own = OwnFigures::default();
        show_limits(&figures, &run, &mut own);
        let row = |name: &str| own.rows.iter().find(|row| row.0 == name).expect(name).1.clone();
        assert_eq!(row("NEW_ORDER p90"), "9.01 ms, 5 s at most: holds");
        assert!(row("PAYMENT p90").ends_with("5 s at most: MISSED"), "{:?}", own.rows);
        assert_eq!(row("tpmC a warehouse"), "10.00, 12.86 at most with all waits");
        assert_eq!(row("terminals"), "8, the specification has 20: --clients 20");
        assert_eq!(own.keys["response_limits"]["PAYMENT"]["holds"], false);
        assert!(own.rows.iter().all(|row| !row.0.starts_with("DELIVERY")));
    }

    #[test]
    fn results_stand_in_the_form_of_the_harness() {
        let mut figures = Figures::new(&TRANSACTIONS, Duration::from_secs(30));
        (0..60).for_each(|_| figures.record(NEW_ORDER, Verdict::Good, Duration::from_millis(2)));
        figures.record(NEW_ORDER, Verdict::Aborted, Duration::from_millis(2));
        figures.record(PAYMENT, Verdict::Good, Duration::from_micros(500));
        let run = HarnessRun {
            warehouses: 4,
            threads: 8,
            date: "2026-01-02 03:04:05".into(),
            load_s: Some(7),
        };
        let keys = harness_keys(&figures, &run);
        assert_eq!((&keys["tpmc"], &keys["aborts"]), (&120.0.into(), &1.into()));
        assert_eq!(keys["NEW_ORDER"]["total"], 60);
        assert_eq!(keys["PAYMENT"]["latency"]["p99"], 0.5);
        let text = harness_text(&figures, &run);
        for part in [
            "Execution Results after 30 seconds",
            "  NEW_ORDER       60                  0.122",
            "  TOTAL           61",
            "Data Loading Time: 7 seconds\n\n",
            "2026-01-02 03:04:05 TpmC for normal 8 thr with txn 4 WH: 120 60 total 30 durSec, \
             batch on 0 retries 0.0% w/o  fnM - p50   2.00 p75   2.00",
            "max   2.00 WC - causal false 10in1 true retry false 61 1\n",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
