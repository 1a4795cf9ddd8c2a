//! Snapshots that each host of several keeps of its own copies, leaders and followers, in its own
//! directory, by which its command log stays short. All are as of one transaction, which the host
//! that leads orders. None counts before the logs of all hosts have, on disk, what was decided up
//! to there: whatever a host then gives up of its log, no other one will ask for at a start.
//!
//! A host that loads copies has nothing that a start could begin with, until such a snapshot has
//! what it has loaded. It asks for one when all of its copies have their data, and its copies come
//! in sync after that.

use crate::clock;
use crate::control::Control;
use crate::message::{ControlRequest, Envelope, SnapshotStep};
use crate::shard::LearnedStage;
use crate::snapshot::SaveResult;
use crate::snapshot::save::KeptJob;
use lockstep_base::elapsed::Elapsed;
use lockstep_durability::directory::rejoin;
use lockstep_site::SnapshotStart;
use lockstep_types::{Failure, HostId};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Between two looks whether copies that are loaded here are to be saved.
const LOOK_EVERY_US: u64 = 500_000;

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

    /// How far the copies are that are loaded here and not in sync.
    fn learned_stages(&self) -> Vec<LearnedStage> {
        let placement = self.facts.placement();
        let learned = placement.sites().flat_map(|site| placement.learned_by(site));
        learned.map(|replica| self.facts.learned.get(replica.partition)).collect()
    }

    /// Whether all copies of this host have data that can be saved.
    pub(super) fn check_copies_loaded(&self) -> Result<(), Failure> {
        match self.learned_stages().contains(&LearnedStage::Loading) {
            false => Ok(()),
            true => Err(Failure::graceful(
                "no snapshot of all copies begins while one is loaded: try again later",
            )),
        }
    }

    /// Asks for a snapshot when all copies that are loaded here have their data.
    pub(in crate::control) fn attend_to_learned(&mut self) {
        let now_us = clock::now_us();
        let looked_us = self.snapshots.looked_at_learned_us;
        let is_early = |at_us| Elapsed::between_us(at_us, now_us).us() < LOOK_EVERY_US;
        if !self.keeps_learned() || looked_us.is_some_and(is_early) {
            return;
        }
        self.snapshots.looked_at_learned_us = Some(now_us);
        let stages = self.learned_stages();
        let is_due = stages.contains(&LearnedStage::Follows);
        if !is_due || stages.contains(&LearnedStage::Loading) || !self.is_free_for_snapshot() {
            return;
        }
        let own = self.facts.placement().host();
        match self.facts.placement().leads_control() {
            true => self.snapshot_is_due_at(own),
            false => self.say_that_snapshot_is_due(),
        }
    }

    /// Until copies that are loaded here are looked at again.
    pub(in crate::control) fn learned_time_left(&self) -> Option<Duration> {
        self.keeps_learned().then_some(Duration::from_micros(LOOK_EVERY_US))
    }

    /// Whether copies are loaded here, and are to be durable.
    fn keeps_learned(&self) -> bool {
        self.facts.keeps_own_copies() && !self.learned_stages().is_empty()
    }

    /// A snapshot counts that has all copies of this host. A start begins with it from now on, also
    /// where copies are in it that are not in sync yet, which may come to be so after that. No
    /// other snapshot begins before the sites know: they would take it for this one.
    fn note_learned_kept(&mut self, saved: SaveResult) {
        let disk = self.facts.data_disk.clone();
        let disk = disk.expect("a host that keeps its copies has a directory");
        let (ended, result) = (move || rejoin::end(&*disk), saved.clone());
        let noted = self.with_own_files(ended, |control, ended| {
            match ended {
                Ok(()) => {
                    for thread in control.facts.placement().sites() {
                        control.outbox.send(thread, Envelope::CopiesKept);
                    }
                }
                Err(error) => tracing::error!(%error, "copies that were loaded are not kept yet"),
            }
            // Before the next look the sites have heard of it.
            control.snapshots.looked_at_learned_us = Some(clock::now_us());
            control.end_by_schedule(result);
        });
        if let Err(error) = noted {
            tracing::error!(%error, "copies that were loaded are not kept yet");
            self.end_by_schedule(saved);
        }
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

    /// A host has a long log, or copies that it has loaded. It says so again if nothing begins.
    pub(super) fn snapshot_is_due_at(&mut self, host: HostId) {
        let leads = self.facts.placement().leads_control() && self.facts.keeps_own_copies();
        if !leads || !self.is_free_for_snapshot() {
            return;
        }
        tracing::info!(%host, "a host asks for it: all save their copies");
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

    /// Whether a snapshot of this host counts whose last file its thread still writes.
    pub(in crate::control) fn has_copies_that_count(&self) -> bool {
        let running = self.snapshots.running.as_ref();
        let copies = running.and_then(|running| running.copies.as_ref());
        copies.is_some_and(|copies| copies.counts.load(Ordering::Acquire))
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
        if problem.is_none() && copies.is_noted && self.keeps_learned() {
            return self.note_learned_kept(result);
        }
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
