//! When group commits begin: at once if there are few calls, a distance apart under load.

use crate::options::Options;
use std::time::{Duration, Instant};

/// A group of N entries tells of load.
const BUSY_ENTRIES: u64 = 64;

/// When groups begin. Under load, one that would begin right after the one before waits for more
/// entries: each group costs the same system calls, and as many again to send its answers. While
/// its sites are busy it waits longer, for then they would have to find the time for that; a site
/// that is idle has it, and adds nothing to the group until it is answered.
pub(super) struct Group {
    /// From the beginning of a group to that of the next at least, under load.
    least_time: Duration,
    /// The same while all sites with a part in it are busy.
    busy_time: Duration,
    /// When the one that is gathered began, or else the one before.
    pub(super) begun: Instant,
    /// In the one that is gathered.
    pub(super) entries: u64,
    /// In the one before.
    pub(super) last_entries: u64,
}

impl Group {
    pub(super) fn new(options: &Options) -> Group {
        let least_time = options.group_commit_interval_us.duration();
        let busy_time = options.group_commit_busy_interval_us.duration().max(least_time);
        Group { least_time, busy_time, begun: Instant::now(), entries: 0, last_entries: 0 }
    }

    /// How long the next one is to wait in any case.
    pub(super) fn begin_in(&self, now: Instant) -> Duration {
        self.wait(self.least_time, now)
    }

    /// How long the next one is to wait if its sites stay busy.
    pub(super) fn begin_busy_in(&self, now: Instant) -> Duration {
        self.wait(self.busy_time, now)
    }

    fn wait(&self, distance: Duration, now: Instant) -> Duration {
        match self.last_entries < BUSY_ENTRIES {
            true => Duration::ZERO,
            false => (self.begun + distance).saturating_duration_since(now),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BUSY_ENTRIES, Group};
    use crate::options::{Microseconds, Options};
    use std::time::Duration;

    #[test]
    fn groups_of_many_calls_keep_their_distance_and_those_of_few_do_not() {
        let options = Options {
            group_commit_interval_us: Microseconds(500),
            group_commit_busy_interval_us: Microseconds(2_000),
            ..Options::default()
        };
        let mut group = Group::new(&options);
        let begun = group.begun;
        let (soon, late) = [100, 600].map(|us| begun + Duration::from_micros(us)).into();
        let waits = |group: &Group, now| (group.begin_in(now), group.begin_busy_in(now));
        let none = Duration::ZERO;
        assert_eq!(waits(&group, soon), (none, none), "nothing is known of load yet");
        group.last_entries = BUSY_ENTRIES - 1;
        assert_eq!(waits(&group, soon), (none, none));
        group.last_entries = BUSY_ENTRIES;
        let us = Duration::from_micros;
        assert_eq!(waits(&group, soon), (us(400), us(1_900)));
        assert_eq!(waits(&group, late), (none, us(1_400)));
    }

    #[test]
    fn busy_sites_never_make_groups_come_sooner() {
        let options = Options {
            group_commit_interval_us: Microseconds(500),
            group_commit_busy_interval_us: Microseconds(100),
            ..Options::default()
        };
        assert_eq!(Group::new(&options).busy_time, Duration::from_micros(500));
    }
}
