//! What a thread asks of the system's scheduler: a core of its own, a place after the others,
//! and who interrupts whom where threads share a core.
//!
//! A site keeps its core busy, and the log's thread wants it for some microseconds after each
//! write and sync. The scheduler lets a thread that runs finish its slice first, which takes until
//! the timer's next tick, 4 ms on many systems, unless the one that wakes has the shorter slice.
//! All answers of a group commit would wait for that. Slices are given since Linux 6.12 (the
//! attribute `sched_runtime` of `sched_setattr(2)` for threads of the ordinary policy) and need no
//! right; earlier systems take the call and do nothing.
//!
//! What else runs on the machine, the kernel's own threads too, takes a core from a site for
//! milliseconds at a time. Who wants tails of latency that do not depend on it gives the sites
//! real-time priority (`sched(7)`), which needs the right to.

use crate::options::Priority;

/// The slice of a thread that runs for moments: the least that there is.
const SHORT_SLICE_NS: u64 = 100_000;

/// This thread has work for moments and is waited for: it interrupts a site on its core.
pub(crate) fn run_as_short_work() {
    change_slice(|_| SHORT_SLICE_NS);
}

/// Threads of the log and the kernel may interrupt this one: its slice is a little longer than
/// the system's own, so that the kernel's workers, which bring a sync to the disk, come first, and
/// not more, so that sites which share a core take turns as ever.
pub(crate) fn give_way_to_short_work() {
    change_slice(|own_ns| own_ns + own_ns / 8);
}

/// No program of the ordinary policy interrupts this thread any more, nor those of a lower
/// priority; none changes nothing. Threads that it starts are ordinary ones again. Without the
/// right to do so it stays as it is.
pub(crate) fn run_in_real_time(priority: Option<Priority>) {
    let Some(Priority(priority)) = priority else { return };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: the structure is plain numbers, for which zeros are values; the call reads it from
    // this stack frame while it runs; 0 is the thread that asks.
    let result = unsafe {
        let mut parameters: libc::sched_param = std::mem::zeroed();
        parameters.sched_priority = libc::c_int::try_from(priority).unwrap_or(libc::c_int::MAX);
        libc::sched_setscheduler(0, policy, &parameters)
    };
    if result != 0 {
        let error = std::io::Error::last_os_error();
        tracing::warn!(priority, %error, "the thread has no real-time priority");
    }
}

/// From now on this thread leaves its core to others that want it, most of the time.
pub(crate) fn run_behind_others() {
    const NICE: libc::c_int = 10;
    // SAFETY: the call takes no addresses. On Linux 0 is the thread that asks, not its process.
    let result = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE) };
    if result != 0 {
        tracing::debug!("the thread has the priority of all others");
    }
}

/// Keeps the calling thread on one core. Without the right to do so it stays where it is.
pub(crate) fn pin_to_core(core: usize) {
    // SAFETY: the set is a plain bit array that lives on this stack frame, zeroed before use;
    // CPU_SET checks its index; the call reads the set and changes this thread only.
    let result = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if core >= libc::CPU_SETSIZE as usize {
            return;
        }
        libc::CPU_SET(core, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set)
    };
    if result != 0 {
        tracing::warn!(core, "the site could not be pinned to its core");
    }
}

/// Gives the calling thread another slice than it has. Policy and nice value stay as they are.
fn change_slice(to_ns: impl Fn(u64) -> u64) {
    let mut attributes = libc::sched_attr {
        size: size_of::<libc::sched_attr>() as u32,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: both calls get the address of a whole structure on this stack frame, whose size it
    // tells, and keep it for the call only; 0 is the thread that asks.
    let result = unsafe {
        let size = attributes.size;
        let mut result =
            libc::syscall(libc::SYS_sched_getattr, 0, &mut attributes as *mut _, size, 0);
        if result == 0 && attributes.sched_policy == libc::SCHED_OTHER as u32 {
            attributes.sched_runtime = to_ns(attributes.sched_runtime);
            result = libc::syscall(libc::SYS_sched_setattr, 0, &attributes as *const _, 0);
        }
        result
    };
    if result != 0 {
        tracing::debug!("the system gives the thread no slice of its own");
    }
}

#[cfg(test)]
mod tests {
    use super::{
        Priority, SHORT_SLICE_NS, change_slice, give_way_to_short_work, run_as_short_work,
        run_in_real_time,
    };

    /// The calling thread's slice; 0 where the system has none.
    fn slice_ns() -> u64 {
        let seen = std::cell::Cell::new(0);
        change_slice(|own_ns| {
            seen.set(own_ns);
            own_ns
        });
        seen.get()
    }

    #[test]
    fn a_site_has_a_longer_slice_than_others_and_the_log_a_shorter_one() {
        let ask = |how: fn()| std::thread::spawn(move || (slice_ns(), how(), slice_ns()));
        let (own_ns, (), site_ns) = ask(give_way_to_short_work).join().expect("it asks only");
        let (_, (), log_ns) = ask(run_as_short_work).join().expect("it asks only");
        // Systems before Linux 6.12 tell 0, and keep theirs.
        if own_ns > 0 {
            assert!(site_ns > own_ns && site_ns < 2 * own_ns, "{site_ns} and {own_ns}");
            assert_eq!(log_ns, SHORT_SLICE_NS);
        }
    }

    /// Policy and priority of the calling thread, as the system shows them.
    fn policy() -> (u32, u32) {
        let path = std::fs::read_link("/proc/thread-self").expect("Linux has it");
        let stat = std::fs::read_to_string(std::path::Path::new("/proc").join(path).join("stat"));
        let stat = stat.expect("the thread is there");
        // After the name, which may have anything in it, the first field is the third.
        let (_, behind) = stat.rsplit_once(')').expect("a name");
        let field = |number: usize| behind.split_whitespace().nth(number - 3)?.parse().ok();
        (field(41).expect("a policy"), field(40).expect("a priority"))
    }

    #[test]
    fn a_thread_has_real_time_priority_where_that_is_allowed_and_its_children_have_none() {
        let ask = || {
            run_in_real_time(None);
            let ordinary = policy();
            run_in_real_time(Some(Priority(7)));
            let of_child = std::thread::spawn(policy).join().expect("it asks only");
            (ordinary, policy(), of_child)
        };
        let (ordinary, own, of_child) = std::thread::spawn(ask).join().expect("it asks only");
        assert_eq!((ordinary, of_child), ((0, 0), (0, 0)));
        // Without the right it stays what it was.
        assert!(own == (libc::SCHED_FIFO as u32, 7) || own == (0, 0), "{own:?}");
    }
}
