//! Figures beside what they must and should reach, and aligned text tables of them.

/// A bound, and whether it is the least or the greatest.
#[derive(Debug, Clone, Copy)]
pub enum Bound {
    /// The figure is at least this.
    AtLeast(f64),
    /// The figure is at most this.
    AtMost(f64),
}

impl Bound {
    /// Whether a figure keeps to it.
    pub fn holds(self, value: f64) -> bool {
        match self {
            Bound::AtLeast(bound) => value >= bound,
            Bound::AtMost(bound) => value <= bound,
        }
    }

    /// The number.
    pub fn value(self) -> f64 {
        match self {
            Bound::AtLeast(bound) | Bound::AtMost(bound) => bound,
        }
    }
}

/// What was reached, in a word.
pub fn verdict(value: f64, must: Bound, aim: Bound) -> &'static str {
    match (must.holds(value), aim.holds(value)) {
        (true, true) => "aim",
        (true, false) => "must",
        (false, _) => "MISSED",
    }
}

/// A line of a report: a figure in words, beside its bounds.
#[derive(Debug)]
pub struct Row {
    /// The figure.
    pub what: String,
    /// What came out.
    pub reached: String,
    /// What it must reach.
    pub must: String,
    /// What it should reach.
    pub aim: String,
    /// What it did.
    pub verdict: &'static str,
    /// What it was made of.
    pub detail: String,
}

impl Row {
    /// A figure beside its bounds, all shown in one way.
    pub fn judged(
        what: &str,
        (value, shown): (f64, fn(f64) -> String),
        (must, aim): (Bound, Bound),
        detail: String,
    ) -> Row {
        Row {
            what: what.to_string(),
            reached: shown(value),
            must: shown(must.value()),
            aim: shown(aim.value()),
            verdict: verdict(value, must, aim),
            detail,
        }
    }

    /// A figure without bounds.
    pub fn stated(what: &str, reached: String, detail: String) -> Row {
        let none = || "-".to_string();
        let (must, aim) = (none(), none());
        Row { what: what.to_string(), reached, must, aim, verdict: "stated", detail }
    }

    /// The columns of rows.
    pub const HEAD: [&'static str; 6] = ["figure", "reached", "must", "aim", "verdict", "detail"];

    /// Its cells, in the order of [`Row::HEAD`].
    pub fn cells(&self) -> Vec<String> {
        let Row { what, reached, must, aim, verdict, detail } = self;
        let verdict = verdict.to_string();
        [what, reached, must, aim, &verdict, detail].map(Clone::clone).to_vec()
    }

    /// As JSON.
    pub fn json(&self) -> serde_json::Value {
        serde_json::json!({
            "figure": self.what.trim(), "reached": self.reached, "must": self.must,
            "aim": self.aim, "verdict": self.verdict, "detail": self.detail,
        })
    }

    /// Rows as an aligned table.
    pub fn render(rows: &[Row]) -> String {
        let mut lines = vec![Row::HEAD.map(str::to_string).to_vec()];
        lines.extend(rows.iter().map(Row::cells));
        align(&lines, |column| matches!(column, 1..=3))
    }
}

/// A report for programs: rows, what they were made of, and the options.
pub fn report_json(
    rows: Vec<serde_json::Value>,
    samples: serde_json::Value,
    options: &[(&str, String)],
) -> serde_json::Value {
    let options: serde_json::Map<String, serde_json::Value> =
        options.iter().map(|(name, value)| (name.to_string(), value.clone().into())).collect();
    serde_json::json!({ "rows": rows, "samples": samples, "options": options })
}

/// Of figures by something, as by connections, the one with the greatest value.
pub fn best_of<T: Copy>(figures: &[(usize, T)], value: fn(&T) -> f64) -> Option<(usize, T)> {
    figures.iter().copied().max_by(|a, b| value(&a.1).total_cmp(&value(&b.1)))
}

/// A ratio.
pub fn times(ratio: f64) -> String {
    format!("{ratio:.2} x")
}

/// The middle of some values; 0 of none.
pub fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

/// The geometric mean of positive values; 0 of none.
pub fn geometric_mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let logarithms: f64 = values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).sum();
    (logarithms / values.len() as f64).exp()
}

/// Lines of cells as an aligned table, the first line its head. Columns for which
/// `at_right` holds stand at the right: figures do, words do not.
pub fn align(lines: &[Vec<String>], at_right: fn(usize) -> bool) -> String {
    let columns = lines.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        lines.iter().filter_map(|line| line.get(column)).map(String::len).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    lines
        .iter()
        .map(|line| {
            let mut text = String::new();
            for ((column, cell), width) in line.iter().enumerate().zip(&widths) {
                match at_right(column) {
                    true => text.push_str(&format!("{cell:>width$}  ")),
                    false => text.push_str(&format!("{cell:width$}  ")),
                }
            }
            text.trim_end().to_string() + "\n"
        })
        .collect()
}

/// The options of a run as an aligned table.
pub fn render_options(options: &[(&str, String)]) -> String {
    let width = options.iter().map(|option| option.0.len()).max().unwrap_or(0);
    options.iter().map(|(name, value)| format!("{name:width$}  {value}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_judged() {
        let judge = |value| verdict(value, Bound::AtLeast(3.0), Bound::AtLeast(6.0));
        assert_eq!([2.9, 3.0, 6.0].map(judge), ["MISSED", "must", "aim"]);
        assert_eq!(verdict(2.0, Bound::AtMost(5.0), Bound::AtMost(2.0)), "aim");
    }

    #[test]
    fn means_are_right() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0]), 2.5);
        assert!((geometric_mean(&[2.0, 8.0]) - 4.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), 0.0);
    }

    #[test]
    fn the_best_is_found_and_rows_are_judged() {
        assert_eq!(best_of(&[(1, 10.0), (8, 20.0), (16, 15.0)], |rate| *rate), Some((8, 20.0)));
        assert_eq!(best_of(&[], |rate: &f64| *rate), None);
        let bounds = (Bound::AtLeast(2.0), Bound::AtLeast(4.0));
        let row = Row::judged("x / y", (3.0, times), bounds, "3 against 1".to_string());
        let report = report_json(vec![row.json()], serde_json::json!([3.0]), &[("a", "b".into())]);
        let rows = serde_json::json!([{
            "figure": "x / y", "reached": "3.00 x", "must": "2.00 x", "aim": "4.00 x",
            "verdict": "must", "detail": "3 against 1",
        }]);
        assert_eq!(report["rows"], rows);
        assert_eq!(report["options"]["a"], "b");
    }

    #[test]
    fn columns_are_aligned() {
        let lines = [vec!["what".to_string(), "n".into()], vec!["x".into(), "12".into()]];
        assert_eq!(align(&lines, |column| column == 1), "what   n\nx     12\n");
    }
}
