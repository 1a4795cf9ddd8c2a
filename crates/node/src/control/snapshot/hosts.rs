//! Snapshots of several hosts. Each host saves the partitions that it leads, in a folder of one
//! path, all as of one transaction. The host that leads has every other one look at its folder and
//! be ready, then orders the transaction, and answers when the parts of all are complete. If one
//! fails, the others remove theirs: what a host that is lost leaves is no whole snapshot, because
//! the manifest of each part says which partitions it has.

use super::request;
use super::request::SnapshotRequest;
use super::save::Snapshots;
use crate::catalog::HostCatalog;
use crate::clock;
use crate::control::Control;
use crate::message::{ControlRequest, Envelope, Origin, SnapshotStep};
use crate::snapshot::SaveResult;
use lockstep_durability::ClusterId;
use lockstep_durability::snapshot::{SnapshotError, remove_part};
use lockstep_host::placement::Placement;
use lockstep_host::schema;
use lockstep_host::snapshots::SnapshotKind;
use lockstep_site::SchemaTask;
use lockstep_types::HostId;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The snapshot of all hosts that this one leads.
pub(super) struct OfAll {
    nonce: String,
    /// The transaction that begins it, until that is ordered.
    task: Option<Arc<SchemaTask<Arc<HostCatalog>>>>,
    /// It has all copies of each host, for its own starts.
    keeps_copies: bool,
    /// The placement's epoch.
    epoch: u64,
    /// The hosts that are ready, with their names.
    hosts: BTreeMap<HostId, String>,
    /// The others of them.
    others: BTreeSet<HostId>,
    /// Other hosts that are not ready yet.
    preparing: BTreeSet<HostId>,
    /// Other hosts whose parts are not complete yet.
    saving: BTreeSet<HostId>,
    /// The part of this host has ended.
    has_own_ended: bool,
    /// The call that waits for the end.
    waiting: Option<Origin>,
    /// Why it is given up, and at which host.
    problem: Option<(HostId, String)>,
}

/// The part of this host in a snapshot that another one leads.
pub(super) struct Part {
    pub(super) lead: HostId,
    pub(super) cluster: ClusterId,
    epoch: u64,
    catalog_version: u64,
    /// It has all copies of each host, for its own starts.
    keeps_copies: bool,
}

impl Snapshots {
    /// The hosts that take part in the snapshot of all, with their names.
    pub(super) fn hosts_of_all(&self) -> Option<Vec<(HostId, String)>> {
        let of_all = self.of_all.as_ref()?;
        Some(of_all.hosts.iter().map(|(host, name)| (*host, name.clone())).collect())
    }

    /// Nobody wants the snapshot any more whose thread writes, if one does.
    fn cancel(&mut self) {
        if let Some(running) = &self.running {
            running.cancelled.store(true, Ordering::Release);
        }
    }
}

impl Control {
    /// The number of this host in the names of files, where there are several.
    pub(super) fn file_host(&self) -> Option<u32> {
        let placement = self.facts.placement();
        self.facts.internal_address.is_some().then(|| placement.host().0)
    }

    /// What another host says of a snapshot of all.
    pub(in crate::control) fn snapshot_step(
        &mut self,
        host: HostId,
        nonce: &str,
        step: SnapshotStep,
    ) {
        match step {
            SnapshotStep::Prepare { epoch, catalog_version, cluster, keeps_copies, request } => {
                let cluster = ClusterId(cluster);
                let part = Part { lead: host, cluster, epoch, catalog_version, keeps_copies };
                if let Err(problem) = self.prepare_part(part, &request) {
                    self.part_refused(host, nonce, problem);
                }
            }
            SnapshotStep::Prepared { host_name, problem } => {
                self.host_is_ready(host, nonce, host_name, problem);
            }
            SnapshotStep::Saved { problem } => self.host_has_saved(host, nonce, problem),
            SnapshotStep::GiveUp => self.give_up_part(host, nonce),
            SnapshotStep::Keep => self.copies_count(host, nonce),
            SnapshotStep::Due => self.snapshot_is_due_at(host),
        }
    }

    pub(super) fn say_of_snapshot(&mut self, to: HostId, nonce: &str, step: SnapshotStep) {
        let placement = self.facts.placement();
        if !placement.is_up(to) {
            return;
        }
        let (host, nonce) = (placement.host(), nonce.to_string());
        let request = ControlRequest::Snapshot { host, nonce, step };
        self.outbox.send(placement.control_thread_of(to), Envelope::Control(Box::new(request)));
    }

    // The host that leads.

