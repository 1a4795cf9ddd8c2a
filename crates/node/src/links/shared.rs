//! The links as the threads of a host work at them: one at a time, and a site never waits.
//!
//! The thread of the links waits for sockets and for time. To wake it for a message, and to be
//! woken by it for the answer, costs a site more than the system calls that move the bytes. So a
//! site that has messages for other hosts exchanges them itself at the end of its round, and sites
//! hear what other hosts send ([`super::watch`]). Where another thread is at the links, that one
//! does it once more. The thread of the links does what time makes due, and what a site has no time
//! for: while sites work it looks at the sockets every few milliseconds, for a call may take long.

use super::{Formed, Links, LinksParts};
use crate::mailbox::Bell;
use crate::shard::{HostFacts, Shard};
use lockstep_types::HostId;
use mio::{Events, Poll};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering, fence};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A thread has sent messages to other hosts.
const SENT: u8 = 1;
/// Other hosts may have sent something.
const HEARD: u8 = 2;
/// All that is due is to be done: a log has written entries, for one.
const ALL: u8 = 4;
/// The thread of the links looks at its clocks and at all sockets at least this often.
const TICK: Duration = Duration::from_millis(10);
/// While sites work, which may do so for long, and before there are any.
const BUSY_TICK: Duration = Duration::from_millis(4);
/// Ticks after which sites that do not work count as idle.
const IDLE_TICKS: u32 = 25;
/// How soon it looks again while a thread of this host has no room for messages.
const OVERFLOW_TICK: Duration = Duration::from_micros(50);
/// Rounds that a site makes because others have asked meanwhile, before it leaves that to the
/// thread of the links.
const ROUNDS_MAX: usize = 4;

/// Words with a bit for each host.
const HEARD_WORDS: usize = HostId::LIMIT.div_ceil(u64::BITS) as usize;

/// What a round has left to do, for the thread of the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Nothing that cannot wait for the next tick; or another thread is at the links.
    Nothing,
    /// Messages that other threads have sent.
    Messages,
    /// A thread of this host has no room for messages.
    Overflow,
    /// The thread of the links is to end.
    End,
}

/// The links of a host.
pub(crate) struct SharedLinks {
    /// `None` once their thread has ended.
    links: Mutex<Option<Links>>,
    /// What threads want that found another one at the links.
    asked: AtomicU8,
    /// A bit for each host that may have sent something: with [`HEARD`] those are looked at.
    heard: [AtomicU64; HEARD_WORDS],
    bell: Arc<Bell>,
    facts: Arc<HostFacts>,
    /// The cluster is formed.
    is_formed: AtomicBool,
}

impl SharedLinks {
    /// The links, and the poll with which their thread waits. `formed` gets one message: when all
    /// hosts are connected and agree, or why they do not.
    ///
    /// # Errors
    /// The poll takes no more sockets, or a name is too long for a link.
    pub(crate) fn new(
        parts: LinksParts,
        formed: SyncSender<Result<Formed, String>>,
    ) -> io::Result<(Arc<SharedLinks>, Poll)> {
        let (bell, facts) = (Arc::clone(&parts.bell), Arc::clone(&parts.facts));
        let (links, poll) = Links::new(parts, formed)?;
        let shared = SharedLinks {
            links: Mutex::new(Some(links)),
            asked: AtomicU8::new(0),
            heard: Default::default(),
            bell,
            facts,
            is_formed: AtomicBool::new(false),
        };
        Ok((Arc::new(shared), poll))
    }

