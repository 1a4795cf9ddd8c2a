//! Each rule with an input that keeps it and one that breaks it.

use super::*;

fn findings_of(path: &str, text: &str) -> Vec<String> {
    check(&Tree::of(&[(path, text)])).iter().map(Finding::to_string).collect()
}

#[track_caller]
fn assert_clean(path: &str, text: &str) {
    assert_eq!(findings_of(path, text), Vec::<String>::new());
}

#[track_caller]
fn assert_finding(path: &str, text: &str, expected: &str) {
    let found = findings_of(path, text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with(expected), "{} does not start with {expected}", found[0]);
}

fn function_of(lines: usize) -> String {
    format!("//! A file.\nfn long() {{\n{}}}\n", "    x();\n".repeat(lines - 2))
}

#[test]
fn functions_may_have_seventy_lines() {
    assert_clean("crates/txn/src/a.rs", &function_of(70));
    let expected = "crates/txn/src/a.rs:2: function length: long: 71 lines > 70";
    assert_finding("crates/txn/src/a.rs", &function_of(71), expected);
}

#[test]
fn files_may_be_longer_with_a_reason_and_never_beyond_the_second_limit() {
    let plain = |lines: usize| format!("//! A file.\n{}", "x;\n".repeat(lines - 1));
    let with_reason = |lines: usize| {
        format!("//! A file.\n//! Long file: one table.\n{}", "x;\n".repeat(lines - 2))
    };
    assert_clean("crates/txn/src/a.rs", &plain(600));
    assert_finding("crates/txn/src/a.rs", &plain(601), "crates/txn/src/a.rs:1: file length: 601");
    assert_clean("crates/txn/src/a.rs", &with_reason(1500));
    let expected = "crates/txn/src/a.rs:1: file length: 1501 lines > 1500";
    assert_finding("crates/txn/src/a.rs", &with_reason(1501), expected);
}

#[test]
fn lines_are_counted_in_characters_and_links_may_be_long() {
    let line = |width: usize| format!("//! A file.\n// {} x\n", "é".repeat(width - 5));
    assert_clean("crates/txn/src/a.rs", &line(100));
    assert_finding("crates/txn/src/a.rs", &line(101), "crates/txn/src/a.rs:2: line length: 101");
    assert_clean("crates/txn/src/a.rs", &format!("//! A file.\n// https://{}\n", "a".repeat(120)));
    let python = format!("x = 1 + {}\n", "a".repeat(100));
    assert_finding("testing/clients/a.py", &python, "testing/clients/a.py:1: line length: 108");
}

#[test]
fn a_file_opens_with_what_it_is_for() {
    assert_finding("crates/txn/src/a.rs", "fn a() {}\n", "crates/txn/src/a.rs:1: file head");
    assert_finding("crates/txn/src/a.rs", "", "crates/txn/src/a.rs:1: file head");
}

#[test]
fn unsafe_has_a_few_homes() {
    let text = "//! A file.\n#![forbid(unsafe_code)]\n// unsafe\nfn a() { \"unsafe\"; }\n";
    assert_clean("crates/txn/src/a.rs", text);
    let text = "//! A file.\n\nfn a() { unsafe { b() } }\n";
    assert_clean("crates/storage/src/a.rs", text);
    let expected = "crates/txn/src/a.rs:3: unsafe: in crates/txn";
    assert_finding("crates/txn/src/a.rs", text, expected);
}

#[test]
fn unwrap_belongs_to_tests() {
    let call = "//! A file.\nfn a() { b().unwrap(); }\n";
    assert_finding("crates/txn/src/a.rs", call, "crates/txn/src/a.rs:2: unwrap outside tests");
    assert_clean("crates/txn/src/a/tests.rs", call);
    assert_clean("crates/txn/tests/it/a.rs", call);
    let in_test = "//! A file.\n#[cfg(test)]\nmod tests {\n fn a() { b().unwrap(); }\n}\n";
    assert_clean("crates/txn/src/a.rs", in_test);
    let after_test = format!("{in_test}fn c() {{ d().unwrap(); }}\n");
    assert_finding("crates/txn/src/a.rs", &after_test, "crates/txn/src/a.rs:6: unwrap");
    let text = "//! A file.\nfn a() { b().unwrap_or(1); \".unwrap()\"; } // .unwrap()\n";
    assert_clean("crates/txn/src/a.rs", text);
}

#[test]
fn unfinished_work_is_found_in_comments_and_macros() {
    let mark = UNFINISHED_WORDS[0];
    let text = format!("//! A file.\nfn a() {{}} // {mark}: b\n");
    assert_finding("crates/txn/src/a.rs", &text, "crates/txn/src/a.rs:2: unfinished");
    let text = format!("//! A file.\nfn a() {{ todo!() }}\nconst B: &str = \"{mark}\";\n");
    assert_finding("crates/txn/src/a.rs", &text, "crates/txn/src/a.rs:2: unfinished: todo!");
    assert_clean("crates/txn/src/a.rs", "//! A file.\nfn todo() { todo(); }\n");
    let text = format!("# {mark}\n");
    assert_finding("testing/clients/a.py", &text, "testing/clients/a.py:1: unfinished");
}

#[test]
fn deterministic_crates_do_not_print_or_silence_their_lints() {
    let text = "//! A file.\nfn a() { println!(); }\n";
    assert_finding("crates/txn/src/a.rs", text, "crates/txn/src/a.rs:2: printing: println!");
    assert_clean("crates/node/src/a.rs", text);
    let text = "//! A file.\n#[allow(clippy::disallowed_types)]\nfn a() {}\n";
    assert_finding("crates/txn/src/a.rs", text, "crates/txn/src/a.rs:2: lint silenced");
    assert_clean("crates/base/src/a.rs", text);
}

#[test]
fn long_test_modules_move_out() {
    let module = |lines: usize| {
        let body = "    fn a() {}\n".repeat(lines - 3);
        format!("//! A file.\n#[cfg(test)]\nmod tests {{\n{body}}}\n")
    };
    assert_clean("crates/txn/src/a.rs", &module(200));
    let expected = "crates/txn/src/a.rs:2: inline tests: 201 lines > 200";
    assert_finding("crates/txn/src/a.rs", &module(201), expected);
}

#[test]
fn a_package_links_one_integration_binary() {
    let tree = |paths: &[&str]| {
        let mut files = vec![("crates/txn/Cargo.toml", "")];
        files.extend(paths.iter().map(|path| (*path, "//! A file.\n")));
        check(&Tree::of(&files))
    };
    assert!(tree(&["crates/txn/tests/it/main.rs", "crates/txn/tests/it/a.rs"]).is_empty());
    let found = tree(&["crates/txn/tests/it/main.rs", "crates/txn/tests/b.rs"]);
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].rule, "integration tests");
}
