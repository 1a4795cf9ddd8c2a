//! Plans of ad hoc statements, kept by their text.

use crate::statistics::Extent;
use lockstep_exec::statement::PreparedStatement;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest text whose plans are kept.
const LONGEST_TEXT_BYTES: usize = 16 * 1024;

/// The plans of one text: one a statement.
pub(crate) struct CachedPlans {
    /// In the order of the text.
    pub(crate) statements: Vec<Arc<PreparedStatement>>,
    used: u64,
}

/// Forgets the plan that was not used for longest when it is full.
pub(crate) struct PlanCache {
    plans: BTreeMap<String, CachedPlans>,
    by_use: BTreeMap<u64, String>,
    uses: u64,
    limit: usize,
    /// Texts found.
    pub(crate) hits: u64,
    /// Texts not found.
    pub(crate) misses: u64,
    /// Time that planning took, nanoseconds a text.
    pub(crate) planning_ns: Extent,
    /// Texts that the planner has seen.
    pub(crate) planned: u64,
    /// Texts that could not be planned.
    pub(crate) failures: u64,
}

impl PlanCache {
    pub(crate) fn new(limit: usize) -> PlanCache {
        PlanCache {
            plans: BTreeMap::new(),
            by_use: BTreeMap::new(),
            uses: 0,
            limit,
            hits: 0,
            misses: 0,
            planning_ns: Extent::default(),
            planned: 0,
            failures: 0,
        }
    }

    pub(crate) fn get(&mut self, text: &str) -> Option<&CachedPlans> {
        let Some(plans) = self.plans.get_mut(text) else {
            self.misses += 1;
            return None;
        };
        self.hits += 1;
        self.uses += 1;
        if let Some(key) = self.by_use.remove(&plans.used) {
            self.by_use.insert(self.uses, key);
        }
        plans.used = self.uses;
        Some(plans)
    }

    /// Keeps plans. Those of long texts are not kept: they are rarely sent again, and the cache
    /// is bounded by their number.
    pub(crate) fn insert(&mut self, text: &str, statements: Vec<Arc<PreparedStatement>>) {
        if text.len() > LONGEST_TEXT_BYTES {
            return;
        }
        if self.plans.len() >= self.limit
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.plans.remove(&oldest);
        }
        self.uses += 1;
        self.by_use.insert(self.uses, text.to_string());
        self.plans.insert(text.to_string(), CachedPlans { statements, used: self.uses });
    }

    /// A text was planned, or refused.
    pub(crate) fn count_planning(&mut self, nanoseconds: u64, refused: bool) {
        self.planning_ns.add(nanoseconds);
        self.planned += 1;
        self.failures += u64::from(refused);
    }

    /// Forgets everything: the schema changed.
    pub(crate) fn clear(&mut self) {
        self.plans.clear();
        self.by_use.clear();
    }

    /// Number of texts.
    pub(crate) fn len(&self) -> usize {
        self.plans.len()
    }
}
