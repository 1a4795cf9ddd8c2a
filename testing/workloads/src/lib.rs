//! Workloads: schema, procedures, load and check, shared by tests, the simulator and the
//! benchmarks. Each is a module; none knows how its calls reach the database. What
//! `lockstep bench` runs is a [`Workload`].

pub mod bank;
pub mod bank_load;
pub mod distribution;
pub mod fault;
mod form;
pub mod key_value;
pub mod lock_store;
pub mod probe;
pub mod tatp;
pub mod tpcc;
pub mod voter;
mod workload;

pub use form::Form;
pub use workload::{
    Answer, Check, Database, Found, Next, NextCall, RowSink, Session, TableToFill, Verdict,
    Workload,
};

use lockstep_exec::procedure::NativeProcedure;
use std::sync::Arc;

/// The native procedures that the shipped binary brings along.
pub fn native_procedures() -> Vec<Arc<dyn NativeProcedure>> {
    let mut procedures = tpcc::procedures::all();
    procedures.extend(tatp::procedures::all());
    procedures.push(Arc::new(voter::Vote));
    procedures.extend(key_value::procedures());
    procedures.push(Arc::new(bank::Transfer { name: "Transfer" }));
    procedures
}

/// Those, and what only tests call.
pub fn test_procedures() -> Vec<Arc<dyn NativeProcedure>> {
    let mut procedures = native_procedures();
    procedures.push(Arc::new(probe::Probe));
    procedures.push(Arc::new(probe::ProbeCount));
    procedures.push(Arc::new(probe::ProbeClear));
    procedures.push(Arc::new(fault::Fault));
    procedures.push(Arc::new(bank::Transfer { name: "TransferAnywhere" }));
    procedures
}
