//! The reference page of the system procedures, `docs/system-procedures.md`.

use super::{ABSENT, AnsweredBy, Form, ParameterKind, SystemProcedure, TABLE, UNAVAILABLE};
use std::fmt::Write;

const HEAD: &str = "\
# System procedures

This page is made from the table of system procedures; a test compares both. Names are case
sensitive.

* **Parameters**: the lists of arguments that a call may have, separated by `|`.
* **Admin port**: connections to the client port get `NAME is not available to this client`.
* **Paused**: whether connections to the client port may call it while an administrator has paused
  the host. Calls that would write are refused then in any case.
* **Stopping**: whether calls are accepted while a stop is prepared (`@PrepareShutdown`).
* **Tasks**: the numbers of arguments with which a [task](tasks.md) may call it.
* **By**: the control thread, the thread of the connection, or the site of a partition
  answers.

| name | parameters | what it does | admin port | paused | stopping | tasks | by |
|---|---|---|---|---|---|---|---|
";

const ABSENT_HEAD: &str = "
## Not available

These system procedures of VoltDB are answered with
`System procedure NAME is not available in this release`.

| name | reason |
|---|---|
";

/// The text of the page.
pub fn reference_page() -> String {
    let mut page = HEAD.to_string();
    for procedure in TABLE {
        row(&mut page, procedure).expect("a String takes all text");
    }
    page.push_str(ABSENT_HEAD);
    for (name, why) in ABSENT {
        writeln!(page, "| `{name}` | {why} |").expect("a String takes all text");
    }
    let names: Vec<String> = UNAVAILABLE.iter().map(|name| format!("`{name}`")).collect();
    writeln!(page, "| {} | internal |", names.join(", ")).expect("a String takes all text");
    page
}

fn row(page: &mut String, procedure: &SystemProcedure) -> std::fmt::Result {
    let forms: Vec<String> = procedure.forms.iter().map(|form| parameters(form)).collect();
    let mark = |holds: bool| if holds { "yes" } else { "" };
    let tasks: Vec<String> = procedure.task_arguments.iter().map(usize::to_string).collect();
    writeln!(
        page,
        "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
        procedure.name,
        forms.join(" \\| "),
        procedure.meaning,
        mark(procedure.administrators),
        mark(procedure.while_paused),
        mark(procedure.while_stopping),
        tasks.join(" or "),
        match procedure.answered_by {
            AnsweredBy::Control => "control",
            AnsweredBy::Connection => "connection",
            AnsweredBy::Partition => "partition",
        }
    )
}

fn parameters(form: &Form) -> String {
    if form.is_empty() {
        return "none".to_string();
    }
    let parameter = |(name, kind): &(&str, ParameterKind)| format!("{name} {}", kind.name());
    form.iter().map(parameter).collect::<Vec<_>>().join(", ")
}
