//! Geographic values: points, and the byte form of polygons.
//!
//! A polygon is kept as clients send and receive it, all numbers big-endian:
//!
//! ```text
//! i8 version (0 incomplete, 1 complete) | i8 owns loops | i8 has holes | i32 loops
//! per loop: i8 version | i32 vertices | x, y, z of each | i8 origin inside | i32 depth | bound
//! bound of all
//! ```
//!
//! A bound is an i8 and four doubles (lowest and highest latitude and longitude, radians). Vertices
//! are unit vectors; the closing vertex is left out. Loops run counter-clockwise around what they
//! enclose, so holes are reversed against their text.

pub mod text;

pub use text::polygon_text;

use lockstep_base::bytes::{ByteReader, EndOfBytes};
use std::cmp::Ordering;
use std::fmt;
use text::coordinate;

/// Both coordinates of the NULL point on the wire and in storage.
pub const NULL_COORDINATE: f64 = 360.0;
/// Length in bytes of a GEOGRAPHY column that declares none.
pub const DEFAULT_GEOGRAPHY_BYTES: u32 = 32_768;
/// The smallest length that a GEOGRAPHY column may declare: that of a triangle.
pub const MIN_GEOGRAPHY_BYTES: u32 = 155;
/// Version byte of a polygon whose bounds, depths and origin flags are not filled in.
pub const INCOMPLETE: i8 = 0;
/// Version byte of a polygon with all of them.
pub const COMPLETE: i8 = 1;
/// Bytes of a bound.
const BOUND_BYTES: usize = 33;
/// Points closer than this many degrees in both coordinates are equal.
const EQUAL_DEGREES: f64 = 1e-12;

/// A point on the earth, in degrees.
#[derive(Debug, Clone, Copy)]
pub struct Point {
    longitude: f64,
    latitude: f64,
}

impl Point {
    /// A point; `None` for a longitude beyond ±180, a latitude beyond ±90, or NaN.
    #[inline]
    pub fn new(longitude: f64, latitude: f64) -> Option<Point> {
        let valid = (-180.0..=180.0).contains(&longitude) && (-90.0..=90.0).contains(&latitude);
        valid.then_some(Point { longitude, latitude })
    }

    /// Degrees east.
    #[inline]
    pub fn longitude(self) -> f64 {
        self.longitude
    }

    /// Degrees north.
    #[inline]
    pub fn latitude(self) -> f64 {
        self.latitude
    }

    /// The point on the unit sphere.
    pub fn to_vector(self) -> [f64; 3] {
        let radians = std::f64::consts::PI / 180.0;
        let (theta, phi) = (self.longitude * radians, self.latitude * radians);
        [theta.cos() * phi.cos(), theta.sin() * phi.cos(), phi.sin()]
    }

    /// The point in the direction of a vector. Panics for NaN and the null vector: vectors come
    /// from points or were checked.
    pub fn from_vector([x, y, z]: [f64; 3]) -> Point {
        let degrees = 180.0 / std::f64::consts::PI;
        let latitude = degrees * z.atan2((x * x + y * y).sqrt());
        let longitude = degrees * y.atan2(x);
        let latitude = latitude.clamp(-90.0, 90.0);
        Point::new(longitude.clamp(-180.0, 180.0), latitude).expect("a vector is finite")
    }

    /// The two numbers that order points: longitude, then latitude, in units of 10⁻¹² degrees. At
    /// a pole the longitude counts as 0, and 180 degrees west as 180 degrees east.
    #[inline]
    pub fn order_key(self) -> (i64, i64) {
        let mut longitude = self.longitude;
        if 90.0 - self.latitude.abs() < EQUAL_DEGREES {
            longitude = 0.0;
        } else if 180.0 + longitude < EQUAL_DEGREES {
            longitude = 180.0;
        }
        let units = |degrees: f64| (degrees / EQUAL_DEGREES).round() as i64;
        (units(longitude), units(self.latitude))
    }
}

