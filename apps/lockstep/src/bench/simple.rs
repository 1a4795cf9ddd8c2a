//! Workloads of a few options: TATP, key-value, contention, bank and mp-mix.

use super::common::{count, form, number, procedures, with_common};
use clap::{Arg, ArgMatches, Command};
use lockstep_workloads::Workload;
use lockstep_workloads::bank_load::{BankLoad, Transfers};
use lockstep_workloads::key_value::{KeyValue, Keys};
use lockstep_workloads::tatp::{AlternateKey, Tatp};

/// Their command lines.
pub fn commands() -> [Command; 5] {
    let forms = || procedures(&["native", "java", "sql"], "What the procedures are in");
    let content = || number("content-bytes", "BYTES", "1000", "Bytes of a row's content");
    let key_value = Command::new("key-value")
        .about("Reads and updates by key: YCSB's workloads A and B")
        .arg(choice("mix", &["a", "b"], "A: half reads, half updates; B: 95 % reads"))
        .arg(choice("keys", &["zipfian", "uniform"], "How keys are drawn"))
        .arg(number("rows", "N", "100000", "Rows"))
        .args(forms())
        .arg(content());
    let contention = Command::new("contention")
        .about("Updates of one row by all clients")
        .args(forms())
        .arg(content());
    let bank = Command::new("bank")
        .about("Deposits, and transfers that read, decide and change two accounts")
        .arg(number("accounts", "N", "10000", "Accounts"))
        .arg(percent("50"));
    let mp_mix = Command::new("mp-mix")
        .about("Deposits, and transfers of one round between two accounts")
        .arg(number("accounts", "N", "10000", "Accounts"))
        .arg(percent("10"));
    let modes = AlternateKey::NAMES.map(|(name, _)| name);
    let tatp = Command::new("tatp")
        .about("TATP: a telephone network's registers; --ramp 2000 is its ramp")
        .arg(number("subscribers", "N", "100000", "Subscribers"))
        .arg(choice("alternate-key", &modes, "How subscribers are found by their number"))
        .args(procedures(
            &["native", "java", "sql"],
            "What decides: native code, Java, or conditions of statements",
        ));
    [tatp, key_value, contention, bank, mp_mix].map(with_common)
}

/// An argument with a few values, of which the first is the default.
pub fn choice(name: &'static str, values: &[&'static str], help: &'static str) -> Arg {
    let values = values.to_vec();
    let default = values.first().copied().unwrap_or_default();
    Arg::new(name)
        .long(name)
        .value_parser(clap::builder::PossibleValuesParser::new(values))
        .default_value(default)
        .help(help)
}

fn percent(default: &'static str) -> Arg {
    let parse = |text: &str| match text.parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("a share in percent".to_string()),
    };
    Arg::new("transfers")
        .long("transfers")
        .value_name("PERCENT")
        .value_parser(parse)
        .default_value(default)
        .help("The share of transfers")
}

/// One of them, by its name.
///
/// # Errors
/// A scale that there is not, or a name.
pub fn workload(name: &str, arguments: &ArgMatches) -> Result<Box<dyn Workload>, String> {
    let chosen = |name: &str, value: &str| {
        arguments.get_one::<String>(name).is_some_and(|chosen| chosen == value)
    };
    let bank = |name, transfers| {
        let percent = arguments.get_one::<f64>("transfers").copied().unwrap_or(0.0);
        BankLoad::new(name, count(arguments, "accounts"), (percent * 10.0) as u64, transfers)
    };
    let bytes = || count(arguments, "content-bytes") as usize;
    Ok(match name {
        "tatp" => {
            let named = |(name, _): &&(&str, _)| chosen("alternate-key", name);
            let mode = AlternateKey::NAMES.iter().find(named);
            let mode = mode.map_or(AlternateKey::GlobalIndex, |(_, mode)| *mode);
            Box::new(Tatp::new(count(arguments, "subscribers"), mode)?.in_form(form(arguments)?)?)
        }
        "key-value" => {
            let reads = if chosen("mix", "a") { 50 } else { 95 };
            let keys = if chosen("keys", "uniform") { Keys::Uniform } else { Keys::Zipfian };
            let workload = KeyValue::new(count(arguments, "rows"), bytes(), reads, keys)?;
            Box::new(workload.in_form(form(arguments)?))
        }
        "contention" => {
            let workload = KeyValue::new(1, bytes(), 0, Keys::Uniform)?;
            Box::new(workload.in_form(form(arguments)?))
        }
        "bank" => Box::new(bank("bank", Transfers::TwoRounds)?),
        "mp-mix" => Box::new(bank("mp-mix", Transfers::OneRound)?),
        _ => return Err(format!("there is no workload {name}; try `lockstep bench --help`")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{command, common::run_options};
    use lockstep_bench::run::Pace;

    #[test]
    fn the_command_line_is_understood() {
        let parse = |line: &str| command().try_get_matches_from(line.split_whitespace());
        let matches = parse("bench key-value --servers a:1 --mix b --rows 7 --rate 10 --seed 3")
            .expect("a command line");
        let (name, arguments) = matches.subcommand().expect("a workload");
        let options = run_options(name, arguments);
        assert_eq!((options.pace, options.seed), (Pace::Rate(10.0), 3));
        let shown = workload(name, arguments).expect("a workload").options();
        assert!(shown.contains(&("read_percent", "95".to_string())), "{shown:?}");
        assert!(shown.contains(&("rows", "7".to_string())), "{shown:?}");
        let matches = parse("bench bank --servers a:1 --ramp 500 --ramp-p99-ms 20").expect("this");
        let options = run_options("bank", matches.subcommand().expect("a workload").1);
        let Pace::Ramp(ramp) = options.pace else { panic!("a ramp") };
        assert_eq!((ramp.first_per_s, ramp.p99_limit.as_millis()), (500.0, 20));
        for wrong in [
            "bench key-value",
            "bench key-value --embedded --rate 5",
            "bench key-value --embedded --ramp 5",
            "bench key-value --servers a:1 --mix c",
            "bench bank --embedded --transfers 101",
            "bench bank --embedded --ramp-from 5",
            "bench nothing --embedded",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
