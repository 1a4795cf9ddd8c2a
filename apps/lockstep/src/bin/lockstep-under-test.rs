//! The same with procedures that only tests call: what the suites of client libraries run.

use std::process::ExitCode;

fn main() -> ExitCode {
    lockstep::run(lockstep_workloads::test_procedures)
}
