//! Who hears what comes from other hosts: the sites.
//!
//! The socket of a connection is in the polls of all sites, and each time the system wakes one of
//! those that sleep and no other (`EPOLLEXCLUSIVE` of `epoll_ctl(2)`). Those that work hear of it
//! at their next look. The thread of the links has it in its poll for what else becomes of it, and
//! where there are no sites, at a witness, for everything.

use super::shared::SharedLinks;
use lockstep_types::HostId;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use std::io;
use std::os::fd::AsRawFd;

/// The polls of a host that hear of other hosts.
pub(super) struct Watch {
    links: Registry,
    sites: Vec<Registry>,
}

impl Watch {
    pub(super) fn new(links: Registry, sites: Vec<Registry>) -> Watch {
        Watch { links, sites }
    }

    /// The poll of the links: for sockets that have no connection yet.
    pub(super) fn registry(&self) -> &Registry {
        &self.links
    }

    /// A connection is made: from now on all hear of it what they are to. That ends with the
    /// socket.
    ///
    /// # Errors
    /// A poll takes no more sockets.
    pub(super) fn add_connection(&self, stream: &mut TcpStream, host: HostId) -> io::Result<()> {
        // It is there while it is being made; one that was accepted is not.
        let _ = self.links.deregister(stream);
        for site in &self.sites {
            add(site, stream, SharedLinks::token_of(host))?;
        }
        let interest = match self.sites.is_empty() {
            true => Interest::READABLE | Interest::WRITABLE,
            false => Interest::WRITABLE,
        };
        self.links.register(stream, Token(host.0 as usize), interest)
    }
}

/// Adds a socket to the poll of a site.
fn add(poll: &Registry, stream: &TcpStream, token: Token) -> io::Result<()> {
    let events = (libc::EPOLLIN | libc::EPOLLET | libc::EPOLLEXCLUSIVE) as u32;
    let mut event = libc::epoll_event { events, u64: token.0 as u64 };
    // SAFETY: both descriptors are open as long as what they are borrowed from; the call reads the
    // event from this stack frame while it runs.
    let result = unsafe {
        libc::epoll_ctl(poll.as_raw_fd(), libc::EPOLL_CTL_ADD, stream.as_raw_fd(), &raw mut event)
    };
    match result {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll};
    use std::io::Write;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(20);
    const HOST: HostId = HostId(1);

    /// The tokens of what a poll hears within a time.
    fn heard(poll: &mut Poll, within: Duration) -> Vec<Token> {
        let mut events = Events::with_capacity(8);
        poll.poll(&mut events, Some(within)).expect("a poll");
        let readable = events.iter().filter(|event| event.is_readable());
        readable.map(mio::event::Event::token).collect()
    }

    /// Waits until a thread of this process sleeps.
    fn await_sleep(thread: i32) {
        loop {
            let status = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
            let status = status.expect("the thread runs");
            if status.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S')) {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn registry(poll: &Poll) -> Registry {
        poll.registry().try_clone().expect("a registry")
    }

    /// A connection that a host with sites has, and its other end.
    fn connection(links: &Poll, sites: &[&Poll]) -> (TcpStream, std::net::TcpStream) {
        let sites = sites.iter().map(|site| registry(site)).collect();
        let watch = Watch::new(registry(links), sites);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it has one");
        let other = std::net::TcpStream::connect(address).expect("it listens");
        let own = listener.accept().expect("it has connected").0;
        own.set_nonblocking(true).expect("a socket can");
        let mut own = TcpStream::from_std(own);
        watch.add_connection(&mut own, HOST).expect("polls with space");
        (own, other)
    }

    fn poll() -> Poll {
        Poll::new().expect("a poll")
    }

    #[test]
    fn one_site_of_those_that_sleep_hears_another_host() {
        let (mut links, sites) = (poll(), [poll(), poll()]);
        let (_own, mut other) = connection(&links, &[&sites[0], &sites[1]]);
        let (tell, told) = channel();
        let threads = sites.map(|mut site| {
            let tell = tell.clone();
            std::thread::spawn(move || {
                // SAFETY: the call takes nothing and changes nothing.
                tell.send(unsafe { libc::gettid() }).expect("the test waits");
                heard(&mut site, LONG)
            })
        });
        told.iter().take(2).for_each(await_sleep);
        other.write_all(b"a frame").expect("a connection");
        while !threads.iter().any(std::thread::JoinHandle::is_finished) {
            std::thread::yield_now();
        }
        assert!(!threads.iter().all(std::thread::JoinHandle::is_finished));
        assert!(heard(&mut links, Duration::ZERO).is_empty());
        other.write_all(b"another frame").expect("a connection");
        for thread in threads {
            assert_eq!(thread.join().expect("no panic"), [SharedLinks::token_of(HOST)]);
        }
    }

    #[test]
    fn a_site_that_works_hears_it_at_its_next_look_and_a_witness_has_no_sites() {
        let (mut links, mut site) = (poll(), poll());
        let (_own, mut other) = connection(&links, &[&site]);
        other.write_all(b"a frame").expect("a connection");
        assert_eq!(heard(&mut site, LONG), [SharedLinks::token_of(HOST)]);
        assert!(heard(&mut links, Duration::ZERO).is_empty());
        let mut witness = poll();
        let (_own, mut other) = connection(&witness, &[]);
        other.write_all(b"a frame").expect("a connection");
        assert_eq!(heard(&mut witness, LONG), [Token(1)]);
    }
}
