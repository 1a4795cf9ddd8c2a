//! `lockstep help`, as deep as commands go.

use super::{lockstep, text};

#[test]
fn help_shows_the_command_that_is_named() {
    for (topic, parts, other) in [
        (&["bench"][..], &["Usage: lockstep bench", "voter"][..], "--pipeline"),
        (&["bench", "voter"], &["Usage: lockstep bench voter", "--pipeline"], "tpcc"),
        (
            &["bench", "scale", "voter"],
            &["Usage: lockstep bench scale voter", "--vary"],
            "lock-store",
        ),
        (&["admin", "shutdown"], &["Usage: lockstep admin shutdown", "--save"], "voter"),
        (&["sql"], &["Usage: lockstep sql", "\\timing"], "voter"),
        (&["options"], &["query_timeout_ms"], "Usage"),
        (&[], &["Usage: lockstep", "bench"], "--pipeline"),
    ] {
        let arguments: Vec<&str> = ["help"].iter().chain(topic).copied().collect();
        let output = lockstep(&arguments, "");
        let shown = text(&output.stdout);
        assert!(output.status.success(), "{topic:?}: {}", text(&output.stderr));
        parts.iter().for_each(|part| assert!(shown.contains(part), "{topic:?}: {shown}"));
        assert!(!shown.contains(other), "{topic:?}: {shown}");
    }
    for (topic, message) in [
        (&["nothing"][..], "there is no command 'nothing' of `lockstep`; try `lockstep --help`"),
        (&["bench", "x"], "no command 'x' of `lockstep bench`; try `lockstep bench --help`"),
        (&["sql", "options"], "no command 'options' of `lockstep sql`"),
    ] {
        let arguments: Vec<&str> = ["help"].iter().chain(topic).copied().collect();
        let output = lockstep(&arguments, "");
        assert_eq!(output.status.code(), Some(1), "{topic:?}");
        assert!(text(&output.stderr).contains(message), "{topic:?}: {}", text(&output.stderr));
    }
}
