//! Planning an ad hoc point query: text to a plan that can run, found in the cache or made again.

use crate::Plan;
use crate::statements::{OUR_SCHEMA, SQLITE_SCHEMA};
use crate::systems::{Ours, open_sqlite, sqlite_error};
use lockstep_bench::verdict::median;
use std::time::Instant;

/// Microseconds of one text.
#[derive(Debug, Clone, Default)]
pub struct Planning {
    /// A text that was planned before, one a repeat.
    pub same_text_us: Vec<f64>,
    /// A text that differs from one planned before in its literal only.
    pub new_literal_us: Vec<f64>,
    /// A text of a form that was never seen.
    pub new_form_us: Vec<f64>,
    /// SQLite preparing such a text; it has no cache.
    pub sqlite_us: Vec<f64>,
}

/// Texts of one repeat.
const TEXTS: usize = 2_000;

/// Measures it, if `plan.only` wants it.
///
/// # Errors
/// A text is refused.
pub fn measure(plan: &Plan) -> Result<Option<Planning>, String> {
    if !plan.is_wanted("planning") {
        return Ok(None);
    }
    let mut ours = Ours::new()?;
    ours.execute(OUR_SCHEMA)?;
    let sqlite = open_sqlite()?;
    sqlite.execute_batch(SQLITE_SCHEMA).map_err(sqlite_error)?;
    let mut planning = Planning::default();
    let texts = if plan.quick { TEXTS / 20 } else { TEXTS };
    for repeat in 0..=plan.repeats as usize {
        let same = vec![point_query("balance", 17); texts];
        let literal = |number| point_query("balance", repeat * texts + number);
        let literals: Vec<String> = (0..texts).map(literal).collect();
        let form =
            |number| point_query(&format!("balance AS b{}", repeat * texts + number), number);
        let forms: Vec<String> = (0..texts).map(form).collect();
        let mut plan_ours = |texts: &[String]| {
            per_text_us(texts, |text| {
                let planned = ours.host.plan_ad_hoc(text).map_err(|failure| failure.message)?;
                std::hint::black_box(planned);
                Ok(())
            })
        };
        let (same, literals, new) = (plan_ours(&same)?, plan_ours(&literals)?, plan_ours(&forms)?);
        let theirs = per_text_us(&forms, |text| {
            std::hint::black_box(sqlite.prepare(text).map_err(sqlite_error)?);
            Ok(())
        })?;
        // The first repeat warms up.
        if repeat > 0 {
            planning.same_text_us.push(same);
            planning.new_literal_us.push(literals);
            planning.new_form_us.push(new);
            planning.sqlite_us.push(theirs);
        }
    }
    Ok(Some(planning))
}

fn point_query(column: &str, key: usize) -> String {
    format!("SELECT owner, branch, {column}, name FROM account WHERE id = {key}")
}

/// The median over hundredths of the texts, so that an interruption does not count.
fn per_text_us(
    texts: &[String],
    mut plan: impl FnMut(&str) -> Result<(), String>,
) -> Result<f64, String> {
    let mut parts = Vec::new();
    for part in texts.chunks(texts.len().div_ceil(100)) {
        let start = Instant::now();
        for text in part {
            plan(text)?;
        }
        parts.push(start.elapsed().as_nanos() as f64 / 1000.0 / part.len() as f64);
    }
    Ok(median(parts))
}
