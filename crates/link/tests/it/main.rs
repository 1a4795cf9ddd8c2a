//! Two ends of a link with a connection between them that the tests make, cut and spoil.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

mod allocation;
mod bad_bytes;
mod connections;
mod cuts;
mod format;
mod limits;
mod messages;
mod sessions;
mod simulation;
mod support;
