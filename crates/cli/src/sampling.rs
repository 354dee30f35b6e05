//! Blocks of a user's files, and work on each of them on all cores.

mod data_file;
mod stored_files;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use anyhow::Context;
use laboratory::{Block, Blocks};

use crate::error_code::{self, fail};
use crate::failure::{Incomplete, explained, is_of_an_absent_node};
use crate::location::{Location, is_local};
use crate::output::Output;
use crate::progress::Progress;
use crate::shown;

pub use data_file::DataFile;
use stored_files::Stores;

/// A block of a user's data.
pub type DataBlock = Block<DataFile>;

/// Draws about so many blocks of files and of all files below folders, local ones and those of stores, one at least of each.
pub fn draw_blocks(data: &[PathBuf], wanted: u32) -> anyhow::Result<Vec<DataBlock>> {
    let mut found = Blocks::default();
    let mut stores = Stores::default();
    for place in data {
        match is_local(place.as_os_str()) {
            true => found.add(place).with_context(|| place.display().to_string())?,
            false => stores.find(&Location::parse(place.as_os_str())?, &mut found)?,
        }
    }
    if found.is_empty() {
        fail!(NoSample: "none of the files has 4 KiB or more, and shorter ones say too little; name data like what you will store{}",
            stores.advice()
        );
    }
    Ok(found.draw(wanted as usize))
}

pub fn read(block: &DataBlock) -> anyhow::Result<Vec<u8>> {
    block.file.read(block.offset, block.bytes)
}

/// What was made of the blocks that could be read.
pub struct Sampled<T> {
    pub blocks: Vec<DataBlock>,
    /// Of each of them.
    pub made: Vec<T>,
    wanted: usize,
}

impl<T> Sampled<T> {
    /// Fails when more blocks are missing than were read: what was made of the others says little of the data.
    pub fn check_mostly_read(&self) -> anyhow::Result<()> {
        if self.made.len() * 2 >= self.wanted {
            return Ok(());
        }
        let (read, blocks) = (self.made.len(), shown::count(self.wanted as u64, "block"));
        Err(Incomplete(format!("only {read} of {blocks} could be read, and nothing was written")).into())
    }

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

/// Does `work` on each block, and names the files of those that cannot be read; fails when none can, or when a node is away.
pub fn on_all_cores<T: Send>(
    blocks: Vec<DataBlock>,
    output: &Output,
    progress: &Progress,
    work: impl Fn(&[u8]) -> T + Sync,
) -> anyhow::Result<Sampled<T>> {
    let wanted = blocks.len();
    let made = each_on_all_cores(&blocks, progress, work)?;
    let line = |error: &anyhow::Error| error_code::of(error).after(explained(error));
    let failed = made.iter().filter_map(|made| made.as_ref().err().map(line));
    let failures: BTreeSet<String> = failed.collect();
    let failures: Vec<String> = failures.into_iter().collect();
    output.notes(&failures, String::clone, |more| shown::count(more as u64, "file"));
    let read = blocks.into_iter().zip(made).filter_map(|(block, made)| Some((block, made.ok()?)));
    let (blocks, made): (Vec<DataBlock>, Vec<T>) = read.unzip();
    if made.is_empty() {
        fail!(NoSample: "none of {} could be read", shown::count(wanted as u64, "block"));
    }
    Ok(Sampled { blocks, made, wanted })
}

fn each_on_all_cores<T: Send>(
    blocks: &[DataBlock],
    progress: &Progress,
    work: impl Fn(&[u8]) -> T + Sync,
) -> anyhow::Result<Vec<anyhow::Result<T>>> {
    let waiting = Mutex::new(blocks.iter().enumerate());
    let absence = OnceLock::new();
    let take = || waiting.lock().expect("no thread panics while it takes a block").next();
    let next = || if absence.get().is_none() { take() } else { None };
    let worker = || {
        let mut done = Vec::new();
        while let Some((number, block)) = next() {
            match read(block) {
                Err(error) if is_absence(&error) => drop(absence.set(error)),
                raw => done.push((number, raw.map(|raw| work(&raw)))),
            }
            progress.add(block.bytes as u64);
        }
        done
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let mut made: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("work on blocks does not panic")).collect()
    });
    if let Some(error) = absence.into_inner() {
        return Err(error);
    }
    made.sort_unstable_by_key(|(number, _)| *number);
    Ok(made.into_iter().map(|(_, made)| made).collect())
}

/// All other blocks of the node would meet the same.
fn is_absence(error: &anyhow::Error) -> bool {
    error.downcast_ref().is_some_and(is_of_an_absent_node)
}
