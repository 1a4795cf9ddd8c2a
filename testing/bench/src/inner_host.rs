//! Hosts whose sites make the load themselves, in their own threads.

use lockstep_client::{ConnectOptions, Connection};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration, SiteLoad, TestSettings};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long calls in flight may take to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// Starts a host with one site a load, one on each core from the first, as far as there are cores.
///
/// # Errors
/// What the system or the host refused.
pub fn start(loads: Vec<Box<dyn SiteLoad>>, options: &Options) -> Result<Server, String> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut natives = NativeRegistry::default();
    for procedure in lockstep_workloads::test_procedures() {
        natives.register(procedure);
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let configuration = ServerConfiguration {
        sites: loads.len() as u32,
        for_tests: TestSettings::default(),
        client: any_port,
        admin: any_port,
        options: options.clone(),
        natives,
        pin_to_cores: (0..loads.len()).map(|site| site % cores).collect(),
        java_options: Vec::new(),
        data: None,
        cluster: None,
    };
    Server::start_with_loads(configuration, loads).map_err(|error| error.to_string())
}

/// A connection to a host.
///
/// # Errors
/// It cannot be made.
pub fn connect(server: &Server) -> Result<Connection, String> {
    let address = server.client_address().to_string();
    Connection::connect(&address, &ConnectOptions::default()).map_err(|e| e.to_string())
}

/// Readings at both ends of a measured time.
#[derive(Debug, Clone, Copy)]
pub struct Timed<T> {
    /// At its begin.
    pub before: T,
    /// At its end.
    pub after: T,
    /// Its seconds.
    pub seconds: f64,
}

/// Switches the loads on for a warm-up and the time that is measured, and takes a reading at both
/// ends of that time. Then it waits for a quarter of the warm-up, in which the calls in flight end.
pub fn time_loads<T>(
    running: &AtomicBool,
    (warmup, duration): (Duration, Duration),
    reading: impl Fn() -> T,
) -> Timed<T> {
    running.store(true, Ordering::Relaxed);
    std::thread::sleep(warmup);
    let (start, before) = (Instant::now(), reading());
    std::thread::sleep(duration);
    let (after, seconds) = (reading(), start.elapsed().as_secs_f64());
    running.store(false, Ordering::Relaxed);
    std::thread::sleep(warmup / 4);
    Timed { before, after, seconds }
}

/// Repeats a check until it succeeds: calls in flight may take some time to end.
///
/// # Errors
/// That of the check, when it still fails after 10 seconds.
pub fn settled(mut check: impl FnMut() -> Result<(), String>) -> Result<(), String> {
    let start = Instant::now();
    loop {
        match check() {
            Ok(()) => return Ok(()),
            Err(error) if start.elapsed() > PATIENCE => return Err(error),
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loads_run_while_they_are_timed_and_checks_are_repeated() {
        let running = AtomicBool::new(false);
        let times = (Duration::from_millis(4), Duration::from_millis(20));
        let timed = time_loads(&running, times, || running.load(Ordering::Relaxed));
        assert!(timed.before && timed.after && !running.load(Ordering::Relaxed));
        assert!(timed.seconds >= 0.02, "{}", timed.seconds);
        let mut checks = 0;
        let check = || {
            checks += 1;
            if checks < 3 { Err("in flight".to_string()) } else { Ok(()) }
        };
        assert_eq!(settled(check), Ok(()));
        assert_eq!(checks, 3);
    }
}
