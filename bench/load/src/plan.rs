//! The plan of a run, as `bench/gate` writes it. An application is one or more parts; a part keeps `outstanding`
//! requests of one size under way while it is on.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// Not measured, at the beginning.
    pub warm_ms: u64,
    /// Measured, after that.
    pub measured_ms: u64,
    /// The width of a column of the series.
    pub interval_ms: u64,
    pub applications: Vec<Application>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Application {
    pub name: String,
    pub parts: Vec<Part>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    pub target: Target,
    pub outstanding: usize,
    /// Done in turn by each client, each client beginning with another one.
    pub operations: Vec<Operation>,
    /// Of a request: an object, or one pread or pwrite.
    pub bytes: usize,
    /// Requests after which the part is done; none: until the time is over.
    #[serde(default)]
    pub requests: Option<u64>,
    /// (begin, end) on the plan's clock in ms when the part is on; none: always.
    #[serde(default)]
    pub periods_ms: Vec<(u64, u64)>,
    /// The pause of a client after each answer.
    #[serde(default)]
    pub pause_ms: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase", deny_unknown_fields)]
pub enum Target {
    S3(S3),
    Files(Files),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3 {
    pub address: SocketAddr,
    pub access_key: String,
    pub secret_key: String,
    /// Path of the objects, `/bucket/prefix`; their number is appended.
    pub path: String,
    /// How many different objects.
    pub objects: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Files {
    /// For each client the files of its own that it visits in turn: a kernel may let one write at a time into a file.
    pub paths: Vec<Vec<PathBuf>>,
    pub file_bytes: u64,
    /// Places drawn evenly instead of one after the other.
    #[serde(default)]
    pub random: bool,
}

#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    Read,
    Write,
}

impl Plan {
    pub fn check(&self) -> Result<()> {
        ensure!(self.interval_ms > 0, "interval_ms is 0: a column of the series needs a width");
        for (application, part) in self.parts() {
            let name = &self.applications[application].name;
            ensure!(!part.operations.is_empty(), "{name} has a part without operations");
            ensure!(part.bytes > 0, "{name} has a part whose requests have 0 bytes");
            if let Target::Files(files) = &part.target {
                let enough = files.paths.len() >= part.outstanding && files.paths.iter().all(|own| !own.is_empty());
                ensure!(enough, "{name} has a part with fewer lists of files than outstanding requests");
                ensure!(part.bytes as u64 <= files.file_bytes, "{name}: the requests are larger than the files");
                ensure!(part.bytes.is_multiple_of(4096), "{name}: direct I/O needs multiples of 4096 bytes");
            }
        }
        Ok(())
    }

    /// Every part with the index of its application.
    pub fn parts(&self) -> impl Iterator<Item = (usize, &Part)> {
        self.applications
            .iter()
            .enumerate()
            .flat_map(|(index, application)| application.parts.iter().map(move |part| (index, part)))
    }

    pub fn length(&self) -> Duration {
        Duration::from_millis(self.warm_ms + self.measured_ms)
    }
}

/// Whether a part works now.
#[derive(Debug, PartialEq, Eq)]
pub enum Turn {
    On,
    /// Not before this time on the plan's clock.
    From(Duration),
    Over,
}

impl Part {
    pub fn turn(&self, elapsed: Duration, length: Duration) -> Turn {
        if elapsed >= length {
            return Turn::Over;
        }
        if self.periods_ms.is_empty() {
            return Turn::On;
        }
        let period = |&(begin, end): &(u64, u64)| (Duration::from_millis(begin), Duration::from_millis(end));
        match self.periods_ms.iter().map(period).find(|(_, end)| elapsed < *end) {
            Some((begin, _)) if begin <= elapsed => Turn::On,
            Some((begin, _)) => Turn::From(begin),
            None => Turn::Over,
        }
    }

    /// Of a client's request. The step to the next operation comes after as many requests and as many clients as there
    /// are places to visit, so that no place sees one kind of operation only.
    pub fn operation(&self, client: usize, number: u64) -> Operation {
        let places = match &self.target {
            Target::S3(_) => 1,
            Target::Files(files) => files.paths[client].len(),
        };
        self.operations[(client / places + number as usize / places) % self.operations.len()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(periods_ms: Vec<(u64, u64)>) -> Part {
        let target = Target::Files(Files { paths: vec![vec!["f".into()]], file_bytes: 1 << 20, random: false });
        let operations = vec![Operation::Read, Operation::Write];
        Part { target, outstanding: 1, operations, bytes: 4096, requests: None, periods_ms, pause_ms: 0 }
    }

    #[test]
    fn a_part_works_in_its_periods_only() {
        let part = part(vec![(100, 200), (300, 400)]);
        let at = |ms| part.turn(Duration::from_millis(ms), Duration::from_millis(350));
        assert_eq!(at(50), Turn::From(Duration::from_millis(100)));
        assert_eq!(at(100), Turn::On);
        assert_eq!(at(200), Turn::From(Duration::from_millis(300)));
        assert_eq!(at(349), Turn::On);
        assert_eq!(at(350), Turn::Over);
    }

    #[test]
    fn every_file_sees_every_operation() {
        let mut part = part(Vec::new());
        let Target::Files(files) = &mut part.target else { unreachable!() };
        files.paths = vec![vec!["a".into(), "b".into()]; 4];
        let of_first_file = |client: usize| -> Vec<_> {
            (0..8)
                .filter(|number| (client + *number as usize).is_multiple_of(2))
                .map(|n| part.operation(client, n))
                .collect()
        };
        for client in 0..4 {
            let seen = of_first_file(client);
            assert!(seen.contains(&Operation::Read) && seen.contains(&Operation::Write), "client {client}: {seen:?}");
        }
        assert_ne!(part.operation(0, 0), part.operation(2, 0), "not all begin with the same");
    }
}
