//! Messages between the threads of hosts: calls, rounds of transactions and their answers.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_fuzz::messages::Names;
use lockstep_node::buffers::Buffers;
use lockstep_node::codec::{Received, read_message, write_message};

fuzz_target!(|bytes: &[u8]| {
    let (mut names, mut buffers) = (Names::new(), Buffers::default());
    let read = names.lend(|names| read_message(bytes, names, &mut buffers));
    let Ok(Received::Message(message)) = read else { return };
    // Numbers have longer forms than the shortest, so that the bytes may differ once.
    let mut written = Vec::new();
    assert!(write_message(&mut written, &message), "what was read has a byte form");
    let Ok(Received::Message(again)) =
        names.lend(|names| read_message(&written, names, &mut buffers))
    else {
        panic!("what was written is read");
    };
    let mut rewritten = Vec::new();
    write_message(&mut rewritten, &again);
    assert_eq!(written, rewritten);
});
