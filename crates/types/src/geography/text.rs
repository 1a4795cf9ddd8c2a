//! Points and polygons as well-known text.

use super::{INCOMPLETE, Point, read_polygon};
use crate::{Datum, SqlType};
use lockstep_base::bytes::ByteWriter;

/// Decimal places of coordinates in text.
const TEXT_PLACES: i32 = 12;
/// The corners of a bound that is not filled in.
const NO_BOUND: [f64; 4] = [360.0; 4];

/// The vertices of a ring as unit vectors, the closing one left out.
pub type Ring = Vec<[f64; 3]>;

/// A geographic value of a result table as well-known text; `None` for other types and NULL.
pub fn text_of(sql_type: SqlType, value: Datum<'_>) -> Option<String> {
    match (sql_type, value) {
        (SqlType::Geography, Datum::Bytes(bytes)) => polygon_text(bytes),
        (SqlType::GeographyPoint, Datum::Point(point)) => Some(point.to_string()),
        _ => None,
    }
}

impl Point {
    /// Reads `POINT(<longitude> <latitude>)`; the error is the message for the client.
    pub fn parse(text: &str) -> Result<Point, String> {
        let form = || {
            format!(
                "Invalid input to POINTFROMTEXT: '{text}', expected input of the form \
                 'POINT(<lng> <lat>)'"
            )
        };
        let mut tokens = Tokens::new(text);
        let mut expect = |word: &str| match tokens.next() {
            Some(token) if token.eq_ignore_ascii_case(word) => Ok(()),
            _ => Err(form()),
        };
        expect("point")?;
        expect("(")?;
        let mut number = || {
            let token = tokens.next().ok_or_else(form)?;
            parse_number(token).ok_or_else(form)
        };
        let (longitude, latitude) = (number()?, number()?);
        let range = |name: &str, limit: u8| {
            format!(
                "Invalid input to POINTFROMTEXT: '{text}'.  {name} must be in the range \
                 [-{limit},{limit}]."
            )
        };
        if !(-180.0..=180.0).contains(&longitude) {
            return Err(range("Longitude", 180));
        }
        let point = Point::new(longitude, latitude).ok_or_else(|| range("Latitude", 90))?;
        match (tokens.next(), tokens.next()) {
            (Some(")"), None) => Ok(point),
            _ => Err(form()),
        }
    }
}

/// The words, commas and parentheses of well-known text.
#[derive(Debug, Clone)]
pub struct Tokens<'a> {
    rest: &'a str,
}

