//! Scenarios that are written out.
