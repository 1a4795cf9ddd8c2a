//! What makes a host's data outlive it: the command log that keeps every entry, written before
//! anybody hears of it.
//!
//! Everything here is plain code over the traits of `env`: it waits for disks, knows neither
//! threads nor clocks, and is run as it stands by the simulator. Whatever a file holds, the end
//! is an entry as it was written or an error that names file, place and remedy; nothing that may
//! be somebody's data is overwritten.

pub mod command_log;
pub mod directory;
pub mod recovery;
pub mod snapshot;
pub mod switch;

pub use directory::ClusterId;

/// This release, as files name it.
pub const RELEASE: &str = env!("CARGO_PKG_VERSION");
