//! Functions called with literals, as text.
