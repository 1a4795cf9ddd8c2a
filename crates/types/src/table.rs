//! Result tables in the one form that they ever have: VoltDB's wire format, written once by the
//! executor and read in place by procedures, coordinators and clients.
//!
//! ```text
//! i32 total length | i32 header length | i8 status | i16 columns | i8 types | names | i32 rows
//! rows: i32 length | values in column order
//! ```
//!
//! Lengths do not count themselves; numbers are big-endian; NULL is the type's sentinel.

use crate::decimal::MAX_UNITS;
use crate::float::float_datum;
use crate::geography::{NULL_COORDINATE, Point};
use crate::sql_type::NULL_FLOAT;
use crate::{Datum, Decimal, SqlType};
use lockstep_base::bytes::{ByteReader, ByteWriter, EndOfBytes, text};

/// The status byte of every table that a server makes.
const TABLE_STATUS: i8 = -128;
/// The greatest row, in bytes, without its length.
pub const MAX_ROW_BYTES: usize = 2_097_152;

/// Column names and types of a result, with the header bytes made once, at planning time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableSchema {
    names: Vec<Box<str>>,
    types: Vec<SqlType>,
    /// The header with its own length in front.
    header: Vec<u8>,
}

impl TableSchema {
    /// A schema of `(name, type)` columns.
    pub fn new<N: AsRef<str>>(columns: &[(N, SqlType)]) -> TableSchema {
        let names: Vec<Box<str>> = columns.iter().map(|c| c.0.as_ref().into()).collect();
        let types: Vec<SqlType> = columns.iter().map(|c| c.1).collect();
        let mut header = vec![0; 4];
        header.put_i8(TABLE_STATUS);
        header.put_i16(i16::try_from(types.len()).expect("column counts are limited to 1024"));
        types.iter().for_each(|t| header.put_i8(t.code()));
        names.iter().for_each(|n| header.put_sized(Some(n.as_bytes())));
        let length = header.len() as i32 - 4;
        header.patch_i32(0, length);
        TableSchema { names, types, header }
    }

    /// Column names.
    pub fn names(&self) -> &[Box<str>] {
        &self.names
    }

    /// Column types.
    #[inline]
    pub fn types(&self) -> &[SqlType] {
        &self.types
    }

    /// Number of columns.
    #[inline]
    pub fn column_count(&self) -> usize {
        self.types.len()
    }

    /// The result of every DML statement: one BIGINT column `modified_tuples`.
    pub fn modified_tuples() -> TableSchema {
        TableSchema::new(&[("modified_tuples", SqlType::BigInt)])
    }
}

/// Appends one value in a column's encoding. A value that is not of the column's kind is the
/// caller's mistake.
#[inline]
pub fn write_datum(out: &mut Vec<u8>, sql_type: SqlType, value: Datum<'_>) {
    let written = try_write_datum(out, sql_type, value);
    assert!(written, "a {} in a {sql_type} column", value.natural_type());
}

/// Appends one value in a column's encoding; false, and nothing appended, when it is not of the
/// column's kind.
#[inline]
fn try_write_datum(out: &mut Vec<u8>, sql_type: SqlType, value: Datum<'_>) -> bool {
    match (sql_type, value) {
        (SqlType::TinyInt, Datum::Int(v)) => out.put_i8(v as i8),
        (SqlType::SmallInt, Datum::Int(v)) => out.put_i16(v as i16),
        (SqlType::Integer, Datum::Int(v)) => out.put_i32(v as i32),
        (SqlType::BigInt, Datum::Int(v)) => out.put_i64(v),
        (SqlType::Timestamp, Datum::Timestamp(v)) => out.put_i64(v),
        (SqlType::Float, Datum::Float(v)) => out.put_f64(v),
        (SqlType::Decimal, Datum::Decimal(v)) => out.put_i128(v.units()),
        (SqlType::Varchar, Datum::Text(v)) => out.put_sized(Some(v.as_bytes())),
        (SqlType::Varbinary | SqlType::Geography, Datum::Bytes(v)) => out.put_sized(Some(v)),
        (SqlType::GeographyPoint, Datum::Point(v)) => write_point(out, v),
        (SqlType::Boolean, Datum::Bool(v)) => out.put_i8(i8::from(v)),
        (_, Datum::Null) => write_null(out, sql_type),
        _ => return false,
    }
    true
}

