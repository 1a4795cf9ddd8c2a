//! What durable code asks of the world, as traits: a directory and its files.
//!
//! The command log, snapshots and recovery are written against these, so that a simulator can
//! run the very code that serves, above a disk that loses power, tears writes or is full. The
//! real disk lives in `node`; [`memory`] has one for tests, with the hooks that faults need.
//!
//! All calls wait until they are done. The log writer, snapshots and recovery make them, on
//! threads of their own; a site never does.

mod disk;
mod error;
pub mod journal;
pub mod memory;

pub use disk::{BLOCK_BYTES, Disk, File, OpenMode};
pub use error::{DiskError, DiskErrorKind, DiskOperation};
