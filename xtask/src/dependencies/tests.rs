//! Small graphs that keep and break each dependency rule.

use super::*;

fn package(folder: &str, uses: &[&str]) -> Package {
    let name = match folder.rsplit_once('/') {
        Some((_, short)) => format!("lockstep-{short}"),
        None => folder.to_string(),
    };
    Package {
        name,
        folder: folder.to_string(),
        uses: uses.iter().map(|name| name.to_string()).collect(),
        test_uses: Vec::new(),
        breaks: Vec::new(),
    }
}

fn messages(packages: &[Package]) -> Vec<String> {
    check(packages).into_iter().map(|finding| finding.message).collect()
}

#[test]
fn the_designed_graph_is_clean() {
    let graph = [
        package("crates/base", &[]),
        package("crates/types", &["lockstep-base"]),
        package("crates/sql", &["lockstep-base", "sqlparser"]),
        package("crates/plan-ir", &["lockstep-types", "lockstep-base"]),
        package("crates/plan", &["lockstep-sql", "lockstep-plan-ir", "lockstep-types"]),
        package("crates/storage", &["lockstep-types"]),
        package("crates/exec", &["lockstep-plan-ir", "lockstep-storage", "lockstep-types"]),
        package("crates/txn", &["lockstep-types"]),
        package("crates/site", &["lockstep-txn", "lockstep-exec"]),
        package("crates/node", &["lockstep-site", "lockstep-plan", "mio", "libc"]),
        package("apps/lockstep", &["lockstep-node", "mio"]),
        package("testing/testkit", &["lockstep-node"]),
    ];
    assert_eq!(messages(&graph), Vec::<String>::new());
}

#[test]
fn the_table_refuses_what_it_does_not_name() {
    let graph = [package("crates/storage", &[]), package("crates/txn", &["lockstep-storage"])];
    let found = messages(&graph);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], "uses crates/storage > allowed: [crates/base, crates/types]");
    assert_eq!(found[1], "crates/txn reaches crates/storage, which it must never see");
}

#[test]
fn the_released_binary_has_no_fault_injection() {
    let breaking = |folder: &str| {
        let uses = ["lockstep-site"];
        Package { breaks: uses.map(str::to_string).to_vec(), ..package(folder, &uses) }
    };
    let site = package("crates/site", &[]);
    let sound = [
        site.clone(),
        breaking("testing/sim"),
        package("testing/bench", &["lockstep-site"]),
        package("apps/lockstep", &["lockstep-bench"]),
    ];
    assert_eq!(messages(&sound), Vec::<String>::new());
    let broken = [site, breaking("testing/bench"), package("apps/lockstep", &["lockstep-bench"])];
    let expected = "builds lockstep-site with faults > apps/lockstep is released without";
    assert_eq!(messages(&broken), [expected]);
}

#[test]
fn forbidden_pairs_are_found_through_others() {
    let graph = [
        package("crates/sql", &[]),
        package("crates/types", &["lockstep-sql"]),
        package("crates/storage", &["lockstep-types"]),
    ];
    let found = messages(&graph);
    let expected = "crates/storage reaches crates/sql, which it must never see".to_string();
    assert!(found.contains(&expected), "{found:?}");
}

#[test]
fn foreign_crates_have_one_owner() {
    let found = messages(&[package("crates/wire-volt", &["mio"])]);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("names mio > its owners are crates/node"), "{found:?}");
    assert_eq!(found[1], "deterministic crate uses mio > allowed: []");
    assert_eq!(messages(&[package("crates/plan", &["sqlparser"])]).len(), 2);
    assert!(messages(&[package("testing/bench", &["mio"])]).is_empty());
}

#[test]
fn only_applications_and_test_machinery_see_the_node() {
    let mut client = package("crates/client", &[]);
    client.test_uses.push("lockstep-node".to_string());
    let found = messages(&[package("crates/node", &[]), client]);
    assert_eq!(found, ["uses crates/node > allowed in apps/ and testing/ only"]);
}

#[test]
fn a_crate_has_its_name_and_its_row() {
    let mut odd = package("crates/base", &[]);
    odd.name = "base".to_string();
    assert_eq!(messages(&[odd]), ["package name base is not lockstep-base"]);
    let found = messages(&[package("crates/strange", &[])]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].starts_with("has no row"), "{found:?}");
}

#[test]
fn metadata_is_read() {
    let text = r#"{"workspace_root":"/r","packages":[{"name":"lockstep-types",
        "manifest_path":"/r/crates/types/Cargo.toml","dependencies":[
        {"name":"lockstep-base","kind":null},{"name":"lockstep-testkit","kind":"dev"}]}]}"#;
    let metadata: Value = serde_json::from_str(text).expect("the text above is JSON");
    let packages = parse_metadata(&metadata).expect("the text above is metadata");
    assert_eq!(packages[0].folder, "crates/types");
    assert_eq!(packages[0].uses, ["lockstep-base"]);
    assert_eq!(packages[0].test_uses, ["lockstep-testkit"]);
    assert!(parse_metadata(&Value::Null).is_err());
}

#[test]
fn manifests_inherit_lints_and_versions() {
    let good = "[package]\nname = \"a\"\n[lints]\nworkspace = true\n[dependencies]\n\
                lockstep-base.workspace = true\nlibc = { workspace = true }\n";
    let tree = Tree::of(&[("crates/txn/Cargo.toml", good)]);
    assert_eq!(check_manifests(&tree), Vec::new());
    let bad = "[package]\n[dev-dependencies]\nlibc = \"0.2\"\n";
    let tree = Tree::of(&[("crates/txn/Cargo.toml", bad), ("crates/txn/clippy.toml", "")]);
    let found = check_manifests(&tree);
    assert_eq!(found.len(), 3, "{found:?}");
}

#[test]
fn folders_are_cut_from_paths() {
    assert_eq!(folder_of("crates/base/src/a.rs"), "crates/base");
    assert_eq!(folder_of("xtask/src/a.rs"), "xtask");
    assert_eq!(folder_of("a.rs"), "a.rs");
}
