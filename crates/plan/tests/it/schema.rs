//! Schema changes as scripts: DDL in; the sites' steps, the catalog as text, or the refusal out.
//!
//! A script is a list of blocks, apart by blank lines. The first lines of a block begin with `> `
//! and are what is done: DDL, `schema` for the catalog's text, `list SELECTOR` for a listing,
//! `describe TABLE`. The lines below are what comes of it. A refused batch leaves the catalog as
//! it was.

use lockstep_plan::plan_ir::change::ColumnSource;
use lockstep_plan::plan_ir::procedure::ProcedureParameter;
use lockstep_plan::plan_ir::schema::IndexKey;
use lockstep_plan::plan_ir::{StorageChange, TableDefinition};
use lockstep_plan::{BatchKind, Catalog, NativeProcedures, NativeSource, classify_batch};
use lockstep_sql::{Limits, parse_batch};
use lockstep_types::SqlType;
use std::fmt::Write;

#[test]
fn tables() {
    run("tables", include_str!("schema/tables.txt"));
}

#[test]
fn indexes() {
    run("indexes", include_str!("schema/indexes.txt"));
}

#[test]
fn alterations() {
    run("alterations", include_str!("schema/alterations.txt"));
}

#[test]
fn views() {
    run("views", include_str!("schema/views.txt"));
}

#[test]
fn procedures() {
    run("procedures", include_str!("schema/procedures.txt"));
}

#[test]
fn tasks() {
    run("tasks", include_str!("schema/tasks.txt"));
}

#[test]
fn advice() {
    run("advice", include_str!("schema/advice.txt"));
}

#[test]
fn global_indexes() {
    run("global_indexes", include_str!("schema/global_indexes.txt"));
}

#[test]
fn time_to_live() {
    run("time_to_live", include_str!("schema/time_to_live.txt"));
}

#[test]
fn listings() {
    run("listings", include_str!("schema/listings.txt"));
}

#[test]
fn a_text_without_statements_is_refused() {
    let error = classify_batch(&[]).expect_err("nothing to do");
    assert_eq!(error.message, "Failed to plan, no SQL statement provided.");
}

#[test]
fn generated_procedures_are_found_whatever_the_case() {
    let sql = "CREATE TABLE T (ID INTEGER NOT NULL PRIMARY KEY); \
               CREATE PROCEDURE Get AS SELECT * FROM T WHERE ID = ?";
    let batch = parse_batch(sql, &Limits::default()).expect("SQL");
    let catalog = Catalog::default().apply(&batch, &OneNative).expect("DDL").catalog;
    for name in ["T.insert", "t.INSERT", "T.Upsert", "Get"] {
        assert!(catalog.procedure(name).is_some(), "{name}");
    }
    for name in ["get", "T.select", "T.", "", "U.insert", "é.insert"] {
        assert!(catalog.procedure(name).is_none(), "{name}");
    }
    assert!(catalog.procedure(&"X".repeat(1000)).is_none());
    let insert = catalog.procedure("t.insert").expect("generated");
    assert_eq!(insert.name, "T.insert");
    assert_eq!(insert.parameters[0].sql_type, SqlType::BigInt, "integers are widened on entry");
}

#[test]
fn the_widest_tables_have_all_procedures_that_their_parameters_allow() {
    for (columns, update) in [(1023, true), (1024, false)] {
        let names: Vec<String> = (0..columns).map(|column| format!("C{column} INTEGER")).collect();
        let sql = format!("CREATE TABLE T ({}, PRIMARY KEY (C0, C1))", names.join(", "));
        let batch = parse_batch(&sql, &Limits::default()).expect("SQL");
        let catalog = Catalog::default().apply(&batch, &OneNative).expect("DDL").catalog;
        assert_eq!(catalog.procedure("T.insert").map(|p| p.parameters.len()), Some(columns));
        assert!(catalog.procedure("T.upsert").is_some());
        assert_eq!(catalog.procedure("T.update").is_some(), update);
    }
}

/// One native procedure, as a binary would link it in.
struct OneNative;

impl NativeProcedures for OneNative {
    fn find(&self, name: &str) -> Option<NativeSource> {
        let parameter = |sql_type| ProcedureParameter { sql_type, is_array: false };
        (name == "Touch").then(|| NativeSource {
            parameters: vec![parameter(SqlType::BigInt), parameter(SqlType::Varchar)],
            statements: vec![("find".to_string(), "SELECT * FROM T WHERE ID = ?".to_string())],
        })
    }
}

fn run(name: &str, script: &str) {
    let mut catalog = Catalog::default();
    let mut actual = String::new();
    for block in script.split("\n\n").filter(|block| !block.trim().is_empty()) {
        let commands: Vec<&str> =
            block.lines().filter_map(|line| line.strip_prefix("> ")).collect();
        for line in block.lines().take_while(|line| line.starts_with("> ") || is_comment(line)) {
            writeln!(actual, "{line}").expect("text");
        }
        let answer = answer(&mut catalog, &commands.join("\n"));
        writeln!(actual, "{}\n", answer.trim_end()).expect("text");
    }
    let expected = script.trim();
    let actual = actual.trim();
    assert!(
        actual == expected,
        "script {name} differs at line {}; it now gives:\n\n{actual}\n",
        expected.lines().zip(actual.lines()).take_while(|(a, b)| a == b).count() + 1
    );
}

