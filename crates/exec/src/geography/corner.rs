//! Crossings of rings at a vertex that many of them share.

use super::order::sorted;
use super::predicate::{ordered, wedge_contains, wedges_cross};
use super::ring::Ring;
use super::vector::Vector;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Two rings that cross at a vertex that they share, in O(n log n) comparisons; `None` when none
/// do.
pub(super) fn crossing(rings: &[&Ring]) -> Option<(usize, usize)> {
    let mut corners: BTreeMap<[u64; 3], Vec<Corner>> = BTreeMap::new();
    for (index, ring) in rings.iter().enumerate() {
        for (at, vertex) in ring.vertices().iter().enumerate() {
            let (before, after) = ring.neighbours(at);
            let corner = Corner { ring: index, before, vertex: *vertex, after };
            corners.entry(Ring::key(vertex)).or_default().push(corner);
        }
    }
    corners.into_values().filter(|corners| corners.len() > 1).find_map(crossing_at)
}

/// A vertex of a ring. The inside is between the directions to the next vertex and, from there
/// counter-clockwise, to the one before.
#[derive(Debug, Clone, Copy)]
pub(super) struct Corner {
    pub(super) ring: usize,
    pub(super) before: Vector,
    pub(super) vertex: Vector,
    pub(super) after: Vector,
}

impl Corner {
    fn contains(&self, other: &Corner) -> bool {
        wedge_contains(self.before, self.vertex, self.after, other.before, other.after)
    }

    pub(super) fn crosses(&self, other: &Corner) -> bool {
        wedges_cross(self.before, self.vertex, self.after, other.before, other.after)
    }
}

/// Two corners at one vertex that cross, by their rings. Corners are sorted around the vertex from
/// one direction. Those around this direction must be nested in each other; each other one must be
/// nested in the innermost that begins before it and has not ended.
pub(super) fn crossing_at(corners: Vec<Corner>) -> Option<(usize, usize)> {
    let pair = |a: &Corner, b: &Corner| (a.ring.min(b.ring), a.ring.max(b.ring));
    let (vertex, start) = (corners[0].vertex, corners[0].after);
    let order = |a: Vector, b: Vector| match (a == b, a == start, b == start) {
        (true, ..) => Ordering::Equal,
        (_, true, _) => Ordering::Less,
        (_, _, true) => Ordering::Greater,
        _ if ordered(start, a, b, vertex) => Ordering::Less,
        _ => Ordering::Greater,
    };
    // A corner that ends at the start has gone all the way round.
    let is_around = |corner: &Corner| {
        corner.before != start && order(corner.before, corner.after) == Ordering::Less
    };
    let has_ended = |corner: &Corner, at: Vector| {
        corner.before != start && order(corner.before, at) != Ordering::Greater
    };
    let corners = sorted(corners, |a, b| {
        let longer_first = || match (a.before == start, b.before == start) {
            (false, false) => order(b.before, a.before),
            (a, b) => b.cmp(&a),
        };
        order(a.after, b.after).then_with(longer_first)
    });
    let (around, others): (Vec<Corner>, Vec<Corner>) = corners.into_iter().partition(is_around);
    let crossing = around.windows(2).find(|both| both[0].crosses(&both[1]));
    if let Some(both) = crossing {
        return Some(pair(&both[0], &both[1]));
    }
    let mut open: Vec<Corner> = Vec::new();
    for corner in others {
        let inner = around.partition_point(|outer| outer.contains(&corner));
        while open.pop_if(|last| has_ended(last, corner.after)).is_some() {}
        let crosses = |other: &&Corner| other.crosses(&corner);
        if let Some(other) = around.get(inner).into_iter().chain(open.last()).find(crosses) {
            return Some(pair(other, &corner));
        }
        open.push(corner);
    }
    None
}
