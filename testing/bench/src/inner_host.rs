//! Hosts whose sites make the load themselves, in their own threads.

use lockstep_client::{ConnectOptions, Connection};
use lockstep_node::options::Options;
use lockstep_node::{NativeRegistry, Server, ServerConfiguration, SiteLoad, TestSettings};
use std::net::{Ipv4Addr, SocketAddr};

/// Starts a host with one site a load, one on each core from the first, as far as there are cores.
///
/// # Errors
/// What the system or the host refused.
pub fn start(loads: Vec<Box<dyn SiteLoad>>, options: &Options) -> Result<Server, String> {
    let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let mut natives = NativeRegistry::default();
    for procedure in lockstep_workloads::test_procedures() {
        natives.register(procedure);
    }
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let configuration = ServerConfiguration {
        sites: loads.len() as u32,
        for_tests: TestSettings::default(),
        client: any_port,
        admin: any_port,
        options: options.clone(),
        natives,
        pin_to_cores: (0..loads.len()).map(|site| site % cores).collect(),
        java_options: Vec::new(),
        data: None,
    };
    Server::start_with_loads(configuration, loads).map_err(|error| error.to_string())
}

/// A connection to a host.
///
/// # Errors
/// It cannot be made.
pub fn connect(server: &Server) -> Result<Connection, String> {
    let address = server.client_address().to_string();
    Connection::connect(&address, &ConnectOptions::default()).map_err(|e| e.to_string())
}
