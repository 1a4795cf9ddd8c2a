//! Columns of values of one kind. NULL is a value of the kind that SQL does not have, so that a
//! column is one plain array.

use lockstep_types::float::{
    compare_floats, equal_floats, float_datum, is_less_float, is_null_float,
};
use lockstep_types::geography::Point;
use lockstep_types::sql_type::NULL_FLOAT;
use lockstep_types::{Datum, Decimal, SqlType};
use std::cmp::Ordering;

/// NULL among integers and times.
pub(super) const NULL_INT: i64 = i64::MIN;
/// NULL among decimals.
pub(super) const NULL_UNITS: i128 = i128::MIN;
/// Truth values, numbered so that AND is the least and OR the greatest.
pub(super) const FALSE: u8 = 0;
pub(super) const UNKNOWN: u8 = 1;
pub(super) const TRUE: u8 = 2;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Int,
    Timestamp,
    Float,
    Decimal,
    Text,
    Bytes,
    Point,
    Bool,
}

impl Kind {
    /// The kind of a type's values; none of the type of NULL.
    pub(super) fn of(sql_type: SqlType) -> Option<Kind> {
        Some(match sql_type {
            SqlType::Null => return None,
            SqlType::TinyInt | SqlType::SmallInt | SqlType::Integer | SqlType::BigInt => Kind::Int,
            SqlType::Timestamp => Kind::Timestamp,
            SqlType::Float => Kind::Float,
            SqlType::Decimal => Kind::Decimal,
            SqlType::Varchar => Kind::Text,
            SqlType::Varbinary | SqlType::Geography => Kind::Bytes,
            SqlType::GeographyPoint => Kind::Point,
            SqlType::Boolean => Kind::Bool,
        })
    }

    /// Whether values point to memory of the statement.
    pub(super) fn is_variable(self) -> bool {
        matches!(self, Kind::Text | Kind::Bytes)
    }
}

