//! Clocks, and what is between the hosts: connections that keep the order of what is sent, and
//! datagrams that are lost and overtake each other.

use lockstep_base::random::SeededRandom;
use std::collections::BTreeMap;

/// The clock of a process: microseconds at the true time 0, and its rate against true time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    base_us: u64,
    drift_ppm: i64,
    wall_offset_us: u64,
}

const WALL_US: u64 = 1_700_000_000_000_000;

impl Clock {
    pub(super) fn new(random: &mut SeededRandom, drift_ppm_max: u64) -> Clock {
        let most = drift_ppm_max as i64;
        Clock {
            base_us: random.below(1 << 40),
            drift_ppm: random.between(-most, most),
            wall_offset_us: random.below(200_000),
        }
    }

    /// What the monotonic clock and the wall clock show at a true time.
    pub(super) fn at(&self, true_us: u64) -> (u64, u64) {
        let rate = (1_000_000 + self.drift_ppm) as u128;
        let us = self.base_us + (u128::from(true_us) * rate / 1_000_000) as u64;
        (us, WALL_US + true_us + self.wall_offset_us)
    }
}

/// How late a slow control plane hears: less than a suspicion.
const LATE_US: u64 = 60_000;

/// From a host to another one.
pub(super) type Way = (usize, usize);

/// What is between the hosts.
pub(super) struct Network {
    /// Ways that are cut, and until when.
    cuts: BTreeMap<Way, u64>,
    /// When the last message of a connection arrives.
    last_us: BTreeMap<Way, u64>,
    /// Hosts whose control plane hears late, and until when.
    slow: BTreeMap<usize, u64>,
    /// By pair of hosts, sessions that have ended.
    sessions: BTreeMap<Way, u32>,
    /// Of a thousand datagrams, how many are lost.
    pub(super) lost_of_thousand: u64,
    pub(super) delay_us_max: u64,
}

impl Network {
    pub(super) fn new() -> Network {
        Network {
            cuts: BTreeMap::new(),
            slow: BTreeMap::new(),
            last_us: BTreeMap::new(),
            sessions: BTreeMap::new(),
            lost_of_thousand: 0,
            delay_us_max: 500,
        }
    }

    pub(super) fn cut(&mut self, way: Way, until_us: u64) {
        self.cuts.insert(way, until_us);
    }

    /// Ends all faults.
    pub(super) fn heal(&mut self) {
        self.cuts.clear();
        self.slow.clear();
        (self.lost_of_thousand, self.delay_us_max) = (0, 500);
    }

    /// The control plane of a host hears late for a while, and its sites do not.
    pub(super) fn slow_down(&mut self, host: usize, until_us: u64) {
        self.slow.insert(host, until_us);
    }

    fn cut_until_us(&self, way: Way, now_us: u64) -> u64 {
        self.cuts.get(&way).copied().unwrap_or(0).max(now_us)
    }

    /// When a message of a connection arrives: after those before it, and after a cut.
    pub(super) fn message_us(&mut self, random: &mut SeededRandom, way: Way, now_us: u64) -> u64 {
        let free_us = self.cut_until_us(way, now_us);
        // What was lost is sent again after a while.
        let again_us = if free_us > now_us { random.below(40_000) } else { 0 };
        let at_us = free_us + again_us + 20 + random.below(self.delay_us_max);
        let last_us = self.last_us.entry(way).or_default();
        *last_us = at_us.max(*last_us);
        *last_us
    }

    /// When a datagram arrives, if it does.
    pub(super) fn datagram_us(
        &mut self,
        random: &mut SeededRandom,
        way: Way,
        now_us: u64,
    ) -> Option<u64> {
        let is_lost =
            self.cut_until_us(way, now_us) > now_us || random.below(1000) < self.lost_of_thousand;
        let is_slow = self.slow.get(&way.1).is_some_and(|until_us| *until_us > now_us);
        let late_us = if is_slow { LATE_US + random.below(LATE_US / 4) } else { 0 };
        let delay_us = 20 + late_us + random.below(self.delay_us_max);
        (!is_lost).then_some(now_us + delay_us)
    }

    /// The session of two hosts; what an older one carried is lost.
    pub(super) fn session(&self, (one, other): Way) -> u32 {
        let pair = (one.min(other), one.max(other));
        self.sessions.get(&pair).copied().unwrap_or(0)
    }

    pub(super) fn end_session(&mut self, (one, other): Way) {
        *self.sessions.entry((one.min(other), one.max(other))).or_default() += 1;
    }
}
