//! Points and polygons on the earth.

use super::{Arguments, Computed};
use crate::error::SqlError;
use crate::geography::{EARTH_RADIUS_M, Polygon};
use lockstep_plan_ir::Function;
use lockstep_types::geography::Point;
use lockstep_types::{Datum, SqlType};

pub(super) fn call<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    if arguments.any_null() {
        return Ok(Datum::Null);
    }
    match arguments.function {
        Function::PointFromText => Ok(Datum::Point(point_of_text(arguments.text(0)?)?)),
        Function::PolygonFromText => polygon_of_text(arguments, false),
        Function::ValidPolygonFromText => polygon_of_text(arguments, true),
        Function::Latitude => Ok(Datum::Float(point(arguments, 0)?.latitude())),
        Function::Longitude => Ok(Datum::Float(point(arguments, 0)?.longitude())),
        Function::AsText => {
            crate::cast::text(arguments.arena, arguments.value(0), arguments.sql_type(0))
        }
        Function::Distance => Ok(Datum::Float(distance_m(arguments)?)),
        Function::DistanceWithin => within(arguments),
        _ => of_polygon(arguments),
    }
}

/// Functions whose first argument is a polygon.
fn of_polygon<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let polygon = polygon(arguments, 0)?;
    let count = |count: usize| Ok(Datum::Int(count as i64));
    match arguments.function {
        Function::Contains => Ok(Datum::Bool(polygon.contains(point(arguments, 1)?.to_vector()))),
        Function::NumInteriorRings => count(polygon.interior_rings()),
        Function::NumPoints => count(polygon.points()),
        Function::Centroid => Ok(polygon.centroid().map_or(Datum::Null, Datum::Point)),
        Function::Area => Ok(Datum::Float(polygon.area() * (EARTH_RADIUS_M * EARTH_RADIUS_M))),
        Function::IsValid => Ok(Datum::Bool(polygon.fault().is_none())),
        Function::IsInvalidReason => {
            arguments.new_text(polygon.fault().as_deref().unwrap_or("Valid Polygon"))
        }
        Function::MakeValidPolygon => {
            let repaired = polygon.repaired();
            match repaired.fault() {
                Some(fault) => Err(SqlError::argument(format!(
                    "Invalid input to MAKE_VALID_POLYGON: {fault}."
                ))),
                None => Ok(Datum::Bytes(arguments.arena.copy(&repaired.to_bytes()))),
            }
        }
        other => unreachable!("{} does not take a polygon", other.name()),
    }
}

fn point(arguments: &Arguments<'_, '_>, index: usize) -> Result<Point, SqlError> {
    match arguments.value(index) {
        Datum::Point(point) => Ok(point),
        _ => Err(arguments.mistyped(index, SqlType::GeographyPoint)),
    }
}

fn polygon(arguments: &Arguments<'_, '_>, index: usize) -> Result<Polygon, SqlError> {
    match arguments.value(index) {
        Datum::Bytes(bytes) => Polygon::from_bytes(bytes).map_err(SqlError::argument),
        _ => Err(arguments.mistyped(index, SqlType::Geography)),
    }
}

/// A point from its text.
///
/// # Errors
/// In VoltDB's words.
pub(crate) fn point_of_text(text: &str) -> Result<Point, SqlError> {
    Point::parse(text).map_err(SqlError::argument)
}

fn polygon_of_text<'a>(arguments: &Arguments<'a, '_>, repair: bool) -> Computed<'a> {
    let polygon = Polygon::from_text(arguments.text(0)?, repair).map_err(SqlError::argument)?;
    Ok(Datum::Bytes(arguments.arena.copy(&polygon.to_bytes())))
}

/// Metres between two points, or a polygon and a point in either order.
fn distance_m(arguments: &Arguments<'_, '_>) -> Result<f64, SqlError> {
    let radians = match (arguments.value(0), arguments.value(1)) {
        (Datum::Point(a), Datum::Point(b)) => between_points(a, b),
        (Datum::Bytes(_), Datum::Point(point)) => {
            polygon(arguments, 0)?.distance(point.to_vector())
        }
        (Datum::Point(point), Datum::Bytes(_)) => {
            polygon(arguments, 1)?.distance(point.to_vector())
        }
        _ => return Err(arguments.mistyped(1, SqlType::GeographyPoint)),
    };
    Ok(radians * EARTH_RADIUS_M)
}

/// By the haversine formula, which is exact for points that lie close together.
fn between_points(a: Point, b: Point) -> f64 {
    let radians = |point: Point| {
        let [x, y, z] = point.to_vector();
        (z.atan2((x * x + y * y).sqrt()), y.atan2(x))
    };
    let ((latitude_a, longitude_a), (latitude_b, longitude_b)) = (radians(a), radians(b));
    let north = (0.5 * (latitude_b - latitude_a)).sin();
    let east = (0.5 * (longitude_b - longitude_a)).sin();
    let x = north * north + east * east * latitude_a.cos() * latitude_b.cos();
    2.0 * x.sqrt().atan2((1.0 - x).max(0.0).sqrt())
}

fn within<'a>(arguments: &Arguments<'a, '_>) -> Computed<'a> {
    let Datum::Float(limit_m) = arguments.value(2) else {
        return Err(arguments.mistyped(2, SqlType::Float));
    };
    if limit_m < 0.0 {
        return Err(SqlError::argument(
            "Invalid input to DWITHIN function: 'Value of DISTANCE argument must be non-negative'.",
        ));
    }
    Ok(Datum::Bool(distance_m(arguments)? <= limit_m))
}
