//! One blocking connection: connect, log in, call. Several calls may be in flight; their
//! responses may come in any order.

use crate::buffer::ReceiveBuffer;
use crate::rows::{self, Table};
use crate::{CallOptions, ClientError, ParameterWriter, Response};
use lockstep_wire_volt::frame::DEFAULT_MAX_FRAME_BYTES;
use lockstep_wire_volt::login::{HashScheme, Login, LoginReply, MAX_USER_BYTES, Service};
use lockstep_wire_volt::{invocation, topology};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Login version of this client: it knows the graceful-stop notification.
const LOGIN_VERSION: i8 = 2;

/// How to connect and how long to wait.
#[derive(Debug, Clone)]
pub struct ConnectOptions {
    /// User name; empty works while the server asks for none.
    pub user: String,
    /// Password.
    pub password: String,
    /// For connecting and for the login, each.
    pub connect_timeout: Duration,
    /// For each blocking call.
    pub call_timeout: Duration,
    /// Greatest response that is accepted.
    pub max_response_bytes: usize,
    /// Greatest number of calls in flight on the connection.
    pub max_in_flight: usize,
}

impl Default for ConnectOptions {
    fn default() -> Self {
        ConnectOptions {
            user: String::new(),
            password: String::new(),
            connect_timeout: Duration::from_secs(10),
            call_timeout: Duration::from_secs(120),
            max_response_bytes: DEFAULT_MAX_FRAME_BYTES,
            max_in_flight: 3000,
        }
    }
}

/// What the server said about itself when it accepted the login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The host's number in its cluster.
    pub host_id: i32,
    /// The connection's number at the host.
    pub connection_id: i64,
    /// First half of the cluster's identity.
    pub cluster_timestamp_ms: i64,
    /// Second half of the cluster's identity.
    pub leader_address: i32,
    /// The server's version text.
    pub build: String,
}

/// A response that owns its bytes; they were checked when it was made.
#[derive(Debug, Clone)]
pub struct OwnedResponse {
    body: Vec<u8>,
}

impl OwnedResponse {
    pub(crate) fn new(body: &[u8]) -> Result<OwnedResponse, ClientError> {
        check_body(body)?;
        Ok(OwnedResponse { body: body.to_vec() })
    }

    /// The response, read in place.
    pub fn view(&self) -> Response<'_> {
        Response::decode(&self.body).expect("checked when the response was received")
    }

    /// Owned tables of a success; any other status is an error.
    pub fn tables(&self) -> Result<Vec<Table>, ClientError> {
        rows::tables(&self.view())
    }
}

fn check_body(body: &[u8]) -> Result<Response<'_>, ClientError> {
    Response::decode(body).map_err(|error| ClientError::Protocol(error.to_string()))
}

/// A logged-in stream and what the server said; the shared start of all clients.
pub(crate) struct LoggedIn {
    pub stream: TcpStream,
    pub identity: Identity,
    pub receive: ReceiveBuffer,
}

pub(crate) fn log_in(address: &str, options: &ConnectOptions) -> Result<LoggedIn, ClientError> {
    let mut stream = dial(address, options)?;
    let io = |error| ClientError::io("log in to", address, error);
    stream.set_nodelay(true).map_err(io)?;
    stream.set_read_timeout(Some(options.connect_timeout)).map_err(io)?;
    stream.set_write_timeout(Some(options.connect_timeout)).map_err(io)?;
    if options.user.len() > MAX_USER_BYTES {
        return Err(ClientError::LimitReached { what: "user name bytes", limit: MAX_USER_BYTES });
    }
    let mut request = Vec::new();
    let login = Login {
        version: LOGIN_VERSION,
        scheme: HashScheme::Sha256,
        service: Service::Database,
        user: &options.user,
        digest: &Sha256::digest(options.password.as_bytes()),
    };
    login.encode(&mut request);
    stream.write_all(&request).map_err(io)?;
    let mut receive = ReceiveBuffer::new(options.max_response_bytes);
    let identity = loop {
        if let Some(body) = receive.next_body()? {
            break identity(address, body)?;
        }
        match receive.read_from(&mut stream) {
            Ok((0, _)) => return Err(ClientError::lost(address)),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) => {
                return Err(ClientError::TimedOut { waited: options.connect_timeout });
            }
            Err(error) => return Err(io(error)),
        }
    };
    Ok(LoggedIn { stream, identity, receive })
}

