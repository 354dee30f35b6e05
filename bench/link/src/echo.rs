//! The far end of a probe: answers datagrams with the time they came, counts those of a flood, and takes one TCP stream
//! after another, which it answers with its bytes and seconds from the first quarter of it on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The first byte of a datagram.
pub const PING: u8 = b'p';
/// Followed by the flood's number: a new one is counted from zero.
pub const FLOOD: u8 = b'f';
/// Asks how many datagrams of the last flood came, in which time.
pub const COUNT: u8 = b'c';
/// A stream's receiver leaves this much out at its beginning: slow start is not the link's rate.
pub const WARM_UP: Duration = Duration::from_secs(5);

/// Packets that arrive while this process waits for a processor are not lost on the link.
const RECEIVE_BUFFER: usize = 4 << 20;

/// Time since the machine started, the same in every process.
pub fn monotonic_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub fn run(address: &str) -> Result<()> {
    let listener = TcpListener::bind(address).with_context(|| format!("{address} cannot be listened at"))?;
    let socket = UdpSocket::bind(address).with_context(|| format!("{address} cannot be bound"))?;
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, RECEIVE_BUFFER)?;
    println!("ready");
    thread::spawn(move || listener.incoming().flatten().for_each(|stream| drop(take_stream(stream))));
    answer(&socket)
}

fn answer(socket: &UdpSocket) -> Result<()> {
    let mut datagram = [0; 2048];
    let (mut flood, mut count, mut first, mut last) = (0, 0u64, 0, 0);
    loop {
        let (bytes, peer) = socket.recv_from(&mut datagram)?;
        let now = monotonic_ns();
        let reply = match datagram.get(..bytes.min(17)) {
            Some([PING, sent @ ..]) => [sent, &now.to_le_bytes()].concat(),
            Some([FLOOD, number, ..]) => {
                if *number != flood {
                    (flood, count, first) = (*number, 0, now);
                }
                (count, last) = (count + 1, now);
                continue;
            }
            Some([COUNT, ..]) => [count.to_le_bytes(), (last - first).to_le_bytes()].concat(),
            _ => continue,
        };
        // A reply that cannot be sent is a lost one.
        let _ = socket.send_to(&reply, peer);
    }
}

fn take_stream(mut stream: TcpStream) -> Result<()> {
    let mut buffer = vec![0; 1 << 18];
    let begun = Instant::now();
    let (mut counted, mut warm, mut ended) = (0u64, begun, begun);
    loop {
        let bytes = stream.read(&mut buffer)?;
        if bytes == 0 {
            break;
        }
        ended = Instant::now();
        if ended - begun < WARM_UP {
            warm = ended;
        } else {
            counted += bytes as u64;
        }
    }
    let nanoseconds = (ended - warm).as_nanos() as u64;
    stream.write_all(&[counted.to_le_bytes(), nanoseconds.to_le_bytes()].concat())?;
    Ok(())
}