    /// This host is ready: asks the others to be.
    pub(super) fn prepare_others(
        &mut self,
        request: &SnapshotRequest,
        task: Arc<SchemaTask<Arc<HostCatalog>>>,
    ) {
        let placement = self.facts.placement();
        let others: BTreeSet<HostId> = placement.other_hosts().collect();
        let (epoch, catalog_version) = (placement.epoch(), task.catalog_version);
        let running = self.snapshots.running.as_ref();
        let keeps_copies = running.is_some_and(|running| running.copies.is_some());
        self.snapshots.of_all = Some(OfAll {
            nonce: request.nonce.clone(),
            task: Some(task),
            keeps_copies,
            epoch,
            hosts: BTreeMap::from([(placement.host(), self.facts.host_name.clone())]),
            others: others.clone(),
            preparing: others.clone(),
            saving: others.clone(),
            has_own_ended: false,
            waiting: None,
            problem: None,
        });
        let (cluster, nonce) = (self.facts.cluster.0, request.nonce.clone());
        let request = request::to_json(request);
        for host in others {
            let request = request.clone();
            let step =
                SnapshotStep::Prepare { epoch, catalog_version, cluster, keeps_copies, request };
            self.say_of_snapshot(host, &nonce, step);
        }
        self.order_of_all();
    }

    /// Orders the transaction once all hosts are ready for it.
    fn order_of_all(&mut self) {
        let Some(of_all) = &mut self.snapshots.of_all else { return };
        if of_all.preparing.is_empty()
            && let Some(task) = of_all.task.take()
        {
            self.send_beginning(task);
        }
    }

    /// Another host is ready for the transaction, or cannot be.
    fn host_is_ready(
        &mut self,
        host: HostId,
        nonce: &str,
        host_name: String,
        problem: Option<String>,
    ) {
        let Some(of_all) = &mut self.snapshots.of_all else { return };
        if of_all.nonce != nonce || !of_all.preparing.remove(&host) {
            return;
        }
        of_all.hosts.insert(host, host_name);
        match (problem, &of_all.problem) {
            (Some(problem), _) => {
                of_all.saving.remove(&host);
                self.give_up_all(host, problem);
            }
            (None, Some(_)) => self.say_of_snapshot(host, nonce, SnapshotStep::GiveUp),
            (None, None) => self.order_of_all(),
        }
    }

    /// The part of another host is complete, or will not be.
    fn host_has_saved(&mut self, host: HostId, nonce: &str, problem: Option<String>) {
        let Some(of_all) = &mut self.snapshots.of_all else { return };
        if of_all.nonce != nonce || !of_all.saving.remove(&host) {
            return;
        }
        match problem {
            Some(problem) => self.give_up_all(host, problem),
            None => self.end_of_all(),
        }
    }

    /// The part of this host, which leads, has ended.
    pub(super) fn own_part_ended<T>(
        &mut self,
        result: Result<T, SnapshotError>,
        waiting: Option<Origin>,
    ) {
        let own = self.facts.placement().host();
        let Some(of_all) = &mut self.snapshots.of_all else { return };
        of_all.has_own_ended = true;
        of_all.waiting = waiting;
        match result {
            Ok(_) => self.end_of_all(),
            Err(error) => self.give_up_all(own, error.to_string()),
        }
    }

    /// The transaction is refused: there is no snapshot.
    pub(super) fn snapshot_of_all_refused(&mut self) {
        let own = self.facts.placement().host();
        self.give_up_all(own, "its transaction was aborted: save again".to_string());
    }

    /// Nothing of the snapshot is to stay, at any host. One that still gets ready hears of it then,
    /// and the call is answered when all have ended, so that the next snapshot can begin.
    fn give_up_all(&mut self, host: HostId, problem: String) {
        let Some(of_all) = &mut self.snapshots.of_all else { return };
        if of_all.problem.is_none() {
            let nonce = of_all.nonce.clone();
            tracing::error!(nonce, %host, problem, "the snapshot of all hosts is given up");
            of_all.problem = Some((host, problem));
            let ready: Vec<HostId> = of_all.hosts.keys().copied().collect();
            let is_waiting = of_all.task.take().is_some();
            self.snapshots.cancel();
            let own = self.facts.placement().host();
            // The host that could not do its part has none, or an older snapshot of this name.
            for ready in ready.into_iter().filter(|ready| *ready != own && *ready != host) {
                self.say_of_snapshot(ready, &nonce, SnapshotStep::GiveUp);
            }
            if is_waiting {
                // The coordinator has not heard of it.
                schema::decided(self, false);
            }
        }
        self.end_of_all();
    }

    /// Answers once all parts have ended.
    fn end_of_all(&mut self) {
        let is_over = |of_all: &mut OfAll| of_all.has_own_ended && of_all.saving.is_empty();
        let is_known = |of_all: &OfAll| of_all.preparing.is_subset(&of_all.saving);
        debug_assert!(
            self.snapshots.of_all.as_ref().is_none_or(is_known),
            "first ready, then saved"
        );
        let Some(mut of_all) = self.snapshots.of_all.take_if(is_over) else { return };
        if of_all.keeps_copies {
            // What is given up has been cancelled.
            if of_all.problem.is_none() {
                self.copies_count_at_all(&of_all.nonce, of_all.others);
            }
            return;
        }
        self.snapshots.schedule.end(None, clock::now_us());
        let problem = of_all.problem.take();
        if problem.is_some() {
            self.remove_own_part(&of_all.nonce);
        }
        let Some(origin) = of_all.waiting else { return };
        match problem {
            None => {
                let hosts = of_all.hosts.into_iter().collect::<Vec<_>>();
                self.answer_saved(origin, &hosts);
            }
            Some((host, problem)) => {
                let name = of_all.hosts.remove(&host).unwrap_or_default();
                self.answer_save_failure_at(origin, (host, &name), &problem);
            }
        }
    }

