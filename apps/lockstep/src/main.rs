//! The binary that is shipped.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockstep::run(lockstep_workloads::native_procedures)
}
