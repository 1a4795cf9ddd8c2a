//! Times by the calendar, as CRON says them: six fields, in UTC, to the second.
//!
//! A day fits by its day of the month and by its day of the week. Where both leave days out, it
//! is enough that it fits by one of them, as in every other cron.

use crate::timestamp::{DAY_US, SECOND_US, civil_from_days};

/// How many days ahead a time is looked for: from one 29 February to the next there may be eight
/// years.
const DAYS_AHEAD: i64 = 8 * 366 + 1;

const MONTHS: [&str; 12] =
    ["JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC"];
const WEEKDAYS: [&str; 7] = ["SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT"];

/// When something happens, by the calendar.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cron {
    /// A bit for each value of the field that fits.
    seconds: u64,
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// From 0, a Sunday.
    weekdays: u64,
}

/// A field: what it is called, its values, and their names if they have some.
struct Field {
    name: &'static str,
    low: u32,
    high: u32,
    names: &'static [&'static str],
    /// What the first name stands for.
    first_name: u32,
    /// Whether `?` may stand for any value.
    takes_question: bool,
}

impl Field {
    const fn number(name: &'static str, low: u32, high: u32) -> Field {
        Field { name, low, high, names: &[], first_name: 0, takes_question: false }
    }
}

const SECOND: Field = Field::number("second", 0, 59);
const MINUTE: Field = Field::number("minute", 0, 59);
const HOUR: Field = Field::number("hour", 0, 23);
const DAY: Field = Field { takes_question: true, ..Field::number("day of the month", 1, 31) };
const MONTH: Field = Field { names: &MONTHS, first_name: 1, ..Field::number("month", 1, 12) };
/// 7 is a Sunday as well.
const WEEKDAY: Field =
    Field { names: &WEEKDAYS, takes_question: true, ..Field::number("day of the week", 0, 7) };

const ALL_DAYS: u64 = bits(1, 31);
const ALL_WEEKDAYS: u64 = bits(0, 6);

impl Cron {
    /// Reads second, minute, hour, day of the month, month and day of the week: each a list of
    /// values, ranges `a-b` and `*`, with steps `/n` after them; months and days of the week have
    /// names as well.
    ///
    /// # Errors
    /// Which field does not say values, and what it may say; or that there is no such date.
    pub fn parse(fields: &[String; 6]) -> Result<Cron, String> {
        let [second, minute, hour, day, month, weekday] = fields;
        let weekdays = values(&WEEKDAY, weekday)?;
        let cron = Cron {
            seconds: values(&SECOND, second)?,
            minutes: values(&MINUTE, minute)?,
            hours: values(&HOUR, hour)?,
            days: values(&DAY, day)?,
            months: values(&MONTH, month)?,
            weekdays: (weekdays | weekdays >> 7) & ALL_WEEKDAYS,
        };
        match cron.next_after(0) {
            Some(_) => Ok(cron),
            None => Err(format!("no month '{month}' has a day '{day}'")),
        }
    }

    /// The first time after `now_us`, microseconds since 1970; `None` at the end of the calendar.
    pub fn next_after(&self, now_us: i64) -> Option<i64> {
        let second = now_us.div_euclid(SECOND_US).checked_add(1)?;
        let seconds_of_day = DAY_US / SECOND_US;
        let today = second.div_euclid(seconds_of_day);
        let of_today = second.rem_euclid(seconds_of_day) as u32;
        let days = today..=today.checked_add(DAYS_AHEAD)?;
        let found = days.filter(|day| self.has_day(*day)).find_map(|day| {
            let from = if day == today { of_today } else { 0 };
            Some((day, self.time_from(from)?))
        });
        let (day, time) = found?;
        day.checked_mul(DAY_US)?.checked_add(i64::from(time) * SECOND_US)
    }

    /// Whether a day fits; 0 is 1970-01-01, a Thursday.
    fn has_day(&self, day: i64) -> bool {
        let (_, month, day_of_month) = civil_from_days(day);
        let weekday = (day + 4).rem_euclid(7) as u32;
        let by_month = has(self.days, day_of_month);
        let by_week = has(self.weekdays, weekday);
        let fits = match (self.days == ALL_DAYS, self.weekdays == ALL_WEEKDAYS) {
            (false, false) => by_month || by_week,
            _ => by_month && by_week,
        };
        fits && has(self.months, month)
    }

    /// The first time of a day that fits and is not before a second of it.
    fn time_from(&self, second_of_day: u32) -> Option<u32> {
        let (hour, minute, second) =
            (second_of_day / 3600, second_of_day / 60 % 60, second_of_day % 60);
        let mut at = first_from(self.hours, hour)?;
        let mut from = if at == hour { (minute, second) } else { (0, 0) };
        loop {
            let time = first_from(self.minutes, from.0).and_then(|minute| {
                let least = if minute == from.0 { from.1 } else { 0 };
                match first_from(self.seconds, least) {
                    Some(second) => Some((minute, second)),
                    None => {
                        let minute = first_from(self.minutes, minute + 1)?;
                        Some((minute, first_from(self.seconds, 0)?))
                    }
                }
            });
            if let Some((minute, second)) = time {
                return Some(at * 3600 + minute * 60 + second);
            }
            (at, from) = (first_from(self.hours, at + 1)?, (0, 0));
        }
    }
}

