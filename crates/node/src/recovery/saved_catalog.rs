//! A catalog as it is kept outside a host's memory: in a snapshot, or on its way to a host that
//! joins the cluster. What is made of it has the same ids, the same version and the same plans.

use crate::catalog::{HostCatalog, NativeRegistry};
use crate::classes;
use crate::options::Options;
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes};
use lockstep_host::schema::codec::{decode_saved_planning, encode_saved_planning};
use lockstep_jvm::JavaSettings;
use lockstep_plan::Catalog;
use lockstep_site::SchemaTask;
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::TableId;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The longest schema text that is read, in bytes: as long as a manifest may be.
const SCHEMA_BYTES_MAX: u32 = 256 << 20;
/// Most statements of a schema.
const SCHEMA_STATEMENTS_MAX: u32 = 1 << 20;

/// A catalog outside a host's memory.
pub(crate) struct SavedCatalog {
    /// Its version; nothing else counts where that is 0.
    pub(crate) version: u64,
    /// Its statements.
    pub(crate) schema: String,
    /// What its procedures were planned with; empty for the host's own settings.
    pub(crate) planning: Vec<u8>,
    /// The jar of its classes.
    pub(crate) classes: Option<Vec<u8>>,
    /// The ids of its tables by name.
    pub(crate) ids: BTreeMap<String, TableId>,
}

/// Why nothing can be made of a saved catalog.
pub(crate) enum SavedCatalogError {
    /// It lacks ids of tables.
    Partial,
    /// It cannot be made: the text for the user.
    Unsound(String),
}

impl SavedCatalog {
    /// A catalog in force.
    pub(crate) fn of(catalog: &Catalog) -> SavedCatalog {
        let ids = catalog.tables.iter();
        SavedCatalog {
            version: catalog.version,
            schema: catalog.schema_text(),
            planning: encode_saved_planning(&catalog.planning),
            classes: classes::jar(catalog).map(|jar| jar.to_vec()),
            ids: ids.map(|(name, table)| (name.clone(), table.definition.id)).collect(),
        }
    }

    /// The byte form: version, schema, planning, classes, ids.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_varint(self.version);
        out.put_counted(self.schema.as_bytes());
        out.put_counted(&self.planning);
        out.put_u8(u8::from(self.classes.is_some()));
        self.classes.iter().for_each(|jar| out.put_counted(jar));
        out.put_varint(self.ids.len() as u64);
        for (name, id) in &self.ids {
            out.put_counted(name.as_bytes());
            out.put_varint(id.0.into());
        }
        out
    }

    /// Reads the byte form.
    ///
    /// # Errors
    /// The bytes are not a catalog: the text for the user.
    pub(crate) fn decode(bytes: &[u8]) -> Result<SavedCatalog, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let read = |reader: &mut ByteReader<'_>| -> Result<SavedCatalog, EndOfBytes> {
            let version = reader.varint()?;
            let schema = text(reader.counted()?);
            let planning = reader.counted()?.to_vec();
            let classes = match reader.u8()? {
                0 => None,
                _ => Some(reader.counted()?.to_vec()),
            };
            let mut ids = BTreeMap::new();
            for _ in 0..reader.varint()? {
                let name = text(reader.counted()?);
                ids.insert(name, TableId(reader.varint()? as u32));
            }
            Ok(SavedCatalog { version, schema, planning, classes, ids })
        };
        read(&mut ByteReader::new(bytes)).map_err(|_| "the catalog is cut off".to_string())
    }

    /// What makes the catalog at empty sites; `None` if it was empty.
    ///
    /// # Errors
    /// It cannot be made.
    pub(crate) fn task(
        &self,
        natives: &NativeRegistry,
        options: &Options,
        java: &JavaSettings,
    ) -> Result<Option<SchemaTask<Arc<HostCatalog>>>, SavedCatalogError> {
        let Some(before) = self.version.checked_sub(1) else { return Ok(None) };
        let cannot = SavedCatalogError::Unsound;
        let planning = match self.planning.as_slice() {
            [] => options.planning(),
            bytes => decode_saved_planning(bytes).map_err(cannot)?,
        };
        let mut current = Catalog { planning, version: before, ..Catalog::default() };
        if let Some(jar) = &self.classes {
            let loaded = classes::change(&current, java, Some(jar), None, false);
            current.classes = Some(loaded.map_err(cannot)?);
        }
        let limits = Limits {
            batch_bytes: SCHEMA_BYTES_MAX,
            statement_bytes: SCHEMA_BYTES_MAX,
            statements: SCHEMA_STATEMENTS_MAX,
            ..options.sql_limits()
        };
        let parsed = match self.schema.trim() {
            "" => Vec::new(),
            text => parse_batch(text, &limits).map_err(|error| cannot(error.to_string()))?,
        };
        let made = current.apply_with_ids(&parsed, natives, &self.ids);
        let made = made.map_err(|error| cannot(error.message))?;
        if !made.catalog.tables.keys().all(|name| self.ids.contains_key(name)) {
            return Err(SavedCatalogError::Partial);
        }
        let catalog = HostCatalog::new(made.catalog, natives);
        let catalog = Arc::new(catalog.map_err(|error| cannot(error.to_string()))?);
        Ok(Some(SchemaTask {
            changes: made.changes,
            swap: None,
            snapshot: None,
            catalog_version: catalog.version(),
            catalog,
            source: Arc::from(&[][..]),
            advice: None,
        }))
    }
}
