//! The catalog for people, from the tables of `@SystemCatalog`.

use super::arguments::Declared;
use lockstep_client::rows::Table;
use lockstep_types::{SqlType, Value};
use std::collections::BTreeMap;

/// A cell of a row as text; empty for NULL and for columns that the server does not send.
fn cell(table: &Table, row: &[Value], name: &str) -> String {
    match table.names.iter().position(|n| n == name).and_then(|column| row.get(column)) {
        None | Some(Value::Null) => String::new(),
        Some(value) => value.to_string(),
    }
}

fn text_table(names: &[&str], rows: Vec<Vec<String>>) -> Table {
    Table {
        names: names.iter().map(|name| name.to_string()).collect(),
        types: vec![SqlType::Varchar; names.len()],
        rows: rows
            .into_iter()
            .map(|row| row.into_iter().map(|text| Value::Text(text.into())).collect())
            .collect(),
    }
}

/// A field of the JSON text that the catalog has as remarks.
fn remark(remarks: &str, field: &str) -> Option<String> {
    let read: serde_json::Value = serde_json::from_str(remarks).ok()?;
    match &read[field] {
        serde_json::Value::Null => None,
        serde_json::Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    }
}

/// Where a table's rows are.
fn placement(table: &Table, row: &[Value]) -> String {
    match remark(&cell(table, row, "REMARKS"), "partitionColumn") {
        Some(column) => format!("partitioned on {column}"),
        None => "replicated".to_string(),
    }
}

/// Names, kinds and partitioning, from TABLES.
pub fn tables(catalog: &Table) -> Table {
    let row = |row: &Vec<Value>| {
        let kind = cell(catalog, row, "TABLE_TYPE").to_ascii_lowercase();
        vec![cell(catalog, row, "TABLE_NAME"), kind, placement(catalog, row)]
    };
    text_table(&["TABLE", "KIND", "ROWS ARE"], catalog.rows.iter().map(row).collect())
}

/// Names, access and routing, from PROCEDURES.
pub fn procedures(catalog: &Table) -> Table {
    let row = |row: &Vec<Value>| {
        let remarks = cell(catalog, row, "REMARKS");
        let is = |field| remark(&remarks, field).is_some_and(|value| value == "true");
        let parameter = remark(&remarks, "partitionParameter").and_then(|p| p.parse::<i64>().ok());
        let runs = match (remark(&remarks, "runsOn"), is("singlePartition"), parameter) {
            (Some(text), ..) => text,
            (_, true, Some(place)) if place >= 0 => format!("one partition, by parameter {place}"),
            (_, true, _) => "one partition, as directed".to_string(),
            (_, false, _) => "all partitions".to_string(),
        };
        let access = if is("readOnly") { "read" } else { "write" };
        vec![cell(catalog, row, "PROCEDURE_NAME"), access.to_string(), runs]
    };
    text_table(&["PROCEDURE", "ACCESS", "RUNS ON"], catalog.rows.iter().map(row).collect())
}

/// The tables of one kind (`VIEW`, or the beginning of `STREAM...`), from TABLES.
pub fn of_kind(catalog: &Table, kind: &str) -> Table {
    let is_meant =
        |row: &&Vec<Value>| cell(catalog, row, "TABLE_TYPE").to_ascii_uppercase().contains(kind);
    let rows = catalog.rows.iter().filter(is_meant).cloned().collect();
    tables(&Table { rows, ..catalog.clone() })
}

/// The tables with a name, from TABLES.
pub fn named(catalog: &Table, name: &str) -> Table {
    let name = name.to_ascii_uppercase();
    let is_meant = |row: &&Vec<Value>| cell(catalog, row, "TABLE_NAME") == name;
    let rows = catalog.rows.iter().filter(is_meant).cloned().collect();
    Table { rows, ..catalog.clone() }
}

/// A row for each index with its table, columns and uniqueness, from INDEXINFO.
pub fn indexes(catalog: &Table) -> Table {
    let mut indexes: BTreeMap<(String, String), (bool, BTreeMap<u32, String>)> = BTreeMap::new();
    for row in &catalog.rows {
        let key = (cell(catalog, row, "TABLE_NAME"), cell(catalog, row, "INDEX_NAME"));
        let entry = indexes.entry(key).or_default();
        entry.0 = cell(catalog, row, "NON_UNIQUE") == "0";
        let place = cell(catalog, row, "ORDINAL_POSITION").parse().unwrap_or(0);
        entry.1.insert(place, cell(catalog, row, "COLUMN_NAME"));
    }
    let row = |((table, index), (unique, columns)): (_, (bool, BTreeMap<u32, String>))| {
        let columns: Vec<String> = columns.into_values().collect();
        let unique = if unique { "yes" } else { "no" };
        vec![index, table, columns.join(", "), unique.to_string()]
    };
    text_table(&["INDEX", "TABLE", "COLUMNS", "UNIQUE"], indexes.into_iter().map(row).collect())
}

