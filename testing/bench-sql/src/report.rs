//! The report: figures with their verdicts, and every statement on its own.

use crate::memory::Memory;
use crate::planning::Planning;
use crate::transactional::Pair;
use lockstep_bench::report::grouped;
use lockstep_bench::verdict::{Bound, align, geometric_mean, median, times, verdict};
use serde_json::{Value, json};

/// Everything that a run found.
#[derive(Debug, Default)]
pub struct Findings {
    /// Transactional statements.
    pub transactional: Vec<Pair>,
    /// Reporting queries.
    pub reporting: Vec<Pair>,
    /// Planning.
    pub planning: Option<Planning>,
    /// Memory.
    pub memory: Vec<Memory>,
}

/// A figure with its verdict.
struct Figure {
    what: String,
    reached: String,
    must: String,
    aim: String,
    verdict: &'static str,
    detail: String,
}

fn ratio(what: &str, value: f64, (must, aim): (Bound, Bound), detail: String) -> Figure {
    Figure {
        what: what.to_string(),
        reached: times(value),
        must: times(must.value()),
        aim: times(aim.value()),
        verdict: verdict(value, must, aim),
        detail,
    }
}

fn of_pairs(kind: &str, pairs: &[Pair], mean: (Bound, Bound), least: f64) -> Vec<Figure> {
    let ratios: Vec<f64> = pairs.iter().map(Pair::ratio).collect();
    let slowest = pairs.iter().min_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    let Some(slowest) = slowest else { return Vec::new() };
    let count = format!("{} statements", pairs.len());
    let least = (Bound::AtLeast(least), Bound::AtLeast(least));
    let mut slow =
        ratio(&format!("{kind}, slowest"), slowest.ratio(), least, slowest.name.to_string());
    if least.0.value() == 0.0 {
        (slow.must, slow.aim, slow.verdict) = ("-".into(), "-".into(), "stated");
    }
    vec![ratio(&format!("{kind} / SQLite, mean"), geometric_mean(&ratios), mean, count), slow]
}

fn figures(findings: &Findings) -> Vec<Figure> {
    let at_least = |must, aim| (Bound::AtLeast(must), Bound::AtLeast(aim));
    let mut figures = of_pairs("transactional", &findings.transactional, at_least(3.0, 6.0), 0.0);
    figures.extend(of_pairs("reporting", &findings.reporting, at_least(3.0, 8.0), 1.0));
    if let Some(planning) = &findings.planning {
        let sqlite = median(planning.sqlite_us.iter().copied());
        for (what, samples, must, aim) in [
            ("planning, the same text again", &planning.same_text_us, 5.0, 2.0),
            ("planning, another literal", &planning.new_literal_us, 5.0, 2.0),
            ("planning, a new form", &planning.new_form_us, 150.0, 60.0),
        ] {
            let value = median(samples.iter().copied());
            figures.push(Figure {
                what: what.to_string(),
                reached: format!("{value:.2} us"),
                must: format!("{must} us"),
                aim: format!("{aim} us"),
                verdict: verdict(value, Bound::AtMost(must), Bound::AtMost(aim)),
                detail: format!("SQLite prepares in {sqlite:.2} us"),
            });
        }
    }
    for memory in &findings.memory {
        let bounds = (Bound::AtMost(1.5), Bound::AtMost(1.25));
        let detail = format!(
            "{:.1} of {:.1} bytes a row, {:.1} of them indexes; {} rows",
            memory.stated,
            memory.raw,
            memory.stated_indexes,
            grouped(memory.rows)
        );
        let name = &memory.table;
        let (stated, grown) = (memory.stated / memory.raw, memory.grown / memory.raw);
        figures.push(ratio(&format!("memory of {name}, stated / raw"), stated, bounds, detail));
        let detail = format!("{:.1} of {:.1} bytes a row", memory.grown, memory.raw);
        figures.push(ratio(&format!("memory of {name}, grown / raw"), grown, bounds, detail));
    }
    figures
}

