//! Mailboxes between the threads of a host: two bounded rings for each ordered pair of threads,
//! and a wake-up that costs nothing while the receiver is awake.
//!
//! One of the two rings is for urgent messages: those for which somebody keeps what it does
//! ready to be undone. A receiver looks for them between any two calls, by a flag that all
//! senders share, and they overtake all others. Each ring keeps its own order.
//!
//! A sender never blocks. What does not fit the ring waits in the sender's overflow list, and a
//! sender with an overflow stops reading from its sockets until the list is empty, so memory is
//! bounded by what is already in flight.
//!
//! What goes to a thread of another host is put into its byte form by the sender and goes to the
//! thread of the links, which hands it over ([`crate::links`]). Messages that are not urgent and go
//! to the same thread of another host travel together: they stay with the sender until they are
//! enough, or until its round ends.

use lockstep_base::ring::{Consumer, Producer, ring};
use lockstep_types::{HostId, ThreadId};
use mio::Waker;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// Tells a thread that something waits for it.
pub struct Bell {
    waker: Waker,
    sleeping: AtomicBool,
    hurry: Hurry,
}

/// Set after each urgent message. On a cache line of its own, which only they change.
#[repr(align(128))]
struct Hurry(AtomicBool);

impl Bell {
    /// A bell that wakes the poll which `waker` belongs to.
    pub fn new(waker: Waker) -> Arc<Bell> {
        let hurry = Hurry(AtomicBool::new(false));
        Arc::new(Bell { waker, sleeping: AtomicBool::new(false), hurry })
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
            // The eventfd of a waker only fails when it is closed: then nobody listens.
            let _ = self.waker.wake();
        }
    }

    /// An urgent message is in its ring. Stored whatever the flag says: it may be taken away just
    /// now by a receiver that does not see the message yet.
    fn hurry(&self) {
        self.hurry.0.store(true, Ordering::Release);
    }

    #[inline]
    fn is_hurried(&self) -> bool {
        self.hurry.0.load(Ordering::Relaxed)
    }

    /// Takes the flag away: the one that set it has put its message before.
    #[inline]
    fn take_hurry(&self) -> bool {
        self.is_hurried() && self.hurry.0.swap(false, Ordering::Acquire)
    }
}

/// A message that may be for a thread of another host.
pub trait Crossing: Send + Sized {
    /// Memory that is kept for such messages.
    type Spare: Default;

    /// The message for the thread of the links, which brings it to a thread of another host.
    fn to_other_host(self, to: ThreadId, spare: &mut Self::Spare) -> Self;

    /// Whether this message for the thread of the links can bring another one along, which goes to
    /// the same thread.
    fn takes_along(&self, other: &Self) -> bool;

    /// It brings the other one along.
    fn take_along(&mut self, other: Self, spare: &mut Self::Spare);
}

/// Threads of other hosts for which a sender keeps messages.
const OPEN_MAX: usize = 32;

/// The threads of a host, as its mailboxes know them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Own {
    /// The host.
    pub host: HostId,
    /// The thread that exchanges messages with other hosts; any where there are no others.
    pub links: ThreadId,
}

/// The sending side of one thread: its rings to each other thread.
pub struct Outbox<M: Crossing> {
    own: Own,
    /// Memory of messages that were sent and taken.
    pub spare: M::Spare,
    /// By receiver, what goes to a thread of another host and may still bring more along.
    open: Vec<(ThreadId, M)>,
    lanes: Vec<Option<Lane<M>>>,
    overflowing: usize,
    /// Urgent messages were sent and not shown yet.
    unseen: bool,
}

struct Lane<M> {
    usual: Queue<M>,
    urgent: Queue<M>,
    bell: Arc<Bell>,
    rung: bool,
    /// See [`Outbox::unseen`].
    unseen: bool,
}

/// A ring, and what does not fit it.
struct Queue<M> {
    producer: Producer<M>,
    overflow: VecDeque<M>,
}

