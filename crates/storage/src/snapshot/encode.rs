//! Units of slots that a snapshot has still to encode, and how that is done.

use crate::blocks::{BlockStore, NO_ROW};
use crate::layout::TableLayout;
use crate::row::RowId;
use crate::tail::ADDRESS_BYTES;
use lockstep_types::TableId;

/// A buffer of forced records this long is not added to.
const FORCED_BUFFER_BYTES: usize = 64 * 1024;

/// What a snapshot still needs of a table's slots.
pub(crate) struct Pending {
    table: TableId,
    layout: TableLayout,
    /// One bit a unit, set until it is encoded.
    units: Vec<u64>,
    /// A unit is `1 << unit_shift` slots.
    unit_shift: u32,
    /// Slots in use when the snapshot began: those below.
    used_slots: u32,
    /// Units not encoded.
    left: u32,
    /// Units below were encoded.
    next: u32,
    /// Records that changes have forced out.
    forced: Vec<Vec<u8>>,
    forced_bytes: usize,
}

impl Pending {
    /// All slots of a table, whose tails take `tail_bytes`.
    pub(crate) fn new(
        table: TableId,
        layout: &TableLayout,
        blocks: &BlockStore,
        tail_bytes: usize,
        unit_bytes: usize,
    ) -> Pending {
        let rows = (blocks.live_count() as usize).max(1);
        let row_bytes = layout.slot_bytes + tail_bytes / rows;
        let slots = (unit_bytes / row_bytes).max(1);
        let unit_shift = slots.ilog2().min(layout.block_shift);
        let used_slots = blocks.fresh();
        let count = u64::from(used_slots).div_ceil(1 << unit_shift);
        let mut units = vec![u64::MAX; count.div_ceil(64) as usize];
        if let (Some(last), rest @ 1..) = (units.last_mut(), count % 64) {
            *last = (1 << rest) - 1;
        }
        Pending {
            table,
            layout: layout.clone(),
            units,
            unit_shift,
            used_slots,
            left: count as u32,
            next: 0,
            forced: Vec::new(),
            forced_bytes: 0,
        }
    }