/// The bits of a range.
const fn bits(low: u32, high: u32) -> u64 {
    (u64::MAX >> (63 - high)) & (u64::MAX << low)
}

fn has(set: u64, value: u32) -> bool {
    set & (1 << value) != 0
}

/// The least value of a set from one on.
fn first_from(set: u64, value: u32) -> Option<u32> {
    let left = set & u64::MAX.checked_shl(value)?;
    (left != 0).then(|| left.trailing_zeros())
}

/// The values that a field says.
fn values(field: &Field, text: &str) -> Result<u64, String> {
    let refuse = |why: String| {
        let Field { name, low, high, .. } = field;
        let names = match (field.names.first(), field.names.last()) {
            (Some(first), Some(last)) => format!(" or {first} to {last}"),
            _ => String::new(),
        };
        format!(
            "the {name} '{text}' of the schedule {why}; it is a list of values from {low} to \
             {high}{names}, ranges a-b and *, with steps /n behind them"
        )
    };
    let mut set = 0;
    for part in text.split(',') {
        set |= part_values(field, part).map_err(refuse)?;
    }
    Ok(set)
}

/// The values of one part of a field's list.
fn part_values(field: &Field, part: &str) -> Result<u64, String> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    let (low, high) = match (range, range.split_once('-')) {
        ("*", _) => (field.low, field.high),
        ("?", _) if field.takes_question => (field.low, field.high),
        (_, Some((low, high))) => (value(field, low)?, value(field, high)?),
        // A value with a step goes on to the greatest.
        (single, None) if step.is_some() => (value(field, single)?, field.high),
        (single, None) => (value(field, single)?, value(field, single)?),
    };
    if low > high {
        return Err(format!("has the range '{range}', which goes backwards"));
    }
    let step = match step.map(str::parse::<u32>) {
        None => 1,
        Some(Ok(step)) if step > 0 => step,
        Some(_) => return Err(format!("has no number from 1 on after the / of '{part}'")),
    };
    let values = (low..=high).step_by(step as usize);
    Ok(values.fold(0, |set, value| set | 1 << value))
}