impl<M: Send> Queue<M> {
    fn new(producer: Producer<M>) -> Queue<M> {
        Queue { producer, overflow: VecDeque::new() }
    }

    /// Puts a message that is seen when the producer shows it; true when it is the first that
    /// does not fit.
    #[inline]
    fn put(&mut self, message: M) -> bool {
        if !self.overflow.is_empty() {
            self.overflow.push_back(message);
            return false;
        }
        match self.producer.put(message) {
            Ok(()) => false,
            Err(message) => {
                self.overflow.push_back(message);
                true
            }
        }
    }

    /// Moves what waits into the ring, as far as there is room; how many messages.
    fn refill(&mut self) -> usize {
        let mut moved = 0;
        while let Some(message) = self.overflow.pop_front() {
            if let Err(message) = self.producer.push(message) {
                self.overflow.push_front(message);
                break;
            }
            moved += 1;
        }
        moved
    }
}

/// The receiving side of one thread: its rings from each other thread.
pub struct Inbox<M> {
    lanes: Vec<Consumer<M>>,
    urgent: Vec<Consumer<M>>,
    /// The urgent ring that is emptied; after the last one when none is.
    emptied: usize,
    bell: Arc<Bell>,
}

/// Urgent rings hold fewer messages: there is one for each transaction in progress and partition.
const URGENT_PART: usize = 4;

/// Makes the mailboxes of a host: one outbox and one inbox for each bell, each ring holding
/// `capacity` messages, those for urgent ones a part of that. A thread has no ring to itself.
pub fn mailboxes<M: Crossing>(
    own: Own,
    bells: &[Arc<Bell>],
    capacity: usize,
) -> Vec<(Outbox<M>, Inbox<M>)> {
    let mut all: Vec<(Outbox<M>, Inbox<M>)> = bells
        .iter()
        .map(|bell| {
            let (lanes, urgent, bell) = (Vec::new(), Vec::new(), Arc::clone(bell));
            let inbox = Inbox { lanes, urgent, emptied: 0, bell };
            let spare = M::Spare::default();
            let (lanes, open) = (Vec::new(), Vec::new());
            (Outbox { own, spare, open, lanes, overflowing: 0, unseen: false }, inbox)
        })
        .collect();
    for from in 0..bells.len() {
        for (to, bell) in bells.iter().enumerate() {
            if from == to {
                all[from].0.lanes.push(None);
                continue;
            }
            let (usual, taken) = ring(capacity);
            let (urgent, taken_first) = ring(capacity / URGENT_PART);
            let (usual, urgent) = (Queue::new(usual), Queue::new(urgent));
            let bell = Arc::clone(bell);
            let lane = Lane { usual, urgent, bell, rung: false, unseen: false };
            all[from].0.lanes.push(Some(lane));
            all[to].1.lanes.push(taken);
            all[to].1.urgent.push(taken_first);
            all[to].1.emptied += 1;
        }
    }
    all
}

impl<M: Crossing> Outbox<M> {
    /// The lane to a thread of this host, and the number of lanes that overflow.
    #[inline]
    fn lane(&mut self, to: ThreadId) -> (&mut Lane<M>, &mut usize) {
        let lane =
            self.lanes[to.index()].as_mut().expect("a thread sends to others, not to itself");
        lane.rung = true;
        (lane, &mut self.overflowing)
    }

    /// Sends a message to another thread. It is seen at the latest after [`Outbox::flush`].
    #[inline]
    pub fn send(&mut self, to: ThreadId, message: M) {
        if to.host() != self.own.host {
            return self.send_out(to, message);
        }
        if !self.open.is_empty() && to == self.own.links {
            // What is for the links themselves may be about what was sent before.
            self.close();
        }
        self.send_here(to, message);
    }

    #[inline]
    fn send_here(&mut self, to: ThreadId, message: M) {
        let (lane, overflowing) = self.lane(to);
        *overflowing += usize::from(lane.usual.put(message));
        lane.usual.producer.show();
    }

