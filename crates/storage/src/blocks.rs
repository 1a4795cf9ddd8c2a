//! Blocks of slots: where rows lie, which are live, and which slot the next row takes.
//!
//! Allocation is replicated state and deterministic: a slot that was freed last is used first
//! (the free list runs through the free slots); without a free slot the next never-used one.
//! The first block starts small and doubles, so that a table of few rows is small.
//!
//! After mass deletes blocks without a live row give their memory back, but for their part of the
//! free list, which is kept apart until one of their slots is taken again. So when that happens
//! makes no difference to which slot a row takes.

mod check;

use crate::layout::TableLayout;
use crate::row::RowId;
use crate::snapshot::Pending;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;

/// End of the free list; also one more than the greatest row id.
pub(crate) const NO_ROW: u32 = u32::MAX;
/// The first block begins with about this many bytes.
const FIRST_BLOCK_BYTES: usize = 1024;

/// One block. `slots` is its room; only the first block can have less than the layout's.
struct Block {
    /// Dangling while the block has given its memory back.
    memory: NonNull<u8>,
    slots: u32,
    /// The free list's part of a block that has given its memory back: for each slot the next.
    links: Option<Box<[u32]>>,
}

/// The slots of a table.
pub(crate) struct BlockStore {
    blocks: Vec<Block>,
    /// One bit a slot, set while the row is live.
    live: Vec<u64>,
    free_head: u32,
    /// The lowest slot never used so far.
    fresh: u32,
    live_count: u32,
    slot_bytes: usize,
    block_shift: u32,
    allocated_bytes: usize,
    /// The next whole block, allocated ahead of time.
    spare: Option<NonNull<u8>>,
    /// Live rows below which free blocks are looked for.
    search_below: u32,
    /// What a running snapshot has still to encode.
    pub(crate) pending: Option<Box<Pending>>,
}

// SAFETY: the store owns its blocks; nothing is shared with another thread.
unsafe impl Send for BlockStore {}

fn block_layout(slot_bytes: usize, slots: u32) -> Layout {
    Layout::from_size_align(slot_bytes * slots as usize, 16).expect("a block is at most 128 KiB")
}

impl BlockStore {
    pub(crate) fn new(layout: &TableLayout) -> BlockStore {
        BlockStore {
            blocks: Vec::new(),
            live: Vec::new(),
            free_head: NO_ROW,
            fresh: 0,
            live_count: 0,
            slot_bytes: layout.slot_bytes,
            block_shift: layout.block_shift,
            allocated_bytes: 0,
            spare: None,
            search_below: 0,
            pending: None,
        }
    }

    /// Live rows.
    #[inline]
    pub(crate) fn live_count(&self) -> u32 {
        self.live_count
    }

    /// One more than the greatest row id in use so far.
    #[inline]
    pub(crate) fn fresh(&self) -> u32 {
        self.fresh
    }

