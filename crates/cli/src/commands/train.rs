//! `thalweg train`: fits the model by which codecs are chosen to a user's own data.

use std::path::{Path, PathBuf};
use std::time::Instant;

use serde_json::json;

use crate::failure::misuse;
use crate::location::store_of_argument;
use crate::opening::directory;
use crate::output::Output;
use crate::sampling::{DataBlock, draw_blocks, on_all_cores};
use crate::{output_file, shown};

/// Fit the choice of codecs to your own data
#[derive(clap::Args)]
#[command(
    after_help = "Blocks of the files are encoded in every way that Thalweg knows, which takes about a quarter of a second each; a model \
                        fitted to that predicts from then on what each way makes of a block. It serves for all data of a store: train \
                        it on all kinds that are to be stored. A store that has none uses the one that comes with Thalweg. Nodes follow a new model within seconds, \
                        so a running program's first steps can be what it is fitted to, once they are committed.\n\n\
                        Example: thalweg train run1/ run2/restart.bin --into /scratch/st\n\
                        Example: thalweg train /scratch/st::run1 --into /scratch/st"
)]
pub struct Arguments {
    /// Files, or folders of files, like those that will be stored; local ones, or STORE::PATH
    #[arg(required = true, value_name = "DATA")]
    data: Vec<PathBuf>,
    /// The store whose data are encoded by the model from now on
    #[arg(long, value_name = "STORE", required_unless_present = "model")]
    into: Option<std::ffi::OsString>,
    /// Write the model to a file instead
    #[arg(long, value_name = "FILE", conflicts_with = "into")]
    model: Option<PathBuf>,
    /// Blocks to draw; of each file at least one is
    #[arg(long, value_name = "N", default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    blocks: u32,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let target = target(&arguments)?;
    let blocks = draw_blocks(&arguments.data, arguments.blocks)?;
    target.check(&blocks)?;
    let began = Instant::now();
    let progress = output.progress("train");
    progress.set_total(blocks.iter().map(|block| block.bytes as u64).sum());
    // Each is timed by what its thread computes.
    let sampled = on_all_cores(blocks, output, &progress, laboratory::measure)?;
    progress.finish();
    sampled.check_mostly_read()?;
    let bytes = segment::model_file(&laboratory::fit(&sampled.made))?;
    target.write(&bytes)?;
    let target = target.file();
    let seconds = began.elapsed().as_secs_f64();
    output.summary(format_args!(
        "trained on {} in {seconds:.0} s: {}",
        shown::count(sampled.made.len() as u64, "block"),
        target.display()
    ))?;
    output.document(&json!({
        "model": target.display().to_string(),
        "blocks": sampled.made.len(),
        "model_bytes": bytes.len(),
        "seconds": seconds,
    }))?;
    sampled.check_complete()
}

/// Where the model goes.
enum Target {
    File(PathBuf),
    Store(PathBuf),
}

impl Target {
    fn file(&self) -> PathBuf {
        match self {
            Target::File(file) => file.clone(),
            Target::Store(path) => path.join(repository::MODEL_FILE),
        }
    }

    /// Finds out before the work whether it can be written.
    fn check(&self, blocks: &[DataBlock]) -> anyhow::Result<()> {
        let file = self.file();
        if matches!(self, Target::Store(_)) && file.is_dir() {
            misuse!(OutputFile: "{}: is a directory, where the model's file belongs; remove it", shown::local(&file));
        }
        output_file::check(&file, blocks.iter().filter_map(|block| block.file.local_path()))
    }

    fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Target::File(file) => output_file::write(file, bytes),
            Target::Store(path) => Ok(repository::write_model(path, bytes)?),
        }
    }
}

/// Finds out before the work whether there is such a store.
fn target(arguments: &Arguments) -> anyhow::Result<Target> {
    if let Some(file) = &arguments.model {
        return Ok(Target::File(file.clone()));
    }
    let store = store_of_argument(arguments.into.as_deref())?;
    let path: &Path = directory(&store, "train")?;
    repository::read_settings(path)?;
    Ok(Target::Store(path.to_owned()))
}