    /// Sends a message that is not urgent to a thread of another host.
    #[inline]
    fn send_out(&mut self, to: ThreadId, message: M) {
        match self.open.iter_mut().rfind(|(receiver, _)| *receiver == to) {
            Some((_, open)) if open.takes_along(&message) => {
                open.take_along(message, &mut self.spare);
            }
            Some((_, open)) => {
                let full = std::mem::replace(open, message.to_other_host(to, &mut self.spare));
                self.send_here(self.own.links, full);
            }
            None => {
                if self.open.len() == OPEN_MAX {
                    self.close();
                }
                self.open.push((to, message.to_other_host(to, &mut self.spare)));
            }
        }
    }

    /// What is for other hosts brings nothing more along: it goes to the thread of the links, which
    /// is not woken. A sender whose round may take long from here calls it.
    pub fn close(&mut self) {
        let mut open = std::mem::take(&mut self.open);
        open.drain(..).for_each(|(_, message)| self.send_here(self.own.links, message));
        self.open = open;
    }

    /// Sends a message that is not urgent and is seen with the urgent ones.
    pub fn send_beside_urgent(&mut self, to: ThreadId, message: M) {
        if to.host() != self.own.host {
            self.unseen = true;
            return self.send_out(to, message);
        }
        let (lane, overflowing) = self.lane(to);
        *overflowing += usize::from(lane.usual.put(message));
        lane.unseen = true;
        self.unseen = true;
    }

    /// Sends a message that the receiver takes before its next call, before all usual ones. It is
    /// seen after [`Outbox::show_urgent`], at the latest after [`Outbox::flush`].
    #[inline]
    pub fn send_urgent(&mut self, to: ThreadId, message: M) {
        if to.host() != self.own.host {
            let message = message.to_other_host(to, &mut self.spare);
            return self.send_urgent(self.own.links, message);
        }
        let (lane, overflowing) = self.lane(to);
        *overflowing += usize::from(lane.urgent.put(message));
        lane.unseen = true;
        self.unseen = true;
    }

    /// Lets the receivers see the urgent messages that were sent: several at once, because each
    /// look of theirs at what is just being written makes both cores wait for each other.
    #[inline]
    pub fn show_urgent(&mut self) {
        if !std::mem::take(&mut self.unseen) {
            return;
        }
        self.close();
        for lane in self.lanes.iter_mut().flatten() {
            if std::mem::take(&mut lane.unseen) {
                lane.usual.producer.show();
                lane.urgent.producer.show();
                lane.bell.hurry();
            }
        }
    }

    /// Moves waiting messages into rings that have room again, and wakes sleeping receivers.
    /// Called once per round of the loop, so that a batch costs one wake-up.
    pub fn flush(&mut self) {
        if self.flush_here() {
            self.ring_links();
        }
    }

    /// As [`Outbox::flush`], but for the thread of the links, which is not woken; whether it has
    /// messages.
    pub fn flush_here(&mut self) -> bool {
        self.show_urgent();
        self.close();
        let (links, mut has_links_messages) = (self.own.links.index(), false);
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            let Some(lane) = lane else { continue };
            for (queue, is_urgent) in [(&mut lane.usual, false), (&mut lane.urgent, true)] {
                if queue.overflow.is_empty() {
                    continue;
                }
                let moved = queue.refill();
                lane.rung |= moved > 0;
                if is_urgent && moved > 0 {
                    lane.bell.hurry();
                }
                self.overflowing -= usize::from(queue.overflow.is_empty());
            }
            match std::mem::take(&mut lane.rung) {
                true if number == links => has_links_messages = true,
                true => lane.bell.ring(),
                false => {}
            }
        }
        has_links_messages
    }

    fn ring_links(&self) {
        if let Some(Some(lane)) = self.lanes.get(self.own.links.index()) {
            lane.bell.ring();
        }
    }

    /// True while some receiver lags: the sender takes no new work from outside.
    pub fn is_overflowing(&self) -> bool {
        self.overflowing > 0
    }

    /// True while a message is not on its way: the sender does not wait for long.
    pub fn has_unsent(&self) -> bool {
        self.is_overflowing() || !self.open.is_empty()
    }
}

