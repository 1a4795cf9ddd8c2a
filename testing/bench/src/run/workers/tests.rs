//! Workers whose clocks are apart, that refuse, and that are lost.

use super::wire::{figures_message, receive, send};
use super::*;
use std::net::TcpListener;

/// Answers a coordinator as a worker whose clock is ahead does; `answer` gives what it says of
/// other messages, and `None` ends it.
fn worker(
    ahead_us: i64,
    mut answer: impl FnMut(&Value) -> Option<Value> + Send + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a coordinator");
        let mut reader = BufReader::new(stream.try_clone().expect("a second handle"));
        while let Ok(Some(message)) = receive(&mut reader) {
            let said = match message["clock"].as_bool() {
                Some(_) => Some(json!({ "clock_us": wall_us().saturating_add_signed(ahead_us) })),
                None => answer(&message),
            };
            let Some(said) = said else { return };
            if !said.is_null() {
                send(&mut stream, &said).expect("the coordinator listens");
            }
        }
    });
    address
}

fn options(addresses: Vec<String>) -> WorkerOptions {
    WorkerOptions {
        workers: Workers::At(addresses),
        arguments: Vec::new(),
        clock_limit: Duration::from_millis(10),
    }
}

fn drive_options() -> DriveOptions {
    DriveOptions {
        servers: vec!["192.0.2.1:1".to_string()],
        connections: 3,
        clients: 5,
        rate_per_s: None,
        burst: 1,
        duration: Duration::from_secs(1),
        warmup: Duration::ZERO,
        seed: 1,
        server_processes: Vec::new(),
        first_session: 0,
        share: Share::WHOLE,
        keep_calls_of: None,
    }
}

/// Figures of a hundred transactions for each client.
fn figures_of(message: &Value) -> Value {
    let mut figures = Figures::new(&["READ"], Duration::from_secs(1));
    let clients = message["drive"]["clients"].as_u64().unwrap_or(0);
    figures.transactions[0].good = clients * 100;
    figures.counts = vec![message["drive"]["first_session"].as_u64().unwrap_or(0)];
    figures_message(&figures)
}

/// A worker that works; what it is asked to drive is answered at the start.
fn good_worker(ahead_us: i64, start: std::sync::mpsc::Sender<u64>) -> String {
    let mut drive = Value::Null;
    worker(ahead_us, move |message| {
        if message["prepare"].is_object() {
            return Some(json!({ "ready": true }));
        }
        if message["drive"].is_object() {
            drive = message.clone();
            return Some(json!({ "connected": true }));
        }
        let told = message["start_at_us"].as_u64().expect("a start");
        start.send(told).expect("the test listens");
        Some(figures_of(&drive))
    })
}

#[test]
fn clocks_that_are_apart_are_measured_said_and_made_up_for() {
    let (sender, starts) = std::sync::mpsc::channel();
    let hour_us = 3_600_000_000;
    let addresses = vec![good_worker(hour_us, sender.clone()), good_worker(0, sender)];
    let mut team = Team::gather(&options(addresses), "192.0.2.1:1", &["READ"]).expect("a team");
    let facts = team.facts();
    assert!(facts[0].apart && !facts[1].apart, "{facts:?}");
    let ahead = facts[0].clock_ahead_us.expect("it was measured");
    assert!((ahead - hour_us).abs() <= facts[0].round_trip_us as i64, "{facts:?}");
    let stop = AtomicBool::new(false);
    let figures = team.drive(&drive_options(), &stop, &mut |_| ()).expect("figures");
    assert_eq!((figures.answered(), figures.complete, figures.interrupted), (500, true, false));
    // Three clients and two, with sessions of their own.
    assert_eq!(figures.counts, [3]);
    let (one, other) = (starts.recv().expect("a start"), starts.recv().expect("a start"));
    let apart = one.abs_diff(other).abs_diff(hour_us as u64);
    assert!(apart <= facts[0].round_trip_us + facts[1].round_trip_us, "{apart}");
}

#[test]
fn workers_that_are_lost_leave_the_figures_of_the_others() {
    let (sender, _starts) = std::sync::mpsc::channel();
    let lost = worker(0, |message| {
        if message["prepare"].is_object() {
            return Some(json!({ "ready": true }));
        }
        message["drive"].is_object().then(|| json!({ "connected": true }))
    });
    let addresses = vec![good_worker(0, sender), lost];
    let mut team = Team::gather(&options(addresses), "192.0.2.1:1", &["READ"]).expect("a team");
    let stop = AtomicBool::new(false);
    let figures = team.drive(&drive_options(), &stop, &mut |_| ()).expect("figures");
    assert_eq!((figures.answered(), figures.complete, figures.interrupted), (300, false, true));
    assert!(figures.first_error.expect("an error").contains("gave no figures"));
}

#[test]
fn workers_that_refuse_are_named() {
    let refuses = worker(0, |_| Some(json!({ "error": "the worker is version 9" })));
    let error = Team::gather(&options(vec![refuses.clone()]), "192.0.2.1:1", &["READ"]);
    let error = error.err().expect("it refuses");
    assert_eq!(error, format!("the worker at {refuses}: the worker is version 9"));
    let nobody = TcpListener::bind("127.0.0.1:0").and_then(|l| l.local_addr()).expect("a port");
    let error = Team::gather(&options(vec![nobody.to_string()]), "192.0.2.1:1", &["READ"]);
    assert!(error.err().expect("nobody listens").contains(&nobody.to_string()));
    assert!(Team::gather(&options(Vec::new()), "192.0.2.1:1", &["READ"]).is_err());
}
