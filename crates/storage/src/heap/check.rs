//! A check of everything that a heap relies on, for tests and the simulator.

use super::{CHUNK_BYTES, CLASS_COUNT, ChunkHeader, HEADER_BYTES, StringHeap, class_bytes};
use super::{large_layout, slab_layout};
use std::collections::BTreeSet;

fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

impl StringHeap {
    /// Checks the lists of chunks and of free cells, and that the counts are those of the chunks.
    /// Visits every free cell.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub(crate) fn check(&self) -> Result<(), String> {
        // SAFETY: the heap is borrowed; every chunk of its lists is live.
        unsafe {
            let spare = Self::list(self.spare)?;
            let mut open = BTreeSet::new();
            for class in 0..CLASS_COUNT {
                open.append(&mut self.check_class(class)?);
            }
            let mut allocated = 0;
            for slab in &self.slabs {
                let memory = (**slab).memory;
                let mut used = 0;
                for number in 0..(**slab).chunks {
                    let chunk = memory.add(number * CHUNK_BYTES).cast::<ChunkHeader>();
                    ensure(std::ptr::eq((*chunk).slab, *slab), || "a chunk of no slab".into())?;
                    let (is_spare, is_open) = (spare.contains(&chunk), open.contains(&chunk));
                    ensure(!(is_spare && is_open), || "a chunk in two lists".into())?;
                    used += usize::from(!is_spare);
                    Self::check_chunk(chunk, is_spare, is_open)?;
                }
                ensure(used == (**slab).used, || {
                    format!("{used} chunks of a slab are in use, {} are counted", (**slab).used)
                })?;
                allocated += slab_layout((**slab).chunks).size();
            }
            let mut large = self.large;
            while !large.is_null() {
                allocated += large_layout((*large).bytes).size();
                large = (*large).next;
            }
            ensure(allocated == self.allocated_bytes, || {
                format!("{allocated} bytes are allocated, {} are counted", self.allocated_bytes)
            })
        }
    }

    /// Checks the open chunks of a class; gives them.
    ///
    /// # Safety
    /// The chunks of the list are live.
    unsafe fn check_class(&self, class: usize) -> Result<BTreeSet<*mut ChunkHeader>, String> {
        // SAFETY: by the contract.
        unsafe {
            let open = Self::list(self.classes[class].open)?;
            let of_class = open.iter().all(|chunk| (**chunk).class as usize == class);
            ensure(of_class, || format!("class {class} has a chunk of another one"))?;
            let empty = open.iter().filter(|chunk| (***chunk).used == 0).count();
            ensure(empty == self.classes[class].empty as usize, || {
                format!("class {class} has {empty} empty chunks, not {}", self.classes[class].empty)
            })?;
            Ok(open)
        }
    }

    /// The chunks of a list, whose links run both ways.
    ///
    /// # Safety
    /// The chunks of the list are live.
    unsafe fn list(head: *mut ChunkHeader) -> Result<BTreeSet<*mut ChunkHeader>, String> {
        let mut chunks = BTreeSet::new();
        let (mut previous, mut chunk) = (std::ptr::null_mut(), head);
        while !chunk.is_null() {
            // SAFETY: by the contract.
            let links = unsafe { ((*chunk).previous, (*chunk).next) };
            let is_first = chunks.insert(chunk);
            ensure(is_first && links.0 == previous, || "a list of chunks is broken".into())?;
            (previous, chunk) = (chunk, links.1);
        }
        Ok(chunks)
    }

    /// Checks that a chunk's cells are either in use or free.
    ///
    /// # Safety
    /// The chunk is live.
    unsafe fn check_chunk(
        chunk: *mut ChunkHeader,
        is_spare: bool,
        is_open: bool,
    ) -> Result<(), String> {
        // SAFETY: by the contract; free cells hold the address of the next one.
        unsafe {
            let ChunkHeader { mut free, fresh, used, class, .. } = *chunk;
            if is_spare {
                return ensure(used == 0, || format!("a spare chunk has {used} cells in use"));
            }
            let bytes = class_bytes(class as usize);
            let cells = (fresh as usize - HEADER_BYTES) / bytes;
            let mut count = 0;
            while !free.is_null() && count <= cells {
                (free, count) = (free.cast::<*mut u8>().read(), count + 1);
            }
            ensure(count + used as usize == cells, || {
                format!("{used} cells in use and {count} free ones of {cells}")
            })?;
            let has_space = count > 0 || fresh as usize + bytes <= CHUNK_BYTES;
            ensure(has_space == is_open, || {
                "a chunk with space is in the list of its class, a full one is not".into()
            })
        }
    }
}
