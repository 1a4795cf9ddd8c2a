//! One broken rule, as `file:line: rule: what is there > what is allowed`.

use std::fmt;

/// A place that breaks a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// Path from the repository's root, with `/`.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Short name of the rule.
    pub rule: &'static str,
    /// What is there and what is allowed.
    pub message: String,
}

impl Finding {
    /// A finding in `file` at `line`.
    pub fn new(file: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Finding { file: file.to_string(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}: {}", self.file, self.line, self.rule, self.message)
    }
}
