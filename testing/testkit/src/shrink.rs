//! Makes a script that shows a difference smaller: leaves steps out, then clauses and
//! subexpressions of those that are left.

use crate::comparison::{Comparison, Difference};
use crate::generator::{Dialect, Step};
use std::io;

/// The smallest script found that still shows a difference like this one at its last step.
/// `run` runs a script from nothing.
///
/// # Errors
/// Those of `run`.
pub fn shrink(
    steps: &[Step],
    difference: &Difference,
    mut run: impl FnMut(&[Step]) -> io::Result<Comparison>,
) -> io::Result<Vec<Step>> {
    let mut kept = steps[..=difference.step].to_vec();
    let mut shows = |steps: &[Step]| -> io::Result<bool> {
        let found = run(steps)?.difference;
        Ok(found.is_some_and(|found| found.step + 1 == steps.len() && found.is_like(difference)))
    };
    loop {
        let before = kept.clone();
        leave_steps_out(&mut kept, &mut shows)?;
        for place in (0..kept.len()).rev() {
            make_smaller(&mut kept, place, &mut shows)?;
        }
        if kept == before {
            return Ok(kept);
        }
    }
}

fn leave_steps_out(
    kept: &mut Vec<Step>,
    shows: &mut impl FnMut(&[Step]) -> io::Result<bool>,
) -> io::Result<()> {
    let mut chunk = kept.len().div_ceil(2);
    loop {
        let mut start = 0;
        while start + 1 < kept.len() {
            let end = (start + chunk).min(kept.len() - 1);
            let mut fewer = kept.clone();
            fewer.drain(start..end);
            match shows(&fewer)? {
                true => *kept = fewer,
                false => start = end,
            }
        }
        if chunk <= 1 {
            return Ok(());
        }
        chunk = chunk.div_ceil(2);
    }
}

fn make_smaller(
    kept: &mut [Step],
    place: usize,
    shows: &mut impl FnMut(&[Step]) -> io::Result<bool>,
) -> io::Result<()> {
    'again: loop {
        for smaller in smaller_steps(&kept[place]) {
            let mut changed = kept.to_vec();
            changed[place] = smaller.clone();
            if shows(&changed)? {
                kept[place] = smaller;
                continue 'again;
            }
        }
        return Ok(());
    }
}

fn smaller_steps(step: &Step) -> Vec<Step> {
    match step {
        Step::Schema(phrase) => phrase.smaller().into_iter().map(Step::Schema).collect(),
        Step::Change(phrase) => phrase.smaller().into_iter().map(Step::Change).collect(),
        // A view and its query would have to change alike.
        Step::Same(..) => Vec::new(),
        Step::Query { body, tail } => {
            let mut found = Vec::new();
            if let Some(tail) = tail {
                found.push(Step::Query { body: body.clone(), tail: None });
                let tails = tail.smaller().into_iter();
                found.extend(tails.map(|t| Step::Query { body: body.clone(), tail: Some(t) }));
            }
            let bodies = body.smaller().into_iter();
            found.extend(bodies.map(|body| Step::Query { body, tail: tail.clone() }));
            found
        }
    }
}

/// A script that can be run by hand, in the SQL of every database that takes part.
pub fn text(steps: &[Step], difference: &Difference, other: Dialect) -> String {
    let mut text = String::new();
    for step in steps {
        text += &format!("{};\n", step.sql());
    }
    if let Some(Step::Same(_, body)) = steps.last() {
        text += &format!("{};\n", body.render(Dialect::Lockstep));
    }
    if other != Dialect::Lockstep {
        text += &format!("-- as {}:\n", difference.systems[1]);
        for step in steps {
            let sql = step.phrase().render(other);
            if !sql.is_empty() {
                text += &format!("--   {sql};\n");
            }
        }
    }
    for (system, answer) in difference.systems.iter().zip(&difference.answers) {
        text += &format!("-- {system}:\n");
        for line in answer.lines() {
            text += &format!("--   {line}\n");
        }
    }
    text
}
