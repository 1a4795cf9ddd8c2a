//! Test machinery: hosts in the test's own process, and the runner for the SQL corpus.

pub mod configuration;
pub mod host;
pub mod slt;
