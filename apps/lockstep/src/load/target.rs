//! The table that a load fills: its columns from the server's catalog, and which of a file's
//! values goes where.

use lockstep_client::rows::Table;
use lockstep_client::{Connection, ParameterWriter};
use lockstep_types::hashing::CompositeKey;
use lockstep_types::table::write_datum;
use lockstep_types::{Datum, Decimal, SqlType, Value, timestamp};

/// A column of the table.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Its name, in upper case.
    pub name: String,
    /// Its type.
    pub sql_type: SqlType,
    /// Most characters of text, or bytes of binary data.
    pub length: usize,
    /// Whether it takes NULL.
    pub nullable: bool,
    /// Its default as DDL writes it.
    pub default: Option<String>,
}

/// The table.
#[derive(Debug, Clone, PartialEq)]
pub struct Target {
    /// Its name, in upper case.
    pub name: String,
    /// Its columns, in order.
    pub columns: Vec<Column>,
    /// The partitioning columns, in their order; none: every partition has all rows.
    pub partition_columns: Vec<usize>,
    /// Whether rows can be upserted.
    pub has_primary_key: bool,
}

/// Where a column's values come from.
#[derive(Debug, Clone, PartialEq)]
pub enum Source {
    /// A value of the record.
    Field(usize),
    /// The same for all rows: in wire form.
    Constant(Vec<u8>),
}

/// Where the values of all columns come from.
#[derive(Debug, Clone, PartialEq)]
pub struct Mapping {
    /// By column of the table.
    pub sources: Vec<Source>,
    /// By value of a record: the column that it goes to.
    pub columns: Vec<usize>,
}

fn catalog(connection: &mut Connection, selector: &str) -> Result<Table, String> {
    let mut parameters = ParameterWriter::default();
    parameters.text(selector);
    let tables = connection.call("@SystemCatalog", &parameters).and_then(|answer| answer.tables());
    let tables = tables.map_err(|error| format!("the catalog cannot be read: {error}"))?;
    tables.into_iter().next().ok_or_else(|| format!("the server sent no {selector}"))
}

/// The rows of a catalog table, each a way to its cells by name.
fn rows_of<'t>(
    table: &'t Table,
    name: &'t str,
) -> impl Iterator<Item = impl Fn(&str) -> &'t Value> {
    const NULL: &Value = &Value::Null;
    let place = |column: &str| table.names.iter().position(|n| n == column);
    let named = place("TABLE_NAME");
    table
        .rows
        .iter()
        .filter(move |row| {
            named.is_some_and(|at| matches!(&row[at], Value::Text(text) if **text == *name))
        })
        .map(move |row| {
            move |column: &str| place(column).and_then(|at| row.get(at)).unwrap_or(NULL)
        })
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.to_string()),
        _ => None,
    }
}

/// The number of a column among the partitioning columns, by its remark: alone, or
/// `PARTITION_COLUMN 2 OF 3`.
fn placing_number(remark: &str) -> Option<usize> {
    let rest = remark.strip_prefix("PARTITION_COLUMN")?;
    match rest.trim().split_once(" OF ") {
        Some((number, _)) => number.parse().ok(),
        None => rest.is_empty().then_some(1),
    }
}

impl Target {
    /// Reads the table from the server's catalog.
    ///
    /// # Errors
    /// There is no such table, or it has columns of a type that this client does not know.
    pub fn read(connection: &mut Connection, name: &str) -> Result<Target, String> {
        let name = name.to_ascii_uppercase();
        let listed = catalog(connection, "COLUMNS")?;
        let mut columns = Vec::new();
        let mut placing = Vec::new();
        for cell in rows_of(&listed, &name) {
            if let Some(number) = text(cell("REMARKS")).as_deref().and_then(placing_number) {
                placing.push((number, columns.len()));
            }
            columns.push(column(&cell)?);
        }
        if columns.is_empty() {
            let tables = catalog(connection, "TABLES")?;
            return Err(no_such_table(&name, &tables));
        }
        let keys = catalog(connection, "PRIMARYKEYS")?;
        let has_primary_key = rows_of(&keys, &name).next().is_some();
        placing.sort_unstable();
        let partition_columns = placing.into_iter().map(|(_, column)| column).collect();
        Ok(Target { name, columns, partition_columns, has_primary_key })
    }

