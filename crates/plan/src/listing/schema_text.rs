//! The catalog as DDL, in an order in which each statement finds what it names.

use super::describe::{default_text, key_parts, type_text};
use super::tasks::create_task;
use crate::catalog::{Catalog, CatalogTable};
use lockstep_plan_ir::IndexDefinition;
use lockstep_sql::ast::{
    CreateProcedure, ProcedureBody, ProcedureKind, ProcedurePartition, Statement,
};
use std::fmt::Write;

/// Constraints of which VoltDB made the name need none.
const MADE_NAME: &str = "VOLTDB_AUTOGEN_CT__";

pub(super) fn schema_text(catalog: &Catalog) -> String {
    let mut out = String::new();
    for (name, permissions) in &catalog.roles {
        match permissions.is_empty() {
            true => line(&mut out, format_args!("CREATE ROLE {name};")),
            false => {
                let permissions = permissions.join(", ");
                line(&mut out, format_args!("CREATE ROLE {name} WITH {permissions};"));
            }
        }
    }
    let is_view = |table: &CatalogTable| table.view_source.is_some();
    for table in catalog.visible_tables().filter(|table| !is_view(table)) {
        create_table(&mut out, table);
        create_indexes(&mut out, table);
    }
    for table in catalog.visible_tables().filter(|table| is_view(table)) {
        create_view(&mut out, table);
        create_indexes(&mut out, table);
    }
    for (name, function) in &catalog.functions {
        let (name, class) = (name.to_ascii_lowercase(), &function.class);
        match &function.method {
            Some(method) => {
                line(&mut out, format_args!("CREATE FUNCTION {name} FROM METHOD {class}.{method};"))
            }
            None => {
                line(&mut out, format_args!("CREATE AGGREGATE FUNCTION {name} FROM CLASS {class};"))
            }
        }
    }
    for (name, source) in &catalog.sources {
        if let Statement::CreateProcedure(create) = &source.statement {
            create_procedure(&mut out, name, create);
        }
    }
    for task in catalog.tasks.values() {
        line(&mut out, format_args!("{};", create_task(task)));
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("a String takes all text");
    out.push('\n');
}

fn create_table(out: &mut String, table: &CatalogTable) {
    let definition = &table.definition;
    let mut parts: Vec<String> = definition
        .columns
        .iter()
        .map(|column| {
            let mut text = format!("{} {}", column.name, type_text(column));
            if let Some(default) = default_text(column) {
                text.push_str(&format!(" DEFAULT {default}"));
            }
            if !column.nullable {
                text.push_str(" NOT NULL");
            }
            text
        })
        .collect();
    for (place, index) in definition.indexes.iter().enumerate() {
        let Some(constraint) = &index.constraint else { continue };
        let named = match constraint.starts_with(MADE_NAME) {
            true => String::new(),
            false => format!("CONSTRAINT {constraint} "),
        };
        let primary = definition.primary_key.is_some_and(|key| key.index() == place);
        let kind = if primary { "PRIMARY KEY" } else { uniqueness(index) };
        let (keys, _) = key_parts(table, place);
        parts.push(format!("{named}{kind} ({})", keys.join(", ")));
    }
    if let Some(limit) = &table.row_limit_source {
        let named = limit.name.as_ref().map(|name| format!("CONSTRAINT {} ", name.text));
        let execute = match limit.execute {
            Some(_) => format!(" EXECUTE ({})", limit.execute_text),
            None => String::new(),
        };
        let named = named.unwrap_or_default();
        parts.push(format!("{named}LIMIT PARTITION ROWS {}{execute}", limit.rows));
    }
    let name = &definition.name;
    let ttl = table.time_to_live.as_ref().map_or_else(String::new, |ttl| format!(" {ttl}"));
    line(out, format_args!("CREATE TABLE {name} (\n  {}\n){ttl};", parts.join(",\n  ")));
    let columns = definition.partition_column_names();
    match definition.partition_columns.len() {
        0 => {}
        1 => line(out, format_args!("PARTITION TABLE {name} ON COLUMN {columns};")),
        _ => line(out, format_args!("PARTITION TABLE {name} ON COLUMNS ({columns});")),
    }
}

fn uniqueness(index: &IndexDefinition) -> &'static str {
    match (index.assume_unique, index.unique) {
        (true, _) => "ASSUMEUNIQUE",
        (false, true) => "UNIQUE",
        (false, false) => "",
    }
}