impl PartialEq for Point {
    fn eq(&self, other: &Point) -> bool {
        self.order_key() == other.order_key()
    }
}

impl Eq for Point {}

impl Ord for Point {
    fn cmp(&self, other: &Point) -> Ordering {
        self.order_key().cmp(&other.order_key())
    }
}

impl PartialOrd for Point {
    fn partial_cmp(&self, other: &Point) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Point {
    /// As well-known text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "POINT ({} {})", coordinate(self.longitude), coordinate(self.latitude))
    }
}

/// A loop of a polygon in byte form.
#[derive(Debug, Clone, Copy)]
pub struct LoopBytes<'a> {
    vertices: &'a [u8],
    /// Whether the fixed origin of containment tests lies inside.
    pub origin_inside: bool,
    /// How many other loops it lies in: 0 for a shell, 1 for a hole.
    pub depth: i32,
}

impl LoopBytes<'_> {
    /// The vertices in order, the closing one left out.
    pub fn vertices(&self) -> impl ExactSizeIterator<Item = [f64; 3]> + '_ {
        self.vertices.chunks_exact(24).map(|chunk| {
            let number = |at: usize| {
                let bytes = chunk[at..at + 8].try_into().expect("a chunk has three doubles");
                f64::from_be_bytes(bytes)
            };
            [number(0), number(8), number(16)]
        })
    }
}

/// Why bytes are not a polygon, as a message for the client.
pub type PolygonError = String;

/// Reads the loops of a polygon and whether the form is complete.
///
/// # Errors
/// A message when lengths do not add up, a loop has fewer than three vertices, or a vertex is not a
/// unit vector.
pub fn read_polygon(bytes: &[u8]) -> Result<(bool, Vec<LoopBytes<'_>>), PolygonError> {
    let mut reader = ByteReader::new(bytes);
    let loops = read_loops(&mut reader)
        .map_err(|_: EndOfBytes| "a GEOGRAPHY value ends before its last loop".to_string())?;
    let (complete, loops) = loops?;
    if !reader.rest().is_empty() {
        let left = reader.rest().len();
        return Err(format!("a GEOGRAPHY value has {left} bytes after its last loop"));
    }
    for vertex in loops.iter().flat_map(|ring| ring.vertices()) {
        let norm: f64 = vertex.iter().map(|part| part * part).sum();
        if norm.is_nan() || (norm - 1.0).abs() >= 1e-6 {
            return Err("a vertex of a GEOGRAPHY value is not on the unit sphere".into());
        }
    }
    Ok((complete, loops))
}

/// What is structurally wrong is the inner error.
type Loops<'a> = Result<(bool, Vec<LoopBytes<'a>>), PolygonError>;

fn read_loops<'a>(reader: &mut ByteReader<'a>) -> Result<Loops<'a>, EndOfBytes> {
    let version = reader.i8()?;
    if version != COMPLETE && version != INCOMPLETE {
        return Ok(Err(format!("version {version} of a GEOGRAPHY value is not known (0 or 1)")));
    }
    reader.take(2)?;
    let count = reader.i32()?;
    let mut loops = Vec::new();
    for _ in 0..count {
        reader.i8()?;
        let vertices = usize::try_from(reader.i32()?).map_err(|_| EndOfBytes)?;
        if vertices < 3 {
            let message = format!("a loop of a GEOGRAPHY value has {vertices} vertices (least 3)");
            return Ok(Err(message));
        }
        let vertices = reader.take(vertices.checked_mul(24).ok_or(EndOfBytes)?)?;
        let origin_inside = reader.i8()? != 0;
        let depth = reader.i32()?;
        reader.take(BOUND_BYTES)?;
        loops.push(LoopBytes { vertices, origin_inside, depth });
    }
    reader.take(BOUND_BYTES)?;
    Ok(match loops.is_empty() {
        true => Err(format!("a GEOGRAPHY value has {count} loops (least 1)")),
        false => Ok((version == COMPLETE, loops)),
    })
}

#[cfg(test)]
mod tests;
