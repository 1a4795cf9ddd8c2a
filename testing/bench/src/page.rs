//! A report as one self-contained HTML page: what was run, on which machine, tables and charts.
//! Nothing is loaded from elsewhere, so that the page can be kept beside the figures.

use crate::chart::{Chart, escaped};
use std::fmt::Write;
use std::fs;

/// A page in the making.
#[derive(Debug, Clone, Default)]
pub struct Page {
    title: String,
    body: String,
}

const STYLE: &str = "body{font:15px/1.45 sans-serif;max-width:60em;margin:2em auto;padding:0 1em}\
table{border-collapse:collapse;margin:1em 0}\
td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;margin:1em 0}";

impl Page {
    /// An empty page.
    pub fn new(title: &str) -> Page {
        Page { title: title.to_string(), body: String::new() }
    }

    /// A heading.
    pub fn heading(&mut self, text: &str) -> &mut Page {
        let _ = writeln!(self.body, "<h2>{}</h2>", escaped(text));
        self
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) -> &mut Page {
        let _ = writeln!(self.body, "<p>{}</p>", escaped(text));
        self
    }

    /// A table; rows may be shorter than its head.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> &mut Page {
        let row = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cells: String =
                cells.map(|cell| format!("<{tag}>{}</{tag}>", escaped(cell))).collect();
            format!("<tr>{cells}</tr>\n")
        };
        self.body.push_str("<table>\n");
        if !head.is_empty() {
            self.body.push_str(&row("th", &mut head.iter().copied()));
        }
        for cells in rows {
            self.body.push_str(&row("td", &mut cells.iter().map(String::as_str)));
        }
        self.body.push_str("</table>\n");
        self
    }

    /// A chart.
    pub fn chart(&mut self, chart: &Chart) -> &mut Page {
        self.body.push_str(&chart.to_svg());
        self
    }

    /// The whole page.
    pub fn to_html(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <title>{title}</title>\n<style>{STYLE}</style></head>\n<body><h1>{title}</h1>\n{}</body></html>\n",
            self.body
        )
    }
}

/// What a figure's reader must know of the machine: name and value, those that can be found out.
pub fn machine_facts() -> Vec<(String, String)> {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cores = cpu.lines().filter(|line| line.starts_with("processor")).count();
    let memory_kb = field(&memory, "MemTotal").and_then(|text| {
        text.split_whitespace().next().and_then(|number| number.parse::<u64>().ok())
    });
    let facts = [
        ("processor", field(&cpu, "model name").map(str::to_string)),
        ("cores", (cores > 0).then(|| cores.to_string())),
        ("memory", memory_kb.map(|kb| format!("{:.1} GiB", kb as f64 / 1024.0 / 1024.0))),
        ("lockstep", Some(env!("CARGO_PKG_VERSION").to_string())),
        ("kernel", Some(kernel.trim().to_string()).filter(|text| !text.is_empty())),
    ];
    let known = facts.into_iter().filter_map(|(name, value)| value.map(|value| (name, value)));
    known.map(|(name, value)| (name.to_string(), value)).collect()
}

/// The value of the first `name : value` line.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_once(':').map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_all_and_loads_nothing() {
        let mut page = Page::new("voter <1 & 2>");
        page.heading("Result").text("a < b");
        page.table(&["sites", "calls per second"], &[vec!["1".to_string(), "<7>".to_string()]]);
        let html = page.to_html();
        assert!(html.contains("<title>voter &lt;1 &amp; 2&gt;</title>"));
        assert!(html.contains("<tr><th>sites</th><th>calls per second</th></tr>"));
        assert!(html.contains("<tr><td>1</td><td>&lt;7&gt;</td></tr>"));
        assert!(html.contains("<h2>Result</h2>\n<p>a &lt; b</p>"));
        for loader in ["http://", "https://", "src=", "<script", "@import", "url("] {
            assert!(!html.contains(loader), "{loader}");
        }
    }

    #[test]
    fn fields_are_found() {
        let text = "processor\t: 0\nmodel name\t: A processor @ 3 GHz\nmodel name\t: another\n";
        assert_eq!(field(text, "model name"), Some("A processor @ 3 GHz"));
        assert_eq!(field(text, "flags"), None);
    }
}
