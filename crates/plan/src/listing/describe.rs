//! A table as a shell shows it, and the texts of its parts.

use crate::catalog::CatalogTable;
use lockstep_plan_ir::ColumnDefinition;
use lockstep_plan_ir::schema::{DefaultValue, IndexKey};
use lockstep_sql::ast::Statement;
use lockstep_types::Value;

/// A table or view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// Its name.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<ColumnDescription>,
    /// Its indexes, hidden ones left out.
    pub indexes: Vec<IndexDescription>,
    /// The partitioning columns, separated by commas.
    pub partition_column: Option<String>,
    /// For a view: the text of its query.
    pub query: Option<String>,
}

/// A column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// Its type as DDL writes it.
    pub type_text: String,
    /// Whether NULL may be stored.
    pub nullable: bool,
    /// Its default as DDL writes it.
    pub default: Option<String>,
}

/// An index or unique constraint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IndexDescription {
    /// Its name.
    pub name: String,
    /// `PRIMARY KEY`, `UNIQUE`, `ASSUMEUNIQUE`, `GLOBAL UNIQUE`, `GLOBAL` or nothing.
    pub kind: &'static str,
    /// The parts of its key, as text.
    pub keys: Vec<String>,
    /// The condition of a partial index, as text.
    pub condition: Option<String>,
    /// The constraint that it stands for.
    pub constraint: Option<String>,
}

pub(super) fn describe(table: &CatalogTable) -> TableDescription {
    let definition = &table.definition;
    let visible = &definition.columns[..usize::from(definition.visible_columns)];
    let columns = visible
        .iter()
        .map(|column| ColumnDescription {
            name: column.name.clone(),
            type_text: type_text(column),
            nullable: column.nullable,
            default: default_text(column),
        })
        .collect();
    let indexes = definition.indexes.iter().enumerate().filter(|(_, index)| !index.hidden);
    let indexes: Vec<IndexDescription> = indexes
        .map(|(place, index)| {
            let (keys, condition) = key_parts(table, place);
            let primary = definition.primary_key.is_some_and(|key| key.index() == place);
            let kind = match (primary, index.assume_unique, index.unique) {
                (true, ..) => "PRIMARY KEY",
                (false, true, _) => "ASSUMEUNIQUE",
                (false, false, true) => "UNIQUE",
                (false, false, false) => "",
            };
            let (name, constraint) = (index.name.clone(), index.constraint.clone());
            IndexDescription { name, kind, keys, condition, constraint }
        })
        .chain(table.global_sources.iter().map(|index| IndexDescription {
            name: index.name.clone(),
            kind: if index.unique { "GLOBAL UNIQUE" } else { "GLOBAL" },
            keys: index.keys.clone(),
            condition: None,
            constraint: None,
        }))
        .collect();
    let partition = definition.is_partitioned().then(|| definition.partition_column_names());
    TableDescription {
        name: definition.name.clone(),
        columns,
        indexes,
        partition_column: partition,
        query: table.view_source.as_ref().and_then(|(_, source)| match &source.statement {
            Statement::CreateView(view) => Some(view.query_text.clone()),
            _ => None,
        }),
    }
}

/// A column's type as DDL writes it.
pub(super) fn type_text(column: &ColumnDefinition) -> String {
    let name = column.sql_type.name();
    match (column.sql_type.is_variable_length(), column.length_in_bytes) {
        (false, _) => name.to_string(),
        (true, false) => format!("{name}({})", column.length),
        (true, true) => format!("{name}({} BYTES)", column.length),
    }
}

/// A column's default as DDL writes it.
pub(super) fn default_text(column: &ColumnDefinition) -> Option<String> {
    Some(match &column.default {
        DefaultValue::None => return None,
        DefaultValue::Now => "CURRENT_TIMESTAMP".to_string(),
        DefaultValue::Constant(value) => match value {
            Value::Text(text) => format!("'{}'", text.replace('\'', "''")),
            Value::Timestamp(_) => format!("'{value}'"),
            Value::Bytes(_) => format!("X'{value}'"),
            Value::Float(value) => format!("{value:E}"),
            Value::Decimal(value) => {
                let text = value.to_string();
                text.trim_end_matches('0').trim_end_matches('.').to_string()
            }
            other => other.to_string(),
        },
    })
}

/// The texts of an index's key and condition, by the index's place.
pub(super) fn key_parts(table: &CatalogTable, place: usize) -> (Vec<String>, Option<String>) {
    let definition = &table.definition;
    let index = &definition.indexes[place];
    let hidden = definition.indexes.iter().filter(|index| index.hidden).count();
    let declared_from = definition.indexes.len() - hidden - table.index_sources.len();
    let source = place.checked_sub(declared_from).and_then(|at| table.index_sources.get(at));
    let keys = index.keys.iter().enumerate().map(|(part, key)| match key {
        IndexKey::Column(column) => definition.columns[usize::from(*column)].name.clone(),
        IndexKey::Expression(_) => source
            .and_then(|source| source.keys.get(part))
            .map_or_else(String::new, |key| key.to_string()),
    });
    let condition = source.and_then(|source| source.predicate.as_ref());
    (keys.collect(), condition.map(|condition| condition.to_string()))
}
