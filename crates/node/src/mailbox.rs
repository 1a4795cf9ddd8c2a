//! Mailboxes between the threads of a host: one bounded ring for each ordered pair of threads,
//! and a wake-up that costs nothing while the receiver is awake.
//!
//! A sender never blocks. What does not fit the ring waits in the sender's overflow list, and a
//! sender with an overflow stops reading from its sockets until the list is empty, so memory is
//! bounded by what is already in flight.

use lockstep_base::ring::{Consumer, Producer, ring};
use mio::Waker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Tells a thread that something waits for it.
pub struct Bell {
    waker: Waker,
    sleeping: AtomicBool,
}

impl Bell {
    /// A bell that wakes the poll which `waker` belongs to.
    pub fn new(waker: Waker) -> Arc<Bell> {
        Arc::new(Bell { waker, sleeping: AtomicBool::new(false) })
    }

    /// The thread is about to sleep: after this it must look at its mailboxes once more.
    pub fn prepare_sleep(&self) {
        self.sleeping.store(true, Ordering::Relaxed);
        // Orders the store before the look into the mailboxes; pairs with the fence in `ring`,
        // so that either the sender sees the flag or the sleeper sees the message.
        fence(Ordering::SeqCst);
    }

    /// The thread is awake.
    pub fn awake(&self) {
        self.sleeping.store(false, Ordering::Relaxed);
    }

    /// Wakes the thread if it sleeps, or is about to.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.swap(false, Ordering::Relaxed) {
            // The eventfd behind a waker only fails when it is closed: then nobody listens.
            let _ = self.waker.wake();
        }
    }
}

/// The sending side of one thread: a ring to each other thread.
pub struct Outbox<M> {
    lanes: Vec<Option<Lane<M>>>,
    overflowing: usize,
}

struct Lane<M> {
    producer: Producer<M>,
    bell: Arc<Bell>,
    overflow: VecDeque<M>,
    rung: bool,
}

/// The receiving side of one thread: a ring from each other thread.
pub struct Inbox<M> {
    lanes: Vec<Consumer<M>>,
}

/// Makes the mailboxes of a host: one outbox and one inbox for each bell, each ring holding
/// `capacity` messages. A thread has no ring to itself.
pub fn mailboxes<M: Send>(bells: &[Arc<Bell>], capacity: usize) -> Vec<(Outbox<M>, Inbox<M>)> {
    let mut all: Vec<(Outbox<M>, Inbox<M>)> = bells
        .iter()
        .map(|_| (Outbox { lanes: Vec::new(), overflowing: 0 }, Inbox { lanes: Vec::new() }))
        .collect();
    for from in 0..bells.len() {
        for (to, bell) in bells.iter().enumerate() {
            if from == to {
                all[from].0.lanes.push(None);
                continue;
            }
            let (producer, consumer) = ring(capacity);
            let bell = Arc::clone(bell);
            let lane = Lane { producer, bell, overflow: VecDeque::new(), rung: false };
            all[from].0.lanes.push(Some(lane));
            all[to].1.lanes.push(consumer);
        }
    }
    all
}

impl<M: Send> Outbox<M> {
    /// Sends a message to another thread. It is seen at the latest after [`Outbox::flush`].
    pub fn send(&mut self, to: usize, message: M) {
        let lane = self.lanes[to].as_mut().expect("a thread sends to others, not to itself");
        lane.rung = true;
        if !lane.overflow.is_empty() {
            lane.overflow.push_back(message);
            return;
        }
        if let Err(message) = lane.producer.push(message) {
            lane.overflow.push_back(message);
            self.overflowing += 1;
        }
    }

    /// Moves waiting messages into rings that have room again, and wakes sleeping receivers.
    /// Called once per round of the loop, so that a batch costs one wake-up.
    pub fn flush(&mut self) {
        for lane in self.lanes.iter_mut().flatten() {
            if !lane.overflow.is_empty() {
                while let Some(message) = lane.overflow.pop_front() {
                    if let Err(message) = lane.producer.push(message) {
                        lane.overflow.push_front(message);
                        break;
                    }
                    lane.rung = true;
                }
                if lane.overflow.is_empty() {
                    self.overflowing -= 1;
                }
            }
            if std::mem::take(&mut lane.rung) {
                lane.bell.ring();
            }
        }
    }

    /// True while some receiver is behind: the sender takes no new work from outside.
    pub fn is_overflowing(&self) -> bool {
        self.overflowing > 0
    }
}

impl<M: Send> Inbox<M> {
    /// Takes the next message from sender lane `lane` (0 to [`Inbox::lane_count`]).
    #[inline]
    pub fn take(&mut self, lane: usize) -> Option<M> {
        self.lanes[lane].pop()
    }

    /// Number of senders.
    pub fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// True when nothing waits.
    pub fn is_empty(&mut self) -> bool {
        self.lanes.iter_mut().all(|lane| lane.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Poll, Token};

    #[test]
    fn overflow_keeps_order_and_drains_when_there_is_room() {
        let polls: Vec<Poll> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let bell = |poll: &Poll| Bell::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let bells: Vec<_> = polls.iter().map(bell).collect();
        let mut boxes = mailboxes::<u32>(&bells, 4);
        let (_, mut inbox) = boxes.pop().expect("two");
        let (mut outbox, _) = boxes.pop().expect("two");
        for i in 0..10 {
            outbox.send(1, i);
        }
        assert!(outbox.is_overflowing());
        let mut seen = Vec::new();
        while seen.len() < 10 {
            outbox.flush();
            seen.extend(std::iter::from_fn(|| inbox.take(0)));
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        assert!(!outbox.is_overflowing() && inbox.is_empty());
    }
}
