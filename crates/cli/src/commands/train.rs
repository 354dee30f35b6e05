//! `thalweg train`: fits the model by which codecs are chosen to a user's own data.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, bail};
use laboratory::{Block, Blocks, Measurement, measure};
use serde_json::json;

use crate::location::store_of_argument;
use crate::opening::directory;
use crate::output::Output;
use crate::progress::Progress;
use crate::shown;

/// Fit the choice of codecs to your own data
#[derive(clap::Args)]
#[command(
    after_help = "Blocks of the files are encoded in every way that Thalweg knows, which takes about half a second each; a model \
                        fitted to that predicts from then on what each way makes of a block like them. A store that has \
                        none uses the one that comes with Thalweg.\n\n\
                        Example: thalweg train run1/ run2/restart.bin --into /scratch/st"
)]
pub struct Arguments {
    /// Files, or folders of files, like those that will be stored
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
    let blocks = blocks(&arguments)?;
    let began = Instant::now();
    let measurements = measure_all(&blocks, &output.progress("train"))?;
    let bytes = segment::model_file(&laboratory::fit(&measurements))?;
    target.write(&bytes)?;
    let target = target.file();
    let seconds = began.elapsed().as_secs_f64();
    output.summary(format_args!(
        "trained on {} in {seconds:.0} s: {}",
        shown::count(measurements.len() as u64, "block"),
        target.display()
    ))?;
    output.document(&json!({
        "model": target.display().to_string(),
        "blocks": measurements.len(),
        "model_bytes": bytes.len(),
        "seconds": seconds,
    }))
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

    fn write(&self, bytes: &[u8]) -> anyhow::Result<()> {
        match self {
            Target::File(file) => std::fs::write(file, bytes).with_context(|| file.display().to_string()),
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

fn blocks(arguments: &Arguments) -> anyhow::Result<Vec<Block>> {
    let mut found = Blocks::default();
    for path in &arguments.data {
        found.add(path).with_context(|| path.display().to_string())?;
    }
    if found.is_empty() {
        bail!(
            "none of the files has 4 KiB or more, and shorter ones say too little; name data like what you will store"
        );
    }
    Ok(found.draw(arguments.blocks as usize))
}

/// Measures the blocks on all cores: each is timed by what its thread computes.
fn measure_all(blocks: &[Block], progress: &Progress) -> anyhow::Result<Vec<Measurement>> {
    progress.set_total(blocks.iter().map(|block| block.bytes as u64).sum());
    let waiting = Mutex::new(blocks.iter().enumerate());
    let next = || waiting.lock().expect("no thread panics while it takes a block").next();
    let work = || -> anyhow::Result<Vec<(usize, Measurement)>> {
        let mut done = Vec::new();
        while let Some((number, block)) = next() {
            let raw = block.read().with_context(|| block.path.display().to_string())?;
            done.push((number, measure(&raw)));
            progress.add(block.bytes as u64);
        }
        Ok(done)
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("measuring does not panic")).collect::<Vec<_>>()
    });
    progress.finish();
    let mut done = parts.into_iter().collect::<anyhow::Result<Vec<_>>>()?.concat();
    done.sort_by_key(|(number, _)| *number);
    Ok(done.into_iter().map(|(_, measurement)| measurement).collect())
}
