//! Polygons: a shell and its holes.

use super::ring::{Budget, Ring, Spent};
use super::vector::{Vector, add, angle, scale};
use super::{corner, sweep};
use lockstep_base::bytes::ByteWriter;
use lockstep_types::geography::{COMPLETE, Point, read_polygon};

/// Comparisons of edges in pairs in a search for crossings; a polygon that needs more is swept.
const EDGE_PAIRS: usize = 1 << 20;
/// Pairs of a ring and a vertex for depths; a polygon that has more is swept.
const DEPTH_PAIRS: usize = 1 << 18;

/// A polygon of any validity.
#[derive(Debug, Clone)]
pub(crate) struct Polygon {
    rings: Vec<(Ring, i32)>,
}

impl Polygon {
    /// From rings in the order of their text, of which the first is the shell. With `repair`, rings
    /// around more than half of the sphere are turned around.
    pub(crate) fn new(rings: Vec<Ring>, repair: bool) -> Polygon {
        let turn = |ring: Ring| match repair && !ring.is_normalized() {
            true => ring.inverted(),
            false => ring,
        };
        let rings: Vec<Ring> = rings.into_iter().map(turn).collect();
        let depths = depths(&rings);
        Polygon { rings: rings.into_iter().zip(depths).collect() }
    }

    /// From the byte form.
    ///
    /// # Errors
    /// The message of [`read_polygon`].
    pub(crate) fn from_bytes(bytes: &[u8]) -> Result<Polygon, String> {
        let (complete, loops) = read_polygon(bytes)?;
        if !complete {
            return Polygon::from_vertices(bytes);
        }
        let ring = |bytes: &lockstep_types::geography::LoopBytes<'_>| {
            (Ring::with_origin(bytes.vertices().collect(), bytes.origin_inside), bytes.depth)
        };
        Ok(Polygon { rings: loops.iter().map(ring).collect() })
    }

    /// From the vertices of the byte form; what else is in it is worked out.
    ///
    /// # Errors
    /// The message of [`read_polygon`].
    pub(crate) fn from_vertices(bytes: &[u8]) -> Result<Polygon, String> {
        let (_, loops) = read_polygon(bytes)?;
        let rings = loops.iter().map(|ring| Ring::new(ring.vertices().collect()));
        Ok(Polygon::new(rings.collect(), false))
    }

    /// The same rings, turned around where that makes them smaller.
    pub(crate) fn repaired(self) -> Polygon {
        Polygon::new(self.rings.into_iter().map(|(ring, _)| ring).collect(), true)
    }

    /// The complete byte form.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let holes = self.rings.iter().any(|(_, depth)| depth % 2 == 1);
        out.put_i8(COMPLETE);
        out.put_i8(1);
        out.put_i8(i8::from(holes));
        out.put_i32(self.rings.len() as i32);
        for (ring, depth) in &self.rings {
            out.put_i8(COMPLETE);
            out.put_i32(ring.vertices().len() as i32);
            ring.vertices().iter().flatten().for_each(|part| out.put_f64(*part));
            out.put_i8(i8::from(ring.origin_inside()));
            out.put_i32(*depth);
            put_bound(&mut out, ring.bound().corners());
        }
        let bounds = self.rings.iter().map(|(ring, _)| *ring.bound());
        let all = bounds.reduce(|all, bound| all.union(bound)).expect("a polygon has a ring");
        put_bound(&mut out, all.corners());
        out
    }

    /// Number of holes.
    pub(crate) fn interior_rings(&self) -> usize {
        self.rings.len() - 1
    }

    /// Number of vertices, closing ones included.
    pub(crate) fn points(&self) -> usize {
        self.rings.iter().map(|(ring, _)| ring.vertices().len() + 1).sum()
    }

    pub(crate) fn contains(&self, point: Vector) -> bool {
        self.rings.iter().filter(|(ring, _)| ring.contains(point)).count() % 2 == 1
    }

    /// In steradians.
    pub(crate) fn area(&self) -> f64 {
        self.rings.iter().map(|(ring, depth)| sign(*depth) * ring.area()).sum()
    }

    /// The direction of its centroid; `None` when it has none.
    pub(crate) fn centroid(&self) -> Option<Point> {
        let weighted = self.rings.iter().fold([0.0; 3], |sum, (ring, depth)| {
            add(sum, scale(sign(*depth), ring.weighted_centroid()))
        });
        weighted.iter().all(|part| part.is_finite()).then(|| Point::from_vector(weighted))
    }

    /// Radians from the point to the nearest point of the polygon.
    pub(crate) fn distance(&self, point: Vector) -> f64 {
        if self.contains(point) {
            return 0.0;
        }
        let nearest = self.rings.iter().map(|(ring, _)| ring.nearest(point));
        let nearest = nearest.min_by(|a, b| a.1.total_cmp(&b.1)).expect("a polygon has a ring");
        angle(nearest.0, point)
    }

    /// Why it is not valid; `None` when it is.
    pub(crate) fn fault(&self) -> Option<String> {
        let mut budget = Budget::new(EDGE_PAIRS);
        if let Some(fault) = self.rings.iter().find_map(|(ring, _)| ring.fault(&mut budget)) {
            return Some(fault);
        }
        let crossing = match self.first_crossing(&mut budget) {
            Ok(crossing) => crossing,
            Err(Spent) => self.swept_crossing(),
        };
        if let Some((first, second)) = crossing {
            return Some(format!("Ring {first} crosses ring {second}"));
        }
        for (index, (ring, depth)) in self.rings.iter().enumerate() {
            if *depth > 1 {
                return Some("Polygons can only be shells or holes".into());
            }
            if !ring.is_normalized() {
                return Some(format!("Ring {index} encloses more than half the sphere"));
            }
        }
        let shells = self.rings.iter().filter(|(_, depth)| *depth == 0).count();
        (shells != 1).then(|| format!("Polygons can have only one shell, not {shells}"))
    }

    /// The first ring that crosses a later one, and the first such.
    fn first_crossing(&self, budget: &mut Budget) -> Result<Option<(usize, usize)>, Spent> {
        for (index, (ring, _)) in self.rings.iter().enumerate() {
            for (later, (other, _)) in self.rings.iter().enumerate().skip(index + 1) {
                if ring.crosses(other, budget)? {
                    return Ok(Some((index, later)));
                }
            }
        }
        Ok(None)
    }

    /// Two rings that cross.
    fn swept_crossing(&self) -> Option<(usize, usize)> {
        let rings: Vec<&Ring> = self.rings.iter().map(|(ring, _)| ring).collect();
        let edges = sweep::crossing(&rings).map(|(a, b)| (a.ring, b.ring));
        edges.or_else(|| corner::crossing(&rings))
    }
}

/// How many other rings each ring lies in.
fn depths(rings: &[Ring]) -> Vec<i32> {
    let vertices: usize = rings.iter().map(|ring| ring.vertices().len()).sum();
    if rings.len().saturating_mul(vertices) > DEPTH_PAIRS {
        return sweep::depths(rings);
    }
    let depth = |ring: &Ring| {
        let around =
            rings.iter().filter(|other| !std::ptr::eq(*other, ring) && other.contains_ring(ring));
        around.count() as i32
    };
    rings.iter().map(depth).collect()
}

/// Holes count against their shell.
fn sign(depth: i32) -> f64 {
    if depth % 2 == 1 { -1.0 } else { 1.0 }
}

fn put_bound(out: &mut Vec<u8>, corners: [f64; 4]) {
    out.put_i8(COMPLETE);
    corners.iter().for_each(|corner| out.put_f64(*corner));
}
