//! Changes of the catalog: DDL, other classes, an exchange of two tables' contents, the first and
//! the last step of building a global index. What a change makes depends on the catalog before it
//! and on what the log has of it alone, so that replay makes the same.

use super::codec::encode;
use super::swap::table_swap;
use crate::catalog::{HostCatalog, ProcedureRuntime};
use crate::failures::{ddl_failure, plan_failure, syntax_failure};
use lockstep_plan::{
    Catalog, NativeProcedures, Planning, ProcedureClasses, SchemaChange, classify_batch,
};
use lockstep_site::{SchemaTask, TableSwap};
use lockstep_sql::ast::ParsedStatement;
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::Failure;
use std::sync::Arc;

/// Characters of a DDL text that the log shows.
const DESCRIPTION_CHARACTERS: usize = 400;

/// A change of the catalog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CatalogChange<'a> {
    /// DDL text.
    Ddl(&'a str),
    /// Other Java classes.
    Classes {
        /// The classes of a jar are added, or replace those of the same names.
        jar: Option<&'a [u8]>,
        /// Names, with patterns, of classes that are removed.
        removed: Option<&'a str>,
    },
    /// Two tables exchange their contents.
    Swap(&'a str, &'a str),
    /// The text of a CREATE GLOBAL INDEX: the index is declared, and later transactions add the
    /// entries of the existing rows.
    BeginIndex(&'a str),
    /// The last step of building a global index.
    EndIndex {
        /// Its name.
        index: &'a str,
        /// Statements use it from now on; otherwise it is dropped.
        keep: bool,
    },
}

/// A change with its texts, for another thread.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OwnedChange {
    /// See [`CatalogChange::Ddl`].
    Ddl(String),
    /// See [`CatalogChange::Classes`].
    Classes {
        /// The jar with classes that are added.
        jar: Option<Vec<u8>>,
        /// Names, with patterns, of classes that are removed.
        removed: Option<String>,
    },
}

impl CatalogChange<'_> {
    /// What it is, in a line of bounded length.
    fn description(self) -> String {
        match self {
            CatalogChange::Ddl(text) | CatalogChange::BeginIndex(text) => {
                let words: Vec<&str> = text.split_whitespace().collect();
                let line = words.join(" ");
                match line.char_indices().nth(DESCRIPTION_CHARACTERS) {
                    Some((end, _)) => format!("{}...", &line[..end]),
                    None => line,
                }
            }
            CatalogChange::Classes { jar: Some(jar), .. } => {
                format!("classes of a jar with {} bytes", jar.len())
            }
            CatalogChange::Classes { removed, .. } => {
                format!("classes {} removed", removed.unwrap_or(""))
            }
            CatalogChange::Swap(one, other) => format!("tables {one} and {other} exchanged"),
            CatalogChange::EndIndex { index, keep: true } => {
                format!("global index {index} is built")
            }
            CatalogChange::EndIndex { index, keep: false } => {
                format!("global index {index} is dropped, its build failed")
            }
        }
    }

    /// A copy for another thread, if code of users may run while the change is prepared: static
    /// initializers and constructors of classes that it names. Those in use have run before.
    pub fn for_own_thread(self, catalog: &Catalog) -> Option<OwnedChange> {
        match self {
            CatalogChange::Ddl(text) => {
                let upper = text.to_ascii_uppercase();
                let names_code = upper.contains("CLASS") || upper.contains("METHOD");
                let runs = catalog.classes.is_some() && names_code;
                runs.then(|| OwnedChange::Ddl(text.to_string()))
            }
            CatalogChange::Classes { jar, removed } => Some(OwnedChange::Classes {
                jar: jar.map(<[u8]>::to_vec),
                removed: removed.map(str::to_string),
            }),
            CatalogChange::Swap(..)
            | CatalogChange::BeginIndex(_)
            | CatalogChange::EndIndex { .. } => None,
        }
    }
}

impl OwnedChange {
    /// The change.
    pub fn borrowed(&self) -> CatalogChange<'_> {
        match self {
            OwnedChange::Ddl(text) => CatalogChange::Ddl(text),
            OwnedChange::Classes { jar, removed } => {
                CatalogChange::Classes { jar: jar.as_deref(), removed: removed.as_deref() }
            }
        }
    }
}

