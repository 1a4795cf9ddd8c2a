//! Functions of timestamps: calendar fields, sums, differences, truncation.

use super::{Arguments, Computed};
use crate::error::{SqlError, state};
use lockstep_plan_ir::Function;
use lockstep_types::timestamp::{
    DAY_US, MAX_VALID_US, MIN_VALID_US, SECOND_US, civil_from_days, days_from_civil, days_in_month,
};
use lockstep_types::{Datum, Decimal};

/// A unit of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Year,
    Quarter,
    Month,
    Week,
    Day,
    Hour,
    Minute,
    Second,
    Millisecond,
    Microsecond,
}

impl Unit {
    /// The unit that the first argument names.
    pub(super) fn of(arguments: &Arguments<'_, '_>) -> Result<Unit, SqlError> {
        let name = arguments.text(0)?;
        Ok(match name {
            "YEAR" => Unit::Year,
            "QUARTER" => Unit::Quarter,
            "MONTH" => Unit::Month,
            "WEEK" => Unit::Week,
            "DAY" => Unit::Day,
            "HOUR" => Unit::Hour,
            "MINUTE" => Unit::Minute,
            "SECOND" => Unit::Second,
            "MILLISECOND" | "MILLIS" => Unit::Millisecond,
            "MICROSECOND" | "MICROS" => Unit::Microsecond,
            _ => return Err(SqlError::argument(format!("there is no unit of time {name}"))),
        })
    }

    /// Its length, where that is always the same.
    pub(super) fn micros(self) -> Option<i64> {
        Some(match self {
            Unit::Year | Unit::Quarter | Unit::Month => return None,
            Unit::Week => 7 * DAY_US,
            Unit::Day => DAY_US,
            Unit::Hour => 3600 * SECOND_US,
            Unit::Minute => 60 * SECOND_US,
            Unit::Second => SECOND_US,
            Unit::Millisecond => 1000,
            Unit::Microsecond => 1,
        })
    }

    /// Its number of months, for the long units.
    pub(super) fn months(self) -> Option<i64> {
        match self {
            Unit::Year => Some(12),
            Unit::Quarter => Some(3),
            Unit::Month => Some(1),
            _ => None,
        }
    }
}

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    match arguments.function {
        Function::DateAdd => add(arguments),
        Function::DateDiff => difference(arguments),
        Function::FromUnixTime => from_epoch(arguments.integer(0)?, SECOND_US),
        Function::ToTimestamp => {
            let unit = Unit::of(arguments)?.micros().unwrap_or(1);
            from_epoch(arguments.integer(1)?, unit)
        }
        Function::SinceEpoch => {
            let unit = Unit::of(arguments)?.micros().unwrap_or(1);
            Ok(Datum::Int(in_range(arguments.timestamp(1)?, "SINCE_EPOCH")? / unit))
        }
        Function::TruncateTimestamp => truncate(arguments),
        Function::IsValidTimestamp => {
            let valid = (MIN_VALID_US..=MAX_VALID_US).contains(&arguments.timestamp(0)?);
            Ok(Datum::Bool(valid))
        }
        _ => field(arguments),
    }
}

/// The timestamp, if date functions take it.
pub(super) fn in_range(micros: i64, function: &str) -> Result<i64, SqlError> {
    if (MIN_VALID_US..=MAX_VALID_US).contains(&micros) {
        return Ok(micros);
    }
    Err(SqlError::coded(
        state::OUT_OF_RANGE,
        format!(
            "Input to SQL function {function} is outside of the supported range (years 1583 to \
             9999, inclusive)."
        ),
    ))
}

/// A computed timestamp, if date functions may give it.
pub(super) fn result<'a>(micros: i64, function: &str) -> Computed<'a> {
    if (MIN_VALID_US..=MAX_VALID_US).contains(&micros) {
        return Ok(Datum::Timestamp(micros));
    }
    Err(SqlError::coded(
        state::OUT_OF_RANGE,
        format!(
            "SQL function {function} would produce a value outside of the supported range (years \
             1583 to 9999, inclusive)."
        ),
    ))
}

fn from_epoch<'a>(count: i64, unit_us: i64) -> Computed<'a> {
    match count.checked_mul(unit_us) {
        Some(micros) => result(micros, "TO_TIMESTAMP"),
        None => {
            Err(SqlError::out_of_range("Input to TO_TIMESTAMP would overflow TIMESTAMP data type"))
        }
    }
}

fn field<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let name = match arguments.function {
        Function::DayOfWeek => "DAY_OF_WEEK",
        Function::DayOfYear => "DAY_OF_YEAR",
        Function::WeekOfYear => "WEEK_OF_YEAR",
        other => other.name(),
    };
    let micros = in_range(arguments.timestamp(0)?, name)?;
    let (days, of_day) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(days);
    let value = match arguments.function {
        Function::Year => year,
        Function::Quarter => i64::from((month - 1) / 3 + 1),
        Function::Month => i64::from(month),
        Function::DayOfMonth => i64::from(day),
        // 1970-01-01 was a Thursday. 1 is Sunday here, 0 is Monday in WEEKDAY.
        Function::DayOfWeek => (days + 4).rem_euclid(7) + 1,
        Function::Weekday => (days + 3).rem_euclid(7),
        Function::DayOfYear => days - days_from_civil(year, 1, 1) + 1,
        Function::WeekOfYear => iso_week(days),
        Function::Hour => of_day / (3600 * SECOND_US),
        Function::Minute => of_day / (60 * SECOND_US) % 60,
        _ => {
            let seconds = i128::from(of_day % (60 * SECOND_US));
            return Ok(Datum::Decimal(Decimal::from_raw(seconds * 1_000_000)));
        }
    };
    Ok(Datum::Int(value))
}

