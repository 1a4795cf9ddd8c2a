//! What can go wrong on the client's side. A call that the server refuses is no error here: its
//! response carries the status.

use lockstep_wire_volt::login::ReplyError;
use std::fmt;
use std::io;
use std::time::Duration;

/// Why a call has no response, or a connection could not be made.
#[derive(Debug)]
pub enum ClientError {
    /// The operating system refused something.
    Io {
        /// What was tried.
        action: &'static str,
        /// With which server.
        address: String,
        /// Its answer.
        error: io::Error,
    },
    /// The server refused the login, or answered it with bytes that are no reply.
    Login {
        /// The server.
        address: String,
        /// Its answer.
        error: ReplyError,
    },
    /// No response came in time. The call may still be executed.
    TimedOut {
        /// How long was waited.
        waited: Duration,
    },
    /// The connection closed. Calls in flight may have been executed.
    ConnectionLost {
        /// The server.
        address: String,
    },
    /// The server sent bytes that are no message.
    Protocol(String),
    /// A limit of the client's own; the call was not sent.
    LimitReached {
        /// What is limited.
        what: &'static str,
        /// The limit.
        limit: usize,
    },
    /// The server refused a call that the client needs to work, or that was asked to succeed.
    Refused {
        /// The status code.
        status: i8,
        /// The server's text.
        text: String,
    },
    /// No server of the cluster can be reached.
    NoServer(String),
}

impl ClientError {
    pub(crate) fn io(action: &'static str, address: &str, error: io::Error) -> ClientError {
        ClientError::Io { action, address: address.to_string(), error }
    }

    pub(crate) fn lost(address: &str) -> ClientError {
        ClientError::ConnectionLost { address: address.to_string() }
    }

    /// Whether the connection is of no more use.
    pub fn is_connection_lost(&self) -> bool {
        matches!(
            self,
            ClientError::Io { .. } | ClientError::ConnectionLost { .. } | ClientError::Protocol(_)
        )
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Io { action, address, error } => {
                write!(f, "cannot {action} {address}: {error}")
            }
            ClientError::Login { address, error } => write!(f, "{address}: {error}"),
            ClientError::TimedOut { waited } => {
                write!(f, "no response within {waited:?}; the call may still be executed")
            }
            ClientError::ConnectionLost { address } => {
                write!(f, "{address} closed the connection; calls in flight may be executed")
            }
            ClientError::Protocol(what) => write!(f, "the server broke the protocol: {what}"),
            ClientError::LimitReached { what, limit } => {
                write!(f, "the limit of {limit} {what} is reached")
            }
            ClientError::Refused { status, text } => write!(f, "status {status}: {text}"),
            ClientError::NoServer(what) => write!(f, "no server can be reached: {what}"),
        }
    }
}

impl std::error::Error for ClientError {}
