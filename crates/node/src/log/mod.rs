//! A host's directory and its command log: the real disk, the thread that writes group commits,
//! and the ends at which sites hand their entries over.

pub mod directory;
pub(crate) mod disk;
mod group;
mod lock;
mod shared;
mod site;
mod spare;
mod writer;

pub use directory::{Data, Durability};
pub use disk::RealDisk;
pub use lock::DirectoryLock;
pub(crate) use shared::LogStatus;
pub(crate) use site::SiteLog;
pub(crate) use writer::{LogBells, LogEvents, LogPruner, LogStart, LogThread};
