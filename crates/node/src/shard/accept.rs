//! New connections: accepted by the first thread, spread over all of them.

use super::{ADMIN_LISTENER, CLIENT_LISTENER, Shard};
use crate::callers::Callers;
use crate::connection::{Connection, ConnectionKey};
use crate::message::{Envelope, caller};
use lockstep_types::ThreadId;
use lockstep_wire_volt::login::{LoginStatus, refusal};
use mio::net::{TcpListener, TcpStream};
use mio::{Interest, Poll, Token};
use std::io::{self, Write};
use std::sync::atomic::Ordering;

/// The listening sockets.
pub(super) struct Listener {
    client: TcpListener,
    admin: TcpListener,
    /// The site that gets the next connection.
    next_site: u16,
    next_id: i64,
}

impl Listener {
    pub(super) fn register(
        poll: &Poll,
        mut client: TcpListener,
        mut admin: TcpListener,
    ) -> io::Result<Listener> {
        poll.registry().register(&mut client, CLIENT_LISTENER, Interest::READABLE)?;
        poll.registry().register(&mut admin, ADMIN_LISTENER, Interest::READABLE)?;
        Ok(Listener { client, admin, next_site: 0, next_id: 1 })
    }
}

impl Shard {
    /// Accepts everything that waits at both ports.
    pub(super) fn accept_all(&mut self) {
        for admin in [false, true] {
            while let Some(stream) = self.accept_one(admin) {
                self.place_connection(stream, admin);
            }
        }
    }

    fn accept_one(&mut self, admin: bool) -> Option<TcpStream> {
        let listener = self.listener.as_ref().filter(|_| self.phase.takes_calls())?;
        let socket = if admin { &listener.admin } else { &listener.client };
        loop {
            match socket.accept() {
                Ok((stream, _)) => return Some(stream),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => {
                    // Out of file descriptors, or the peer gave up already.
                    tracing::warn!(%error, "a connection could not be accepted");
                    return None;
                }
            }
        }
    }

    fn place_connection(&mut self, mut stream: TcpStream, admin: bool) {
        let facts = &self.facts;
        facts.accepted_connections.fetch_add(1, Ordering::Relaxed);
        let open = facts.open_connections.fetch_add(1, Ordering::Relaxed);
        if open >= facts.options.max_connections.get() {
            facts.open_connections.fetch_sub(1, Ordering::Relaxed);
            facts.dropped_connections.fetch_add(1, Ordering::Relaxed);
            // A fresh socket takes six bytes; if not, the peer sees the close alone.
            let _ = stream.write(&refusal(LoginStatus::TooManyConnections));
            let limit = facts.options.max_connections.get();
            if let Some(left_out) = self.notes.may_log(self.now_us) {
                tracing::warn!(limit, left_out, "connection refused: option max_connections");
            }
            return;
        }
        let threads = self.placement.site_count();
        let Some(listener) = self.listener.as_mut() else { return };
        let id = listener.next_id;
        listener.next_id += 1;
        let thread = ThreadId::at(facts.host, listener.next_site);
        listener.next_site = (listener.next_site + 1) % threads;
        if thread == self.thread {
            self.adopt(stream, id, admin);
        } else {
            self.outbox.send(thread, Envelope::Connection { stream, id, admin });
        }
    }

    /// Takes a connection into this thread's care.
    pub(super) fn adopt(&mut self, mut stream: TcpStream, id: i64, admin: bool) {
        let key = self.connections.reserve();
        let token = Token(key.place as usize);
        if let Err(error) = stream
            .set_nodelay(true)
            .and_then(|()| socket2::SockRef::from(&stream).set_keepalive(true))
            .and_then(|()| {
                let interest = Interest::READABLE | Interest::WRITABLE;
                self.poll.registry().register(&mut stream, token, interest)
            })
        {
            tracing::warn!(%error, "a connection could not be set up");
            self.connections.give_back(key);
            self.facts.open_connections.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let until_us = self.now_us + self.facts.options.login_timeout_ms.us();
        let caller = caller(self.thread, key);
        let presence = Callers::enter(&self.facts.callers, caller, &stream);
        let replicas = self.replicas.count();
        let connection = Connection::new(stream, key, id, admin, until_us, presence, replicas);
        self.connections.open(connection);
    }

    /// Drops a connection. Its calls go on; their answers are thrown away.
    pub(super) fn close(&mut self, key: ConnectionKey) {
        let Some(mut connection) = self.connections.remove(key) else { return };
        // Deregistering fails only for a socket that is gone already.
        let _ = self.poll.registry().deregister(&mut connection.stream);
        self.statistics.connection_closed(&connection);
        self.facts.open_connections.fetch_sub(1, Ordering::Relaxed);
    }
}
