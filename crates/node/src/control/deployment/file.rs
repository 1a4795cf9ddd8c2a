//! A deployment file: its elements, and what it would change of a host's settings.

/// An element of the file with its attributes: the names from below the root, with `/` between.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Element {
    path: String,
    attributes: Vec<(String, String)>,
}

impl Element {
    fn attribute(&self, name: &str) -> Option<&str> {
        let found = self.attributes.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// Elements and attributes, and what `@SystemInformation DEPLOYMENT` reports for each.
const SETTINGS: &[(&str, &str, &str)] = &[
    ("cluster", "hostcount", "hostcount"),
    ("cluster", "kfactor", "kfactor"),
    ("cluster", "sitesperhost", "sitesperhost"),
    ("commandlog", "enabled", "commandlogenabled"),
    ("commandlog/frequency", "time", "commandlogfreqtime"),
    ("commandlog/frequency", "transactions", "commandlogfreqtxns"),
    ("httpd", "enabled", "httpenabled"),
    ("httpd/jsonapi", "enabled", "jsonenabled"),
    ("snapshot", "enabled", "snapshotenabled"),
    ("snapshot", "frequency", "snapshotfrequency"),
    ("snapshot", "retain", "snapshotretain"),
    ("systemsettings/priorities", "enabled", "prioritiesenabled"),
    ("systemsettings/query", "timeout", "querytimeout"),
    ("systemsettings/temptables", "maxsize", "temptablesmaxsize"),
];

/// Elements of features that this release does not have, and whether they are on by themselves.
const ABSENT: &[(&str, bool, &str)] = &[
    ("dr", true, "replication between clusters"),
    ("export/configuration", true, "export"),
    ("import/configuration", true, "import"),
    ("security", false, "users and permissions"),
    ("ssl", false, "encrypted connections"),
    ("topics", true, "topics"),
];

/// What a file would change of a host's settings.
pub(super) fn differences(elements: &[Element], current: &[(String, String)]) -> Vec<String> {
    let mut problems = Vec::new();
    for element in elements {
        for (_, on_by_itself, feature) in ABSENT.iter().filter(|(p, ..)| *p == element.path) {
            let is_on =
                element.attribute("enabled").map_or(*on_by_itself, |value| !is_false(value));
            if is_on {
                problems.push(format!("{} needs {feature}, which is not here", element.path));
            }
        }
        let settings = SETTINGS.iter().filter(|(path, ..)| *path == element.path);
        for (_, attribute, property) in settings {
            let Some(given) = element.attribute(attribute) else { continue };
            let set = current.iter().find(|(name, _)| name == property);
            match set.map(|(_, value)| value.as_str()) {
                Some(set) if meaning(set) == meaning(given) => {}
                // What is not reported is switched off.
                None if is_false(given) => {}
                set => problems.push(format!(
                    "{property} is {} here and {given} in the file",
                    set.unwrap_or("not set")
                )),
            }
        }
    }
    problems
}

fn is_false(value: &str) -> bool {
    matches!(value.trim(), "false" | "0")
}

/// A value in one form: of the truth values, and of spans with a unit.
fn meaning(value: &str) -> String {
    let value = value.trim();
    let (number, unit) = value.split_at(value.len() - usize::from(value.ends_with(unit_of_time)));
    let seconds = match unit {
        "s" => Some(1),
        "m" => Some(60),
        "h" => Some(3_600),
        _ => None,
    };
    let span = seconds.zip(number.parse::<u64>().ok());
    match (span, value) {
        (Some((seconds, number)), _) => format!("{}s", number.saturating_mul(seconds)),
        (None, "true") => "1".to_string(),
        (None, "false") => "0".to_string(),
        (None, other) => other.to_string(),
    }
}

fn unit_of_time(c: char) -> bool {
    matches!(c, 's' | 'm' | 'h')
}

/// The elements below the root, which is `deployment`.
///
/// # Errors
/// The text is not XML with this root.
pub(super) fn elements(text: &str) -> Result<Vec<Element>, String> {
    let mut found = Vec::new();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = text.trim_start_matches('\u{feff}');
    let mut has_root = false;
    while let Some(at) = rest.find('<') {
        rest = &rest[at..];
        if let Some(end) = skipped(rest)? {
            rest = &rest[end..];
            continue;
        }
        let end = end_of_tag(rest)?;
        let tag = rest[1..end].trim();
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name.trim()) {
                return Err(format!("</{}> closes what is not open", name.trim()));
            }
            continue;
        }
        let (tag, is_empty) = match tag.strip_suffix('/') {
            Some(tag) => (tag, true),
            None => (tag, false),
        };
        let name = tag.split(char::is_whitespace).next().unwrap_or("");
        if open.is_empty() && (has_root || name != "deployment") {
            return Err("its root is not one element <deployment>".to_string());
        }
        has_root = true;
        let below = open.iter().skip(1).chain([&name]).copied().collect::<Vec<_>>().join("/");
        if !open.is_empty() {
            found.push(Element { path: below, attributes: attributes(&tag[name.len()..])? });
        }
        if !is_empty {
            open.push(name);
        }
    }
    match (has_root, open.last()) {
        (false, _) => Err("it has no element <deployment>".to_string()),
        (true, Some(name)) => Err(format!("<{name}> is not closed")),
        (true, None) => Ok(found),
    }
}

