//! TIMESTAMP as text and as calendar fields: microseconds since 1970-01-01 UTC, in the proleptic
//! Gregorian calendar.
//!
//! The day arithmetic is that of Howard Hinnant's "chrono-compatible low-level date algorithms".

/// Microseconds of a day.
pub const DAY_US: i64 = 86_400_000_000;
/// Microseconds of a second.
pub const SECOND_US: i64 = 1_000_000;
/// 1583-01-01 00:00:00.000000, the smallest that date functions take.
pub const MIN_VALID_US: i64 = -12_212_553_600_000_000;
/// 9999-12-31 23:59:59.999999, the greatest that date functions take.
pub const MAX_VALID_US: i64 = 253_402_300_799_999_999;

/// Year, month (1..12) and day (1..31) of a day number (0 is 1970-01-01).
pub fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = (day_of_year - (153 * shifted_month + 2) / 5 + 1) as u32;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 } as u32;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// The day number of a date; the inverse of [`civil_from_days`].
pub fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let shifted_month = i64::from((month + 9) % 12);
    let day_of_year = (153 * shifted_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Days of a month.
pub fn days_in_month(year: i64, month: u32) -> u32 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

/// `YYYY-MM-DD HH:MM:SS.ffffff`, UTC.
pub fn format(micros: i64) -> String {
    let (days, of_day) = (micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US));
    let (year, month, day) = civil_from_days(days);
    let (seconds, fraction) = (of_day / SECOND_US, of_day % SECOND_US);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}.{fraction:06}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Reads `YYYY-MM-DD` or `YYYY-MM-DD HH:MM:SS[.f{1,6}]` as UTC. `None` if it is neither or no
/// such day or time exists.
pub fn parse(text: &str) -> Option<i64> {
    let bytes = text.as_bytes();
    let digits = |from: usize, to: usize| -> Option<i64> {
        let part = bytes.get(from..to)?;
        part.iter()
            .try_fold(0i64, |sum, b| b.is_ascii_digit().then(|| sum * 10 + i64::from(b - b'0')))
    };
    let expect = |at: usize, byte: u8| (bytes.get(at) == Some(&byte)).then_some(());
    let year = digits(0, 4)?;
    expect(4, b'-')?;
    let month = digits(5, 7)? as u32;
    expect(7, b'-')?;
    let day = digits(8, 10)? as u32;
    if !(1..=12).contains(&month) || day < 1 || day > days_in_month(year, month) {
        return None;
    }
    let midnight = days_from_civil(year, month, day) * DAY_US;
    if bytes.len() == 10 {
        return Some(midnight);
    }
    expect(10, b' ')?;
    expect(13, b':')?;
    expect(16, b':')?;
    let (hour, minute, second) = (digits(11, 13)?, digits(14, 16)?, digits(17, 19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let time = midnight + (hour * 3600 + minute * 60 + second) * SECOND_US;
    if bytes.len() == 19 {
        return Some(time);
    }
    expect(19, b'.')?;
    let count = bytes.len() - 20;
    if !(1..=6).contains(&count) {
        return None;
    }
    Some(time + digits(20, bytes.len())? * 10i64.pow(6 - count as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_micros_agree() {
        for (text, micros) in [
            ("1970-01-01 00:00:00.000000", 0),
            ("2000-01-01 00:00:00.123456", 946_684_800_123_456),
            ("1969-12-31 23:59:59.999999", -1),
            ("1583-01-01 00:00:00.000000", MIN_VALID_US),
            ("9999-12-31 23:59:59.999999", MAX_VALID_US),
        ] {
            assert_eq!(parse(text), Some(micros));
            assert_eq!(format(micros), text);
        }
        assert_eq!(parse("2000-02-29"), Some(951_782_400_000_000));
        assert_eq!(parse("2000-01-01 00:00:00.5"), Some(946_684_800_500_000));
        for bad in [
            "1900-02-29",
            "2000-13-01",
            "2000-1-1",
            "2000-01-01 24:00:00",
            "2000-01-01 ",
            "2000-01-01T00:00:00",
            "2000-01-01 00:00:00.",
            "2000-01-01 00:00:00.1234567",
            "x",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn days_and_dates_are_inverse() {
        for days in (-150_000..3_000_000).step_by(37) {
            let (year, month, day) = civil_from_days(days);
            assert_eq!(days_from_civil(year, month, day), days);
        }
    }
}
