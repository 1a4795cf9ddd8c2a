//! Errors of the control plane.

use lockstep_base::bytes::EndOfBytes;
use lockstep_env::DiskError;
use lockstep_types::{HostId, PartitionId};
use std::fmt;

/// Bytes that are not what they should be: a message, a command, a state or a log record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatError {
    /// They end early.
    End,
    /// They go on after the end of what they hold.
    Trailing {
        /// Bytes that are left over.
        bytes: usize,
    },
    /// A version that this release does not know.
    Version {
        /// What has the version.
        what: &'static str,
        /// The version that was read.
        found: u8,
        /// The version that this release writes.
        known: u8,
    },
    /// A value that the field cannot have.
    Value {
        /// The field.
        field: &'static str,
        /// The value that was read.
        found: u64,
    },
    /// Text that is not UTF-8.
    Text {
        /// The field.
        field: &'static str,
    },
    /// Every field is in range, and together they break a rule.
    Rule(&'static str),
}

impl From<EndOfBytes> for FormatError {
    fn from(_: EndOfBytes) -> FormatError {
        FormatError::End
    }
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FormatError::End => f.write_str("the bytes end early"),
            FormatError::Trailing { bytes } => write!(f, "{bytes} bytes follow the end"),
            FormatError::Version { what, found, known } => {
                write!(f, "version {found} of {what} is not known (this release has {known})")
            }
            FormatError::Value { field, found } => write!(f, "{field} cannot be {found}"),
            FormatError::Text { field } => write!(f, "{field} is not UTF-8"),
            FormatError::Rule(rule) => write!(f, "rule broken: {rule}"),
        }
    }
}

impl std::error::Error for FormatError {}

/// Why a host cannot be part of a cluster, or a member cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClusterError {
    /// A value of the configuration; the text names it, its limit and what would fit.
    Configuration(String),
    /// What was restored from disk is not usable.
    Restored(String),
    /// A file.
    Disk(DiskError),
    /// A damaged file: name, offset and reason.
    Damaged {
        /// The file, as a user finds it.
        file: String,
        /// The offset in it, in bytes.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// Too many proposals wait for their outcome.
    TooManyProposals {
        /// The limit.
        limit: usize,
    },
    /// The clock of another host differs from that of this one.
    ClockOff {
        /// The other host.
        host: HostId,
        /// Its clock less that of this host, in microseconds.
        offset_us: i64,
        /// The greatest difference that is allowed, in microseconds.
        limit_us: i64,
    },
}

impl From<DiskError> for ClusterError {
    fn from(error: DiskError) -> ClusterError {
        ClusterError::Disk(error)
    }
}

impl fmt::Display for ClusterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClusterError::Configuration(text) => f.write_str(text),
            ClusterError::Restored(text) => {
                write!(f, "the restored state of the cluster cannot be used: {text}")
            }
            ClusterError::Disk(error) => error.fmt(f),
            ClusterError::Damaged { file, offset, reason } => {
                write!(f, "{file} is damaged at byte {offset}: {reason}")
            }
            ClusterError::TooManyProposals { limit } => {
                write!(f, "too many pending changes of the cluster (limit {limit}): retry later")
            }
            ClusterError::ClockOff { host, offset_us, limit_us } => write!(
                f,
                "the clock of host {host} differs by {} ms from the clock of this host \
                 (limit {} ms): synchronize the clocks",
                offset_us / 1000,
                limit_us / 1000
            ),
        }
    }
}

impl std::error::Error for ClusterError {}

/// Why the state machine did not carry out a command. The reason is the same on every member.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// The cluster is formed already, or not yet.
    Phase,
    /// No such host.
    UnknownHost(HostId),
    /// No such partition.
    UnknownPartition(PartitionId),
    /// The command names an older incarnation, epoch or version than the state has.
    Stale,
    /// A configured host has not joined yet.
    Absent(HostId),
    /// The host is not up, or is a witness.
    NotServing(HostId),
    /// The previous identity of the host still votes or learns: it is removed first.
    OldIdentity(HostId),
    /// The partitions would have no copy.
    LastCopy(Vec<PartitionId>),
    /// The host has no in-sync copy of the partition, or has one already.
    Copies(HostId),
    /// No copy of the partition is being loaded at that site of the host.
    NotLearning(HostId),
    /// A copy of the partition is at a host that is up.
    NotMissing(PartitionId),
    /// No hand-over to that host is in progress, or another one is.
    HandOver(PartitionId),
    /// The shape of the cluster does not allow it; the text says why.
    Shape(String),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Phase => f.write_str("the cluster is formed already, or not yet"),
            Refusal::UnknownHost(host) => write!(f, "the cluster has no host {host}"),
            Refusal::UnknownPartition(partition) => {
                write!(f, "the cluster has no partition {partition}")
            }
            Refusal::Stale => f.write_str("the state of the cluster has changed meanwhile"),
            Refusal::Absent(host) => write!(f, "host {host} has not joined yet"),
            Refusal::NotServing(host) => write!(f, "host {host} is not up, or is a witness"),
            Refusal::OldIdentity(host) => {
                write!(f, "the previous process of host {host} is still a member")
            }
            Refusal::LastCopy(partitions) => {
                write!(f, "{} partitions would have no copy:", partitions.len())?;
                partitions.iter().take(16).try_for_each(|partition| write!(f, " {partition}"))
            }
            Refusal::Copies(host) => {
                write!(f, "host {host} has no in-sync copy of the partition, or has one already")
            }
            Refusal::NotLearning(host) => {
                write!(f, "no copy of the partition is being loaded at that site of host {host}")
            }
            Refusal::NotMissing(partition) => {
                write!(f, "partition {partition} is not missing: a host that is up has a copy")
            }
            Refusal::HandOver(partition) => {
                write!(f, "no such transfer of the leader of partition {partition} is in progress")
            }
            Refusal::Shape(text) => f.write_str(text),
        }
    }
}
