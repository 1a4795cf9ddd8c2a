//! What a host says when one of its threads panics: a partition without its thread answers
//! nobody, so the process ends at once, and a start on its directory brings everything back.

use lockstep_node::log::Durability;
use std::io::Write;
use std::panic::PanicHookInfo;

/// What to do after the end of a host.
pub fn remedy_of_host(directory: Option<(String, Durability)>) -> String {
    match directory {
        None => "Its data was in memory only, and is gone.".to_string(),
        Some((directory, durability)) => format!(
            "{} Start it again: `lockstep start --dir {directory}`.",
            match durability {
                Durability::Sync => "Every write that was answered is on disk.",
                Durability::Async => "Writes are on disk but for the last moments.",
                Durability::None => "What the last snapshot has is on disk.",
            }
        ),
    }
}

/// From now on a panic in any thread ends the process, a host or a witness, as a crash does: no
/// answer leaves any more, and what was on its way to the log stays on its way.
pub fn end_with_panics(role: &'static str, remedy: String) {
    let usual = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info: &PanicHookInfo<'_>| {
        usual(info);
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("without a name");
        let word = format!(
            "lockstep: the thread '{name}' panicked, and the {role} ends at once. {remedy} The \
             lines above say where it was: please report them.\n"
        );
        // Nobody may read any more; the process ends all the same.
        let _ = std::io::stderr().write_all(word.as_bytes());
        std::process::abort();
    }));
}