/// A column.
#[derive(Debug, Clone)]
pub(super) enum Vector<'a> {
    Int(Vec<i64>),
    Timestamp(Vec<i64>),
    Float(Vec<f64>),
    Decimal(Vec<i128>),
    Text(Vec<Option<&'a str>>),
    Bytes(Vec<Option<&'a [u8]>>),
    Point(Vec<Option<Point>>),
    Bool(Vec<u8>),
}

/// The same for the array within a column, whatever its kind.
macro_rules! each_array {
    ($vector:expr, $array:ident => $body:expr) => {
        match $vector {
            Vector::Int($array) | Vector::Timestamp($array) => $body,
            Vector::Float($array) => $body,
            Vector::Decimal($array) => $body,
            Vector::Text($array) => $body,
            Vector::Bytes($array) => $body,
            Vector::Point($array) => $body,
            Vector::Bool($array) => $body,
        }
    };
}

/// The same for the arrays within two columns of one kind.
macro_rules! each_pair {
    ($left:expr, $right:expr, ($a:ident, $b:ident) => $body:expr) => {
        match ($left, $right) {
            (Vector::Int($a) | Vector::Timestamp($a), Vector::Int($b) | Vector::Timestamp($b)) => {
                $body
            }
            (Vector::Float($a), Vector::Float($b)) => $body,
            (Vector::Decimal($a), Vector::Decimal($b)) => $body,
            (Vector::Text($a), Vector::Text($b)) => $body,
            (Vector::Bytes($a), Vector::Bytes($b)) => $body,
            (Vector::Point($a), Vector::Point($b)) => $body,
            (Vector::Bool($a), Vector::Bool($b)) => $body,
            _ => unreachable!("columns of one place have one kind"),
        }
    };
}

pub(super) use each_pair;

/// Values of a column, in the order of SQL. NULL, a value like the others here, is for the caller
/// to test.
pub(super) trait Cell: Copy {
    fn order(self, other: Self) -> Ordering;
    fn equals(self, other: Self) -> bool;
    fn is_less(self, other: Self) -> bool;
}

macro_rules! cells {
    ($($type:ty),*) => {
        $(impl Cell for $type {
            #[inline(always)]
            fn order(self, other: Self) -> Ordering {
                self.cmp(&other)
            }

            #[inline(always)]
            fn equals(self, other: Self) -> bool {
                self == other
            }

            #[inline(always)]
            fn is_less(self, other: Self) -> bool {
                self < other
            }
        })*
    };
}

cells!(i64, i128, u8, Option<&str>, Option<&[u8]>, Option<Point>);

impl Cell for f64 {
    #[inline(always)]
    fn order(self, other: Self) -> Ordering {
        compare_floats(self, other)
    }

    #[inline(always)]
    fn equals(self, other: Self) -> bool {
        equal_floats(self, other)
    }

    #[inline(always)]
    fn is_less(self, other: Self) -> bool {
        is_less_float(self, other)
    }
}

impl<'a> Vector<'a> {
    /// An empty column.
    pub(super) fn new(kind: Kind) -> Vector<'a> {
        match kind {
            Kind::Int => Vector::Int(Vec::new()),
            Kind::Timestamp => Vector::Timestamp(Vec::new()),
            Kind::Float => Vector::Float(Vec::new()),
            Kind::Decimal => Vector::Decimal(Vec::new()),
            Kind::Text => Vector::Text(Vec::new()),
            Kind::Bytes => Vector::Bytes(Vec::new()),
            Kind::Point => Vector::Point(Vec::new()),
            Kind::Bool => Vector::Bool(Vec::new()),
        }
    }

    pub(super) fn kind(&self) -> Kind {
        match self {
            Vector::Int(_) => Kind::Int,
            Vector::Timestamp(_) => Kind::Timestamp,
            Vector::Float(_) => Kind::Float,
            Vector::Decimal(_) => Kind::Decimal,
            Vector::Text(_) => Kind::Text,
            Vector::Bytes(_) => Kind::Bytes,
            Vector::Point(_) => Kind::Point,
            Vector::Bool(_) => Kind::Bool,
        }
    }

    pub(super) fn len(&self) -> usize {
        each_array!(self, array => array.len())
    }

    pub(super) fn clear(&mut self) {
        each_array!(self, array => array.clear());
    }

    pub(super) fn truncate(&mut self, length: usize) {
        each_array!(self, array => array.truncate(length));
    }

    /// Bytes that one value takes.
    pub(super) fn value_bytes(&self) -> usize {
        match self {
            Vector::Int(_) | Vector::Timestamp(_) | Vector::Float(_) => 8,
            Vector::Decimal(_) | Vector::Text(_) | Vector::Bytes(_) => 16,
            Vector::Point(_) => 24,
            Vector::Bool(_) => 1,
        }
    }

    /// The value at a place.
    #[inline]
    pub(super) fn datum(&self, place: usize) -> Datum<'a> {
        match self {
            Vector::Int(array) => match array[place] {
                NULL_INT => Datum::Null,
                value => Datum::Int(value),
            },
            Vector::Timestamp(array) => match array[place] {
                NULL_INT => Datum::Null,
                value => Datum::Timestamp(value),
            },
            Vector::Float(array) => float_datum(array[place]),
            Vector::Decimal(array) => match array[place] {
                NULL_UNITS => Datum::Null,
                units => Datum::Decimal(Decimal::from_raw(units)),
            },
            Vector::Text(array) => array[place].map_or(Datum::Null, Datum::Text),
            Vector::Bytes(array) => array[place].map_or(Datum::Null, Datum::Bytes),
            Vector::Point(array) => array[place].map_or(Datum::Null, Datum::Point),
            Vector::Bool(array) => match array[place] {
                FALSE => Datum::Bool(false),
                TRUE => Datum::Bool(true),
                _ => Datum::Null,
            },
        }
    }

    /// Whether the value at a place is NULL.
    #[inline]
    pub(super) fn is_null(&self, place: usize) -> bool {
        match self {
            Vector::Int(array) | Vector::Timestamp(array) => array[place] == NULL_INT,
            Vector::Float(array) => is_null_float(array[place]),
            Vector::Decimal(array) => array[place] == NULL_UNITS,
            Vector::Text(array) => array[place].is_none(),
            Vector::Bytes(array) => array[place].is_none(),
            Vector::Point(array) => array[place].is_none(),
            Vector::Bool(array) => array[place] == UNKNOWN,
        }
    }

    /// Appends a value; false, and nothing appended, when it is not of the kind.
    pub(super) fn push(&mut self, value: Datum<'a>) -> bool {
        match (self, value) {
            (Vector::Int(array), Datum::Int(value)) => array.push(value),
            (Vector::Timestamp(array), Datum::Timestamp(value)) => array.push(value),
            (Vector::Float(array), Datum::Float(value)) => array.push(value),
            (Vector::Decimal(array), Datum::Decimal(value)) => array.push(value.units()),
            (Vector::Text(array), Datum::Text(value)) => array.push(Some(value)),
            (Vector::Bytes(array), Datum::Bytes(value)) => array.push(Some(value)),
            (Vector::Point(array), Datum::Point(value)) => array.push(Some(value)),
            (Vector::Bool(array), Datum::Bool(value)) => {
                array.push(if value { TRUE } else { FALSE })
            }
            (vector, Datum::Null) => vector.push_nulls(1),
            _ => return false,
        }
        true
    }

    pub(super) fn push_nulls(&mut self, count: usize) {
        let length = self.len() + count;
        match self {
            Vector::Int(array) | Vector::Timestamp(array) => array.resize(length, NULL_INT),
            Vector::Float(array) => array.resize(length, NULL_FLOAT),
            Vector::Decimal(array) => array.resize(length, NULL_UNITS),
            Vector::Text(array) => array.resize(length, None),
            Vector::Bytes(array) => array.resize(length, None),
            Vector::Point(array) => array.resize(length, None),
            Vector::Bool(array) => array.resize(length, UNKNOWN),
        }
    }

    /// Puts the value at a place of another column of the same kind to a place here.
    #[inline]
    pub(super) fn set(&mut self, place: usize, from: &Vector<'a>, from_place: usize) {
        each_pair!(self, from, (to, from) => to[place] = from[from_place]);
    }

    /// Appends one value of another column of the same kind.
    #[inline]
    pub(super) fn push_from(&mut self, from: &Vector<'a>, place: usize) {
        each_pair!(self, from, (to, from) => to.push(from[place]));
    }

    /// Appends all values of another column of the same kind.
    pub(super) fn append(&mut self, from: &Vector<'a>) {
        each_pair!(self, from, (to, from) => to.extend_from_slice(from));
    }

    /// Keeps the places of a selection, which rises.
    pub(super) fn keep(&mut self, selection: &[u32]) {
        each_array!(self, array => {
            for (to, from) in selection.iter().enumerate() {
                array[to] = array[*from as usize];
            }
            array.truncate(selection.len());
        });
    }

    /// Appends places of another column of the same kind; places that it does not have are NULL.
    pub(super) fn gather(&mut self, from: &Vector<'a>, selection: &[u32]) {
        macro_rules! gather {
            ($to:expr, $from:expr, $null:expr) => {
                $to.extend(
                    selection.iter().map(|at| $from.get(*at as usize).copied().unwrap_or($null)),
                )
            };
        }
        match (self, from) {
            (Vector::Int(to), Vector::Int(from))
            | (Vector::Timestamp(to), Vector::Timestamp(from)) => gather!(to, from, NULL_INT),
            (Vector::Float(to), Vector::Float(from)) => gather!(to, from, NULL_FLOAT),
            (Vector::Decimal(to), Vector::Decimal(from)) => gather!(to, from, NULL_UNITS),
            (Vector::Text(to), Vector::Text(from)) => gather!(to, from, None),
            (Vector::Bytes(to), Vector::Bytes(from)) => gather!(to, from, None),
            (Vector::Point(to), Vector::Point(from)) => gather!(to, from, None),
            (Vector::Bool(to), Vector::Bool(from)) => gather!(to, from, UNKNOWN),
            _ => unreachable!("columns of one place have one kind"),
        }
    }
}

impl<'a> Vector<'a> {
    /// Appends a value; narrower numbers become wider ones.
    pub(super) fn push_number(&mut self, value: Datum<'a>) -> bool {
        let value = match (&self, value) {
            (Vector::Float(_), Datum::Int(value)) => Datum::Float(value as f64),
            (Vector::Float(_), Datum::Decimal(value)) => Datum::Float(value.to_f64()),
            (Vector::Decimal(_), Datum::Int(value)) => Datum::Decimal(Decimal::from_integer(value)),
            (_, value) => value,
        };
        self.push(value)
    }
}
