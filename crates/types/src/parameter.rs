//! The parameters of a call, in the encoding that VoltDB clients send: they are kept as bytes
//! from the socket to the log, and decoded in place where they are used.
//!
//! ```text
//! i16 count | per parameter: i8 type + value, or i8 -99, i8 element type, count, elements
//! ```
//!
//! The count of an array is 16 bits, except for TINYINT elements, where it is 32.

use crate::table::{DecodeError, read_datum};
use crate::{Datum, SqlType, TableView};
use lockstep_base::bytes::{ByteReader, ByteWriter};

/// Stands for the type of a parameter that is an array.
pub const ARRAY: i8 = -99;
const TABLE: i8 = 21;

/// One parameter as the client sent it; its type is the client's choice.
#[derive(Debug, Clone, Copy)]
pub enum Parameter<'a> {
    /// A single value with the type that it was sent as.
    Scalar(SqlType, Datum<'a>),
    /// A one-dimensional array.
    Array(ArrayParameter<'a>),
    /// A table.
    Table(TableView<'a>),
}

/// An array parameter; its elements were checked when it was read.
#[derive(Debug, Clone, Copy)]
pub struct ArrayParameter<'a> {
    /// The type of all elements.
    pub element_type: SqlType,
    /// The number of elements.
    pub count: u32,
    elements: &'a [u8],
}

impl<'a> ArrayParameter<'a> {
    /// The elements, in order.
    pub fn iter(&self) -> impl Iterator<Item = Datum<'a>> + 'a {
        let (element_type, count) = (self.element_type, self.count);
        let mut reader = ByteReader::new(self.elements);
        (0..count).map(move |_| {
            read_datum(&mut reader, element_type).expect("elements were checked when read")
        })
    }
}

/// All parameters of a call, undecoded.
#[derive(Debug, Clone, Copy)]
pub struct ParameterSet<'a> {
    count: u16,
    bytes: &'a [u8],
}

impl<'a> ParameterSet<'a> {
    /// No parameters.
    pub const EMPTY: ParameterSet<'static> = ParameterSet { count: 0, bytes: &[] };

    /// Reads the count; the parameters themselves stay undecoded until they are asked for.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<ParameterSet<'a>, DecodeError> {
        let mut reader = ByteReader::new(bytes);
        let count = u16::try_from(reader.i16()?).map_err(|_| DecodeError::Truncated)?;
        Ok(ParameterSet { count, bytes: reader.rest() })
    }

    /// A set whose count was kept apart from the bytes after it.
    #[inline]
    pub fn from_parts(count: u16, bytes: &'a [u8]) -> ParameterSet<'a> {
        ParameterSet { count, bytes }
    }

    /// Number of parameters.
    #[inline]
    pub fn count(&self) -> usize {
        usize::from(self.count)
    }

    /// The bytes after the count. Bytes that trail the last parameter are ignored.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The parameters, in order. Stops after the first error.
    #[inline]
    pub fn iter(&self) -> ParameterIterator<'a> {
        ParameterIterator { reader: ByteReader::new(self.bytes), left: self.count }
    }

    /// The set without its first parameter; `None` when that cannot be read or there is none.
    pub fn without_first(&self) -> Option<ParameterSet<'a>> {
        let mut parameters = self.iter();
        parameters.next()?.ok()?;
        Some(ParameterSet { count: self.count - 1, bytes: parameters.reader.rest() })
    }

    /// The parameter at `index`, walking over those before it. `None` past the last one.
    pub fn get(&self, index: usize) -> Option<Result<Parameter<'a>, DecodeError>> {
        let mut parameters = self.iter();
        for _ in 0..index {
            if let Err(error) = parameters.next()? {
                return Some(Err(error));
            }
        }
        parameters.next()
    }

    /// The parameter at `index` if it is a BIGINT or an INTEGER, and so are all before it: what
    /// most calls are routed by, without a walk over parameters of any type.
    #[inline]
    pub fn integer_at(&self, index: usize) -> Option<Datum<'a>> {
        if index >= self.count() {
            return None;
        }
        let mut bytes = self.bytes;
        for _ in 0..index {
            (_, bytes) = split_integer(bytes)?;
        }
        split_integer(bytes).map(|(value, _)| value)
    }
}

