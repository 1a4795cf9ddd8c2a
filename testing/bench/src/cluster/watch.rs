//! A thread that asks any host that answers for the state of the cluster.

use lockstep_client::{ConnectOptions, Connection, ParameterWriter, Routing};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a host may take for an answer before the next one is asked.
const PATIENCE: Duration = Duration::from_millis(500);

/// Reads something of a host, again and again. It ends when this is dropped.
pub struct Watch<T> {
    latest: Arc<Mutex<Option<Arc<T>>>>,
    ask: Option<SyncSender<usize>>,
    thread: Option<JoinHandle<()>>,
}

impl<T: Send + Sync + 'static> Watch<T> {
    /// Asks the hosts at `addresses`, the next one where one does not answer: at intervals, and
    /// whenever [`Watch::ask`] is called.
    pub fn start(
        addresses: Vec<String>,
        interval: Duration,
        read: impl FnMut(&mut Connection) -> Result<T, String> + Send + 'static,
    ) -> Watch<T> {
        let latest = Arc::new(Mutex::new(None));
        let (ask, asked) = sync_channel(1);
        let published = Arc::clone(&latest);
        let thread = std::thread::spawn(move || {
            let mut reader = Reader { addresses, next: 0, connection: None, read };
            loop {
                if let Some(value) = reader.read()
                    && let Ok(mut latest) = published.lock()
                {
                    *latest = Some(Arc::new(value));
                }
                match asked.recv_timeout(interval) {
                    Ok(host) => reader.turn_to(host),
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return,
                }
            }
        });
        Watch { latest, ask: Some(ask), thread: Some(thread) }
    }

    /// What was read last; `None` before any host answered.
    pub fn latest(&self) -> Option<Arc<T>> {
        self.latest.lock().ok()?.clone()
    }

    /// Reads again at once, of the host at this position among the addresses.
    pub fn ask(&self, host: usize) {
        if let Some(ask) = &self.ask {
            // A full channel says that it is about to read.
            let _ = ask.try_send(host);
        }
    }
}

impl<T> Drop for Watch<T> {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with stands on stderr.
            let _ = thread.join();
        }
    }
}

struct Reader<R> {
    addresses: Vec<String>,
    next: usize,
    connection: Option<Connection>,
    read: R,
}

impl<R> Reader<R> {
    /// The next read is of this host.
    fn turn_to(&mut self, host: usize) {
        if (self.next + self.addresses.len() - 1) % self.addresses.len() != host {
            (self.next, self.connection) = (host, None);
        }
    }

    /// Asks each host once, until one answers.
    fn read<T>(&mut self) -> Option<T>
    where
        R: FnMut(&mut Connection) -> Result<T, String>,
    {
        let options = ConnectOptions {
            connect_timeout: PATIENCE,
            call_timeout: PATIENCE,
            ..ConnectOptions::default()
        };
        for _ in 0..=self.addresses.len() {
            if self.connection.is_none() {
                let address = &self.addresses[self.next];
                self.next = (self.next + 1) % self.addresses.len();
                self.connection = Connection::connect(address, &options).ok();
            }
            let Some(connection) = &mut self.connection else { continue };
            match (self.read)(connection) {
                Ok(value) => return Some(value),
                Err(_) => self.connection = None,
            }
        }
        None
    }
}

/// Where calls go, as the host of a connection has it.
///
/// # Errors
/// The host does not answer, or with something else.
pub fn read_routing(connection: &mut Connection) -> Result<Routing, String> {
    let mut routing = Routing::default();
    let mut parameters = ParameterWriter::default();
    parameters.text("TOPO").integer(0);
    let topology = connection.call("@Statistics", &parameters).map_err(|e| e.to_string())?;
    routing.read_topology(&topology.view()).map_err(|error| error.to_string())?;
    parameters.clear();
    parameters.text("PROCEDURES");
    let procedures = connection.call("@SystemCatalog", &parameters).map_err(|e| e.to_string())?;
    routing.read_procedures(&procedures.view()).map_err(|error| error.to_string())?;
    Ok(routing)
}
