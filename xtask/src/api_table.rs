//! The table of the procedure API and the tests that it names say the same: each named test is
//! there, and each test of the classes that it stands for is in it.

use crate::finding::Finding;
use crate::tree::Tree;

const TABLE: &str = "docs/java-api.md";
/// What the table calls the classes of tests, and where those are.
const CLASSES: &[(&str, &str)] = &[
    ("Calls", "java/driver-tests/src/test/java/lockstep/drivers/ProcedureCallsTest.java"),
    ("Types", "java/driver-tests/src/test/java/lockstep/drivers/ProcedureTypesTest.java"),
];
const RUST_TESTS: &str = "crates/node/tests/it/";

/// Checks the table of the tree; nothing if it has none.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let Some(table) = tree.text(TABLE) else { return Vec::new() };
    let mut findings = Vec::new();
    let mut named = Vec::new();
    for (number, line) in table.lines().enumerate() {
        let Some((_, tests)) = line.trim_end().trim_end_matches('|').rsplit_once('|') else {
            continue;
        };
        for test in tests.split('`').skip(1).step_by(2) {
            named.push(test);
            if !is_there(tree, test) {
                let message = format!("`{test}` is no test");
                findings.push(Finding::new(TABLE, number + 1, "test of the API", message));
            }
        }
    }
    for (short, path) in CLASSES {
        for (number, test) in java_tests(tree.text(path).unwrap_or_default()) {
            if !named.contains(&format!("{short}.{test}").as_str()) {
                let message = format!("`{test}` is not in {TABLE}");
                findings.push(Finding::new(path, number, "test of the API", message));
            }
        }
    }
    findings
}

fn is_there(tree: &Tree, test: &str) -> bool {
    match test.split_once('.') {
        Some((short, name)) => {
            CLASSES.iter().filter(|(known, _)| *known == short).any(|(_, path)| {
                java_tests(tree.text(path).unwrap_or_default()).any(|(_, found)| found == name)
            })
        }
        None => {
            let definition = format!("fn {test}()");
            let files = tree.files.iter().filter(|(path, _)| path.starts_with(RUST_TESTS));
            files.into_iter().any(|(_, text)| text.contains(&definition))
        }
    }
}

/// The methods after `@Test` and its relatives, with the numbers of their lines.
fn java_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut expected = false;
    text.lines().enumerate().filter_map(move |(number, line)| {
        let line = line.trim();
        if line == "@Test" || line == "@ParameterizedTest" {
            expected = true;
        }
        let name = line.strip_prefix("void ")?.split_once('(')?.0;
        std::mem::take(&mut expected).then_some((number + 1, name))
    })
}

#[cfg(test)]
mod tests {
    use super::java_tests;

    #[test]
    fn tests_are_found_by_their_annotations() {
        let text = "@Test\n  void one() {\n}\nvoid helper() {}\n@ParameterizedTest\n\
                    @ValueSource(ints = {1})\nvoid two(int n) throws Exception {";
        assert_eq!(java_tests(text).collect::<Vec<_>>(), [(2, "one"), (7, "two")]);
    }
}
