//! Polygons on the sphere: containment, area, centroid, distance and validity.
//!
//! The predicates follow Google's S2 geometry library (Apache-2.0), which VoltDB uses: points are
//! unit vectors, edges are arcs of great circles, every point lies on one side of every edge, and
//! containment counts crossings from a fixed origin. Lengths are radians and areas steradians; the
//! functions of SQL multiply by the earth's mean radius.

mod bound;
mod corner;
mod order;
mod predicate;
mod ring;
mod surface;
mod sweep;
mod text;
mod vector;

pub(crate) mod polygon;

pub(crate) use polygon::Polygon;

/// The earth's mean radius in metres.
pub(crate) const EARTH_RADIUS_M: f64 = 6_371_008.8;

#[cfg(test)]
mod tests;