impl<M: Crossing> Outbox<M> {
    /// Messages that wait for space in their rings.
    pub fn overflow(&self) -> usize {
        let lanes = self.lanes.iter().flatten();
        lanes.map(|lane| lane.usual.overflow.len() + lane.urgent.overflow.len()).sum()
    }
}

impl<M: Send> Inbox<M> {
    /// Whether there is an urgent message, as far as is known here.
    #[inline]
    pub fn is_hurried(&self) -> bool {
        self.emptied < self.urgent.len() || self.bell.is_hurried()
    }

    /// Takes an urgent message, of whichever sender; each one's in their order.
    pub fn take_urgent(&mut self) -> Option<M> {
        loop {
            while let Some(lane) = self.urgent.get_mut(self.emptied) {
                if let Some(message) = lane.pop() {
                    return Some(message);
                }
                self.emptied += 1;
            }
            if !self.bell.take_hurry() {
                return None;
            }
            self.emptied = 0;
        }
    }

    /// The urgent message that is taken next, where it is known already.
    #[inline]
    pub fn next_urgent(&self) -> Option<&M> {
        self.urgent.get(self.emptied).and_then(Consumer::peek)
    }

    /// The next message that is not urgent from a sender lane, where it is known already.
    #[inline]
    pub fn next_usual(&self, lane: usize) -> Option<&M> {
        self.lanes[lane].peek()
    }

    /// Takes the next message that is not urgent from sender lane `lane` (0 to
    /// [`Inbox::lane_count`]).
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
        !self.is_hurried() && self.lanes.iter_mut().all(|lane| lane.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Poll, Token};

    const OWN: Own = Own { host: HostId(0), links: ThreadId(0) };

    impl Crossing for u32 {
        type Spare = ();

        /// The receiver in the high half.
        fn to_other_host(self, to: ThreadId, (): &mut ()) -> u32 {
            self | u32::from(to.0) << 16
        }

        /// Two numbers at the most, below 16.
        fn takes_along(&self, other: &u32) -> bool {
            self & 0xfff0 == 0 && *other < 16
        }

        /// The one before, in the next four bits.
        fn take_along(&mut self, other: u32, (): &mut ()) {
            *self = (*self & 0xffff_0000) | (*self & 15) << 4 | other;
        }
    }

    #[test]
    fn what_is_for_another_host_goes_to_the_links() {
        let polls: Vec<Poll> = (0..3).map(|_| Poll::new().expect("a poll")).collect();
        let bell = |poll: &Poll| Bell::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let bells: Vec<_> = polls.iter().map(bell).collect();
        let own = Own { host: HostId(2), links: ThreadId::at(HostId(2), 1) };
        let mut boxes = mailboxes::<u32>(own, &bells, 4);
        let (_, mut other_site) = boxes.pop().expect("three");
        let (_, mut links) = boxes.pop().expect("three");
        let (mut outbox, _) = boxes.pop().expect("three");
        outbox.send(ThreadId::at(HostId(2), 2), 5);
        outbox.send(ThreadId::at(HostId(0), 2), 6);
        outbox.send_urgent(ThreadId::at(HostId(3), 0), 7);
        assert!(outbox.flush_here(), "the links have messages");
        assert!(!outbox.flush_here(), "it was said");
        assert_eq!((other_site.take(0), other_site.take(0)), (Some(5), None));
        assert_eq!((links.take(0), links.take(0)), (Some(0x0002_0006), None));
        assert_eq!(links.take_urgent(), Some(0x0300_0007));
    }

