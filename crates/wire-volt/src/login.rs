//! Login: the first message of a connection, and its answer.
//!
//! ```text
//! request: i8 version | [i8 hash scheme, from version 1 on] | string service | string user |
//!          digest bytes up to the end
//! reply:   i8 0 | i8 status | on success: i32 host, i64 connection, i64 cluster timestamp,
//!          i32 leader address, string build
//! ```

use lockstep_base::bytes::{ByteReader, ByteWriter};
use std::fmt;

/// The greatest login version understood. Version 2 says that the client knows the graceful-stop
/// notification; its layout is version 1's.
pub const MAX_VERSION: i8 = 2;
/// The greatest user name, in bytes.
pub const MAX_USER_BYTES: usize = 1024;
/// The greatest login frame: no sound one comes near it. Servers use it instead of the message
/// limit until a connection has logged in.
pub const MAX_LOGIN_BYTES: usize = 4096;

/// How the client digested the password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HashScheme {
    /// 20 bytes. Deprecated by VoltDB, still sent by old clients.
    Sha1,
    /// 32 bytes.
    Sha256,
    /// No bytes: a Kerberos hand-shake follows.
    Spnego,
}

impl HashScheme {
    /// Bytes of a digest.
    pub fn digest_bytes(self) -> usize {
        match self {
            HashScheme::Sha1 => 20,
            HashScheme::Sha256 => 32,
            HashScheme::Spnego => 0,
        }
    }
}

/// What the client wants to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    /// The database, with a password digest.
    Database,
    /// The database, with Kerberos.
    Kerberos,
}

/// A well-formed login request, borrowed from the read buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Login<'a> {
    /// 0 to [`MAX_VERSION`].
    pub version: i8,
    /// How `digest` was made.
    pub scheme: HashScheme,
    /// The service asked for.
    pub service: Service,
    /// May be empty.
    pub user: &'a str,
    /// The password's digest, of the scheme's exact length.
    pub digest: &'a [u8],
}

/// Why a login is refused; the reply's status byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i8)]
pub enum LoginStatus {
    /// Unknown user, wrong password, digest of the wrong length.
    AuthenticationFailure = -1,
    /// The host's connection limit is reached.
    TooManyConnections = 1,
    /// No login came in time.
    TimedOut = 2,
    /// The bytes are no login.
    FormatViolation = 3,
    /// The host is rejoining.
    Rejoining = 4,
    /// A service that this server does not have.
    UnknownService = 5,
    /// The port speaks TLS only.
    TlsRequired = 6,
}

impl LoginStatus {
    /// The wire code.
    pub fn code(self) -> i8 {
        self as i8
    }

    /// What the code means, if a server sends it.
    pub fn from_code(code: i8) -> Option<LoginStatus> {
        Some(match code {
            -1 => LoginStatus::AuthenticationFailure,
            1 => LoginStatus::TooManyConnections,
            2 => LoginStatus::TimedOut,
            3 => LoginStatus::FormatViolation,
            4 => LoginStatus::Rejoining,
            5 => LoginStatus::UnknownService,
            6 => LoginStatus::TlsRequired,
            _ => return None,
        })
    }
}

impl fmt::Display for LoginStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LoginStatus::AuthenticationFailure => "authentication failed",
            LoginStatus::TooManyConnections => "the server has too many connections",
            LoginStatus::TimedOut => "the login came too late",
            LoginStatus::FormatViolation => "the login message is malformed",
            LoginStatus::Rejoining => "the host is rejoining its cluster",
            LoginStatus::UnknownService => "the server has no such service",
            LoginStatus::TlsRequired => "the server accepts TLS connections only",
        })
    }
}

impl std::error::Error for LoginStatus {}