fn write_null(out: &mut Vec<u8>, sql_type: SqlType) {
    match sql_type {
        SqlType::Null => {}
        SqlType::TinyInt | SqlType::Boolean => out.put_i8(i8::MIN),
        SqlType::SmallInt => out.put_i16(i16::MIN),
        SqlType::Integer => out.put_i32(i32::MIN),
        SqlType::BigInt | SqlType::Timestamp => out.put_i64(i64::MIN),
        SqlType::Float => out.put_f64(NULL_FLOAT),
        SqlType::Decimal => out.put_i128(i128::MIN),
        SqlType::Varchar | SqlType::Varbinary | SqlType::Geography => out.put_i32(-1),
        SqlType::GeographyPoint => {
            out.put_f64(NULL_COORDINATE);
            out.put_f64(NULL_COORDINATE);
        }
    }
}

fn write_point(out: &mut Vec<u8>, point: Point) {
    out.put_f64(point.longitude());
    out.put_f64(point.latitude());
}

/// Why bytes are no value or table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end early or a length is negative.
    Truncated,
    /// Text is not UTF-8.
    InvalidText,
    /// A type code that the server does not know.
    UnknownType(i8),
    /// A DECIMAL of more than 38 digits.
    DecimalRange,
    /// A longitude beyond 180 degrees or a latitude beyond 90.
    PointRange,
    /// A value over its greatest length, in bytes.
    TooLong(usize),
    /// A column that the table does not have, counted from 0.
    NoColumn(usize),
}

impl From<EndOfBytes> for DecodeError {
    fn from(_: EndOfBytes) -> Self {
        DecodeError::Truncated
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            DecodeError::Truncated => write!(f, "{EndOfBytes}"),
            DecodeError::InvalidText => f.write_str("a string is not valid UTF-8"),
            DecodeError::UnknownType(code) => write!(f, "type code {code} is unknown"),
            DecodeError::DecimalRange => f.write_str("a decimal has more than 38 digits"),
            DecodeError::PointRange => f.write_str(
                "a point has a longitude beyond 180 degrees or a latitude beyond 90 degrees",
            ),
            DecodeError::TooLong(bytes) => write!(
                f,
                "a value of {bytes} bytes is over the limit of {} bytes",
                crate::sql_type::MAX_VALUE_BYTES
            ),
            DecodeError::NoColumn(column) => write!(f, "the table has no column {column}"),
        }
    }
}

impl std::error::Error for DecodeError {}

