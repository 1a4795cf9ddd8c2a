//! `@UpdateLogging`: what is logged from now on. The parameter is a filter as for `--log`, or the
//! configuration of log4j that tools for VoltDB send, of which the levels count.

use super::Control;
use super::system::text_parameter;
use crate::message::Origin;
use lockstep_types::Failure;
use lockstep_wire_volt::Invocation;

/// The longest parameter that is read.
const TEXT_BYTES_MAX: usize = 1 << 20;

impl Control {
    /// `@UpdateLogging`.
    pub(super) fn update_logging(
        &mut self,
        origin: Origin,
        invocation: &Invocation<'_>,
    ) -> Result<(), Failure> {
        let wrong = |problem: &str| Failure::graceful(format!("@UpdateLogging: {problem}"));
        let Some(text) = text_parameter(invocation, 0) else {
            return Err(wrong("the parameter must be a text: levels, or log4j XML"));
        };
        if text.len() > TEXT_BYTES_MAX {
            return Err(wrong(&format!(
                "the text has {} bytes (limit {TEXT_BYTES_MAX})",
                text.len()
            )));
        }
        let Levels { filter, unknown } = match text.trim_start().starts_with('<') {
            true => read_log4j(text).map_err(|problem| wrong(&problem))?,
            false => Levels { filter: text.trim().to_string(), unknown: Vec::new() },
        };
        let Some(change) = self.facts.on_log_filter.get() else {
            return Err(wrong("the log of this host is that of the program that it is part of"));
        };
        change(&filter).map_err(|problem| wrong(&problem))?;
        tracing::info!(filter, "what is logged has changed");
        let said = (!unknown.is_empty())
            .then(|| format!("Nothing is logged here by these names: {}", unknown.join(", ")));
        self.answer_tables_with(origin, said, super::answer::write_status);
        Ok(())
    }
}

/// The levels of a configuration.
#[derive(Debug, PartialEq, Eq)]
struct Levels {
    /// As a filter.
    filter: String,
    /// Loggers that this host does not have.
    unknown: Vec<String>,
}

/// Reads the levels of a configuration of log4j: that of the root, and those of loggers.
fn read_log4j(text: &str) -> Result<Levels, String> {
    let (mut root, mut named, mut unknown) = (None, Vec::new(), Vec::new());
    // The logger that is open: its name, none for the root.
    let mut open: Option<Option<String>> = None;
    let mut rest = text;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            rest = comment.split_once("-->").ok_or("a comment does not end")?.1;
            continue;
        }
        let (tag, behind) = rest[1..].split_once('>').ok_or("a tag does not end")?;
        rest = behind;
        let name = tag.split(|c: char| c.is_whitespace() || c == '/').next().unwrap_or("");
        match name.to_ascii_lowercase().as_str() {
            "root" => open = Some(None),
            "logger" | "category" => {
                let logger = attribute(tag, "name").ok_or("a logger has no name")?;
                open = Some(Some(logger.to_string()));
            }
            "level" | "priority" => {
                let value = attribute(tag, "value").ok_or("a level has no value")?;
                let level = level_of(value).ok_or(format!("there is no level '{value}'"))?;
                match &open {
                    Some(None) => root = Some(level),
                    Some(Some(logger)) if is_own(logger) => named.push(format!("{logger}={level}")),
                    Some(Some(logger)) => unknown.push(logger.clone()),
                    None => {}
                }
            }
            _ => {}
        }
    }
    let root = root.ok_or("the text has no <root> with a <level value=\"...\">")?;
    let filter = std::iter::once(root.to_string()).chain(named).collect::<Vec<_>>().join(",");
    Ok(Levels { filter, unknown })
}

/// Whether a logger is a module of this program.
fn is_own(logger: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | ':');
    logger.starts_with("lockstep") && logger.chars().all(is_word)
}

/// The value of an attribute of a tag.
fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let mut rest = tag;
    loop {
        let (before, behind) = rest.split_once('=')?;
        let behind = behind.trim_start();
        let quote = behind.chars().next().filter(|quote| matches!(quote, '"' | '\''))?;
        let (value, next) = behind[1..].split_once(quote)?;
        if before.split_whitespace().next_back() == Some(name) {
            return Some(value);
        }
        rest = next;
    }
}

/// The level of a filter for one of log4j's.
fn level_of(value: &str) -> Option<&'static str> {
    Some(match value.to_ascii_lowercase().as_str() {
        "off" => "off",
        "fatal" | "error" => "error",
        "warn" => "warn",
        "info" => "info",
        "debug" => "debug",
        "trace" | "all" => "trace",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_levels_of_log4j_are_a_filter() {
        let levels = read_log4j(
            "<?xml version=\"1.0\"?><!-- <root><level value=\"off\"/></root> -->\n\
             <log4j:configuration debug='false'>\n\
             <appender name=\"console\" class=\"x\"><param name=\"a\" value=\"b\"/></appender>\n\
             <logger name=\"lockstep_node::log\"><level value=\"DEBUG\"/></logger>\n\
             <category name='HOST'><priority value='info'/></category>\n\
             <root><priority value = \"WARN\" /><appender-ref ref=\"console\"/></root>\n\
             </log4j:configuration>",
        );
        let filter = "warn,lockstep_node::log=debug".to_string();
        assert_eq!(levels, Ok(Levels { filter, unknown: vec!["HOST".to_string()] }));
        for (text, problem) in [
            ("<root>", "no <root> with a <level"),
            ("<root><level value='loud'/></root>", "there is no level 'loud'"),
            ("<logger><level value='info'/></logger>", "a logger has no name"),
            ("<root", "a tag does not end"),
            ("<!-- ", "a comment does not end"),
        ] {
            let error = read_log4j(text).expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
