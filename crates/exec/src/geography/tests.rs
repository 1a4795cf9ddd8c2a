//! Predicates, areas, distances, validity and the byte form of polygons.

use super::*;
use lockstep_types::geography::{Point, polygon_text};

fn polygon(text: &str) -> Polygon {
    Polygon::from_text(text, false).expect(text)
}

fn vector(longitude: f64, latitude: f64) -> vector::Vector {
    Point::new(longitude, latitude).expect("within range").to_vector()
}

const SQUARE: &str = "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0))";
const HOLED: &str = "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0), (2 2, 2 4, 4 4, 4 2, 2 2))";
const CLOCKWISE: &str = "POLYGON((0 0, 0 10, 10 10, 10 0, 0 0))";

#[test]
fn polygons_contain_what_lies_left_of_their_edges() {
    for (text, longitude, latitude, inside) in [
        (SQUARE, 5.0, 5.0, true),
        (SQUARE, 5.0, -0.001, false),
        (SQUARE, -175.0, -5.0, false),
        (HOLED, 3.0, 3.0, false),
        (HOLED, 5.0, 5.0, true),
        (CLOCKWISE, 5.0, 5.0, false),
        (CLOCKWISE, 120.0, -80.0, true),
        ("POLYGON((170 -10, -170 -10, -170 10, 170 10, 170 -10))", 180.0, 0.0, true),
        ("POLYGON((170 -10, -170 -10, -170 10, 170 10, 170 -10))", 160.0, 0.0, false),
        ("POLYGON((0 80, 120 80, -120 80, 0 80))", 45.0, 90.0, true),
        // The edge bulges to the north of the straight line.
        ("POLYGON((0 0, 1 0, 0 1, 0 0))", 0.5, 0.5, true),
    ] {
        assert_eq!(polygon(text).contains(vector(longitude, latitude)), inside, "{text}");
    }
}

#[test]
fn neighbours_share_no_point_and_leave_none_out() {
    // Four squares around one vertex, points on all edges and vertices included.
    let corners = [(0, 0), (-10, 0), (-10, -10), (0, -10)];
    let squares: Vec<Polygon> = corners
        .iter()
        .map(|(x, y)| {
            let (right, top) = (x + 10, y + 10);
            polygon(&format!("POLYGON(({x} {y}, {right} {y}, {right} {top}, {x} {top}, {x} {y}))"))
        })
        .collect();
    for longitude in -9..=9 {
        for latitude in -9..=9 {
            let point = vector(longitude.into(), latitude.into());
            let count = squares.iter().filter(|square| square.contains(point)).count();
            assert_eq!(count, 1, "{longitude} {latitude}");
        }
    }
}

#[test]
fn areas_and_centroids_are_those_of_the_sphere() {
    let square_m = EARTH_RADIUS_M * EARTH_RADIUS_M;
    let sphere = 4.0 * std::f64::consts::PI;
    let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
    assert!(close(polygon(SQUARE).area() * square_m, 1_233_204_238_969.294_4));
    assert!(close(polygon(HOLED).area() * square_m, 1_183_812_169_968.691_2));
    assert!(close(polygon(CLOCKWISE).area(), sphere - polygon(SQUARE).area()));
    // An octant of the sphere.
    let octant = polygon("POLYGON((0 0, 90 0, 0 90, 0 0))");
    assert!(close(octant.area(), sphere / 8.0));
    let centroid = octant.centroid().expect("there is one");
    assert!(close(centroid.longitude(), 45.0) && close(centroid.latitude(), 35.264389682754654));
}

#[test]
fn distances_are_to_the_nearest_point() {
    let close = |a: f64, b: f64| (a * EARTH_RADIUS_M - b).abs() <= 1e-3;
    let square = polygon(SQUARE);
    assert_eq!(square.distance(vector(3.0, 3.0)), 0.0);
    // One degree south of an edge on the equator, and off a corner.
    assert!(close(square.distance(vector(5.0, -1.0)), 111_195.080));
    assert!(close(square.distance(vector(0.0, -1.0)), 111_195.080));
    assert!(close(polygon(CLOCKWISE).distance(vector(0.5, 0.5)), 55_595.423));
    // The middle of the hole, to the meridians beside it.
    assert!(close(polygon(HOLED).distance(vector(3.0, 3.0)), 111_042.676));
}

