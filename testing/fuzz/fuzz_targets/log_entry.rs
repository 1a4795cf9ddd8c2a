//! The entries of a partition log, from a file or another host.
#![no_main]

use libfuzzer_sys::fuzz_target;
use lockstep_txn::EntryReader;
use lockstep_txn::log_entry::EntryBody;

fuzz_target!(|bytes: &[u8]| {
    let mut reader = EntryReader::new(bytes);
    while let Ok(Some(entry)) = reader.read() {
        match entry.body {
            EntryBody::Command(command) => command.parameters.iter().for_each(drop),
            EntryBody::Fragments(fragments) => {
                fragments.participants().for_each(drop);
                fragments.parts().for_each(drop);
            }
            EntryBody::Call(call) => call.participants().for_each(drop),
            EntryBody::Epoch(epoch) => epoch.in_sync().for_each(drop),
            EntryBody::Build(build) => build.parts().for_each(drop),
            EntryBody::Statements => entry.statements().for_each(drop),
            _ => {}
        }
    }
});