    #[test]
    fn messages_to_the_same_thread_of_another_host_go_together_in_their_order() {
        let polls: Vec<Poll> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let bell = |poll: &Poll| Bell::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let bells: Vec<_> = polls.iter().map(bell).collect();
        let own = Own { host: HostId(0), links: ThreadId(1) };
        let mut boxes = mailboxes::<u32>(own, &bells, 256);
        let (_, mut links) = boxes.pop().expect("two");
        let (mut outbox, _) = boxes.pop().expect("two");
        let mut taken = || std::iter::from_fn(|| links.take(0)).collect::<Vec<_>>();
        let (first, second) = (ThreadId::at(HostId(1), 0), ThreadId::at(HostId(2), 0));
        for (to, number) in [(first, 1), (second, 2), (first, 3), (first, 4), (second, 99)] {
            outbox.send(to, number);
        }
        assert_eq!(taken(), [0x0100_0013, 0x0200_0002], "what takes nothing more along");
        assert!(outbox.flush_here(), "the links have messages");
        assert_eq!(taken(), [0x0100_0004, 0x0200_0063]);
        outbox.send(first, 5);
        outbox.send(ThreadId(1), 6);
        assert_eq!(taken(), [0x0100_0005, 6], "the links hear of nothing before it");
        outbox.send(first, 7);
        outbox.send_beside_urgent(second, 8);
        outbox.show_urgent();
        assert_eq!(taken(), [0x0100_0007, 0x0200_0008]);
        let receivers = || (1..=OPEN_MAX as u32 + 1).map(|host| ThreadId::at(HostId(host), 0));
        receivers().for_each(|to| outbox.send(to, 1));
        assert_eq!(taken().len(), OPEN_MAX, "a sender keeps messages for OPEN_MAX threads");
    }

    #[test]
    fn overflow_keeps_order_and_drains_when_there_is_room() {
        let polls: Vec<Poll> = (0..2).map(|_| Poll::new().expect("a poll")).collect();
        let bell = |poll: &Poll| Bell::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let bells: Vec<_> = polls.iter().map(bell).collect();
        let mut boxes = mailboxes::<u32>(OWN, &bells, 4);
        let (_, mut inbox) = boxes.pop().expect("two");
        let (mut outbox, _) = boxes.pop().expect("two");
        for i in 0..10 {
            outbox.send(ThreadId(1), i);
        }
        assert!(outbox.is_overflowing());
        assert_eq!(outbox.overflow(), 6);
        let mut seen = Vec::new();
        while seen.len() < 10 {
            outbox.flush();
            seen.extend(std::iter::from_fn(|| inbox.take(0)));
        }
        assert_eq!(seen, (0..10).collect::<Vec<_>>());
        assert!(!outbox.is_overflowing() && inbox.is_empty());
    }

    #[test]
    fn urgent_messages_overtake_the_others_and_keep_their_order() {
        let polls: Vec<Poll> = (0..3).map(|_| Poll::new().expect("a poll")).collect();
        let bell = |poll: &Poll| Bell::new(Waker::new(poll.registry(), Token(0)).expect("a waker"));
        let bells: Vec<_> = polls.iter().map(bell).collect();
        let mut boxes = mailboxes::<u32>(OWN, &bells, 16);
        let (_, mut inbox) = boxes.pop().expect("three");
        let (mut second, _) = boxes.pop().expect("three");
        let (mut first, _) = boxes.pop().expect("three");
        assert!(inbox.is_empty() && inbox.take_urgent().is_none());
        first.send(ThreadId(2), 100);
        assert!(!inbox.is_hurried() && !inbox.is_empty());
        // More than the ring holds.
        (0..6).for_each(|number| first.send_urgent(ThreadId(2), number));
        assert!(!inbox.is_hurried());
        first.show_urgent();
        second.send_urgent(ThreadId(2), 10);
        second.show_urgent();
        let mut seen = Vec::new();
        while first.is_overflowing() || inbox.is_hurried() {
            seen.extend(std::iter::from_fn(|| inbox.take_urgent()));
            first.flush();
        }
        assert_eq!(seen, [0, 1, 2, 3, 10, 4, 5]);
        assert_eq!((inbox.take(0), inbox.take(1)), (Some(100), None));
        assert!(inbox.is_empty());
    }
}
