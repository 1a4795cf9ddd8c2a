//! Plans built by hand, executed: what goes in is a plan, what comes out is a result table.

mod allocation;
mod batches;
mod changes;
mod procedures;
mod queries;
mod snapshot;
mod support;
mod views;
mod voter;
mod watch;
