//! Planning through its public surface.

mod schema;
