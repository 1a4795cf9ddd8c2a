//! Text, order and byte form of geographic values.

use super::text::{incomplete_polygon, polygon_rings};
use super::*;

fn point(longitude: f64, latitude: f64) -> Point {
    Point::new(longitude, latitude).expect("within range")
}

#[test]
fn text_of_points_has_at_most_twelve_places() {
    for (longitude, latitude, text) in [
        (1.0, 2.0, "POINT (1.0 2.0)"),
        (-71.06, 42.36, "POINT (-71.06 42.36)"),
        (1.123456789012345, -2.5, "POINT (1.123456789012 -2.5)"),
        (0.000012345, -0.0001, "POINT (1.2345e-05 -0.0001)"),
        (179.9999999999999, 0.1, "POINT (180.0 0.1)"),
    ] {
        assert_eq!(point(longitude, latitude).to_string(), text);
    }
}

#[test]
fn points_are_read_from_text() {
    let read = |text: &str| Point::parse(text).map(|point| point.to_string());
    assert_eq!(read(" Point(1   2) "), Ok("POINT (1.0 2.0)".into()));
    assert_eq!(read("point(-1.5e1 2.25)"), Ok("POINT (-15.0 2.25)".into()));
    for wrong in
        ["", "POINT", "POINT(1)", "POINT(1 2", "POINT(1 2 3)", "POINT(a 2)", "POINT(NaN 1)"]
    {
        let message = read(wrong).expect_err(wrong);
        assert!(message.contains("expected input of the form 'POINT(<lng> <lat>)'"), "{message}");
    }
    assert!(read("POINT(181 2)").expect_err("range").contains("Longitude must be"));
    assert!(read("POINT(1 -91)").expect_err("range").contains("Latitude must be"));
}

#[test]
fn order_is_that_of_places_on_the_earth() {
    assert_eq!(point(-180.0, 1.0), point(180.0, 1.0));
    assert_eq!(point(12.0, 90.0), point(-7.0, 90.0));
    assert_eq!(point(-180.0, -90.0), point(0.0, -90.0));
    assert_eq!(point(1.0, 1.0 + 2e-13), point(1.0, 1.0));
    assert!(point(1.0, 1.0) < point(1.0, 1.0 + 2e-12));
    assert!(point(1.0, 80.0) < point(2.0, -80.0));
    let there_and_back = Point::from_vector(point(-71.06, 42.36).to_vector());
    assert_eq!(there_and_back, point(-71.06, 42.36));
}

#[test]
fn polygons_are_read_from_text_and_written_again() {
    let text =
        "POLYGON ((0.0 0.0, 1.0 0.0, 0.0 1.0, 0.0 0.0), (0.1 0.1, 0.1 0.2, 0.2 0.1, 0.1 0.1))";
    let bytes = incomplete_polygon(&polygon_rings(text).expect("a polygon"));
    assert_eq!(bytes[..3], [0, 1, 1]);
    assert_eq!(bytes.len(), 40 + 2 * (43 + 3 * 24));
    assert_eq!(polygon_text(&bytes).as_deref(), Some(text));
    for (wrong, reason) in [
        ("", "does not start with POLYGON keyword"),
        ("POLYGON 1", "missing left parenthesis"),
        ("POLYGON(", "expected left parenthesis to start a ring"),
        ("POLYGON((0 0, 1 0, 0 1, 0 0)) x", "unrecognized input after WKT: 'x'"),
        ("POLYGON((0 0, 1 0, 0 0))", "at least 4 points"),
        ("POLYGON((0 0, 1 0, 0 1, 1 1))", "first vertex must be equal"),
        ("POLYGON((0 0 0, 1 0, 0 1, 0 0))", "unexpected token: '0'"),
        ("POLYGON((0 0, 1 x", "expected a number but found 'x'"),
        ("POLYGON((0 0, 1 0", "unexpected end of input"),
        ("POLYGON((0 91", "Latitude must be in the range [-90,90]"),
    ] {
        let message = polygon_rings(wrong).expect_err(wrong);
        assert!(message.contains(reason), "{wrong}: {message}");
    }
}

#[test]
fn damaged_polygons_are_refused_with_the_reason() {
    assert!(read_polygon(&[]).expect_err("empty").contains("ends before"));
    assert!(read_polygon(&[9, 0, 0, 0, 0, 0, 0]).expect_err("version").contains("version 9"));
    let mut none = vec![1, 1, 0, 0, 0, 0, 0];
    none.resize(40, 0);
    assert!(read_polygon(&none).expect_err("no loops").contains("0 loops"));
    let mut long = vec![1, 1, 0, 0, 0, 0, 1, 1, 0x7f, 0xff, 0xff, 0xff];
    long.resize(60, 0);
    assert!(read_polygon(&long).expect_err("vertices").contains("ends before"));
    let mut two = vec![0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2];
    two.resize(131, 0);
    assert!(read_polygon(&two).expect_err("two vertices").contains("2 vertices"));
    let mut origin = vec![0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 3];
    origin.resize(155, 0);
    assert!(read_polygon(&origin).expect_err("null vectors").contains("unit sphere"));
}
