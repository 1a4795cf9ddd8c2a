//! Which clients are there still: a query whose client has closed its connection is canceled.
//!
//! A thread that runs a query reads no sockets, and it may be the one that owns the client's. So a
//! query that runs long asks here, now and then, whatever its thread is.

use crate::message::thread_of;
use lockstep_exec::watch::Caller;
use lockstep_types::HostId;
use std::collections::BTreeMap;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};

/// The sockets of all clients of a host. Opening and closing a connection takes the lock, and a
/// query that runs long; a call that is short never does.
#[derive(Debug, Default)]
pub struct Callers {
    /// The host.
    host: HostId,
    sockets: Mutex<BTreeMap<Caller, RawFd>>,
}

/// A client's entry, for as long as its connection lives.
#[derive(Debug)]
pub struct Presence {
    callers: Arc<Callers>,
    caller: Caller,
}

impl Callers {
    /// A client is there with its socket. The entry has to be dropped before the socket is closed.
    pub fn enter(callers: &Arc<Callers>, caller: Caller, socket: &impl AsRawFd) -> Presence {
        let mut sockets = callers.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.insert(caller, socket.as_raw_fd());
        Presence { callers: Arc::clone(callers), caller }
    }

    /// Those of a host, none at first.
    pub fn of_host(host: HostId) -> Callers {
        Callers { host, ..Callers::default() }
    }

    /// Whether a client will read no answer any more: its connection is gone, or it has closed its
    /// end. Of clients of other hosts nothing is known here.
    pub fn has_left(&self, caller: Caller) -> bool {
        if thread_of(caller).is_some_and(|thread| thread.host() != self.host) {
            return false;
        }
        // With the lock, so that the socket is not closed meanwhile.
        let sockets = self.sockets.lock().unwrap_or_else(PoisonError::into_inner);
        sockets.get(&caller).is_none_or(|socket| is_closed(*socket))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let sockets = &self.callers.sockets;
        sockets.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.caller);
    }
}

/// Whether the peer of a socket has closed its end, whatever there is to read before that.
fn is_closed(socket: RawFd) -> bool {
    let mut asked = libc::pollfd { fd: socket, events: libc::POLLRDHUP, revents: 0 };
    // SAFETY: `asked` is one valid `pollfd` that outlives the call, which waits for nothing; a
    // descriptor that is not open is an answer, not an error.
    let answered = unsafe { libc::poll(&mut asked, 1, 0) };
    let closed = libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR | libc::POLLNVAL;
    answered > 0 && asked.revents & closed != 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{Shutdown, TcpListener, TcpStream};

    #[test]
    fn a_client_leaves_when_it_closes_its_end() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let mut client = TcpStream::connect(listener.local_addr().expect("bound")).expect("a peer");
        let (socket, _) = listener.accept().expect("a connection");
        let callers = Arc::new(Callers::default());
        assert!(callers.has_left(Caller(1)), "it never came");
        let presence = Callers::enter(&callers, Caller(1), &socket);
        client.write_all(b"unread").expect("it is sent");
        assert!(!callers.has_left(Caller(1)));
        assert!(callers.has_left(Caller(2)));
        client.shutdown(Shutdown::Write).expect("its end");
        let until = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while !callers.has_left(Caller(1)) {
            assert!(std::time::Instant::now() < until, "the end arrives");
            std::thread::yield_now();
        }
        drop(presence);
        assert!(callers.has_left(Caller(1)));
    }
}
