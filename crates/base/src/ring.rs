//! A bounded queue from one thread to one other, without locks.
//!
//! The mailboxes between sites are made of these. The producer and the consumer each keep a
//! private copy of the other's position and read the shared one only when the copy says full or
//! empty, so a busy pair exchanges cache lines once a batch (Lamport's queue with cached
//! indices, as in Rigtorp's SPSCQueue).

use crate::prefetch;
use std::cell::UnsafeCell;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

#[repr(align(64))]
struct Padded<T>(T);

struct Shared<T> {
    slots: Box<[UnsafeCell<MaybeUninit<T>>]>,
    mask: usize,
    /// Number of items ever taken; written by the consumer only.
    head: Padded<AtomicUsize>,
    /// Number of items ever put; written by the producer only.
    tail: Padded<AtomicUsize>,
    closed: AtomicBool,
}

// SAFETY: a slot is written by the one producer before `tail` passes it (release) and read by the
// one consumer after it saw that `tail` (acquire), and the other way round with `head`; so no slot
// is ever touched by both at once, and `T: Send` lets the value cross threads.
unsafe impl<T: Send> Sync for Shared<T> {}
// SAFETY: as above; the ring owns its values.
unsafe impl<T: Send> Send for Shared<T> {}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        let tail = *self.tail.0.get_mut();
        let mut head = *self.head.0.get_mut();
        while head != tail {
            // SAFETY: items in head..tail were written and not taken; nobody else is left.
            unsafe { self.slots[head & self.mask].get_mut().assume_init_drop() };
            head = head.wrapping_add(1);
        }
    }
}

/// The putting end.
pub struct Producer<T> {
    shared: Arc<Shared<T>>,
    tail: usize,
    head_seen: usize,
}

/// The taking end.
pub struct Consumer<T> {
    shared: Arc<Shared<T>>,
    head: usize,
    tail_seen: usize,
}

/// A queue that holds at least `capacity` items (rounded up to a power of two).
pub fn ring<T: Send>(capacity: usize) -> (Producer<T>, Consumer<T>) {
    let size = capacity.max(2).next_power_of_two();
    let slots = (0..size).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
    let shared = Arc::new(Shared {
        slots,
        mask: size - 1,
        head: Padded(AtomicUsize::new(0)),
        tail: Padded(AtomicUsize::new(0)),
        closed: AtomicBool::new(false),
    });
    let consumer = Consumer { shared: Arc::clone(&shared), head: 0, tail_seen: 0 };
    (Producer { shared, tail: 0, head_seen: 0 }, consumer)
}

/// The memory of a slot is asked for N slots ahead, for it is with the other core.
const SLOTS_AHEAD: usize = 4;

/// The same for slots that are read, which were written by the other core.
const SLOTS_READ_AHEAD: usize = 2;

impl<T: Send> Producer<T> {
    /// Puts an item, or gives it back when the queue is full.
    #[inline]
    pub fn push(&mut self, item: T) -> Result<(), T> {
        self.put(item)?;
        self.show();
        Ok(())
    }

    /// As [`Producer::push`], but the other end sees the item only after [`Producer::show`].
    /// Several that are shown at once cost the two cores less than one after the other: the
    /// taker does not read what lies beside that which is written.
    #[inline]
    pub fn put(&mut self, item: T) -> Result<(), T> {
        if self.free() == 0 {
            return Err(item);
        }
        let slot = self.shared.slots[self.tail & self.shared.mask].get();
        // SAFETY: `free` said that the consumer is past this slot, and only this end writes.
        unsafe { (*slot).write(item) };
        self.tail = self.tail.wrapping_add(1);
        let ahead = self.tail.wrapping_add(SLOTS_AHEAD - 1) & self.shared.mask;
        let next = self.shared.slots[ahead].get().cast::<u8>();
        prefetch::line_to_write(next);
        prefetch::line_to_write(next.wrapping_add(size_of::<T>().saturating_sub(1)));
        Ok(())
    }

    /// Lets the other end see what was put.
    #[inline]
    pub fn show(&mut self) {
        self.shared.tail.0.store(self.tail, Ordering::Release);
    }

