//! The load driver and its reports, and what workloads need to run as a load.

pub mod alternate_key;
pub mod bank;
pub mod chart;
pub mod cluster;
pub mod driver;
pub mod echo;
pub mod embedded;
pub mod inner_host;
pub mod inserts;
pub mod java;
mod link;
pub mod other;
pub mod page;
pub mod postgres;
pub mod postgres_voter;
mod postgres_wire;
pub mod process;
pub mod program;
pub mod redis;
pub mod relay;
pub mod report;
pub mod run;
pub mod stalls;
pub mod usl;
pub mod verdict;
pub mod voter;
