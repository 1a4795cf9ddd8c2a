//! The command log on a disk in memory: what comes back, what is cut, what is refused.

mod command_log;
mod directory;