    /// The thread of the links: runs until it is stopped. However it ends, by a panic too, the
    /// links are dropped, and with them the sender that the start of the host waits for.
    ///
    /// # Errors
    /// The poll failed, or the cluster is lost.
    pub(crate) fn run(&self, poll: Poll) -> io::Result<()> {
        struct Ending<'l>(&'l SharedLinks);
        impl Drop for Ending<'_> {
            fn drop(&mut self) {
                drop(self.0.lock().take());
            }
        }
        let _ending = Ending(self);
        self.exchange_until_end(poll)
    }

    fn exchange_until_end(&self, mut poll: Poll) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        let mut ticks = Ticks::default();
        loop {
            // What is sent from now on rings the bell, what was sent before is taken now.
            self.bell.prepare_sleep();
            let sleep = match self.attend_to(&events) {
                Left::Nothing => ticks.next(self.are_sites_idle()),
                Left::Messages => Duration::ZERO,
                Left::Overflow => OVERFLOW_TICK,
                Left::End => break,
            };
            match poll.poll(&mut events, Some(sleep)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => events.clear(),
                other => other?,
            }
            self.bell.awake();
        }
        let ended = self.lock().take().and_then(Links::finish);
        ended.expect("it was to end")
    }

    /// A round of the thread of the links, with what its poll has.
    fn attend_to(&self, events: &Events) -> Left {
        if events.iter().all(|event| event.token() == Shard::waker_token()) {
            // Without the bell only time has passed: what it makes due may be done already.
            return self.ask(if events.is_empty() { 0 } else { ALL });
        }
        let mut guard = self.lock();
        let links = guard.as_mut().expect("they go with this thread");
        self.asked.store(0, Ordering::SeqCst);
        links.begin_round(true, true);
        links.look_at_all();
        events.iter().for_each(|event| links.note_event(event));
        let left = self.exchange(links);
        drop(guard);
        match left {
            Left::Nothing if self.is_asked() => Left::Messages,
            left => left,
        }
    }

    /// Whether the cluster is formed, and all sites sleep: those hear what other hosts send.
    fn are_sites_idle(&self) -> bool {
        let is_formed = self.is_formed.load(Ordering::Relaxed);
        is_formed && self.facts.site_runs.rounds().all(|since_us| since_us.is_none())
    }

    /// The calling site has sent messages to other hosts.
    #[inline]
    pub(crate) fn send(&self) {
        self.leave(self.ask(SENT));
    }

    /// The calling site has heard that these hosts have sent something.
    #[inline]
    pub(crate) fn hear(&self, hosts: impl Iterator<Item = HostId>) {
        for host in hosts {
            let (word, bit) = (host.0 / u64::BITS, host.0 % u64::BITS);
            self.heard[word as usize].fetch_or(1 << bit, Ordering::SeqCst);
        }
        self.leave(self.ask(HEARD));
    }

    /// Any host may have sent something: the calling site has not asked its poll.
    pub(crate) fn hear_all(&self) {
        self.heard.iter().for_each(|word| word.store(u64::MAX, Ordering::SeqCst));
        self.hear(std::iter::empty());
    }

    fn leave(&self, left: Left) {
        if left != Left::Nothing {
            self.bell.ring();
        }
    }

    /// Exchanges messages, unless another thread is at it: that one then does it after this.
    fn ask(&self, what: u8) -> Left {
        self.asked.fetch_or(what, Ordering::SeqCst);
        for _ in 0..ROUNDS_MAX {
            // After a panic at the links the host stops.
            let Ok(mut guard) = self.links.try_lock() else { return Left::Nothing };
            let Some(links) = guard.as_mut() else { return Left::Nothing };
            let asked = self.asked.swap(0, Ordering::SeqCst);
            links.begin_round(asked & ALL != 0, asked & HEARD != 0);
            if asked & HEARD != 0 {
                self.look_at_heard(links);
            }
            let left = self.exchange(links);
            drop(guard);
            if left != Left::Nothing || !self.is_asked() {
                return left;
            }
        }
        Left::Messages
    }

    fn look_at_heard(&self, links: &mut Links) {
        for (number, word) in self.heard.iter().enumerate() {
            // Who asks for it has set it before.
            if word.load(Ordering::SeqCst) == 0 {
                continue;
            }
            let mut left = word.swap(0, Ordering::SeqCst);
            while left != 0 {
                links.look_at(number * u64::BITS as usize + left.trailing_zeros() as usize);
                left &= left - 1;
            }
        }
    }

    /// After the lock was given back: whether a thread found it taken meanwhile.
    fn is_asked(&self) -> bool {
        // Orders the end of the lock before the look: either this thread sees what another one has
        // asked for, or that one finds the lock free.
        fence(Ordering::SeqCst);
        self.asked.load(Ordering::SeqCst) != 0
    }

    /// The round itself.
    fn exchange(&self, links: &mut Links) -> Left {
        if links.has_ended() {
            return Left::End;
        }
        links.exchange();
        self.is_formed.store(links.has_formed(), Ordering::Relaxed);
        match () {
            () if links.has_ended() => Left::End,
            () if links.has_messages() => Left::Messages,
            () if links.is_overflowing() => Left::Overflow,
            () => Left::Nothing,
        }
    }

    /// For the thread of the links alone: sites hold the lock for one round.
    fn lock(&self) -> MutexGuard<'_, Option<Links>> {
        // A site that panicked ends the host, and this thread what it can still end.
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The token under which the poll of a site hears that a host has sent something.
    pub(crate) fn token_of(host: HostId) -> mio::Token {
        Shard::token_of_host(host)
    }
}

/// How often the thread of the links looks by itself.
#[derive(Default)]
struct Ticks {
    /// Those in a row in which the sites were idle.
    idle: u32,
}

impl Ticks {
    /// The time until the next look.
    fn next(&mut self, are_sites_idle: bool) -> Duration {
        self.idle = if are_sites_idle { (self.idle + 1).min(IDLE_TICKS) } else { 0 };
        if self.idle < IDLE_TICKS { BUSY_TICK } else { TICK }
    }
}