    /// Number of items that can be put now.
    #[inline]
    pub fn free(&mut self) -> usize {
        let size = self.shared.mask + 1;
        let used = self.tail.wrapping_sub(self.head_seen);
        if used < size {
            return size - used;
        }
        self.head_seen = self.shared.head.0.load(Ordering::Acquire);
        size - self.tail.wrapping_sub(self.head_seen)
    }

    /// True once the other end is gone: nothing put now will be taken.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T: Send> Consumer<T> {
    /// Takes the oldest item, if there is one.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let slot = self.shared.slots[self.head & self.shared.mask].get();
        // SAFETY: `is_empty` saw a tail past this slot, so it was written and not yet taken.
        let item = unsafe { (*slot).assume_init_read() };
        self.head = self.head.wrapping_add(1);
        // Only what is shown already: the producer still writes what comes after it.
        if self.tail_seen.wrapping_sub(self.head) > SLOTS_READ_AHEAD {
            let ahead = self.head.wrapping_add(SLOTS_READ_AHEAD) & self.shared.mask;
            prefetch::to_read(&self.shared.slots[ahead]);
        }
        self.shared.head.0.store(self.head, Ordering::Release);
        Some(item)
    }

    /// The item that comes next, if it is known to be there.
    #[inline]
    pub fn peek(&self) -> Option<&T> {
        if self.head == self.tail_seen {
            return None;
        }
        let slot = self.shared.slots[self.head & self.shared.mask].get();
        // SAFETY: `tail_seen` is past this slot, so it was written, and only this end takes it,
        // which the borrow of it rules out for as long as the item is looked at.
        Some(unsafe { (*slot).assume_init_ref() })
    }

    /// True when nothing is waiting.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        if self.head != self.tail_seen {
            return false;
        }
        self.tail_seen = self.shared.tail.0.load(Ordering::Acquire);
        self.head == self.tail_seen
    }

    /// True once the other end is gone: what is left can still be taken.
    pub fn is_closed(&self) -> bool {
        self.shared.closed.load(Ordering::Acquire)
    }
}

impl<T> Drop for Producer<T> {
    fn drop(&mut self) {
        self.shared.tail.0.store(self.tail, Ordering::Release);
        self.shared.closed.store(true, Ordering::Release);
    }
}

impl<T> Drop for Consumer<T> {
    fn drop(&mut self) {
        self.shared.closed.store(true, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_ring_gives_the_item_back_and_order_is_kept() {
        let (mut producer, mut consumer) = ring(4);
        for i in 0..4 {
            assert_eq!(producer.push(i), Ok(()));
        }
        assert_eq!(producer.push(9), Err(9));
        assert_eq!(consumer.pop(), Some(0));
        assert_eq!(producer.push(4), Ok(()));
        assert_eq!(std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }

    #[test]
    fn what_is_put_is_seen_when_it_is_shown() {
        let (mut producer, mut consumer) = ring(4);
        for i in 0..3 {
            assert_eq!(producer.put(i), Ok(()));
        }
        assert!(consumer.is_empty());
        producer.show();
        assert_eq!(consumer.peek(), None);
        assert!(!consumer.is_empty());
        assert_eq!((consumer.peek(), consumer.peek()), (Some(&0), Some(&0)));
        assert_eq!(std::iter::from_fn(|| consumer.pop()).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!(producer.put(3), Ok(()));
        drop(producer);
        assert_eq!(consumer.pop(), Some(3));
    }

    #[test]
    #[allow(clippy::disallowed_methods)]
    fn nothing_is_lost_or_doubled_between_two_threads() {
        let (mut producer, mut consumer) = ring::<Box<u64>>(64);
        let count = 200_000u64;
        let putter = std::thread::spawn(move || {
            for i in 0..count {
                let mut item = Box::new(i);
                while let Err(back) = producer.push(item) {
                    item = back;
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 0;
        while expected < count {
            match consumer.pop() {
                Some(item) => {
                    assert_eq!(*item, expected);
                    expected += 1;
                }
                None => std::thread::yield_now(),
            }
        }
        putter.join().expect("the putter only pushes");
        assert!(consumer.is_closed());
    }

    #[test]
    fn items_left_behind_are_dropped() {
        let item = Arc::new(());
        let (mut producer, consumer) = ring(8);
        for _ in 0..5 {
            assert!(producer.push(Arc::clone(&item)).is_ok());
        }
        drop(producer);
        drop(consumer);
        assert_eq!(Arc::strong_count(&item), 1);
    }
}