/// Reads one value in a column's encoding; sentinels become [`Datum::Null`].
#[inline]
pub fn read_datum<'a>(
    reader: &mut ByteReader<'a>,
    sql_type: SqlType,
) -> Result<Datum<'a>, DecodeError> {
    Ok(match sql_type {
        SqlType::BigInt => int_or_null(reader.i64()?, i64::MIN),
        SqlType::Integer => int_or_null(reader.i32()?.into(), i32::MIN.into()),
        SqlType::SmallInt => int_or_null(reader.i16()?.into(), i16::MIN.into()),
        SqlType::TinyInt => int_or_null(reader.i8()?.into(), i8::MIN.into()),
        SqlType::Varchar => match sized_value(reader)? {
            None => Datum::Null,
            Some(bytes) => Datum::Text(text(bytes).ok_or(DecodeError::InvalidText)?),
        },
        SqlType::Varbinary | SqlType::Geography => {
            sized_value(reader)?.map_or(Datum::Null, Datum::Bytes)
        }
        SqlType::GeographyPoint => {
            let (longitude, latitude) = (reader.f64()?, reader.f64()?);
            match longitude == NULL_COORDINATE && latitude == NULL_COORDINATE {
                true => Datum::Null,
                false => Point::new(longitude, latitude)
                    .map(Datum::Point)
                    .ok_or(DecodeError::PointRange)?,
            }
        }
        SqlType::Timestamp => match reader.i64()? {
            i64::MIN => Datum::Null,
            micros => Datum::Timestamp(micros),
        },
        SqlType::Float => float_datum(reader.f64()?),
        SqlType::Decimal => match reader.i128()? {
            i128::MIN => Datum::Null,
            // Rounding the greatest value up gives one more, as in VoltDB.
            units if units.unsigned_abs() > MAX_UNITS.unsigned_abs() + 1 => {
                return Err(DecodeError::DecimalRange);
            }
            units => Datum::Decimal(Decimal::from_raw(units)),
        },
        SqlType::Boolean => match reader.i8()? {
            0 => Datum::Bool(false),
            1 => Datum::Bool(true),
            _ => Datum::Null,
        },
        SqlType::Null => Datum::Null,
    })
}

#[inline]
fn int_or_null(value: i64, null: i64) -> Datum<'static> {
    if value == null { Datum::Null } else { Datum::Int(value) }
}

#[inline]
fn sized_value<'a>(reader: &mut ByteReader<'a>) -> Result<Option<&'a [u8]>, DecodeError> {
    let bytes = reader.sized()?;
    match bytes {
        Some(bytes) if bytes.len() > crate::sql_type::MAX_VALUE_BYTES as usize => {
            Err(DecodeError::TooLong(bytes.len()))
        }
        _ => Ok(bytes),
    }
}

/// Appends one table to a byte vector, row by row.
///
/// Dropping it without [`TableBuilder::finish`] leaves an unfinished table; the caller
/// truncates the vector when it gives up.
pub struct TableBuilder<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    row_count_at: usize,
    rows: u32,
    row_start: usize,
    sound: bool,
}

impl<'o> TableBuilder<'o> {
    /// Begins a table at the end of `out`.
    #[inline]
    pub fn begin(out: &'o mut Vec<u8>, schema: &TableSchema) -> Self {
        let start = out.len();
        out.put_i32(0);
        out.extend_from_slice(&schema.header);
        let row_count_at = out.len();
        out.put_i32(0);
        TableBuilder { out, start, row_count_at, rows: 0, row_start: 0, sound: true }
    }

    /// Begins a row; its values follow with [`TableBuilder::value`], in column order.
    #[inline]
    pub fn begin_row(&mut self) {
        self.row_start = self.out.len();
        self.out.put_i32(0);
    }

    /// The next value of the row. One that is not of the column's kind leaves the table unsound.
    #[inline]
    pub fn value(&mut self, sql_type: SqlType, value: Datum<'_>) {
        if !try_write_datum(self.out, sql_type, value) {
            self.sound = false;
        }
    }

    /// The next value of the row by what appends it; false from it leaves the value to
    /// [`TableBuilder::value`].
    #[inline]
    pub fn value_by(&mut self, append: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        append(self.out)
    }

    /// False once a value was not of its column's kind: the table must not be sent.
    #[inline]
    pub fn is_sound(&self) -> bool {
        self.sound
    }

    /// Ends the row. Returns its bytes, to be held against [`MAX_ROW_BYTES`].
    #[inline]
    pub fn end_row(&mut self) -> usize {
        let bytes = self.out.len() - self.row_start - 4;
        self.out.patch_i32(self.row_start, bytes as i32);
        self.rows += 1;
        bytes
    }

