//! Distances between the values of a RANGE frame.

use lockstep_types::Datum;
use lockstep_types::decimal::ONE;
use lockstep_types::float::compare_floats;
use std::cmp::Ordering;

/// A key or distance of a RANGE: exact but for FLOAT.
#[derive(Clone, Copy)]
pub(super) enum Distance {
    /// In units of the last decimal place.
    Exact(i128),
    Float(f64),
}

impl Distance {
    pub(super) fn of(value: Datum<'_>) -> Option<Distance> {
        match value {
            Datum::Int(value) | Datum::Timestamp(value) => {
                Some(Distance::Exact(i128::from(value) * ONE))
            }
            Datum::Decimal(value) => Some(Distance::Exact(value.units())),
            Datum::Float(value) => Some(Distance::Float(value)),
            _ => None,
        }
    }

    pub(super) fn as_float(self) -> f64 {
        match self {
            Distance::Exact(units) => units as f64 / ONE as f64,
            Distance::Float(value) => value,
        }
    }

    /// Whether a frame cannot have the distance: it is negative or NaN.
    pub(super) fn is_invalid(self) -> bool {
        match self {
            Distance::Exact(units) => units < 0,
            Distance::Float(value) => value < 0.0 || value.is_nan(),
        }
    }

    pub(super) fn moved(self, by: Distance, back: bool) -> Distance {
        match (self, by) {
            (Distance::Exact(a), Distance::Exact(b)) if back => {
                Distance::Exact(a.saturating_sub(b))
            }
            (Distance::Exact(a), Distance::Exact(b)) => Distance::Exact(a.saturating_add(b)),
            (a, b) if back => Distance::Float(a.as_float() - b.as_float()),
            (a, b) => Distance::Float(a.as_float() + b.as_float()),
        }
    }

    pub(super) fn compare(self, other: Distance) -> Ordering {
        match (self, other) {
            (Distance::Exact(a), Distance::Exact(b)) => a.cmp(&b),
            (a, b) => compare_floats(a.as_float(), b.as_float()),
        }
    }
}
