//! Plans of ad hoc statements, kept by their text, and by their form where statements that differ
//! in constants share a plan.

use super::plan_template::PlanTemplate;
use crate::control::statistics::PlannerCounts;
use lockstep_exec::statement::{PreparedStatement, StatementOrigin};
use lockstep_plan_ir::Statement;
use lockstep_sql::{Limits, Parameterized, parameterize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest text whose plans are kept.
const LONGEST_TEXT_BYTES: usize = 16 * 1024;

/// Plans that are ready for a text.
#[derive(Debug, Clone)]
pub(crate) struct CachedPlans {
    /// In the order of the text.
    pub(crate) statements: Vec<Arc<PreparedStatement>>,
    /// The constants of the text, encoded as parameters, where the plan is that of its form.
    pub(crate) constants: Option<Vec<u8>>,
}

/// What the cache has for a text.
pub(crate) enum Found {
    /// Its plans.
    Plans(CachedPlans),
    /// Nothing yet; its form, if it has one, for [`PlanCache::insert`].
    Nothing(Option<Parameterized>),
}

/// What is known of a form.
enum Form {
    /// One text had it: that may be all.
    MetOnce,
    /// The plan of all its texts.
    Planned(PlanTemplate),
    /// Plans depend on the constants.
    Unshared,
}

/// Plans of texts, and what is known of forms.
pub(crate) struct PlanCache {
    plans: Recent<Vec<Arc<PreparedStatement>>>,
    forms: Recent<Form>,
    counts: PlannerCounts,
}

impl PlanCache {
    /// A cache of at most `limit` texts, and as many forms.
    pub(crate) fn new(limit: usize) -> PlanCache {
        PlanCache {
            plans: Recent::new(limit),
            forms: Recent::new(limit),
            counts: PlannerCounts::default(),
        }
    }

    /// The plans for a text, by itself or by its form: that of a text that comes `alone`, without
    /// parameters.
    pub(crate) fn find(&mut self, text: &str, limits: &Limits, alone: bool) -> Found {
        if let Some(statements) = self.plans.get(text) {
            self.counts.hits += 1;
            return Found::Plans(CachedPlans { statements: statements.clone(), constants: None });
        }
        let short = text.len() <= LONGEST_TEXT_BYTES && alone;
        // What is no SQL is refused by the parser.
        let form = if short { parameterize(text, limits).ok().flatten() } else { None };
        if let Some(form) = &form
            && let Some(Form::Planned(template)) = self.forms.get(&form.key)
            && let Some(constants) = template.parameters(&form.literals)
        {
            self.counts.hits += 1;
            let statements = vec![Arc::clone(&template.statement)];
            return Found::Plans(CachedPlans { statements, constants: Some(constants) });
        }
        self.counts.misses += 1;
        Found::Nothing(form)
    }

    /// Keeps plans; from the second text of a form on, for the form if that is possible. `plan`
    /// plans a text. Those of long texts are not kept: they are rarely sent again, and the cache
    /// is bounded by their number.
    pub(crate) fn insert(
        &mut self,
        text: &str,
        form: Option<&Parameterized>,
        statements: &[Arc<PreparedStatement>],
        origin: StatementOrigin,
        plan: impl FnOnce(&str) -> Option<Statement>,
    ) {
        if text.len() > LONGEST_TEXT_BYTES {
            return;
        }
        if let (Some(form), [statement]) = (form, statements)
            && !form.literals.is_empty()
        {
            match self.forms.get(&form.key) {
                None => self.forms.insert(&form.key, Form::MetOnce),
                Some(Form::MetOnce) => {
                    let template =
                        PlanTemplate::new(text, form, statement.statement(), origin, plan);
                    let known = template.map_or(Form::Unshared, Form::Planned);
                    self.forms.insert(&form.key, known);
                }
                Some(Form::Planned(_) | Form::Unshared) => {}
            }
        }
        self.plans.insert(text, statements.to_vec());
    }

    /// A text was planned, or refused.
    pub(crate) fn count_planning(&mut self, nanoseconds: u64, refused: bool) {
        self.counts.planning_ns.add(nanoseconds);
        self.counts.planned += 1;
        self.counts.failures += u64::from(refused);
    }

    /// Forgets everything: the schema changed.
    pub(crate) fn clear(&mut self) {
        self.plans.clear();
        self.forms.clear();
    }

    /// The plans that are kept, and what was counted since the beginning.
    pub(crate) fn counts(&self) -> PlannerCounts {
        let shared = self.forms.values().filter(|form| matches!(form, Form::Planned(_)));
        let kept = self.plans.entries.len() + shared.count();
        PlannerCounts { kept: kept as u64, ..self.counts }
    }
}

/// Values by text; forgets the one that was not used for longest when it is full.
struct Recent<V> {
    /// With when each was last used.
    entries: BTreeMap<Arc<str>, (V, u64)>,
    by_use: BTreeMap<u64, Arc<str>>,
    uses: u64,
    limit: usize,
}

impl<V> Recent<V> {
    fn new(limit: usize) -> Recent<V> {
        Recent { entries: BTreeMap::new(), by_use: BTreeMap::new(), uses: 0, limit }
    }

    fn get(&mut self, text: &str) -> Option<&V> {
        let (value, used) = self.entries.get_mut(text)?;
        self.uses += 1;
        if let Some(key) = self.by_use.remove(used) {
            self.by_use.insert(self.uses, key);
        }
        *used = self.uses;
        Some(value)
    }

    fn insert(&mut self, text: &str, value: V) {
        if let Some((_, used)) = self.entries.remove(text) {
            self.by_use.remove(&used);
        } else if self.entries.len() >= self.limit
            && let Some((_, oldest)) = self.by_use.pop_first()
        {
            self.entries.remove(&oldest);
        }
        self.uses += 1;
        let key: Arc<str> = text.into();
        self.by_use.insert(self.uses, Arc::clone(&key));
        self.entries.insert(key, (value, self.uses));
    }

    fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(value, _)| value)
    }

    fn clear(&mut self) {
        self.entries.clear();
        self.by_use.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::Recent;

    #[test]
    fn what_was_not_used_for_longest_goes() {
        let mut recent = Recent::new(3);
        for number in 0..3 {
            recent.insert(&number.to_string(), number);
        }
        assert_eq!(recent.get("0"), Some(&0));
        recent.insert("2", 20);
        recent.insert("3", 3);
        let kept: Vec<_> = (0..4).map(|number| recent.get(&number.to_string()).copied()).collect();
        assert_eq!(kept, [Some(0), None, Some(20), Some(3)]);
        assert_eq!(recent.by_use.len(), 3);
    }
}