/// The types of every procedure's parameters in order, by the procedure's name in lower case,
/// from PROCEDURECOLUMNS.
pub fn parameter_types(catalog: &Table) -> BTreeMap<String, Vec<Declared>> {
    let mut places: BTreeMap<String, BTreeMap<u32, Declared>> = BTreeMap::new();
    for row in &catalog.rows {
        let name = cell(catalog, row, "PROCEDURE_NAME").to_ascii_lowercase();
        let place = cell(catalog, row, "ORDINAL_POSITION").parse().unwrap_or(0);
        let sql_type = type_of(&cell(catalog, row, "TYPE_NAME"));
        let is_array = cell(catalog, row, "REMARKS").contains("ARRAY_PARAMETER");
        places.entry(name).or_default().insert(place, Declared { sql_type, is_array });
    }
    places.into_iter().map(|(name, types)| (name, types.into_values().collect())).collect()
}

/// A type by its name; text for those that this shell does not know, for the server to convert.
fn type_of(name: &str) -> SqlType {
    use SqlType::*;
    [TinyInt, SmallInt, Integer, BigInt, Float, Timestamp, Decimal, Varbinary]
        .into_iter()
        .find(|sql_type| sql_type.name() == name)
        .unwrap_or(Varchar)
}

/// What `describe` reads.
pub struct CatalogTables {
    /// TABLES.
    pub tables: Table,
    /// COLUMNS.
    pub columns: Table,
    /// INDEXINFO.
    pub indexes: Table,
    /// PRIMARYKEYS.
    pub keys: Table,
}

impl CatalogTables {
    /// The columns of a table and lines on its keys, indexes and partitioning; nothing when there
    /// is no such table.
    pub fn describe(&self, name: &str) -> Option<(Table, Vec<String>)> {
        let name = name.to_ascii_uppercase();
        let table =
            self.tables.rows.iter().find(|row| cell(&self.tables, row, "TABLE_NAME") == name)?;
        let mut notes = vec![format!("Rows are {}.", placement(&self.tables, table))];
        if let Some(source) = remark(&cell(&self.tables, table, "REMARKS"), "sourceTable") {
            notes.push(format!("View of {source}."));
        }
        notes.extend(self.key_note(&name));
        notes.extend(self.index_notes(&name));
        Some((self.column_table(&name), notes))
    }