impl<'a> Login<'a> {
    /// Reads a login frame's body. The error is the status to refuse it with; the connection
    /// closes after that reply.
    pub fn decode(body: &'a [u8]) -> Result<Login<'a>, LoginStatus> {
        let mut reader = ByteReader::new(body);
        let malformed = |_| LoginStatus::FormatViolation;
        let version = reader.i8().map_err(malformed)?;
        if !(0..=MAX_VERSION).contains(&version) {
            return Err(LoginStatus::FormatViolation);
        }
        let scheme = match version {
            0 => HashScheme::Sha1,
            _ => match reader.i8().map_err(malformed)? {
                0 => HashScheme::Sha1,
                1 => HashScheme::Sha256,
                2 => HashScheme::Spnego,
                _ => return Err(LoginStatus::FormatViolation),
            },
        };
        let service = match text(&mut reader)? {
            "database" => Service::Database,
            "kerberos" => Service::Kerberos,
            _ => return Err(LoginStatus::UnknownService),
        };
        let user = text(&mut reader)?;
        if user.len() > MAX_USER_BYTES {
            return Err(LoginStatus::FormatViolation);
        }
        let digest = reader.rest();
        if digest.len() != scheme.digest_bytes() {
            return Err(LoginStatus::AuthenticationFailure);
        }
        Ok(Login { version, scheme, service, user, digest })
    }

    /// Appends the login as a frame; what a client sends. The user name is at most
    /// [`MAX_USER_BYTES`] long.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_i32(0);
        out.put_i8(self.version);
        if self.version > 0 {
            out.put_i8(match self.scheme {
                HashScheme::Sha1 => 0,
                HashScheme::Sha256 => 1,
                HashScheme::Spnego => 2,
            });
        }
        out.put_sized(Some(match self.service {
            Service::Database => b"database",
            Service::Kerberos => b"kerberos",
        }));
        out.put_sized(Some(self.user.as_bytes()));
        out.extend_from_slice(self.digest);
        let length = (out.len() - start - 4) as i32;
        out.patch_i32(start, length);
    }
}

fn text<'a>(reader: &mut ByteReader<'a>) -> Result<&'a str, LoginStatus> {
    let bytes = reader.sized().ok().flatten().ok_or(LoginStatus::FormatViolation)?;
    std::str::from_utf8(bytes).map_err(|_| LoginStatus::FormatViolation)
}

/// What a client learns from a successful login. The cluster timestamp and the leader address
/// are the cluster's identity: every host of a cluster sends the same pair for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LoginReply<'a> {
    /// This host's number.
    pub host_id: i32,
    /// Positive; unique on this host.
    pub connection_id: i64,
    /// When the cluster was made, in milliseconds since 1970.
    pub cluster_timestamp_ms: i64,
    /// IPv4 address of the first leader as an integer.
    pub leader_address: i32,
    /// What tools show as the server's version.
    pub build: &'a str,
}

/// Why a login did not succeed, on the client's side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyError {
    /// The server refused with a status that has a name.
    Refused(LoginStatus),
    /// The server refused with another status.
    UnknownStatus(i8),
    /// The bytes are no login reply.
    Malformed,
}

impl fmt::Display for ReplyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReplyError::Refused(status) => write!(f, "login refused: {status}"),
            ReplyError::UnknownStatus(code) => write!(f, "login refused with status {code}"),
            ReplyError::Malformed => f.write_str("the login reply is malformed"),
        }
    }
}

impl std::error::Error for ReplyError {}

impl<'a> LoginReply<'a> {
    /// Appends the reply as one frame, to be written in one piece: some clients misread a reply
    /// whose length arrives alone.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_i32(0);
        out.put_i8(0);
        out.put_i8(0);
        out.put_i32(self.host_id);
        out.put_i64(self.connection_id);
        out.put_i64(self.cluster_timestamp_ms);
        out.put_i32(self.leader_address);
        out.put_sized(Some(self.build.as_bytes()));
        let length = (out.len() - start - 4) as i32;
        out.patch_i32(start, length);
    }

    /// Reads a login reply's body.
    pub fn decode(body: &'a [u8]) -> Result<LoginReply<'a>, ReplyError> {
        let mut reader = ByteReader::new(body);
        let malformed = |_| ReplyError::Malformed;
        let version = reader.i8().map_err(malformed)?;
        let status = reader.i8().map_err(malformed)?;
        if version != 0 {
            return Err(ReplyError::Malformed);
        }
        if status != 0 {
            return Err(LoginStatus::from_code(status)
                .map_or(ReplyError::UnknownStatus(status), ReplyError::Refused));
        }
        Ok(LoginReply {
            host_id: reader.i32().map_err(malformed)?,
            connection_id: reader.i64().map_err(malformed)?,
            cluster_timestamp_ms: reader.i64().map_err(malformed)?,
            leader_address: reader.i32().map_err(malformed)?,
            build: text(&mut reader).map_err(|_| ReplyError::Malformed)?,
        })
    }
}

/// The whole refusal, frame length included; the connection closes after it. VoltDB answers a
/// connection over its limit with a bare byte instead, which clients report as a broken
/// connection; this form tells them the reason.
pub fn refusal(status: LoginStatus) -> [u8; 6] {
    [0, 0, 0, 2, 0, status.code() as u8]
}
