//! Global indexes: CREATE GLOBAL INDEX, and the tables of their entries.
//!
//! What was declared stands with the table ([`GlobalIndexSource`]). At the end of a batch the
//! definitions are made from it: so the statements of a batch may come in any order, and columns
//! may move.

use crate::catalog::{
    Catalog, CatalogTable, GlobalIndexBuild, GlobalIndexSource, NativeProcedures, SchemaChange,
};
use crate::error::PlanError;
use crate::query::not_found_message;
use lockstep_plan_ir::schema::{DefaultValue, EntriesOf, GlobalIndexDefinition, IndexKey};
use lockstep_plan_ir::{ColumnDefinition, IndexDefinition, TableDefinition};
use lockstep_sql::ast::{CreateIndex, Name, ParsedStatement, Statement, Uniqueness};
use lockstep_types::hashing::MAX_KEY_PARTS;
use lockstep_types::{SqlType, TableId};
use std::collections::BTreeSet;
use std::sync::Arc;

use super::Draft;
use super::message::{ddl_error, table_error};
use super::table::plain_column;

/// Whether writers keep global indexes right: until they do, nobody can create one.
const GLOBAL_INDEXES_ARE_KEPT: bool = true;
/// Most global indexes of a table.
const MAX_GLOBAL_INDEXES: usize = 64;
/// The name of the entries' column with the number of rows: no column of a table has it.
const ROWS_COLUMN: &str = "#ROWS";

/// The name of the table with an index's entries. No name without quotes is like it.
pub(super) fn entries_name(index: &str) -> String {
    format!("{index}#ENTRIES")
}

