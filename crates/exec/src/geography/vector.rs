//! Vectors of three doubles.

/// A vector; points are of unit length.
pub(crate) type Vector = [f64; 3];

pub(crate) fn add(a: Vector, b: Vector) -> Vector {
    [a[0] + b[0], a[1] + b[1], a[2] + b[2]]
}

pub(crate) fn subtract(a: Vector, b: Vector) -> Vector {
    [a[0] - b[0], a[1] - b[1], a[2] - b[2]]
}

pub(crate) fn scale(factor: f64, a: Vector) -> Vector {
    [factor * a[0], factor * a[1], factor * a[2]]
}

pub(crate) fn dot(a: Vector, b: Vector) -> f64 {
    a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
}

pub(crate) fn cross(a: Vector, b: Vector) -> Vector {
    [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
}

pub(crate) fn norm(a: Vector) -> f64 {
    dot(a, a).sqrt()
}

/// The vector of unit length in the same direction; the null vector stays.
pub(crate) fn normalize(a: Vector) -> Vector {
    let length = norm(a);
    if length == 0.0 { a } else { scale(1.0 / length, a) }
}

/// The angle between two vectors in radians, exact for small ones too.
pub(crate) fn angle(a: Vector, b: Vector) -> f64 {
    norm(cross(a, b)).atan2(dot(a, b))
}

/// A unit vector at a right angle to `a`, the same for equal vectors.
pub(crate) fn reference(a: Vector) -> Vector {
    let [x, y, z] = a.map(f64::abs);
    let largest = if x > y {
        if x > z { 0 } else { 2 }
    } else if y > z {
        1
    } else {
        2
    };
    let mut other = [0.012, 0.0053, 0.00457];
    other[(largest + 2) % 3] = 1.0;
    normalize(cross(a, other))
}

/// A vector at a right angle to two unit vectors that may lie very close together.
pub(crate) fn robust_cross(a: Vector, b: Vector) -> Vector {
    let normal = cross(add(b, a), subtract(b, a));
    if normal == [0.0; 3] { reference(a) } else { normal }
}