/// The ISO week: weeks start on Monday and belong to the year of their Thursday.
fn iso_week(days: i64) -> i64 {
    let thursday = days - (days + 3).rem_euclid(7) + 3;
    let (year, _, _) = civil_from_days(thursday);
    (thursday - days_from_civil(year, 1, 1)) / 7 + 1
}

/// Months since January 1970, 0 for itself.
pub(super) fn month_number(micros: i64) -> i64 {
    let (year, month, _) = civil_from_days(micros.div_euclid(DAY_US));
    (year - 1970) * 12 + i64::from(month) - 1
}

/// Midnight of the first day of a month.
pub(super) fn start_of_month(number: i64) -> i64 {
    let month = number.rem_euclid(12) as u32 + 1;
    days_from_civil(1970 + number.div_euclid(12), month, 1) * DAY_US
}

fn truncate<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let unit = Unit::of(arguments)?;
    let micros = in_range(arguments.timestamp(1)?, "TRUNCATE")?;
    Ok(Datum::Timestamp(match unit {
        Unit::Microsecond => micros,
        // VoltDB takes one more millisecond off before 1970, also from whole ones.
        Unit::Millisecond if micros < 0 => (micros / 1000 - 1) * 1000,
        Unit::Week => (micros.div_euclid(DAY_US) + 3).div_euclid(7) * 7 * DAY_US - 3 * DAY_US,
        _ => match (unit.months(), unit.micros()) {
            (Some(months), _) => start_of_month(month_number(micros).div_euclid(months) * months),
            (None, length) => {
                let length = length.unwrap_or(1);
                micros.div_euclid(length) * length
            }
        },
    }))
}

/// The longest span that valid timestamps have between them, in years.
const SPAN_YEARS: i64 = 8417;

fn add<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let unit = Unit::of(arguments)?;
    let count = arguments.integer(1)?;
    let micros = in_range(arguments.timestamp(2)?, "DATEADD")?;
    let too_large = || SqlError::out_of_range("interval is too large for DATEADD function");
    if let Some(months) = unit.months() {
        if count.unsigned_abs() > (SPAN_YEARS * 12 / months).unsigned_abs() {
            return Err(too_large());
        }
        let number = month_number(micros) + count * months;
        // VoltDB's calendar goes from 1400 to 9999.
        if !(-570 * 12..8030 * 12).contains(&number) {
            return Err(too_large());
        }
        return result(shifted_month(micros, number), "DATEADD");
    }
    let length = unit.micros().unwrap_or(1);
    let limit = SPAN_YEARS * 366 * (DAY_US / length.min(DAY_US));
    let sum = count.checked_mul(length).and_then(|span| micros.checked_add(span));
    match sum {
        Some(sum) if count.unsigned_abs() <= limit.unsigned_abs() => result(sum, "DATEADD"),
        _ => Err(too_large()),
    }
}

/// The same day and time in another month; the last day of a month goes to the last day.
fn shifted_month(micros: i64, number: i64) -> i64 {
    let (days, of_day) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(days);
    let target_year = 1970 + number.div_euclid(12);
    let target_month = number.rem_euclid(12) as u32 + 1;
    let last = days_in_month(target_year, target_month);
    let day = if day == days_in_month(year, month) { last } else { day.min(last) };
    days_from_civil(target_year, target_month, day) * DAY_US + of_day
}

/// DATEDIFF: years, months and days by their numbers in the calendar, quarters and weeks as the
/// whole ones in the months and days between, hours and less as the days between and the whole
/// units between the two times of day, and milliseconds as the whole ones between the two times.
fn difference<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let unit = Unit::of(arguments)?;
    let start = in_range(arguments.timestamp(1)?, "DATEDIFF")?;
    let end = in_range(arguments.timestamp(2)?, "DATEDIFF")?;
    let months = month_number(end) - month_number(start);
    let years = month_number(end).div_euclid(12) - month_number(start).div_euclid(12);
    let days = end.div_euclid(DAY_US) - start.div_euclid(DAY_US);
    Ok(Datum::Int(match unit {
        Unit::Year => years,
        Unit::Quarter => months / 3,
        Unit::Month => months,
        Unit::Week => days / 7,
        Unit::Day => days,
        Unit::Millisecond => (end - start) / 1000,
        Unit::Microsecond => end - start,
        Unit::Hour | Unit::Minute | Unit::Second => {
            let length = unit.micros().unwrap_or(1);
            let of_day = end.rem_euclid(DAY_US) - start.rem_euclid(DAY_US);
            days * (DAY_US / length) + of_day / length
        }
    }))
}
