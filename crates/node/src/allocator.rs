//! What a host asks of the C library's allocator: a heap that grows in large steps, one for each
//! of several sites, and memory that is there before it is needed.
//!
//! A page that nobody has touched yet costs the thread that touches it first a wait: for a cleared
//! page, and on a virtual machine for one that its host has to find, which was seen to take longer
//! than a hundred calls. Memory that is taken ahead is touched when the host starts, and stays
//! with the process.

use crate::control::memory_limit_bytes;
use crate::options::Options;
use std::alloc::{Layout, alloc, dealloc};
use std::io;

/// How much the heaps grow by; by default that of each thread but the first grows by a page a
/// system call. Fewer calls is all that is known of the effect: latencies did not measurably
/// improve.
const STEP_BYTES: u64 = 16 << 20;
/// The step of heaps with memory taken ahead. The allocator unmaps an empty part of 64 MiB of a
/// thread's heap, whatever was said of trimming, unless a step is longer than such a part.
const STEP_AHEAD_BYTES: u64 = 128 << 20;
/// Memory ahead is taken in pieces: longer ones would not come from a heap (32 MiB is the
/// allocator's own limit).
const PIECE_BYTES: u64 = 16 << 20;
const PAGE_BYTES: usize = 4096;
/// Threads beside several sites that may have a heap each: of the start, of signals, the control
/// thread, the links, the log, and those that run for a moment.
const OTHER_HEAPS: u64 = 8;

/// Sets the allocator up for a host with N sites, whose threads [`take_ahead`] what the options
/// say. [`crate::Server::start`] does it too; a program that has other threads before is to
/// do it first, because the C library settles the number of heaps when a second thread allocates
/// for the first time.
///
/// One site shares the heap of the process with the others, because only that one grows in large
/// steps, and in huge pages. Several sites have a heap each: messages of multi-partition
/// transactions are allocated and freed so often that one heap's lock took half of their time.
///
/// # Errors
/// The options would take more memory ahead than the host may use; the text names both.
pub fn prepare_allocator(options: &Options, sites: u32) -> io::Result<()> {
    let (ahead, limit) = (options.preallocate_bytes.get(), memory_limit_bytes(options));
    if limit > 0 && ahead >= limit {
        return Err(io::Error::other(format!(
            "preallocate_bytes is {ahead}, and the host may use {limit} bytes here (see \
             memory_limit_percent and memory_limit_bytes): ask for less"
        )));
    }
    set_up(ahead, sites);
    Ok(())
}

#[cfg(target_env = "gnu")]
fn set_up(ahead_bytes: u64, sites: u32) {
    let number = |bytes: u64| libc::c_int::try_from(bytes).unwrap_or(libc::c_int::MAX);
    let arenas = match sites {
        1 => 1,
        several => number(u64::from(several) + OTHER_HEAPS),
    };
    let (step, trim) = match ahead_bytes {
        0 => (STEP_BYTES, number(8 * STEP_BYTES)),
        // Free memory stays, but for what a full machine asks back.
        _ => (STEP_AHEAD_BYTES, -1),
    };
    // SAFETY: mallopt only stores numbers of the allocator, and may be called again.
    let accepted = unsafe {
        let mut accepted = libc::mallopt(libc::M_ARENA_MAX, arenas)
            & libc::mallopt(libc::M_TOP_PAD, number(step))
            & libc::mallopt(libc::M_TRIM_THRESHOLD, trim);
        if ahead_bytes > 0 {
            accepted &= libc::mallopt(libc::M_MMAP_THRESHOLD, number(2 * PIECE_BYTES));
        }
        accepted
    };
    if accepted == 0 {
        tracing::warn!("the allocator did not take its settings");
    }
}

#[cfg(not(target_env = "gnu"))]
fn set_up(_ahead_bytes: u64, _sites: u32) {}

/// Takes so much memory for the heap of this thread, touches each page of it, and leaves it to the
/// heap.
///
/// # Errors
/// The system has not got it.
pub(crate) fn take_ahead(bytes: u64) -> io::Result<()> {
    let mut pieces = Vec::new();
    let mut left = bytes;
    let mut taken = Ok(());
    while left > 0 && taken.is_ok() {
        let piece = left.min(PIECE_BYTES);
        match Piece::touched(piece as usize) {
            Some(piece) => pieces.push(piece),
            None => {
                taken = Err(io::Error::other(format!(
                    "preallocate_bytes: the system gave {} of {bytes} bytes that a site was to \
                     take ahead: ask for less",
                    bytes - left
                )));
            }
        }
        left -= piece;
    }
    taken
}

/// Memory that is freed when this is dropped.
struct Piece {
    memory: *mut u8,
    layout: Layout,
}

impl Piece {
    fn touched(bytes: usize) -> Option<Piece> {
        let layout = Layout::from_size_align(bytes, 1).ok()?;
        // SAFETY: the layout has a length, for `bytes` is above 0; each place written is inside.
        let memory = unsafe {
            let memory = alloc(layout);
            if memory.is_null() {
                return None;
            }
            for at in (0..bytes).step_by(PAGE_BYTES) {
                memory.add(at).write_volatile(0);
            }
            memory
        };
        Some(Piece { memory, layout })
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        // SAFETY: it was allocated with this layout, and nobody else has its address.
        unsafe { dealloc(self.memory, self.layout) };
    }
}