impl<'a> Tokens<'a> {
    /// The tokens of `text`.
    pub fn new(text: &'a str) -> Tokens<'a> {
        Tokens { rest: text }
    }
}

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let space = |c: char| matches!(c, ' ' | '\x0c' | '\n' | '\r' | '\t' | '\x0b');
        let alone = |c: char| matches!(c, ',' | '(' | ')');
        let text = self.rest.trim_start_matches(space);
        let first = text.chars().next()?;
        let end = match alone(first) {
            true => 1,
            false => text.find(|c| space(c) || alone(c)).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

/// A finite number as text has it.
pub fn parse_number(token: &str) -> Option<f64> {
    token.parse::<f64>().ok().filter(|number| number.is_finite())
}

/// A coordinate in text: at least one decimal place, at most twelve.
pub(super) fn coordinate(degrees: f64) -> String {
    let scale = 10f64.powi(TEXT_PLACES);
    let rounded = (degrees * scale - 0.499_999_9).ceil() / scale;
    if degrees == degrees.floor() || rounded == rounded.floor() {
        return format!("{degrees:.1}");
    }
    let whole_digits = (degrees.abs().log10() + 1.0) as i32;
    significant(degrees, (whole_digits + TEXT_PLACES).max(1) as usize)
}

/// C's `%.*g`: `digits` significant digits without trailing zeros.
fn significant(number: f64, digits: usize) -> String {
    let scientific = format!("{number:.*e}", digits - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let strip = |text: &str| match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => text.to_string(),
    };
    if exponent < -4 || exponent >= digits as i32 {
        let sign = if exponent < 0 { '-' } else { '+' };
        return format!("{}e{sign}{:02}", strip(mantissa), exponent.abs());
    }
    let places = (digits as i32 - 1 - exponent).max(0) as usize;
    strip(&format!("{number:.places$}"))
}

/// A polygon in byte form as well-known text; `None` for bytes that are not a polygon.
pub fn polygon_text(bytes: &[u8]) -> Option<String> {
    let (_, loops) = read_polygon(bytes).ok()?;
    let mut text = String::from("POLYGON (");
    for (index, ring) in loops.iter().enumerate() {
        let mut vertices: Vec<[f64; 3]> = ring.vertices().collect();
        // Holes are reversed, their first vertex stays.
        if index > 0 {
            vertices[1..].reverse();
            text.push_str(", ");
        }
        vertices.push(vertices[0]);
        text.push('(');
        for (at, vertex) in vertices.iter().enumerate() {
            let point = Point::from_vector(*vertex);
            let comma = if at == 0 { "" } else { ", " };
            let (longitude, latitude) = (coordinate(point.longitude), coordinate(point.latitude));
            text.push_str(&format!("{comma}{longitude} {latitude}"));
        }
        text.push(')');
    }
    text.push(')');
    Some(text)
}

/// The rings of `POLYGON((<longitude> <latitude>, ...), ...)`: the shell first, holes reversed.
///
/// # Errors
/// A message for the client.
pub fn polygon_rings(text: &str) -> Result<Vec<Ring>, String> {
    let mut tokens = Tokens::new(text).peekable();
    let bad = refused_polygon;
    let is_polygon = |token: &&str| token.eq_ignore_ascii_case("polygon");
    tokens.next_if(is_polygon).ok_or_else(|| bad("does not start with POLYGON keyword"))?;
    let opening = "missing left parenthesis after POLYGON keyword";
    tokens.next_if(|token| *token == "(").ok_or_else(|| bad(opening))?;
    let mut rings = Vec::new();
    while tokens.peek().is_some() {
        rings.push(read_ring(&mut tokens, rings.is_empty())?);
        match tokens.next() {
            Some(",") => {}
            // The last parenthesis may be missing, as in VoltDB.
            Some(")") | None => break,
            Some(token) => return Err(bad(&format!("unexpected token: '{token}'"))),
        }
    }
    if let Some(token) = tokens.next() {
        return Err(bad(&format!("unrecognized input after WKT: '{token}'")));
    }
    if rings.is_empty() {
        return Err(bad("expected left parenthesis to start a ring"));
    }
    Ok(rings)
}

/// A polygon as clients send it: the server works out its bounds, depths and origin flags.
pub fn incomplete_polygon(rings: &[Ring]) -> Vec<u8> {
    let mut out = Vec::new();
    let bound = |out: &mut Vec<u8>| {
        out.put_i8(INCOMPLETE);
        NO_BOUND.iter().for_each(|corner| out.put_f64(*corner));
    };
    out.put_i8(INCOMPLETE);
    out.put_i8(1);
    out.put_i8(i8::from(rings.len() > 1));
    out.put_i32(rings.len() as i32);
    for (index, ring) in rings.iter().enumerate() {
        out.put_i8(INCOMPLETE);
        out.put_i32(ring.len() as i32);
        ring.iter().flatten().for_each(|part| out.put_f64(*part));
        out.put_i8(0);
        out.put_i32(i32::from(index > 0));
        bound(&mut out);
    }
    bound(&mut out);
    out
}

/// The message of a polygon that is refused.
pub fn refused_polygon(reason: &str) -> String {
    format!(
        "Invalid input to POLYGONFROMTEXT: {reason}.  Expected input of the form \
         'POLYGON((<lng> <lat>, ...), ...)'"
    )
}

fn read_ring<'a>(
    tokens: &mut std::iter::Peekable<Tokens<'a>>,
    is_shell: bool,
) -> Result<Ring, String> {
    let opening = "expected left parenthesis to start a ring";
    tokens.next_if(|token| *token == "(").ok_or_else(|| refused_polygon(opening))?;
    let mut vertices = Vec::new();
    while tokens.next_if(|token| *token == ")").is_none() {
        vertices.push(read_vertex(tokens)?.to_vector());
        match tokens.peek() {
            Some(&",") => {
                tokens.next();
            }
            Some(&")") => {}
            Some(token) => return Err(refused_polygon(&format!("unexpected token: '{token}'"))),
            None => return Err(refused_polygon("unexpected end of input")),
        }
    }
    if vertices.len() < 4 {
        let few = "A polygon ring must contain at least 4 points (including repeated closing \
                   vertex)";
        return Err(refused_polygon(few));
    }
    if vertices.pop().as_ref() != vertices.first() {
        return Err(refused_polygon(
            "A polygon ring's first vertex must be equal to its last vertex",
        ));
    }
    if !is_shell {
        vertices[1..].reverse();
    }
    Ok(vertices)
}

fn read_vertex<'a>(tokens: &mut impl Iterator<Item = &'a str>) -> Result<Point, String> {
    let mut number = |name: &str, limit: f64| {
        let token = tokens.next().ok_or_else(|| refused_polygon("unexpected end of input"))?;
        let number = parse_number(token)
            .ok_or_else(|| refused_polygon(&format!("expected a number but found '{token}'")))?;
        match number.abs() <= limit {
            true => Ok(number),
            false => Err(format!(
                "Invalid input to POLYGONFROMTEXT: '{token}'.  {name} must be in the range \
                 [-{limit},{limit}]."
            )),
        }
    };
    let (longitude, latitude) = (number("Longitude", 180.0)?, number("Latitude", 90.0)?);
    Ok(Point::new(longitude, latitude).expect("both are within their range"))
}
