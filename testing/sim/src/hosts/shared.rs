//! What the hosts of a run have in common.

use super::expiry::{self, Deletion, DeletionEnd, ExpiryLimits};
use super::{Answer, HostFaults, Report};
use crate::plans::{Natives, Request, SimCatalog};
use lockstep_base::random::SeededRandom;
use lockstep_host::recovery::LoggedChange;
use lockstep_site::{SchemaTask, SiteLimits};
use lockstep_sql::Limits;
use lockstep_types::{Failure, HashRing, HostId, Outcome, Status};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the hosts of a run have in common.
pub(super) struct Shared {
    pub(super) random: SeededRandom,
    pub(super) ring: HashRing,
    pub(super) limits: SiteLimits,
    pub(super) sql_limits: Limits,
    pub(super) catalogs: BTreeMap<u64, SimCatalog>,
    /// Changes of the catalog, by version and text.
    pub(super) tasks: BTreeMap<(u64, Vec<u8>), Arc<SchemaTask<u64>>>,
    pub(super) natives: Natives,
    /// The version with the schema of the workload.
    pub(super) first_version: u64,
    /// By call, the host of its client, and what it asks for.
    pub(super) origins: Vec<HostId>,
    pub(super) requests: BTreeMap<usize, Request>,
    pub(super) answers: Vec<Answer>,
    pub(super) problem: Option<String>,
    /// If copies answer reads: how stale they may be.
    pub(super) reads_bound_us: Option<u64>,
    /// If rows go when their time is over: how.
    pub(super) expiry: Option<ExpiryLimits>,
    /// What was ordered to delete rows, and what has become of it since the judge has looked.
    pub(super) deletions: Vec<Deletion>,
    pub(super) deletions_ended: Vec<(usize, DeletionEnd)>,
    pub(super) faults: HostFaults,
    pub(super) report: Report,
}

impl Shared {
    pub(super) fn origin_of(&self, call: usize) -> HostId {
        match expiry::deletion_of(call) {
            Some(number) => self.deletions[number].host,
            None => self.origins[call],
        }
    }

    pub(super) fn refuse(&mut self, call: usize, why: &str) {
        self.end(call, Status::ServerUnavailable, why);
    }

    /// Nobody knows what has become of a call.
    pub(super) fn unknown(&mut self, call: usize) {
        self.end(call, Status::ResponseUnknown, "a host was lost");
    }

    pub(super) fn end(&mut self, call: usize, status: Status, why: &str) {
        self.fail(call, Failure::new(status, why));
    }

    pub(super) fn fail(&mut self, call: usize, failure: Failure) {
        let outcome = Outcome::failed(failure);
        self.answers.push(Answer::new(call, outcome, Vec::new()));
    }

    pub(super) fn problem(&mut self, problem: String) {
        self.problem.get_or_insert(problem);
    }

    pub(super) fn task(&self, change: &LoggedChange) -> Result<Arc<SchemaTask<u64>>, String> {
        let key = (change.catalog_version, change.source.clone());
        self.tasks.get(&key).cloned().ok_or_else(|| "a change that was not prepared".to_string())
    }
}
