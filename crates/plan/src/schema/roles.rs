//! What is said of roles: they are kept, and restrict nothing while there are no users.

use super::Draft;
use lockstep_sql::ast::Statement;
use std::sync::Arc;

/// How a warning begins.
const WITHOUT_EFFECT: &str = "Accepted, but without effect: ";

/// Of the advice about a change, the warning that something has no effect: clients that show no
/// advice are to show it.
pub fn warning_of(advice: &str) -> Option<&str> {
    advice.lines().find(|line| line.starts_with(WITHOUT_EFFECT))
}

impl Draft<'_> {
    /// A warning if this change declares roles or allows procedures to them.
    pub(super) fn role_advice(&self) -> Option<String> {
        let roles = self.catalog.roles.iter();
        let roles = roles.filter(|(name, given)| self.old.roles.get(*name) != Some(*given));
        let mut declared: Vec<String> =
            roles.map(|(name, _)| format!("role {}", name.to_lowercase())).collect();
        for (name, source) in &self.catalog.sources {
            let is_old = self.old.sources.get(name).is_some_and(|old| Arc::ptr_eq(old, source));
            let Statement::CreateProcedure(create) = &source.statement else { continue };
            if !is_old && !create.allow.is_empty() {
                declared.push(format!("ALLOW of procedure {name}"));
            }
        }
        if declared.is_empty() {
            return None;
        }
        Some(format!(
            "{WITHOUT_EFFECT}{}. This release has no users and checks no \
             permissions, so that every client may call everything.",
            declared.join(", ")
        ))
    }
}
