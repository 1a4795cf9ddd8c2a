//! What several fuzz targets do with decoded bytes.

pub mod messages;

use lockstep_types::TableView;

/// The cluster that the logs of seeds belong to.
pub const LOG_CLUSTER: [u8; 16] = [7; 16];

/// Reads every name and value of a table.
pub fn walk_table(table: &TableView<'_>) {
    let _ = table.column_names();
    let _ = table.scalar();
    let mut values = Vec::new();
    for row in table.rows() {
        let Ok(row) = row else { continue };
        values.clear();
        let whole = row.read_into(&mut values).is_ok();
        for (column, value) in values.iter().enumerate() {
            let _ = value.to_string();
            assert_eq!(row.get(column).map(|v| v.to_string()), Ok(value.to_string()));
        }
        assert!(!whole || values.len() == table.column_count());
    }
}
