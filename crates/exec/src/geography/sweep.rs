//! Crossings and nesting of rings by a sweep, for polygons with too many edges to compare in pairs.
//!
//! Half a great circle turns around an axis and passes every edge twice; the edges that it meets
//! are kept in their order from one pole of the axis to the other. Edges that cross are neighbours
//! in this order before they cross (Shamos and Hoey, Geometric Intersection Problems, 1976), and
//! two neighbours of different rings tell how these are nested. A sweep of n edges takes O(n log n)
//! comparisons.

use super::order::{Order, Position, sorted};
use super::predicate::{Meeting, meeting, orientation};
use super::ring::Ring;
use super::vector::Vector;
use std::cmp::Ordering;
use std::f64::consts::PI;

/// The axis. It equals no vertex: it is longer than the vertices of a polygon may be.
const AXIS: Vector = [0.308_961_12, -0.419_337_83, 0.854_271_55];

/// An edge of a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct EdgeOf {
    pub(super) ring: usize,
    pub(super) edge: usize,
}

/// The first crossing of edges that a sweep of the rings meets; `None` when no edges cross. Edges
/// that share a vertex do not cross.
pub(super) fn crossing(rings: &[&Ring]) -> Option<(EdgeOf, EdgeOf)> {
    let (a, b) = Sweep::new(rings).run(None)?;
    Some((a.min(b), a.max(b)))
}

/// How many other rings each ring lies in. Rings that cross have no nesting: the first counts as
/// the shell and the others as its holes.
pub(super) fn depths(rings: &[Ring]) -> Vec<i32> {
    let all: Vec<&Ring> = rings.iter().collect();
    let mut nesting = Nesting::new(rings.len());
    let crossing = Sweep::new(&all).run(Some(&mut nesting));
    let around = rings[1..].iter().filter(|ring| ring.surrounds(&rings[0]));
    let first = around.fold([0, 0], |sum, ring| {
        let [all, wide] = sum;
        [all + 1, wide + i32::from(!ring.is_normalized())]
    });
    let around = if crossing.is_none() { nesting.around(first) } else { None };
    let Some(around) = around else {
        return (0..rings.len()).map(|index| i32::from(index > 0)).collect();
    };
    // More than half the sphere lies in no less than that.
    let depth =
        |(ring, [all, wide]): (&Ring, [i32; 2])| if ring.is_normalized() { all } else { wide };
    rings.iter().zip(around).map(depth).collect()
}

/// An edge as the sweep sees it.
struct Swept {
    of: EdgeOf,
    west: Vector,
    east: Vector,
    /// Whether the ring runs from west to east, with its inside towards the axis.
    is_eastward: bool,
    /// The area of the ring, which orders edges that coincide.
    area: f64,
    /// Whether the ring encloses more than half of the sphere.
    is_wide: bool,
}

impl Swept {
    /// The order of two edges that the sweep meets at one time: `Less` when this one is farther
    /// from the axis.
    fn order(&self, other: &Swept) -> Ordering {
        let side = |edge: &Swept, point: Vector| 0.cmp(&orientation(edge.west, edge.east, point));
        let order = if self.west == other.west {
            match self.east == other.east {
                true => self.order_of_equals(other),
                false => side(self, other.east),
            }
        } else if orientation(AXIS, self.west, other.west) > 0 {
            side(self, other.west)
        } else {
            side(other, self.west).reverse()
        };
        order.then_with(|| self.of.cmp(&other.of))
    }

    /// The order of edges with the same ends, as if each ring were drawn a little smaller.
    fn order_of_equals(&self, other: &Swept) -> Ordering {
        let height =
            |edge: &Swept| if edge.is_eastward { -edge.area } else { edge.area - 4.0 * PI };
        height(self).total_cmp(&height(other))
    }

    fn crosses(&self, other: &Swept) -> bool {
        meeting(self.west, self.east, other.west, other.east) == Meeting::Crossing
    }
}

/// An end of an edge. The sweep starts at one vertex.
struct Event {
    at: Vector,
    /// Whether it lies in the second half turn.
    is_late: bool,
    edge: usize,
    begins: bool,
}

struct Sweep {
    edges: Vec<Swept>,
    events: Vec<Event>,
    active: Order,
}

impl Sweep {
    fn new(rings: &[&Ring]) -> Sweep {
        let mut edges = Vec::new();
        for (ring, of) in rings.iter().enumerate() {
            let (area, is_wide) = (of.area(), !of.is_normalized());
            for (edge, (from, to)) in of.edges().enumerate() {
                let turn = orientation(AXIS, from, to);
                let (west, east) = if turn > 0 { (from, to) } else { (to, from) };
                let of = EdgeOf { ring, edge };
                if turn != 0 {
                    edges.push(Swept { of, west, east, is_eastward: turn > 0, area, is_wide });
                }
            }
        }
        let events = match edges.first() {
            Some(first) => Sweep::events(&edges, first.west),
            None => Vec::new(),
        };
        Sweep { edges, events, active: Order::default() }
    }

