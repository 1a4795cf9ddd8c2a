//! The side of an edge on which a point lies, and whether edges cross. Answers are consistent for
//! points that lie exactly on an edge: coordinates are perturbed symbolically, so only equal points
//! have no orientation (Edelsbrunner and Mücke, Simulation of Simplicity, 1990).

use super::vector::{Vector, cross, dot, reference};
use std::cmp::Ordering;

/// Determinants of unit vectors above this have the right sign.
const CERTAIN: f64 = 1.6e-15;

/// 1 when the points run counter-clockwise, -1 when clockwise, 0 when two of them are equal.
pub(crate) fn orientation(a: Vector, b: Vector, c: Vector) -> i32 {
    #[cfg(test)]
    ORIENTATIONS.set(ORIENTATIONS.get() + 1);
    let determinant = dot(cross(a, b), c);
    if determinant > CERTAIN {
        return 1;
    }
    if determinant < -CERTAIN {
        return -1;
    }
    uncertain_orientation(a, b, c)
}

#[cold]
fn uncertain_orientation(a: Vector, b: Vector, c: Vector) -> i32 {
    if a == b || b == c || c == a {
        return 0;
    }
    let mut points = [a, b, c];
    let mut sign = 1;
    for (left, right) in [(0, 1), (1, 2), (0, 1)] {
        if lexicographic(points[left], points[right]) == Ordering::Greater {
            points.swap(left, right);
            sign = -sign;
        }
    }
    let [a, b, c] = points;
    let exact = exact_determinant(a, b, c);
    sign * if exact != 0 { exact } else { perturbed_orientation(a, b, c) }
}

fn lexicographic(a: Vector, b: Vector) -> Ordering {
    a.partial_cmp(&b).expect("coordinates are finite")
}

/// The sign of the determinant of three points on one plane through the centre, in lexicographic
/// order, after each coordinate is moved by an infinitesimal amount of its own order.
fn perturbed_orientation(a: Vector, b: Vector, c: Vector) -> i32 {
    let minor = |p: Vector, q: Vector, i: usize, j: usize| -> i32 {
        let mut sum = Expansion::default();
        let products = exact_product(p[i], q[j]).into_iter().chain(exact_product(-p[j], q[i]));
        products.for_each(|number| sum.add(number));
        sum.sign()
    };
    let sign = |value: f64| -> i32 {
        match value.partial_cmp(&0.0) {
            Some(Ordering::Greater) => 1,
            Some(Ordering::Less) => -1,
            _ => 0,
        }
    };
    let terms: [&dyn Fn() -> i32; 12] = [
        &|| minor(b, c, 0, 1),
        &|| minor(b, c, 2, 0),
        &|| minor(b, c, 1, 2),
        &|| minor(c, a, 0, 1),
        &|| sign(c[0]),
        &|| -sign(c[1]),
        &|| minor(c, a, 2, 0),
        &|| sign(c[2]),
        &|| minor(a, b, 0, 1),
        &|| -sign(b[0]),
        &|| sign(b[1]),
        &|| sign(a[0]),
    ];
    terms.into_iter().map(|term| term()).find(|term| *term != 0).unwrap_or(1)
}

/// The sign of the determinant of three vectors, without rounding.
fn exact_determinant(a: Vector, b: Vector, c: Vector) -> i32 {
    let mut sum = Expansion::default();
    for (i, j, k) in [(0, 1, 2), (1, 2, 0), (2, 0, 1)] {
        for part in exact_product(a[i], b[j]).into_iter().chain(exact_product(-a[j], b[i])) {
            exact_product(part, c[k]).into_iter().for_each(|number| sum.add(number));
        }
    }
    sum.sign()
}

/// The product of two numbers as the sum of two, the smaller first.
fn exact_product(a: f64, b: f64) -> [f64; 2] {
    let high = a * b;
    [a.mul_add(b, -high), high]
}

/// Doubles of an exact determinant: six products of three numbers, each of up to four doubles.
const PARTS: usize = 24;