fn is_comment(line: &str) -> bool {
    line.starts_with("# ")
}

fn answer(catalog: &mut Catalog, command: &str) -> String {
    if command == "schema" {
        return catalog.schema_text();
    }
    if let Some(selector) = command.strip_prefix("list ") {
        return list(catalog, selector);
    }
    if let Some(table) = command.strip_prefix("describe ") {
        return format!("{:#?}", catalog.describe(table));
    }
    match change(catalog, command) {
        Ok(steps) => steps,
        Err(message) => format!("refused: {message}"),
    }
}

fn change(catalog: &mut Catalog, sql: &str) -> Result<String, String> {
    let batch = parse_batch(sql, &Limits::default()).map_err(|error| error.to_string())?;
    if classify_batch(&batch).map_err(|error| error.message)? != BatchKind::Ddl {
        return Err("no schema change".to_string());
    }
    let change = catalog.apply(&batch, &OneNative).map_err(|error| error.message)?;
    assert_eq!(change.catalog.version, catalog.version + 1);
    recreate(&change.catalog);
    *catalog = change.catalog;
    let mut steps = String::from("done\n");
    for step in &change.changes {
        writeln!(steps, "  {}", step_text(step)).expect("text");
    }
    for advice in &change.advice {
        writeln!(steps, "  advice: {advice}").expect("text");
    }
    Ok(steps)
}

/// The catalog's text makes the same catalog.
fn recreate(catalog: &Catalog) {
    let text = catalog.schema_text();
    let batch = parse_batch(&text, &Limits::default()).expect("the catalog's text is SQL");
    let again = Catalog::default().apply(&batch, &OneNative).expect("the catalog's text is DDL");
    assert_eq!(again.catalog.schema_text(), text);
    for selector in lockstep_plan::listing::SELECTORS {
        assert_eq!(again.catalog.listing(selector), catalog.listing(selector), "{selector}");
    }
}

fn step_text(step: &StorageChange) -> String {
    match step {
        StorageChange::RequireEmpty { table, message } => {
            format!("require empty {table}: {}", message.replace('\n', " "))
        }
        StorageChange::BuildGlobalIndex { table, index } => {
            format!("build {} of {table}", index.name)
        }
        StorageChange::Create(definition) => format!("create {}", table_text(definition)),
        StorageChange::Drop(table) => format!("drop {table}"),
        StorageChange::Alter { definition, columns } => {
            let columns = columns.as_ref().map_or_else(String::new, |columns| {
                let sources: Vec<String> = columns.iter().map(source_text).collect();
                format!(" columns from {}", sources.join(" "))
            });
            format!("alter {}{columns}", table_text(definition))
        }
    }
}

fn source_text(source: &ColumnSource) -> String {
    match source {
        ColumnSource::Old(place) => place.to_string(),
        ColumnSource::Constant(value) => format!("={value}"),
        ColumnSource::Now => "now".to_string(),
    }
}

/// A definition in short: `id name(columns) placement [indexes] views`.
fn table_text(table: &TableDefinition) -> String {
    let columns: Vec<String> = table
        .columns
        .iter()
        .map(|c| format!("{}{}", c.name, if c.nullable { "?" } else { "" }))
        .collect();
    let placement = match (table.partition_columns.first().copied(), table.is_partial) {
        (Some(column), _) => format!("by {}", table.columns[usize::from(column)].name),
        (None, true) => "partial".to_string(),
        (None, false) => "replicated".to_string(),
    };
    let mut text = format!("{} {}({}) {placement}", table.id, table.name, columns.join(" "));
    for (place, index) in table.indexes.iter().enumerate() {
        let keys: Vec<String> = index
            .keys
            .iter()
            .map(|key| match key {
                IndexKey::Column(column) => table.columns[usize::from(*column)].name.clone(),
                IndexKey::Expression(_) => "(..)".to_string(),
            })
            .collect();
        let primary = table.primary_key.is_some_and(|key| key.index() == place);
        let marks = [
            (primary, " key"),
            (index.unique && !primary, " unique"),
            (index.predicate.is_some(), " partial"),
            (index.hidden, " hidden"),
        ];
        let marks: String = marks.iter().filter(|(is, _)| *is).map(|(_, mark)| *mark).collect();
        write!(text, " [{}{marks}]", keys.join(" ")).expect("text");
    }
    if !table.dependent_views.is_empty() {
        let views: Vec<String> =
            table.dependent_views.iter().map(|view| view.view.to_string()).collect();
        write!(text, " feeds {}", views.join(" ")).expect("text");
    }
    text
}

fn list(catalog: &Catalog, selector: &str) -> String {
    let listing = match catalog.listing(selector) {
        Ok(listing) => listing,
        Err(message) => return format!("refused: {message}"),
    };
    let mut bytes = Vec::new();
    listing.write(&mut bytes);
    assert!(bytes.len() > 8, "the wire form has a header");
    let columns = listing.schema.names().iter().zip(listing.schema.types());
    let columns: Vec<String> =
        columns.map(|(name, sql_type)| format!("{name} {sql_type}")).collect();
    let mut text = format!("({})\n", columns.join(", "));
    for row in &listing.rows {
        assert_eq!(row.len(), listing.schema.column_count());
        let values: Vec<String> = row.iter().map(|value| value.to_string()).collect();
        writeln!(text, "{}", values.join("|")).expect("text");
    }
    text
}
