//! Rectangles of latitude and longitude around rings.

use super::vector::{Vector, cross, dot, norm, robust_cross};
use std::f64::consts::{FRAC_PI_2, PI};

/// Longitudes from `low` to `high` eastwards; `low` above `high` crosses the antimeridian.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Longitudes {
    low: f64,
    high: f64,
}

impl Longitudes {
    const FULL: Longitudes = Longitudes { low: -PI, high: PI };

    /// The shorter way between two longitudes.
    fn between(a: f64, b: f64) -> Longitudes {
        let a = if a == -PI { PI } else { a };
        let b = if b == -PI { PI } else { b };
        match eastward(a, b) <= PI {
            true => Longitudes { low: a, high: b },
            false => Longitudes { low: b, high: a },
        }
    }

    fn contains(self, at: f64) -> bool {
        let at = if at == -PI { PI } else { at };
        match self.low > self.high {
            true => at >= self.low || at <= self.high,
            false => self.low <= at && at <= self.high,
        }
    }

    fn contains_all(self, other: Longitudes) -> bool {
        if self == Longitudes::FULL {
            return true;
        }
        let inside = self.contains(other.low) && self.contains(other.high);
        inside && eastward(self.low, other.low) <= eastward(self.low, other.high)
    }

    fn union(self, other: Longitudes) -> Longitudes {
        let (low, high) = (self.contains(other.low), self.contains(other.high));
        if low && high {
            return if self.contains_all(other) { self } else { Longitudes::FULL };
        }
        if low {
            return Longitudes { low: self.low, high: other.high };
        }
        if high {
            return Longitudes { low: other.low, high: self.high };
        }
        if other.contains(self.low) {
            return other;
        }
        match eastward(other.high, self.low) < eastward(self.high, other.low) {
            true => Longitudes { low: other.low, high: self.high },
            false => Longitudes { low: self.low, high: other.high },
        }
    }
}

/// Radians from one longitude eastwards to another.
fn eastward(from: f64, to: f64) -> f64 {
    let distance = to - from;
    if distance >= 0.0 { distance } else { (to + PI) - (from - PI) }
}

/// Latitudes and longitudes that contain a ring or a polygon, in radians.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bound {
    south: f64,
    north: f64,
    longitudes: Longitudes,
}

impl Bound {
    /// Around the edges of a ring. `inside` tells whether the ring contains a point: of the poles.
    pub(crate) fn of_ring(vertices: &[Vector], inside: impl Fn(Vector) -> bool) -> Bound {
        let mut bound = Bound::of_edges(vertices);
        if inside([0.0, 0.0, 1.0]) {
            bound = Bound { north: FRAC_PI_2, longitudes: Longitudes::FULL, ..bound };
        }
        if bound.longitudes == Longitudes::FULL && inside([0.0, 0.0, -1.0]) {
            bound.south = -FRAC_PI_2;
        }
        bound
    }

    fn of_edges(vertices: &[Vector]) -> Bound {
        let latitude = |[x, y, z]: Vector| z.atan2((x * x + y * y).sqrt());
        let longitude = |[x, y, _]: Vector| y.atan2(x);
        let first = vertices[0];
        let at = longitude(first);
        let mut bound = Bound {
            south: latitude(first),
            north: latitude(first),
            longitudes: Longitudes { low: at, high: at },
        };
        let ends = vertices[1..].iter().chain(vertices.first());
        for (a, b) in vertices.iter().copied().zip(ends.copied()) {
            bound.south = bound.south.min(latitude(b));
            bound.north = bound.north.max(latitude(b));
            let edge = Longitudes::between(longitude(a), longitude(b));
            bound.longitudes = bound.longitudes.union(edge);
            // An arc may reach farther north or south than its ends.
            let normal = robust_cross(a, b);
            let east = cross(normal, [0.0, 0.0, 1.0]);
            let (begin, end) = (dot(east, a), dot(east, b));
            if begin * end < 0.0 {
                let extreme = (normal[2] / norm(normal)).abs().acos();
                if begin < 0.0 {
                    bound.north = bound.north.max(extreme);
                } else {
                    bound.south = bound.south.min(-extreme);
                }
            }
        }
        bound
    }

    /// Whether everything within `other` is within this.
    pub(crate) fn contains(&self, other: &Bound) -> bool {
        self.south <= other.south
            && other.north <= self.north
            && self.longitudes.contains_all(other.longitudes)
    }

    /// The bound of both.
    pub(crate) fn union(self, other: Bound) -> Bound {
        Bound {
            south: self.south.min(other.south),
            north: self.north.max(other.north),
            longitudes: self.longitudes.union(other.longitudes),
        }
    }

    /// Whether it spans less than half of all longitudes.
    pub(crate) fn is_narrow(&self) -> bool {
        eastward(self.longitudes.low, self.longitudes.high) < PI
    }

    /// Lowest and highest latitude, western and eastern longitude.
    pub(crate) fn corners(&self) -> [f64; 4] {
        [self.south, self.north, self.longitudes.low, self.longitudes.high]
    }
}
