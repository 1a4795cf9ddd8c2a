//! Test machinery: hosts in the test's own process, the runner for the SQL corpus, and random
//! scripts that compare hosts with each other and with other databases.

pub mod campaign;
pub mod cases;
pub mod comparison;
pub mod configuration;
pub mod generator;
pub mod host;
pub mod known;
pub mod shrink;
pub mod slt;
pub mod system;
