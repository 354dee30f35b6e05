//! A user's data: files and all below folders are read once, and it is estimated what a store would make of them.

mod arguments;
mod files;
mod hard_links;
mod page;

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::bail;
use format::StorePath;
use laboratory::{Distinct, RATED, SampledCodec, Survey, Surveyed};
use policy::cost::store_overhead;
use serde_json::Value;

use super::table::Table;
use crate::failure::Incomplete;
use crate::output::Output;
use crate::progress::Progress;
use crate::put::{Exclusions, Source, total_bytes};
use crate::shown;

use files::{Walk, Walked};
pub use page::cut_name;

/// A codec or mode that is tried.
pub struct PlannedCodec {
    pub name: &'static str,
    /// The option of `init` and its value.
    pub option: (&'static str, &'static str),
    /// Blocks that it encodes at most: a quick one many, a slow one few.
    max_blocks: u64,
}

/// What [`RATED`] has, in its order.
pub const CODECS: [PlannedCodec; RATED.len()] = [
    PlannedCodec { name: "lz4", option: ("codec", "lz4"), max_blocks: 2048 },
    PlannedCodec { name: "zstd:3", option: ("codec", "zstd:3"), max_blocks: 256 },
    PlannedCodec { name: "performance", option: ("mode", "performance"), max_blocks: 256 },
    PlannedCodec { name: "balanced", option: ("mode", "balanced"), max_blocks: 256 },
    PlannedCodec { name: "archival", option: ("mode", "archival"), max_blocks: 32 },
];

pub struct Report {
    pub surveyed: Surveyed,
    walked: Walked,
}

impl Report {
    pub fn of(data: &[PathBuf], seed: u64, output: &Output) -> Self {
        let codecs =
            [0, 1, 2, 3, 4].map(|number| SampledCodec { choice: RATED[number], max_blocks: CODECS[number].max_blocks });
        let mut survey = Survey::new(seed, &codecs);
        let data = arguments::apart(data);
        let (progress, done) = (output.progress("plan"), AtomicBool::new(false));
        let walked = std::thread::scope(|scope| {
            if progress.is_shown() {
                scope.spawn(|| show_total(&data, &done, &progress));
            }
            let mut walk = Walk::new(&mut survey, &progress);
            data.iter().for_each(|path| walk.read(path));
            done.store(true, Ordering::Relaxed);
            walk.finish()
        });
        let surveyed = survey.finish();
        progress.finish();
        Report { surveyed, walked }
    }

    /// Returns the bytes of a store of all data, by what deduplication finds and what a codec leaves of that; none is 1.
    pub fn stored_bytes(&self, found: &Distinct, encoded_share: Option<f64>) -> f64 {
        let files = self.walked.files as f64;
        let blocks = found.unique_bytes * encoded_share.unwrap_or(1.0);
        blocks + store_overhead::bytes(found.unique_segments, files, encoded_share.is_some())
    }

    pub fn document(&self) -> Value {
        page::document(self)
    }

    /// Returns what was read, in a line.
    pub fn read(&self) -> String {
        page::read(self)
    }

    pub fn tables(&self) -> [Table; 3] {
        page::tables(self)
    }

    /// Names what could not be read; an error if there was any.
    pub fn complete(&self, output: &Output) -> anyhow::Result<()> {
        self.walked.problems.iter().for_each(|problem| output.note(problem));
        if self.walked.unreadable > 0 {
            let names = shown::count(self.walked.unreadable, "name");
            bail!(Incomplete(format!("{names} could not be read: the estimates are of the others")));
        }
        Ok(())
    }
}

/// Returns the share of all bytes that deduplication saves: an estimate may be above what there is, and of nothing nothing is saved.
pub fn saved_share(found: &Distinct, all: f64) -> f64 {
    if all > 0.0 { (1.0 - found.unique_bytes / all).max(0.0) } else { 0.0 }
}

fn show_total(data: &[PathBuf], done: &AtomicBool, progress: &Progress) {
    let source = |path: &PathBuf| Source { from: path.clone(), target: StorePath::root() };
    let sources: Vec<Source> = data.iter().map(source).collect();
    if let Some(bytes) = total_bytes(&sources, &Exclusions::default(), done) {
        progress.set_total(bytes);
    }
}