    /// Bytes of the blocks and their books.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
            + self.blocks.capacity() * size_of::<Block>()
            + self.live.capacity() * size_of::<u64>()
    }

    /// True while the row is live.
    #[inline]
    pub(crate) fn is_live(&self, row: RowId) -> bool {
        self.live.get((row.0 >> 6) as usize).is_some_and(|word| word >> (row.0 & 63) & 1 == 1)
    }

    /// The address of a slot.
    ///
    /// # Safety
    /// `row` is below `fresh`, and live or taken: its block has its memory.
    #[inline]
    pub(crate) unsafe fn slot(&self, row: RowId) -> *mut u8 {
        let block = (row.0 >> self.block_shift) as usize;
        let slot = (row.0 & ((1 << self.block_shift) - 1)) as usize;
        debug_assert!(row.0 < self.fresh && slot < self.blocks[block].slots as usize);
        debug_assert!(self.blocks[block].links.is_none(), "the block has its memory");
        // SAFETY: slots below `fresh` lie in an existing block with room for them.
        unsafe { self.blocks.get_unchecked(block).memory.as_ptr().add(slot * self.slot_bytes) }
    }

    /// To be called before the slot of a row changes: a running snapshot keeps what it holds.
    #[inline(always)]
    pub(crate) fn about_to_change(&mut self, row: RowId) {
        if self.pending.is_some() {
            self.force_out(row);
        }
    }

    #[cold]
    #[inline(never)]
    fn force_out(&mut self, row: RowId) {
        if let Some(mut pending) = self.pending.take() {
            pending.force_out(self, row);
            self.pending = Some(pending);
        }
    }

    /// The row that `take` gives next; `None` when row ids are exhausted.
    #[inline]
    pub(crate) fn next(&self) -> Option<RowId> {
        let row = if self.free_head == NO_ROW { self.fresh } else { self.free_head };
        (row != NO_ROW).then_some(RowId(row))
    }

    /// Takes the next slot. The row is not live before `publish`. The second value is true for
    /// a slot that was never used. `None` when row ids are exhausted.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<(RowId, bool)> {
        let row = RowId(self.free_head);
        if row.0 != NO_ROW {
            self.about_to_change(row);
            if self.blocks[(row.0 >> self.block_shift) as usize].links.is_some() {
                self.restore(row);
            }
            // SAFETY: slots of the free list were used, and hold the next one's id.
            self.free_head = unsafe { self.slot(row).cast::<u32>().read_unaligned() };
            debug_assert!(
                self.free_head == NO_ROW || self.free_head < self.fresh,
                "the free list has slots that were used"
            );
            return Some((row, false));
        }
        let row = RowId(self.fresh);
        let in_block = self.fresh & ((1 << self.block_shift) - 1);
        let block = (self.fresh >> self.block_shift) as usize;
        if self.blocks.get(block).is_none_or(|block| in_block >= block.slots) {
            if self.fresh == NO_ROW {
                return None;
            }
            self.grow(block);
        }
        self.about_to_change(row);
        self.fresh += 1;
        Some((row, true))
    }

    /// Makes a taken slot, now written, a live row.
    #[inline]
    pub(crate) fn publish(&mut self, row: RowId) {
        debug_assert!(row.0 < self.fresh, "a slot is taken before it holds a row");
        debug_assert!(!self.is_live(row), "a slot holds one row");
        self.live[(row.0 >> 6) as usize] |= 1 << (row.0 & 63);
        self.live_count += 1;
    }

    /// Ends a live row; its slot goes to the head of the free list, its first bytes are lost.
    #[inline]
    pub(crate) fn free(&mut self, row: RowId) {
        self.about_to_change(row);
        self.retract(row);
        self.give_back(row, false);
    }

    /// Ends a live row without freeing its slot.
    #[inline]
    pub(crate) fn retract(&mut self, row: RowId) {
        debug_assert!(self.is_live(row), "only a live row ends");
        self.live[(row.0 >> 6) as usize] &= !(1 << (row.0 & 63));
        self.live_count -= 1;
    }

    /// Undoes `take` for a row that is not live; `fresh` as `take` said.
    #[inline]
    pub(crate) fn give_back(&mut self, row: RowId, fresh: bool) {
        debug_assert!(!self.is_live(row), "a slot is free when its row has ended");
        if fresh {
            debug_assert_eq!(row.0 + 1, self.fresh, "taken slots are given back in reverse");
            self.fresh -= 1;
        } else {
            // SAFETY: the row was taken, so it lies below `fresh`; a slot has at least 4 bytes.
            unsafe { self.slot(row).cast::<u32>().write_unaligned(self.free_head) };
            self.free_head = row.0;
        }
    }

    /// The first live row at or after `from`.
    #[inline]
    pub(crate) fn next_live(&self, from: u32) -> Option<RowId> {
        let mut word = (from >> 6) as usize;
        let mut bits = self.live.get(word)? & (u64::MAX << (from & 63));
        while bits == 0 {
            word += 1;
            bits = *self.live.get(word)?;
        }
        Some(RowId((word as u32) << 6 | bits.trailing_zeros()))
    }

    /// The free list from its head; part of the replicated state.
    pub(crate) fn free_list(&self) -> impl Iterator<Item = RowId> + '_ {
        let first = (self.free_head != NO_ROW).then_some(RowId(self.free_head));
        std::iter::successors(first, |row| {
            let next = self.link(*row);
            (next != NO_ROW).then_some(RowId(next))
        })
    }

    /// The slot after a free one in the free list, or [`NO_ROW`].
    pub(crate) fn link(&self, row: RowId) -> u32 {
        assert!(row.0 < self.fresh && !self.is_live(row), "only free slots have a link");
        let slot = (row.0 & ((1 << self.block_shift) - 1)) as usize;
        match &self.blocks[(row.0 >> self.block_shift) as usize].links {
            Some(links) => links[slot],
            // SAFETY: slots of the free list were used, and hold the next one's id.
            None => unsafe { self.slot(row).cast::<u32>().read_unaligned() },
        }
    }

    /// The bits of 64 slots.
    pub(crate) fn live_word(&self, word: u32) -> u64 {
        self.live.get(word as usize).copied().unwrap_or(0)
    }

    /// The head of the free list, or [`NO_ROW`].
    pub(crate) fn free_head(&self) -> u32 {
        self.free_head
    }

    /// Writes where the free list goes on after a slot that is not live.
    pub(crate) fn write_link(&mut self, row: RowId, next: u32) {
        assert!(row.0 < self.fresh && !self.is_live(row), "only free slots have a link");
        // SAFETY: the slot exists and holds no row; a slot has at least 4 bytes.
        unsafe { self.slot(row).cast::<u32>().write_unaligned(next) };
    }

    /// The free list begins here.
    pub(crate) fn put_free_head(&mut self, head: u32) {
        let is_free = head == NO_ROW || head < self.fresh && !self.is_live(RowId(head));
        assert!(is_free, "the free list begins with a slot that was used and has no row");
        self.free_head = head;
        self.search_below = u32::MAX;
    }

    /// Takes never-used slots, at most up to `end`, at least one: those of one block.
    pub(crate) fn extend(&mut self, end: u32) {
        assert!(end > self.fresh, "slots {end} and below are taken once");
        let block = (self.fresh >> self.block_shift) as usize;
        let in_block = self.fresh & ((1 << self.block_shift) - 1);
        let room = |store: &BlockStore| store.blocks.get(block).map_or(0, |block| block.slots);
        while in_block >= room(self) {
            self.grow(block);
        }
        let first = (block as u32) << self.block_shift;
        self.fresh = end.min(first + room(self));
    }

    /// Makes room for slot `fresh`, which is the first without any, in `block`.
    #[cold]
    fn grow(&mut self, block: usize) {
        assert!(block <= self.blocks.len(), "blocks come one after the other");
        let whole = 1u32 << self.block_shift;
        let first = ((FIRST_BLOCK_BYTES / self.slot_bytes).max(1) as u32).min(whole);
        let slots = match self.blocks.get(block) {
            Some(block) => (block.slots * 2).min(whole),
            None if block == 0 => first,
            None => whole,
        };
        let memory = match self.blocks.get(block) {
            Some(Block { memory, slots: before, .. }) => {
                let (memory, old) = (*memory, block_layout(self.slot_bytes, *before));
                let new = block_layout(self.slot_bytes, slots);
                self.allocated_bytes += new.size() - old.size();
                // SAFETY: layouts have a size above 0 and describe the memory they are used with.
                let memory = unsafe { realloc(memory.as_ptr(), old, new.size()) };
                NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(new))
            }
            None if slots == whole => self.take_whole_block(),
            None => self.allocate(slots),
        };
        match self.blocks.get_mut(block) {
            Some(grown) => {
                grown.memory = memory;
                grown.slots = slots;
            }
            None => self.blocks.push(Block { memory, slots, links: None }),
        }
        let slots_in_all = (block << self.block_shift) + slots as usize;
        assert!(slots_in_all > self.fresh as usize, "there is a slot for the next row");
        self.live.resize(slots_in_all.div_ceil(64), 0);
    }

    /// Memory of a block.
    fn allocate(&mut self, slots: u32) -> NonNull<u8> {
        let layout = block_layout(self.slot_bytes, slots);
        self.allocated_bytes += layout.size();
        // SAFETY: the layout has a size above 0.
        let memory = unsafe { alloc(layout) };
        NonNull::new(memory).unwrap_or_else(|| handle_alloc_error(layout))
    }

    fn take_whole_block(&mut self) -> NonNull<u8> {
        self.spare.take().unwrap_or_else(|| self.allocate(1 << self.block_shift))
    }

    /// Allocates the next block, once the last one is half full.
    pub(crate) fn prepare_growth(&mut self) {
        let whole = 1u32 << self.block_shift;
        let used = self.fresh & (whole - 1);
        if self.fresh < whole || self.spare.is_some() || used < whole / 2 {
            return;
        }
        self.spare = Some(self.allocate(whole));
        // As a push and a resize would: by doubling.
        if self.blocks.len() == self.blocks.capacity() {
            self.blocks.reserve(1);
        }
        let words = whole.div_ceil(64) as usize;
        if self.live.len() + words > self.live.capacity() {
            self.live.reserve(words);
        }
    }

    /// Gives the memory of blocks without a live row back, if there may be many of them.
    pub(crate) fn give_back_free_blocks(&mut self) {
        // A quarter of the rows must go before it is worth another search.
        let below = self.live_count - self.live_count / 4;
        if self.live_count >= self.search_below {
            self.search_below = self.search_below.max(below);
            return;
        }
        self.search_below = below;
        let whole = 1u32 << self.block_shift;
        for number in 0..self.blocks.len() {
            let first = (number as u32) << self.block_shift;
            // The last block is the next that grows.
            let used = self.fresh.saturating_sub(first) >= whole;
            let block = &self.blocks[number];
            if !used || block.links.is_some() || block.slots < whole {
                continue;
            }
            if self.next_live(first).is_none_or(|row| row.0 - first >= whole) {
                self.give_back_block(number);
            }
        }
    }

    /// Gives the memory of a block back that has it, and whose slots are all used and free.
    fn give_back_block(&mut self, number: usize) {
        let layout = block_layout(self.slot_bytes, 1 << self.block_shift);
        let block = &mut self.blocks[number];
        assert!(block.links.is_none(), "memory is given back once");
        assert_eq!(block.slots, 1 << self.block_shift, "only whole blocks are given back");
        let slots = block.memory.as_ptr();
        // SAFETY: every slot of the block is in the free list, and so holds the next one's id.
        let link = |slot: usize| unsafe {
            slots.add(slot * self.slot_bytes).cast::<u32>().read_unaligned()
        };
        block.links = Some((0..block.slots as usize).map(link).collect());
        block.memory = NonNull::dangling();
        self.allocated_bytes -= layout.size();
        self.allocated_bytes += block.slots as usize * size_of::<u32>();
        // SAFETY: the block was allocated with this layout; none of its slots is in use.
        unsafe { dealloc(slots, layout) };
    }

    /// Gives a block its memory again, before one of its slots is taken.
    #[cold]
    fn restore(&mut self, row: RowId) {
        let number = (row.0 >> self.block_shift) as usize;
        let memory = self.take_whole_block();
        let block = &mut self.blocks[number];
        block.memory = memory;
        let links = block.links.take().expect("a block without memory has the links of its slots");
        assert_eq!(links.len(), block.slots as usize, "links are kept for all slots of a block");
        let link_bytes = links.len() * size_of::<u32>();
        assert!(self.allocated_bytes >= link_bytes, "links are counted until they are freed");
        self.allocated_bytes -= link_bytes;
        self.search_below = u32::MAX;
        for (slot, next) in links.iter().enumerate() {
            // SAFETY: the new memory has space for each slot, and a slot has at least 4 bytes.
            unsafe {
                memory.as_ptr().add(slot * self.slot_bytes).cast::<u32>().write_unaligned(*next);
            }
        }
    }
}

impl Drop for BlockStore {
    fn drop(&mut self) {
        if let Some(memory) = self.spare.take() {
            // SAFETY: the spare block is a whole one.
            unsafe {
                dealloc(memory.as_ptr(), block_layout(self.slot_bytes, 1 << self.block_shift))
            };
        }
        for block in self.blocks.iter().filter(|block| block.links.is_none()) {
            let layout = block_layout(self.slot_bytes, block.slots);
            // SAFETY: the block was allocated with this layout.
            unsafe { dealloc(block.memory.as_ptr(), layout) };
        }
    }
}
