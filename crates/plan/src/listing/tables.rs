//! TABLES, COLUMNS, INDEXINFO and PRIMARYKEYS.

use super::describe::default_text;
use super::types::{jdbc_type, precision, scale};
use super::{Listing, int, json_text, maybe, text};
use crate::catalog::{Catalog, CatalogTable};
use crate::schema::index::walk;
use lockstep_plan_ir::expression::Node;
use lockstep_plan_ir::schema::IndexKey;
use lockstep_plan_ir::{ColumnDefinition, IndexDefinition, TableDefinition};
use lockstep_types::{SqlType, Value};
use std::collections::BTreeSet;

const TEXT: SqlType = SqlType::Varchar;
const NULL: Value = Value::Null;

pub(super) fn tables(catalog: &Catalog) -> Listing {
    let names = [
        "TABLE_CAT",
        "TABLE_SCHEM",
        "TABLE_NAME",
        "TABLE_TYPE",
        "REMARKS",
        "TYPE_CAT",
        "TYPE_SCHEM",
        "TYPE_NAME",
        "SELF_REFERENCING_COL_NAME",
        "REF_GENERATION",
    ];
    let mut listing = Listing::new(&names.map(|name| (name, TEXT)));
    listing.rows = catalog
        .visible_tables()
        .map(|table| {
            let kind = if table.view_source.is_some() { "VIEW" } else { "TABLE" };
            let name = text(&table.definition.name);
            let remarks = remarks(table).map_or(NULL, text);
            vec![NULL, NULL, name, text(kind), remarks, NULL, NULL, NULL, NULL, NULL]
        })
        .collect();
    listing
}

/// Where a table is partitioned and what a view reads, as JSON.
fn remarks(table: &CatalogTable) -> Option<String> {
    let definition = &table.definition;
    let mut parts = Vec::new();
    let names = json_text(&definition.partition_column_names());
    match definition.partition_columns.len() {
        0 => {}
        1 => parts.push(format!("\"partitionColumn\":{names}")),
        // A client that knows one column only must not take it for the whole.
        _ => parts.push(format!("\"partitionColumns\":{names}")),
    }
    if let Some((sources, _)) = &table.view_source
        && let Some(source) = sources.first()
    {
        parts.push(format!("\"sourceTable\":{}", json_text(source)));
    }
    (!parts.is_empty()).then(|| format!("{{{}}}", parts.join(",")))
}

pub(super) fn columns(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("TABLE_CAT", TEXT),
        ("TABLE_SCHEM", TEXT),
        ("TABLE_NAME", TEXT),
        ("COLUMN_NAME", TEXT),
        ("DATA_TYPE", SqlType::Integer),
        ("TYPE_NAME", TEXT),
        ("COLUMN_SIZE", SqlType::Integer),
        ("BUFFER_LENGTH", SqlType::Integer),
        ("DECIMAL_DIGITS", SqlType::Integer),
        ("NUM_PREC_RADIX", SqlType::Integer),
        ("NULLABLE", SqlType::Integer),
        ("REMARKS", TEXT),
        ("COLUMN_DEF", TEXT),
        ("SQL_DATA_TYPE", SqlType::Integer),
        ("SQL_DATETIME_SUB", SqlType::Integer),
        ("CHAR_OCTET_LENGTH", SqlType::Integer),
        ("ORDINAL_POSITION", SqlType::Integer),
        ("IS_NULLABLE", TEXT),
        ("SCOPE_CATALOG", TEXT),
        ("SCOPE_SCHEMA", TEXT),
        ("SCOPE_TABLE", TEXT),
        ("SOURCE_DATA_TYPE", SqlType::SmallInt),
        ("IS_AUTOINCREMENT", TEXT),
    ]);
    for table in catalog.visible_tables() {
        let definition = &table.definition;
        for place in 0..definition.visible_columns {
            listing.rows.push(column_row(definition, place));
        }
    }
    listing
}

/// What tells clients that a column partitions its table. One of several is named by its place
/// among them, so that clients which know single columns only do not route by it.
fn partition_remark(table: &TableDefinition, place: u16) -> Option<String> {
    let columns = &table.partition_columns;
    let number = columns.iter().position(|column| *column == place)?;
    Some(match columns.len() {
        1 => "PARTITION_COLUMN".to_string(),
        count => format!("PARTITION_COLUMN {} OF {count}", number + 1),
    })
}

fn column_row(table: &TableDefinition, place: u16) -> Vec<Value> {
    let column: &ColumnDefinition = &table.columns[usize::from(place)];
    let (mut size, radix) = precision(column.sql_type);
    let mut octets = None;
    if column.sql_type.is_variable_length() {
        size = Some(column.length.into());
        octets = size;
    }
    let partitions = partition_remark(table, place);
    vec![
        NULL,
        NULL,
        text(&table.name),
        text(&column.name),
        int(jdbc_type(column.sql_type)),
        text(column.sql_type.name()),
        maybe(size),
        NULL,
        maybe(scale(column.sql_type)),
        maybe(radix),
        int(column.nullable),
        partitions.map_or(NULL, text),
        default_text(column).map_or(NULL, text),
        NULL,
        NULL,
        maybe(octets),
        int(i32::from(place) + 1),
        text(if column.nullable { "YES" } else { "NO" }),
        NULL,
        NULL,
        NULL,
        NULL,
        text("NO"),
    ]
}

