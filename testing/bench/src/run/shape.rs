//! Compares what a server has with what a workload would make: a run on tables of another shape, as
//! of another way to partition, would measure something else than it says.

use super::{Server, only_rows};
use lockstep_client::ParameterWriter;
use lockstep_types::Value;
use lockstep_workloads::{TableToFill, Workload};
use std::collections::BTreeMap;

/// A column as the catalog tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Column {
    type_name: String,
    partitions: bool,
}

/// What a server has, names in capitals.
#[derive(Debug, Default)]
struct Catalog {
    /// By table and column.
    columns: BTreeMap<String, BTreeMap<String, Column>>,
    /// Whether each procedure runs at one partition.
    procedures: BTreeMap<String, bool>,
    /// Whether each index is unique.
    indexes: BTreeMap<String, bool>,
}

/// Fails where tables of the workload are there that are not as it would make them, or that lack
/// something of it.
///
/// # Errors
/// What differs; the server cannot be asked.
pub(super) fn compare(server: &mut Server, workload: &dyn Workload) -> Result<(), String> {
    let catalog = Catalog::read(server)?;
    let differs = catalog.compare(&workload.tables(), &workload.schema());
    differs.map_err(|what| {
        let name = workload.name();
        format!("{what}; the tables are of another form of {name}, or of something else")
    })
}

fn text(row: &[Value], place: usize) -> String {
    match row.get(place) {
        Some(Value::Text(text)) => text.to_string(),
        _ => String::new(),
    }
}

impl Catalog {
    fn read(server: &mut Server) -> Result<Catalog, String> {
        let mut ask = |what: &str| {
            let mut parameters = ParameterWriter::default();
            parameters.text(what);
            let answer = server.0.call("@SystemCatalog", &parameters);
            let tables =
                answer.and_then(|answer| answer.tables()).map_err(|error| error.to_string())?;
            only_rows(tables, "@SystemCatalog")
        };
        let mut catalog = Catalog::default();
        for row in ask("COLUMNS")? {
            let partitions = text(&row, 11) == "PARTITION_COLUMN";
            let column = Column { type_name: text(&row, 5), partitions };
            let table = catalog.columns.entry(text(&row, 2)).or_default();
            table.insert(text(&row, 3), column);
        }
        for row in ask("PROCEDURES")? {
            let single = text(&row, 6).contains("\"singlePartition\":true");
            catalog.procedures.insert(text(&row, 2).to_uppercase(), single);
        }
        for row in ask("INDEXINFO")? {
            let unique = matches!(row.get(3), Some(Value::Int(0)));
            catalog.indexes.insert(text(&row, 5), unique);
        }
        Ok(catalog)
    }

    fn compare(&self, tables: &[TableToFill], schema: &[String]) -> Result<(), String> {
        let held = |table: &&TableToFill| self.columns.contains_key(&table.name.to_uppercase());
        let Some(first) = tables.iter().find(held) else { return Ok(()) };
        if let Some(missing) = tables.iter().find(|table| !held(table)) {
            return Err(format!(
                "the server has the table {}, and lacks {}",
                first.name.to_uppercase(),
                missing.name.to_uppercase()
            ));
        }
        tables.iter().try_for_each(|table| self.compare_table(table))?;
        for made in schema.iter().flat_map(|text| made_by(text)) {
            match made {
                Made::Procedure { name, single } => {
                    match self.procedures.get(&name.to_uppercase()) {
                        Some(held) if *held == single => {}
                        Some(_) => {
                            let at = if single { "several partitions" } else { "one partition" };
                            return Err(format!("the procedure {name} of the server runs at {at}"));
                        }
                        None => return Err(format!("the server lacks the procedure {name}")),
                    }
                }
                Made::Index { name, unique } => match self.indexes.get(&name.to_uppercase()) {
                    Some(held) if *held == unique => {}
                    Some(_) => {
                        let is = if unique { "is not" } else { "is" };
                        return Err(format!("the index {name} of the server {is} unique"));
                    }
                    None => return Err(format!("the server lacks the index {name}")),
                },
            }
        }
        Ok(())
    }

    fn compare_table(&self, table: &TableToFill) -> Result<(), String> {
        let name = table.name.to_uppercase();
        let none = BTreeMap::new();
        let columns = self.columns.get(&name).unwrap_or(&none);
        for (column, sql_type) in &table.columns {
            let (column, wanted) = (column.to_uppercase(), sql_type.to_string());
            match columns.get(&column) {
                None => return Err(format!("{name} of the server lacks the column {column}")),
                Some(held) if held.type_name != wanted => {
                    let held = &held.type_name;
                    return Err(format!("{name}.{column} is {held}, this run is for {wanted}"));
                }
                Some(_) => {}
            }
        }
        let held = columns.iter().find(|(_, column)| column.partitions).map(|(name, _)| name);
        let wanted = table.partitioned_by.and_then(|place| table.columns.get(place));
        let wanted = wanted.map(|(column, _)| column.to_uppercase());
        match held == wanted.as_ref() {
            true => Ok(()),
            false => {
                let said = |column: Option<&String>| {
                    column.map_or("replicated".to_string(), |name| format!("partitioned on {name}"))
                };
                let (held, wanted) = (said(held), said(wanted.as_ref()));
                Err(format!("{name} is {held}, this run is for it {wanted}"))
            }
        }
    }
}

/// Something that DDL makes.
#[derive(Debug, PartialEq, Eq)]
enum Made {
    Procedure { name: String, single: bool },
    Index { name: String, unique: bool },
}