fn dial(address: &str, options: &ConnectOptions) -> Result<TcpStream, ClientError> {
    let io = |error| ClientError::io("connect to", address, error);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for resolved in address.to_socket_addrs().map_err(io)? {
        match TcpStream::connect_timeout(&resolved, options.connect_timeout) {
            Ok(stream) => return Ok(stream),
            Err(error) => last = error,
        }
    }
    Err(io(last))
}

fn identity(address: &str, body: &[u8]) -> Result<Identity, ClientError> {
    let reply = LoginReply::decode(body)
        .map_err(|error| ClientError::Login { address: address.to_string(), error })?;
    Ok(Identity {
        host_id: reply.host_id,
        connection_id: reply.connection_id,
        cluster_timestamp_ms: reply.cluster_timestamp_ms,
        leader_address: reply.leader_address,
        build: reply.build.to_string(),
    })
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

/// What a server sent on its own.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Notices {
    /// The partitions have moved.
    pub topology_changed: bool,
    /// Procedures were created or dropped.
    pub catalog_changed: bool,
    /// The server will stop and wants no new calls.
    pub stopping: bool,
}

impl Notices {
    /// Takes note of a message with a reserved handle; false for all others.
    pub(crate) fn note(&mut self, handle: i64) -> bool {
        match handle {
            topology::TOPOLOGY_CHANGED_HANDLE => self.topology_changed = true,
            topology::CATALOG_CHANGED_HANDLE => self.catalog_changed = true,
            topology::GRACEFUL_STOP_HANDLE => self.stopping = true,
            handle => return handle >= topology::FIRST_RESERVED_HANDLE,
        }
        true
    }
}

/// Closes a [`Connection`] from another thread.
#[derive(Debug)]
pub struct Closer(TcpStream);

