//! Measures a link from one end: the delay of small datagrams each way, the rate of a flood of more than the link takes,
//! the loss of a flood of less, and one long TCP stream.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::echo::{COUNT, FLOOD, PING, WARM_UP, monotonic_ns};

const PINGS: u64 = 300;
const PING_INTERVAL: Duration = Duration::from_millis(10);
/// Fills a packet of 1500 bytes.
const DATAGRAM_BYTES: usize = 1472;
const PACKET_BYTES: f64 = 1500.0;
/// Longer than any round trip that is to be measured.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(3);
const STREAM_TIME: Duration = Duration::from_secs(15);

pub fn run(address: &str, rate_mbit: f64) -> Result<()> {
    let socket = UdpSocket::bind("0.0.0.0:0")?;
    socket.connect(address)?;
    pings(&socket)?;
    let (_, received, seconds) = flood(&socket, 1, rate_mbit * 1.3, Duration::from_secs(3))?;
    println!("rate: {:.2} Mbit/s of packets, offered 1.3 times as many", mbit(received, seconds));
    let (sent, received, _) = flood(&socket, 2, rate_mbit * 0.9, Duration::from_secs(10))?;
    let lost = sent.saturating_sub(received);
    println!("loss: {lost} of {sent} packets at 0.9 of the rate: {:.2e}", lost as f64 / sent as f64);
    stream(address)
}

fn pings(socket: &UdpSocket) -> Result<()> {
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let sender = socket.try_clone()?;
    let sending = thread::spawn(move || {
        (0..PINGS).try_for_each(|_| {
            sender.send(&[&[PING][..], &monotonic_ns().to_le_bytes()].concat())?;
            thread::sleep(PING_INTERVAL);
            std::io::Result::Ok(())
        })
    });
    let (mut there, mut back) = (Vec::new(), Vec::new());
    let mut answer = [0; 64];
    while (there.len() as u64) < PINGS {
        match socket.recv(&mut answer) {
            Ok(16) => {
                let (sent, come, now) = (number(&answer[..8]), number(&answer[8..16]), monotonic_ns());
                there.push(come.saturating_sub(sent));
                back.push(now.saturating_sub(come));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error).context("no answer to a ping"),
        }
    }
    sending.join().expect("it does not panic")?;
    if there.is_empty() {
        bail!("no ping of {PINGS} was answered");
    }
    println!("pings: {} of {PINGS} answered", there.len());
    for (name, mut times) in [("there", there), ("back", back)] {
        times.sort_unstable();
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize] as f64 / 1e6;
        println!("delay {name}: median {:.2} ms, least {:.2}, 99 of 100 below {:.2}", at(0.5), at(0.0), at(0.99));
    }
    Ok(())
}

/// Sends packets at this rate for so long; returns how many were sent, how many came, and in how many seconds.
fn flood(socket: &UdpSocket, flood: u8, rate_mbit: f64, time: Duration) -> Result<(u64, u64, f64)> {
    let mut datagram = [FLOOD; DATAGRAM_BYTES];
    datagram[1] = flood;
    let packets_per_s = rate_mbit * 1e6 / 8.0 / PACKET_BYTES;
    let begun = Instant::now();
    let mut sent = 0u64;
    while begun.elapsed() < time {
        while (sent as f64) < begun.elapsed().as_secs_f64() * packets_per_s {
            sent += u64::from(socket.send(&datagram).is_ok());
        }
        thread::sleep(Duration::from_micros(500));
    }
    thread::sleep(Duration::from_secs(1));
    let (received, seconds) = count(socket)?;
    Ok((sent, received, seconds))
}

/// Asks again while the question or the answer gets lost.
fn count(socket: &UdpSocket) -> Result<(u64, f64)> {
    socket.set_read_timeout(Some(ANSWER_TIMEOUT))?;
    let mut answer = [0; 64];
    for _ in 0..5 {
        socket.send(&[COUNT])?;
        if let Ok(16) = socket.recv(&mut answer) {
            return Ok((number(&answer[..8]), number(&answer[8..16]) as f64 / 1e9));
        }
    }
    bail!("the echo does not answer")
}

fn stream(address: &str) -> Result<()> {
    let mut stream = TcpStream::connect(address)?;
    let block = vec![0x5a; 1 << 18];
    let begun = Instant::now();
    while begun.elapsed() < WARM_UP + STREAM_TIME {
        stream.write_all(&block)?;
    }
    stream.shutdown(Shutdown::Write)?;
    let mut answer = [0; 16];
    stream.read_exact(&mut answer)?;
    let (bytes, seconds) = (number(&answer[..8]), number(&answer[8..]) as f64 / 1e9);
    println!("one TCP stream: {:.2} Mbit/s of content after {} s", bytes as f64 * 8e-6 / seconds, WARM_UP.as_secs());
    Ok(())
}

fn mbit(packets: u64, seconds: f64) -> f64 {
    packets.saturating_sub(1) as f64 * PACKET_BYTES * 8e-6 / seconds
}

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("eight bytes"))
}
