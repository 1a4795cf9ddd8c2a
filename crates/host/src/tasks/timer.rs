//! When a task runs next: arithmetic over readings of the clocks, which are given.
//!
//! Intervals go by the monotonic clock. The calendar goes by the system's clock, which somebody
//! may set: forwards, times that were passed over are one run together; a little backwards, no
//! time comes twice; far backwards, the schedule begins again from there.

use lockstep_plan::TaskSchedule;
use lockstep_types::Cron;
use std::sync::Arc;

const NS_PER_MS: u64 = 1_000_000;
/// So often the system's clock is looked at while a time of the calendar is waited for.
const LOOK_NS: u64 = 1_000_000_000;
/// The system's clock goes backwards by more than this: then it was wrong before.
const STEP_BACK_US: i64 = 60_000_000;

/// A reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Nanoseconds that only ever grow.
    pub monotonic_ns: u64,
    /// Microseconds since 1970 by the system's clock.
    pub wall_us: i64,
}

/// The timer of a task at a place.
#[derive(Debug)]
pub(super) struct Timer {
    schedule: Schedule,
    due: Due,
}

#[derive(Debug)]
enum Schedule {
    Delay { interval_ns: u64 },
    Every { interval_ns: u64 },
    Cron { cron: Arc<Cron>, least_us: i64 },
}

#[derive(Debug)]
enum Due {
    /// A run is in progress, and its end says more.
    Later,
    /// By the monotonic clock.
    At(u64),
    /// By the calendar; `None` at its end. The latest reading of the clock says whether it went
    /// backwards.
    Wall { at_us: Option<i64>, latest_us: i64 },
}

impl Timer {
    /// Begins a schedule. Runs begin no sooner than `least_ms` after one another.
    pub(super) fn new(schedule: &TaskSchedule, least_ms: u64, now: Now) -> Timer {
        let interval_ns = |interval_ms: u64| interval_ms.max(least_ms).saturating_mul(NS_PER_MS);
        let (schedule, due) = match schedule {
            TaskSchedule::Delay(ms) => {
                let interval_ns = interval_ns(*ms);
                let due = Due::At(now.monotonic_ns.saturating_add(interval_ns));
                (Schedule::Delay { interval_ns }, due)
            }
            TaskSchedule::Every(ms) => {
                let interval_ns = interval_ns(*ms);
                let due = Due::At(now.monotonic_ns.saturating_add(interval_ns));
                (Schedule::Every { interval_ns }, due)
            }
            TaskSchedule::Cron(cron) => {
                let at_us = cron.next_after(now.wall_us);
                let least_us = i64::try_from(least_ms.saturating_mul(1_000)).unwrap_or(i64::MAX);
                let schedule = Schedule::Cron { cron: Arc::new(cron.clone()), least_us };
                (schedule, Due::Wall { at_us, latest_us: now.wall_us })
            }
        };
        Timer { schedule, due }
    }

    /// For how long a run has been due, nanoseconds; `None` while none is.
    pub(super) fn late_ns(&mut self, now: Now) -> Option<u64> {
        match (&mut self.due, &self.schedule) {
            (Due::Wall { at_us, latest_us }, Schedule::Cron { cron, .. }) => {
                if now.wall_us < latest_us.saturating_sub(STEP_BACK_US) || at_us.is_none() {
                    (*at_us, *latest_us) = (cron.next_after(now.wall_us), now.wall_us);
                }
                *latest_us = now.wall_us.max(*latest_us);
                let late_us = now.wall_us.checked_sub((*at_us)?)?;
                u64::try_from(late_us).ok().map(|late_us| late_us.saturating_mul(1_000))
            }
            (Due::At(at_ns), _) => now.monotonic_ns.checked_sub(*at_ns),
            _ => None,
        }
    }

    /// Until it should be asked again, nanoseconds; `None` while a run's end is waited for.
    pub(super) fn left_ns(&self, now: Now) -> Option<u64> {
        match self.due {
            Due::Later => None,
            Due::At(at_ns) => Some(at_ns.saturating_sub(now.monotonic_ns)),
            Due::Wall { at_us: None, .. } => Some(LOOK_NS),
            Due::Wall { at_us: Some(at_us), .. } => {
                let left_us = u64::try_from(at_us.saturating_sub(now.wall_us)).unwrap_or(0);
                Some(left_us.saturating_mul(1_000).min(LOOK_NS))
            }
        }
    }