impl Closer {
    /// Closes the connection: a call that waits on it returns, and the server cancels queries that
    /// run for it. A call that changes data runs to its end.
    pub fn close(&self) {
        // It fails only for a connection that is closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// One blocking connection to one host.
pub struct Connection {
    stream: TcpStream,
    receive: ReceiveBuffer,
    send: Vec<u8>,
    address: String,
    identity: Identity,
    call_timeout: Duration,
    max_in_flight: usize,
    next_handle: i64,
    /// Calls in flight, and those whose response came while another was waited for.
    pending: BTreeMap<i64, Option<OwnedResponse>>,
    notices: Notices,
}

impl Connection {
    /// Connects to `host:port` and logs in.
    pub fn connect(address: &str, options: &ConnectOptions) -> Result<Connection, ClientError> {
        let LoggedIn { stream, identity, receive } = log_in(address, options)?;
        stream
            .set_write_timeout(Some(options.call_timeout))
            .map_err(|error| ClientError::io("configure", address, error))?;
        Ok(Connection {
            stream,
            receive,
            send: Vec::new(),
            address: address.to_string(),
            identity,
            call_timeout: options.call_timeout,
            max_in_flight: options.max_in_flight,
            next_handle: 0,
            pending: BTreeMap::new(),
            notices: Notices::default(),
        })
    }

    /// What the server said when it accepted the login.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The address as given to [`Connection::connect`].
    pub fn address(&self) -> &str {
        &self.address
    }

    /// What the server sent on its own since the last time; forgets it.
    pub fn take_notices(&mut self) -> Notices {
        std::mem::take(&mut self.notices)
    }

    /// What closes this connection while another thread waits on it.
    ///
    /// # Errors
    /// The process has no file descriptor left.
    pub fn closer(&self) -> Result<Closer, ClientError> {
        let stream = self.stream.try_clone();
        stream.map(Closer).map_err(|error| ClientError::io("configure", &self.address, error))
    }

    /// Whether the server has closed the connection, as far as it can be seen without waiting.
    pub fn is_closed(&mut self) -> bool {
        if self.stream.set_nonblocking(true).is_err() {
            return true;
        }
        let is_closed = loop {
            match self.receive.read_from(&mut self.stream) {
                Ok((0, _)) => break true,
                Ok(_) if self.sort_received().is_err() => break true,
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => break !is_timeout(&error),
            }
        };
        self.stream.set_nonblocking(false).is_err() || is_closed
    }

    /// Calls a procedure and waits for its response.
    pub fn call(
        &mut self,
        procedure: &str,
        parameters: &ParameterWriter,
    ) -> Result<OwnedResponse, ClientError> {
        self.call_with(procedure, parameters, &CallOptions::default())
    }

    /// As [`Connection::call`], with options.
    pub fn call_with(
        &mut self,
        procedure: &str,
        parameters: &ParameterWriter,
        options: &CallOptions,
    ) -> Result<OwnedResponse, ClientError> {
        let handle = self.submit(procedure, parameters.bytes(), options)?;
        self.wait(handle)
    }

    /// Runs SQL text through `@AdHoc`; its tables, or the server's refusal as an error.
    pub fn sql(&mut self, text: &str) -> Result<Vec<Table>, ClientError> {
        let mut parameters = ParameterWriter::default();
        parameters.text(text);
        self.call("@AdHoc", &parameters)?.tables()
    }

    /// Sends a call and returns the handle to [`Connection::wait`] for. `parameters` is an
    /// encoded set.
    pub fn submit(
        &mut self,
        procedure: &str,
        parameters: &[u8],
        options: &CallOptions,
    ) -> Result<i64, ClientError> {
        if self.pending.len() >= self.max_in_flight {
            let limit = self.max_in_flight;
            return Err(ClientError::LimitReached { what: "calls in flight", limit });
        }
        let handle = self.next_handle;
        self.next_handle += 1;
        self.send.clear();
        invocation::encode(&mut self.send, procedure, handle, options, parameters);
        self.stream
            .write_all(&self.send)
            .map_err(|error| ClientError::io("send to", &self.address, error))?;
        self.pending.insert(handle, None);
        Ok(handle)
    }

    /// Waits for the response of a submitted call. After a time-out the call is forgotten and the
    /// connection stays usable.
    pub fn wait(&mut self, handle: i64) -> Result<OwnedResponse, ClientError> {
        let deadline = Instant::now() + self.call_timeout;
        loop {
            match self.pending.get_mut(&handle) {
                None => {
                    return Err(ClientError::Protocol(format!("no call has handle {handle}")));
                }
                Some(response @ Some(_)) => {
                    let response = response.take();
                    self.pending.remove(&handle);
                    return Ok(response.expect("matched as present"));
                }
                Some(None) => {}
            }
            if let Err(error) = self.receive_some(deadline) {
                self.pending.remove(&handle);
                return Err(error);
            }
        }
    }

    /// Sorts all whole frames; whether a call got its response.
    fn sort_received(&mut self) -> Result<bool, ClientError> {
        let mut is_answered = false;
        while let Some(body) = self.receive.next_body()? {
            let handle = check_body(body)?.client_handle;
            if let Some(slot) = self.pending.get_mut(&handle) {
                *slot = Some(OwnedResponse::new(body)?);
                is_answered = true;
            } else {
                // The rest are notices, and answers to calls that timed out.
                self.notices.note(handle);
            }
        }
        Ok(is_answered)
    }

    /// Sorts what was received; if no call has its response by that, reads once.
    fn receive_some(&mut self, deadline: Instant) -> Result<(), ClientError> {
        if self.sort_received()? {
            return Ok(());
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ClientError::TimedOut { waited: self.call_timeout });
        }
        let io = |error| ClientError::io("receive from", &self.address, error);
        self.stream.set_read_timeout(Some(left)).map_err(io)?;
        match self.receive.read_from(&mut self.stream) {
            Ok((0, _)) => Err(ClientError::lost(&self.address)),
            Ok(_) => Ok(()),
            Err(error) if is_timeout(&error) || error.kind() == io::ErrorKind::Interrupted => {
                Ok(())
            }
            Err(error) => Err(ClientError::io("receive from", &self.address, error)),
        }
    }
}
