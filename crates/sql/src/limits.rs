//! Limits on what a statement may hold, so that no input grows without bound.

/// The limits that the parser enforces; each refusal names the field here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest text given at once, in bytes.
    pub batch_bytes: u32,
    /// Longest single statement, in bytes.
    pub statement_bytes: u32,
    /// Most statements in a batch, and in a procedure body.
    pub statements: u32,
    /// Deepest nesting of expressions and queries. Also bounds the height of the tree, so that
    /// later stages may recurse over it.
    pub nesting_depth: u32,
    /// Most `?` in a statement.
    pub parameters: u32,
    /// Most columns of a table, view or select list, and most expressions of GROUP BY, ORDER BY,
    /// a row, or a function's arguments.
    pub columns: u32,
    /// Most tables in one statement, subqueries included.
    pub joined_tables: u32,
    /// Most elements in an IN list.
    pub in_list: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            batch_bytes: 4 << 20,
            statement_bytes: 1 << 20,
            statements: 10_000,
            nesting_depth: 500,
            parameters: 1025,
            columns: 1024,
            joined_tables: 200,
            in_list: 100_000,
        }
    }
}
