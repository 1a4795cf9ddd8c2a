//! What recovery begins with: a host as a snapshot of its directory has it.

use super::saved_catalog::{SavedCatalog, SavedCatalogError};
use super::{HostState, ReplaySettings, carry_out};
use crate::catalog::HostCatalog;
use crate::snapshot::{Loaded, PartitionLoad, load_partition};
use lockstep_durability::directory::SNAPSHOT_FOLDER;
use lockstep_durability::snapshot::{Manifest, RowsReader, SnapshotError, verify_file};
use lockstep_env::{Disk, OpenMode};
use lockstep_site::{SchemaTask, Site};
use lockstep_txn::EntryHeader;
use lockstep_types::TableId;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What a host was loaded from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SnapshotSummary {
    /// The snapshot's name.
    pub nonce: String,
    /// Its rows, those of views and global indexes included.
    pub rows: u64,
    /// Bytes that were read.
    pub bytes: u64,
    /// How long that took, microseconds.
    pub load_us: u64,
}

/// Why a snapshot is not what recovery begins with.
pub(super) enum Unfit {
    /// It has some of the tables only: somebody saved them for another purpose.
    Partial,
    /// A file is damaged, or what it says cannot be made.
    Damaged(String),
}

impl From<SnapshotError> for Unfit {
    fn from(error: SnapshotError) -> Unfit {
        Unfit::Damaged(error.to_string())
    }
}

/// A host as a snapshot has it.
pub(super) fn load<H: Send, A: Send>(
    disk: &dyn Disk,
    manifest: &Manifest,
    settings: &ReplaySettings<'_>,
) -> Result<(HostState<H, A>, SnapshotSummary), Unfit> {
    let unfit = |problem: String| {
        let place = disk.shown(SNAPSHOT_FOLDER);
        Unfit::Damaged(format!("snapshot {} in {place}: {problem}", manifest.nonce))
    };
    let began_ns = crate::clock::monotonic_ns();
    let empty = HostState::<H, A>::empty(settings).map_err(|error| unfit(error.to_string()))?;
    let HostState { mut catalog, mut sites } = empty;
    sites.iter_mut().for_each(Site::begin_replay);
    if let Some(task) = saved_catalog(disk, manifest, settings)? {
        catalog = Arc::clone(&task.catalog);
        let now_us = manifest.created_ms.saturating_mul(1000);
        make_catalog(&mut sites, (manifest, task, now_us), settings).map_err(unfit)?;
    }
    let loaded = load_all(disk, manifest, &mut sites)?;
    let version = catalog.version();
    for site in &mut sites {
        let position = &manifest.positions[site.partition().index()];
        let last = manifest.transaction_id();
        site.go_on_behind((position.source, position.sequence), last, version);
        site.database_mut().resume_digest(position.digest);
    }
    let summary = SnapshotSummary {
        nonce: manifest.nonce.clone(),
        rows: loaded.rows,
        bytes: loaded.bytes,
        load_us: crate::clock::ns_since(began_ns) / 1000,
    };
    Ok((HostState { catalog, sites }, summary))
}

/// Makes the catalog of a snapshot at empty sites: by a coordinator where they are those of all
/// partitions, else at each alone, since empty tables have nothing for each other.
fn make_catalog<H: Send, A: Send>(
    sites: &mut [Site<H, A, Arc<HostCatalog>>],
    (manifest, task, now_us): (&Manifest, SchemaTask<Arc<HostCatalog>>, i64),
    settings: &ReplaySettings<'_>,
) -> Result<(), String> {
    if !manifest.is_own() {
        let mut all: Vec<_> = sites.iter_mut().collect();
        return carry_out(&mut all, task, now_us, None, settings).map(drop);
    }
    let header = EntryHeader {
        transaction: manifest.transaction_id(),
        timestamp_us: now_us,
        repeated: true,
    };
    for site in sites {
        let made = site.replay_change(&header, &task, &[]);
        made.map_err(|failure| failure.message)?;
    }
    Ok(())
}

