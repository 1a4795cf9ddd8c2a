//! The versions of the byte forms that the members of a cluster exchange.

use crate::codec::STATE_VERSION;
use crate::command::COMMAND_VERSION;
use crate::heartbeat::HEARTBEAT_VERSION;
use crate::message::{MESSAGE_VERSION, PROPOSAL_VERSION};

/// The versions of all forms in which members send each other what they agree on, as text. A member
/// of a release with other ones may not be able to apply a command that the others apply.
pub fn forms() -> String {
    format!(
        "heartbeat {HEARTBEAT_VERSION}, message {MESSAGE_VERSION}, proposal {PROPOSAL_VERSION}, \
         command {COMMAND_VERSION}, state {STATE_VERSION}"
    )
}
