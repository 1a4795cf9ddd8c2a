//! Runs all checks over one reading of the tree.

use std::path::Path;

use crate::assertions::{self, Figure};
use crate::finding::Finding;
use crate::tree::Tree;
use crate::{api_table, dependencies, documents, house, notice, words};

/// What `check` found.
pub struct Report {
    /// How many files the tree has.
    pub files: usize,
    /// Broken rules, in order of file and line.
    pub findings: Vec<Finding>,
    /// Assertions by crate.
    pub figures: Vec<Figure>,
}

/// Checks the repository at `root`.
pub fn run(root: &Path) -> Result<Report, String> {
    let tree = Tree::read(root)?;
    let packages = dependencies::read_metadata(root)?;
    let mut findings = house::check(&tree);
    findings.extend(dependencies::check(&packages));
    findings.extend(dependencies::check_manifests(&tree));
    findings.extend(documents::check(&tree));
    findings.extend(api_table::check(&tree));
    findings.extend(notice::check(&tree, &notice::read_linked(root)?));
    findings.extend(assertions::check(&tree));
    findings.extend(words::check(&tree));
    findings.sort();
    findings.dedup();
    Ok(Report { files: tree.files.len(), findings, figures: assertions::figures(&tree) })
}
