//! How a call ended: the status that the client sees, and whether a failure would happen alike
//! on every replica.

use std::fmt;

/// The status codes that a server sends, with VoltDB's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum Status {
    /// The call did its work.
    Success = 1,
    /// The procedure decided to abort.
    UserAbort = -1,
    /// A constraint, a SQL error, bad parameters, bad SQL.
    GracefulFailure = -2,
    /// An unknown procedure, no permission, an error that the server did not foresee.
    UnexpectedFailure = -3,
    /// The server is paused or stopping.
    ServerUnavailable = -5,
    /// The partition's leader failed while the call ran: it may have committed.
    ResponseUnknown = -7,
    /// The work was done in part.
    OperationalFailure = -9,
    /// This setting cannot change while the server runs.
    UnsupportedDynamicChange = -13,
    /// A compound procedure decided to end without success.
    CompoundUserAbort = -17,
    /// A compound procedure took too long.
    CompoundTimeout = -18,
}

impl Status {
    /// The wire code.
    pub fn code(self) -> i8 {
        self as i8
    }

    /// The status of a wire code, if it is one that a server sends.
    pub fn from_code(code: i8) -> Option<Status> {
        const ALL: [Status; 10] = [
            Status::Success,
            Status::UserAbort,
            Status::GracefulFailure,
            Status::UnexpectedFailure,
            Status::ServerUnavailable,
            Status::ResponseUnknown,
            Status::OperationalFailure,
            Status::UnsupportedDynamicChange,
            Status::CompoundUserAbort,
            Status::CompoundTimeout,
        ];
        ALL.into_iter().find(|status| status.code() == code)
    }
}

/// The application status of a call whose procedure set none.
pub const NO_APPLICATION_STATUS: i8 = -128;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The status that the client gets.
    pub status: Status,
    /// The whole status text.
    pub message: String,
    /// True when every replica that executes the same log entry fails in the same way, so that
    /// the failure is a result; false when this host alone failed, and must stop.
    pub deterministic: bool,
}

impl Failure {
    /// A failure that follows from the entry and the data.
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into(), deterministic: true }
    }

    /// Bad SQL, parameters or data: status -2.
    pub fn graceful(message: impl Into<String>) -> Failure {
        Failure::new(Status::GracefulFailure, message)
    }

    /// Status -3.
    pub fn unexpected(message: impl Into<String>) -> Failure {
        Failure::new(Status::UnexpectedFailure, message)
    }

    /// An abort that the procedure asked for: status -1.
    pub fn abort(message: impl Into<String>) -> Failure {
        Failure::new(Status::UserAbort, message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// What a procedure leaves besides its tables, which stand in the response buffer already.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// Number of result tables that were appended to the response buffer.
    pub table_count: u16,
    /// The application status, [`NO_APPLICATION_STATUS`] when none was set.
    pub application_status: i8,
    /// The application's status text.
    pub application_text: Option<String>,
    /// The failure; its tables, if any were appended, are void.
    pub failure: Option<Failure>,
}

impl Outcome {
    /// Success with this many tables.
    #[inline]
    pub fn success(table_count: u16) -> Outcome {
        Outcome {
            table_count,
            application_status: NO_APPLICATION_STATUS,
            application_text: None,
            failure: None,
        }
    }

    /// A failure without tables.
    pub fn failed(failure: Failure) -> Outcome {
        Outcome { failure: Some(failure), ..Outcome::success(0) }
    }
}
