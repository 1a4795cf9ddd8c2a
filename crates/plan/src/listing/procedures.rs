//! PROCEDURES, PROCEDURECOLUMNS and ROLES.

use super::parameter_types::parameter_types;
use super::types::{PARAMETER_NULLABLE_UNKNOWN, jdbc_type, precision, scale};
use super::{Listing, int, maybe, text};
use crate::catalog::Catalog;
use crate::query::explain::spread_table_of;
use crate::schema::generated::key_columns;
use lockstep_plan_ir::procedure::{ProcedureParameter, ProcedurePartitioning, RoutingColumn};
use lockstep_plan_ir::{Execution, Lookup, ProcedureDefinition, ProcedureKind, TableDefinition};
use lockstep_types::{SqlType, Value};
use std::collections::BTreeSet;

const TEXT: SqlType = SqlType::Varchar;
const NULL: Value = Value::Null;

/// All procedures, user's and generated, by name.
fn all(catalog: &Catalog) -> Vec<&ProcedureDefinition> {
    let mut all: Vec<&ProcedureDefinition> =
        catalog.procedures.values().chain(catalog.generated.values()).map(|p| &**p).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

pub(super) fn procedures(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("PROCEDURE_CAT", TEXT),
        ("PROCEDURE_SCHEM", TEXT),
        ("PROCEDURE_NAME", TEXT),
        ("RESERVED1", TEXT),
        ("RESERVED2", TEXT),
        ("RESERVED3", TEXT),
        ("REMARKS", TEXT),
        ("PROCEDURE_TYPE", SqlType::SmallInt),
        ("SPECIFIC_NAME", TEXT),
    ]);
    for procedure in all(catalog) {
        let name = text(&procedure.name);
        let remarks = text(remarks(catalog, procedure));
        let row = vec![NULL, NULL, name.clone(), NULL, NULL, NULL, remarks, int(0), name];
        listing.rows.push(row);
    }
    listing
}

/// What clients need for routing, as JSON.
fn remarks(catalog: &Catalog, procedure: &ProcedureDefinition) -> String {
    let routing = match &procedure.partitioning {
        // Its calls write everywhere: it is listed as what it is.
        Some(_) if procedure.changes_replicated() => String::new(),
        // Clients that know one parameter only must not route by it: the server does.
        None | Some(ProcedurePartitioning::Columns { .. } | ProcedurePartitioning::Via { .. }) => {
            String::new()
        }
        Some(ProcedurePartitioning::Directed) => {
            ",\"partitionParameter\":-1,\"partitionParameterType\":-1".to_string()
        }
        Some(ProcedurePartitioning::Column { column_type, parameter, .. }) => format!(
            ",\"partitionParameter\":{parameter},\"partitionParameterType\":{}",
            column_type.code()
        ),
    };
    let more = procedure_remarks(catalog, procedure);
    let effects = if procedure.effects { ",\"effects\":true" } else { "" };
    format!(
        "{{\"readOnly\":{},\"singlePartition\":{},\"compound\":{}{routing}{more}{effects}}}",
        procedure.read_only,
        procedure.is_single_partition() && !routing.is_empty(),
        procedure.is_compound()
    )
}

/// The members of a procedure's remarks that clients of VoltDB do not know, as JSON text with a
/// comma in front of each: `runsOn` where only the server routes calls, `localData`.
pub fn procedure_remarks(catalog: &Catalog, procedure: &ProcedureDefinition) -> String {
    let mut text = String::new();
    if let Some(runs_on) = runs_on(catalog, procedure) {
        text.push_str(&format!(",\"runsOn\":{}", json_text(&runs_on)));
    }
    let mut guards = procedure.statements.iter().flat_map(|(_, statement)| &statement.guards);
    if guards.any(|guard| guard.local) {
        text.push_str(",\"localData\":true");
    }
    text
}

/// Where calls run that clients do not route but that need not run at all partitions.
fn runs_on(catalog: &Catalog, procedure: &ProcedureDefinition) -> Option<String> {
    if procedure.changes_replicated() {
        return None;
    }
    let parts: Vec<String> = match &procedure.partitioning {
        None => procedure.declared.iter().map(partition_by).collect(),
        Some(by @ (ProcedurePartitioning::Columns { .. } | ProcedurePartitioning::Via { .. })) => {
            vec![partition_by(by)]
        }
        Some(_) => Vec::new(),
    };
    match parts.as_slice() {
        [] => found_by_index(catalog, procedure),
        [one] => Some(format!("one partition, {one}")),
        several => Some(format!("{} partitions, {}", several.len(), several.join(" and "))),
    }
}

