//! The shell's connection to its server. Ctrl-C closes it, which cancels the query that runs for
//! it at the server; at a prompt it is made again when it was lost.

use super::session::Trouble;
use lockstep_client::{ClientError, Closer, ConnectOptions, Connection};
use signal_hook::consts::SIGINT;
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What is shown for a call that the user has canceled.
const CANCELED: &str = "canceled: the server stops a query; a statement that changes data runs to \
                        its end";

/// Whether the user has pressed Ctrl-C, and what is to be closed for it.
#[derive(Clone, Default)]
pub struct Interrupt(Arc<InterruptState>);

#[derive(Default)]
struct InterruptState {
    requested: AtomicBool,
    in_flight: Mutex<Option<Closer>>,
}

impl Interrupt {
    /// From now on SIGINT does not end the process: it cancels the call in flight.
    ///
    /// # Errors
    /// The system refuses the handler.
    pub fn install(&self) -> Result<(), String> {
        let failed = |error: std::io::Error| format!("Ctrl-C cannot be handled: {error}");
        let raised = self.clone();
        let mut signals = Signals::new([SIGINT]).map_err(failed)?;
        let handler = move || signals.forever().for_each(|_| raised.raise());
        std::thread::Builder::new().name("interrupt".to_string()).spawn(handler).map_err(failed)?;
        Ok(())
    }

    /// Cancels the call in flight and everything that was to run after it.
    fn raise(&self) {
        self.0.requested.store(true, Ordering::SeqCst);
        if let Some(closer) = &*self.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner) {
            closer.close();
        }
    }

    /// Whether it was raised since [`Interrupt::clear`].
    pub fn is_requested(&self) -> bool {
        self.0.requested.load(Ordering::SeqCst)
    }

    /// A new line of input is to run.
    pub fn clear(&self) {
        self.0.requested.store(false, Ordering::SeqCst);
    }

    fn set_in_flight(&self, closer: Option<Closer>) {
        *self.0.in_flight.lock().unwrap_or_else(PoisonError::into_inner) = closer;
    }
}

/// The connection of a session.
pub struct Link {
    address: String,
    /// None after it was lost.
    connection: Option<Connection>,
    /// With a prompt: what cancels calls. A lost connection is made again.
    interrupt: Option<Interrupt>,
    /// The last connection was closed to cancel a call.
    is_canceled: bool,
}

impl Link {
    /// Connects to a server.
    ///
    /// # Errors
    /// It cannot be reached, or refuses the login.
    pub fn connect(address: &str, interrupt: Option<Interrupt>) -> Result<Link, ClientError> {
        let connection = Some(Connection::connect(address, &ConnectOptions::default())?);
        let address = address.to_string();
        Ok(Link { address, connection, interrupt, is_canceled: false })
    }

    /// The server's address, as it was given.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether the user has canceled the input that runs.
    pub fn is_interrupted(&self) -> bool {
        self.interrupt.as_ref().is_some_and(Interrupt::is_requested)
    }

    /// The connection, if there is one that the server has not closed.
    pub fn open_connection(&mut self) -> Option<&mut Connection> {
        let connection = self.connection.as_mut()?;
        (!connection.is_closed()).then_some(connection)
    }

    /// Makes the connection again if it is lost; true if that has to be reported. To be called
    /// before each call: nothing was sent on a connection that is found closed here.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn restore(&mut self) -> Result<bool, Trouble> {
        if self.interrupt.is_none() || self.open_connection().is_some() {
            return Ok(false);
        }
        self.connection = None;
        self.connection = Some(Connection::connect(&self.address, &ConnectOptions::default())?);
        Ok(!std::mem::take(&mut self.is_canceled))
    }

    /// Runs calls that Ctrl-C cancels.
    ///
    /// # Errors
    /// Those of the calls; that the user canceled them.
    pub fn run<T>(
        &mut self,
        calls: impl FnOnce(&mut Connection) -> Result<T, ClientError>,
    ) -> Result<T, Trouble> {
        let Some(connection) = &mut self.connection else {
            return Err(ClientError::NoServer(self.address.clone()).into());
        };
        if let Some(interrupt) = &self.interrupt {
            interrupt.set_in_flight(Some(connection.closer()?));
            if interrupt.is_requested() {
                interrupt.set_in_flight(None);
                return Err(Trouble::new(CANCELED));
            }
        }
        let result = calls(connection);
        let Some(interrupt) = &self.interrupt else { return Ok(result?) };
        interrupt.set_in_flight(None);
        self.is_canceled = interrupt.is_requested();
        match result {
            Ok(result) => Ok(result),
            Err(error) => {
                let is_lost = error.is_connection_lost();
                if is_lost {
                    self.connection = None;
                }
                if is_lost && self.is_canceled {
                    return Err(Trouble::new(CANCELED));
                }
                Err(error.into())
            }
        }
    }
}
