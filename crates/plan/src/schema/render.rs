//! Syntax trees as canonical SQL text.