/// The end of a comment, a declaration or the like, if one begins here.
fn skipped(text: &str) -> Result<Option<usize>, String> {
    for (begin, end) in [("<!--", "-->"), ("<![CDATA[", "]]>"), ("<?", "?>"), ("<!", ">")] {
        if text.starts_with(begin) {
            let at = text.find(end).ok_or_else(|| format!("{begin} has no {end}"))?;
            return Ok(Some(at + end.len()));
        }
    }
    Ok(None)
}

/// Where the `>` of a tag stands that is not within quotes.
fn end_of_tag(text: &str) -> Result<usize, String> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return Ok(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    Err("a tag has no >".to_string())
}

fn attributes(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (name, after) =
            rest.split_once('=').ok_or_else(|| format!("'{rest}' is not an attribute"))?;
        let after = after.trim_start();
        let quote = after.chars().next().filter(|c| matches!(c, '"' | '\''));
        let quoted = quote.and_then(|quote| after[1..].split_once(quote));
        let (value, left) =
            quoted.ok_or_else(|| format!("attribute {} has no quotes", name.trim()))?;
        found.push((name.trim().to_string(), unescaped(value)));
        rest = left.trim_start();
    }
    Ok(found)
}

fn unescaped(value: &str) -> String {
    let named = [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")];
    named.iter().fold(value.to_string(), |text, (name, c)| text.replace(name, c))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "<?xml version=\"1.0\"?>\n<!-- <deployment> -->\n<deployment>\n\
        <cluster sitesperhost=\"2\" kfactor='0' />\n<httpd enabled=\"false\"><jsonapi \
        enabled=\"0\"/></httpd>\n<security enabled=\"false\"/>\n<snapshot frequency = \"10m\" \
        prefix=\"a&amp;b>c\"></snapshot>\n<systemsettings><query timeout=\"10000\"/>\
        </systemsettings>\n</deployment>\n";

    fn set() -> Vec<(String, String)> {
        [
            ("sitesperhost", "2"),
            ("kfactor", "0"),
            ("httpenabled", "false"),
            ("jsonenabled", "false"),
            ("snapshotfrequency", "600s"),
            ("querytimeout", "10000"),
        ]
        .map(|(name, value)| (name.to_string(), value.to_string()))
        .into()
    }

    #[test]
    fn a_file_that_says_what_is_set_differs_in_nothing() {
        let elements = elements(FILE).expect("sound");
        let paths: Vec<&str> = elements.iter().map(|element| element.path.as_str()).collect();
        let expected = ["cluster", "httpd", "httpd/jsonapi", "security", "snapshot"];
        assert_eq!(paths[..5], expected);
        assert_eq!(paths[5..], ["systemsettings", "systemsettings/query"]);
        assert_eq!(elements[4].attribute("prefix"), Some("a&b>c"));
        assert_eq!(differences(&elements, &set()), Vec::<String>::new());
    }

    #[test]
    fn what_a_file_would_change_is_named_with_both_values() {
        let file = "<deployment><cluster sitesperhost='9' kfactor='0'/><security enabled='true'/>\
                    <commandlog enabled='true'/><snapshot frequency='1h' enabled='false'/>\
                    <export><configuration target='x'/><configuration enabled='false'/></export>\
                    </deployment>";
        let found = differences(&elements(file).expect("sound"), &set());
        assert_eq!(
            found,
            [
                "sitesperhost is 2 here and 9 in the file",
                "security needs users and permissions, which is not here",
                "commandlogenabled is not set here and true in the file",
                "snapshotfrequency is 600s here and 1h in the file",
                "export/configuration needs export, which is not here",
            ]
        );
    }

    #[test]
    fn what_is_no_deployment_file_is_refused() {
        for (text, problem) in [
            ("", "no element <deployment>"),
            ("text", "no element <deployment>"),
            ("<a/>", "root is not one element"),
            ("<deployment/><deployment/>", "root is not one element"),
            ("<deployment>", "<deployment> is not closed"),
            ("<deployment></x>", "</x> closes what is not open"),
            ("<deployment", "a tag has no >"),
            ("<!-- <deployment/>", "<!-- has no -->"),
            ("<deployment><a b/></deployment>", "'b' is not an attribute"),
            ("<deployment><a b=c/></deployment>", "attribute b has no quotes"),
        ] {
            let error = elements(text).expect_err(text);
            assert!(error.contains(problem), "{text}: {error}");
        }
    }
}
