//! The file of limits: for each path the instructions of a call, counted with the compiler that it
//! names. A count may be over its limit by a small share, as libraries and processors differ.

use serde_json::{Map, Value, json};
use std::path::Path;
use std::process::Command;

/// How much a count may be over its limit, in percent.
const TOLERANCE_PERCENT: u64 = 2;

/// What comes of a count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// At most the limit and the tolerance.
    Within,
    /// Under the limit by more than the tolerance: the limit can go down.
    Lower,
    /// Over the limit by more than the tolerance.
    Over,
    /// The file has no limit for the path.
    NoLimit,
    /// The file's limits were counted with another compiler.
    OtherCompiler,
}

impl Judgement {
    /// In words, for the report.
    pub fn text(self) -> &'static str {
        match self {
            Judgement::Within => "ok",
            Judgement::Lower => "ok; lower the limit with --write",
            Judgement::Over => "FAILED: over the limit",
            Judgement::NoLimit => "no limit; set it with --write",
            Judgement::OtherCompiler => "not judged: another compiler",
        }
    }
}

/// The contents of the file.
#[derive(Debug, Default)]
pub struct Limits {
    compiler: String,
    paths: Map<String, Value>,
}

impl Limits {
    /// Reads a file; one that is not there has no limits.
    ///
    /// # Errors
    /// It cannot be read, or is not the JSON that [`Limits::write`] makes.
    pub fn read(file: &Path) -> Result<Limits, String> {
        let shown = file.display();
        let text = match std::fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Limits::default());
            }
            Err(error) => return Err(format!("{shown}: {error}")),
        };
        let value: Value =
            serde_json::from_str(&text).map_err(|error| format!("{shown}: {error}"))?;
        let compiler = value.get("compiler").and_then(Value::as_str);
        let paths = value.get("instructions_per_call").and_then(Value::as_object);
        match (compiler, paths) {
            (Some(compiler), Some(paths)) if paths.values().all(Value::is_u64) => {
                Ok(Limits { compiler: compiler.to_string(), paths: paths.clone() })
            }
            _ => Err(format!("{shown}: \"compiler\" and \"instructions_per_call\" are expected")),
        }
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, file: &Path) -> Result<(), String> {
        let value = json!({ "compiler": self.compiler, "instructions_per_call": self.paths });
        let text = serde_json::to_string_pretty(&value).map_err(|error| error.to_string())?;
        std::fs::write(file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))
    }

    /// Makes counts the limits.
    pub fn take(&mut self, counts: &[(&'static str, u64)], compiler: &str) {
        self.compiler = compiler.to_string();
        for (name, count) in counts {
            self.paths.insert((*name).to_string(), Value::from(*count));
        }
    }

    /// The limit of a path.
    pub fn of(&self, name: &str) -> Option<u64> {
        self.paths.get(name).and_then(Value::as_u64)
    }

    /// The compiler that the limits were counted with.
    pub fn compiler_text(&self) -> &str {
        if self.compiler.is_empty() { "no compiler yet" } else { &self.compiler }
    }

    /// What comes of a count with a compiler.
    pub fn judge(&self, name: &str, count: u64, compiler: &str) -> Judgement {
        let Some(limit) = self.of(name) else { return Judgement::NoLimit };
        if compiler != self.compiler {
            return Judgement::OtherCompiler;
        }
        match count * 100 {
            counted if counted > limit * (100 + TOLERANCE_PERCENT) => Judgement::Over,
            counted if counted < limit * (100 - TOLERANCE_PERCENT) => Judgement::Lower,
            _ => Judgement::Within,
        }
    }
}

/// The installed compiler, as it names itself.
///
/// # Errors
/// It cannot be run.
pub fn compiler() -> Result<String, String> {
    let output = Command::new("rustc")
        .arg("--version")
        .output()
        .map_err(|error| format!("rustc cannot be run: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

/// Writes counts as JSON.
///
/// # Errors
/// The file cannot be written.
pub fn write_counts(
    file: &Path,
    counts: &[(&'static str, u64)],
    compiler: &str,
) -> Result<(), String> {
    let mut limits = Limits::default();
    limits.take(counts, compiler);
    limits.write(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_judged_by_the_limit_and_the_compiler() {
        let mut limits = Limits::default();
        assert_eq!(limits.judge("voter", 1000, "rustc 1"), Judgement::NoLimit);
        limits.take(&[("voter", 1000)], "rustc 1");
        assert_eq!(limits.judge("voter", 1020, "rustc 1"), Judgement::Within);
        assert_eq!(limits.judge("voter", 1021, "rustc 1"), Judgement::Over);
        assert_eq!(limits.judge("voter", 979, "rustc 1"), Judgement::Lower);
        assert_eq!(limits.judge("voter", 5000, "rustc 2"), Judgement::OtherCompiler);
    }
}
