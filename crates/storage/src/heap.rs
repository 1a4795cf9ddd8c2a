//! The string heap of one table (or one index): memory for the tails of its rows (or of its long
//! keys) by size class.
//!
//! Values of up to [`LARGEST_CLASS_BYTES`] come from chunks of 16 KiB that serve one size class
//! each: a free list inside the chunk, chunks with room in a list per class. Chunks are cut from
//! slabs, because the system's allocator wastes as much again on a single one (their alignment
//! is their size). A chunk that runs empty may serve another class, but for one per class that
//! stays, so that a value that comes and goes does not move memory; a slab without a chunk in
//! use goes back to the system. Longer values are allocated on their own.
//!
//! Addresses are stable for the life of a value and are no part of the replicated state.

mod check;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};

/// Size and alignment of a chunk: masking an address gives its chunk.
const CHUNK_BYTES: usize = 16 * 1024;
/// Chunks of the largest slab; a heap's first slabs are smaller.
const SLAB_CHUNKS: usize = 16;
/// The longest value that lives in a chunk.
pub(crate) const LARGEST_CLASS_BYTES: usize = 2048;
/// Sixteen classes in steps of 8 to 128, then sixteen per doubling to 2,048: a value wastes a
/// thirty-second of its length on average.
const CLASS_COUNT: usize = 16 + 16 * 4;
const HEADER_BYTES: usize = size_of::<ChunkHeader>();

/// The head of a chunk.
#[repr(C, align(16))]
struct ChunkHeader {
    /// Neighbours in the list that the chunk is in: its class's chunks with room, or the spare
    /// ones. A full chunk is in none.
    previous: *mut ChunkHeader,
    next: *mut ChunkHeader,
    slab: *mut Slab,
    /// First free cell; its first word is the address of the next.
    free: *mut u8,
    /// Cells never used so far start here.
    fresh: u32,
    /// Cells in use.
    used: u32,
    class: u32,
}

/// Chunks that were allocated together.
struct Slab {
    memory: *mut u8,
    chunks: usize,
    /// Chunks that serve a class.
    used: usize,
}

/// The head of a value that is too long for a chunk.
#[repr(C, align(16))]
struct LargeHeader {
    previous: *mut LargeHeader,
    next: *mut LargeHeader,
    bytes: usize,
}

#[derive(Clone, Copy)]
struct Class {
    /// Chunks with room.
    open: *mut ChunkHeader,
    /// Chunks without a used cell; at most one stays.
    empty: u32,
}

/// Memory of variable-length values.
pub(crate) struct StringHeap {
    classes: [Class; CLASS_COUNT],
    /// Chunks that serve no class.
    spare: *mut ChunkHeader,
    slabs: Vec<*mut Slab>,
    large: *mut LargeHeader,
    allocated_bytes: usize,
    used_bytes: usize,
}

// SAFETY: the heap owns everything its pointers reach; nothing is shared with another thread.
unsafe impl Send for StringHeap {}

/// The size class of a length between 1 and `LARGEST_CLASS_BYTES`.
#[inline]
fn class_of(length: usize) -> usize {
    if length <= 128 {
        (length - 1) / 8
    } else {
        let last = length - 1;
        let top = last.ilog2() as usize;
        16 + (top - 7) * 16 + ((last >> (top - 4)) & 15)
    }
}

/// Bytes of a cell of a class.
#[inline]
fn class_bytes(class: usize) -> usize {
    if class < 16 {
        (class + 1) * 8
    } else {
        let step = class - 16;
        (17 + step % 16) << (step / 16 + 3)
    }
}

fn slab_layout(chunks: usize) -> Layout {
    Layout::from_size_align(chunks * CHUNK_BYTES, CHUNK_BYTES).expect("at most 16 chunks")
}

fn large_layout(length: usize) -> Layout {
    let bytes = (length + size_of::<LargeHeader>()).next_multiple_of(16);
    Layout::from_size_align(bytes, 16).expect("values are at most a few megabytes")
}

impl Default for StringHeap {
    fn default() -> Self {
        let class = Class { open: null_mut(), empty: 0 };
        StringHeap {
            classes: [class; CLASS_COUNT],
            spare: null_mut(),
            slabs: Vec::new(),
            large: null_mut(),
            allocated_bytes: 0,
            used_bytes: 0,
        }
    }
}

impl StringHeap {
    /// Bytes obtained from the system.
    pub(crate) fn allocated_bytes(&self) -> usize {
        self.allocated_bytes
    }

    /// Bytes of the values that live here.
    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Memory for a value of `length` bytes, above 0, not yet written.
    #[inline]
    pub(crate) fn reserve(&mut self, length: usize) -> NonNull<u8> {
        debug_assert!(length > 0, "an empty value has no cell");
        self.used_bytes += length;
        if length <= LARGEST_CLASS_BYTES {
            self.take_cell(class_of(length))
        } else {
            self.allocate_large(length)
        }
    }

