//! Polygons from well-known text.

use super::polygon::Polygon;
use super::ring::Ring;
use lockstep_types::geography::text::{polygon_rings, refused_polygon};

impl Polygon {
    /// Reads `POLYGON((<longitude> <latitude>, ...), ...)`, the first ring the shell. With `repair`
    /// rings are turned around where need be, and the polygon must be valid.
    ///
    /// # Errors
    /// A message for the client.
    pub(crate) fn from_text(text: &str, repair: bool) -> Result<Polygon, String> {
        let rings = polygon_rings(text)?.into_iter().map(Ring::new).collect();
        let polygon = Polygon::new(rings, repair);
        match polygon.fault().filter(|_| repair) {
            Some(fault) => Err(refused_polygon(&fault)),
            None => Ok(polygon),
        }
    }
}