/// Where a procedure runs whose only statement has the key of a unique global index.
fn found_by_index(catalog: &Catalog, procedure: &ProcedureDefinition) -> Option<String> {
    let [(_, statement)] = procedure.statements.as_slice() else { return None };
    let Execution::Local { routing: Some(value), operation } = &statement.execution else {
        return None;
    };
    // It asks the index for the row's partition, or reads nothing but entries.
    let entries = match Lookup::of(value) {
        _ if procedure.partitioning.is_some() => return None,
        Some(lookup) => lookup.entries,
        None => spread_table_of(catalog, operation)?,
    };
    let mut tables = catalog.tables.values().map(|table| &table.definition);
    let of = tables.find(|table| table.id == entries)?.entries_of.as_ref()?;
    Some(format!("one partition, by global index {}", of.index_name))
}

/// How a call names one of its partitions.
fn partition_by(partitioning: &ProcedurePartitioning) -> String {
    let listed = |columns: &[RoutingColumn]| {
        let plural = if columns.len() == 1 { "" } else { "s" };
        let numbers: Vec<String> = columns.iter().map(|c| c.parameter.to_string()).collect();
        format!("parameter{plural} {}", numbers.join(", "))
    };
    match partitioning {
        ProcedurePartitioning::Column { parameter, .. } => format!("by parameter {parameter}"),
        ProcedurePartitioning::Columns { columns, .. } => format!("by {}", listed(columns)),
        ProcedurePartitioning::Via { index, columns, .. } => {
            format!("by global index {index} of {}", listed(columns))
        }
        ProcedurePartitioning::Directed => "as directed".to_string(),
    }
}

/// A text as JSON has it. Names hold neither control characters nor anything beyond words.
fn json_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

/// A parameter in the listing.
struct Parameter {
    /// The number in its name.
    number: usize,
    /// Its place among the parameters, from 0.
    place: usize,
    parameter: ProcedureParameter,
}

pub(super) fn columns(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[
        ("PROCEDURE_CAT", TEXT),
        ("PROCEDURE_SCHEM", TEXT),
        ("PROCEDURE_NAME", TEXT),
        ("COLUMN_NAME", TEXT),
        ("COLUMN_TYPE", SqlType::SmallInt),
        ("DATA_TYPE", SqlType::Integer),
        ("TYPE_NAME", TEXT),
        ("PRECISION", SqlType::Integer),
        ("LENGTH", SqlType::Integer),
        ("SCALE", SqlType::SmallInt),
        ("RADIX", SqlType::SmallInt),
        ("NULLABLE", SqlType::SmallInt),
        ("REMARKS", TEXT),
        ("COLUMN_DEF", TEXT),
        ("SQL_DATA_TYPE", SqlType::Integer),
        ("SQL_DATETIME_SUB", SqlType::Integer),
        ("CHAR_OCTET_LENGTH", SqlType::Integer),
        ("ORDINAL_POSITION", SqlType::Integer),
        ("IS_NULLABLE", TEXT),
        ("SPECIFIC_NAME", TEXT),
    ]);
    for procedure in all(catalog) {
        let mut rows: Vec<(String, Vec<Value>)> = parameters(catalog, procedure)
            .iter()
            .map(|parameter| {
                let name = format!("param{}", parameter.number);
                let row = column_row(procedure, parameter, &name);
                (name, row)
            })
            .collect();
        rows.sort_by(|a, b| a.0.cmp(&b.0));
        listing.rows.extend(rows.into_iter().map(|(_, row)| row));
    }
    listing
}

fn column_row(procedure: &ProcedureDefinition, listed: &Parameter, name: &str) -> Vec<Value> {
    let ProcedureParameter { sql_type, is_array } = listed.parameter;
    let is_listed = |parameter: u16| usize::from(parameter) == listed.place;
    let routes = match &procedure.partitioning {
        Some(ProcedurePartitioning::Column { parameter, .. }) => is_listed(*parameter),
        Some(ProcedurePartitioning::Columns { columns, .. }) => {
            columns.iter().any(|column| is_listed(column.parameter))
        }
        _ => false,
    };
    let remarks: Vec<&str> = [(routes, "PARTITION_PARAMETER"), (is_array, "ARRAY_PARAMETER")]
        .into_iter()
        .filter_map(|(holds, remark)| holds.then_some(remark))
        .collect();
    let (size, radix) = precision(sql_type);
    let bytes = sql_type.fixed_bytes().map(|bytes| bytes as i64);
    let octets = if bytes.is_none() { size } else { None };
    vec![
        NULL,
        NULL,
        text(&procedure.name),
        text(name),
        int(1),
        int(jdbc_type(sql_type)),
        text(sql_type.name()),
        maybe(size),
        maybe(bytes.or(size)),
        maybe(scale(sql_type)),
        maybe(radix),
        int(PARAMETER_NULLABLE_UNKNOWN),
        if remarks.is_empty() { NULL } else { text(remarks.join(",")) },
        NULL,
        NULL,
        NULL,
        maybe(octets),
        int(listed.place as i64 + 1),
        text(""),
        text(&procedure.name),
    ]
}