pub(super) fn indexes(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("TABLE_CAT", TEXT),
        ("TABLE_SCHEM", TEXT),
        ("TABLE_NAME", TEXT),
        ("NON_UNIQUE", SqlType::TinyInt),
        ("INDEX_QUALIFIER", TEXT),
        ("INDEX_NAME", TEXT),
        ("TYPE", SqlType::SmallInt),
        ("ORDINAL_POSITION", SqlType::SmallInt),
        ("COLUMN_NAME", TEXT),
        ("ASC_OR_DESC", TEXT),
        ("CARDINALITY", SqlType::Integer),
        ("PAGES", SqlType::Integer),
        ("FILTER_CONDITION", TEXT),
    ]);
    for table in catalog.visible_tables() {
        let mut indexes: Vec<&IndexDefinition> =
            table.definition.indexes.iter().filter(|index| !index.hidden).collect();
        indexes.sort_by(|a, b| a.name.cmp(&b.name));
        for index in indexes {
            let columns = columns_by_name(&table.definition, index);
            for (ordinal, column) in columns.iter().enumerate() {
                listing.rows.push(index_row(
                    &table.definition.name,
                    &index.name,
                    index.unique,
                    ordinal,
                    column,
                ));
            }
        }
        for index in table.definition.global_indexes.iter().filter(|index| !index.building) {
            for (ordinal, column) in index.keys().iter().enumerate() {
                let column = &table.definition.columns[usize::from(*column)].name;
                listing.rows.push(index_row(
                    &table.definition.name,
                    &index.name,
                    index.unique,
                    ordinal,
                    column,
                ));
            }
        }
    }
    listing
}

/// The line of a column of an index.
fn index_row(table: &str, index: &str, unique: bool, ordinal: usize, column: &str) -> Vec<Value> {
    /// JDBC's number for an index that is neither clustered nor hashed.
    const OTHER: i64 = 3;
    vec![
        NULL,
        NULL,
        text(table),
        int(!unique),
        NULL,
        text(index),
        int(OTHER),
        int(ordinal as i32 + 1),
        text(column),
        text("A"),
        NULL,
        NULL,
        NULL,
    ]
}

pub(super) fn primary_keys(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("TABLE_CAT", TEXT),
        ("TABLE_SCHEM", TEXT),
        ("TABLE_NAME", TEXT),
        ("COLUMN_NAME", TEXT),
        ("KEY_SEQ", SqlType::SmallInt),
        ("PK_NAME", TEXT),
    ]);
    for table in catalog.visible_tables() {
        let definition = &table.definition;
        let Some(key) = definition.primary_key else { continue };
        let index = &definition.indexes[key.index()];
        let names = columns_by_name(definition, index);
        let constraint = index.constraint.as_ref().unwrap_or(&index.name);
        for (place, name) in names.iter().enumerate() {
            listing.rows.push(vec![
                NULL,
                NULL,
                text(&definition.name),
                text(name),
                int(place as i32 + 1),
                text(constraint),
            ]);
        }
    }
    listing
}

/// Every index's key, part by part in its own order.
pub(super) fn keys(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("TABLE_NAME", TEXT),
        ("INDEX_NAME", TEXT),
        ("KIND", TEXT),
        ("KEY_SEQ", SqlType::SmallInt),
        ("KEY_PART", TEXT),
    ]);
    for name in catalog.visible_names() {
        let Some(table) = catalog.describe(name) else { continue };
        for index in &table.indexes {
            for (place, part) in index.keys.iter().enumerate() {
                listing.rows.push(vec![
                    text(&table.name),
                    text(&index.name),
                    text(index.kind),
                    int(place as i32 + 1),
                    text(part),
                ]);
            }
        }
    }
    listing
}

/// The columns that an index's key reads. VoltDB numbers them by their names.
fn columns_by_name<'a>(table: &'a TableDefinition, index: &IndexDefinition) -> Vec<&'a str> {
    let mut columns = BTreeSet::new();
    for key in &index.keys {
        match key {
            IndexKey::Column(column) => {
                columns.insert(*column);
            }
            IndexKey::Expression(expression) => walk(expression, &mut |part| {
                if let Node::Column { column, .. } = part.node {
                    columns.insert(column);
                }
            }),
        }
    }
    let mut names: Vec<&str> =
        columns.iter().map(|&column| table.columns[usize::from(column)].name.as_str()).collect();
    names.sort_unstable();
    names
}
