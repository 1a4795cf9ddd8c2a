//! What the catalog holds, as tables for clients and as text for people: pure functions of it.

mod describe;
mod parameter_types;
mod procedures;
mod schema_text;
mod tables;
mod tasks;
mod types;

pub use procedures::procedure_remarks;

use crate::catalog::{Catalog, FunctionKind};
use lockstep_plan_ir::ProcedureKind;
use lockstep_types::{SqlType, TableBuilder, TableSchema, Value};

pub use describe::{ColumnDescription, IndexDescription, TableDescription};

/// A result table that is made from the catalog.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing {
    /// Its columns.
    pub schema: TableSchema,
    /// Its rows.
    pub rows: Vec<Vec<Value>>,
}

impl Listing {
    fn new(columns: &[(&str, SqlType)]) -> Listing {
        Listing { schema: TableSchema::new(columns), rows: Vec::new() }
    }

    /// Appends the table in its wire form.
    pub fn write(&self, out: &mut Vec<u8>) {
        let mut table = TableBuilder::begin(out, &self.schema);
        for row in &self.rows {
            table.begin_row();
            for (&sql_type, value) in self.schema.types().iter().zip(row) {
                table.value(sql_type, value.as_datum());
            }
            table.end_row();
        }
        table.finish();
    }
}

/// The selectors of `@SystemCatalog`. `KEYS` is not VoltDB's: its tables of indexes have the
/// columns of a key by name, and the one that reads in an index's order must know that order.
pub const SELECTORS: [&str; 14] = [
    "TABLES",
    "COLUMNS",
    "INDEXINFO",
    "PRIMARYKEYS",
    "KEYS",
    "PROCEDURES",
    "PROCEDURECOLUMNS",
    "FUNCTIONS",
    "CLASSES",
    "TYPEINFO",
    "ROLES",
    "USERS",
    "TASKS",
    "TOPICS",
];

impl Catalog {
    /// What `@SystemCatalog` answers to a selector, whatever its case.
    ///
    /// # Errors
    /// The message for an unknown selector.
    pub fn listing(&self, selector: &str) -> Result<Listing, String> {
        const TEXT: SqlType = SqlType::Varchar;
        Ok(match selector.to_ascii_uppercase().as_str() {
            "TABLES" => tables::tables(self),
            "COLUMNS" => tables::columns(self),
            "INDEXINFO" => tables::indexes(self),
            "PRIMARYKEYS" => tables::primary_keys(self),
            "KEYS" => tables::keys(self),
            "PROCEDURES" => procedures::procedures(self),
            "PROCEDURECOLUMNS" => procedures::columns(self),
            "FUNCTIONS" => functions(self),
            "CLASSES" => classes(self),
            "TYPEINFO" => types::types(),
            "ROLES" => procedures::roles(self),
            "USERS" => Listing::new(&[("USER", TEXT), ("ROLES", TEXT)]),
            "TASKS" => tasks::tasks(self),
            "TOPICS" => Listing::new(&[
                ("TOPIC_NAME", TEXT),
                ("IS_SINGLE", TEXT),
                ("IS_OPAQUE", TEXT),
                ("STREAM_NAME", TEXT),
                ("PROCEDURE_NAME", TEXT),
            ]),
            _ => return Err(format!("Invalid @SystemCatalog selector: {selector}")),
        })
    }

    /// DDL that makes this catalog again.
    pub fn schema_text(&self) -> String {
        schema_text::schema_text(self)
    }

    /// What a shell shows of a table or view, by its name in upper case.
    pub fn describe(&self, name: &str) -> Option<TableDescription> {
        self.table(name).map(|table| describe::describe(table))
    }
}

/// The functions of users, by name.
fn functions(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("FUNCTION_TYPE", SqlType::Varchar),
        ("FUNCTION_NAME", SqlType::Varchar),
        ("CLASS_NAME", SqlType::Varchar),
        ("METHOD_NAME", SqlType::Varchar),
    ]);
    for (name, function) in &catalog.functions {
        let kind = match function.kind {
            FunctionKind::Scalar(_) => "scalar",
            FunctionKind::Aggregate(_) => "aggregate",
        };
        let method = function.method.as_deref().map_or(Value::Null, text);
        let name = text(name.to_ascii_lowercase());
        listing.rows.push(vec![text(kind), name, text(&function.class), method]);
    }
    listing
}

/// The loaded classes: which are procedures', and which of those are in use.
fn classes(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("CLASS_NAME", SqlType::Varchar),
        ("VOLT_PROCEDURE", SqlType::TinyInt),
        ("ACTIVE_PROC", SqlType::TinyInt),
    ]);
    let in_use = |class: &str| {
        let mut kinds = catalog.procedures.values().map(|procedure| &procedure.kind);
        kinds.any(|kind| match kind {
            ProcedureKind::Java(name) | ProcedureKind::NonTransactional { class: name, .. } => {
                name == class
            }
            _ => false,
        })
    };
    for (name, is_procedure) in catalog.classes.iter().flat_map(|classes| classes.list()) {
        let used = in_use(&name);
        listing.rows.push(vec![text(name), int(is_procedure), int(used)]);
    }
    listing
}

fn text(value: impl AsRef<str>) -> Value {
    Value::Text(value.as_ref().into())
}

fn int(value: impl Into<i64>) -> Value {
    Value::Int(value.into())
}

/// A number that may be missing.
fn maybe(value: Option<i64>) -> Value {
    value.map_or(Value::Null, Value::Int)
}

/// A JSON string.
pub(crate) fn json_text(value: &str) -> String {
    let mut out = String::from("\"");
    for character in value.chars() {
        match character {
            '"' | '\\' => {
                out.push('\\');
                out.push(character);
            }
            control if control.is_control() => {
                out.push_str(&format!("\\u{:04x}", u32::from(control)));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}
