//! The same with procedures that only tests call: what the suites of client libraries run. The
//! variable `CLOCK_SHIFT_S` moves its clock.

use std::process::ExitCode;

fn main() -> ExitCode {
    let shift = std::env::var("CLOCK_SHIFT_S").ok();
    if let Some(seconds) = shift.and_then(|shift| shift.parse::<i64>().ok()) {
        lockstep_node::clock::shift(seconds * 1_000_000);
    }
    lockstep::run(lockstep_workloads::test_procedures)
}
