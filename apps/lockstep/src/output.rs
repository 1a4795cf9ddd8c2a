//! What commands that list things write to standard output.

use std::io::{self, ErrorKind, Write};

/// Writes a text. A reader that has seen enough and closed its end, such as `head`, is no error.
///
/// # Errors
/// Says why it cannot be written.
pub fn write_out(text: &str) -> Result<(), String> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(format!("standard output cannot be written: {error}"))
        }
        _ => Ok(()),
    }
}
