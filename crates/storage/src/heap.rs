//! The string heap of one table (or one index): memory for texts and bytes by size class.
//!
//! Values of up to [`LARGEST_CLASS_BYTES`] come from chunks of 16 KiB that serve one size class
//! each: a free list inside the chunk, chunks with room in a list per class. A chunk that runs
//! empty goes back to the system, but for one spare per class, so that a value that comes and
//! goes does not. Longer values are allocated on their own.
//!
//! Addresses are stable for the life of a value and are no part of the replicated state.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{NonNull, null_mut};

/// Size and alignment of a chunk: masking an address gives its chunk.
const CHUNK_BYTES: usize = 16 * 1024;
/// The longest value that lives in a chunk.
pub(crate) const LARGEST_CLASS_BYTES: usize = 2048;
/// Eight classes in steps of 16 to 128, then four per doubling to 2,048.
const CLASS_COUNT: usize = 8 + 4 * 4;
const HEADER_BYTES: usize = size_of::<ChunkHeader>();

/// The head of a chunk.
#[repr(C, align(16))]
struct ChunkHeader {
    /// Neighbours in the list of all chunks of the class.
    previous: *mut ChunkHeader,
    next: *mut ChunkHeader,
    /// Neighbours in the list of chunks of the class that have room.
    previous_open: *mut ChunkHeader,
    next_open: *mut ChunkHeader,
    /// First free cell; its first word is the address of the next.
    free: *mut u8,
    /// Cells never used so far start here.
    fresh: u32,
    /// Cells in use.
    used: u32,
    class: u32,
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
    all: *mut ChunkHeader,
    open: *mut ChunkHeader,
    /// Chunks without a used cell; at most one stays.
    empty: u32,
}

/// Memory of variable-length values.
pub(crate) struct StringHeap {
    classes: [Class; CLASS_COUNT],
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
        (length - 1) / 16
    } else {
        let last = length - 1;
        let top = last.ilog2() as usize;
        8 + (top - 7) * 4 + ((last >> (top - 2)) & 3)
    }
}

/// Bytes of a cell of a class.
#[inline]
fn class_bytes(class: usize) -> usize {
    if class < 8 {
        (class + 1) * 16
    } else {
        let step = class - 8;
        (5 + step % 4) << (step / 4 + 5)
    }
}

fn chunk_layout() -> Layout {
    Layout::from_size_align(CHUNK_BYTES, CHUNK_BYTES).expect("a power of two")
}

fn large_layout(length: usize) -> Layout {
    let bytes = (length + size_of::<LargeHeader>()).next_multiple_of(16);
    Layout::from_size_align(bytes, 16).expect("values are at most a few megabytes")
}

