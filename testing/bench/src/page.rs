//! A report as one self-contained HTML page: what was run, on which machine, tables and charts.
//! Nothing is loaded from elsewhere, so that the page can be kept beside the figures.

use crate::chart::{Bars, Chart, escaped};
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
td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:left;vertical-align:top}\
svg{width:100%;height:auto;margin:1em 0}";

/// Columns after these stand at the left.
const MOST_COLUMNS: usize = 16;

/// What puts columns of figures at the right: a table names them in its class.
fn style_of_columns() -> String {
    let of = |column: usize| format!(".n{column} tr>:nth-child({column})");
    let selectors: Vec<String> = (1..=MOST_COLUMNS).map(of).collect();
    format!("{}{{text-align:right;white-space:nowrap}}", selectors.join(","))
}

/// A figure has a unit at most.
const MOST_OF_A_FIGURE: usize = 16;

/// Whether most of a column's cells are figures.
fn holds_figures(rows: &[Vec<String>], column: usize) -> bool {
    let is_figure = |cell: &&String| {
        cell.len() <= MOST_OF_A_FIGURE && cell.starts_with(|c: char| c.is_ascii_digit() || c == '-')
    };
    let cells: Vec<&String> = rows.iter().filter_map(|row| row.get(column)).collect();
    2 * cells.iter().copied().filter(|cell| is_figure(cell)).count() >= cells.len().max(1)
}

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

    /// A table; rows may be shorter than its head. Columns of figures stand at the right.
    pub fn table(&mut self, head: &[&str], rows: &[Vec<String>]) -> &mut Page {
        let columns = rows.iter().map(Vec::len).max().unwrap_or(0).min(MOST_COLUMNS);
        let at_right = (0..columns).filter(|column| holds_figures(rows, *column));
        let classes: Vec<String> = at_right.map(|column| format!("n{}", column + 1)).collect();
        let row = |tag: &str, cells: &mut dyn Iterator<Item = &str>| {
            let cell = |text: &str| {
                // What is indented in text stays so.
                let indented = text.len() > text.trim_start().len();
                let indent = if indented { "\u{2003}" } else { "" };
                format!("<{tag}>{indent}{}</{tag}>", escaped(text.trim_start()))
            };
            let cells: String = cells.map(cell).collect();
            format!("<tr>{cells}</tr>\n")
        };
        let _ = writeln!(self.body, "<table class=\"{}\">", classes.join(" "));
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

    /// A ranking.
    pub fn bars(&mut self, bars: &Bars) -> &mut Page {
        self.body.push_str(&bars.to_svg());
        self
    }

    /// The whole page.
    pub fn to_html(&self) -> String {
        let title = escaped(&self.title);
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
             <title>{title}</title>\n<style>{STYLE}{}</style></head>\n<body><h1>{title}</h1>\n{}</body></html>\n",
            style_of_columns(),
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
        let row = |what: &str, ms: &str| vec![what.to_string(), ms.to_string()];
        page.table(&["", "p99"], &[row("all", "12.5 ms"), row("  calm", "2 ms"), row("x", "-")]);
        let html = page.to_html();
        assert!(html.contains("<title>voter &lt;1 &amp; 2&gt;</title>"));
        let head = "<table class=\"n1\">\n<tr><th>sites</th><th>calls per second</th></tr>";
        assert!(html.contains(head), "{html}");
        assert!(html.contains("<tr><td>1</td><td>&lt;7&gt;</td></tr>"), "{html}");
        assert!(html.contains("<table class=\"n2\">\n<tr><th></th><th>p99</th></tr>"), "{html}");
        assert!(html.contains("<tr><td>\u{2003}calm</td><td>2 ms</td></tr>"), "{html}");
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
