//! Sweeps against comparisons in pairs, and the comparisons that large polygons take.

use super::super::corner::{Corner, crossing_at};
use super::super::polygon::Polygon;
use super::super::predicate::ORIENTATIONS;
use super::super::ring::Budget;
use super::super::vector::{add, cross, normalize, reference, scale};
use super::*;
use lockstep_base::random::SeededRandom;
use lockstep_types::geography::text::incomplete_polygon;

/// A plane that touches the sphere: its lines are great circles.
struct Plane {
    centre: Vector,
    east: Vector,
    north: Vector,
    scale: f64,
}

impl Plane {
    fn new(centre: Vector, scale: f64) -> Plane {
        let centre = normalize(centre);
        let east = reference(centre);
        Plane { centre, east, north: cross(centre, east), scale }
    }

    fn random(random: &mut SeededRandom) -> Plane {
        let scale = [1e-6, 0.01, 0.3, 4.0][random.below(4) as usize];
        let any = std::array::from_fn(|_| random.fraction() - 0.5);
        Plane::new(if random.chance(1, 3) { AXIS } else { any }, scale)
    }

    fn vector(&self, [x, y]: [f64; 2]) -> Vector {
        let east = scale(self.scale * x, self.east);
        let north = scale(self.scale * y, self.north);
        normalize(add(self.centre, add(east, north)))
    }

    fn ring(&self, points: &[[f64; 2]]) -> Vec<Vector> {
        points.iter().map(|point| self.vector(*point)).collect()
    }
}

/// The corners of a cell of a plane, counter-clockwise.
fn corners([west, south, east, north]: [f64; 4]) -> [[f64; 2]; 4] {
    [[west, south], [east, south], [east, north], [west, north]]
}

/// Rings in a cell that do not cross: squares in squares. If they touch, some share vertices or
/// edges.
fn nested(
    random: &mut SeededRandom,
    touch: bool,
    cell: [f64; 4],
    depth: u32,
    rings: &mut Vec<Vec<[f64; 2]>>,
) {
    let [west, south, east, north] = cell;
    let at = |x: f64, y: f64| [west + x * (east - west), south + y * (north - south)];
    let middle = at(0.5, 0.5);
    let mut ring = corners(cell).to_vec();
    ring.rotate_left(random.below(4) as usize);
    let inwards =
        |[x, y]: [f64; 2], by: [f64; 2]| [x + by[0] * (middle[0] - x), y + by[1] * (middle[1] - y)];
    match random.below(if touch { 4 } else { 1 }) {
        1 => {
            rings.push(vec![ring[0], inwards(ring[0], [0.1, 0.16]), inwards(ring[0], [0.16, 0.1])])
        }
        2 => {
            let edge = [(ring[0][0] + ring[1][0]) / 2.0, (ring[0][1] + ring[1][1]) / 2.0];
            rings.push(vec![ring[0], ring[1], inwards(edge, [0.1, 0.1])]);
        }
        _ => {}
    }
    rings.push(ring);
    for (x, y) in [(0.12, 0.12), (0.5, 0.12), (0.12, 0.5), (0.5, 0.5)] {
        if depth > 0 && random.chance(2, 3) {
            let side = if touch { 0.38 } else { 0.36 };
            let far = |from: f64| if from == 0.5 { 0.5 + side } else { 0.12 + side };
            let ([west, south], [east, north]) = (at(x, y), at(far(x), far(y)));
            nested(random, touch, [west, south, east, north], depth - 1, rings);
        }
    }
}

fn in_pairs(rings: &[Ring]) -> Vec<i32> {
    let others = |at: usize| rings.iter().enumerate().filter(move |(other, _)| *other != at);
    let around = |at: usize| others(at).filter(move |(_, other)| other.contains_ring(&rings[at]));
    (0..rings.len()).map(|at| around(at).count() as i32).collect()
}

#[test]
fn nesting_is_that_of_pairs() {
    for seed in 0..300 {
        let mut random = SeededRandom::new(seed);
        let plane = Plane::random(&mut random);
        let mut points = Vec::new();
        let touch = random.chance(1, 2);
        nested(&mut random, touch, [-1.0, -1.0, 1.0, 1.0], 3, &mut points);
        let ring = |points: &Vec<[f64; 2]>| {
            let mut vertices = plane.ring(points);
            // Rings around more than half of the sphere: only where bounds decide for pairs alike.
            if !touch && plane.scale < 1.0 && random.chance(1, 4) {
                vertices.reverse();
            }
            Ring::new(vertices)
        };
        let rings: Vec<Ring> = points.iter().map(ring).collect();
        let all: Vec<&Ring> = rings.iter().collect();
        assert_eq!(crossing(&all), None, "seed {seed}");
        assert_eq!(depths(&rings), in_pairs(&rings), "seed {seed}");
    }
}