    fn events(edges: &[Swept], start: Vector) -> Vec<Event> {
        let event = |at, edge, begins| Event {
            at,
            is_late: orientation(AXIS, start, at) < 0,
            edge,
            begins,
        };
        let both = |(index, edge): (usize, &Swept)| {
            [event(edge.east, index, false), event(edge.west, index, true)]
        };
        let events = edges.iter().enumerate().flat_map(both).collect();
        sorted(events, |a: &Event, b: &Event| {
            let turn = || 0.cmp(&orientation(AXIS, a.at, b.at));
            a.is_late.cmp(&b.is_late).then_with(turn)
        })
    }

    /// Two turns: the edges that reach over the start are all known from the second turn on.
    fn run(mut self, mut nesting: Option<&mut Nesting>) -> Option<(EdgeOf, EdgeOf)> {
        let events = std::mem::take(&mut self.events);
        for turn in 0..2 {
            for vertex in events.chunk_by(|a, b| a.at == b.at) {
                let noted = if turn == 1 { nesting.as_deref_mut() } else { None };
                if let Some(crossing) = self.pass(vertex, noted) {
                    return Some(crossing);
                }
            }
        }
        None
    }

    /// Passes the edges that end and begin at a vertex.
    fn pass(
        &mut self,
        vertex: &[Event],
        mut nesting: Option<&mut Nesting>,
    ) -> Option<(EdgeOf, EdgeOf)> {
        let mut note = |sweep: &Sweep, begins: bool| {
            if let Some(nesting) = nesting.as_deref_mut() {
                for event in vertex.iter().filter(|event| event.begins == begins) {
                    sweep.note(event.edge, nesting);
                }
            }
        };
        note(self, false);
        for event in vertex.iter().filter(|event| !event.begins) {
            let at = self.position(event.edge);
            if self.active.at(at) == Some(event.edge) {
                self.active.remove(at);
                let found = self.crossing_of(self.active.before(at), self.active.at_or_after(at));
                if found.is_some() {
                    return found;
                }
            }
        }
        for event in vertex.iter().filter(|event| event.begins) {
            let at = self.position(event.edge);
            let (before, after) = (self.active.before(at), self.active.at_or_after(at));
            let found = self.crossing_of(before, Some(event.edge));
            let found = found.or_else(|| self.crossing_of(Some(event.edge), after));
            if found.is_some() {
                return found;
            }
            self.active.insert(at, event.edge);
        }
        note(self, true);
        None
    }

    /// Where an edge is in the order or would have to be.
    fn position(&self, edge: usize) -> Position {
        self.active.position(|other| self.edges[other].order(&self.edges[edge]))
    }

    fn crossing_of(&self, a: Option<usize>, b: Option<usize>) -> Option<(EdgeOf, EdgeOf)> {
        let (a, b) = (&self.edges[a?], &self.edges[b?]);
        a.crosses(b).then_some((a.of, b.of))
    }

    /// Notes which edge comes before an edge.
    fn note(&self, edge: usize, nesting: &mut Nesting) {
        let at = self.position(edge);
        if self.active.at(at) != Some(edge) {
            return;
        }
        let upper = &self.edges[edge];
        let lower = self.active.before(at).map(|lower| &self.edges[lower]);
        nesting.note(lower, upper);
    }
}

/// Numbers of rings around something: of all rings, and of those that enclose more than half of the
/// sphere.
type Around = [i32; 2];

/// In how many more rings the boundaries of some rings lie than those of others.
struct Nesting {
    /// For each ring the others that are known, and the difference. The last entry is for what lies
    /// beyond all edges.
    differences: Vec<Vec<(usize, Around)>>,
}

impl Nesting {
    fn new(rings: usize) -> Nesting {
        Nesting { differences: vec![Vec::new(); rings + 1] }
    }

    /// Notes that no edge lies between an edge and the one farther from the axis, if there is one:
    /// the same rings are around what lies between.
    fn note(&mut self, lower: Option<&Swept>, upper: &Swept) {
        let ring = lower.map_or(self.differences.len() - 1, |lower| lower.of.ring);
        if ring == upper.of.ring {
            return;
        }
        let counted = |edge: &Swept, is_inside: bool| {
            [i32::from(is_inside), i32::from(is_inside && edge.is_wide)]
        };
        let below = lower.map_or([0, 0], |lower| counted(lower, lower.is_eastward));
        let above = counted(upper, !upper.is_eastward);
        let difference = [below[0] - above[0], below[1] - above[1]];
        self.differences[ring].push((upper.of.ring, difference));
        self.differences[upper.of.ring].push((ring, difference.map(|count| -count)));
    }

    /// The other rings around the boundary of each from those around the first; `None` when they
    /// contradict each other.
    fn around(&self, first: Around) -> Option<Vec<Around>> {
        let mut known = vec![None; self.differences.len()];
        known[0] = Some(first);
        let mut reached = vec![0];
        while let Some(ring) = reached.pop() {
            let around: Around = known[ring]?;
            for (other, difference) in &self.differences[ring] {
                let next = [around[0] + difference[0], around[1] + difference[1]];
                match known[*other] {
                    None => {
                        known[*other] = Some(next);
                        reached.push(*other);
                    }
                    Some(earlier) if earlier != next => return None,
                    Some(_) => {}
                }
            }
        }
        known.truncate(self.differences.len() - 1);
        known.into_iter().map(|counts| counts.filter(|counts| counts[0] >= 0)).collect()
    }
}

#[cfg(test)]
mod tests;
