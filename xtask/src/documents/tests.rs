//! Documents that agree with a small tree, and documents that do not.

use super::*;

const ROUTER: &str = "//! Routes.\npub struct Router;\n\
                      impl Router {\n    pub fn route(&self) {}\n}\n\
                      pub enum Kind {\n    Single,\n}\n";

/// A tree with all root documents, one crate and the given texts.
fn tree(architecture: &str, extra: &[(&str, &str)]) -> Tree {
    let mut files = vec![
        ("README.md", "# Hello there\n"),
        ("ARCHITECTURE.md", architecture),
        ("STYLE.md", ""),
        ("CONTRIBUTING.md", ""),
        ("CHANGELOG.md", ""),
        ("LICENSE", ""),
        ("crates/plan-ir/Cargo.toml", ""),
        ("crates/plan-ir/src/lib.rs", "//! L.\npub mod router;\n"),
        ("crates/plan-ir/src/router.rs", ROUTER),
    ];
    files.extend_from_slice(extra);
    Tree::of(&files)
}

fn messages(tree: &Tree) -> Vec<String> {
    check(tree).iter().map(Finding::to_string).collect()
}

#[test]
fn a_true_architecture_is_clean() {
    let text = "The crate `crates/plan-ir` has [a router](crates/plan-ir/src/router.rs).\n\
                1. `plan_ir::router::Router::route` or `router.rs: route` or `Router::route()`\n\
                2. `Kind::Single`, `std::fs::read`, `crates/*/src`, `SELECT a/b`\n\
                ```\n[gone](gone.md) `crates/gone`\n```\n\
                See [hello](README.md#hello-there), [above](#), [web](https://example.org/x).\n";
    assert_eq!(messages(&tree(text, &[])), Vec::<String>::new());
}

#[test]
fn a_package_without_a_place_is_found() {
    let found = messages(&tree("Only `plan` is named, and plan-irk.\n", &[]));
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("`crates/plan-ir` is not named"), "{found:?}");
}

#[test]
fn missing_root_documents_are_found() {
    let found = messages(&Tree::of(&[]));
    assert_eq!(found.len(), ROOT_DOCUMENTS.len(), "{found:?}");
}

#[test]
fn broken_links_are_found_in_every_document() {
    let extra = [("docs/a.md", "x\n[b](b.md) [c](../README.md#no-such) [d](../README.md)\n")];
    let found = messages(&tree("`plan-ir`\n", &extra));
    assert_eq!(
        found,
        [
            "docs/a.md:2: link: b.md leads to docs/b.md, which does not exist",
            "docs/a.md:2: link: ../README.md#no-such: README.md has no heading #no-such",
        ]
    );
}

#[test]
fn links_out_of_the_repository_are_not_followed() {
    let extra = [("docs/a.md", "[golden](../../shared/golden/README.md)\n")];
    assert_eq!(messages(&tree("`plan-ir`\n", &extra)), Vec::<String>::new());
}

#[test]
fn stale_names_are_found() {
    let gone = [
        ("`crates/gone/src`", "`crates/gone/src` does not exist"),
        ("`plan_ir::router::gone`", "crates/plan-ir does not define `plan_ir::router::gone`"),
        ("`lockstep_plan_ir::gone::route`", "crates/plan-ir does not define"),
        ("`router.rs: gone`", "router.rs has no `gone`"),
        ("`gone.rs: route`", "there is no file gone.rs"),
        ("`Router::gone`", "nothing defines `Router::gone`"),
    ];
    for (span, expected) in gone {
        let found = messages(&tree(&format!("`plan-ir`\n{span}\n"), &[]));
        assert_eq!(found.len(), 1, "{span}: {found:?}");
        let start = format!("ARCHITECTURE.md:2: stale name: {expected}");
        assert!(found[0].starts_with(&start), "{span}: {found:?}");
    }
}

#[test]
fn life_of_walks_are_checked_like_the_architecture() {
    let extra =
        [("docs/life-of/call.md", "1. `Router::gone`\n"), ("docs/b.md", "`Router::gone`\n")];
    let found = messages(&tree("`plan-ir`\n", &extra));
    assert_eq!(found, ["docs/life-of/call.md:1: stale name: nothing defines `Router::gone`"]);
}
