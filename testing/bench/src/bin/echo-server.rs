//! `echo-server [ADDRESS]`: answers every call with one number; see `lockstep_bench::echo`.

use lockstep_bench::echo::EchoServer;
use std::io;

fn main() -> io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_string());
    let server = EchoServer::bind(&address)?;
    println!("echo-server: ready on {}", server.address()?);
    server.run()
}