    /// A whole row.
    pub fn row(&mut self, schema: &TableSchema, values: &[Datum<'_>]) -> usize {
        assert_eq!(schema.types.len(), values.len(), "a row has its schema's columns");
        self.begin_row();
        for (&sql_type, &value) in schema.types.iter().zip(values) {
            self.value(sql_type, value);
        }
        self.end_row()
    }

    /// Rows so far.
    #[inline]
    pub fn row_count(&self) -> u32 {
        self.rows
    }

    /// Bytes of the table so far, to be held against the response limit while it grows.
    #[inline]
    pub fn byte_count(&self) -> usize {
        self.out.len() - self.start
    }

    /// Ends the table. Returns its number of rows.
    #[inline]
    pub fn finish(self) -> u32 {
        let total = self.out.len() - self.start - 4;
        self.out.patch_i32(self.start, total as i32);
        self.out.patch_i32(self.row_count_at, self.rows as i32);
        self.rows
    }
}

/// A table read in place. Its structure is checked as far as it is walked.
#[derive(Debug, Clone, Copy)]
pub struct TableView<'a> {
    types: &'a [u8],
    names: &'a [u8],
    rows: &'a [u8],
    row_count: u32,
}

impl<'a> TableView<'a> {
    /// The table as it was read, with its total length in front.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.put_i32(0);
        let header_length = i32::try_from(self.types.len() + self.names.len() + 3);
        out.put_i32(header_length.expect("it was read after a length"));
        out.put_u8(0);
        let columns = i16::try_from(self.types.len()).expect("it was read after a count");
        out.put_i16(columns);
        out.extend_from_slice(self.types);
        out.extend_from_slice(self.names);
        out.put_i32(self.row_count as i32);
        out.extend_from_slice(self.rows);
        let length = i32::try_from(out.len() - start - 4);
        out.patch_i32(start, length.expect("it was read after a length"));
    }

    /// Takes the next table, with its total length in front, off the reader.
    pub fn read(reader: &mut ByteReader<'a>) -> Result<TableView<'a>, DecodeError> {
        let bytes = reader.sized()?.ok_or(DecodeError::Truncated)?;
        let mut body = ByteReader::new(bytes);
        let header = body.sized()?.ok_or(DecodeError::Truncated)?;
        let mut header = ByteReader::new(header);
        header.i8()?;
        let columns = usize::try_from(header.i16()?).map_err(|_| DecodeError::Truncated)?;
        let types = header.take(columns)?;
        if let Some(code) = types.iter().find(|code| !SqlType::is_code(**code as i8)) {
            return Err(DecodeError::UnknownType(*code as i8));
        }
        let row_count = u32::try_from(body.i32()?).map_err(|_| DecodeError::Truncated)?;
        Ok(TableView { types, names: header.rest(), rows: body.rest(), row_count })
    }

    /// Number of columns.
    #[inline]
    pub fn column_count(&self) -> usize {
        self.types.len()
    }

    /// The type of a column; the index is below [`TableView::column_count`].
    #[inline]
    pub fn column_type(&self, column: usize) -> SqlType {
        known_type(self.types[column])
    }

    /// Column names in order; fails on names that are cut off or no UTF-8.
    pub fn column_names(&self) -> Result<Vec<&'a str>, DecodeError> {
        let mut names = ByteReader::new(self.names);
        (0..self.types.len())
            .map(|_| {
                let bytes = names.sized()?.ok_or(DecodeError::Truncated)?;
                std::str::from_utf8(bytes).map_err(|_| DecodeError::InvalidText)
            })
            .collect()
    }

    /// Number of rows that the table says it has.
    #[inline]
    pub fn row_count(&self) -> u32 {
        self.row_count
    }

    /// The rows, in order.
    #[inline]
    pub fn rows(&self) -> Rows<'a> {
        Rows { types: self.types, rest: ByteReader::new(self.rows), left: self.row_count }
    }

    /// The value of the first row's first column: what a scalar query gives. `None` when there
    /// is no row.
    pub fn scalar(&self) -> Result<Option<Datum<'a>>, DecodeError> {
        match self.rows().next() {
            None => Ok(None),
            Some(row) => row?.get(0).map(Some),
        }
    }
}

