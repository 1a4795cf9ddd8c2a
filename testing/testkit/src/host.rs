//! A host in the test's process, on free loopback ports.

use lockstep_client::{ClientError, ConnectOptions, Connection};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration};
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

/// A running host; dropping it stops it.
pub struct TestHost {
    server: Server,
}

impl TestHost {
    /// Starts a host with this many sites and default options.
    ///
    /// # Errors
    /// The system has no port or thread left.
    pub fn start(sites: u32) -> io::Result<TestHost> {
        TestHost::start_with(sites, Options::default())
    }

    /// Starts a host with options.
    ///
    /// # Errors
    /// As for [`TestHost::start`].
    pub fn start_with(sites: u32, options: Options) -> io::Result<TestHost> {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let mut natives = NativeRegistry::default();
        for procedure in lockstep_workloads::test_procedures() {
            natives.register(procedure);
        }
        let server = Server::start(ServerConfiguration {
            sites,
            client: any_port,
            admin: any_port,
            options,
            natives,
            pin_to_cores: Vec::new(),
            java_options: Vec::new(),
            data: None,
        })?;
        Ok(TestHost { server })
    }

    /// The host.
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// A new connection to the client port.
    ///
    /// # Errors
    /// The host refuses it.
    pub fn connect(&self) -> Result<Connection, ClientError> {
        let address = self.server.client_address().to_string();
        Connection::connect(&address, &ConnectOptions::default())
    }
}