    /// Another placement is in force: what was to be saved where is over.
    pub(in crate::control) fn snapshot_follows(&mut self, placement: &Placement) {
        if let Some(of_all) = &mut self.snapshots.of_all {
            of_all.preparing.retain(|host| placement.is_up(*host));
            of_all.saving.retain(|host| placement.is_up(*host));
            if of_all.epoch == placement.epoch() {
                return;
            }
            let lost = of_all.others.iter().copied().find(|host| !placement.is_up(*host));
            let (host, problem) = match lost {
                Some(host) => (host, format!("host {host} was lost: save again")),
                None => (placement.host(), "copies of partitions moved: save again".to_string()),
            };
            return self.give_up_all(host, problem);
        }
        let running = self.snapshots.running.as_ref();
        if running.is_some_and(|running| running.lead.is_some()) {
            self.snapshots.cancel();
        }
    }

    // The other hosts.

    /// The host that leads asks this one to be ready for a snapshot.
    fn prepare_part(&mut self, part: Part, request: &str) -> Result<(), String> {
        if self.snapshots.schedule.is_running() {
            return Err("another snapshot is in progress".to_string());
        }
        let request = request::from_json(request, true)?;
        if !part.keeps_copies {
            return self.prepare_save(request, None, SnapshotKind::Manual, Some(part));
        }
        self.check_own_copies()?;
        self.prepare_save(request, None, SnapshotKind::Automatic, Some(part))
    }

    /// Whether the host that leads goes by the same placement and catalog.
    pub(super) fn check_part(&self, part: &Part) -> Result<(), String> {
        if part.epoch != self.facts.placement().epoch() {
            return Err("copies of partitions moved: save again".to_string());
        }
        let own = self.schema.catalog().version();
        match part.catalog_version == own {
            true => Ok(()),
            false => Err(format!(
                "the catalog has version {own} here, and {} at the host that leads: save again",
                part.catalog_version
            )),
        }
    }

    /// This host has no part in a snapshot that another one leads.
    pub(super) fn part_refused(&mut self, lead: HostId, nonce: &str, problem: String) {
        tracing::error!(nonce, problem, "this host takes no part in a snapshot");
        self.answer_prepared(lead, nonce, Some(problem));
    }

    pub(super) fn answer_prepared(&mut self, lead: HostId, nonce: &str, problem: Option<String>) {
        let host_name = self.facts.host_name.clone();
        self.say_of_snapshot(lead, nonce, SnapshotStep::Prepared { host_name, problem });
    }

    /// The part of this host in a snapshot that another one leads has ended.
    pub(super) fn answer_part_saved(&mut self, lead: HostId, result: &SaveResult) {
        let nonce = self.snapshots.newest().map_or(String::new(), |past| past.nonce.clone());
        let problem = result.as_ref().err().map(ToString::to_string);
        self.say_of_snapshot(lead, &nonce, SnapshotStep::Saved { problem });
    }

    fn give_up_part(&mut self, lead: HostId, nonce: &str) {
        if self.snapshots.newest().is_none_or(|past| past.nonce != nonce) {
            return;
        }
        match &self.snapshots.running {
            Some(running) if running.lead == Some(lead) => self.snapshots.cancel(),
            Some(_) => {}
            None => self.remove_own_part(nonce),
        }
    }

    /// The newest snapshot is given up.
    pub(super) fn remove_newest_part(&mut self) {
        if let Some(past) = self.snapshots.newest() {
            let nonce = past.nonce.clone();
            self.remove_own_part(&nonce);
        }
    }

    /// Removes the part of this host, if it was complete.
    fn remove_own_part(&mut self, nonce: &str) {
        let is_saved = self.snapshots.newest().is_some_and(|past| {
            past.nonce == nonce && past.result.as_ref().is_some_and(Result::is_ok)
        });
        let Some((disk, folder, path)) = self.snapshots.newest_place.clone() else { return };
        if !is_saved {
            return;
        }
        let problem = "another host could not save its part";
        self.snapshots.note_given_up(SnapshotError::refused(path, problem, "save again"));
        let (host, nonce) = (self.file_host().unwrap_or(0), nonce.to_string());
        let remove = move || remove_part(&*disk, &folder, &nonce, host);
        let removed = self.with_own_files(remove, |_, removed| {
            if let Err(error) = removed {
                tracing::warn!(%error, "the part of a snapshot that was given up stays");
            }
        });
        if let Err(error) = removed {
            tracing::warn!(%error, "the part of a snapshot that was given up stays");
        }
    }
}
