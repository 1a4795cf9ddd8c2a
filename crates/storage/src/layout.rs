//! How the columns of a table lie in a slot: offsets, widths and the representation of each.

use crate::error::StorageError;
use crate::tail::{ADDRESS_BYTES, FIRST, NARROW_LIMIT};
use lockstep_types::SqlType;
use std::sync::Arc;

/// Text and bytes whose declared maximum is at most this many bytes lie in the slot itself: those
/// that index keys hold in a word or two. A slot has space for the longest value.
pub const INLINE_LIMIT_BYTES: u32 = 15;
/// The greatest size of a block of slots.
pub const BLOCK_BYTES: usize = 128 * 1024;
/// The smallest slot: a free slot holds the row id of the next free one.
const MIN_SLOT_BYTES: usize = 4;

/// What storage must know about a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnLayout {
    /// The type; `Null` and `Boolean` are no column types.
    pub sql_type: SqlType,
    /// Greatest length in bytes of VARCHAR, VARBINARY and GEOGRAPHY (for lengths in characters:
    /// four times as many); ignored for other types.
    pub max_bytes: u32,
    /// False for NOT NULL.
    pub nullable: bool,
}

impl ColumnLayout {
    /// A nullable column of a fixed-width type.
    pub fn fixed(sql_type: SqlType) -> ColumnLayout {
        ColumnLayout { sql_type, max_bytes: 0, nullable: true }
    }

    /// A nullable VARCHAR or VARBINARY of at most `max_bytes`.
    pub fn variable(sql_type: SqlType, max_bytes: u32) -> ColumnLayout {
        ColumnLayout { sql_type, max_bytes, nullable: true }
    }

    /// The same column, NOT NULL.
    pub fn not_null(self) -> ColumnLayout {
        ColumnLayout { nullable: false, ..self }
    }
}

/// Representation of a field in the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum FieldKind {
    TinyInt,
    SmallInt,
    Integer,
    BigInt,
    Float,
    Timestamp,
    Decimal,
    Point,
    InlineText,
    InlineBytes,
    TailText,
    TailBytes,
}

impl FieldKind {
    /// True for a value in the row's tail.
    #[inline]
    pub(crate) fn is_tail(self) -> bool {
        matches!(self, FieldKind::TailText | FieldKind::TailBytes)
    }

    /// True for texts, which are UTF-8.
    #[inline]
    pub(crate) fn is_text(self) -> bool {
        matches!(self, FieldKind::TailText | FieldKind::InlineText)
    }

    fn of(column: &ColumnLayout) -> Option<FieldKind> {
        let inline = column.max_bytes <= INLINE_LIMIT_BYTES;
        Some(match column.sql_type {
            SqlType::TinyInt => FieldKind::TinyInt,
            SqlType::SmallInt => FieldKind::SmallInt,
            SqlType::Integer => FieldKind::Integer,
            SqlType::BigInt => FieldKind::BigInt,
            SqlType::Float => FieldKind::Float,
            SqlType::Timestamp => FieldKind::Timestamp,
            SqlType::Decimal => FieldKind::Decimal,
            SqlType::GeographyPoint => FieldKind::Point,
            SqlType::Varchar if inline => FieldKind::InlineText,
            SqlType::Varchar => FieldKind::TailText,
            SqlType::Varbinary if inline => FieldKind::InlineBytes,
            SqlType::Varbinary | SqlType::Geography => FieldKind::TailBytes,
            SqlType::Null | SqlType::Boolean => return None,
        })
    }

    fn slot_bytes(self, max_bytes: u32, wide: bool) -> usize {
        match self {
            FieldKind::TinyInt => 1,
            FieldKind::SmallInt => 2,
            FieldKind::Integer => 4,
            FieldKind::BigInt | FieldKind::Float | FieldKind::Timestamp => 8,
            FieldKind::Decimal | FieldKind::Point => 16,
            FieldKind::InlineText | FieldKind::InlineBytes => 1 + max_bytes as usize,
            FieldKind::TailText | FieldKind::TailBytes => 2 + 2 * usize::from(wide),
        }
    }
}

