//! One ring of a polygon: vertices without the closing one, the inside on the left.

use super::bound::Bound;
use super::predicate::{Meeting, counts_as_crossing, meeting, ordered};
use super::predicate::{wedge_contains, wedges_cross};
use super::surface::{integral, signed_area, weighted_centroid};
use super::sweep;
use super::vector::{Vector, add, angle, cross, dot, norm, normalize, reference, robust_cross};
use super::vector::{scale, subtract};
use std::collections::BTreeMap;
use std::f64::consts::PI;

/// The point from which containment tests start: near no edge that people draw.
const ORIGIN: Vector = [0.004_567_521_103_447_9, 0.999_474_563_125_355_4, 0.032_082_588_054_459_4];
/// Areas this much above half the sphere still count as half.
const AREA_TOLERANCE: f64 = 1e-14;

/// What a test of two edges costs of a budget; a look at their heights costs 1.
const MEETING_COST: usize = 16;

/// How many comparisons in pairs a polygon may still take. Small polygons need no more; beyond it a
/// sweep answers, which takes fewer but meets crossings in an order of its own.
#[derive(Debug)]
pub(crate) struct Budget {
    left: usize,
}

/// The budget is spent.
#[derive(Debug)]
pub(crate) struct Spent;

impl Budget {
    /// A budget of this many comparisons.
    pub(crate) fn new(comparisons: usize) -> Budget {
        Budget { left: comparisons }
    }

    /// # Errors
    /// Fewer are left.
    pub(crate) fn spend(&mut self, comparisons: usize) -> Result<(), Spent> {
        self.left = self.left.checked_sub(comparisons).ok_or(Spent)?;
        Ok(())
    }
}

/// A ring.
#[derive(Debug, Clone)]
pub(crate) struct Ring {
    vertices: Vec<Vector>,
    origin_inside: bool,
    bound: Bound,
}

impl Ring {
    /// A ring of at least three vertices.
    pub(crate) fn new(vertices: Vec<Vector>) -> Ring {
        assert!(vertices.len() >= 3, "a ring has three vertices");
        let (before, at, after) = (vertices[0], vertices[1], vertices[2]);
        // A vertex is inside when the fixed direction at it lies left of the wedge.
        let vertex_inside = ordered(reference(at), before, after, at);
        let origin_inside = vertex_inside != contains(&vertices, false, at);
        Ring::with_origin(vertices, origin_inside)
    }

    /// A ring of which is known whether it contains the origin.
    pub(crate) fn with_origin(vertices: Vec<Vector>, origin_inside: bool) -> Ring {
        let inside = |point| contains(&vertices, origin_inside, point);
        let bound = Bound::of_ring(&vertices, inside);
        Ring { vertices, origin_inside, bound }
    }

    pub(crate) fn vertices(&self) -> &[Vector] {
        &self.vertices
    }

    pub(crate) fn origin_inside(&self) -> bool {
        self.origin_inside
    }

    pub(crate) fn bound(&self) -> &Bound {
        &self.bound
    }

    /// The same boundary around the rest of the sphere; the first vertex stays first.
    pub(crate) fn inverted(mut self) -> Ring {
        self.vertices[1..].reverse();
        Ring::with_origin(self.vertices, !self.origin_inside)
    }

    pub(crate) fn contains(&self, point: Vector) -> bool {
        contains(&self.vertices, self.origin_inside, point)
    }

    /// Whether it contains another ring; their boundaries do not cross.
    pub(crate) fn contains_ring(&self, other: &Ring) -> bool {
        self.bound.contains(&other.bound) && self.surrounds(other)
    }

    /// Whether the boundary of another ring lies in it; their boundaries do not cross.
    pub(super) fn surrounds(&self, other: &Ring) -> bool {
        let vertex = other.vertices[1];
        let Some(at) = self.vertices.iter().position(|own| *own == vertex) else {
            return self.contains(vertex);
        };
        let (a0, a2) = self.neighbours(at);
        let (b0, b2) = other.neighbours(1);
        wedge_contains(a0, vertex, a2, b0, b2)
    }

    /// The vertices before and after one.
    pub(super) fn neighbours(&self, at: usize) -> (Vector, Vector) {
        let count = self.vertices.len();
        (self.vertices[(at + count - 1) % count], self.vertices[(at + 1) % count])
    }

    /// In steradians.
    pub(crate) fn area(&self) -> f64 {
        let area = integral(&self.vertices, signed_area);
        let area = if area < 0.0 { area + 4.0 * PI } else { area };
        area.clamp(0.0, 4.0 * PI)
    }

    /// Its centroid times its area.
    pub(crate) fn weighted_centroid(&self) -> Vector {
        integral(&self.vertices, weighted_centroid).0
    }

    /// Whether it encloses at most half of the sphere.
    pub(crate) fn is_normalized(&self) -> bool {
        self.bound.is_narrow() || self.area() <= 2.0 * PI + AREA_TOLERANCE
    }