    /// Whether everything is encoded and handed out.
    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.forced.is_empty()
    }

    pub(crate) fn forced_bytes(&self) -> usize {
        self.forced_bytes
    }

    /// Appends records that changes have forced out until `out` has `end` bytes.
    pub(crate) fn take_forced(&mut self, out: &mut Vec<u8>, end: usize) {
        while out.len() < end
            && let Some(mut forced) = self.forced.pop()
        {
            assert!(self.forced_bytes >= forced.len(), "records that wait are counted");
            self.forced_bytes -= forced.len();
            out.append(&mut forced);
        }
    }

    /// A row's slot is about to change: its unit is encoded, unless it was or is newer.
    pub(crate) fn force_out(&mut self, blocks: &BlockStore, row: RowId) {
        let unit = row.0 >> self.unit_shift;
        if self.take_unit(unit) {
            let mut forced = match self.forced.last() {
                Some(last) if last.len() < FORCED_BUFFER_BYTES => self.forced.pop(),
                _ => None,
            }
            .unwrap_or_else(|| Vec::with_capacity(FORCED_BUFFER_BYTES * 5 / 4));
            let before = forced.len();
            self.encode(blocks, unit, &mut forced);
            self.forced_bytes += forced.len() - before;
            self.forced.push(forced);
        }
    }

    /// Encodes further units until `out` has `end` bytes. True when none is left.
    pub(crate) fn step(&mut self, blocks: &BlockStore, out: &mut Vec<u8>, end: usize) -> bool {
        while self.left > 0 && out.len() < end {
            let unit = self.next;
            self.next += 1;
            if self.take_unit(unit) {
                self.encode(blocks, unit, out);
            }
        }
        debug_assert_eq!(self.check(), Ok(()), "as many units are marked as are left");
        self.left == 0
    }

    /// Checks that as many units are marked as are left, and as many bytes wait as are counted.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        let marked: u32 = self.units.iter().map(|word| word.count_ones()).sum();
        let waiting: usize = self.forced.iter().map(Vec::len).sum();
        match (marked, waiting) == (self.left, self.forced_bytes) {
            true => Ok(()),
            false => Err(format!(
                "a snapshot has {marked} units left and {waiting} bytes waiting, not {} and {}",
                self.left, self.forced_bytes
            )),
        }
    }

    fn take_unit(&mut self, unit: u32) -> bool {
        let (word, bit) = ((unit >> 6) as usize, 1 << (unit & 63));
        match self.units.get_mut(word) {
            Some(word) if *word & bit != 0 => {
                *word &= !bit;
                debug_assert!(self.left > 0, "units that are left are counted");
                self.left -= 1;
                true
            }
            _ => false,
        }
    }

    fn encode(&self, blocks: &BlockStore, unit: u32, out: &mut Vec<u8>) {
        let first = unit << self.unit_shift;
        debug_assert!(first < self.used_slots, "a unit has a slot that was in use");
        let slots = (1 << self.unit_shift).min(self.used_slots - first);
        out.extend_from_slice(&self.table.0.to_le_bytes());
        out.extend_from_slice(&first.to_le_bytes());
        out.extend_from_slice(&slots.to_le_bytes());
        let length_at = out.len();
        out.extend_from_slice(&[0; 4]);
        let body_at = out.len();
        let mut rows = 0;
        for start in (first..first + slots).step_by(8) {
            let bits = blocks.live_byte(start, (first + slots - start).min(8));
            rows += bits.count_ones();
            out.push(bits);
        }
        if rows < slots {
            for row in first..first + slots {
                if !blocks.is_live(RowId(row)) {
                    out.extend_from_slice(&blocks.link(RowId(row)).to_le_bytes());
                }
            }
        }
        if rows > 0 {
            self.encode_fixed(blocks, (first, slots, rows), out);
            if self.layout.has_tail() {
                self.encode_tails(blocks, first, slots, out);
            }
        }
        let length = (out.len() - body_at) as u32;
        out[length_at..body_at].copy_from_slice(&length.to_le_bytes());
    }

    fn encode_fixed(
        &self,
        blocks: &BlockStore,
        (first, slots, rows): (u32, u32, u32),
        out: &mut Vec<u8>,
    ) {
        let (width, skipped) = (self.layout.fixed_bytes(), self.layout.address_bytes());
        let start = out.len();
        let bytes = rows as usize * width;
        out.reserve(bytes);
        // SAFETY: there is room for the rows, each of `width` bytes; live rows have a whole slot
        // of this layout, and `skipped + width` is at most its size. Bytes of inline values
        // after their end may never have been written; they are before the length is set.
        unsafe {
            let mut at = out.as_mut_ptr().add(start);
            let mut next = blocks.next_live(first);
            while let Some(row) = next.filter(|row| row.0 < first + slots) {
                at.copy_from_nonoverlapping(blocks.slot(row).add(skipped), width);
                for (offset, limit) in &self.layout.inline_values {
                    clear_unused(at.add(*offset as usize - skipped), *limit as usize);
                }
                at = at.add(width);
                next = blocks.next_live(row.0 + 1);
            }
            debug_assert_eq!(at.offset_from(out.as_ptr()) as usize, start + bytes);
            out.set_len(start + bytes);
        }
    }

    fn encode_tails(&self, blocks: &BlockStore, first: u32, slots: u32, out: &mut Vec<u8>) {
        let mut next = blocks.next_live(first);
        while let Some(row) = next.filter(|row| row.0 < first + slots) {
            // SAFETY: the row is live, so its slot is of this layout and its tail is live.
            unsafe {
                if let Some((cell, length)) = self.layout.tail(blocks.slot(row)) {
                    out.extend_from_slice(std::slice::from_raw_parts(cell.as_ptr(), length));
                }
            }
            next = blocks.next_live(row.0 + 1);
        }
    }
}

/// Zeroes what an inline field has after its value.
///
/// # Safety
/// `at` points to the `1 + limit` bytes of an inline field.
#[inline]
unsafe fn clear_unused(at: *mut u8, limit: usize) {
    // SAFETY: by the contract; a length is at most the limit, and the mark of NULL above it.
    unsafe {
        let length = match at.read() {
            crate::row::INLINE_NULL => 0,
            length => usize::from(length),
        };
        at.add(1 + length).write_bytes(0, limit.saturating_sub(length));
    }
}

impl BlockStore {
    /// The bits of up to eight slots, of which the first is at a multiple of their number.
    fn live_byte(&self, first: u32, slots: u32) -> u8 {
        let word = self.live_word(first >> 6);
        let mask = ((1u16 << slots) - 1) as u8;
        (word >> (first & 63)) as u8 & mask
    }
}

impl TableLayout {
    /// Bytes of a slot that hold the tail's address.
    pub(crate) fn address_bytes(&self) -> usize {
        if self.has_tail() { ADDRESS_BYTES } else { 0 }
    }
}

/// The end of a free list, in records too.
const _: () = assert!(NO_ROW == u32::MAX);
