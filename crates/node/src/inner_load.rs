//! A load inside a site's own thread: calls that come from no socket. For measuring a host whose
//! sites are the limit, with no thread beside them that makes the load.

/// Calls of one site's thread. They run as if a connection of that thread had sent them.
pub trait SiteLoad: Send {
    /// Whether there is a call to be made now. Asked in each round of the thread's loop, and every
    /// 100 ms of one that sleeps; it limits the calls in flight.
    fn wants_to_call(&mut self) -> bool;

    /// Appends the next call: a client's frame with its length in front.
    fn next_call(&mut self, frame: &mut Vec<u8>);

    /// A response frame, with its length in front.
    fn answered(&mut self, frame: &[u8]);
}
