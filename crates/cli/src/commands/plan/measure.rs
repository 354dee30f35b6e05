//! `thalweg plan --measure`: what this machine does: its cores, its disk, its link to a node.

mod disk;
mod energy;

use std::path::Path;

use anyhow::Context;
use laboratory::RATED;
use rustix::fs::statvfs;
use rustix::system::sysinfo;
use transfer::{Credentials, Link};

use super::system_file::{KEYS, Key, SystemFile};
use super::table::Cell::{Number, Word};
use super::table::{Table, column};
use crate::failure::misuse;
use crate::location::{StoreAddress, store_of_argument};
use crate::output::Output;
use crate::shown;

/// What was measured, and what is assumed beside it.
pub struct Measured {
    pub file: SystemFile,
    has_link: bool,
    has_energy: bool,
}

/// Measures cores, the disk below a directory and, to a node if one is named, the link; takes some seconds.
pub fn measure(node: Option<&str>, directory: &Path, output: &Output) -> anyhow::Result<Measured> {
    let address = node.map(node_address).transpose()?;
    let mut file = SystemFile::default();
    let machine = &mut file.machine;
    machine.nodes = 1.0;
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    machine.cores = cores as f64;
    // The link first: a node that does not answer is known at once.
    if let Some(address) = &address {
        let link_mb_per_s = link_mb_per_s(address)?;
        (machine.link_mb_per_s, machine.receive_mb_per_s) = (link_mb_per_s, link_mb_per_s);
    }
    machine.fingerprint_mb_per_s = laboratory::fingerprint_mb_per_s();
    let progress = output.progress("plan: writing to measure the disk,");
    let written = disk::write_mb_per_s(directory, &progress);
    progress.finish();
    machine.storage_mb_per_s = written?;
    machine.node_storage_mb_per_s = machine.storage_mb_per_s;
    let held = statvfs(directory).with_context(|| shown::local(directory))?;
    machine.kept_tb = (held.f_blocks as f64 * held.f_frsize as f64 / 1e12).max(1e-6);
    machine.program.written_gb = memory_bytes() / 2.0 / 1e9;
    file.codec_mb_per_s = laboratory::encode_mb_per_s([true; RATED.len()]);
    let core_watts = energy::core_watts(cores);
    file.machine.core_watts = core_watts.unwrap_or(file.machine.core_watts);
    Ok(Measured { file, has_link: address.is_some(), has_energy: core_watts.is_some() })
}

fn node_address(written: &str) -> anyhow::Result<String> {
    match store_of_argument(Some(written.as_ref()))? {
        StoreAddress::Node(address) => Ok(address),
        StoreAddress::Directory(_) => {
            misuse!(Address: "{written}: is no node; the link is measured to thalweg://HOST:PORT")
        }
    }
}

fn link_mb_per_s(address: &str) -> anyhow::Result<f64> {
    let measured =
        Credentials::of_environment_for(address).and_then(|credentials| Link::measure(address, &credentials));
    let link = measured.with_context(|| format!("{address}: the link to it cannot be measured"))?;
    Ok(link.bytes_per_s / 1e6)
}

fn memory_bytes() -> f64 {
    let found = sysinfo();
    found.totalram as f64 * f64::from(found.mem_unit)
}

impl Measured {
    /// Returns the file, with where each value comes from.
    pub fn text(&self) -> String {
        let header = "The machine that `thalweg plan --system` plans for, in MB of 10^6 bytes.\n\
                      Written by `thalweg plan --measure`: change what is assumed, and what another machine has.";
        self.file.text(header, |key| if self.is_measured(key) { " (measured)" } else { " (assumed)" })
    }

    fn is_measured(&self, key: &Key) -> bool {
        match (key.section, key.name) {
            ("nodes", "cores" | "fingerprint_mb_per_s") | ("codecs", _) => true,
            ("network", _) => self.has_link,
            ("nodes", "core_watts") => self.has_energy,
            ("storage", "mb_per_s" | "node_mb_per_s" | "kept_tb") => true,
            _ => false,
        }
    }

    /// Returns what was measured, for people and for programs.
    pub fn table(&self) -> Table {
        let measured = KEYS.iter().filter(|key| self.is_measured(key));
        let row = |key: &Key| {
            vec![
                Word(format!("{}.{}", key.section, key.name)),
                Number(self.file.value(key), 4),
                Word(key.what.to_owned()),
            ]
        };
        Table {
            name: "measured",
            title: "This machine".into(),
            columns: vec![column("key", "key", ""), column("value", "value", ""), column("what", "what", "")],
            rows: measured.map(row).collect(),
            notes: vec![],
        }
    }
}
