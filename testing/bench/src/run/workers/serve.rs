//! A worker: drives its share of the sessions for a coordinator that connects.

use super::super::drive::drive_from;
use super::super::{Server, connect};
use super::wall_us;
use super::wire::{figures_message, progress_message, read_options, receive, send};
use lockstep_workloads::Workload;
use serde_json::{Value, json};
use std::io::BufReader;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

/// Messages that wait to be handled.
const MAX_WAITING: usize = 64;
/// The longest time between connecting and the common start.
const LONGEST_LEAD: Duration = Duration::from_secs(60);

/// Makes a workload of a command line.
pub type Prepare<'a> = &'a dyn Fn(&[String]) -> Result<Box<dyn Workload>, String>;

/// Serves coordinators, one after the other; only one if `once`.
///
/// # Errors
/// Nobody can connect any more.
pub fn serve(listener: &TcpListener, once: bool, prepare: Prepare<'_>) -> Result<(), String> {
    loop {
        let (stream, peer) = listener.accept().map_err(|error| error.to_string())?;
        // What went wrong with one coordinator is no reason not to serve the next one.
        if let Err(error) = serve_one(stream, prepare) {
            eprintln!("lockstep: the coordinator at {peer} left: {error}");
        }
        if once {
            return Ok(());
        }
    }
}

/// Reads messages in a thread of its own, so that a stop is seen in the middle of a run.
fn listen(stream: &TcpStream) -> Result<(Receiver<Value>, Arc<AtomicBool>), String> {
    let mut reader = BufReader::new(stream.try_clone().map_err(|error| error.to_string())?);
    let (sender, receiver) = sync_channel(MAX_WAITING);
    let stop = Arc::new(AtomicBool::new(false));
    let stopper = Arc::clone(&stop);
    std::thread::spawn(move || {
        while let Ok(Some(message)) = receive(&mut reader) {
            if message["stop"].as_bool() == Some(true) {
                stopper.store(true, Ordering::Relaxed);
            } else if sender.send(message).is_err() {
                break;
            }
        }
        // Nobody waits for the figures of a run whose coordinator is gone.
        stopper.store(true, Ordering::Relaxed);
    });
    Ok((receiver, stop))
}

fn serve_one(mut stream: TcpStream, prepare: Prepare<'_>) -> Result<(), String> {
    // Clocks are compared by round trips.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    let (messages, stop) = listen(&stream)?;
    let mut workload: Option<Box<dyn Workload>> = None;
    while let Ok(message) = messages.recv() {
        let answer = if message["clock"].as_bool() == Some(true) {
            json!({ "clock_us": wall_us() })
        } else if message["prepare"].is_object() {
            match prepared(&message["prepare"], prepare) {
                Ok(made) => {
                    workload = Some(made);
                    json!({ "ready": true })
                }
                Err(error) => json!({ "error": error }),
            }
        } else {
            let driven = match (&workload, message["drive"].is_object()) {
                (Some(workload), true) => {
                    let drive = &message["drive"];
                    driven(&**workload, drive, &mut stream, (&messages, &stop))
                }
                (None, true) => Err("nothing was prepared".to_string()),
                (_, false) => Err(format!("a worker does not understand: {message}")),
            };
            driven.unwrap_or_else(|error| json!({ "error": error }))
        };
        send(&mut stream, &answer)?;
    }
    Ok(())
}

fn prepared(message: &Value, prepare: Prepare<'_>) -> Result<Box<dyn Workload>, String> {
    let (own, theirs) = (env!("CARGO_PKG_VERSION"), message["version"].as_str().unwrap_or("?"));
    if own != theirs {
        return Err(format!("the worker is version {own}, its coordinator {theirs}"));
    }
    let words = message["arguments"].as_array().ok_or("a message lacks arguments")?;
    let words: Vec<String> = words.iter().filter_map(|w| w.as_str().map(str::to_string)).collect();
    let server = message["server"].as_str().ok_or("a message lacks the server")?;
    let mut workload = prepare(&words)?;
    workload.begin(&mut Server(connect(server)?))?;
    Ok(workload)
}

/// Connects, says so, waits for the common start, and drives.
fn driven(
    workload: &dyn Workload,
    message: &Value,
    stream: &mut TcpStream,
    (messages, stop): (&Receiver<Value>, &AtomicBool),
) -> Result<Value, String> {
    let options = read_options(message)?;
    let mut teller = stream.try_clone().map_err(|error| error.to_string())?;
    let start = || {
        send(stream, &json!({ "connected": true }))?;
        let at = messages.recv_timeout(LONGEST_LEAD).map_err(|_| "no start was told")?;
        let at_us = at["start_at_us"].as_u64().ok_or("a start was expected")?;
        Ok(Instant::now()
            + Duration::from_micros(at_us.saturating_sub(wall_us())).min(LONGEST_LEAD))
    };
    let mut progress = |progress: &crate::report::Progress| {
        // A coordinator that is gone is noticed by the reading thread.
        let _ = send(&mut teller, &progress_message(progress));
    };
    let figures = drive_from(workload, &options, start, stop, &mut progress)?;
    Ok(figures_message(&figures))
}
