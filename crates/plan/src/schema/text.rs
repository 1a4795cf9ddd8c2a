//! The whole catalog as DDL text.