    /// Gives a value's memory back.
    ///
    /// # Safety
    /// `cell` came from `reserve` of this heap with this `length`, was not released since, and
    /// nobody reads it any more. Of length 0 there is no cell.
    #[inline]
    pub(crate) unsafe fn release(&mut self, cell: NonNull<u8>, length: usize) {
        if length == 0 {
            return;
        }
        debug_assert!(self.used_bytes >= length, "no more is released than is in use");
        self.used_bytes -= length;
        if length <= LARGEST_CLASS_BYTES {
            // SAFETY: by the contract the cell lies in a chunk of this heap.
            unsafe { self.return_cell(cell.as_ptr(), class_of(length)) };
        } else {
            // SAFETY: by the contract the cell follows a large header of this heap.
            unsafe { self.release_large(cell.as_ptr(), length) };
        }
    }

    /// Does ahead of time what the next stores would wait for: a heap of some size always has
    /// chunks to spare.
    pub(crate) fn prepare_growth(&mut self) {
        if self.spare.is_null() && self.allocated_bytes >= SLAB_CHUNKS * CHUNK_BYTES {
            self.add_slab();
        }
    }

    fn take_cell(&mut self, class: usize) -> NonNull<u8> {
        if self.classes[class].open.is_null() {
            self.add_chunk(class);
        }
        let bytes = class_bytes(class);
        let chunk = self.classes[class].open;
        // SAFETY: chunks in the open list are live, ours, and have a free or a fresh cell.
        unsafe {
            let header = &mut *chunk;
            debug_assert_eq!(header.class as usize, class, "an open chunk serves its class");
            if header.used == 0 {
                self.classes[class].empty -= 1;
            }
            header.used += 1;
            let cell = if header.free.is_null() {
                let end = header.fresh as usize + bytes;
                debug_assert!(end <= CHUNK_BYTES, "an open chunk has space");
                let cell = chunk.cast::<u8>().add(header.fresh as usize);
                header.fresh += bytes as u32;
                cell
            } else {
                let cell = header.free;
                header.free = cell.cast::<*mut u8>().read();
                cell
            };
            if header.free.is_null() && header.fresh as usize + bytes > CHUNK_BYTES {
                unlink(&mut self.classes[class].open, chunk);
            }
            NonNull::new_unchecked(cell)
        }
    }

    /// # Safety
    /// `cell` is a used cell of a chunk of this heap, which serves the class of its length.
    unsafe fn return_cell(&mut self, cell: *mut u8, class_of_length: usize) {
        let chunk = cell.map_addr(|address| address & !(CHUNK_BYTES - 1)).cast::<ChunkHeader>();
        // SAFETY: chunks are aligned to their size, so the mask finds the header; cells are at
        // least 8 bytes, aligned to 8, so the link fits.
        unsafe {
            let header = &mut *chunk;
            let class = header.class as usize;
            let bytes = class_bytes(class);
            debug_assert_eq!(class, class_of_length, "a cell is released with its length");
            let offset = cell.addr() - chunk.addr();
            let is_cell = (HEADER_BYTES..header.fresh as usize).contains(&offset)
                && (offset - HEADER_BYTES).is_multiple_of(bytes);
            debug_assert!(is_cell, "what is released was reserved");
            let was_full = header.free.is_null() && header.fresh as usize + bytes > CHUNK_BYTES;
            cell.cast::<*mut u8>().write(header.free);
            header.free = cell;
            debug_assert!(header.used > 0, "a cell that is given back was in use");
            header.used -= 1;
            if was_full {
                link(&mut self.classes[class].open, chunk);
            }
            if (*chunk).used == 0 {
                if self.classes[class].empty > 0 {
                    unlink(&mut self.classes[class].open, chunk);
                    self.return_chunk(chunk);
                } else {
                    self.classes[class].empty = 1;
                }
            }
        }
    }

    /// Gives a class a chunk.
    #[cold]
    fn add_chunk(&mut self, class: usize) {
        if self.spare.is_null() {
            self.add_slab();
        }
        let chunk = self.spare;
        assert!(!chunk.is_null(), "a new slab has spare chunks");
        // SAFETY: spare chunks are live, ours, and used by nobody.
        unsafe {
            unlink(&mut self.spare, chunk);
            let header = &mut *chunk;
            assert_eq!(header.used, 0, "a spare chunk has no cell in use");
            (*header.slab).used += 1;
            assert!((*header.slab).used <= (*header.slab).chunks, "a chunk is in use once");
            header.free = null_mut();
            header.fresh = HEADER_BYTES as u32;
            header.used = 0;
            header.class = class as u32;
            link(&mut self.classes[class].open, chunk);
        }
        self.classes[class].empty += 1;
    }

