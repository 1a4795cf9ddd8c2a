//! Workloads: schema, procedures, load and check, shared by tests, the simulator and the
//! benchmarks. Each is a module; none knows how its calls reach the database.

pub mod bank;
pub mod probe;
pub mod voter;

use lockstep_exec::procedure::NativeProcedure;
use std::sync::Arc;

/// Every native procedure of every workload, to be registered with a host.
pub fn native_procedures() -> Vec<Arc<dyn NativeProcedure>> {
    vec![
        Arc::new(probe::Probe),
        Arc::new(voter::Vote),
        Arc::new(bank::Transfer { name: "Transfer" }),
        Arc::new(bank::Transfer { name: "TransferAnywhere" }),
    ]
}
