//! The command log and snapshots on a disk in memory: what comes back, what is cut, what is
//! refused.

mod command_log;
mod directory;
mod epochs;
mod overlap;
mod recovery;
mod recovery_log;
mod snapshot;
mod switch;
