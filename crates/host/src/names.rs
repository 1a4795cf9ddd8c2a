//! What messages between hosts name, as a thread finds it: procedures and statements by the
//! catalog in force, schema changes by what its host has prepared.

use crate::catalog::HostCatalog;
use crate::schema::prepared::PreparedChanges;
use crate::statement_cache::{StatementCache, StatementSources, procedure};
use lockstep_exec::lookup::KeyRoute;
use lockstep_exec::{PreparedProcedure, PreparedStatement};
use lockstep_site::SchemaTask;
use lockstep_site::codec::{Identities, StatementId};
use lockstep_types::TableId;
use std::sync::Arc;

/// See the head of this file. `C` is the form in which changes bring catalogs.
pub struct CatalogNames<'a, O, C> {
    /// What statements are found in and planned with.
    pub sources: StatementSources<'a, O>,
    /// Number of partitions.
    pub partition_count: u32,
    /// Statements that were planned for this thread before.
    pub statements: &'a mut StatementCache,
    /// The changes that the host has prepared.
    pub prepared: &'a PreparedChanges<C>,
}

impl<O, C> Identities<C> for CatalogNames<'_, O, C> {
    fn catalog_version(&self) -> u64 {
        self.sources.catalog.version()
    }

    fn partition_count(&self) -> u32 {
        self.partition_count
    }

    fn statement(&mut self, id: &StatementId<'_>) -> Result<Arc<PreparedStatement>, String> {
        self.statements.statement(id, &self.sources)
    }

    fn procedure(&mut self, name: &str) -> Result<Arc<PreparedProcedure>, String> {
        procedure(self.sources.catalog, name).map(|found| Arc::clone(&found.prepared))
    }

    fn prepared_change(
        &mut self,
        catalog_version: u64,
        source: &[u8],
    ) -> Result<Arc<SchemaTask<C>>, String> {
        self.prepared.find(catalog_version, source)
    }
}

/// How a global index is asked whose entries are in a table.
///
/// # Errors
/// There is no such index.
pub fn route_of_entries<O>(catalog: &HostCatalog<O>, entries: TableId) -> Result<KeyRoute, String> {
    let mut tables = catalog.plan.tables.values();
    let found = tables.find_map(|table| KeyRoute::of(&table.definition, entries));
    found.ok_or_else(|| format!("table {} holds the entries of no global index", entries.0))
}