/// The indexes that no constraint made.
fn create_indexes(out: &mut String, table: &CatalogTable) {
    for (place, index) in table.definition.indexes.iter().enumerate() {
        if index.hidden || index.constraint.is_some() {
            continue;
        }
        let kind = uniqueness(index);
        let space = if kind.is_empty() { "" } else { " " };
        let (keys, condition) = key_parts(table, place);
        let condition =
            condition.map_or_else(String::new, |condition| format!(" WHERE {condition}"));
        line(
            out,
            format_args!(
                "CREATE {kind}{space}INDEX {} ON {} ({}){condition};",
                index.name,
                table.definition.name,
                keys.join(", ")
            ),
        );
    }
    for index in &table.global_sources {
        let kind = if index.unique { "UNIQUE " } else { "" };
        let included = match index.included.is_empty() {
            true => String::new(),
            false => format!(" INCLUDE ({})", index.included.join(", ")),
        };
        let (name, table, keys) = (&index.name, &table.definition.name, index.keys.join(", "));
        line(out, format_args!("CREATE GLOBAL {kind}INDEX {name} ON {table} ({keys}){included};"));
    }
}

fn create_view(out: &mut String, table: &CatalogTable) {
    let Some((_, source)) = &table.view_source else { return };
    let Statement::CreateView(view) = &source.statement else { return };
    let definition = &table.definition;
    let visible = &definition.columns[..usize::from(definition.visible_columns)];
    let names: Vec<&str> = visible.iter().map(|column| column.name.as_str()).collect();
    let (name, query) = (&definition.name, &view.query_text);
    line(out, format_args!("CREATE VIEW {name} ({}) AS {query};", names.join(", ")));
}

/// Where a procedure runs, with the numbers of its parameters.
fn procedure_partition(partition: &ProcedurePartition) -> String {
    let table = &partition.table.text;
    let columns: Vec<&str> = partition.columns.iter().map(|column| column.as_str()).collect();
    let columns = match columns.as_slice() {
        [column] => format!("COLUMN {column}"),
        several => format!("COLUMNS ({})", several.join(", ")),
    };
    let via = partition.via.as_ref().map(|index| format!(" VIA GLOBAL INDEX {}", index.text));
    let numbers: Vec<String> = match partition.parameters.as_slice() {
        // Without a column list there is one parameter; those of an index are as many as its keys.
        [] if via.is_some() => Vec::new(),
        [] => (0..partition.columns.len()).map(|number| number.to_string()).collect(),
        written => written.iter().map(u32::to_string).collect(),
    };
    let word = if numbers.len() > 1 { "PARAMETERS" } else { "PARAMETER" };
    let numbers = match numbers.is_empty() {
        true => String::new(),
        false => format!(" {word} {}", numbers.join(", ")),
    };
    format!(" ON TABLE {table} {columns}{}{numbers}", via.unwrap_or_default())
}

fn create_procedure(out: &mut String, name: &str, create: &CreateProcedure) {
    let compound = if create.kind == ProcedureKind::Compound { " COMPOUND" } else { "" };
    let mut text = format!("CREATE{compound} PROCEDURE");
    if create.name.is_some() {
        text.push_str(&format!(" {name}"));
    }
    for (place, partition) in create.partitions.iter().enumerate() {
        text.push_str(if place == 0 { " PARTITION" } else { " AND" });
        text.push_str(&procedure_partition(partition));
    }
    if create.kind == ProcedureKind::Directed {
        text.push_str(" DIRECTED");
    }
    if !create.allow.is_empty() {
        let roles: Vec<&str> = create.allow.iter().map(|role| role.as_str()).collect();
        text.push_str(&format!(" ALLOW {}", roles.join(", ")));
    }
    if create.effects {
        text.push_str(" WITH EFFECTS");
    }
    if create.local_data {
        text.push_str(" WITH LOCAL DATA");
    }
    match &create.body {
        ProcedureBody::Statements(statements) => {
            let texts: Vec<&str> = statements.iter().map(|part| part.text.as_str()).collect();
            match texts.as_slice() {
                [single] => text.push_str(&format!(" AS {single}")),
                several => text.push_str(&format!(" AS BEGIN {}; END", several.join("; "))),
            }
        }
        ProcedureBody::Native(native) => text.push_str(&format!(" FROM NATIVE {}", native.text)),
        ProcedureBody::Class(class) => text.push_str(&format!(" FROM CLASS {}", class.text)),
    }
    line(out, format_args!("{text};"));
}
