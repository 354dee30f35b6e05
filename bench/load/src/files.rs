//! Direct I/O on files: a thread for each outstanding request. O_DIRECT keeps the client's kernel from holding or
//! merging anything, so what is outstanding is what the plan says. Files that lie on different servers make what a
//! striped file would: each client goes from file to file, and so from server to server.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::{Scope, ScopedJoinHandle};
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::fs::{Mode, OFlags};

use crate::ledger::Ledger;
use crate::plan::{Files, Operation, Part, Plan, Target, Turn};

const ALIGNMENT: usize = 4096;

struct Client<'a> {
    part: &'a Part,
    application: usize,
    number: usize,
    files: Vec<OwnedFd>,
    places: Places,
    length: Duration,
    ledger: &'a Ledger,
}

pub fn start<'scope, 'a: 'scope>(
    scope: &'scope Scope<'scope, '_>,
    plan: &'a Plan,
    ledger: &'a Ledger,
) -> Result<Vec<ScopedJoinHandle<'scope, Result<()>>>> {
    let mut threads = Vec::new();
    for (application, part) in plan.parts() {
        let Target::Files(files) = &part.target else { continue };
        for number in 0..part.outstanding {
            let open = files.paths[number].iter().map(|path| open(path)).collect::<Result<_>>()?;
            let places = Places::new(files, part, number);
            let client = Client { part, application, number, files: open, places, length: plan.length(), ledger };
            threads.push(scope.spawn(move || client.work()));
        }
    }
    Ok(threads)
}

fn open(path: &Path) -> Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDWR | OFlags::DIRECT | OFlags::CLOEXEC, Mode::empty())
        .with_context(|| format!("cannot open {} for direct I/O", path.display()))
}

impl Client<'_> {
    fn work(mut self) -> Result<()> {
        let mut memory = vec![0x5a_u8; self.part.bytes + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        let buffer = &mut memory[start..start + self.part.bytes];
        for number in 0.. {
            if self
                .part
                .requests
                .is_some_and(|requests| number * self.part.outstanding as u64 + self.number as u64 >= requests)
            {
                break;
            }
            if !self.wait_until_on() {
                break;
            }
            self.request(number, buffer);
            std::thread::sleep(Duration::from_millis(self.part.pause_ms));
        }
        Ok(())
    }

    fn wait_until_on(&self) -> bool {
        loop {
            let now = self.ledger.elapsed();
            match self.part.turn(now, self.length) {
                Turn::On => return true,
                Turn::From(begin) => std::thread::sleep(begin - now),
                Turn::Over => return false,
            }
        }
    }

    fn request(&mut self, number: u64, buffer: &mut [u8]) {
        let operation = self.part.operation(self.number, number);
        let file = &self.files[(self.number as u64 + number) as usize % self.files.len()];
        let place = self.places.next_place();
        let began = self.ledger.elapsed();
        let done = match operation {
            Operation::Read => rustix::io::pread(file, &mut *buffer, place),
            Operation::Write => rustix::io::pwrite(file, buffer, place),
        };
        let now = self.ledger.elapsed();
        match done {
            Ok(bytes) if bytes == buffer.len() => {
                self.ledger.moved(self.application, bytes, now);
                self.ledger.answered(self.application, operation, bytes, began, now);
            }
            Ok(bytes) => self.fail(format!("{operation:?} at {place} moved {bytes} of {} bytes", buffer.len())),
            Err(error) => self.fail(format!("{operation:?} at {place}: {error}")),
        }
    }

    /// A server that answers with errors at once is not asked a million times.
    fn fail(&self, what: String) {
        self.ledger.failed(self.application, what);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The places a client asks for in its files, in order or drawn by a linear congruential generator.
struct Places {
    slots: u64,
    bytes: u64,
    next: u64,
    random: bool,
}

impl Places {
    fn new(files: &Files, part: &Part, client: usize) -> Places {
        let bytes = part.bytes as u64;
        Places { slots: files.file_bytes / bytes, bytes, next: client as u64, random: files.random }
    }

    fn next_place(&mut self) -> u64 {
        // Knuth's MMIX constants; the upper bits are the random ones.
        let slot = match self.random {
            true => (self.next >> 33) % self.slots,
            false => self.next % self.slots,
        };
        self.next = match self.random {
            true => self.next.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407),
            false => self.next.wrapping_add(1),
        };
        slot * self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_lie_within_the_file() {
        for random in [false, true] {
            let mut places = Places { slots: 16, bytes: 65536, next: 2, random };
            let seen: std::collections::BTreeSet<u64> = (0..400).map(|_| places.next_place()).collect();
            assert!(seen.iter().all(|place| *place < 1 << 20 && place.is_multiple_of(65536)), "{seen:?}");
            assert_eq!(seen.len(), 16, "some places were never visited");
        }
    }
}
