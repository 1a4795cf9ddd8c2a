//! Asking for memory that is needed soon and was last used on another core. Shows nowhere but in
//! the time that the use takes.

use std::sync::Arc;

/// Bytes that a processor moves at once.
const LINE_BYTES: usize = 64;
/// Lines that one call asks for at most.
const MOST_LINES: usize = 8;

/// Asks for the memory of a value that is read soon; what it points to is another matter.
#[inline(always)]
pub fn to_read<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for line in 0..size_of_val(value).div_ceil(LINE_BYTES).min(MOST_LINES) {
        line_to_read(start.wrapping_add(line * LINE_BYTES));
    }
}

/// Asks for the memory of a value that is written soon.
#[inline(always)]
pub fn to_write<T: ?Sized>(value: &T) {
    let start = std::ptr::from_ref(value).cast::<u8>();
    for line in 0..size_of_val(value).div_ceil(LINE_BYTES).min(MOST_LINES) {
        line_to_write(start.wrapping_add(line * LINE_BYTES));
    }
}

/// Asks for the counts of those that share a value, which are in front of it: it is shared with one
/// more, or with one fewer, soon. Where the standard library has them elsewhere this does nothing.
#[inline(always)]
pub fn counts_to_write<T>(shared: &Arc<T>) {
    let before = align_of::<T>().max(2 * size_of::<usize>());
    line_to_write(Arc::as_ptr(shared).cast::<u8>().wrapping_sub(before));
}

/// The same for the memory at an address, of a byte as it may be.
#[inline(always)]
pub fn line_to_write(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch neither reads nor writes as far as the program can tell, whatever the
    // address; processors without the instruction take it for none.
    unsafe {
        std::arch::asm!(
            "prefetchw [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[inline(always)]
fn line_to_read(address: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: as above.
    unsafe {
        std::arch::asm!(
            "prefetcht0 [{0}]",
            in(reg) address,
            options(nostack, preserves_flags, readonly)
        );
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

#[cfg(test)]
mod tests {
    #[test]
    fn nothing_changes_by_asking() {
        let value = [7u8; 1000];
        super::to_read(&value);
        super::to_write(&value[3..]);
        super::to_read::<[u8]>(&[]);
        super::line_to_write(std::ptr::null());
        super::counts_to_write(&std::sync::Arc::new(7u8));
        assert_eq!(value, [7; 1000]);
    }
}