/// The procedures and indexes that a text makes, by the words that our own schemas are written in.
fn made_by(text: &str) -> Vec<Made> {
    let mut made = Vec::new();
    let mut words = text.split_whitespace().peekable();
    while let Some(word) = words.next() {
        if word != "CREATE" {
            continue;
        }
        let mut unique = false;
        while let Some(kind) = words.next_if(|word| ["GLOBAL", "UNIQUE"].contains(word)) {
            unique |= kind == "UNIQUE";
        }
        match words.next() {
            Some("INDEX") => {
                let name = words.next().unwrap_or_default().to_string();
                made.push(Made::Index { name, unique });
            }
            Some("PROCEDURE") => made.extend(procedure(&mut words)),
            _ => {}
        }
    }
    made
}

/// A procedure, its name after the word, or that of native code or of a class. It runs at one
/// partition if its text names one, and no index that leads there.
fn procedure<'t>(words: &mut std::iter::Peekable<impl Iterator<Item = &'t str>>) -> Option<Made> {
    let named = words.next_if(|word| !["PARTITION", "FROM", "AS"].contains(word));
    let mut clause = Vec::new();
    while let Some(word) = words.next_if(|word| !["FROM", "AS"].contains(word)) {
        clause.push(word);
    }
    let partitions = clause.iter().filter(|word| **word == "TABLE").count();
    let single = partitions == 1 && !clause.contains(&"VIA");
    let name = match (named, words.next()) {
        (Some(name), _) => name,
        (None, _) => {
            let _form = words.next()?;
            words.next()?.trim_end_matches(';')
        }
    };
    let name = name.rsplit('.').next()?.to_string();
    Some(Made::Procedure { name, single })
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::SqlType;

    #[test]
    fn what_schemas_make_is_read() {
        let text = "CREATE TABLE t (a INTEGER);\nCREATE INDEX i ON t (a);\n\
                    CREATE GLOBAL UNIQUE INDEX g ON t (a);\n\
                    CREATE PROCEDURE One AS SELECT 1 FROM t;\n\
                    CREATE PROCEDURE PARTITION ON TABLE t COLUMN a FROM NATIVE Two;\n\
                    CREATE PROCEDURE FROM CLASS some.where.Three;\n\
                    CREATE PROCEDURE PARTITION ON TABLE t COLUMN a PARAMETER 0\n\
                      AND ON TABLE t COLUMN a PARAMETER 1 FROM NATIVE Four;\n\
                    CREATE PROCEDURE Five PARTITION ON TABLE t COLUMN a VIA GLOBAL INDEX g AS x;";
        let index = |name: &str, unique| Made::Index { name: name.to_string(), unique };
        let procedure = |name: &str, single| Made::Procedure { name: name.to_string(), single };
        let expected = vec![
            index("i", false),
            index("g", true),
            procedure("One", false),
            procedure("Two", true),
            procedure("Three", false),
            procedure("Four", false),
            procedure("Five", false),
        ];
        assert_eq!(made_by(text), expected);
    }

    #[test]
    fn each_difference_is_named() {
        let column =
            |type_name: &str, partitions| Column { type_name: type_name.to_string(), partitions };
        let columns = [("A", column("BIGINT", true)), ("B", column("FLOAT", false))];
        let columns = columns.map(|(name, column)| (name.to_string(), column));
        let catalog = Catalog {
            columns: [("T".to_string(), columns.into())].into(),
            procedures: [("ONE".to_string(), false)].into(),
            indexes: [("I".to_string(), false)].into(),
        };
        let table = |name, b_type, partitioned_by| TableToFill {
            name,
            columns: vec![("a", SqlType::BigInt), ("b", b_type)],
            partitioned_by,
            rows: 1,
        };
        let good = table("t", SqlType::Float, Some(0));
        let compare = |tables: &[&TableToFill], schema: &str| {
            let tables: Vec<TableToFill> = tables.iter().map(|table| (*table).clone()).collect();
            catalog.compare(&tables, &[schema.to_string()]).err().unwrap_or_default()
        };
        assert_eq!(compare(&[&good], "CREATE PROCEDURE One AS x; CREATE INDEX i ON t (a);"), "");
        let other = table("u", SqlType::Float, None);
        assert_eq!(compare(&[&other], "CREATE PROCEDURE Two AS x;"), "", "nothing is there");
        assert_eq!(compare(&[&good, &other], ""), "the server has the table T, and lacks U");
        for (table, says) in [
            (table("t", SqlType::Decimal, Some(0)), "T.B is FLOAT, this run is for DECIMAL"),
            (
                table("t", SqlType::Float, None),
                "T is partitioned on A, this run is for it replicated",
            ),
            (
                table("t", SqlType::Float, Some(1)),
                "T is partitioned on A, this run is for it partitioned on B",
            ),
        ] {
            assert_eq!(compare(&[&table], ""), says);
        }
        for (schema, says) in [
            ("CREATE PROCEDURE Two AS x;", "the server lacks the procedure Two"),
            (
                "CREATE PROCEDURE One PARTITION ON TABLE t COLUMN a AS x;",
                "the procedure One of the server runs at several partitions",
            ),
            ("CREATE INDEX j ON t (a);", "the server lacks the index j"),
            ("CREATE UNIQUE INDEX i ON t (a);", "the index i of the server is not unique"),
        ] {
            assert_eq!(compare(&[&good], schema), says);
        }
    }
}
