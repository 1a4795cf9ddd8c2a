//! Java classes that are replaced and removed while procedures and functions use them.

use super::Draft;
use crate::catalog::Catalog;
use crate::error::PlanError;
use lockstep_sql::ast::{ProcedureBody, Statement};
use std::collections::{BTreeMap, BTreeSet};

impl Draft<'_> {
    /// Refuses classes without one of those in force that is in use.
    pub(super) fn check_removed_classes(&self) -> Result<(), PlanError> {
        let names = |catalog: &Catalog| -> BTreeSet<String> {
            let list = catalog.classes.iter().flat_map(|classes| classes.list());
            list.map(|(name, _)| name).collect()
        };
        let (old, new) = (names(self.old), names(&self.catalog));
        let procedures =
            self.catalog.sources.iter().filter_map(|(name, source)| match &source.statement {
                Statement::CreateProcedure(create) => match &create.body {
                    ProcedureBody::Class(class) => {
                        Some((class.text.as_str(), format!("procedure \"{name}\"")))
                    }
                    _ => None,
                },
                _ => None,
            });
        let functions = self.catalog.functions.iter().map(|(name, function)| {
            let shown = name.to_ascii_lowercase();
            (function.class.as_str(), format!("function \"{shown}\""))
        });
        let mut users: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for (class, user) in procedures.chain(functions) {
            if old.contains(class) && !new.contains(class) {
                users.entry(class).or_default().push(user);
            }
        }
        match users.first_key_value() {
            None => Ok(()),
            Some((class, users)) => Err(PlanError::new(format!(
                "Class {class} cannot be removed: it is used by {}. Drop what uses it first.",
                users.join(", ")
            ))),
        }
    }
}