impl Draft<'_> {
    pub(super) fn create_global_index(&mut self, create: &CreateIndex) -> Result<(), PlanError> {
        let span = create.name.span;
        let refuse = |what: &str| Err(ddl_error(span, format!("{what} in CREATE GLOBAL INDEX")));
        if !GLOBAL_INDEXES_ARE_KEPT {
            return Err(super::not_supported(span, "Global indexes"));
        }
        let table = self.find_table(&create.table)?;
        if table.definition.view.is_some() {
            return refuse("views are not supported");
        }
        if table.global_sources.len() >= MAX_GLOBAL_INDEXES {
            let reason = format!("table {} has {MAX_GLOBAL_INDEXES} global indexes, the most", {
                &table.definition.name
            });
            return Err(table_error(span, reason));
        }
        self.require_new_index_name(&create.name)?;
        if create.uniqueness == Uniqueness::AssumeUnique {
            return refuse("ASSUMEUNIQUE is not supported: a UNIQUE one is unique everywhere");
        }
        if create.selection.is_some() {
            return refuse("WHERE is not supported");
        }
        let mut keys = Vec::with_capacity(create.keys.len());
        for key in &create.keys {
            let Some(column) = plain_column(key) else {
                return refuse("keys that are not columns are not supported");
            };
            keys.push(Name { text: column.to_string(), quoted: false, span: key.span });
        }
        let table = self.find_table(&create.table)?;
        let source = GlobalIndexSource {
            name: create.name.text.clone(),
            unique: create.uniqueness == Uniqueness::Unique,
            keys: column_names(&table.definition, &keys)?,
            included: column_names(&table.definition, &create.included)?,
            building: false,
        };
        self.find_table_mut(&create.table)?.global_sources.push(source);
        Ok(())
    }

    /// Drops a global index, if there is one of this name.
    pub(super) fn drop_global_index(&mut self, name: &str) -> bool {
        for table in self.catalog.tables.values_mut() {
            let mut sources = table.global_sources.iter();
            if let Some(place) = sources.position(|source| source.name == name) {
                let table = Arc::make_mut(table);
                table.global_sources.remove(place);
                let definition = Arc::make_mut(&mut table.definition);
                let mut settled = definition.global_indexes.iter();
                if let Some(index) = settled.find(|index| index.name == name) {
                    let own = index.local_index_name();
                    definition.indexes.retain(|index| index.name != own);
                }
                self.catalog.tables.remove(&entries_name(name));
                return true;
            }
        }
        false
    }

    /// The entries of a table that goes go with it.
    pub(super) fn drop_entries_of(&mut self, table: &str) {
        let Some(table) = self.catalog.tables.get(table) else { return };
        for source in table.global_sources.clone() {
            self.catalog.tables.remove(&entries_name(&source.name));
        }
    }

    /// Global indexes that hold a column of a table.
    pub(super) fn global_indexes_of_column(&self, table: &Name, column: &str) -> Vec<String> {
        let sources = self.catalog.tables.get(table.as_str()).map(|table| &table.global_sources);
        let holds = |source: &&GlobalIndexSource| {
            source.keys.iter().chain(&source.included).any(|held| held == column)
        };
        sources.into_iter().flatten().filter(holds).map(|source| source.name.clone()).collect()
    }

    /// Makes the definitions of all global indexes and of their entries from the declarations and
    /// the tables as they are now.
    pub(super) fn settle_global_indexes(&mut self) -> Result<(), PlanError> {
        let indexed = self.catalog.tables.iter().filter(|(_, table)| {
            !table.global_sources.is_empty() || !table.definition.global_indexes.is_empty()
        });
        let names: Vec<String> = indexed.map(|(name, _)| name.clone()).collect();
        for name in names {
            let table = self.catalog.tables[&name].clone();
            let mut definitions = Vec::with_capacity(table.global_sources.len());
            for source in &table.global_sources {
                definitions.push(Arc::new(self.settle(&table.definition, source)?));
            }
            let entry = self.catalog.tables.get_mut(&name).expect("the table was found above");
            let definition = Arc::make_mut(&mut Arc::make_mut(entry).definition);
            for index in &definitions {
                add_local_index(definition, index);
            }
            definition.global_indexes = definitions;
        }
        Ok(())
    }

    /// One global index: its definition, and the table of its entries in the catalog.
    fn settle(
        &mut self,
        table: &TableDefinition,
        source: &GlobalIndexSource,
    ) -> Result<GlobalIndexDefinition, PlanError> {
        let index = &source.name;
        let keys = places(table, &source.keys, index)?;
        let included = places(table, &source.included, index)?;
        if keys.len() > MAX_KEY_PARTS {
            return Err(PlanError::new(format!(
                "Global index {index} has a key of {} columns (max is {MAX_KEY_PARTS})",
                keys.len()
            )));
        }
        if !table.is_partitioned() {
            return Err(PlanError::new(format!(
                "Global index {index} on table {0}, which is replicated: each partition holds all \
                 its rows, so an ordinary index finds them. Leave out GLOBAL, or partition the \
                 table first: PARTITION TABLE {0} ON COLUMN ...",
                table.name
            )));
        }
        if table.partition_columns.iter().all(|column| keys.contains(column)) {
            return Err(PlanError::new(format!(
                "Global index {index} has the partitioning columns {} of table {} in its key, so \
                 the rows of a key are at one partition and an ordinary index finds them and \
                 keeps them unique. Leave out GLOBAL.",
                table.partition_column_names(),
                table.name
            )));
        }
        let mut columns = keys.clone();
        for column in table.partition_columns.iter().chain(&included).copied() {
            if !columns.contains(&column) {
                columns.push(column);
            }
        }
        let name = entries_name(index);
        let kept = self.catalog.tables.get(&name).map(|entries| entries.definition.id);
        let global = GlobalIndexDefinition {
            name: index.clone(),
            unique: source.unique,
            columns,
            key_count: keys.len() as u16,
            included,
            entries: kept.unwrap_or_else(|| self.take_table_id(&name)),
            building: source.building,
        };
        let entries = entries_table(&name, table, &global);
        self.check_entries_layout(table, &global, &entries)?;
        let entries = CatalogTable {
            definition: Arc::new(entries),
            view_source: None,
            index_sources: Vec::new(),
            row_limit_source: None,
            global_sources: Vec::new(),
            time_to_live: None,
        };
        let same = self.catalog.tables.get(&name).is_some_and(|old| old.is_same(&entries));
        if !same {
            self.catalog.tables.insert(name, Arc::new(entries));
        }
        Ok(global)
    }

    /// Entries that are there must stay what they are, and where.
    fn check_entries_layout(
        &self,
        table: &TableDefinition,
        global: &GlobalIndexDefinition,
        new: &TableDefinition,
    ) -> Result<(), PlanError> {
        let old = self.old.tables.values().find(|old| old.definition.id == global.entries);
        let Some(old) = old else { return Ok(()) };
        let kind = |sql_type: SqlType| match sql_type.is_integer() {
            true => SqlType::BigInt,
            false => sql_type,
        };
        let shape = |definition: &TableDefinition| -> Vec<(String, SqlType)> {
            definition.columns.iter().map(|c| (c.name.clone(), kind(c.sql_type))).collect()
        };
        if shape(&old.definition) == shape(new) {
            return Ok(());
        }
        Err(PlanError::new(format!(
            "Global index {0} holds columns of table {1} that the change gives another type or \
             place in the partitioning. Drop the index first (DROP INDEX {0}) and create it again.",
            global.name, table.name
        )))
    }

    /// Tables with rows, perhaps, of which a global index is new: the index and its table.
    pub(super) fn new_global_indexes(&self) -> Vec<(Arc<GlobalIndexDefinition>, TableId)> {
        let there: BTreeSet<TableId> =
            self.old.tables.values().map(|table| table.definition.id).collect();
        let tables = self.catalog.tables.values().map(|table| &table.definition);
        let tables = tables.filter(|definition| there.contains(&definition.id));
        let indexes = tables.flat_map(|definition| {
            definition.global_indexes.iter().map(|index| (Arc::clone(index), definition.id))
        });
        let new = |index: &GlobalIndexDefinition| !there.contains(&index.entries);
        indexes.filter(|(index, _)| !index.building && new(index)).collect()
    }
}