#[test]
fn what_is_wrong_with_a_polygon_is_named() {
    let fault = |text: &str| polygon(text).fault().unwrap_or_default();
    assert_eq!(fault(SQUARE), "");
    assert_eq!(fault(HOLED), "");
    assert_eq!(fault(CLOCKWISE), "Ring 0 encloses more than half the sphere");
    assert_eq!(fault("POLYGON((0 0, 10 10, 10 0, 0 10, 0 0))"), "Edges 0 and 2 cross");
    assert_eq!(fault("POLYGON((0 0, 0 0, 1 0, 1 1, 0 0))"), "Duplicate vertices: 0 and 1");
    let shells = "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (5 5, 5 6, 6 6, 6 5, 5 5))";
    assert_eq!(fault(shells), "Polygons can have only one shell, not 2");
    // Rings that touch at a vertex do not cross; those that share one and overlap do.
    let touching = "POLYGON((0 0, 1 0, 1 1, 0 1, 0 0), (0 0, 0 -1, -1 -1, -1 0, 0 0))";
    assert_eq!(fault(touching), "Polygons can have only one shell, not 2");
    let crossing = "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 1 10, 10 10, 10 1, 1 1))";
    assert_eq!(fault(crossing), "Ring 0 crosses ring 1");
    let vertex = "POLYGON((0 0, 9 0, 9 9, 0 9, 0 0), (1 1, 1 5, 3 5, 3 1, 1 1), \
                  (3 1, 2 5, 4 5, 4 1, 3 1))";
    assert_eq!(fault(vertex), "Ring 1 crosses ring 2");
    let island = "POLYGON((0 0, 10 0, 10 10, 0 10, 0 0), (1 1, 1 9, 9 9, 9 1, 1 1), \
                  (2 2, 2 8, 8 8, 8 2, 2 2))";
    assert_eq!(fault(island), "Polygons can only be shells or holes");
    let turned = "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))";
    assert_eq!(fault(turned), "Ring 1 encloses more than half the sphere");
}

#[test]
fn repairs_turn_rings_around() {
    let repaired = |text: &str| {
        let polygon = Polygon::from_text(text, true)?;
        Ok::<_, String>(polygon_text(&polygon.to_bytes()).expect("a polygon"))
    };
    assert_eq!(
        repaired(CLOCKWISE),
        Ok("POLYGON ((0.0 0.0, 10.0 0.0, 10.0 10.0, 0.0 10.0, 0.0 0.0))".into())
    );
    let turned = "POLYGON((0 0, 4 0, 4 4, 0 4, 0 0), (1 1, 2 1, 2 2, 1 2, 1 1))";
    let text = "POLYGON ((0.0 0.0, 4.0 0.0, 4.0 4.0, 0.0 4.0, 0.0 0.0), \
                (1.0 1.0, 1.0 2.0, 2.0 2.0, 2.0 1.0, 1.0 1.0))";
    assert_eq!(repaired(turned), Ok(text.into()));
    assert!(repaired("POLYGON((0 0, 10 10, 10 0, 0 10, 0 0))").is_err());
}

#[test]
fn the_byte_form_is_read_back() {
    for text in [SQUARE, HOLED, CLOCKWISE] {
        let bytes = polygon(text).to_bytes();
        let again = Polygon::from_bytes(&bytes).expect("its own form");
        assert_eq!(again.to_bytes(), bytes);
        // A client leaves out all but the vertices.
        let mut sent = bytes.clone();
        sent[0] = 0;
        assert_eq!(Polygon::from_bytes(&sent).expect("complete").to_bytes(), bytes);
    }
}

#[test]
fn points_on_an_edge_are_on_one_side_of_it() {
    // All on the equator: no rounding, no side without perturbation.
    let points: Vec<vector::Vector> =
        [-30.0, 0.0, 17.5, 60.0].iter().map(|longitude| vector(*longitude, 0.0)).collect();
    for (i, a) in points.iter().enumerate() {
        for (j, b) in points.iter().enumerate() {
            for (k, c) in points.iter().enumerate() {
                let side = predicate::orientation(*a, *b, *c);
                assert_eq!(side == 0, i == j || j == k || k == i);
                assert_eq!(side, -predicate::orientation(*b, *a, *c));
                assert_eq!(side, predicate::orientation(*b, *c, *a));
            }
        }
    }
}