/// The report as text.
pub fn render(findings: &Findings) -> String {
    let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let mut text = String::new();
    for (title, pairs) in
        [("transactional", &findings.transactional), ("reporting", &findings.reporting)]
    {
        if pairs.is_empty() {
            continue;
        }
        let mut lines = vec![words(&[title, "ours us", "SQLite us", "ratio"])];
        for pair in pairs {
            let us = |nanoseconds: f64| format!("{:.2}", nanoseconds / 1000.0);
            let name = pair.name.to_string();
            lines.push(vec![name, us(pair.ours()), us(pair.sqlite()), times(pair.ratio())]);
        }
        text.push_str(&align(&lines, |column| column > 0));
        text.push('\n');
    }
    let mut lines = vec![words(&["figure", "reached", "must", "aim", "verdict", "detail"])];
    for figure in figures(findings) {
        lines.push(vec![
            figure.what,
            figure.reached,
            figure.must,
            figure.aim,
            figure.verdict.to_string(),
            figure.detail,
        ]);
    }
    text + &align(&lines, |column| matches!(column, 1..=3))
}

/// The report as JSON, samples included.
pub fn json(findings: &Findings, options: &[(&str, String)]) -> Value {
    let pair = |pair: &Pair| {
        json!({
            "name": pair.name, "ratio": pair.ratio(), "ours_ns": pair.ours_ns,
            "sqlite_ns": pair.sqlite_ns,
        })
    };
    let figure = |figure: Figure| {
        json!({
            "figure": figure.what, "reached": figure.reached, "must": figure.must,
            "aim": figure.aim, "verdict": figure.verdict, "detail": figure.detail,
        })
    };
    let planning = findings.planning.as_ref().map(|planning| {
        json!({
            "same_text_us": planning.same_text_us, "new_literal_us": planning.new_literal_us,
            "new_form_us": planning.new_form_us, "sqlite_us": planning.sqlite_us,
        })
    });
    let memory = |memory: &Memory| {
        json!({
            "table": memory.table, "raw": memory.raw, "stated": memory.stated,
            "stated_indexes": memory.stated_indexes, "grown": memory.grown, "rows": memory.rows,
        })
    };
    let options: serde_json::Map<String, Value> =
        options.iter().map(|(name, value)| (name.to_string(), json!(value))).collect();
    json!({
        "options": options,
        "figures": figures(findings).into_iter().map(figure).collect::<Vec<_>>(),
        "transactional": findings.transactional.iter().map(pair).collect::<Vec<_>>(),
        "reporting": findings.reporting.iter().map(pair).collect::<Vec<_>>(),
        "planning": planning,
        "memory": findings.memory.iter().map(memory).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &'static str, ours: f64, sqlite: f64) -> Pair {
        Pair { name, ours_ns: vec![ours], sqlite_ns: vec![sqlite] }
    }

    #[test]
    fn every_figure_has_its_verdict() {
        let findings = Findings {
            transactional: vec![pair("a", 100.0, 200.0), pair("b", 100.0, 800.0)],
            reporting: vec![pair("c", 100.0, 90.0)],
            planning: Some(Planning {
                same_text_us: vec![1.0],
                new_literal_us: vec![4.0],
                new_form_us: vec![200.0],
                sqlite_us: vec![3.0],
            }),
            memory: vec![Memory {
                table: "T".to_string(),
                raw: 100.0,
                stated: 120.0,
                stated_indexes: 20.0,
                grown: 140.0,
                rows: 5,
            }],
        };
        let found: Vec<_> =
            figures(&findings).into_iter().map(|f| (f.reached, f.verdict)).collect();
        let expected = [
            ("4.00 x", "must"),
            ("2.00 x", "stated"),
            ("0.90 x", "MISSED"),
            ("0.90 x", "MISSED"),
            ("1.00 us", "aim"),
            ("4.00 us", "must"),
            ("200.00 us", "MISSED"),
            ("1.20 x", "aim"),
            ("1.40 x", "must"),
        ];
        assert_eq!(found, expected.map(|(reached, verdict)| (reached.to_string(), verdict)));
        assert!(render(&findings).starts_with("transactional  ours us"));
        assert_eq!(json(&findings, &[("a", "b".into())])["options"]["a"], "b");
    }
}
