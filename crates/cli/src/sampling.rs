//! Blocks of a user's files, and work on each of them on all cores.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::Context;
use format::ErrorCode;
use laboratory::{Block, Blocks};

use crate::error_code::{self, Coded, fail};
use crate::failure::Incomplete;
use crate::output::Output;
use crate::progress::Progress;
use crate::shown;

/// Draws about so many blocks of files and of all files below folders, one at least of each.
pub fn draw_blocks(paths: &[PathBuf], wanted: u32) -> anyhow::Result<Vec<Block>> {
    let mut found = Blocks::default();
    for path in paths {
        found.add(path).with_context(|| path.display().to_string())?;
    }
    if found.is_empty() {
        fail!(NoSample: "none of the files has 4 KiB or more, and shorter ones say too little; name data like what you will store"
        );
    }
    Ok(found.draw(wanted as usize))
}

pub fn read(block: &Block) -> anyhow::Result<Vec<u8>> {
    let path = shown::local(&block.path);
    block.read().map_err(|error| match error.kind() {
        ErrorKind::UnexpectedEof => {
            Coded::new(ErrorCode::ChangedWhileRead, format!("{path}: became shorter while it was read")).into()
        }
        kind => Coded::new(ErrorCode::of_io(kind), format!("{path}: {error}")).into(),
    })
}

/// What was made of the blocks that could be read.
pub struct Sampled<T> {
    pub blocks: Vec<Block>,
    /// Of each of them.
    pub made: Vec<T>,
    wanted: usize,
}

impl<T> Sampled<T> {
    /// Fails when blocks are missing, whose files were named already.
    pub fn check_complete(&self) -> anyhow::Result<()> {
        let missing = self.wanted - self.made.len();
        if missing == 0 {
            return Ok(());
        }
        let blocks = shown::count(self.wanted as u64, "block");
        Err(Incomplete(format!("{missing} of {blocks} could not be read, and were left out")).into())
    }
}

/// Does `work` on each block, and names the files of those that cannot be read; fails when none can.
pub fn on_all_cores<T: Send>(
    blocks: Vec<Block>,
    output: &Output,
    progress: &Progress,
    work: impl Fn(&[u8]) -> T + Sync,
) -> anyhow::Result<Sampled<T>> {
    let wanted = blocks.len();
    let made = each_on_all_cores(&blocks, progress, work);
    let line = |error: &anyhow::Error| error_code::of(error).after(error);
    let failed = made.iter().filter_map(|made| made.as_ref().err().map(line));
    let failures: BTreeSet<String> = failed.collect();
    let failures: Vec<String> = failures.into_iter().collect();
    output.notes(&failures, String::clone, |more| shown::count(more as u64, "file"));
    let read = blocks.into_iter().zip(made).filter_map(|(block, made)| Some((block, made.ok()?)));
    let (blocks, made): (Vec<Block>, Vec<T>) = read.unzip();
    if made.is_empty() {
        fail!(NoSample: "none of {} could be read", shown::count(wanted as u64, "block"));
    }
    Ok(Sampled { blocks, made, wanted })
}

fn each_on_all_cores<T: Send>(
    blocks: &[Block],
    progress: &Progress,
    work: impl Fn(&[u8]) -> T + Sync,
) -> Vec<anyhow::Result<T>> {
    let waiting = Mutex::new(blocks.iter().enumerate());
    let next = || waiting.lock().expect("no thread panics while it takes a block").next();
    let worker = || {
        let mut done = Vec::new();
        while let Some((number, block)) = next() {
            done.push((number, read(block).map(|raw| work(&raw))));
            progress.add(block.bytes as u64);
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut made: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("work on blocks does not panic")).collect()
    });
    made.sort_unstable_by_key(|(number, _)| *number);
    made.into_iter().map(|(_, made)| made).collect()
}