    /// Each edge's ends.
    pub(crate) fn edges(&self) -> impl Iterator<Item = (Vector, Vector)> + '_ {
        let ends = self.vertices[1..].iter().chain(self.vertices.first());
        self.vertices.iter().copied().zip(ends.copied())
    }

    /// Equal for equal vertices: zeros of both signs are one coordinate.
    pub(super) fn key(vertex: &Vector) -> [u64; 3] {
        vertex.map(|part| (part + 0.0).to_bits())
    }

    /// Why it is not a ring: vertices that occur twice, edges that cross. Of several crossings it
    /// names the first, unless the budget is spent before.
    pub(crate) fn fault(&self, budget: &mut Budget) -> Option<String> {
        let mut seen = BTreeMap::new();
        for (index, vertex) in self.vertices.iter().enumerate() {
            if let Some(earlier) = seen.insert(Ring::key(vertex), index) {
                return Some(format!("Duplicate vertices: {earlier} and {index}"));
            }
        }
        let edges: Vec<_> = self.edges().collect();
        let swept = |_| sweep::crossing(&[self]).map(|(a, b)| (a.edge, b.edge));
        let (first, second) = first_crossing(&edges, budget).unwrap_or_else(swept)?;
        Some(format!("Edges {first} and {second} cross"))
    }

    /// Whether the boundaries of two rings cross.
    ///
    /// # Errors
    /// The budget is spent.
    pub(crate) fn crosses(&self, other: &Ring, budget: &mut Budget) -> Result<bool, Spent> {
        let own: Vec<_> = self.edges().map(Span::of).collect();
        let others: Vec<_> = other.edges().map(Span::of).collect();
        for a in &own {
            budget.spend(others.len())?;
            for b in &others {
                if a.overlaps(b) && a.crosses(b, budget)? {
                    return Ok(true);
                }
            }
        }
        Ok(self.crosses_at_vertex(other))
    }

    fn crosses_at_vertex(&self, other: &Ring) -> bool {
        let own: BTreeMap<_, usize> =
            self.vertices.iter().enumerate().map(|(at, vertex)| (Ring::key(vertex), at)).collect();
        other.vertices.iter().enumerate().any(|(at, vertex)| {
            let Some(own_at) = own.get(&Ring::key(vertex)) else { return false };
            let (a0, a2) = self.neighbours(*own_at);
            let (b0, b2) = other.neighbours(at);
            wedges_cross(a0, *vertex, a2, b0, b2)
        })
    }

    /// The nearest point of its boundary to `point`, and the distance in radians.
    pub(crate) fn nearest(&self, point: Vector) -> (Vector, f64) {
        let mut best = (self.vertices[0], f64::INFINITY);
        for (from, to) in self.edges() {
            let distance = edge_distance(point, from, to);
            if distance < best.1 {
                best = (nearest_of_edge(point, from, to), distance);
            }
        }
        best
    }
}

fn contains(vertices: &[Vector], origin_inside: bool, point: Vector) -> bool {
    let ends = vertices[1..].iter().chain(vertices.first());
    let crossings = vertices
        .iter()
        .zip(ends)
        .filter(|(from, to)| counts_as_crossing(ORIGIN, point, **from, **to))
        .count();
    origin_inside != (crossings % 2 == 1)
}

/// An edge with the range of its height above the equator's plane, by which edges far apart are
/// distinguished quickly.
struct Span {
    from: Vector,
    to: Vector,
    low: f64,
    high: f64,
}

impl Span {
    fn of((from, to): (Vector, Vector)) -> Span {
        // An arc may bulge beyond its ends by no more than its length allows.
        let length = norm(subtract(to, from));
        let slack = length * length;
        Span { from, to, low: from[2].min(to[2]) - slack, high: from[2].max(to[2]) + slack }
    }

    fn overlaps(&self, other: &Span) -> bool {
        self.low <= other.high && other.low <= self.high
    }

    fn crosses(&self, other: &Span, budget: &mut Budget) -> Result<bool, Spent> {
        budget.spend(MEETING_COST)?;
        Ok(meeting(self.from, self.to, other.from, other.to) == Meeting::Crossing)
    }
}

/// The first edge that crosses a later one that is not its neighbour, and the first such.
///
/// # Errors
/// The budget is spent.
fn first_crossing(
    edges: &[(Vector, Vector)],
    budget: &mut Budget,
) -> Result<Option<(usize, usize)>, Spent> {
    let spans: Vec<Span> = edges.iter().map(|edge| Span::of(*edge)).collect();
    for (index, a) in spans.iter().enumerate() {
        budget.spend(spans.len() - index)?;
        for (later, b) in spans.iter().enumerate().skip(index + 2) {
            if a.overlaps(b) && a.crosses(b, budget)? {
                return Ok(Some((index, later)));
            }
        }
    }
    Ok(None)
}

/// Whether the nearest point of the great circle through an edge lies on the edge.
fn is_beside(point: Vector, from: Vector, to: Vector, normal: Vector) -> bool {
    let left = |a: Vector, b: Vector, c: Vector| dot(cross(c, a), b) > 0.0;
    left(normal, from, point) && left(point, to, normal)
}

fn edge_distance(point: Vector, from: Vector, to: Vector) -> f64 {
    let normal = robust_cross(from, to);
    if is_beside(point, from, to, normal) {
        let sine = dot(point, normal).abs() / norm(normal);
        return sine.min(1.0).asin();
    }
    let chord = norm(subtract(point, from)).min(norm(subtract(point, to)));
    2.0 * (0.5 * chord).min(1.0).asin()
}

fn nearest_of_edge(point: Vector, from: Vector, to: Vector) -> Vector {
    let normal = robust_cross(from, to);
    if is_beside(point, from, to, normal) {
        let beside = scale(-dot(point, normal) / dot(normal, normal), normal);
        return normalize(add(point, beside));
    }
    if angle(point, from) <= angle(point, to) { from } else { to }
}
