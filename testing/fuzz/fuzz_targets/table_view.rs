//! A table from outside: as a parameter, in a response, from another host.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_base::bytes::ByteReader;
use lockstep_types::TableView;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = ByteReader::new(bytes);
    while let Ok(table) = TableView::read(&mut reader) {
        lockstep_fuzz::walk_table(&table);
        let _ = lockstep_client::rows::table(&table);
    }
});
