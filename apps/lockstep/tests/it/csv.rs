//! `lockstep load csv` and `lockstep export csv` as text: what goes in, and what comes out. With
//! `LOCKSTEP_REWRITE=1` the file is written again from what comes out, to be read before it is
//! committed.

use super::{host, lockstep, text};
use lockstep_client::{ConnectOptions, Connection};
use std::path::PathBuf;

/// Cases: commands after `$`, standard input, `=>`, and what is printed, first of the command
/// and then of what stands after `;`. A line of `====` parts two cases. All run against one
/// host, in order. `@` stands for a folder of the test.
const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/csv.txt");

/// Times and rates differ from run to run.
fn without_times(output: &str) -> String {
    let mut shown = String::new();
    for line in output.lines() {
        let line = match (line.find(" in "), line.find("/s), "), line.ends_with(" s")) {
            (Some(from), Some(to), _) => format!("{} in #{}", &line[..from], &line[to + 3..]),
            (Some(from), None, true) => format!("{} in #", &line[..from]),
            _ => line.to_string(),
        };
        shown.push_str(&line);
        shown.push('\n');
    }
    shown
}

/// A folder that is removed with this.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let name = format!("lockstep-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        Folder(folder)
    }

    fn path(&self) -> String {
        self.0.to_str().expect("a path of text").to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Splits a command line at blanks; quotes keep them.
fn words(line: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for character in line.chars() {
        match character {
            '`' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            other => words.last_mut().expect("there is one").push(other),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn run(server: &str, line: &str, input: &str) -> String {
    let words = words(line);
    let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
    if words[0] == "cat" {
        return std::fs::read_to_string(words[1]).expect("a file");
    }
    words.extend(["--server", server]);
    let output = lockstep(&words, input);
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
fn rows_go_in_and_come_out() {
    let folder = Folder::new("csv");
    let host = host();
    let server = host.client_address().to_string();
    let expected = std::fs::read_to_string(FILE).expect("the cases");
    let mut actual = Vec::new();
    for case in expected.split("====\n") {
        let (given, _) = case.split_once("=>\n").expect("a case has =>");
        let commands = given.lines().take_while(|line| line.starts_with('$')).count();
        let lines: Vec<&str> = given.lines().take(commands).collect();
        let input: String = given.split_inclusive('\n').skip(commands).collect();
        // What cannot stand in a text file is written as escapes.
        let raw = input.replace("\\r", "\r").replace("\\0", "\0");
        let mut shown = String::new();
        for line in &lines {
            let command = line.trim_start_matches('$').trim().replace('@', &folder.path());
            shown.push_str(&run(&server, &command, &raw));
        }
        let shown = shown.replace(&folder.path(), "@");
        actual.push(format!("{}\n{input}=>\n{shown}", lines.join("\n")));
    }
    host.stop().expect("the host stops");
    let actual = actual.join("====\n");
    if std::env::var_os("LOCKSTEP_REWRITE").is_some() {
        std::fs::write(FILE, &actual).expect("the cases can be written");
    }
    assert_eq!(actual, expected, "LOCKSTEP_REWRITE=1 writes the cases anew");
}

/// Rows of every kind of value, more than fit one part of an export.
fn fill(connection: &mut Connection) {
    connection
        .sql(
            "create table all_types (k bigint not null, part varchar(20) not null, i integer, \
             f float, d decimal, t timestamp, v varchar(200), b varbinary(50), \
             primary key (part, k)); partition table all_types on column k;",
        )
        .expect("a table");
    let mut inserts = String::new();
    for k in 0..2_500 {
        let f = f64::from(k) * 1.1e-7 + 1e-300;
        let text = ["", "\\N", "it''s, \"quoted\"", "two\nlines\r", "plain", "é€𝄞"][k as usize % 6];
        let (text, bytes) = match k % 7 {
            0 => ("NULL".to_string(), "NULL".to_string()),
            _ => (format!("'{text}'"), format!("X'{:04X}'", k)),
        };
        inserts.push_str(&format!(
            "insert into all_types values ({k}, 'p{}', {}, {f:e}, {k}.000000000001, {}, {text}, \
             {bytes});",
            k % 3,
            -k,
            i64::from(k) * 1_000_003,
        ));
        if k % 250 == 249 {
            connection.sql(&inserts).expect("rows");
            inserts.clear();
        }
    }
}

#[test]
fn what_is_exported_loads_to_the_same() {
    let folder = Folder::new("round-trip");
    let host = host();
    let server = host.client_address().to_string();
    let mut connection =
        Connection::connect(&server, &ConnectOptions::default()).expect("a connection");
    fill(&mut connection);
    let all = "select * from all_types order by k";
    let before = connection.sql(all).expect("rows");
    assert_eq!(before[0].rows.len(), 2_500);
    for (name, options) in [
        ("plain", &[][..]),
        ("tabs", &["--delimiter", "tab", "--quote", "'", "--escape", "\\"]),
        ("nulls", &["--null-string", "-", "--header"]),
    ] {
        let file = format!("{}/{name}.csv", folder.path());
        let what = ["--table", "all_types", "--server", &server];
        let export = [&["export", "csv", "--output", &file], &what[..], options].concat();
        let output = lockstep(&export, "");
        assert!(output.status.success(), "{}", text(&output.stderr));
        connection.sql("truncate table all_types").expect("no rows");
        let load = [&["load", "csv", &file, "--batch", "37"], &what[..], options].concat();
        let output = lockstep(&load, "");
        let shown = format!("{}{}", text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(0), "{name}: {shown}");
        let after = connection.sql(all).expect("rows");
        assert_eq!(after, before, "{name}");
    }
    // The parts of an export are in the key's order.
    let output = lockstep(&["export", "csv", "--table", "all_types", "--server", &server], "");
    let exported = text(&output.stdout);
    assert_eq!(exported.matches(",p0,").count(), 834);
    assert!(exported.starts_with("0,p0,"), "{}", &exported[..40]);
    host.stop().expect("the host stops");
}

#[test]
fn a_load_ends_with_its_server() {
    let folder = Folder::new("lost");
    let file = format!("{}/rows.csv", folder.path());
    std::fs::write(&file, "1\n2\n").expect("a file");
    let arguments = ["load", "csv", &file, "--table", "t", "--server", "127.0.0.1:1"];
    let output = lockstep(&arguments, "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("127.0.0.1:1"), "{}", text(&output.stderr));
    let output = lockstep(&["load", "csv", "/nowhere/x.csv", "--table", "t"], "");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("/nowhere/x.csv"), "{}", text(&output.stderr));
}
