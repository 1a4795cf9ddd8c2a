//! Snapshots that each host of several keeps of its own copies, leaders and followers, in its own
//! directory, by which its command log stays short. All are as of one transaction, which the host
//! that leads orders. None counts before the logs of all hosts have, on disk, what was decided up
//! to there: whatever a host then gives up of its log, no other one will ask for at a start.

use crate::control::Control;
use crate::message::{ControlRequest, Envelope, SnapshotStep};
use crate::snapshot::SaveResult;
use crate::snapshot::save::KeptJob;
use lockstep_site::SnapshotStart;
use lockstep_types::HostId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the thread that writes the copies of this host and the control thread tell each other.
pub(super) struct KeptCopies {
    /// Set by the thread: all is written but the manifest, and the log is durable up to there.
    is_written: Arc<AtomicBool>,
    /// The hosts that are concerned know that.
    is_noted: bool,
    /// Set for the thread: that is so at all hosts, and the snapshot counts.
    counts: Arc<AtomicBool>,
}

/// Each copy has all of its tables: its host may have no copy of the first partition.
pub(super) fn whole_copies(start: SnapshotStart) -> SnapshotStart {
    SnapshotStart { replicated: Arc::from([]), ..start }
}

impl Control {
    /// For a snapshot that begins: both ends of what its thread and this one tell each other.
    pub(super) fn kept_copies(&self) -> (KeptCopies, KeptJob) {
        let (is_written, counts) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let (written, bell) = (Arc::clone(&is_written), Arc::clone(&self.bell));
        let job = KeptJob {
            is_durable: match &self.log_pruner {
                Some(log) => Box::new(log.durable_up_to()),
                None => Box::new(|_| true),
            },
            note_written: Box::new(move || {
                written.store(true, Ordering::Release);
                bell.ring();
            }),
            counts: Arc::clone(&counts),
        };
        (KeptCopies { is_written, is_noted: false, counts }, job)
    }

    /// Whether this host can save its copies for a host that leads.
    pub(super) fn check_own_copies(&self) -> Result<(), String> {
        if !self.facts.keeps_own_copies() {
            return Err("this host has no directory for its copies".to_string());
        }
        match self.is_free_for_snapshot() {
            true => Ok(()),
            false => Err("another snapshot is in progress, or a change of the catalog".to_string()),
        }
    }

    /// The log of this host, which does not lead, is long.
    pub(super) fn say_that_snapshot_is_due(&mut self) {
        let placement = self.facts.placement();
        let (host, nonce, step) = (placement.host(), String::new(), SnapshotStep::Due);
        let request = ControlRequest::Snapshot { host, nonce, step };
        self.outbox.send(placement.lead_control(), Envelope::Control(Box::new(request)));
    }

    /// Another host has a long log. It says so again if nothing begins.
    pub(super) fn snapshot_is_due_at(&mut self, host: HostId) {
        let leads = self.facts.placement().leads_control() && self.facts.keeps_own_copies();
        if !leads || !self.is_free_for_snapshot() {
            return;
        }
        tracing::info!(%host, "a host has a long command log: all save their copies");
        if let Err(problem) = self.begin_automatic_snapshot() {
            tracing::error!(problem, "the hosts do not save their copies");
        }
    }

    /// The thread of this host may have written its copies: the host that leads learns it.
    pub(super) fn note_copies_written(&mut self) {
        let Some(running) = &mut self.snapshots.running else { return };
        let Some(copies) = &mut running.copies else { return };
        if copies.is_noted || !copies.is_written.load(Ordering::Acquire) {
            return;
        }
        copies.is_noted = true;
        let lead = running.lead;
        self.copies_are_written(lead);
    }

    fn copies_are_written(&mut self, lead: Option<HostId>) {
        match (lead, &self.snapshots.of_all) {
            (Some(lead), _) => self.say_of_copies(lead, None),
            (None, Some(_)) => self.own_part_ended(Ok(()), None),
            // It is alone.
            (None, None) => self.count_own_copies(),
        }
    }

    fn say_of_copies(&mut self, lead: HostId, problem: Option<String>) {
        let nonce = self.snapshots.newest().map_or(String::new(), |past| past.nonce.clone());
        self.say_of_snapshot(lead, &nonce, SnapshotStep::Saved { problem });
    }

    fn count_own_copies(&mut self) {
        let running = self.snapshots.running.as_ref();
        if let Some(copies) = running.and_then(|running| running.copies.as_ref()) {
            copies.counts.store(true, Ordering::Release);
        }
    }

    /// All hosts have written theirs.
    pub(super) fn copies_count_at_all(&mut self, nonce: &str, others: BTreeSet<HostId>) {
        for host in others {
            self.say_of_snapshot(host, nonce, SnapshotStep::Keep);
        }
        self.count_own_copies();
    }

    /// The host that leads says so.
    pub(super) fn copies_count(&mut self, lead: HostId, nonce: &str) {
        let running = self.snapshots.running.as_ref();
        let is_of_lead = running.is_some_and(|running| running.lead == Some(lead));
        if is_of_lead && self.snapshots.newest().is_some_and(|past| past.nonce == nonce) {
            self.count_own_copies();
        }
    }

    /// The thread has ended: with a snapshot that counts, or without one.
    pub(super) fn copies_ended(
        &mut self,
        result: SaveResult,
        (lead, copies): (Option<HostId>, KeptCopies),
    ) {
        let problem = result.as_ref().err().cloned();
        match (problem, lead) {
            (Some(error), Some(lead)) if !copies.is_noted => {
                self.say_of_copies(lead, Some(error.to_string()));
            }
            (Some(error), None) if self.snapshots.of_all.is_some() => {
                self.own_part_ended::<()>(Err(error), None);
            }
            // A host without copies has written all that it has.
            (None, lead) if !copies.is_noted => self.copies_are_written(lead),
            _ => {}
        }
        self.end_by_schedule(result);
    }
}
