//! What a coordinator and its workers say to each other: JSON, a message a line.

use super::super::drive::{DriveOptions, Share};
use super::super::figures::Figures;
use super::super::usage::ProcessorTime;
use crate::report::Progress;
use hdrhistogram::Histogram;
use serde_json::{Value, json};
use std::io::{BufRead, Read, Write};
use std::time::Duration;

/// The longest message: figures with histograms of some thousand values each.
const MAX_LINE_BYTES: u64 = 64 << 20;

/// Sends a message.
///
/// # Errors
/// The other side is gone.
pub fn send(to: &mut dyn Write, message: &Value) -> Result<(), String> {
    let text = message.to_string() + "\n";
    to.write_all(text.as_bytes()).and_then(|()| to.flush()).map_err(|error| error.to_string())
}

/// The next message; `None` at the end.
///
/// # Errors
/// What came is no message, or longer than one.
pub fn receive(from: &mut dyn BufRead) -> Result<Option<Value>, String> {
    let mut text = String::new();
    let read = from.take(MAX_LINE_BYTES).read_line(&mut text).map_err(|e| e.to_string())?;
    match (read, text.ends_with('\n')) {
        (0, _) => Ok(None),
        (_, false) => Err(format!("a message breaks off, or is over {MAX_LINE_BYTES} bytes")),
        (_, true) => serde_json::from_str(&text).map(Some).map_err(|error| error.to_string()),
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn number(value: &Value, key: &str) -> Result<u64, String> {
    value[key].as_u64().ok_or_else(|| format!("a message lacks the number {key}"))
}

fn numbers(value: &Value, key: &str) -> Result<Vec<u64>, String> {
    let all = value[key].as_array().ok_or_else(|| format!("a message lacks the list {key}"))?;
    all.iter()
        .map(|n| n.as_u64().ok_or_else(|| format!("{key} holds other than numbers")))
        .collect()
}

/// How to drive, as a message.
pub fn options_message(options: &DriveOptions) -> Value {
    json!({
        "servers": options.servers, "connections": options.connections,
        "clients": options.clients, "rate_per_s": options.rate_per_s, "burst": options.burst,
        "duration_us": micros(options.duration), "warmup_us": micros(options.warmup),
        "seed": options.seed, "server_processes": options.server_processes,
        "first_session": options.first_session, "share": options.share.number,
        "shares": options.share.of,
    })
}

/// How to drive, of a message.
///
/// # Errors
/// Something is missing.
pub fn read_options(message: &Value) -> Result<DriveOptions, String> {
    let servers = message["servers"].as_array().ok_or("a message lacks servers")?;
    let servers: Vec<String> =
        servers.iter().filter_map(|name| name.as_str().map(str::to_string)).collect();
    if servers.is_empty() {
        return Err("a message names no servers".to_string());
    }
    let process = |id: u64| u32::try_from(id).map_err(|_| format!("{id} is no process"));
    let server_processes = numbers(message, "server_processes")?.into_iter().map(process);
    Ok(DriveOptions {
        servers,
        connections: number(message, "connections")? as usize,
        clients: number(message, "clients")? as usize,
        rate_per_s: message["rate_per_s"].as_f64(),
        burst: number(message, "burst")?,
        duration: Duration::from_micros(number(message, "duration_us")?),
        warmup: Duration::from_micros(number(message, "warmup_us")?),
        seed: number(message, "seed")?,
        server_processes: server_processes.collect::<Result<_, _>>()?,
        first_session: number(message, "first_session")?,
        share: Share { number: number(message, "share")?, of: number(message, "shares")?.max(1) },
        keep_calls_of: None,
    })
}

/// Progress as a message.
pub fn progress_message(progress: &Progress) -> Value {
    json!({ "progress": {
        "elapsed_us": micros(progress.elapsed), "total_us": micros(progress.total),
        "warming_up": progress.warming_up, "rate_per_s": progress.rate_per_s,
        "errors": progress.errors, "p50_us": progress.p50_us, "p99_us": progress.p99_us,
    } })
}

/// Progress of a message.
///
/// # Errors
/// Something is missing.
pub fn read_progress(message: &Value) -> Result<Progress, String> {
    Ok(Progress {
        elapsed: Duration::from_micros(number(message, "elapsed_us")?),
        total: Duration::from_micros(number(message, "total_us")?),
        warming_up: message["warming_up"].as_bool().unwrap_or(false),
        rate_per_s: message["rate_per_s"].as_f64().unwrap_or(0.0),
        errors: number(message, "errors")?,
        p50_us: number(message, "p50_us")?,
        p99_us: number(message, "p99_us")?,
    })
}

/// The histogram's values, each with how often it was recorded: one array of both in turn.
fn histogram_values(histogram: &Histogram<u64>) -> Vec<u64> {
    let recorded = histogram.iter_recorded();
    recorded.flat_map(|step| [step.value_iterated_to(), step.count_at_value()]).collect()
}

fn read_histogram(into: &mut Histogram<u64>, values: &[u64]) {
    for pair in values.chunks_exact(2) {
        into.saturating_record_n(pair[0], pair[1]);
    }
}

/// Figures as a message.
pub fn figures_message(figures: &Figures) -> Value {
    let kind = |kind: &super::super::figures::TransactionFigures| {
        json!({
            "good": kind.good, "aborted": kind.aborted, "errors": kind.errors,
            "latency_us": histogram_values(&kind.latency_us),
        })
    };
    json!({ "figures": {
        "transactions": figures.transactions.iter().map(kind).collect::<Vec<_>>(),
        "latency_us": histogram_values(&figures.latency_us),
        "duration_us": micros(figures.duration), "per_second": figures.per_second,
        "turns": figures.turns, "late": figures.late, "all": figures.all,
        "first_error": figures.first_error,
        "lost_connections": figures.lost_connections, "interrupted": figures.interrupted,
        "complete": figures.complete, "counts": figures.counts,
        "load_us": micros(figures.processor.load),
        "servers_us": figures.processor.servers.map(micros),
    } })
}

/// Figures of a message, of a workload with these transactions.
///
/// # Errors
/// Something is missing, or the transactions are others.
pub fn read_figures(message: &Value, names: &[&'static str]) -> Result<Figures, String> {
    let mut figures = Figures::new(names, Duration::from_micros(number(message, "duration_us")?));
    let kinds = message["transactions"].as_array().ok_or("a message lacks transactions")?;
    if kinds.len() != names.len() {
        return Err(format!("{} transactions were told of, {} exist", kinds.len(), names.len()));
    }
    for (kind, into) in kinds.iter().zip(&mut figures.transactions) {
        into.good = number(kind, "good")?;
        into.aborted = number(kind, "aborted")?;
        into.errors = number(kind, "errors")?;
        read_histogram(&mut into.latency_us, &numbers(kind, "latency_us")?);
    }
    read_histogram(&mut figures.latency_us, &numbers(message, "latency_us")?);
    figures.per_second = numbers(message, "per_second")?;
    figures.turns = number(message, "turns")?;
    figures.late = number(message, "late")?;
    figures.all = number(message, "all")?;
    figures.first_error = message["first_error"].as_str().map(str::to_string);
    figures.lost_connections = number(message, "lost_connections")?;
    figures.interrupted = message["interrupted"].as_bool().unwrap_or(true);
    figures.complete = message["complete"].as_bool().unwrap_or(false);
    figures.counts = numbers(message, "counts")?;
    figures.processor = ProcessorTime {
        load: Duration::from_micros(number(message, "load_us")?),
        servers: message["servers_us"].as_u64().map(Duration::from_micros),
    };
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_workloads::Verdict;

    #[test]
    fn figures_arrive_as_they_were_and_add_up() {
        let names = ["READ", "UPDATE"];
        let mut figures = Figures::new(&names, Duration::from_millis(1500));
        for us in 0..5000 {
            figures.record(0, Verdict::Good, Duration::from_micros(us * us));
        }
        figures.record(1, Verdict::Aborted, Duration::from_secs(3));
        figures.record(1, Verdict::Error, Duration::from_secs(9));
        (figures.per_second, figures.counts) = (vec![4000, 1001], vec![7, 8]);
        figures.processor.servers = Some(Duration::from_millis(20));
        let mut bytes = Vec::new();
        send(&mut bytes, &figures_message(&figures)).expect("it is written");
        let message = receive(&mut &bytes[..]).expect("a message").expect("there is one");
        let read = read_figures(&message["figures"], &names).expect("figures");
        assert_eq!(read.latency_us, figures.latency_us);
        assert_eq!(read.transactions[0].latency_us, figures.transactions[0].latency_us);
        assert_eq!((read.answered(), read.errors()), (5001, 1));
        assert!(read_figures(&message["figures"], &["READ"]).is_err());
        let mut sum = read;
        sum.add(&figures);
        assert_eq!((sum.answered(), sum.errors()), (10_002, 2));
        assert_eq!((sum.per_second, sum.counts), (vec![8000, 2002], vec![14, 16]));
        assert_eq!(sum.latency_us.len(), 10_002);
        assert_eq!(sum.duration, Duration::from_millis(1500));
    }

    #[test]
    fn what_is_no_message_is_refused() {
        assert_eq!(receive(&mut &b""[..]), Ok(None));
        assert!(receive(&mut &b"{\"a\": 1}"[..]).is_err(), "it breaks off");
        assert!(receive(&mut &b"hello\n"[..]).is_err());
        assert!(read_options(&json!({ "servers": ["a:1"] })).is_err());
    }
}