fn value(field: &Field, text: &str) -> Result<u32, String> {
    let named = field.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    let number = match named {
        Some(place) => Some(place as u32 + field.first_name),
        None if text.bytes().all(|byte| byte.is_ascii_digit()) => text.parse().ok(),
        None => None,
    };
    let number = number.filter(|number| (field.low..=field.high).contains(number));
    number.ok_or_else(|| format!("has '{text}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timestamp;

    fn parse(text: &str) -> Result<Cron, String> {
        let fields: Vec<String> = text.split(' ').map(str::to_string).collect();
        Cron::parse(&fields.try_into().expect("six fields"))
    }

    /// The next times after one, as many as are expected.
    fn check(text: &str, from: &str, expected: &[&str]) {
        let cron = parse(text).expect(text);
        let mut now_us = timestamp::parse(from).expect("a time");
        for expected in expected {
            now_us = cron.next_after(now_us).expect("there is one");
            let shown = timestamp::format(now_us);
            assert_eq!(shown.trim_end_matches(".000000"), *expected, "{text} behind {from}");
        }
    }

    #[test]
    fn times_of_a_day() {
        check(
            "*/20 * * * * *",
            "2026-03-01 10:00:00",
            &["2026-03-01 10:00:20", "2026-03-01 10:00:40", "2026-03-01 10:01:00"],
        );
        check(
            "30 59 23 * * ?",
            "2026-12-31 23:59:29.999999",
            &["2026-12-31 23:59:30", "2027-01-01 23:59:30"],
        );
        check(
            "0 0/25 8-9,22 * * *",
            "2026-03-01 08:49:59",
            &[
                "2026-03-01 08:50:00",
                "2026-03-01 09:00:00",
                "2026-03-01 09:25:00",
                "2026-03-01 09:50:00",
                "2026-03-01 22:00:00",
                "2026-03-01 22:25:00",
                "2026-03-01 22:50:00",
                "2026-03-02 08:00:00",
            ],
        );
        check("10 5 * * * *", "2026-03-01 08:05:20", &["2026-03-01 09:05:10"]);
        check("10 5,6 8 * * *", "2026-03-01 08:05:10", &["2026-03-01 08:06:10"]);
        check(
            "0 0 0 * * *",
            "1969-12-30 12:00:00.5",
            &["1969-12-31 00:00:00", "1970-01-01 00:00:00"],
        );
    }

    #[test]
    fn ends_of_months_and_years() {
        check(
            "0 0 0 31 * *",
            "2026-01-31 00:00:00",
            &["2026-03-31 00:00:00", "2026-05-31 00:00:00", "2026-07-31 00:00:00"],
        );
        check(
            "0 0 12 28-31 FEB *",
            "2026-02-28 11:59:59",
            &["2026-02-28 12:00:00", "2027-02-28 12:00:00", "2028-02-28 12:00:00"],
        );
        check("0 0 0 29 2 *", "2096-02-29 00:00:00", &["2104-02-29 00:00:00"]);
        check("59 59 23 31 dec ?", "2026-01-01", &["2026-12-31 23:59:59", "2027-12-31 23:59:59"]);
        check(
            "0 0 0 1 1,7 *",
            "2026-01-01 00:00:00",
            &["2026-07-01 00:00:00", "2027-01-01 00:00:00"],
        );
    }

    #[test]
    fn days_of_the_week_by_number_and_name() {
        // 2026-03-01 is a Sunday.
        for sunday in ["0", "7", "SUN", "sun", "7/2", "0,7"] {
            check(
                &format!("0 0 0 * * {sunday}"),
                "2026-03-01 00:00:00",
                &["2026-03-08 00:00:00", "2026-03-15 00:00:00"],
            );
        }
        check(
            "0 0 9 ? * MON-FRI",
            "2026-03-05 09:00:00",
            &["2026-03-06 09:00:00", "2026-03-09 09:00:00"],
        );
        check("0 0 0 ? * 5-7", "2026-03-06", &["2026-03-07 00:00:00", "2026-03-08 00:00:00"]);
        // Either says a day.
        check(
            "0 0 0 13 * FRI",
            "2026-03-01",
            &["2026-03-06 00:00:00", "2026-03-13 00:00:00", "2026-03-20 00:00:00"],
        );
        check("0 0 0 13 * *", "2026-03-01", &["2026-03-13 00:00:00", "2026-04-13 00:00:00"]);
    }

    #[test]
    fn every_second_fits_or_does_not_as_the_fields_say() {
        let cron = parse("7-50/13 */11 1,22 */9 2-12/5 3").expect("fields");
        let mut now_us = timestamp::parse("2027-01-30").expect("a time");
        let end_us = timestamp::parse("2027-03-02").expect("a time");
        let mut slow = Vec::new();
        let fits = |second: i64| {
            let (_, month, day) = civil_from_days(second.div_euclid(86_400));
            let weekday = (second.div_euclid(86_400) + 4) % 7;
            let of_day = second.rem_euclid(86_400);
            [7, 20, 33, 46].contains(&(of_day % 60))
                && of_day / 60 % 60 % 11 == 0
                && [1, 22].contains(&(of_day / 3600))
                && ([1, 10, 19, 28].contains(&day) || weekday == 3)
                && [2, 7, 12].contains(&month)
        };
        for second in now_us / SECOND_US + 1..=end_us / SECOND_US {
            if fits(second) {
                slow.push(second * SECOND_US);
            }
        }
        assert!(slow.len() > 300, "{}", slow.len());
        for expected in slow {
            now_us = cron.next_after(now_us).expect("there is one");
            assert_eq!(now_us, expected);
        }
    }

    #[test]
    fn the_end_of_numbers_is_no_panic() {
        let cron = parse("0 0 0 * * *").expect("fields");
        assert_eq!(cron.next_after(i64::MAX), None);
        let _ = cron.next_after(i64::MIN);
    }

    #[test]
    fn what_says_no_values_is_named() {
        for (text, part) in [
            (
                "60 * * * * *",
                "the second '60' of the schedule has '60'; it is a list of values from 0 to 59,",
            ),
            ("* 5-70 * * * *", "the minute '5-70' of the schedule has '70'"),
            ("* * 24 * * *", "the hour '24'"),
            ("* * * 0 * *", "the day of the month '0'"),
            ("* * * * 13 *", "has '13'; it is a list of values from 1 to 12 or JAN to DEC, ranges"),
            ("* * * * * 8", "the day of the week '8'"),
            ("* * * * * FRI-MON", "has the range 'FRI-MON', which goes backwards"),
            ("? * * * * *", "the second '?'"),
            ("*/0 * * * * *", "no number from 1 on after the / of '*/0'"),
            ("*/x * * * * *", "no number from 1 on"),
            ("1, * * * * *", "has ''"),
            ("-1 * * * * *", "has ''"),
            ("+1 * * * * *", "has '+1'"),
            ("* * * L * *", "has 'L'"),
            ("99999999999 * * * * *", "has '99999999999'"),
            ("0 0 0 30 2 *", "no month '2' has a day '30'"),
            ("0 0 0 31 4,6,9,11 *", "no month '4,6,9,11' has a day '31'"),
        ] {
            let refused = parse(text).expect_err(text);
            assert!(refused.contains(part), "{text}: {refused}");
        }
    }
}
