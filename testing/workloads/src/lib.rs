//! Workloads: schema, procedures, load and check, shared by tests, the simulator and the
//! benchmarks. Each is a module; none knows how its calls reach the database.

pub mod bank;
pub mod fault;
pub mod probe;
pub mod voter;

use lockstep_exec::procedure::NativeProcedure;
use std::sync::Arc;

/// The native procedures that the shipped binary brings along.
pub fn native_procedures() -> Vec<Arc<dyn NativeProcedure>> {
    vec![Arc::new(voter::Vote)]
}

/// Those, and what only tests call.
pub fn test_procedures() -> Vec<Arc<dyn NativeProcedure>> {
    let mut procedures = native_procedures();
    procedures.push(Arc::new(probe::Probe));
    procedures.push(Arc::new(fault::Fault));
    procedures.push(Arc::new(bank::Transfer { name: "Transfer" }));
    procedures.push(Arc::new(bank::Transfer { name: "TransferAnywhere" }));
    procedures
}
