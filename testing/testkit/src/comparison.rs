//! Runs a script at several databases and finds the first statement that they answer
//! differently.

use crate::generator::{Dialect, Phrase, Step};
use crate::system::{Answer, System, show};
use lockstep_types::SqlType;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Where two databases, or a view and its query, part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// The number of the step.
    pub step: usize,
    /// Who said it.
    pub systems: [String; 2],
    /// What both gave.
    pub answers: [String; 2],
    /// Whether either refused, and how its message begins: two differences with the same
    /// signs are taken for one.
    signs: [String; 2],
}

/// How many statements were compared, and what came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Everybody answered the same.
    pub answered: u64,
    /// Of these, queries that found no row.
    pub empty: u64,
    /// Everybody refused.
    pub refused: u64,
    /// Queries answered again in another way, and the same.
    pub other_ways: u64,
    /// One side met an error of arithmetic: `errors-by-order`.
    pub by_order: u64,
    /// The other database cannot do such statements.
    pub unsupported: u64,
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Tally) {
        self.answered += other.answered;
        self.empty += other.empty;
        self.refused += other.refused;
        self.other_ways += other.other_ways;
        self.by_order += other.by_order;
        self.unsupported += other.unsupported;
    }
}

/// What running a script gave.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Comparison {
    /// The counts.
    pub tally: Tally,
    /// How messages of refused statements begin, and how many do.
    pub reasons: BTreeMap<String, u64>,
    /// The first difference.
    pub difference: Option<Difference>,
}

/// Runs a script at databases, the first of which is this one, until two answers differ.
pub fn compare(steps: &[Step], systems: &mut [&mut dyn System]) -> Comparison {
    let mut comparison = Comparison::default();
    for (number, step) in steps.iter().enumerate() {
        match run_step(step, systems, &mut comparison) {
            Outcome::GoOn => {}
            Outcome::Stop => break,
            Outcome::Differs(mut difference) => {
                difference.step = number;
                comparison.difference = Some(*difference);
                break;
            }
        }
    }
    comparison
}

enum Outcome {
    GoOn,
    /// The databases no longer hold the same, for a known reason.
    Stop,
    Differs(Box<Difference>),
}

fn run_step(step: &Step, systems: &mut [&mut dyn System], comparison: &mut Comparison) -> Outcome {
    let Comparison { tally, reasons, .. } = comparison;
    let ordered = matches!(step, Step::Query { tail: Some(_), .. });
    let gives_rows = matches!(step, Step::Query { .. } | Step::Same(..));
    let phrase = step.phrase();
    let answers = ask(&phrase, gives_rows, systems);
    if let Step::Same(_, body) = step
        && let Some(difference) = view_and_query(systems, &answers, body)
    {
        return Outcome::Differs(Box::new(difference));
    }
    if matches!(&answers[0], Answer::Unsupported(why) if !why.is_empty()) {
        tally.unsupported += 1;
        return if gives_rows { Outcome::GoOn } else { Outcome::Stop };
    }
    if let (Step::Schema(_), Answer::Refused(_)) = (step, &answers[0]) {
        return Outcome::Differs(Box::new(refused_schema(systems[0].name(), &answers[0])));
    }
    if matches!(step, Step::Query { .. })
        && let Some(difference) = other_ways(&phrase, ordered, systems, &answers, tally)
    {
        return Outcome::Differs(Box::new(difference));
    }
    let (mut result, mut alike) = (Outcome::GoOn, true);
    for other in 1..systems.len() {
        let (own, theirs) = (&answers[0], &answers[other]);
        if let Answer::Unsupported(why) = theirs {
            tally.unsupported += u64::from(!why.is_empty());
            alike = false;
            continue;
        }
        let exact = systems[other].dialect() != Dialect::Sqlite;
        let same_system = systems[other].dialect() == Dialect::Lockstep;
        let types = match step {
            Step::Schema(_) => Types::NorRows,
            _ if !same_system => Types::Any,
            _ if systems[other].has_other_plans() => Types::ButWidth,
            _ => Types::Same,
        };
        if equal(own, theirs, ordered, exact, types) {
            continue;
        }
        alike = false;
        if (gives_rows || !same_system) && by_order(own, theirs) {
            tally.by_order += 1;
            match (gives_rows, own) {
                (true, _) => continue,
                (false, Answer::Refused(_)) if systems[other].undo() => continue,
                _ => result = Outcome::Stop,
            }
            continue;
        }
        let systems = [systems[0].name(), systems[other].name()];
        return Outcome::Differs(Box::new(difference(systems, [own, theirs], ordered, exact)));
    }
    if alike {
        match &answers[0] {
            Answer::Refused(message) => {
                tally.refused += 1;
                *reasons.entry(sign(message)).or_default() += 1;
            }
            Answer::Rows { rows, .. } => {
                tally.answered += 1;
                tally.empty += u64::from(gives_rows && rows.is_empty());
            }
            Answer::Unsupported(_) => {}
        }
    }
    result
}

/// The generator makes no DDL that is refused.
fn refused_schema(name: String, refusal: &Answer) -> Difference {
    let accepted = Answer::Rows { types: Vec::new(), rows: Vec::new() };
    difference([name, "the generator".to_string()], [refusal, &accepted], false, true)
}