    /// Takes a value into the bytes that are hashed to find a row's partition, if its column is a
    /// partitioning one: alone as it is, one of several as its hash at its place. Returns whether
    /// there is something to hash.
    pub fn place_by(&self, column: usize, value: Datum<'_>, key: &mut Vec<u8>) -> bool {
        let columns = &self.partition_columns;
        let Some(number) = columns.iter().position(|place| *place == column) else { return false };
        match (value, columns.len()) {
            (Datum::Null, _) => return false,
            (value, 1) => hashed_bytes(value, key),
            (value, count) => {
                let part = CompositeKey::of([value]);
                let width = part.bytes().len();
                key.resize(count * width, 0);
                key[number * width..][..width].copy_from_slice(part.bytes());
            }
        }
        true
    }

    /// The columns of the primary key, in the order of its index; empty if there is none.
    ///
    /// # Errors
    /// The catalog cannot be read.
    pub fn primary_key(&self, connection: &mut Connection) -> Result<Vec<usize>, String> {
        let keys = catalog(connection, "KEYS")?;
        let is_primary = |cell: &Value| text(cell).as_deref() == Some("PRIMARY KEY");
        let place = |cell: &Value| {
            let name = text(cell)?;
            self.columns.iter().position(|column| column.name == name)
        };
        let parts = rows_of(&keys, &self.name).filter(|cell| is_primary(cell("KIND")));
        Ok(parts.filter_map(|cell| place(cell("KEY_PART"))).collect())
    }

    /// Which value of a record goes to which column: in the table's order, or as `names` say.
    ///
    /// # Errors
    /// A name is no column of the table or comes twice; a column that is left out must not be
    /// NULL and has no default.
    pub fn map(&self, names: Option<&[String]>, now_us: i64) -> Result<Mapping, String> {
        let columns: Vec<usize> = match names {
            None => (0..self.columns.len()).collect(),
            Some(names) => names.iter().map(|name| self.place(name)).collect::<Result<_, _>>()?,
        };
        let mut sources = Vec::with_capacity(self.columns.len());
        for (place, column) in self.columns.iter().enumerate() {
            let mut fields = columns.iter().enumerate().filter(|(_, to)| **to == place);
            let field = fields.next().map(|(field, _)| field);
            if fields.next().is_some() {
                return Err(format!("column {} is named twice", column.name));
            }
            sources.push(match field {
                Some(field) => Source::Field(field),
                None => Source::Constant(self.default_of(column, now_us)?),
            });
        }
        Ok(Mapping { sources, columns })
    }

    fn place(&self, name: &str) -> Result<usize, String> {
        let wanted = name.trim().to_ascii_uppercase();
        let found = self.columns.iter().position(|column| column.name == wanted);
        found.ok_or_else(|| {
            let names: Vec<&str> = self.columns.iter().map(|c| c.name.as_str()).collect();
            format!("{} has no column '{wanted}'; it has {}", self.name, names.join(", "))
        })
    }

    fn default_of(&self, column: &Column, now_us: i64) -> Result<Vec<u8>, String> {
        let value = match &column.default {
            None if column.nullable => Some(Value::Null),
            None => {
                let (table, column) = (&self.name, &column.name);
                return Err(format!(
                    "column {column} of {table} is NOT NULL and has no default: the file must \
                     have it"
                ));
            }
            Some(text) => read_default(text, column.sql_type, now_us),
        };
        let value = value.ok_or_else(|| {
            let default = column.default.as_deref().unwrap_or_default();
            format!("the default {default} of column {} is not understood", column.name)
        })?;
        let mut bytes = Vec::new();
        write_datum(&mut bytes, column.sql_type, value.as_datum());
        Ok(bytes)
    }
}

fn column<'t>(cell: &impl Fn(&str) -> &'t Value) -> Result<Column, String> {
    let name = text(cell("COLUMN_NAME")).ok_or("the catalog has a column without a name")?;
    let type_name = text(cell("TYPE_NAME")).unwrap_or_default();
    let sql_type = type_of(&type_name)
        .ok_or_else(|| format!("column {name} has type {type_name}, which cannot be loaded"))?;
    let length = match cell("COLUMN_SIZE") {
        Value::Int(size) => usize::try_from(*size).unwrap_or(usize::MAX),
        _ => usize::MAX,
    };
    let nullable = !matches!(cell("NULLABLE"), Value::Int(0));
    Ok(Column { name, sql_type, length, nullable, default: text(cell("COLUMN_DEF")) })
}