/// Iterates over a table's rows.
#[derive(Debug, Clone)]
pub struct Rows<'a> {
    types: &'a [u8],
    rest: ByteReader<'a>,
    left: u32,
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<RowView<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let bytes = match self.rest.sized() {
            Ok(Some(bytes)) => bytes,
            _ => {
                self.left = 0;
                return Some(Err(DecodeError::Truncated));
            }
        };
        Some(Ok(RowView { types: self.types, bytes }))
    }
}

/// One row, read in place.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    types: &'a [u8],
    bytes: &'a [u8],
}

impl<'a> RowView<'a> {
    /// The value of a column; walks over the columns before it.
    pub fn get(&self, column: usize) -> Result<Datum<'a>, DecodeError> {
        if column >= self.types.len() {
            return Err(DecodeError::NoColumn(column));
        }
        let mut reader = ByteReader::new(self.bytes);
        for code in &self.types[..column] {
            match known_type(*code).fixed_bytes() {
                Some(bytes) => {
                    reader.take(bytes)?;
                }
                None => {
                    reader.sized()?;
                }
            }
        }
        read_datum(&mut reader, known_type(self.types[column]))
    }

    /// The values, in column order, each read when it is asked for. Ends after the first that
    /// cannot be read.
    #[inline]
    pub fn values(&self) -> Values<'a> {
        Values { types: self.types.iter(), rest: self.bytes }
    }

    /// Appends all values to `values`.
    pub fn read_into(&self, values: &mut Vec<Datum<'a>>) -> Result<(), DecodeError> {
        for value in self.values() {
            values.push(value?);
        }
        Ok(())
    }
}

/// The type of a code that was looked at when the table was read.
#[inline]
fn known_type(code: u8) -> SqlType {
    SqlType::from_code(code as i8).expect("checked when the table was read")
}

/// Iterates over a row's values.
#[derive(Debug, Clone)]
pub struct Values<'a> {
    /// Types of the columns that are left.
    types: std::slice::Iter<'a, u8>,
    rest: &'a [u8],
}

impl<'a> Iterator for Values<'a> {
    type Item = Result<Datum<'a>, DecodeError>;

    // So that what reads a value takes it from registers.
    #[inline(always)]
    fn next(&mut self) -> Option<Self::Item> {
        const BIGINT: u8 = SqlType::BigInt as u8;
        const INTEGER: u8 = SqlType::Integer as u8;
        const VARCHAR: u8 = SqlType::Varchar as u8;
        let code = *self.types.next()?;
        // The most frequent ones here, and where they are sound.
        match code {
            BIGINT => {
                if let Some((number, rest)) = self.rest.split_first_chunk() {
                    self.rest = rest;
                    return Some(Ok(int_or_null(i64::from_be_bytes(*number), i64::MIN)));
                }
            }
            INTEGER => {
                if let Some((number, rest)) = self.rest.split_first_chunk() {
                    self.rest = rest;
                    let number = i32::from_be_bytes(*number).into();
                    return Some(Ok(int_or_null(number, i32::MIN.into())));
                }
            }
            VARCHAR => {
                if let Some((length, rest)) = self.rest.split_first_chunk()
                    && let length = u32::from_be_bytes(*length) as usize
                    && length <= crate::sql_type::MAX_VALUE_BYTES as usize
                    && let Some((bytes, rest)) = rest.split_at_checked(length)
                    && let Some(text) = text(bytes)
                {
                    self.rest = rest;
                    return Some(Ok(Datum::Text(text)));
                }
            }
            _ => {}
        }
        Some(self.read_other(code))
    }
}

impl<'a> Values<'a> {
    #[inline(never)]
    fn read_other(&mut self, code: u8) -> Result<Datum<'a>, DecodeError> {
        let mut reader = ByteReader::new(self.rest);
        let value = read_datum(&mut reader, known_type(code));
        self.rest = reader.rest();
        if value.is_err() {
            self.types = [].iter();
        }
        value
    }
}

#[cfg(test)]
mod tests;
