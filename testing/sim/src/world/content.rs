//! What a simulated host has: its schema, rows and indexes, as judges compare them.

use super::{SimSite, World};
use lockstep_exec::entries::check_entries;
use lockstep_host::schema::change::CatalogChange;
use lockstep_site::Site;
use lockstep_types::TableId;

impl World {
    /// The name of the global index whose build was in progress when the host stopped, if one was.
    pub(crate) fn interrupted_index(&self) -> Option<String> {
        self.latest().1.host.plan.builds().next().map(|build| build.index)
    }

    /// The text of the newest schema in force.
    pub(crate) fn schema_text(&self) -> String {
        self.latest().1.host.plan.schema_text()
    }

    /// The text of the schema after a change.
    pub(crate) fn schema_after(&self, ddl: &str) -> String {
        let made = self.latest().1.prepare_change(CatalogChange::Ddl(ddl), &self.natives);
        made.task.catalog.plan.schema_text()
    }

    /// Hashes of all partitions' data.
    pub fn content_hashes(&self) -> Vec<u64> {
        self.sites.iter().map(|site| site.database().content_hash()).collect()
    }

    /// Per partition, the digest of changes up to its last log entry, where nothing is undecided.
    pub(crate) fn digests(&self) -> Vec<u64> {
        let digest = |site: &SimSite| {
            let (_, digest) = site.decided_digest().expect("a host at rest has decided everything");
            digest
        };
        self.sites.iter().map(digest).collect()
    }

    /// The first table that is not the same in another host.
    pub(crate) fn difference(&self, other: &World) -> String {
        let mut sites = self.sites.iter().zip(&other.sites);
        let found = sites.find_map(|(one, two)| first_difference(one, two));
        found.unwrap_or_else(|| "no table".to_string())
    }

    /// Compares the entries of all global indexes with their tables, if nothing is in progress.
    ///
    /// # Errors
    /// The first difference.
    pub fn check_indexes(&self) -> Result<(), String> {
        if !self.is_idle() {
            return Ok(());
        }
        let databases: Vec<_> = self.sites.iter().map(Site::database).collect();
        check_entries(&databases)
    }
}

/// The first table that is not the same at two copies.
pub(super) fn difference(one: &SimSite, two: &SimSite) -> String {
    first_difference(one, two).unwrap_or_else(|| "no table".to_string())
}

fn first_difference(one: &SimSite, two: &SimSite) -> Option<String> {
    let tables = |site: &SimSite| -> Vec<(TableId, u64, u64)> {
        let database = site.database();
        let rows = database.row_counts();
        database.table_hashes().zip(rows).map(|((id, h), (_, rows))| (id, h, rows)).collect()
    };
    let (first, second) = (tables(one), tables(two));
    let same = first.iter().zip(&second).take_while(|(a, b)| a == b).count();
    if same >= first.len().max(second.len()) {
        return None;
    }
    let (of, with) = (first.get(same), second.get(same));
    let name = of.and_then(|(id, _, _)| one.database().definition(*id));
    let name = name.map_or("", |definition| &definition.name);
    Some(format!("table {name}: {of:?} against {with:?}"))
}