/// The parameters with the types that the statements give them, before integers are widened.
fn parameters(catalog: &Catalog, procedure: &ProcedureDefinition) -> Vec<Parameter> {
    if let ProcedureKind::Generated { table, verb } = procedure.kind {
        let mut tables = catalog.tables.values();
        let table = tables.find(|entry| entry.definition.id == table);
        return table.map_or(Vec::new(), |table| generated(&table.definition, verb));
    }
    let declared = match procedure.kind {
        ProcedureKind::Native(_)
        | ProcedureKind::Java(_)
        | ProcedureKind::NonTransactional { .. } => procedure.parameters.clone(),
        _ => {
            let statements = procedure.statements.iter();
            let all = statements.flat_map(|(_, statement)| {
                let types = parameter_types(catalog, statement);
                let arrays = statement.parameters.iter().map(|parameter| parameter.is_array);
                types.into_iter().zip(arrays.collect::<Vec<_>>())
            });
            all.map(|(sql_type, is_array)| ProcedureParameter { sql_type, is_array }).collect()
        }
    };
    let numbered = declared.into_iter().enumerate();
    numbered.map(|(place, parameter)| Parameter { number: place, place, parameter }).collect()
}

/// The parameters of a generated procedure. VoltDB numbers them by the names of their columns,
/// first those of the row, then those of the key.
fn generated(table: &TableDefinition, verb: &str) -> Vec<Parameter> {
    let row: Vec<u16> = match verb {
        "delete" | "select" => Vec::new(),
        _ => (0..table.visible_columns).collect(),
    };
    let key = match verb {
        "insert" | "upsert" => Vec::new(),
        _ => key_columns(table),
    };
    let mut parameters = Vec::with_capacity(row.len() + key.len());
    for (first, columns) in [(0, &row), (row.len(), &key)] {
        let mut by_name: Vec<usize> = (0..columns.len()).collect();
        by_name.sort_by_key(|&place| &table.columns[usize::from(columns[place])].name);
        for (number, place) in by_name.into_iter().enumerate() {
            let sql_type = table.columns[usize::from(columns[place])].sql_type;
            parameters.push(Parameter {
                number: first + number,
                place: first + place,
                parameter: ProcedureParameter { sql_type, is_array: false },
            });
        }
    }
    parameters
}

/// ROLES, built-in ones included, each with all that its permissions imply.
pub(super) fn roles(catalog: &Catalog) -> Listing {
    let mut listing = Listing::new(&[("ROLE", TEXT), ("PERMISSIONS", TEXT)]);
    let administrator = ("administrator".to_string(), vec!["ADMIN"]);
    let user = ("user".to_string(), vec!["SQL", "ALLPROC"]);
    let mut roles = vec![administrator, user];
    for (name, permissions) in &catalog.roles {
        let permissions = permissions.iter().map(String::as_str).collect();
        roles.push((name.to_ascii_lowercase(), permissions));
    }
    roles.sort();
    for (name, permissions) in roles {
        listing.rows.push(vec![text(name), text(implied(&permissions))]);
    }
    listing
}

/// Permissions with those that they imply, in VoltDB's order.
fn implied(permissions: &[&str]) -> String {
    const ORDER: [&str; 7] =
        ["admin", "defaultproc", "defaultprocread", "sql", "sqlread", "allproc", "compoundproc"];
    let mut held: BTreeSet<&str> = BTreeSet::new();
    for permission in permissions {
        let implied: &[&str] = match *permission {
            "ADMIN" | "SYSPROC" => &ORDER,
            "SQL" | "ADHOC" => &["sql", "sqlread", "defaultproc", "defaultprocread"],
            "SQLREAD" => &["sqlread", "defaultprocread"],
            "DEFAULTPROC" => &["defaultproc", "defaultprocread"],
            "DEFAULTPROCREAD" => &["defaultprocread"],
            "ALLPROC" => &["allproc"],
            _ => &[],
        };
        held.extend(implied);
    }
    let listed: Vec<&str> = ORDER.into_iter().filter(|name| held.contains(name)).collect();
    listed.join(",")
}