    /// Undoes a chunk that has no used cell and is in no list.
    ///
    /// # Safety
    /// `chunk` is a live chunk of this heap.
    #[cold]
    unsafe fn return_chunk(&mut self, chunk: *mut ChunkHeader) {
        // SAFETY: by the contract; a slab lives as long as its chunks.
        unsafe {
            link(&mut self.spare, chunk);
            let slab = (*chunk).slab;
            assert!((*slab).used > 0, "a chunk that is given back was in use");
            (*slab).used -= 1;
            if (*slab).used > 0 {
                return;
            }
            // All its chunks are spare.
            let Slab { memory, chunks, .. } = slab.read();
            for number in 0..chunks {
                unlink(&mut self.spare, memory.add(number * CHUNK_BYTES).cast());
            }
            self.slabs.retain(|other| *other != slab);
            drop(Box::from_raw(slab));
            dealloc(memory, slab_layout(chunks));
            self.allocated_bytes -= chunks * CHUNK_BYTES;
        }
    }

    #[cold]
    fn add_slab(&mut self) {
        let chunks = (self.allocated_bytes / CHUNK_BYTES).clamp(1, SLAB_CHUNKS);
        let layout = slab_layout(chunks);
        // SAFETY: the layout has a size above 0; each header lies at the start of its chunk.
        unsafe {
            let memory = alloc(layout);
            if memory.is_null() {
                handle_alloc_error(layout);
            }
            let slab = Box::into_raw(Box::new(Slab { memory, chunks, used: 0 }));
            self.slabs.push(slab);
            for number in (0..chunks).rev() {
                let chunk = memory.add(number * CHUNK_BYTES).cast::<ChunkHeader>();
                chunk.write(ChunkHeader {
                    previous: null_mut(),
                    next: null_mut(),
                    slab,
                    free: null_mut(),
                    fresh: HEADER_BYTES as u32,
                    used: 0,
                    class: 0,
                });
                link(&mut self.spare, chunk);
            }
        }
        self.allocated_bytes += layout.size();
    }

    #[cold]
    fn allocate_large(&mut self, length: usize) -> NonNull<u8> {
        let layout = large_layout(length);
        self.allocated_bytes += layout.size();
        // SAFETY: the layout has a size above 0; the header fits before the value.
        unsafe {
            let header = alloc(layout).cast::<LargeHeader>();
            if header.is_null() {
                handle_alloc_error(layout);
            }
            let next = self.large;
            header.write(LargeHeader { previous: null_mut(), next, bytes: length });
            if !next.is_null() {
                (*next).previous = header;
            }
            self.large = header;
            NonNull::new_unchecked(header.add(1).cast())
        }
    }

    /// # Safety
    /// `value` came from `allocate_large` of this heap with `length`.
    #[cold]
    unsafe fn release_large(&mut self, value: *mut u8, length: usize) {
        let layout = large_layout(length);
        assert!(
            self.allocated_bytes >= layout.size(),
            "a large value is counted until its release"
        );
        self.allocated_bytes -= layout.size();
        // SAFETY: the header lies before the value; it and its neighbours are live and ours.
        unsafe {
            let header = value.cast::<LargeHeader>().sub(1);
            assert_eq!((*header).bytes, length, "a large value is released with its length");
            let LargeHeader { previous, next, .. } = header.read();
            if previous.is_null() {
                self.large = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            dealloc(header.cast(), layout);
        }
    }
}

/// Puts a chunk at the head of a list.
///
/// # Safety
/// The chunk and those of the list are live; the chunk is in no list.
unsafe fn link(head: &mut *mut ChunkHeader, chunk: *mut ChunkHeader) {
    // SAFETY: by the contract.
    unsafe {
        (*chunk).previous = null_mut();
        (*chunk).next = *head;
        if !head.is_null() {
            (**head).previous = chunk;
        }
        *head = chunk;
    }
}

/// Takes a chunk out of a list.
///
/// # Safety
/// The chunk is live and in the list.
unsafe fn unlink(head: &mut *mut ChunkHeader, chunk: *mut ChunkHeader) {
    // SAFETY: by the contract; neighbours in a list are live.
    unsafe {
        let ChunkHeader { previous, next, .. } = *chunk;
        if previous.is_null() {
            *head = next;
        } else {
            (*previous).next = next;
        }
        if !next.is_null() {
            (*next).previous = previous;
        }
    }
}

impl Drop for StringHeap {
    fn drop(&mut self) {
        for slab in self.slabs.drain(..) {
            // SAFETY: every slab of the list is live and ours, and nobody uses its chunks.
            unsafe {
                let Slab { memory, chunks, .. } = *Box::from_raw(slab);
                dealloc(memory, slab_layout(chunks));
            }
        }
        while !self.large.is_null() {
            // SAFETY: as above.
            unsafe {
                let LargeHeader { next, bytes, .. } = self.large.read();
                dealloc(self.large.cast(), large_layout(bytes));
                self.large = next;
            }
        }
    }
}

#[cfg(test)]
mod tests;
