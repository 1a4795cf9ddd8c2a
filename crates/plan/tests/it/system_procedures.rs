//! The reference page of the system procedures and their table say the same.

use lockstep_plan::system_procedures::reference_page;
use std::path::Path;

/// `REWRITE=1 cargo test` writes the page again.
#[test]
#[allow(clippy::disallowed_methods)]
fn the_reference_page_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/system-procedures.md");
    let page = reference_page();
    if std::env::var("REWRITE").is_ok() {
        std::fs::write(&path, &page).expect("the page is written");
    }
    let written = std::fs::read_to_string(&path).expect("the page is there");
    assert_eq!(written, page, "docs/system-procedures.md is not the table's: REWRITE=1 cargo test");
}