/// A BIGINT or INTEGER at the beginning of `bytes`, and what follows it.
#[inline]
fn split_integer(bytes: &[u8]) -> Option<(Datum<'_>, &[u8])> {
    const BIGINT: i8 = SqlType::BigInt.code();
    const INTEGER: i8 = SqlType::Integer.code();
    let (code, rest) = bytes.split_first()?;
    let (number, null, rest) = match *code as i8 {
        BIGINT => {
            let (number, rest) = rest.split_first_chunk()?;
            (i64::from_be_bytes(*number), i64::MIN, rest)
        }
        INTEGER => {
            let (number, rest) = rest.split_first_chunk()?;
            (i32::from_be_bytes(*number).into(), i32::MIN.into(), rest)
        }
        _ => return None,
    };
    Some((if number == null { Datum::Null } else { Datum::Int(number) }, rest))
}

/// Iterates over a call's parameters.
#[derive(Debug, Clone)]
pub struct ParameterIterator<'a> {
    reader: ByteReader<'a>,
    left: u16,
}

impl<'a> ParameterIterator<'a> {
    /// The bytes after the parameters that were read.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.reader.rest()
    }
}

impl<'a> Iterator for ParameterIterator<'a> {
    type Item = Result<Parameter<'a>, DecodeError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let parameter = read_parameter(&mut self.reader);
        if parameter.is_err() {
            self.left = 0;
        }
        Some(parameter)
    }
}

#[inline]
fn read_parameter<'a>(reader: &mut ByteReader<'a>) -> Result<Parameter<'a>, DecodeError> {
    match reader.i8()? {
        ARRAY => read_array(reader).map(Parameter::Array),
        TABLE => TableView::read(reader).map(Parameter::Table),
        code => {
            let sql_type = SqlType::from_code(code).ok_or(DecodeError::UnknownType(code))?;
            Ok(Parameter::Scalar(sql_type, read_datum(reader, sql_type)?))
        }
    }
}

fn read_array<'a>(reader: &mut ByteReader<'a>) -> Result<ArrayParameter<'a>, DecodeError> {
    let code = reader.i8()?;
    let element_type = SqlType::from_code(code)
        .filter(|t| *t != SqlType::Null)
        .ok_or(DecodeError::UnknownType(code))?;
    let count = match element_type {
        SqlType::TinyInt => reader.i32()?,
        _ => reader.i16()?.into(),
    };
    let count = u32::try_from(count).map_err(|_| DecodeError::Truncated)?;
    let elements = reader.rest();
    for _ in 0..count {
        read_datum(reader, element_type)?;
    }
    Ok(ArrayParameter { element_type, count, elements })
}

/// Builds the bytes of a parameter set: for the client library, tools and the server's own calls.
#[derive(Debug, Clone)]
pub struct ParameterWriter {
    bytes: Vec<u8>,
    /// Where the set begins, after what the bytes held before.
    start: usize,
    count: u16,
}

impl Default for ParameterWriter {
    fn default() -> Self {
        ParameterWriter::behind(Vec::new())
    }
}

impl ParameterWriter {
    /// A writer of a set that stands after other bytes.
    pub fn behind(mut bytes: Vec<u8>) -> ParameterWriter {
        let start = bytes.len();
        bytes.put_i16(0);
        ParameterWriter { bytes, start, count: 0 }
    }

    /// Appends a scalar of the given wire type.
    pub fn scalar(&mut self, sql_type: SqlType, value: Datum<'_>) -> &mut Self {
        self.bytes.put_i8(sql_type.code());
        crate::table::write_datum(&mut self.bytes, sql_type, value);
        self.counted()
    }

    /// Appends a BIGINT.
    #[inline]
    pub fn bigint(&mut self, value: i64) -> &mut Self {
        let mut bytes = [SqlType::BigInt as u8; 9];
        bytes[1..].copy_from_slice(&value.to_be_bytes());
        self.bytes.extend_from_slice(&bytes);
        self.counted()
    }

    /// Appends an INTEGER.
    pub fn integer(&mut self, value: i32) -> &mut Self {
        self.scalar(SqlType::Integer, Datum::Int(value.into()))
    }

