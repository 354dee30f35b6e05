//! Measures how fast a link carries bytes to a node right now: sends some, more each time, until one exchange takes
//! long enough to be trusted. Over a far link some exchanges would show how TCP begins and not what the link carries, and
//! take seconds: a rate is assumed there.

use std::time::{Duration, Instant};

use super::pooled_connection::PooledConnection;
use crate::handshake::ClientIdentity;
use crate::message::{Reply, Request};
use crate::random::random_number;
use crate::{Credentials, Result};

/// An exchange that lasted this much longer than an empty one gives the rate.
const LONG_ENOUGH: Duration = Duration::from_millis(20);
const FIRST_BYTES: usize = 64 << 10;
/// Links that carry this in less time than [`LONG_ENOUGH`] are fast, whatever the number (bytes).
const MAX_BYTES: usize = 16 << 20;
/// A round trip from here on is a far link's, of which a process is taken to get this (bytes a second) until frames show its
/// rate: TCP begins slowly there, and what reducing saves is the most.
const FAR: Duration = Duration::from_millis(20);
const FAR_BYTES_PER_S: f64 = 60e6;

/// A link to a node, as one process measures it while others may be using it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    pub bytes_per_s: f64,
    /// Number of the node's reducing threads.
    pub workers: u32,
}

impl Link {
    /// Sends zeros to the node at `address`; takes some tens of milliseconds, on a slow link as long as 64 KiB take, and
    /// on a far one the few round trips of a connection and one exchange.
    pub fn measure(address: &str, credentials: &Credentials) -> Result<Link> {
        let hello = ClientIdentity::nameless(random_number()?).hello(0);
        let mut connection = PooledConnection::open(address, hello, credentials)?;
        let (empty, workers) = exchange(&mut connection, &[])?;
        if empty >= FAR {
            return Ok(Link { bytes_per_s: FAR_BYTES_PER_S, workers });
        }
        let zeros = vec![0; MAX_BYTES];
        let mut bytes = FIRST_BYTES;
        loop {
            let (whole, workers) = exchange(&mut connection, &zeros[..bytes])?;
            let carrying = whole.saturating_sub(empty);
            if carrying >= LONG_ENOUGH || bytes == MAX_BYTES {
                let seconds = carrying.as_secs_f64().max(1e-6);
                return Ok(Link { bytes_per_s: bytes as f64 / seconds, workers });
            }
            bytes = (bytes * 4).min(MAX_BYTES);
        }
    }
}

fn exchange(connection: &mut PooledConnection, payload: &[u8]) -> Result<(Duration, u32)> {
    let begun = Instant::now();
    match connection.ask(&Request::Measure {}, &[payload])?.0 {
        Reply::Measured { workers } => Ok((begun.elapsed(), workers)),
        _ => Err(connection.misbehaved("Measure was not answered by Measured")),
    }
}