    fn rows_of<'t>(table: &'t Table, name: &str) -> Vec<&'t Vec<Value>> {
        table.rows.iter().filter(|row| cell(table, row, "TABLE_NAME") == name).collect()
    }

    fn column_table(&self, name: &str) -> Table {
        let catalog = &self.columns;
        let mut rows = CatalogTables::rows_of(catalog, name);
        rows.sort_by_key(|row| cell(catalog, row, "ORDINAL_POSITION").parse().unwrap_or(0));
        let row = |row: &&Vec<Value>| {
            let nullable = cell(catalog, row, "IS_NULLABLE") == "YES";
            let default = match cell(catalog, row, "COLUMN_DEF") {
                text if text.is_empty() => "-".to_string(),
                text => text,
            };
            vec![
                cell(catalog, row, "COLUMN_NAME"),
                self.type_text(row),
                if nullable { "NULL" } else { "NOT NULL" }.to_string(),
                default,
            ]
        };
        text_table(&["COLUMN", "TYPE", "NULL?", "DEFAULT"], rows.iter().map(row).collect())
    }

    fn type_text(&self, row: &[Value]) -> String {
        let name = cell(&self.columns, row, "TYPE_NAME");
        let size = cell(&self.columns, row, "COLUMN_SIZE");
        let sized = matches!(name.as_str(), "VARCHAR" | "VARBINARY") && !size.is_empty();
        if sized { format!("{name}({size})") } else { name }
    }

    fn key_note(&self, name: &str) -> Option<String> {
        let mut rows = CatalogTables::rows_of(&self.keys, name);
        rows.sort_by_key(|row| cell(&self.keys, row, "KEY_SEQ").parse().unwrap_or(0));
        let columns: Vec<_> = rows.iter().map(|row| cell(&self.keys, row, "COLUMN_NAME")).collect();
        (!columns.is_empty()).then(|| format!("Primary key ({}).", columns.join(", ")))
    }

    fn index_notes(&self, name: &str) -> Vec<String> {
        let catalog = &self.indexes;
        let mut indexes: BTreeMap<String, (bool, BTreeMap<u32, String>)> = BTreeMap::new();
        for row in CatalogTables::rows_of(catalog, name) {
            let entry = indexes.entry(cell(catalog, row, "INDEX_NAME")).or_default();
            entry.0 = cell(catalog, row, "NON_UNIQUE") == "0";
            let place = cell(catalog, row, "ORDINAL_POSITION").parse().unwrap_or(0);
            entry.1.insert(place, cell(catalog, row, "COLUMN_NAME"));
        }
        let note = |(index, (unique, columns)): (String, (bool, BTreeMap<u32, String>))| {
            let columns: Vec<String> = columns.into_values().collect();
            let kind = if unique { "Unique index" } else { "Index" };
            format!("{kind} {index} ({}).", columns.join(", "))
        };
        indexes.into_iter().map(note).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::format::{Format, render};
    use super::*;

    /// A table from lines of cells between bars; `-` is NULL.
    fn table(text: &str) -> Table {
        let mut lines = text.lines().map(|line| line.split('|').map(str::trim).collect());
        let names: Vec<&str> = lines.next().expect("a header");
        let value = |cell: &str| match cell {
            "-" => Value::Null,
            text => text.parse().map_or_else(|_| Value::Text(text.into()), Value::Int),
        };
        Table {
            types: vec![SqlType::Varchar; names.len()],
            names: names.into_iter().map(str::to_string).collect(),
            rows: lines.map(|cells: Vec<&str>| cells.into_iter().map(value).collect()).collect(),
        }
    }

    #[test]
    fn tables_are_described() {
        let catalog = CatalogTables {
            tables: table("TABLE_NAME|TABLE_TYPE|REMARKS\nVOTES|TABLE|{\"partitionColumn\":\"P\"}"),
            columns: table(
                "TABLE_NAME|COLUMN_NAME|TYPE_NAME|COLUMN_SIZE|COLUMN_DEF|ORDINAL_POSITION|\
                 IS_NULLABLE\nVOTES|S|VARCHAR|2|-|2|YES\nVOTES|P|BIGINT|63|5|1|NO\nT|X|FLOAT|-|-|1|NO",
            ),
            indexes: table(
                "TABLE_NAME|NON_UNIQUE|INDEX_NAME|ORDINAL_POSITION|COLUMN_NAME\n\
                 VOTES|0|PK|1|P\nVOTES|1|I|2|S\nVOTES|1|I|1|P",
            ),
            keys: table("TABLE_NAME|COLUMN_NAME|KEY_SEQ\nVOTES|P|1"),
        };
        let (columns, notes) = catalog.describe("votes").expect("there is such a table");
        let expected = "COLUMN TYPE       NULL?    DEFAULT
------ ---------- -------- -------
P      BIGINT     NOT NULL 5
S      VARCHAR(2) NULL     -
";
        assert_eq!(render(&columns, Format::Table), expected);
        let expected = [
            "Rows are partitioned on P.",
            "Primary key (P).",
            "Index I (P, S).",
            "Unique index PK (P).",
        ];
        assert_eq!(notes, expected);
        assert!(catalog.describe("none").is_none());
        let listed = render(&tables(&catalog.tables), Format::Csv);
        assert_eq!(listed, "TABLE,KIND,ROWS ARE\nVOTES,table,partitioned on P\n");
    }

    #[test]
    fn procedures_say_where_they_run() {
        let catalog = table(
            "PROCEDURE_NAME|REMARKS\n\
             A|{\"readOnly\":true,\"singlePartition\":true,\"partitionParameter\":1}\n\
             B|{\"readOnly\":false,\"singlePartition\":false}\n\
             C|{\"readOnly\":true,\"singlePartition\":true,\"partitionParameter\":-1}\n\
             D|{\"readOnly\":true,\"singlePartition\":false,\"runsOn\":\"2 partitions\"}",
        );
        let expected = "PROCEDURE,ACCESS,RUNS ON\nA,read,\"one partition, by parameter 1\"\n\
                        B,write,all partitions\nC,read,\"one partition, as directed\"\n\
                        D,read,2 partitions\n";
        assert_eq!(render(&procedures(&catalog), Format::Csv), expected);
    }

    #[test]
    fn parameter_types_are_in_order() {
        let types = parameter_types(&table(
            "PROCEDURE_NAME|TYPE_NAME|ORDINAL_POSITION|REMARKS\n\
             Vote|INTEGER|2|PARTITION_PARAMETER,ARRAY_PARAMETER\nVote|BIGINT|1|-\nP|POINT|1|-",
        ));
        let one = |sql_type| Declared { sql_type, is_array: false };
        let several = Declared { sql_type: SqlType::Integer, is_array: true };
        assert_eq!(types["vote"], [one(SqlType::BigInt), several]);
        assert_eq!(types["p"], [one(SqlType::Varchar)]);
    }
}