#[test]
fn crossings_are_found_where_there_are_any() {
    let mut counts = [0, 0];
    for seed in 0..2_000 {
        let mut random = SeededRandom::new(seed);
        let plane = Plane::random(&mut random);
        let size = [0.02, 0.1, 1.0][random.below(3) as usize];
        // Few vertices on a grid: shared vertices, shared edges, edges through vertices.
        let rings = (0..2 + random.below(8)).map(|_| {
            let mut number = |size: f64| match random.chance(1, 2) {
                true => ((random.fraction() * 8.0).floor() / 4.0 - 1.0) * size,
                false => (random.fraction() * 2.0 - 1.0) * size,
            };
            let [x, y] = [number(1.0), number(1.0)];
            let points = [(); 3].map(|()| [x + number(size), y + number(size)]);
            Ring::new(plane.ring(&points))
        });
        let rings: Vec<Ring> = rings.collect();
        let edges: Vec<(Vector, Vector)> = rings.iter().flat_map(|ring| ring.edges()).collect();
        let crosses = |at: usize, (a, b): (Vector, Vector)| {
            edges[at + 1..].iter().any(|(c, d)| meeting(a, b, *c, *d) == Meeting::Crossing)
        };
        let expected = edges.iter().enumerate().any(|(at, edge)| crosses(at, *edge));
        let all: Vec<&Ring> = rings.iter().collect();
        let found = crossing(&all);
        assert_eq!(found.is_some(), expected, "seed {seed}");
        counts[usize::from(expected)] += 1;
        if let Some((a, b)) = found {
            let edge = |of: EdgeOf| rings[of.ring].edges().nth(of.edge).expect("an edge");
            let ((a, b), (c, d)) = (edge(a), edge(b));
            assert_eq!(meeting(a, b, c, d), Meeting::Crossing, "seed {seed}");
        }
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}

#[test]
fn corners_cross_where_pairs_do() {
    let mut counts = [0, 0];
    for seed in 0..4_000 {
        let mut random = SeededRandom::new(seed);
        let plane = Plane::new([0.3, -0.2, 0.7], 0.1);
        let directions = 3 + random.below(12);
        let corners: Vec<Corner> = (0..2 + random.below(4) as usize)
            .map(|ring| {
                let from = random.below(directions);
                let to = (from + 1 + random.below(directions - 1)) % directions;
                let direction = |of: u64| {
                    let angle = of as f64 / directions as f64 * std::f64::consts::TAU;
                    plane.vector([angle.cos(), angle.sin()])
                };
                let vertex = plane.vector([0.0, 0.0]);
                Corner { ring, before: direction(from), vertex, after: direction(to) }
            })
            .collect();
        let crosses = |a: usize, b: usize| a != b && corners[a].crosses(&corners[b]);
        let all = 0..corners.len();
        let expected = all.clone().any(|a| all.clone().any(|b| crosses(a, b)));
        let found = crossing_at(corners.clone());
        assert_eq!(found.is_some(), expected, "seed {seed}");
        assert!(found.is_none_or(|(a, b)| crosses(a, b)), "seed {seed}");
        counts[usize::from(expected)] += 1;
    }
    assert!(counts.iter().all(|count| *count > 200), "{counts:?}");
}

/// Squares in squares.
fn onion(plane: &Plane, count: usize) -> Vec<Vec<Vector>> {
    let size = |at: usize| 1.0 - at as f64 / count as f64;
    let square = |size: f64| corners([-size, -size, size, size]);
    (0..count).map(|at| plane.ring(&square(size(at)))).collect()
}

/// A shell of many vertices around many holes.
fn sieve(plane: &Plane, count: usize) -> Vec<Vec<Vector>> {
    let angle = |at: usize| at as f64 / count as f64 * std::f64::consts::TAU;
    let shell: Vec<_> =
        (0..count).map(|at| [2.0 * angle(at).cos(), 2.0 * angle(at).sin()]).collect();
    let side = (count as f64).sqrt().ceil() as usize;
    let hole = |at: usize| {
        let size = 1.0 / side as f64;
        let (x, y) = ((at % side) as f64 * size, (at / side) as f64 * size);
        plane.ring(&corners([x, y, x + 0.5 * size, y + 0.5 * size]))
    };
    std::iter::once(plane.ring(&shell)).chain((0..count).map(hole)).collect()
}

/// One ring of long edges beside each other, whose bounds all overlap.
fn comb(plane: &Plane, count: usize) -> Vec<Vec<Vector>> {
    let at = |index: usize| 2.0 * index as f64 / count as f64 - 1.0;
    let mut points: Vec<_> = (0..2 * count)
        .map(|index| if index % 2 == 0 { [at(index) - 1.0, -1.0] } else { [at(index) + 1.0, 1.0] })
        .collect();
    points.extend([[4.0, 1.0], [4.0, 2.0], [-4.0, 2.0], [-4.0, -1.0]]);
    vec![plane.ring(&points)]
}

/// Holes that meet at one vertex.
fn fan(plane: &Plane, count: usize) -> Vec<Vec<Vector>> {
    let angle = |at: usize| at as f64 / (2 * count) as f64 * std::f64::consts::TAU;
    let at = |at: usize| [angle(at).cos(), angle(at).sin()];
    let blade = |index: usize| plane.ring(&[[0.0, 0.0], at(2 * index), at(2 * index + 1)]);
    let shell = plane.ring(&corners([-2.0, -2.0, 2.0, 2.0]));
    std::iter::once(shell).chain((0..count).map(blade)).collect()
}

/// Triangles on one edge.
fn tents(plane: &Plane, count: usize) -> Vec<Vec<Vector>> {
    let height = |at: usize| 1.0 - at as f64 / (count + 1) as f64;
    let tent = |at: usize| plane.ring(&[[-1.0, 0.0], [1.0, 0.0], [0.0, height(at)]]);
    (0..count).map(tent).collect()
}

/// Triangles with all vertices on one great circle.
fn flat(plane: &Plane, count: usize) -> Vec<Vec<Vector>> {
    let at = |index: usize| [index as f64 / count as f64, 0.0];
    (0..count)
        .map(|index| plane.ring(&[at(3 * index), at(3 * index + 1), at(3 * index + 2)]))
        .collect()
}

/// A shape for tests: rings of a number of parts on a plane.
type Shape = fn(&Plane, usize) -> Vec<Vec<Vector>>;

/// Orientations that reading a polygon and testing it take, and what the test finds.
fn cost(plane: &Plane, shape: Shape, count: usize) -> (u64, String) {
    let bytes = incomplete_polygon(&shape(plane, count));
    assert!(bytes.len() <= 1 << 20);
    let before = ORIENTATIONS.get();
    let polygon = Polygon::from_vertices(&bytes).expect("a polygon");
    let fault = polygon.fault().unwrap_or_default();
    (ORIENTATIONS.get() - before, fault)
}

#[test]
fn twice_the_rings_take_about_twice_the_comparisons() {
    let deep = "Polygons can only be shells or holes";
    let shapes: [(Shape, &str); 6] =
        [(onion, deep), (sieve, ""), (comb, ""), (fan, ""), (tents, deep), (flat, deep)];
    for centre in [[0.5, 0.3, 0.8], AXIS] {
        let plane = Plane::new(centre, 0.2);
        for (index, (shape, expected)) in shapes.into_iter().enumerate() {
            let (fewer, _) = cost(&plane, shape, 2_000);
            let (more, fault) = cost(&plane, shape, 4_000);
            assert_eq!(fault, expected, "shape {index}");
            assert!(more * 10 < fewer * 26, "shape {index}: {fewer}, then {more}");
        }
    }
}

#[test]
fn a_late_crossing_of_many_edges_is_found() {
    let plane = Plane::new([0.5, 0.3, 0.8], 0.2);
    let mut ring = comb(&plane, 4_000).remove(0);
    ring.swap(7_000, 7_002);
    let bytes = incomplete_polygon(&[ring]);
    let before = ORIENTATIONS.get();
    let fault = Polygon::from_vertices(&bytes).expect("a polygon").fault().expect("it crosses");
    assert!(fault.starts_with("Edges ") && fault.ends_with(" cross"), "{fault}");
    assert!(ORIENTATIONS.get() - before < 3_000_000);
    // Within the budget it is the first.
    let ring = Ring::new(plane.ring(&[[0.0, 0.0], [1.0, 1.0], [1.0, 0.0], [0.0, 1.0]]));
    let named = Some("Edges 0 and 2 cross".to_string());
    assert_eq!(ring.fault(&mut Budget::new(1_000)), named);
    assert_eq!(ring.fault(&mut Budget::new(0)), named);
}