    /// Appends a VARCHAR.
    #[inline]
    pub fn text(&mut self, value: &str) -> &mut Self {
        self.bytes.put_i8(SqlType::Varchar.code());
        self.bytes.put_sized(Some(value.as_bytes()));
        self.counted()
    }

    /// Appends an array of at most 32767 elements.
    pub fn array(&mut self, element_type: SqlType, elements: &[Datum<'_>]) -> &mut Self {
        self.bytes.put_i8(ARRAY);
        self.bytes.put_i8(element_type.code());
        match element_type {
            SqlType::TinyInt => self.bytes.put_i32(elements.len() as i32),
            _ => self.bytes.put_i16(i16::try_from(elements.len()).expect("at most 32767")),
        }
        for element in elements {
            crate::table::write_datum(&mut self.bytes, element_type, *element);
        }
        self.counted()
    }

    /// Appends a table that is already in its wire form, total length included.
    pub fn table(&mut self, table: &[u8]) -> &mut Self {
        self.bytes.put_i8(TABLE);
        self.bytes.extend_from_slice(table);
        self.counted()
    }

    /// Forgets all parameters and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.bytes.truncate(self.start);
        self.bytes.put_i16(0);
        self.count = 0;
    }

    /// The encoded set, its count in front.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    /// The bytes that the set stands after, and the set.
    #[inline]
    pub fn all_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes that the set stands after, to be written over.
    #[inline]
    pub fn bytes_before(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.start]
    }

    #[inline]
    fn counted(&mut self) -> &mut Self {
        self.count += 1;
        self.bytes[self.start..self.start + 2].copy_from_slice(&self.count.to_be_bytes());
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut writer = ParameterWriter::default();
        writer.bigint(5_551_234_567).scalar(SqlType::Null, Datum::Null).text("hé");
        writer.array(SqlType::TinyInt, &[Datum::Int(1), Datum::Null]);
        let set = ParameterSet::new(writer.bytes()).expect("a set");
        assert_eq!(set.count(), 4);
        let first = set.get(0).expect("there").expect("sound");
        assert!(matches!(first, Parameter::Scalar(SqlType::BigInt, Datum::Int(5_551_234_567))));
        assert!(matches!(set.get(2), Some(Ok(Parameter::Scalar(_, Datum::Text("hé"))))));
        let Some(Ok(Parameter::Array(array))) = set.get(3) else { panic!("an array") };
        assert_eq!(array.iter().collect::<Vec<_>>(), [Datum::Int(1), Datum::Null]);
        assert!(set.get(4).is_none());
        for cut in 0..writer.bytes().len() {
            if let Ok(set) = ParameterSet::new(&writer.bytes()[..cut]) {
                assert!(set.iter().any(|parameter| parameter.is_err()), "{cut}");
            }
        }
    }

    #[test]
    fn integers_are_found_behind_integers() {
        let mut writer = ParameterWriter::default();
        writer.bigint(5).scalar(SqlType::Integer, Datum::Int(-6));
        writer.scalar(SqlType::BigInt, Datum::Null).scalar(SqlType::Integer, Datum::Null);
        writer.text("7").bigint(8);
        let set = ParameterSet::new(writer.bytes()).expect("a set");
        let found: Vec<Option<Datum<'_>>> = (0..7).map(|index| set.integer_at(index)).collect();
        let (null, none) = (Some(Datum::Null), None);
        let expected = [Some(Datum::Int(5)), Some(Datum::Int(-6)), null, null, none, none, none];
        assert_eq!(found, expected);
        let cut = ParameterSet::new(&writer.bytes()[..14]).expect("a set");
        assert_eq!(cut.integer_at(1), None);
    }

    #[test]
    fn hostile_sets_are_errors() {
        for bytes in [
            &[0xff, 0xff][..],
            &[0],
            &[0, 1, 99],
            &[0, 1, 0x9d, 9, 0x7f, 0xff],
            &[0, 1, 9, 0, 0, 0, 1, 0xff],
            &[0, 1, 21, 0, 0, 0, 9],
            &[0, 1, 0x9d, 1, 0, 9],
        ] {
            let set = ParameterSet::new(bytes);
            let bad = set.is_err_and(|_| true)
                || ParameterSet::new(bytes).is_ok_and(|s| s.iter().any(|p| p.is_err()));
            assert!(bad, "{bytes:?}");
        }
    }
}
