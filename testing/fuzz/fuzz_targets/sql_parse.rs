//! SQL text from a client: parsed, cut into statements, its constants taken out, written back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_sql::{Limits, parameterize, parse_batch, split_script};

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let limits = Limits::default();
    let _ = split_script(text, &limits);
    let _ = parameterize(text, &limits);
    match parse_batch(text, &limits) {
        Ok(statements) => {
            for statement in statements {
                assert!(statement.span.end() as usize <= text.len());
            }
        }
        Err(error) => {
            let _ = error.render(text);
        }
    }
});