/// Everybody's answers; who has no words for the statement says so with an empty reason.
fn ask(phrase: &Phrase, gives_rows: bool, systems: &mut [&mut dyn System]) -> Vec<Answer> {
    let one = |system: &mut &mut dyn System| {
        let sql = phrase.render(system.dialect());
        match sql.is_empty() {
            true => Answer::Unsupported(String::new()),
            false => system.run(&sql, gives_rows),
        }
    };
    systems.iter_mut().map(one).collect()
}

/// A query gives the same in whatever way a database answers it.
fn other_ways(
    phrase: &Phrase,
    ordered: bool,
    systems: &mut [&mut dyn System],
    answers: &[Answer],
    tally: &mut Tally,
) -> Option<Difference> {
    for (system, first) in systems.iter_mut().zip(answers) {
        let ways = system.ways();
        for (way, name) in ways.iter().enumerate().skip(1) {
            system.choose(way);
            let answer = system.run(&phrase.render(system.dialect()), true);
            system.choose(0);
            if matches!(answer, Answer::Unsupported(_)) || by_order(first, &answer) {
                tally.by_order += 1;
                continue;
            }
            if !equal(first, &answer, ordered, true, Types::ButWidth) {
                let names = [ways[0].clone(), name.clone()];
                return Some(difference(names, [first, &answer], ordered, true));
            }
            tally.other_ways += 1;
        }
    }
    None
}

/// A view must be what its query gives; column types may be wider.
fn view_and_query(
    systems: &mut [&mut dyn System],
    answers: &[Answer],
    body: &Phrase,
) -> Option<Difference> {
    for (system, of_view) in systems.iter_mut().zip(answers) {
        if system.dialect() != Dialect::Lockstep {
            continue;
        }
        let of_query = system.run(&body.render(Dialect::Lockstep), true);
        if by_order(of_view, &of_query) {
            continue;
        }
        if !equal(of_view, &of_query, false, true, Types::Any) {
            let name = system.name();
            let names = [format!("{name}, view"), format!("{name}, query")];
            return Some(difference(names, [of_view, &of_query], false, true));
        }
    }
    None
}

fn difference(
    systems: [String; 2],
    answers: [&Answer; 2],
    ordered: bool,
    exact: bool,
) -> Difference {
    let types = types_of(answers[0]);
    let signs = answers.map(|answer| match answer {
        Answer::Refused(message) => sign(message),
        _ => String::new(),
    });
    let mut shown = answers.map(|answer| text(answer, types, ordered, exact));
    if shown[0] == shown[1] {
        shown = answers.map(|answer| format!("types {:?}", types_of(answer)));
    }
    let answers = shown;
    Difference { step: 0, systems, answers, signs }
}

/// How a message begins, without ports and values, which differ from run to run.
fn sign(message: &str) -> String {
    message.chars().filter(|c| !c.is_ascii_digit()).take(60).collect()
}

impl Difference {
    /// Whether another difference shows the same defect, as far as can be told.
    pub fn is_like(&self, other: &Difference) -> bool {
        self.systems == other.systems && self.signs == other.signs
    }
}

fn types_of(answer: &Answer) -> &[SqlType] {
    match answer {
        Answer::Rows { types, .. } => types,
        _ => &[],
    }
}

/// How far column types must be equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Types {
    Same,
    /// But for the width of integers: the plan decides that of AVG.
    ButWidth,
    Any,
    /// Nor need the rows be: DDL was done.
    NorRows,
}

fn equal(own: &Answer, theirs: &Answer, ordered: bool, exact: bool, alike: Types) -> bool {
    match (own, theirs) {
        // Hosts may meet different rows first, so that messages may differ.
        (Answer::Refused(_), Answer::Refused(_)) => true,
        (Answer::Rows { .. }, Answer::Rows { .. }) if alike == Types::NorRows => true,
        (Answer::Rows { types, .. }, Answer::Rows { types: others, .. }) => {
            let width = |a: &SqlType, b: &SqlType| {
                alike == Types::ButWidth && a.is_integer() && b.is_integer()
            };
            let compared = alike == Types::Any
                || types.len() == others.len()
                    && types.iter().zip(others).all(|(a, b)| a == b || width(a, b));
            compared && text(own, types, ordered, exact) == text(theirs, types, ordered, exact)
        }
        _ => false,
    }
}

/// The answer as text: what is equal looks the same.
fn text(answer: &Answer, types: &[SqlType], ordered: bool, exact: bool) -> String {
    let rows = match answer {
        Answer::Rows { rows, .. } => rows,
        Answer::Refused(message) => return format!("refused: {message}"),
        Answer::Unsupported(message) => return format!("not supported: {message}"),
    };
    let sql_type = |column: usize| types.get(column).copied().unwrap_or(SqlType::Null);
    let mut lines: Vec<String> = rows
        .iter()
        .map(|row| {
            let cells = row.iter().enumerate();
            let shown: Vec<String> =
                cells.map(|(column, cell)| show(cell, sql_type(column), exact)).collect();
            shown.join(" | ")
        })
        .collect();
    if !ordered {
        lines.sort();
    }
    lines.join("\n")
}

/// `Known::ErrorsByOrder` and `Known::Overflow`: only one side met an error of arithmetic.
fn by_order(own: &Answer, theirs: &Answer) -> bool {
    let arithmetic = |message: &str| {
        ["overflow", "out of range", "by zero", "divide"].iter().any(|sign| message.contains(sign))
    };
    match (own, theirs) {
        (Answer::Refused(message), Answer::Rows { .. })
        | (Answer::Rows { .. }, Answer::Refused(message)) => arithmetic(message),
        _ => false,
    }
}