fn type_of(name: &str) -> Option<SqlType> {
    use SqlType::*;
    let plain = [TinyInt, SmallInt, Integer, BigInt, Float, Decimal, Timestamp, Varchar, Varbinary];
    let mut types = plain.into_iter().chain([GeographyPoint, Geography]);
    types.find(|sql_type| sql_type.name() == name)
}

fn no_such_table(name: &str, tables: &Table) -> String {
    let place = tables.names.iter().position(|n| n == "TABLE_NAME");
    let names = tables.rows.iter().filter_map(|row| text(&row[place?]));
    let nearest = names.min_by_key(|other| distance(name, other));
    match nearest {
        Some(other) if distance(name, &other) <= name.len().div_ceil(3) => {
            format!("there is no table {name}; did you mean {other}?")
        }
        _ => format!("there is no table {name}"),
    }
}

/// Least number of letters to add, drop or change between two names.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let change = corner + usize::from(x != *y);
            corner = row[j + 1];
            row[j + 1] = change.min(corner + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// A default as the catalog's text has it.
fn read_default(text: &str, sql_type: SqlType, now_us: i64) -> Option<Value> {
    let unquoted = text.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
    Some(match sql_type {
        SqlType::Timestamp => match unquoted {
            None if matches!(text, "CURRENT_TIMESTAMP" | "NOW") => Value::Timestamp(now_us),
            None => Value::Timestamp(text.parse().ok()?),
            Some(text) => Value::Timestamp(timestamp::parse(text)?),
        },
        SqlType::Varchar => Value::Text(unquoted.unwrap_or(text).replace("''", "'").into()),
        SqlType::Varbinary => {
            let digits = text.strip_prefix("X'").and_then(|rest| rest.strip_suffix('\''));
            Value::Bytes(super::row::hexadecimal(digits.unwrap_or(text).as_bytes())?.into())
        }
        SqlType::Float => Value::Float(text.parse().ok()?),
        SqlType::Decimal => Value::Decimal(Decimal::parse(text).ok()?),
        _ => Value::Int(text.parse().ok()?),
    })
}

/// A partitioning value as the server hashes it, for calls that name their partition by it.
fn hashed_bytes(value: Datum<'_>, out: &mut Vec<u8>) {
    out.clear();
    match value {
        Datum::Int(number) => out.extend_from_slice(&number.to_le_bytes()),
        Datum::Text(text) => out.extend_from_slice(text.as_bytes()),
        Datum::Bytes(bytes) => out.extend_from_slice(bytes),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target() -> Target {
        let column = |name: &str, sql_type, nullable, default: Option<&str>| Column {
            name: name.to_string(),
            sql_type,
            length: 9,
            nullable,
            default: default.map(str::to_string),
        };
        Target {
            name: "T".to_string(),
            columns: vec![
                column("A", SqlType::Integer, false, None),
                column("B", SqlType::Varchar, true, Some("'it''s'")),
                column("C", SqlType::Timestamp, true, Some("CURRENT_TIMESTAMP")),
            ],
            partition_columns: vec![0],
            has_primary_key: false,
        }
    }

    #[test]
    fn values_go_to_the_columns_that_are_named() {
        let target = target();
        let all = target.map(None, 5).expect("all columns");
        assert_eq!(all.sources, [Source::Field(0), Source::Field(1), Source::Field(2)]);
        let names = ["a".to_string()];
        let some = target.map(Some(&names), 5).expect("the rest has defaults");
        let expected = [
            Source::Field(0),
            Source::Constant(b"\0\0\0\x04it's".to_vec()),
            Source::Constant(5i64.to_be_bytes().to_vec()),
        ];
        assert_eq!(some.sources, expected);
        for (names, part) in [
            (&["b"][..], "column A of T is NOT NULL and has no default"),
            (&["a", "A"], "column A is named twice"),
            (&["a", "d"], "T has no column 'D'; it has A, B, C"),
        ] {
            let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
            let error = target.map(Some(&names), 5).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn near_names_are_found() {
        assert_eq!(
            [("abc", "abc"), ("abc", "ac"), ("", "xy")].map(|(a, b)| distance(a, b)),
            [0, 1, 2]
        );
    }
}