/// A number as a sum of doubles that do not overlap, smallest first (Shewchuk, Adaptive Precision
/// Floating-Point Arithmetic, 1997).
#[derive(Debug, Default)]
struct Expansion {
    parts: [f64; PARTS],
    count: usize,
}

impl Expansion {
    /// Adds a number. Of at most [`PARTS`] numbers the sum has a part each.
    fn add(&mut self, number: f64) {
        let mut carry = number;
        let mut count = 0;
        for index in 0..self.count {
            let part = self.parts[index];
            let sum = carry + part;
            let virtual_part = sum - carry;
            let error = (carry - (sum - virtual_part)) + (part - virtual_part);
            if error != 0.0 {
                self.parts[count] = error;
                count += 1;
            }
            carry = sum;
        }
        if carry != 0.0 {
            self.parts[count] = carry;
            count += 1;
        }
        self.count = count;
    }

    fn sign(&self) -> i32 {
        match self.parts[..self.count].last() {
            Some(part) if *part > 0.0 => 1,
            Some(_) => -1,
            None => 0,
        }
    }
}

/// Whether the directions from `o` to `a`, `b` and `c` come in this order, counter-clockwise. True
/// for `a` = `b` and `b` = `c`, false for `a` = `c` otherwise.
pub(crate) fn ordered(a: Vector, b: Vector, c: Vector, o: Vector) -> bool {
    let sum = i32::from(orientation(b, o, a) >= 0)
        + i32::from(orientation(c, o, b) >= 0)
        + i32::from(orientation(a, o, c) > 0);
    sum >= 2
}

/// How two edges meet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meeting {
    Crossing,
    SharedVertex,
    Apart,
}

/// How the edges `ab` and `cd` meet.
pub(crate) fn meeting(a: Vector, b: Vector, c: Vector, d: Vector) -> Meeting {
    // Edges cross when the triangles ACB, BDA, CBD and DAC turn the same way.
    let acb = orientation(a, c, b);
    let bda = orientation(b, d, a);
    if acb == -bda && bda != 0 {
        return Meeting::Apart;
    }
    if acb == 0 || bda == 0 {
        return Meeting::SharedVertex;
    }
    let cbd = orientation(c, b, d);
    if cbd == 0 {
        return Meeting::SharedVertex;
    }
    match cbd == acb && orientation(d, a, c) == acb {
        true => Meeting::Crossing,
        false => Meeting::Apart,
    }
}

/// Whether two edges count as crossing for containment, shared vertices included: of all edges that
/// meet at a vertex an even or odd number crosses as if the vertex were moved a little.
pub(crate) fn counts_as_crossing(a: Vector, b: Vector, c: Vector, d: Vector) -> bool {
    match meeting(a, b, c, d) {
        Meeting::Crossing => true,
        Meeting::Apart => false,
        Meeting::SharedVertex => {
            if a == b || c == d {
                false
            } else if a == d {
                ordered(reference(a), c, b, a)
            } else if b == c {
                ordered(reference(b), d, a, b)
            } else if a == c {
                ordered(reference(a), d, b, a)
            } else if b == d {
                ordered(reference(b), c, a, b)
            } else {
                false
            }
        }
    }
}

/// Whether the wedge `a0 v a2`, whose inside is on the left, contains the wedge `b0 v b2`.
pub(crate) fn wedge_contains(a0: Vector, v: Vector, a2: Vector, b0: Vector, b2: Vector) -> bool {
    ordered(a2, b2, b0, v) && ordered(b0, a0, a2, v)
}

/// Whether the boundaries of two rings cross at a vertex that they share: the wedges `a0 v a2` and
/// `b0 v b2`, whose insides are on the left, overlap and neither contains the other.
pub(crate) fn wedges_cross(a0: Vector, v: Vector, a2: Vector, b0: Vector, b2: Vector) -> bool {
    let apart = ordered(a0, b2, b0, v) && ordered(b0, a2, a0, v);
    !apart && !wedge_contains(a0, v, a2, b0, b2) && !wedge_contains(b0, v, b2, a0, a2)
}

#[cfg(test)]
std::thread_local! {
    /// Orientations that this thread has worked out: what the tests count.
    pub(crate) static ORIENTATIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}
