//! The client against a small server that speaks the protocol, cuts its answers into pieces and
//! misbehaves on request.

// Helpers of tests are no `#[test]` functions, so the lint's own exception misses them.
#![allow(clippy::unwrap_used)]

mod cluster;
mod connection;
mod pipeline;
mod stub;
