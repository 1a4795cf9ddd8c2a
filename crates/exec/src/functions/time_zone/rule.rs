//! The POSIX rule at the end of a zone's data: `EST5EDT,M3.2.0,M11.1.0`, `<-03>3`.

use lockstep_types::timestamp::{civil_from_days, days_from_civil, days_in_month};

const DAY_S: i64 = 86_400;

/// Offsets from UTC that hold for ever.
pub(super) struct Rule {
    standard_s: i64,
    /// The summer offset with its start and end.
    summer: Option<(i64, Change, Change)>,
}

/// When clocks change: a day of the year, and seconds after local midnight.
struct Change {
    day: Day,
    second: i64,
}

enum Day {
    /// A weekday (0 is Sunday) of a week (5 is the last) of a month.
    Month { month: u32, week: i64, weekday: i64 },
    /// 1 to 365: February 29 is never counted.
    WithoutLeap(i64),
    /// 0 to 365.
    WithLeap(i64),
}

impl Rule {
    /// Reads a rule; `None` if it is none.
    pub(super) fn parse(text: &str) -> Option<Rule> {
        let rest = skip_name(text)?;
        let (west, rest) = seconds(rest)?;
        let standard_s = -west;
        if rest.is_empty() {
            return Some(Rule { standard_s, summer: None });
        }
        let rest = skip_name(rest)?;
        let (summer_s, rest) = match rest.strip_prefix(',') {
            Some(rest) => (standard_s + 3600, rest),
            None => {
                let (west, rest) = seconds(rest)?;
                (-west, rest.strip_prefix(',')?)
            }
        };
        let (start, end) = rest.split_once(',')?;
        let summer = Some((summer_s, Change::parse(start)?, Change::parse(end)?));
        Some(Rule { standard_s, summer })
    }

    /// The offset at a time.
    pub(super) fn offset_s(&self, time_s: i64) -> i64 {
        let Some((summer_s, start, end)) = &self.summer else { return self.standard_s };
        let local_days = (time_s + self.standard_s).div_euclid(DAY_S);
        let (year, _, _) = civil_from_days(local_days);
        // Each change is told by the clock that it ends.
        let start = start.in_year(year) - self.standard_s;
        let end = end.in_year(year) - summer_s;
        let in_summer = if start < end {
            (start..end).contains(&time_s)
        } else {
            !(end..start).contains(&time_s)
        };
        if in_summer { *summer_s } else { self.standard_s }
    }
}

impl Change {
    fn parse(text: &str) -> Option<Change> {
        let (day, second) = match text.split_once('/') {
            Some((day, time)) => (day, seconds(time)?.0),
            None => (text, 2 * 3600),
        };
        let day = if let Some(rest) = day.strip_prefix('M') {
            let mut parts = rest.split('.');
            let mut number = || parts.next()?.parse::<i64>().ok();
            let (month, week, weekday) = (number()?, number()?, number()?);
            let sound =
                (1..=12).contains(&month) && (1..=5).contains(&week) && (0..=6).contains(&weekday);
            sound.then_some(Day::Month { month: month as u32, week, weekday })?
        } else if let Some(rest) = day.strip_prefix('J') {
            Day::WithoutLeap(rest.parse().ok().filter(|n| (1..=365).contains(n))?)
        } else {
            Day::WithLeap(day.parse().ok().filter(|n| (0..=365).contains(n))?)
        };
        Some(Change { day, second })
    }

    /// The moment in a year, in seconds of the local clock since 1970.
    fn in_year(&self, year: i64) -> i64 {
        let new_year = days_from_civil(year, 1, 1);
        let day = match self.day {
            Day::Month { month, week, weekday } => {
                let first = days_from_civil(year, month, 1);
                // 1970-01-01 was a Thursday.
                let first_weekday = (first + 4).rem_euclid(7);
                let offset = (weekday - first_weekday).rem_euclid(7) + (week - 1) * 7;
                let length = i64::from(days_in_month(year, month));
                first + if offset >= length { offset - 7 } else { offset }
            }
            Day::WithoutLeap(number) => {
                let leaps = days_in_month(year, 2) == 29 && number > 59;
                new_year + number - 1 + i64::from(leaps)
            }
            Day::WithLeap(number) => new_year + number,
        };
        day * DAY_S + self.second
    }
}

/// What is after a zone's abbreviation: letters, or anything in angle brackets.
fn skip_name(text: &str) -> Option<&str> {
    if let Some(rest) = text.strip_prefix('<') {
        return rest.split_once('>').map(|(_, rest)| rest);
    }
    let end = text.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(text.len());
    (end >= 3).then(|| &text[end..])
}

/// `[+|-]h[h][h][:mm[:ss]]` in seconds, and what is after it.
fn seconds(text: &str) -> Option<(i64, &str)> {
    let (sign, text) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = text.find(|c: char| !c.is_ascii_digit() && c != ':').unwrap_or(text.len());
    let mut total = 0;
    let mut unit = 3600;
    for part in text[..end].split(':') {
        let number: i64 = part.parse().ok().filter(|number| *number <= 167)?;
        total += number * unit;
        unit /= 60;
    }
    Some((sign * total, &text[end..]))
}
