//! `lockstep demo`: a host inside this process, or several as processes; voter against them over
//! TCP, and a live view.

mod cluster;
mod view;

use crate::{Procedures, start};
use clap::{Arg, ArgMatches, Command, value_parser};
use lockstep_bench::driver::{DriverOptions, drive};
use lockstep_bench::report::{self, Progress, grouped};
use lockstep_bench::voter::{self, Form, VoterLoad};
use lockstep_client::{ClientError, ConnectOptions, Connection};
use lockstep_node::options::Options;
use lockstep_node::{Server, ServerConfiguration, TestSettings};
use std::io::{self, IsTerminal, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

const CONNECTIONS: usize = 8;
const CALLS_IN_FLIGHT: usize = 64;
const BAR_WIDTH: usize = 40;
/// Progress reports between two readings of the standings: one second.
const REPORTS_PER_READING: u64 = 4;

/// The command line of `lockstep demo`.
pub fn command() -> Command {
    Command::new("demo")
        .about(
            "Run voter against a host inside this process, or against a cluster, with a live view",
        )
        .arg(
            Arg::new("duration")
                .long("duration")
                .visible_alias("seconds")
                .value_name("S")
                .value_parser(value_parser!(u64).range(1..=3600))
                .default_value("15")
                .help("Seconds to run"),
        )
        .args(cluster::arguments())
}

/// Runs the demo.
///
/// # Errors
/// The host cannot start or refuses something.
pub fn run(arguments: &ArgMatches, procedures: Procedures) -> Result<ExitCode, String> {
    let seconds = arguments.get_one::<u64>("duration").copied().unwrap_or(15);
    if let Some(hosts) = arguments.get_one::<u32>("hosts") {
        return cluster::run(arguments, *hosts, Duration::from_secs(seconds));
    }
    // The load needs a core as well.
    let sites = start::default_sites().saturating_sub(1).max(1);
    let loopback = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::start(ServerConfiguration {
        sites,
        for_tests: TestSettings::default(),
        client: loopback,
        admin: loopback,
        options: Options::default(),
        natives: start::natives(procedures),
        pin_to_cores: Vec::new(),
        java_options: Vec::new(),
        data: None,
        cluster: None,
    })
    .map_err(|error| error.to_string())?;
    let address = server.client_address().to_string();
    let plural = if sites == 1 { "" } else { "s" };
    println!("A host with {sites} site{plural} runs in this process and serves {address}.");
    println!("Voter: {CONNECTIONS} connections with {CALLS_IN_FLIGHT} calls in flight each.\n");
    let consistent = vote(&address, seconds).map_err(|error| error.to_string())?;
    server.stop().map_err(|error| error.to_string())?;
    println!(
        "\nWhat to try next:\n  \
         lockstep start                                  run a host\n  \
         lockstep sql                                    talk SQL to it\n  \
         lockstep bench voter --servers 127.0.0.1:21212  put load on it"
    );
    Ok(if consistent { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs the load and prints its result; true when the votes add up.
fn vote(address: &str, seconds: u64) -> Result<bool, ClientError> {
    let mut connection = Connection::connect(address, &ConnectOptions::default())?;
    voter::set_up(&mut connection, Form::Native)?;
    let options = DriverOptions {
        servers: vec![address.to_string()],
        connections: CONNECTIONS,
        pipeline: CALLS_IN_FLIGHT,
        rate_per_s: None,
        duration: Duration::from_secs(seconds),
        warmup: Duration::ZERO,
        keep_calls: false,
        never_sleeps: false,
    };
    let mut load = VoterLoad::new(1, lockstep_workloads::voter::CONTESTANTS, Form::Native);
    let mut view = LiveView::default();
    let measured = drive(&options, &mut load, &mut |progress| {
        if view.reports.is_multiple_of(REPORTS_PER_READING)
            && let Ok(standings) = voter::standings(&mut connection)
        {
            view.standings = standings;
        }
        view.show(progress);
    })?;
    let votes = voter::vote_count(&mut connection)?;
    view.standings = voter::standings(&mut connection)?;
    view.clear();
    print!("{}\n{}", bars(&view.standings), report::table(&measured, &[]));
    let result = load.result(measured, 0, votes);
    let rows = result.rows();
    let width = rows.iter().map(|row| row.0.len()).max().unwrap_or(0);
    rows.iter().for_each(|(name, value)| println!("{name:width$}  {value}"));
    Ok(result.is_consistent())
}

/// What is redrawn while the load runs.
#[derive(Default)]
struct LiveView {
    standings: Vec<(String, i64)>,
    reports: u64,
    /// Lines that stand on the terminal.
    drawn: usize,
}

impl LiveView {
    fn show(&mut self, progress: &Progress) {
        self.reports += 1;
        if io::stdout().is_terminal() {
            let text = format!("{}\n\n{}", progress.line(), bars(&self.standings));
            self.clear();
            // Lines that wrapped would break the way back up.
            print!("\x1b[?7l{text}\x1b[?7h");
            self.drawn = text.lines().count();
        } else if self.reports.is_multiple_of(2 * REPORTS_PER_READING) {
            let leader = self.standings.first();
            let leader = leader.map_or(String::new(), |(name, votes)| {
                format!("  first {name} with {}", grouped(*votes as u64))
            });
            println!("{}{leader}", progress.line());
        }
        // A terminal that cannot be written to is noticed by the result's own printing.
        let _ = io::stdout().flush();
    }

    /// Goes back to where the view began and wipes it.
    fn clear(&mut self) {
        if self.drawn > 0 {
            print!("\x1b[{}A\x1b[J", self.drawn);
            self.drawn = 0;
        }
    }
}

/// Votes for each contestant, as bars of which the longest is full.
fn bars(standings: &[(String, i64)]) -> String {
    let most = standings.iter().map(|row| row.1).max().unwrap_or(0).max(1);
    let name = standings.iter().map(|row| row.0.chars().count()).max().unwrap_or(0);
    let figure = standings.iter().map(|row| grouped(row.1 as u64).len()).max().unwrap_or(0);
    standings
        .iter()
        .map(|(contestant, votes)| {
            let filled = (*votes as f64 / most as f64 * BAR_WIDTH as f64) as usize;
            let bar = "#".repeat(filled.min(BAR_WIDTH));
            format!("{contestant:name$}  {bar:BAR_WIDTH$}  {:>figure$}\n", grouped(*votes as u64))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_in_proportion() {
        let standings = [("Ada".to_string(), 2000), ("Bruno".to_string(), 500)];
        let full = "#".repeat(40);
        let quarter = format!("{:40}", "#".repeat(10));
        let expected = format!("Ada    {full}  2 000\nBruno  {quarter}    500\n");
        assert_eq!(bars(&standings), expected);
        assert_eq!(bars(&[]), "");
    }
}
