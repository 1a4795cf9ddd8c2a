//! Ways to break a link on purpose, to see that the checks of its simulation notice.

lockstep_base::faults! {
    /// What is broken; nothing in a server.
    pub struct LinkFaults {
        /// Messages that were written to a connection count as received when it breaks: those that
        /// were lost with it are not sent again.
        drop_suffix,
        /// After a reconnect the position of the last acknowledgement counts as the position of
        /// the last delivered message: what was delivered since is delivered again.
        resend_on_reconnect,
    }
}