    /// Whether what is due and cannot run now is given up: a time of the calendar is over then.
    pub(super) fn passes(&mut self, now: Now) -> bool {
        let passes = matches!(self.schedule, Schedule::Cron { .. });
        if passes {
            self.begin(now);
        }
        passes
    }

    /// A run that was due begins.
    pub(super) fn begin(&mut self, now: Now) {
        self.due = match (&self.schedule, &self.due) {
            (Schedule::Delay { .. }, _) => Due::Later,
            (Schedule::Every { interval_ns }, due) => {
                // A run that begins late by less than an interval does not shift those after it.
                // What was missed beyond that is not caught up.
                let at_ns = match due {
                    Due::At(at_ns) if now.monotonic_ns.saturating_sub(*at_ns) < *interval_ns => {
                        *at_ns
                    }
                    _ => now.monotonic_ns,
                };
                Due::At(at_ns.saturating_add(*interval_ns))
            }
            (Schedule::Cron { cron, least_us }, due) => {
                let from_us = now.wall_us.saturating_add((*least_us - 1).max(0));
                let latest_us = match due {
                    Due::Wall { latest_us, .. } => now.wall_us.max(*latest_us),
                    _ => now.wall_us,
                };
                Due::Wall { at_us: cron.next_after(from_us), latest_us }
            }
        };
    }

