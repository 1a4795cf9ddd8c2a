//! TIME_WINDOW: the start (or end) of the window of some units that a time is in. Windows are
//! counted from 1970; the first ones of each unit lie as VoltDB has them.

use super::datetime::{Unit, in_range, month_number, start_of_month};
use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_types::Datum;
use lockstep_types::timestamp::DAY_US;

/// The longest window: all of the valid range.
const LONGEST_US: i64 = 8417 * 366 * DAY_US;

/// `TIME_WINDOW(unit, count, time [, 'START' | 'END'])`
pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    let unit = Unit::of(arguments)?;
    let count = arguments.integer(1)?;
    let micros = in_range(arguments.timestamp(2)?, "TIME_WINDOW")?;
    let end = arguments.text(3)? == "END";
    let micros_of_unit = unit.micros().unwrap_or(unit.months().unwrap_or(1) * 31 * DAY_US);
    if count <= 0 || count > LONGEST_US / micros_of_unit {
        let message = "invalid interval or interval is too large for TIME_WINDOW function";
        return Err(SqlError::argument(message));
    }
    Ok(Datum::Timestamp(boundary(unit, count, micros, end)))
}

fn boundary(unit: Unit, count: i64, micros: i64, end: bool) -> i64 {
    let following = if end { count } else { 0 };
    match unit {
        Unit::Year => {
            let years = month_number(micros).div_euclid(12);
            start_of_month((years.div_euclid(count) * count + following) * 12)
        }
        Unit::Quarter => {
            let quarters = month_number(micros) / 3;
            start_of_month((quarters / count * count + following) * 3)
        }
        // Months count from 1: January 1970 is in the second window of one month.
        Unit::Month => {
            let months = month_number(micros) + 1;
            start_of_month(months / count * count + following)
        }
        // Weeks start on Monday; before 1970 one window more is taken off.
        Unit::Week => {
            let window = 7 * count * DAY_US;
            let shifted = micros + 3 * DAY_US;
            let number = shifted / window - i64::from(micros < 0);
            number * window + 7 * following * DAY_US - 3 * DAY_US
        }
        Unit::Day => {
            let days = micros.div_euclid(DAY_US);
            (days.div_euclid(count) * count + following) * DAY_US
        }
        // Short windows end where they are full: a time on the boundary is an end itself.
        _ => {
            let length = unit.micros().unwrap_or(1);
            let number = match unit {
                Unit::Millisecond => micros / length,
                _ => micros.div_euclid(length),
            };
            let windows = match (unit, end) {
                (_, true) => number.div_euclid(count) + i64::from(number.rem_euclid(count) != 0),
                (Unit::Millisecond, false) => number / count,
                (_, false) => number.div_euclid(count),
            };
            windows * count * length
        }
    }
}
