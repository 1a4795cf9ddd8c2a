//! Integrals over the inside of a ring: area and centroid.

use super::predicate::orientation;
use super::vector::{Vector, add, angle, cross, dot, norm, normalize, robust_cross, scale};
use std::f64::consts::PI;
use std::ops::AddAssign;

/// Edges longer than this are unstable.
const MAX_EDGE: f64 = PI - 1e-5;

/// A sum of vectors.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Sum(pub(super) Vector);

impl AddAssign for Sum {
    fn add_assign(&mut self, other: Sum) {
        self.0 = add(self.0, other.0);
    }
}

/// The sum of a function of triangles over a ring, cut into triangles that share an origin.
pub(super) fn integral<T: AddAssign + Default>(
    vertices: &[Vector],
    of: impl Fn(Vector, Vector, Vector) -> T,
) -> T {
    let first = vertices[0];
    let mut sum = T::default();
    let mut origin = first;
    for pair in vertices[1..].windows(2) {
        let (vertex, next) = (pair[0], pair[1]);
        if angle(next, origin) > MAX_EDGE {
            // The origin moves, so that no edge from it is nearly half a great circle.
            let old = origin;
            if origin == first {
                origin = normalize(robust_cross(first, vertex));
            } else if angle(vertex, first) < MAX_EDGE {
                origin = first;
            } else {
                origin = cross(first, old);
                sum += of(first, old, origin);
            }
            sum += of(old, vertex, origin);
        }
        sum += of(origin, vertex, next);
    }
    if origin != first {
        sum += of(origin, vertices[vertices.len() - 1], first);
    }
    sum
}

/// The area of a triangle, negative when its points run clockwise.
pub(super) fn signed_area(a: Vector, b: Vector, c: Vector) -> f64 {
    area(a, b, c) * f64::from(orientation(a, b, c))
}

/// By l'Huilier's formula, or by the angles where that is more exact (long and narrow triangles).
fn area(a: Vector, b: Vector, c: Vector) -> f64 {
    let (sa, sb, sc) = (angle(b, c), angle(c, a), angle(a, b));
    let s = 0.5 * (sa + sb + sc);
    if s >= 3e-4 {
        let s2 = s * s;
        let least = s - sa.max(sb.max(sc));
        if least < 1e-2 * s * s2 * s2 {
            let by_angles = area_by_angles(a, b, c);
            if least < s * (0.1 * by_angles) {
                return by_angles;
            }
        }
    }
    let product =
        (0.5 * s).tan() * (0.5 * (s - sa)).tan() * (0.5 * (s - sb)).tan() * (0.5 * (s - sc)).tan();
    4.0 * product.max(0.0).sqrt().atan()
}

fn area_by_angles(a: Vector, b: Vector, c: Vector) -> f64 {
    let (ab, bc, ac) = (robust_cross(a, b), robust_cross(b, c), robust_cross(a, c));
    (angle(ab, ac) - angle(ab, bc) + angle(bc, ac)).max(0.0)
}

/// The centroid of a triangle times its area; its sign is that of the triangle.
pub(super) fn weighted_centroid(a: Vector, b: Vector, c: Vector) -> Sum {
    let ratio = |p: Vector, q: Vector| {
        let sine = norm(cross(p, q));
        if sine == 0.0 { 1.0 } else { sine.asin() / sine }
    };
    let ratios = [ratio(b, c), ratio(c, a), ratio(a, b)];
    let row = |i: usize| [a[i], b[i], c[i]];
    let (x, y, z) = (row(0), row(1), row(2));
    let parts = [cross(y, z), cross(z, x), cross(x, y)].map(|normal| dot(normal, ratios));
    Sum(scale(0.5, parts))
}