    /// A run has ended.
    pub(super) fn end(&mut self, now: Now) {
        if let Schedule::Delay { interval_ns } = self.schedule {
            self.due = Due::At(now.monotonic_ns.saturating_add(interval_ns));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lockstep_types::timestamp;

    const SECOND_NS: u64 = 1_000_000_000;

    fn at(seconds: u64) -> Now {
        Now { monotonic_ns: seconds * SECOND_NS, wall_us: 0 }
    }

    fn wall(text: &str) -> Now {
        Now { monotonic_ns: 0, wall_us: timestamp::parse(text).expect("a time") }
    }

    fn cron(text: &str) -> TaskSchedule {
        let fields: Vec<String> = text.split(' ').map(str::to_string).collect();
        let fields = fields.try_into().expect("six fields");
        TaskSchedule::Cron(Cron::parse(&fields).expect("fields"))
    }

    /// Runs at once whenever it may from one time to another, and says at which seconds.
    fn runs(timer: &mut Timer, seconds: std::ops::Range<u64>, length: u64) -> Vec<u64> {
        let mut begun = Vec::new();
        let mut until = None;
        for second in seconds {
            if until == Some(second) {
                timer.end(at(second));
                until = None;
            }
            if until.is_none() && timer.late_ns(at(second)).is_some() {
                timer.begin(at(second));
                begun.push(second);
                until = Some(second + length);
            }
        }
        begun
    }

    #[test]
    fn a_delay_is_from_end_to_begin() {
        let mut timer = Timer::new(&TaskSchedule::Delay(5_000), 0, at(100));
        assert_eq!(timer.left_ns(at(101)), Some(4 * SECOND_NS));
        assert_eq!(runs(&mut timer, 100..130, 3), [105, 113, 121, 129]);
        assert_eq!(timer.left_ns(at(130)), None, "a run is in progress");
        assert_eq!(timer.late_ns(at(1_000)), None);
    }

    #[test]
    fn every_is_from_begin_to_begin() {
        let mut timer = Timer::new(&TaskSchedule::Every(5_000), 0, at(100));
        assert_eq!(runs(&mut timer, 100..122, 3), [105, 110, 115, 120]);
        // A run that takes too long is followed at once by one, and no more.
        let mut timer = Timer::new(&TaskSchedule::Every(5_000), 0, at(100));
        assert_eq!(runs(&mut timer, 100..130, 12), [105, 117, 129]);
        // One that begins a little late does not shift the others.
        let mut timer = Timer::new(&TaskSchedule::Every(5_000), 0, at(100));
        timer.begin(at(107));
        timer.end(at(107));
        assert_eq!(timer.left_ns(at(107)), Some(3 * SECOND_NS));
        // Hours without a look are one run.
        assert_eq!(timer.late_ns(at(10_000)), Some(9_890 * SECOND_NS));
        timer.begin(at(10_000));
        assert_eq!(timer.late_ns(at(10_004)), None);
        assert_eq!(timer.left_ns(at(10_000)), Some(5 * SECOND_NS));
    }

    #[test]
    fn the_least_interval_holds_for_all_schedules() {
        let mut timer = Timer::new(&TaskSchedule::Every(1), 10_000, at(0));
        assert_eq!(runs(&mut timer, 0..35, 1), [10, 20, 30]);
        let mut timer = Timer::new(&TaskSchedule::Delay(1), 10_000, at(0));
        assert_eq!(runs(&mut timer, 0..35, 1), [10, 21, 32]);
        let mut timer = Timer::new(&cron("*/4 * * * * *"), 10_000, wall("2026-03-01 00:00:00"));
        let mut due = Vec::new();
        for second in 0..40 {
            let now = wall(&format!("2026-03-01 00:00:{second:02}"));
            if timer.late_ns(now).is_some() {
                timer.begin(now);
                due.push(second);
            }
        }
        assert_eq!(due, [4, 16, 28]);
    }

    #[test]
    fn the_calendar_and_a_clock_that_is_set_forwards() {
        let mut timer = Timer::new(&cron("0 0 * * * *"), 0, wall("2026-02-28 22:59:59"));
        assert_eq!(timer.left_ns(wall("2026-02-28 22:59:59.5")), Some(SECOND_NS / 2));
        assert_eq!(timer.left_ns(wall("2026-02-28 22:00:00")), Some(LOOK_NS), "it looks again");
        assert_eq!(timer.late_ns(wall("2026-02-28 22:59:59.999999")), None);
        assert_eq!(timer.late_ns(wall("2026-02-28 23:00:00.000001")), Some(1_000));
        timer.begin(wall("2026-02-28 23:00:00.000001"));
        timer.end(wall("2026-02-28 23:10:00"));
        assert_eq!(timer.late_ns(wall("2026-02-28 23:59:59")), None);
        // Three years on: one run, not 26,280.
        assert!(timer.late_ns(wall("2029-02-28 23:30:00")).is_some());
        timer.begin(wall("2029-02-28 23:30:00"));
        assert_eq!(timer.late_ns(wall("2029-02-28 23:59:59")), None);
        assert!(timer.late_ns(wall("2029-03-01 00:00:00")).is_some());
    }

    #[test]
    fn the_calendar_and_a_clock_that_is_set_backwards() {
        let mut timer = Timer::new(&cron("0 0 0 * * *"), 0, wall("2026-03-01 23:00:00"));
        assert!(timer.late_ns(wall("2026-03-02 00:00:05")).is_some());
        timer.begin(wall("2026-03-02 00:00:05"));
        // By seconds, several times: midnight does not come again.
        assert_eq!(timer.late_ns(wall("2026-03-01 23:59:50")), None);
        assert_eq!(timer.late_ns(wall("2026-03-01 23:59:10")), None);
        assert_eq!(timer.late_ns(wall("2026-03-02 00:00:00")), None);
        assert!(timer.late_ns(wall("2026-03-03 00:00:00")).is_some());
        timer.begin(wall("2026-03-03 00:00:00"));
        // By years, as from a clock that was wrong: it goes on, and does not wait for years.
        assert_eq!(timer.late_ns(wall("2020-06-01 12:00:00")), None);
        assert_eq!(timer.late_ns(wall("2020-06-01 23:59:59")), None);
        assert_eq!(timer.late_ns(wall("2020-06-02 00:00:01")), Some(SECOND_NS));
    }

    #[test]
    fn a_small_step_back_holds_a_task_of_every_second_for_no_longer_than_the_step() {
        let mut timer = Timer::new(&cron("* * * * * *"), 0, wall("2026-03-01 12:00:00"));
        assert!(timer.late_ns(wall("2026-03-01 12:00:01")).is_some());
        timer.begin(wall("2026-03-01 12:00:01"));
        assert_eq!(timer.late_ns(wall("2026-03-01 11:59:30")), None);
        assert_eq!(timer.late_ns(wall("2026-03-01 12:00:01.9")), None);
        assert!(timer.late_ns(wall("2026-03-01 12:00:02")).is_some());
    }

    #[test]
    fn only_times_of_the_calendar_are_given_up() {
        let mut timer = Timer::new(&TaskSchedule::Every(1_000), 0, at(0));
        assert!(!timer.passes(at(5)));
        assert_eq!(timer.late_ns(at(5)), Some(4 * SECOND_NS));
        let mut timer = Timer::new(&cron("0 * * * * *"), 0, wall("2026-03-01 12:00:30"));
        assert!(timer.late_ns(wall("2026-03-01 12:01:10")).is_some());
        assert!(timer.passes(wall("2026-03-01 12:01:10")));
        assert_eq!(timer.late_ns(wall("2026-03-01 12:01:59")), None);
        assert!(timer.late_ns(wall("2026-03-01 12:02:00")).is_some());
    }
}
