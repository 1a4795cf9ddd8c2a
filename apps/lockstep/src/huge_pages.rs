//! Memory of a host in huge pages, where the system offers them to who asks: rows of large tables
//! lie far apart, and with pages of 4 KiB the processor waits for the place of nearly each one.
//!
//! The C library's allocator can ask for them, but reads that setting only when a program starts.
//! So a host that starts without it starts once more, in its own place.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// What the C library reads its settings from.
const TUNABLES: &str = "GLIBC_TUNABLES";
/// Its setting for huge pages; 1 asks for them, 0 does not.
const SETTING: &str = "glibc.malloc.hugetlb";
/// Says to whom the system gives huge pages; what holds stands in brackets.
const OFFER: &str = "/sys/kernel/mm/transparent_hugepage/enabled";

/// Goes on with memory in huge pages: by a new start of the program, in the same process, unless
/// the setting is there already, either way, or the system gives them to all or to none.
pub fn take() {
    let given = std::env::var_os(TUNABLES).unwrap_or_default();
    let offer = std::fs::read_to_string(OFFER).unwrap_or_default();
    let Some(tunables) = wanted(&given, &offer) else { return };
    let Ok(program) = std::env::current_exe() else { return };
    let mut arguments = std::env::args_os();
    let mut command = Command::new(program);
    if let Some(name) = arguments.next() {
        command.arg0(name);
    }
    // It comes back only when the program cannot be started, as when its file was replaced.
    let error = command.args(arguments).env(TUNABLES, tunables).exec();
    tracing::warn!("memory stays in small pages: {error}");
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
    }
}
