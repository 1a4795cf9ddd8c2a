//! Memory of a host in huge pages, where the system offers them to who asks: rows of large tables
//! lie far apart, and with pages of 4 KiB the processor waits for the place of nearly each one.
//!
//! The C library's allocator can ask for them, but reads that setting only when a program starts.
//! So a host that starts without it starts once more, in its own place. Some versions (glibc 2.36
//! is one) do not follow the setting at each start, because they compare what the system offers
//! with a text that may lack its end. So the host looks whether the setting is followed, and else
//! starts again.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the C library reads its settings from.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Its setting for huge pages; 1 asks for them, 0 does not.
const SETTING: &str = "glibc.malloc.hugetlb";
/// Says to whom the system gives huge pages; what holds stands in brackets.
const OFFER: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
/// How often the program was started with the setting of this file.
const STARTS: &str = "LOCKSTEP_HUGE_PAGE_STARTS";
/// It goes on in small pages after as many.
const STARTS_MAX: u32 = 20;
/// Says of each part of the process's memory what holds for it.
const PARTS: &str = "/proc/self/smaps";

/// Goes on with memory in huge pages: by a new start of the program, in the same process, unless
/// the setting is there and followed, was given by who started the program, or the system gives
/// huge pages to all or to none.
pub fn take() {
    let given = std::env::var_os(TUNABLES).unwrap_or_default();
    let starts = std::env::var(STARTS).ok().and_then(|starts| starts.parse().ok()).unwrap_or(0);
    let offer = std::fs::read_to_string(OFFER).unwrap_or_default();
    let is_ours = starts > 0 && is_asked_for(&given, &offer);
    let tunables = match starts {
        _ if !is_ours => wanted(&given, &offer),
        _ if is_followed(&std::fs::read_to_string(PARTS).unwrap_or_default()) => None,
        STARTS_MAX.. => {
            tracing::warn!("memory stays in small pages: {TUNABLES} is not followed");
            None
        }
        _ => Some(given),
    };
    let Some(tunables) = tunables else { return };
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    command.args(arguments).env(TUNABLES, tunables).env(STARTS, (starts + 1).to_string());
    // It comes back only when the program cannot be started, as when its file was replaced.
    let error = command.exec();
    tracing::warn!("memory stays in small pages: {error}");
}

/// Whether the settings ask for huge pages, and the system gives them to who asks.
fn is_asked_for(given: &OsString, offer: &str) -> bool {
    given.to_string_lossy().contains(&format!("{SETTING}=1")) && offer.contains("[madvise]")
}

/// Whether the allocator has asked for huge pages: it does so for its heap, which grows by the
/// first allocation of a program.
fn is_followed(parts: &str) -> bool {
    let heap = parts.lines().skip_while(|line| !line.ends_with("[heap]"));
    let flags = heap.skip(1).find_map(|line| line.strip_prefix("VmFlags:"));
    flags.is_some_and(|flags| flags.split_whitespace().any(|flag| flag == "hg"))
}

/// The settings to start with, if those that are given are not to stay.
fn wanted(given: &OsString, offer: &str) -> Option<OsString> {
    let is_set = given.to_string_lossy().contains(SETTING);
    if is_set || !cfg!(target_env = "gnu") || !offer.contains("[madvise]") {
        return None;
    }
    let mut tunables = given.clone();
    if !tunables.is_empty() {
        tunables.push(":");
    }
    tunables.push(SETTING);
    tunables.push("=1");
    Some(tunables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_env = "gnu")]
    fn huge_pages_are_asked_for_where_that_is_up_to_the_program() {
        let offered = "always [madvise] never\n";
        let wanted = |given: &str, offer| {
            let tunables = wanted(&OsString::from(given), offer);
            tunables.map(|tunables| tunables.to_string_lossy().into_owned())
        };
        assert_eq!(wanted("", offered).as_deref(), Some("glibc.malloc.hugetlb=1"));
        let both = "glibc.malloc.check=1:glibc.malloc.hugetlb=1";
        assert_eq!(wanted("glibc.malloc.check=1", offered).as_deref(), Some(both));
        assert_eq!(wanted("glibc.malloc.hugetlb=0", offered), None);
        assert_eq!(wanted("", "[always] madvise never\n"), None);
        assert_eq!(wanted("", "always madvise [never]\n"), None);
        assert_eq!(wanted("", ""), None);
        // A process that inherits the count of starts, but not the setting, starts no more often.
        let is_asked_for = |given: &str, offer| is_asked_for(&OsString::from(given), offer);
        assert!(is_asked_for(both, offered) && !is_asked_for("glibc.malloc.hugetlb=0", offered));
        assert!(!is_asked_for("", offered) && !is_asked_for(both, "always madvise [never]\n"));
    }

    #[test]
    fn the_heap_says_whether_huge_pages_were_asked_for() {
        let parts = |of_heap: &str, of_others: &str| {
            format!(
                "55d0-55d8 r-xp 00000000 fe:00 67  /usr/bin/lockstep\nSize: 8 kB\n\
                 VmFlags: rd ex {of_others}\n55e0-55f0 rw-p 00000000 00:00 0  [heap]\n\
                 Size: 2048 kB\nVmFlags: rd wr {of_heap}\n\
                 7f00-7f10 rw-p 00000000 00:00 0\nVmFlags: rd {of_others}\n"
            )
        };
        assert!(is_followed(&parts("mr ac hg", "")));
        assert!(!is_followed(&parts("mr ac", "hg")));
        assert!(!is_followed("") && !is_followed("55e0-55f0 rw-p 00000000 00:00 0  [heap]"));
    }
}
