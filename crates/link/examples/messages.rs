//! Moves messages of 100 bytes over a link, for counting instructions with callgrind:
//!
//!     cargo build --release -p lockstep-link --example messages
//!     valgrind --tool=callgrind target/release/examples/messages 100000 32 100
//!
//! The arguments are the number of messages, how many are offered between two writes, and their
//! length. Counts of two numbers of messages give those of a message: their difference over the
//! difference of the numbers.

use lockstep_link::{
    Accepting, ClockReading, ClusterId, Event, HostIdentity, Link, LinkLimits, VersionRange,
};
use lockstep_types::HostId;
use std::error::Error;
use std::io::IoSlice;

fn end(host: u32, peer: u32) -> Result<Link, Box<dyn Error>> {
    let identity = HostIdentity {
        cluster: ClusterId([7; 16]),
        host: HostId(host),
        incarnation: 1,
        process: u64::from(host) + 1,
        name: format!("host-{host}"),
        release: "0.1.0".to_string(),
        versions: VersionRange::SUPPORTED,
    };
    Ok(Link::new(identity, HostId(peer), LinkLimits::default())?)
}

/// Moves all that one end wants to write to the other, and gives the number of messages and the sum
/// of their first bytes.
#[inline(never)]
fn transfer(
    from: &mut Link,
    to: &mut Link,
    now: ClockReading,
) -> Result<(u64, u64), Box<dyn Error>> {
    let (mut messages, mut sum) = (0, 0);
    while from.wants_to_write(now) {
        let mut slices = [IoSlice::new(&[]); 64];
        let count = from.write_slices(now, &mut slices);
        let mut bytes = 0;
        for slice in &slices[..count] {
            bytes += slice.len();
            let mut rest = &slice[..];
            while !rest.is_empty() {
                let space = to.read_space();
                let length = space.len().min(rest.len());
                space[..length].copy_from_slice(&rest[..length]);
                to.filled(length);
                rest = &rest[length..];
                take(to, now, &mut messages, &mut sum)?;
            }
        }
        from.wrote(bytes);
    }
    Ok((messages, sum))
}

#[inline(never)]
fn take(
    link: &mut Link,
    now: ClockReading,
    messages: &mut u64,
    sum: &mut u64,
) -> Result<(), Box<dyn Error>> {
    while let Some(event) = link.next_event(now)? {
        if let Event::Message { bytes, .. } = event {
            *messages += 1;
            *sum += u64::from(bytes[0]);
        }
    }
    Ok(())
}

#[inline(never)]
fn offer(link: &mut Link, now: ClockReading, message: &[u8]) -> Result<(), Box<dyn Error>> {
    link.offer(now, |buffer| buffer.extend_from_slice(message))?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<u64> = std::env::args().skip(1).filter_map(|a| a.parse().ok()).collect();
    let [count, batch, length] = arguments[..] else {
        return Err("arguments: MESSAGES BATCH BYTES".into());
    };
    let mut now = ClockReading { monotonic_us: 0, wall_us: 0 };
    let (mut a, mut b) = (end(0, 1)?, end(1, 0)?);
    a.dialed(now)?;
    let mut accepting = Accepting::new(VersionRange::SUPPORTED);
    let mut slices = [IoSlice::new(&[]); 2];
    let used = a.write_slices(now, &mut slices);
    let hello: Vec<u8> = slices[..used].iter().flat_map(|slice| slice.to_vec()).collect();
    a.wrote(hello.len());
    accepting.read_space()[..hello.len()].copy_from_slice(&hello);
    accepting.filled(hello.len());
    accepting.hello()?;
    b.accept(accepting, now)?;
    transfer(&mut b, &mut a, now)?;
    while b.next_event(now)?.is_some() {}
    let message = vec![1; length as usize];
    let (mut delivered, mut offered) = ((0, 0), 0);
    while offered < count {
        for _ in 0..batch.min(count - offered) {
            offer(&mut a, now, &message)?;
            offered += 1;
        }
        let (messages, sum) = transfer(&mut a, &mut b, now)?;
        delivered = (delivered.0 + messages, delivered.1 + sum);
        now.monotonic_us += 100;
        transfer(&mut b, &mut a, now)?;
    }
    let backlog = a.backlog();
    println!("{} of {count} delivered, {backlog:?}, {:?}", delivered.0, a.counters());
    Ok(())
}