/// One column as the slot holds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) offset: u32,
    pub(crate) max_bytes: u32,
    /// For a value in the tail: where the slot holds the end of the one before.
    pub(crate) previous: u32,
    pub(crate) kind: FieldKind,
    pub(crate) nullable: bool,
    /// For a value in the tail: its end takes four bytes, not two.
    pub(crate) wide: bool,
    pub(crate) sql_type: SqlType,
}

/// The layout of a table's slots: the tail's address if there is one, then the fields, packed in
/// column order without alignment.
#[derive(Debug, Clone)]
pub struct TableLayout {
    columns: Box<[ColumnLayout]>,
    pub(crate) fields: Arc<[Field]>,
    /// Positions of the columns whose values lie in the tail.
    pub(crate) tail_columns: Box<[u16]>,
    /// Offset and greatest length of each text or byte value that lies in the slot.
    pub(crate) inline_values: Box<[(u32, u32)]>,
    /// Where the last field ends.
    fields_end: usize,
    pub(crate) slot_bytes: usize,
    /// A block holds `1 << block_shift` slots, so that a row id splits without a division.
    pub(crate) block_shift: u32,
}

impl TableLayout {
    /// Lays out `columns` in order.
    ///
    /// # Errors
    /// `UnsupportedType` for `Null` and `Boolean`; `RowTooWide` when a slot exceeds a block or
    /// there are more columns than 65,535.
    pub fn new(columns: &[ColumnLayout]) -> Result<TableLayout, StorageError> {
        let kinds: Vec<FieldKind> = columns
            .iter()
            .enumerate()
            .map(|(position, column)| {
                let sql_type = column.sql_type;
                let unsupported = StorageError::UnsupportedType { column: position, sql_type };
                FieldKind::of(column).ok_or(unsupported)
            })
            .collect::<Result<_, _>>()?;
        let in_tail = || columns.iter().zip(&kinds).filter(|(_, kind)| kind.is_tail());
        let longest_tail: u64 = in_tail().map(|(column, _)| u64::from(column.max_bytes)).sum();
        let wide = longest_tail > NARROW_LIMIT;
        let mut fields = Vec::with_capacity(columns.len());
        let mut tail_columns = Vec::new();
        let mut previous = FIRST;
        let mut offset = if in_tail().next().is_some() { ADDRESS_BYTES } else { 0 };
        for (position, (column, kind)) in columns.iter().zip(&kinds).enumerate() {
            let width = kind.slot_bytes(column.max_bytes, wide);
            if offset + width > BLOCK_BYTES || position > usize::from(u16::MAX) {
                let bytes = offset + width;
                return Err(StorageError::RowTooWide { bytes, limit: BLOCK_BYTES });
            }
            fields.push(Field {
                offset: offset as u32,
                max_bytes: column.max_bytes,
                previous,
                kind: *kind,
                nullable: column.nullable,
                wide,
                sql_type: column.sql_type,
            });
            if kind.is_tail() {
                tail_columns.push(position as u16);
                previous = offset as u32;
            }
            offset += width;
        }
        let slot_bytes = offset.max(MIN_SLOT_BYTES);
        let inline =
            |field: &&Field| matches!(field.kind, FieldKind::InlineText | FieldKind::InlineBytes);
        let inline_values =
            fields.iter().filter(inline).map(|field| (field.offset, field.max_bytes));
        Ok(TableLayout {
            inline_values: inline_values.collect(),
            fields_end: offset,
            columns: columns.into(),
            fields: fields.into(),
            tail_columns: tail_columns.into(),
            slot_bytes,
            block_shift: (BLOCK_BYTES / slot_bytes).ilog2(),
        })
    }

    /// The columns as they were given.
    pub fn columns(&self) -> &[ColumnLayout] {
        &self.columns
    }

    /// Bytes of one row's slot, its tail apart.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Bytes of a row in a snapshot's record, its tail apart.
    pub(crate) fn fixed_bytes(&self) -> usize {
        self.fields_end - self.address_bytes()
    }

    /// Slots of a whole block, a power of two.
    pub fn slots_per_block(&self) -> usize {
        1 << self.block_shift
    }
}
