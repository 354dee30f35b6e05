//! A user's data: files and all below folders are read once, and it is estimated what a store would make of them.

mod files;
mod page;

use std::path::PathBuf;

use anyhow::bail;
use format::{CodecChoice, Mode};
use laboratory::{Compressed, Survey};
use serde_json::Value;

use crate::failure::Incomplete;
use crate::output::Output;
use crate::shown;

use files::{Walk, Walked};

/// Codecs that are tried: two fixed ones, then the modes.
const CODECS: [(&str, CodecChoice); 5] = [
    ("lz4", CodecChoice::Lz4),
    ("zstd:3", CodecChoice::Zstd(3)),
    ("performance", CodecChoice::Auto(Mode::Performance)),
    ("balanced", CodecChoice::Auto(Mode::Balanced)),
    ("archival", CodecChoice::Auto(Mode::Archival)),
];

pub struct Report {
    survey: Survey,
    walked: Walked,
    codecs: Vec<(&'static str, Compressed)>,
}

impl Report {
    pub fn of(data: &[PathBuf], seed: u64, output: &Output) -> anyhow::Result<Self> {
        let mut survey = Survey::new(seed);
        let progress = output.progress("plan");
        let mut walk = Walk::new(&mut survey, &progress);
        data.iter().for_each(|path| walk.read(path));
        let walked = walk.finish();
        progress.finish();
        let compressed = |(name, choice): (_, CodecChoice)| Some((name, survey.blocks.compressed(choice)?));
        let codecs = CODECS.into_iter().filter_map(compressed).collect();
        Ok(Report { survey, walked, codecs })
    }

    pub fn document(&self) -> Value {
        page::document(self)
    }

    pub fn lines(&self) -> Vec<String> {
        page::lines(self)
    }

    /// Names what could not be read; an error if there was any.
    pub fn complete(&self, output: &Output) -> anyhow::Result<()> {
        self.walked.problems.iter().for_each(|problem| output.note(problem));
        if self.walked.unreadable > 0 {
            let names = shown::count(self.walked.unreadable, "name");
            bail!(Incomplete(format!("{names} could not be read, and are not in the estimates")));
        }
        Ok(())
    }
}
