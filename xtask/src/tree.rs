//! The files of the repository, read once and kept in memory for all checks.

use std::collections::BTreeMap;
use std::path::Path;

/// Folders that hold nothing anybody wrote.
const SKIPPED: &[&str] = &["target", ".git", ".venv", "node_modules", "__pycache__"];

/// Endings of files whose text the checks read; of all others only the path counts.
const READ: &[&str] = &[".rs", ".md", ".py", ".java", ".toml", "NOTICE", "words.txt"];

/// All paths below a root, with the text of those that checks read.
#[derive(Debug, Default)]
pub struct Tree {
    /// Path from the root, with `/`, to text (empty for files that no check reads).
    pub files: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the tree below `root`. A file that is not UTF-8 is an error that names it.
    pub fn read(root: &Path) -> Result<Tree, String> {
        let mut tree = Tree::default();
        let mut folders = vec![String::new()];
        while let Some(folder) = folders.pop() {
            let path = root.join(&folder);
            let entries =
                std::fs::read_dir(&path).map_err(|e| format!("{}: {e}", path.display()))?;
            for entry in entries {
                let entry = entry.map_err(|e| format!("{}: {e}", path.display()))?;
                let name = entry.file_name().to_string_lossy().into_owned();
                let relative =
                    if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
                let kind = entry.file_type().map_err(|e| format!("{relative}: {e}"))?;
                if kind.is_dir() {
                    if !SKIPPED.contains(&name.as_str()) {
                        folders.push(relative);
                    }
                } else if kind.is_file() {
                    tree.add(root, relative)?;
                }
            }
        }
        Ok(tree)
    }

    fn add(&mut self, root: &Path, relative: String) -> Result<(), String> {
        let wanted = READ.iter().any(|ending| relative.ends_with(ending));
        let text = if wanted {
            std::fs::read_to_string(root.join(&relative)).map_err(|e| format!("{relative}: {e}"))?
        } else {
            String::new()
        };
        self.files.insert(relative, text);
        Ok(())
    }

    /// A tree from `(path, text)` pairs, for tests.
    #[cfg(test)]
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let files = files.iter().map(|(path, text)| (path.to_string(), text.to_string()));
        Tree { files: files.collect() }
    }

    /// The text of `path`, if that file exists.
    pub fn text(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }

    /// Whether `path` is a file or a folder with files in it.
    pub fn exists(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        if path.is_empty() || self.files.contains_key(path) {
            return true;
        }
        let prefix = format!("{path}/");
        self.files.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix))
    }

    /// The folders of the workspace's packages: every folder with a `Cargo.toml` but the root.
    pub fn packages(&self) -> impl Iterator<Item = &str> {
        self.files.keys().filter_map(|path| path.strip_suffix("/Cargo.toml"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exists_knows_files_folders_and_absent_paths() {
        let tree = Tree::of(&[("crates/base/Cargo.toml", ""), ("crates/base-x/a.rs", "")]);
        assert!(tree.exists("crates/base/Cargo.toml"));
        assert!(tree.exists("crates/base"));
        assert!(tree.exists("crates/base/"));
        assert!(!tree.exists("crates/bas"));
        assert!(!tree.exists("crates/base/src"));
        assert_eq!(tree.packages().collect::<Vec<_>>(), ["crates/base"]);
    }
}