/// The rows of all partitions, each loaded by a thread of its own.
fn load_all<H: Send, A: Send>(
    disk: &dyn Disk,
    manifest: &Manifest,
    sites: &mut [Site<H, A, Arc<HostCatalog>>],
) -> Result<Loaded, Unfit> {
    let partition_count = manifest.positions.len() as u32;
    let loaded: Vec<Result<Loaded, String>> = std::thread::scope(|scope| {
        let threads: Vec<_> = sites
            .iter_mut()
            .map(|site| {
                let partition = site.partition().0;
                let builder = std::thread::Builder::new().name("snapshot load".to_string());
                let builder = builder.stack_size(crate::server::SITE_STACK_BYTES);
                let part = (partition, partition_count);
                builder.spawn_scoped(scope, move || load_one(disk, manifest, part, site))
            })
            .collect();
        let join = |thread: std::io::Result<std::thread::ScopedJoinHandle<'_, _>>| match thread {
            Ok(thread) => thread
                .join()
                .unwrap_or_else(|_| Err("a thread that loaded a partition panicked".to_string())),
            Err(error) => Err(format!("no thread to load a partition: {error}")),
        };
        threads.into_iter().map(join).collect()
    });
    let mut all = Loaded::default();
    for loaded in loaded {
        let loaded = loaded.map_err(Unfit::Damaged)?;
        all.rows += loaded.rows;
        all.bytes += loaded.bytes;
    }
    Ok(all)
}

/// The rows of one partition of N.
fn load_one<H, A>(
    disk: &dyn Disk,
    manifest: &Manifest,
    (partition, partition_count): (u32, u32),
    site: &mut Site<H, A, Arc<HostCatalog>>,
) -> Result<Loaded, String> {
    let progress = &AtomicU64::new(0);
    let folder = SNAPSHOT_FOLDER;
    let load = PartitionLoad { disk, folder, manifest, partition, partition_count, progress };
    load_partition(&load, site.database_mut()).map_err(|error| error.to_string())
}

/// What makes the catalog of a snapshot at empty sites, with the ids, the version and the plans
/// that it had; `None` if it was empty.
fn saved_catalog(
    disk: &dyn Disk,
    manifest: &Manifest,
    settings: &ReplaySettings<'_>,
) -> Result<Option<SchemaTask<Arc<HostCatalog>>>, Unfit> {
    if manifest.catalog_version == 0 {
        return Ok(None);
    }
    let first = manifest.part.as_ref().and_then(|part| part.partitions.first());
    let first = first.copied().unwrap_or(0);
    let heads = RowsReader::open(disk, SNAPSHOT_FOLDER, manifest, first)?;
    let heads = heads.tables().iter();
    let mut saved = SavedCatalog {
        version: manifest.catalog_version,
        schema: manifest.schema.clone(),
        planning: manifest.planning.clone(),
        classes: None,
        ids: heads.map(|head| (head.name.clone(), TableId(head.table))).collect(),
    };
    for file in manifest.files.iter().filter(|file| file.name.ends_with(".classes")) {
        verify_file(disk, SNAPSHOT_FOLDER, file)?;
        let name = format!("{SNAPSHOT_FOLDER}/{}", file.name);
        let opened = disk.open(&name, OpenMode::Read).map_err(SnapshotError::from)?;
        let mut jar = vec![0; file.bytes as usize];
        opened.read_at(0, &mut jar).map_err(SnapshotError::from)?;
        saved.classes = Some(jar);
    }
    let made = saved.task(settings.natives, settings.options, &settings.java);
    made.map_err(|error| match error {
        SavedCatalogError::Partial => Unfit::Partial,
        SavedCatalogError::Unsound(problem) => {
            Unfit::Damaged(format!("the schema of snapshot {}: {problem}", manifest.nonce))
        }
    })
}