/// What changes are prepared with: the host's procedures and classes.
pub trait ChangeRuntime {
    /// Finds native procedures, and the code of all procedures.
    type Procedures: ProcedureRuntime + NativeProcedures;

    /// The host's procedures.
    fn procedures(&self) -> &Self::Procedures;

    /// Limits of SQL text.
    fn limits(&self) -> Limits;

    /// The classes of a catalog, changed: those of a jar are added, those that match patterns are
    /// removed.
    ///
    /// # Errors
    /// What the user gets: the jar or a class in it cannot be used, or no class matches.
    fn change_classes(
        &self,
        catalog: &Catalog,
        jar: Option<&[u8]>,
        removed: Option<&str>,
    ) -> Result<Arc<dyn ProcedureClasses>, String>;
}

/// What the procedures that are no transactions are in catalogs of a runtime.
pub type OutsideOf<R> = <<R as ChangeRuntime>::Procedures as ProcedureRuntime>::Outside;

/// A change that is ready for the partitions, and the advice for its requester.
pub struct PreparedChange<O> {
    /// What partitions carry out.
    pub task: SchemaTask<Arc<HostCatalog<O>>>,
    /// Advice for the requester, a line each.
    pub advice: Vec<String>,
    /// What it is, for the host's log.
    pub description: String,
}

/// Prepares a change: the next catalog, with every procedure planned again, and the steps of the
/// partitions.
///
/// # Errors
/// What the user gets: why it cannot be made.
pub fn prepare_change<R: ChangeRuntime>(
    catalog: &HostCatalog<OutsideOf<R>>,
    runtime: &R,
    change: CatalogChange<'_>,
    planning: &Planning,
) -> Result<PreparedChange<OutsideOf<R>>, Failure> {
    let current = Catalog { planning: planning.clone(), ..catalog.plan.clone() };
    let procedures = runtime.procedures();
    let parsed = |text: &str| {
        parse_batch(text, &runtime.limits()).map_err(|error| syntax_failure(text, &error))
    };
    let mut swap = None;
    let made = match change {
        CatalogChange::Ddl(text) => {
            let parsed: Vec<ParsedStatement> = parsed(text)?;
            classify_batch(&parsed).map_err(plan_failure)?;
            current.apply(&parsed, procedures)
        }
        CatalogChange::BeginIndex(text) => current.begin_global_index(&parsed(text)?, procedures),
        CatalogChange::EndIndex { index, keep } => {
            current.end_global_index(index, keep, procedures)
        }
        CatalogChange::Classes { jar, removed } => {
            let classes = runtime.change_classes(&catalog.plan, jar, removed);
            current.change_classes(classes.map_err(Failure::graceful)?, procedures)
        }
        CatalogChange::Swap(first, second) => {
            let (next, exchanged) = swapped(&catalog.plan, first, second)?;
            swap = Some(exchanged);
            Ok(next)
        }
    };
    let made = made.map_err(ddl_failure)?;
    let next = Arc::new(HostCatalog::new(made.catalog, procedures).map_err(ddl_failure)?);
    assert_eq!(next.version(), catalog.version() + 1, "a change makes the next version");
    let task = SchemaTask {
        changes: made.changes,
        swap,
        snapshot: None,
        catalog_version: next.version(),
        catalog: next,
        source: encode(change, planning).into(),
        advice: (!made.advice.is_empty()).then(|| made.advice.join("\n")),
    };
    Ok(PreparedChange { task, advice: made.advice, description: change.description() })
}

/// The catalog after an exchange of two tables' contents, which only its version tells apart.
fn swapped(
    catalog: &Catalog,
    first: &str,
    second: &str,
) -> Result<(SchemaChange, TableSwap), Failure> {
    let swap = table_swap(catalog, first, second)?;
    let catalog = Catalog { version: catalog.version + 1, ..catalog.clone() };
    let (changes, advice) = (Vec::new(), Vec::new());
    Ok((SchemaChange { catalog, changes, advice }, swap))
}
