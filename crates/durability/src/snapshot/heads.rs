//! What a file of rows says of its tables before their rows.

use lockstep_types::SqlType;

/// A table of a file of rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableHead {
    /// Its number in the records.
    pub table: u32,
    /// Its name.
    pub name: String,
    /// Live rows.
    pub rows: u64,
    /// Slots that were ever used: those below.
    pub used_slots: u32,
    /// The head of the free list; `u32::MAX` when no slot is free.
    pub free_head: u32,
    /// Its columns, hidden ones of views included.
    pub columns: Vec<ColumnHead>,
    /// The columns whose values say which partition has a row, in the order of their hashes.
    pub partition_columns: Vec<u16>,
}

/// A column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnHead {
    /// Its type.
    pub sql_type: SqlType,
    /// Whether NULL is allowed.
    pub nullable: bool,
    /// Greatest length in bytes of VARCHAR and VARBINARY, else 0.
    pub max_bytes: u32,
}

pub(super) fn encode(heads: &[TableHead]) -> Vec<u8> {
    let mut out = Vec::new();
    for head in heads {
        out.extend_from_slice(&head.table.to_le_bytes());
        out.extend_from_slice(&(head.name.len() as u16).to_le_bytes());
        out.extend_from_slice(head.name.as_bytes());
        out.extend_from_slice(&head.rows.to_le_bytes());
        out.extend_from_slice(&head.used_slots.to_le_bytes());
        out.extend_from_slice(&head.free_head.to_le_bytes());
        out.extend_from_slice(&(head.columns.len() as u16).to_le_bytes());
        for column in &head.columns {
            out.push(column.sql_type.code() as u8);
            out.push(u8::from(column.nullable));
            out.extend_from_slice(&column.max_bytes.to_le_bytes());
        }
        out.extend_from_slice(&(head.partition_columns.len() as u16).to_le_bytes());
        head.partition_columns.iter().for_each(|place| out.extend_from_slice(&place.to_le_bytes()));
    }
    out
}

/// Reads little-endian numbers off the front of bytes; `None` where they end too early.
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn u8(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

/// The tables of a payload; `None` when it is none.
pub(super) fn decode(payload: &[u8]) -> Option<Vec<TableHead>> {
    let mut fields = Fields(payload);
    let mut heads = Vec::new();
    while !fields.0.is_empty() {
        let table = fields.u32()?;
        let length = fields.u16()?;
        let name = std::str::from_utf8(fields.take(length.into())?).ok()?.to_string();
        let (rows, used_slots, free_head) = (fields.u64()?, fields.u32()?, fields.u32()?);
        let count = fields.u16()?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let sql_type = SqlType::from_code(fields.u8()? as i8)?;
            let nullable = match fields.u8()? {
                0 => false,
                1 => true,
                _ => return None,
            };
            columns.push(ColumnHead { sql_type, nullable, max_bytes: fields.u32()? });
        }
        let mut partition_columns = Vec::new();
        for _ in 0..fields.u16()? {
            let place = fields.u16().filter(|place| *place < count)?;
            partition_columns.push(place);
        }
        heads.push(TableHead {
            table,
            name,
            rows,
            used_slots,
            free_head,
            columns,
            partition_columns,
        });
    }
    Some(heads)
}
