//! The link as a process: reads packets of two interfaces, and writes them to the other one when they have arrived.
//!
//! Prints `ready` when the interfaces are there. A line of words on the standard input changes the link (`rate-mbit=50`);
//! at `stop` or its end the process prints what it counted, and ends.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::direction::Direction;
use crate::settings::{Settings, apply};
use crate::tun::Tun;

/// Packets are taken and delivered this often, not each alone, which would cost twice the processor time; it makes each
/// early or late by at most half of it, and taken in late by as much.
const ROUND: Duration = Duration::from_micros(250);
/// More than any packet that an interface may be configured to send.
const PACKET_BYTES: usize = 65536;
/// Read from an interface before others have their turn.
const PACKETS_AT_ONCE: usize = 64;
/// Buffers kept for use again.
const MAX_SPARE: usize = 1024;
const MAX_COMMAND_BYTES: usize = 4096;

struct Link {
    interfaces: [Tun; 2],
    /// From the interface of the same index to the other.
    directions: [Direction; 2],
    scratch: Vec<u8>,
    spare: Vec<Vec<u8>>,
    refused: u64,
}

pub fn run(near: &str, far: &str, words: &[&str]) -> Result<()> {
    let mut settings = [Settings::INITIAL; 2];
    let mut seed = 0;
    for word in words {
        match word.strip_prefix("seed=") {
            Some(number) => seed = number.parse().context("seed= takes a whole number")?,
            None => apply(word, &mut settings)?,
        }
    }
    let now = Instant::now();
    let mut link = Link {
        interfaces: [Tun::create(near)?, Tun::create(far)?],
        directions: [Direction::new(settings[0], seed, now), Direction::new(settings[1], !seed, now)],
        scratch: Vec::new(),
        spare: Vec::new(),
        refused: 0,
    };
    println!("ready");
    link.serve()?;
    link.report();
    Ok(())
}

impl Link {
    fn serve(&mut self) -> Result<()> {
        let mut commands = Commands::default();
        loop {
            let round = Instant::now();
            self.deliver(round + ROUND / 2);
            let ready = self.wait(round)?;
            for index in (0..2).filter(|index| ready[*index]) {
                self.take_in(index)?;
            }
            if ready[2] && !commands.read(&mut self.directions)? {
                return Ok(());
            }
            std::thread::sleep(ROUND.saturating_sub(round.elapsed()));
        }
    }

    fn deliver(&mut self, now: Instant) {
        for (index, direction) in self.directions.iter_mut().enumerate() {
            while let Some(packet) = direction.arrived(now) {
                self.refused += u64::from(!self.interfaces[1 - index].write(&packet));
                if self.spare.len() < MAX_SPARE {
                    self.spare.push(packet);
                }
            }
        }
    }

    fn take_in(&mut self, index: usize) -> Result<()> {
        for _ in 0..PACKETS_AT_ONCE {
            if !self.interfaces[index].read(&mut self.scratch, PACKET_BYTES).context("an interface cannot be read")? {
                break;
            }
            let mut packet = self.spare.pop().unwrap_or_default();
            packet.clear();
            packet.extend_from_slice(&self.scratch);
            self.spare.extend(self.directions[index].accept(packet, Instant::now()));
        }
        Ok(())
    }

    /// Returns which of the two interfaces and the standard input are ready, at the latest when a packet arrives.
    fn wait(&self, now: Instant) -> Result<[bool; 3]> {
        let next = self.directions.iter().filter_map(Direction::next_arrival).min();
        let time = next.map(|next| timespec(next.saturating_duration_since(now)));
        let stdin = std::io::stdin();
        let mut polled = [
            PollFd::new(&self.interfaces[0], PollFlags::IN),
            PollFd::new(&self.interfaces[1], PollFlags::IN),
            PollFd::from_borrowed_fd(stdin.as_fd(), PollFlags::IN),
        ];
        match poll(&mut polled, time.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(polled.map(|fd| !fd.revents().is_empty())),
            Err(error) => Err(error).context("poll"),
        }
    }

    fn report(&self) {
        for (name, direction) in ["near-to-far", "far-to-near"].iter().zip(&self.directions) {
            let counts = direction.counts;
            println!(
                "{name} delivered={} delivered-bytes={} dropped={} lost={} late={}",
                counts.delivered, counts.delivered_bytes, counts.dropped, counts.lost, counts.late
            );
        }
        let used = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        println!("refused={} processor-ms={}", self.refused, used.tv_sec * 1000 + used.tv_nsec / 1_000_000);
        let _ = std::io::stdout().flush();
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ }
}

/// Lines of the standard input, of which the last may not be whole yet.
#[derive(Default)]
struct Commands {
    text: String,
}

impl Commands {
    /// Reads what there is and carries it out; false at the end. A word that means nothing is reported, not obeyed.
    fn read(&mut self, directions: &mut [Direction; 2]) -> Result<bool> {
        let mut bytes = [0; 512];
        // The descriptor itself: the library's buffer would hide lines from poll.
        let count = std::fs::File::from(std::io::stdin().as_fd().try_clone_to_owned()?).read(&mut bytes)?;
        self.text.push_str(&String::from_utf8_lossy(&bytes[..count]));
        ensure!(self.text.len() < MAX_COMMAND_BYTES, "a line of commands does not end");
        while let Some((line, rest)) = self.text.split_once('\n') {
            if line.trim() == "stop" {
                return Ok(false);
            }
            let mut settings = [directions[0].settings, directions[1].settings];
            match line.split_whitespace().try_for_each(|word| apply(word, &mut settings)) {
                Ok(()) => directions.iter_mut().zip(settings).for_each(|(direction, new)| direction.settings = new),
                Err(error) => eprintln!("thalweg-link: the link stays as it is: {error:#}"),
            }
            self.text = rest.to_owned();
        }
        Ok(count > 0)
    }
}