/// See [`Catalog::build_of`].
pub(crate) fn build_of(
    catalog: &Catalog,
    statements: &[ParsedStatement],
) -> Option<GlobalIndexBuild> {
    let [ParsedStatement { statement: Statement::CreateIndex(create), .. }] = statements else {
        return None;
    };
    let table = catalog.tables.get(create.table.as_str()).filter(|_| create.global)?;
    let definition = &table.definition;
    definition.is_partitioned().then(|| GlobalIndexBuild {
        index: create.name.text.clone(),
        table_name: definition.name.clone(),
        table: definition.id,
    })
}

/// See [`Catalog::begin_global_index`].
pub(crate) fn begin_global_index(
    catalog: &Catalog,
    statements: &[ParsedStatement],
    natives: &dyn NativeProcedures,
) -> Result<SchemaChange, PlanError> {
    let mut draft = Draft::new(catalog, natives);
    for parsed in statements {
        let Statement::CreateIndex(create) = &parsed.statement else {
            return Err(PlanError::at(parsed.span, "this is no CREATE GLOBAL INDEX"));
        };
        draft.create_global_index(create)?;
        let table = draft.find_table_mut(&create.table)?;
        let source = table.global_sources.last_mut().expect("it was added right above");
        source.building = true;
    }
    draft.finish()
}

/// See [`Catalog::end_global_index`].
pub(crate) fn end_global_index(
    catalog: &Catalog,
    name: &str,
    keep: bool,
    natives: &dyn NativeProcedures,
) -> Result<SchemaChange, PlanError> {
    let mut draft = Draft::new(catalog, natives);
    if !keep {
        draft.drop_global_index(name);
        return draft.finish();
    }
    for table in draft.catalog.tables.values_mut() {
        let mut sources = table.global_sources.iter();
        if let Some(place) = sources.position(|source| source.name == name) {
            Arc::make_mut(table).global_sources[place].building = false;
        }
    }
    draft.finish()
}

