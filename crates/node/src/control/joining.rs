//! A host that joins a running cluster gets the catalog from the host that orders changes of it,
//! before it takes calls. That host gives it while it changes nothing; and it begins no change
//! while copies of partitions are loaded, so that what they are loaded from fits.

use super::Control;
use crate::clock;
use crate::message::{ControlRequest, Envelope};
use crate::recovery::{SavedCatalog, SavedCatalogError};
use lockstep_base::elapsed::Elapsed;
use lockstep_host::expiry;
use lockstep_types::{Failure, HostId, PartitionId};
use std::sync::mpsc::SyncSender;
use std::time::Duration;

/// Between two questions for the catalog.
const ASK_EVERY_US: u64 = 200_000;

/// The wait of a host that joins.
pub(super) struct Joining {
    /// Waits until the host takes calls.
    joined: SyncSender<Result<(), String>>,
    asked_us: Option<i64>,
}

impl Joining {
    pub(super) fn new(joined: SyncSender<Result<(), String>>) -> Joining {
        Joining { joined, asked_us: None }
    }
}

impl Control {
    /// Asks for the catalog, if it is time to.
    pub(super) fn attend_to_joining(&mut self) {
        let Some(joining) = &mut self.joining else { return };
        let now_us = clock::now_us();
        let waited = |at_us| Elapsed::between_us(at_us, now_us).us() >= ASK_EVERY_US;
        if joining.asked_us.is_some_and(|at_us| !waited(at_us)) {
            return;
        }
        joining.asked_us = Some(now_us);
        let placement = self.facts.placement();
        let host = placement.host();
        let request = ControlRequest::AskCatalog { host };
        self.outbox.send(placement.lead_control(), Envelope::Control(Box::new(request)));
    }

    /// Until it is to be asked again.
    pub(super) fn joining_time_left(&self) -> Option<Duration> {
        self.joining.as_ref().map(|_| Duration::from_micros(ASK_EVERY_US))
    }

    /// A host that joins asks for the catalog. It asks again while it gets none.
    pub(super) fn give_catalog(&mut self, host: HostId) {
        let placement = self.facts.placement();
        let is_loading = loading_host(&placement).is_some_and(|(_, loads)| loads == host);
        let may_change = !self.schema.is_quiet() || self.joining.is_some();
        if !placement.is_up(host) || !placement.leads_control() || may_change {
            return;
        }
        let catalog = SavedCatalog::of(&self.schema.catalog().plan).encode();
        let is_paused = self.facts.intake.is_paused_by_administrator();
        tracing::info!(%host, is_loading, "a host that joins gets the catalog");
        let given = ControlRequest::CatalogGiven { catalog, is_paused };
        let to = placement.control_thread_of(host);
        self.outbox.send(to, Envelope::Control(Box::new(given)));
    }

    /// The catalog of the cluster has come: this host takes calls from now on.
    pub(super) fn take_given_catalog(&mut self, bytes: &[u8], is_paused: bool) {
        let Some(joining) = self.joining.take() else { return };
        let made = self.make_given_catalog(bytes);
        if made.is_ok() {
            self.facts.intake.set_paused(is_paused);
            self.facts.intake.set_cut_off(false);
        }
        // Nobody waits any more where the start was given up.
        let _ = joining.joined.send(made);
    }

    fn make_given_catalog(&mut self, bytes: &[u8]) -> Result<(), String> {
        let cannot = |problem| format!("the catalog of the cluster cannot be made here: {problem}");
        let saved = SavedCatalog::decode(bytes).map_err(cannot)?;
        let (options, java) = (&self.facts.options, self.facts.java_settings());
        let task = saved.task(&self.natives, options, &java).map_err(|error| match error {
            SavedCatalogError::Partial => cannot("it lacks tables".to_string()),
            SavedCatalogError::Unsound(problem) => cannot(problem),
        })?;
        if let Some(task) = task {
            self.schema = super::host_schema(&self.facts, task.catalog);
            self.planner.catalog_changed();
        }
        expiry::set_tables(self);
        self.tell_sites_of_catalog();
        Ok(())
    }

    /// Whether what needs all partitions to stay as they are may begin.
    ///
    /// # Errors
    /// Copies are being loaded.
    pub(super) fn check_nothing_loads(&self, what: &str) -> Result<(), Failure> {
        match loading_host(&self.facts.placement()) {
            None => Ok(()),
            Some((partition, host)) => Err(Failure::graceful(format!(
                "{what} while copies of partitions are loaded (partition {partition} at host \
                 {host}): try again when all copies are in sync"
            ))),
        }
    }
}

/// A partition that is being loaded, and the host.
fn loading_host(placement: &lockstep_host::placement::Placement) -> Option<(PartitionId, HostId)> {
    let mut partitions = (0..placement.partition_count()).map(PartitionId);
    partitions.find_map(|partition| {
        placement.learning_of(partition).first().map(|thread| (partition, thread.host()))
    })
}
