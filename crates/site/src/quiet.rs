//! Schema changes at sites where nothing else goes on: while a log is replayed, and when what
//! came out of it is saved.

use crate::coordinator::{Coordinator, CoordinatorOutput};
use crate::effect::{PartitionEffect, SnapshotBegun};
use crate::message::{MultiCall, MultiWork, SchemaTask};
use crate::partition::Site;
use lockstep_types::PartitionId;
use std::sync::Arc;

/// A call of no procedure, as statistics count it.
const NO_PROCEDURE: u32 = u32::MAX;

/// Takes a schema change, or the beginning of a snapshot, through its rounds at all sites, by a
/// coordinator of its own. Gives the snapshots that began, and where.
///
/// # Errors
/// A site refuses it, or the coordinator takes no call: the text for the user.
pub fn change_quiet_sites<H, A, C: Clone>(
    sites: &mut [&mut Site<H, A, C>],
    mut coordinator: Coordinator<(), C>,
    task: SchemaTask<C>,
    now_us: i64,
) -> Result<Vec<(PartitionId, Box<SnapshotBegun>)>, String> {
    sites.iter_mut().for_each(|site| site.expect_new_coordinator());
    let call = MultiCall {
        origin: (),
        procedure_number: NO_PROCEDURE,
        catalog_version: 0,
        time_limit: None,
        declared: Vec::new(),
        home: None,
        led: None,
        work: MultiWork::Schema(Arc::new(task)),
    };
    let (mut outputs, mut begun) = (Vec::new(), Vec::new());
    if coordinator.submit(call, now_us, &mut outputs).is_err() {
        return Err("the coordinator takes no call (option max_waiting_multi)".to_string());
    }
    while let Some(output) = outputs.pop() {
        match output {
            CoordinatorOutput::Finished(finished) => {
                if let Some(failure) = finished.outcome.failure {
                    return Err(failure.message);
                }
            }
            CoordinatorOutput::Send(message) => {
                let partition = message.partition;
                let site = &mut sites[partition.index()];
                let mut effects = Vec::new();
                let place = (message.epoch, message.number);
                site.receive(place, message.message, now_us, &mut effects);
                let waiting = site.next(now_us, &mut effects);
                assert!(waiting.is_none(), "nothing else runs while the log is replayed");
                for effect in effects {
                    match effect {
                        PartitionEffect::Send(answer) => {
                            coordinator.receive(answer, now_us, &mut outputs);
                        }
                        PartitionEffect::SnapshotBegun(one) => begun.push((partition, one)),
                        _ => {}
                    }
                }
            }
            CoordinatorOutput::Stale(())
            | CoordinatorOutput::OneRoundFinished(_)
            | CoordinatorOutput::OneRoundStale(..)
            | CoordinatorOutput::Thread { .. } => {
                unreachable!("a schema change is of the catalog in force, and runs no procedure")
            }
        }
    }
    match coordinator.is_idle() {
        true => Ok(begun),
        false => Err("its rounds did not end".to_string()),
    }
}
