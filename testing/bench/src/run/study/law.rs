//! The scalability law over points that are given: those of somebody's file, or synthetic ones of
//! a law that is known, which shows how well the fit finds it again.

use super::super::plots::rows;
use super::report::{law_json, law_rows, law_series};
use crate::chart::{Chart, Series, Style};
use crate::page::{Page, machine_facts};
use crate::report::grouped;
use crate::usl::{Fit, Point};
use serde_json::{Value, json};

/// The most points of a file.
const MAX_POINTS: usize = 100_000;
/// What the coefficients of synthetic points must be found within.
const FOUND_WITHIN: f64 = 0.05;

/// Points and their law.
#[derive(Debug, Clone)]
pub struct FittedPoints {
    /// What they are.
    pub title: String,
    /// What is counted on the axis.
    pub load: String,
    /// The points.
    pub points: Vec<Point>,
    /// `(lambda, sigma, kappa)` of the law that the points were made of.
    pub truth: Option<[f64; 3]>,
    fit: Fit,
}

impl FittedPoints {
    /// Fits the law.
    ///
    /// # Errors
    /// As for [`Fit::new`].
    pub fn new(
        title: &str,
        load: &str,
        points: Vec<Point>,
        truth: Option<[f64; 3]>,
    ) -> Result<FittedPoints, String> {
        let fit = Fit::new(&points)?;
        Ok(FittedPoints { title: title.to_string(), load: load.to_string(), points, truth, fit })
    }

    /// The coefficients that the points were made of, and how far from them the found ones are:
    /// name, known, found, difference as a share.
    fn found_again(&self) -> Vec<(&'static str, f64, f64, f64)> {
        let Some([lambda, sigma, kappa]) = self.truth else { return Vec::new() };
        let Fit { lambda_per_s, sigma: found_sigma, kappa: found_kappa, .. } = self.fit;
        let row = |name, known: f64, found: f64| {
            let off = if known == 0.0 { found.abs() } else { (found - known).abs() / known };
            (name, known, found, off)
        };
        vec![
            row("lambda", lambda, lambda_per_s.value),
            row("sigma", sigma, found_sigma.value),
            row("kappa", kappa, found_kappa.value),
        ]
    }

    /// Whether what is known was found within 5 %; points of which nothing is known are good.
    pub fn is_good(&self) -> bool {
        self.found_again().iter().all(|(.., off)| *off <= FOUND_WITHIN)
    }

    /// The law in words, and beside it what is known.
    pub fn rows(&self) -> Vec<(String, String)> {
        let mut all = vec![("points".to_string(), grouped(self.points.len() as u64))];
        all.extend(law_rows(&self.fit, &self.load));
        all.extend(self.found_again().into_iter().map(|(name, known, found, off)| {
            let verdict = if off <= FOUND_WITHIN { "within 5 %" } else { "NOT within 5 %" };
            let digits = if known >= 1.0 { 1 } else { 6 };
            let text = format!(
                "{known:.digits$}, found {found:.digits$}: {:.2} % off, {verdict}",
                100.0 * off
            );
            (format!("known {name}"), text)
        }));
        all
    }

    /// The points under the curve.
    pub fn charts(&self) -> Vec<Chart> {
        let most = self.points.iter().map(|point| point.load).fold(1.0, f64::max);
        let points = self.points.iter().map(|point| (point.load, point.throughput_per_s));
        let name = if self.truth.is_some() { "synthetic points" } else { "measured" };
        let measured =
            Series { name: name.to_string(), style: Style::Points, points: points.collect() };
        vec![Chart {
            title: self.title.clone(),
            x_label: self.load.clone(),
            y_label: "throughput per second".to_string(),
            x_is_logarithmic: false,
            series: vec![measured, law_series(&self.fit, most)],
        }]
    }

    /// As JSON.
    pub fn json(&self) -> Value {
        let point = |point: &Point| json!([point.load, point.throughput_per_s]);
        json!({
            "title": self.title, "load": self.load,
            "points": self.points.iter().map(point).collect::<Vec<_>>(),
            "scalability_law": law_json(&self.fit), "known": self.truth,
            "good": self.is_good(),
        })
    }

    /// As a page.
    pub fn page(&self, options: &[(String, String)]) -> Page {
        let mut page = Page::new(&self.title);
        page.heading("Universal Scalability Law, 95 % intervals");
        page.table(&[], &rows(&self.rows()));
        self.charts().iter().for_each(|chart| {
            page.chart(chart);
        });
        page.heading("Options").table(&[], &rows(options));
        page.heading("Machine").table(&[], &rows(&machine_facts()));
        page
    }
}

/// Points of a text: `load,throughput` a line; the first line may name them instead. Gives the
/// load's name, where there is one, and the points.
///
/// # Errors
/// A line is no such pair; there are too many.
pub fn read_points(text: &str) -> Result<(Option<String>, Vec<Point>), String> {
    let (mut name, mut points) = (None, Vec::new());
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        let pair = match fields.as_slice() {
            [load, throughput] => load.parse::<f64>().ok().zip(throughput.parse::<f64>().ok()),
            _ => None,
        };
        match pair {
            Some((load, throughput_per_s)) => points.push(Point { load, throughput_per_s }),
            None if number == 1 => name = fields.first().map(|field| (*field).to_string()),
            None => return Err(format!("line {number}: '{line}' is not load,throughput")),
        }
        if points.len() > MAX_POINTS {
            return Err(format!("line {number}: there are more than {MAX_POINTS} points"));
        }
    }
    Ok((name, points))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usl::synthetic;

    #[test]
    fn known_coefficients_are_held_to_five_percent() {
        let truth = [1000.0, 0.05, 0.001];
        let loads = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 48.0];
        let points = synthetic(truth, &loads, (5, 0.005), 1);
        let fitted = |truth| FittedPoints::new("a law", "sites", points.clone(), Some(truth));
        let good = fitted(truth).expect("a law");
        assert!(good.is_good(), "{:?}", good.rows());
        let text = good.page(&[]).to_html();
        for part in ["<td>known sigma</td>", "synthetic points", "within 5 %", "0.050000, found"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        // Another law than that of the points.
        let wrong = fitted([1000.0, 0.06, 0.001]).expect("a law");
        assert!(!wrong.is_good());
        assert!(wrong.rows()[7].1.ends_with("NOT within 5 %"), "{:?}", wrong.rows());
        assert_eq!(wrong.json()["good"], false);
    }

    #[test]
    fn points_are_read_with_the_name_of_their_load() {
        let (name, points) = read_points("sites,per_s\n1, 10\n\n2,19.5\n").expect("points");
        assert_eq!(name.as_deref(), Some("sites"));
        assert_eq!(points[1], Point { load: 2.0, throughput_per_s: 19.5 });
        assert_eq!(read_points("1,10\n2,19").expect("points").0, None);
        let error = read_points("1,10\nx,19").expect_err("no number");
        assert_eq!(error, "line 2: 'x,19' is not load,throughput");
        assert!(read_points("1,10\n2,19,3").is_err());
        assert!(read_points(&"1,2\n".repeat(100_001)).is_err());
    }
}
