//! Assertions of the crates that change state: figures, and the floor that each crate keeps.
//!
//! An assertion is a call of `assert!`, `debug_assert!` or one of their kind outside tests. A
//! function changes state if it takes `&mut self`. The ratio of the two may only rise: a crate
//! whose code grows without assertions falls below its floor.

use std::fmt;

use crate::finding::Finding;
use crate::house::is_test_file;
use crate::lexer;
use crate::tree::Tree;

/// Assertions for each hundred functions that change state, by crate; raised, never lowered.
const FLOORS: &[(&str, usize)] = &[
    ("crates/txn", 165),
    ("crates/site", 57),
    ("crates/durability", 62),
    ("crates/storage", 72),
    ("crates/host", 100),
    ("crates/link", 49),
];

const MACROS: &[&str] =
    &["assert", "assert_eq", "assert_ne", "debug_assert", "debug_assert_eq", "debug_assert_ne"];

/// What a crate has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Figure {
    /// Its folder.
    pub folder: &'static str,
    /// Functions outside tests.
    pub functions: usize,
    /// Those that change state.
    pub changing: usize,
    /// Assertions outside tests.
    pub assertions: usize,
}

impl Figure {
    /// Assertions for each hundred functions that change state.
    fn per_hundred(&self) -> usize {
        (self.assertions * 100).checked_div(self.changing).unwrap_or(0)
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Figure { folder, functions, changing, assertions } = self;
        let ratio = self.per_hundred() as f64 / 100.0;
        write!(
            f,
            "{folder}: {functions} functions, {changing} change state, {assertions} assertions, \
             {ratio:.2} for each function that changes state"
        )
    }
}

/// The figures of the crates that have a floor.
pub fn figures(tree: &Tree) -> Vec<Figure> {
    FLOORS.iter().map(|(folder, _)| figure(tree, folder)).collect()
}

/// Crates below their floor.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let below = |(folder, floor): &(&'static str, usize)| {
        let figure = figure(tree, folder);
        let ratio = figure.per_hundred();
        // A tree without the crate is one of a test.
        (figure.functions > 0 && ratio < *floor).then(|| {
            let message = format!("{ratio} for each 100 functions that change state < {floor}");
            Finding::new(&format!("{folder}/src/lib.rs"), 1, "assertions", message)
        })
    };
    FLOORS.iter().filter_map(below).collect()
}

fn figure(tree: &Tree, folder: &'static str) -> Figure {
    let mut figure = Figure { folder, functions: 0, changing: 0, assertions: 0 };
    let prefix = format!("{folder}/src/");
    for (path, text) in &tree.files {
        if path.starts_with(&prefix) && path.ends_with(".rs") && !is_test_file(path) {
            count(text, &mut figure);
        }
    }
    figure
}

fn count(text: &str, figure: &mut Figure) {
    let code = lexer::mask(text).code;
    let tests = lexer::test_ranges(&code);
    let in_test = |at: usize| tests.iter().any(|range| range.contains(&at));
    for function in lexer::functions(&code).iter().filter(|function| !in_test(function.at)) {
        figure.functions += 1;
        let signature = &code[function.at..function.body];
        figure.changing += usize::from(signature.contains("&mut self"));
    }
    for name in MACROS {
        let calls = lexer::word_positions(&code, name)
            .filter(|at| code[at + name.len()..].starts_with('!') && !in_test(*at));
        figure.assertions += calls.count();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "//! A file.\n\
        impl A {\n    fn read(&self) {}\n    fn a(&mut self) { assert!(true); }\n\
        \n    fn b(&mut self) { debug_assert_eq!(1, 1, \"assert!()\"); } // assert!()\n\
        \n    fn c<'a>(&'a self, other: &mut B) {}\n    fn d(&mut self) {}\n}\n\
        #[cfg(test)]\nmod tests {\n    fn e(&mut self) { assert!(true); }\n}\n";

    #[test]
    fn functions_and_assertions_outside_tests_are_counted() {
        let tree = Tree::of(&[("crates/txn/src/a.rs", CODE), ("crates/txn/src/a/tests.rs", CODE)]);
        let figure = figures(&tree)[0].clone();
        let expected = Figure { folder: "crates/txn", functions: 5, changing: 3, assertions: 2 };
        assert_eq!(figure, expected);
        assert_eq!(figure.per_hundred(), 66);
        assert!(figure.to_string().ends_with("0.66 for each function that changes state"));
    }

    #[test]
    fn a_crate_below_its_floor_is_found() {
        let bare = "//! A file.\nimpl A {\n    fn a(&mut self) {}\n}\n";
        let tree = Tree::of(&[("crates/txn/src/a.rs", bare)]);
        let found = check(&tree);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("0 for each 100 functions"), "{}", found[0]);
        let checked = bare.replace("{}", "{ assert!(true); assert!(true); }");
        assert_eq!(check(&Tree::of(&[("crates/txn/src/a.rs", &checked)])), []);
    }
}
