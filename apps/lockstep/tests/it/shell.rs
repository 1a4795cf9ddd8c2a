//! Sessions of the shell as text: what goes in, and what comes out. With `LOCKSTEP_REWRITE=1` the
//! file is written again from what comes out, to be read before it is committed.

use super::{host, lockstep, text};

/// Cases: arguments after `$`, standard input, `=>`, and what is printed. A line of `====`
/// parts two cases. All run against one host, in order.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/shell.txt");

/// Times differ from run to run.
fn without_times(output: &str) -> String {
    let mut shown = String::new();
    for line in output.lines() {
        let is_timed = line.ends_with(" s)") || line.ends_with(" us)");
        match (line.rfind(" in "), is_timed) {
            (Some(at), true) => shown.push_str(&format!("{} in #)", &line[..at])),
            _ => shown.push_str(line),
        }
        shown.push('\n');
    }
    shown
}

fn run(server: &str, arguments: &str, input: &str) -> String {
    let mut all = vec!["sql", "--server", server];
    all.extend(arguments.split_whitespace());
    let output = lockstep(&all, input);
    let mut shown = without_times(&text(&output.stdout));
    for line in text(&output.stderr).lines() {
        shown.push_str(&format!("! {line}\n"));
    }
    if let Some(code) = output.status.code().filter(|code| *code != 0) {
        shown.push_str(&format!("exit code {code}\n"));
    }
    shown
}

#[test]
fn sessions_print_what_is_expected() {
    let host = host();
    let server = host.client_address().to_string();
    let expected = std::fs::read_to_string(FILE).expect("the cases");
    let mut actual = Vec::new();
    for case in expected.split("====\n") {
        let (given, _) = case.split_once("=>\n").expect("a case has =>");
        let (arguments, input) = given.split_once('\n').expect("a case begins with a line");
        let shown = run(&server, arguments.trim_start_matches('$'), input);
        actual.push(format!("{arguments}\n{input}=>\n{shown}"));
    }
    host.stop().expect("the host stops");
    let actual = actual.join("====\n");
    if std::env::var_os("LOCKSTEP_REWRITE").is_some() {
        std::fs::write(FILE, &actual).expect("the cases can be written");
    }
    assert_eq!(actual, expected, "LOCKSTEP_REWRITE=1 writes the cases anew");
}

#[test]
fn texts_and_files_run_in_order_and_unreachable_servers_are_named() {
    let host = host();
    let server = host.client_address().to_string();
    let file = std::env::temp_dir().join(format!("lockstep-{}.sql", std::process::id()));
    std::fs::write(&file, "insert into t values (2);\nselect a from u;\nselect 1 from t;\n")
        .expect("a file");
    let path = file.to_str().expect("a path of text");
    let first = "create table t (a int); insert into t values (1)";
    let output = lockstep(&["sql", "--server", &server, "-f", path, "-e", first], "");
    let expected = "Command succeeded.\n(1 row changed in #)\n(1 row changed in #)\n";
    assert_eq!(without_times(&text(&output.stdout)), expected);
    let place = format!("{path}:2:15: ");
    assert!(text(&output.stderr).starts_with(&place), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
    std::fs::remove_file(&file).expect("the file is ours");
    host.stop().expect("the host stops");

    let output = lockstep(&["sql", "--server", &server, "-e", "select 1 from t"], "");
    assert!(text(&output.stderr).contains(&server), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}
