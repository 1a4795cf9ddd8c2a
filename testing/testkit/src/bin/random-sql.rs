//! Random statements against a reference, until enough are compared:
//! `REFERENCE=sites|views|sqlite|postgres STATEMENTS=200000 SEED=1 random-sql`. With `REASONS=1`
//! it tells why statements were refused; with `PRINT=1` it only prints the script of the seed.

use lockstep_testkit::campaign::{Campaign, Reference};
use std::process::ExitCode;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// True if nothing differed.
fn run() -> Result<bool, String> {
    let names: Vec<&str> = Reference::ALL.iter().map(|(name, _)| *name).collect();
    let wanted = std::env::var("REFERENCE").unwrap_or_else(|_| names.join(","));
    let seed = number("SEED", 1)?;
    let statements = number("STATEMENTS", 20_000)?;
    let mut equal = true;
    for name in wanted.split(',') {
        let reference = Reference::named(name)
            .ok_or_else(|| format!("REFERENCE={name}: one of {}", names.join(", ")))?;
        let campaign = Campaign { reference, seed, statements };
        if number("PRINT", 0)? > 0 {
            print!("{}", campaign.text());
            continue;
        }
        let report = campaign.run().map_err(|error| format!("{name}: {error}"))?;
        if number("REASONS", 0)? > 0 {
            let mut reasons: Vec<(&String, &u64)> = report.reasons.iter().collect();
            reasons.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
            for (reason, count) in reasons {
                eprintln!("{count:8} refused: {reason}");
            }
        }
        equal &= report.differences.is_empty();
    }
    Ok(equal)
}

fn number(name: &str, otherwise: u64) -> Result<u64, String> {
    match std::env::var(name) {
        Ok(text) => text.parse().map_err(|_| format!("{name}={text}: not a number")),
        Err(_) => Ok(otherwise),
    }
}
