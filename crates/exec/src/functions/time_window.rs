//! TIME_WINDOW: the start or the end of the window of some units that a time is in.
//!
//! Windows are counted from an origin: 1970-01-01, for weeks Monday 1969-12-29. As in VoltDB,
//! the time counts in whole units from the origin, and months and quarters count their first
//! month as 1. So a time in the last month of a window has the start of the following window.

use super::datetime::{Unit, in_range, month_number, start_of_month};
use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_types::Datum;
use lockstep_types::timestamp::{DAY_US, days_from_civil};

/// Day number of the Monday that weeks count from.
const WEEK_ORIGIN_DAY: i64 = -3;
/// The longest window in days, with VoltDB's calendar from 1400 to 10000.
const LONGEST_DAYS: i64 = 8600 * 365 + 2500;
/// The first and the last year of that calendar.
const CALENDAR_YEARS: (i64, i64) = (1400, 9999);

/// `TIME_WINDOW(unit, count, time [, 'START' | 'END'])`
pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    let unit = Unit::of(arguments)?;
    let count = arguments.integer(1)?;
    let end = arguments.text(3)? == "END";
    let longest = match unit {
        Unit::Day if end => LONGEST_DAYS,
        Unit::Hour => LONGEST_DAYS * 24,
        _ => i64::MAX,
    };
    if !(1..=longest).contains(&count) {
        return Err(invalid_interval());
    }
    let micros = in_range(arguments.timestamp(2)?, "TIME_WINDOW")?;
    boundary(unit, count, micros, end).map(Datum::Timestamp).ok_or_else(invalid_interval)
}

#[cold]
fn invalid_interval() -> SqlError {
    SqlError::out_of_range(
        "invalid interval or interval is too large for TIME_WINDOW function".to_string(),
    )
}

/// The boundary in microseconds; `None` if the calendar does not have it.
fn boundary(unit: Unit, count: i64, micros: i64, end: bool) -> Option<i64> {
    let months = month_number(micros);
    let days = micros.div_euclid(DAY_US);
    match unit {
        Unit::Year => {
            let years = boundary_unit(months.div_euclid(12), count, end)?;
            month_start(years.checked_mul(12)?)
        }
        Unit::Quarter => {
            month_start(boundary_unit(first_is_one(months), count.checked_mul(3)?, end)?)
        }
        Unit::Month => month_start(boundary_unit(first_is_one(months), count, end)?),
        Unit::Week => {
            // VoltDB adds the three days to the distance on either side of 1970.
            let distance = if micros < 0 { days + WEEK_ORIGIN_DAY } else { days - WEEK_ORIGIN_DAY };
            let boundary = boundary_unit(distance, count.checked_mul(7)?, end)?;
            day_start(boundary.checked_add(WEEK_ORIGIN_DAY)?)
        }
        Unit::Day => day_start(boundary_unit(days, count, end)?),
        Unit::Millisecond => boundary_unit(micros / 1000, count, end)?.checked_mul(1000),
        _ => {
            let length = unit.micros()?;
            boundary_unit(micros.div_euclid(length), count, end)?.checked_mul(length)
        }
    }
}

/// The multiple of `count` at or before a number, at or after it for an end.
fn boundary_unit(number: i64, count: i64, end: bool) -> Option<i64> {
    let partial = end && number.rem_euclid(count) != 0;
    (number.div_euclid(count) + i64::from(partial)).checked_mul(count)
}

/// The number of a month when the first one is 1, and so is -1 the one before 1969-12, which is 0.
fn first_is_one(month: i64) -> i64 {
    month + 1
}

fn month_start(number: i64) -> Option<i64> {
    let year = 1970i64.checked_add(number.div_euclid(12))?;
    (CALENDAR_YEARS.0..=CALENDAR_YEARS.1).contains(&year).then(|| start_of_month(number))
}

fn day_start(day: i64) -> Option<i64> {
    let first = days_from_civil(CALENDAR_YEARS.0, 1, 1);
    let last = days_from_civil(CALENDAR_YEARS.1, 12, 31);
    (first..=last).contains(&day).then(|| day * DAY_US)
}