impl Default for StringHeap {
    fn default() -> Self {
        let class = Class { all: null_mut(), open: null_mut(), empty: 0 };
        StringHeap {
            classes: [class; CLASS_COUNT],
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

    /// Copies `value` into the heap. An empty value takes no memory.
    #[inline]
    pub(crate) fn store(&mut self, value: &[u8]) -> NonNull<u8> {
        if value.is_empty() {
            return NonNull::dangling();
        }
        let cell = self.reserve(value.len());
        // SAFETY: the cell is fresh memory of at least `value.len()` bytes, so it does not
        // overlap `value`.
        unsafe { cell.copy_from_nonoverlapping(NonNull::from(value).cast(), value.len()) };
        cell
    }

    /// Memory for a value of `length` bytes, above 0, not yet written.
    #[inline]
    pub(crate) fn reserve(&mut self, length: usize) -> NonNull<u8> {
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
    /// `cell` came from `store` of this heap with a value of `length` bytes, was not released
    /// since, and nobody reads it any more.
    #[inline]
    pub(crate) unsafe fn release(&mut self, cell: NonNull<u8>, length: usize) {
        if length == 0 {
            return;
        }
        self.used_bytes -= length;
        if length <= LARGEST_CLASS_BYTES {
            // SAFETY: by the contract the cell lies in a chunk of this heap.
            unsafe { self.return_cell(cell.as_ptr()) };
        } else {
            // SAFETY: by the contract the cell follows a large header of this heap.
            unsafe { self.release_large(cell.as_ptr(), length) };
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
            if header.used == 0 {
                self.classes[class].empty -= 1;
            }
            header.used += 1;
            let cell = if header.free.is_null() {
                let cell = chunk.cast::<u8>().add(header.fresh as usize);
                header.fresh += bytes as u32;
                cell
            } else {
                let cell = header.free;
                header.free = cell.cast::<*mut u8>().read();
                cell
            };
            if header.free.is_null() && header.fresh as usize + bytes > CHUNK_BYTES {
                self.unlink_open(chunk);
            }
            NonNull::new_unchecked(cell)
        }
    }

    /// # Safety
    /// `cell` is a used cell of a chunk of this heap.
    unsafe fn return_cell(&mut self, cell: *mut u8) {
        let chunk = cell.map_addr(|address| address & !(CHUNK_BYTES - 1)).cast::<ChunkHeader>();
        // SAFETY: chunks are aligned to their size, so the mask finds the header; cells are at
        // least 16 bytes, aligned to 16, so the link fits.
        unsafe {
            let header = &mut *chunk;
            let class = header.class as usize;
            let bytes = class_bytes(class);
            let was_full = header.free.is_null() && header.fresh as usize + bytes > CHUNK_BYTES;
            cell.cast::<*mut u8>().write(header.free);
            header.free = cell;
            header.used -= 1;
            if was_full {
                self.link_open(chunk);
            }
            if (*chunk).used == 0 {
                if self.classes[class].empty > 0 {
                    self.drop_chunk(chunk);
                } else {
                    self.classes[class].empty = 1;
                }
            }
        }
    }

    #[cold]
    fn add_chunk(&mut self, class: usize) {
        let layout = chunk_layout();
        // SAFETY: the layout has a size above 0; the header is written before it is linked.
        unsafe {
            let chunk = alloc(layout).cast::<ChunkHeader>();
            if chunk.is_null() {
                handle_alloc_error(layout);
            }
            let first = self.classes[class].all;
            chunk.write(ChunkHeader {
                previous: null_mut(),
                next: first,
                previous_open: null_mut(),
                next_open: null_mut(),
                free: null_mut(),
                fresh: HEADER_BYTES as u32,
                used: 0,
                class: class as u32,
            });
            if !first.is_null() {
                (*first).previous = chunk;
            }
            self.classes[class].all = chunk;
            self.classes[class].empty += 1;
            self.link_open(chunk);
        }
        self.allocated_bytes += CHUNK_BYTES;
    }

    /// # Safety
    /// `chunk` is a live, empty, open chunk of this heap.
    #[cold]
    unsafe fn drop_chunk(&mut self, chunk: *mut ChunkHeader) {
        // SAFETY: the chunk and its neighbours are live and ours; no cell of it is in use.
        unsafe {
            self.unlink_open(chunk);
            let ChunkHeader { previous, next, class, .. } = chunk.read();
            if previous.is_null() {
                self.classes[class as usize].all = next;
            } else {
                (*previous).next = next;
            }
            if !next.is_null() {
                (*next).previous = previous;
            }
            dealloc(chunk.cast(), chunk_layout());
        }
        self.allocated_bytes -= CHUNK_BYTES;
    }

    /// # Safety
    /// `chunk` is a live chunk of this heap that is not in the open list.
    unsafe fn link_open(&mut self, chunk: *mut ChunkHeader) {
        // SAFETY: the chunk and the head of the list are live and ours.
        unsafe {
            let class = &mut self.classes[(*chunk).class as usize];
            (*chunk).previous_open = null_mut();
            (*chunk).next_open = class.open;
            if !class.open.is_null() {
                (*class.open).previous_open = chunk;
            }
            class.open = chunk;
        }
    }

    /// # Safety
    /// `chunk` is a live chunk of this heap that is in the open list.
    unsafe fn unlink_open(&mut self, chunk: *mut ChunkHeader) {
        // SAFETY: the chunk and its neighbours are live and ours.
        unsafe {
            let ChunkHeader { previous_open, next_open, class, .. } = chunk.read();
            if previous_open.is_null() {
                self.classes[class as usize].open = next_open;
            } else {
                (*previous_open).next_open = next_open;
            }
            if !next_open.is_null() {
                (*next_open).previous_open = previous_open;
            }
        }
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
        self.allocated_bytes -= layout.size();
        // SAFETY: the header lies before the value; it and its neighbours are live and ours.
        unsafe {
            let header = value.cast::<LargeHeader>().sub(1);
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

impl Drop for StringHeap {
    fn drop(&mut self) {
        for class in &self.classes {
            let mut chunk = class.all;
            while !chunk.is_null() {
                // SAFETY: every chunk of the list is live and ours; it is read before it goes.
                unsafe {
                    let next = (*chunk).next;
                    dealloc(chunk.cast(), chunk_layout());
                    chunk = next;
                }
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