/// The names of a table's columns, each at most once.
fn column_names(table: &TableDefinition, names: &[Name]) -> Result<Vec<String>, PlanError> {
    let mut found: Vec<String> = Vec::with_capacity(names.len());
    for name in names {
        let columns = || table.columns.iter().map(|column| column.name.as_str());
        if !columns().any(|column| column == name.text) {
            let reason = not_found_message(&name.text, &name.text, columns());
            return Err(table_error(name.span, reason));
        }
        if found.contains(&name.text) {
            let reason = format!("duplicate column name in index: {}", name.text);
            return Err(table_error(name.span, reason));
        }
        found.push(name.text.clone());
    }
    Ok(found)
}

fn places(table: &TableDefinition, names: &[String], index: &str) -> Result<Vec<u16>, PlanError> {
    let place = |name: &String| {
        let place = table.columns.iter().position(|column| column.name == *name);
        place.map(|place| place as u16).ok_or_else(|| {
            PlanError::new(format!(
                "Global index {index} holds column {name}, which table {} has not",
                table.name
            ))
        })
    };
    names.iter().map(place).collect()
}

/// The table of an index's entries.
fn entries_table(
    name: &str,
    table: &TableDefinition,
    global: &GlobalIndexDefinition,
) -> TableDefinition {
    // What a row may not hold is said of the row, not of its entry.
    let held = |column: &u16| ColumnDefinition {
        default: DefaultValue::None,
        nullable: true,
        ..table.columns[usize::from(*column)].clone()
    };
    let mut columns: Vec<ColumnDefinition> = global.columns.iter().map(held).collect();
    let unique_count = match global.unique {
        true => usize::from(global.key_count),
        false => columns.len(),
    };
    if !global.unique {
        columns.push(ColumnDefinition {
            name: ROWS_COLUMN.to_string(),
            sql_type: SqlType::BigInt,
            length: 0,
            length_in_bytes: false,
            nullable: false,
            default: DefaultValue::None,
        });
    }
    let key = IndexDefinition {
        name: global.name.clone(),
        keys: (0..unique_count as u16).map(IndexKey::Column).collect(),
        unique: true,
        assume_unique: false,
        constraint: None,
        predicate: None,
        hidden: true,
        building: false,
    };
    TableDefinition {
        id: global.entries,
        name: name.to_string(),
        visible_columns: columns.len() as u16,
        columns,
        indexes: vec![key],
        primary_key: None,
        partition_columns: (0..global.key_count).collect(),
        is_partial: false,
        view: None,
        dependent_views: Vec::new(),
        row_limit: None,
        row_limit_purge: None,
        global_indexes: Vec::new(),
        entries_of: Some(Arc::new(EntriesOf {
            table: table.id,
            table_name: table.name.clone(),
            index_name: global.name.clone(),
            unique: global.unique,
            key_count: global.key_count,
        })),
    }
}

/// Where no index of a table leads from the key to its rows, a hidden one does.
fn add_local_index(table: &mut TableDefinition, global: &GlobalIndexDefinition) {
    let keys: Vec<IndexKey> = global.keys().iter().copied().map(IndexKey::Column).collect();
    let name = global.local_index_name();
    if let Some(own) = table.indexes.iter_mut().find(|index| index.name == name) {
        own.building = global.building;
        return;
    }
    let leads =
        |index: &IndexDefinition| index.predicate.is_none() && index.keys.starts_with(&keys);
    if table.indexes.iter().any(leads) {
        return;
    }
    table.indexes.push(IndexDefinition {
        name,
        keys,
        unique: false,
        assume_unique: false,
        constraint: None,
        predicate: None,
        hidden: true,
        building: global.building,
    });
}
