//! Blocks of a user's files, and work on each of them on all cores.

use std::path::PathBuf;
use std::sync::Mutex;

use anyhow::{Context, bail};
use laboratory::{Block, Blocks};

use crate::progress::Progress;

/// Draws about so many blocks of files and of all files below folders, one at least of each.
pub fn draw_blocks(paths: &[PathBuf], wanted: u32) -> anyhow::Result<Vec<Block>> {
    let mut found = Blocks::default();
    for path in paths {
        found.add(path).with_context(|| path.display().to_string())?;
    }
    if found.is_empty() {
        bail!(
            "none of the files has 4 KiB or more, and shorter ones say too little; name data like what you will store"
        );
    }
    Ok(found.draw(wanted as usize))
}

pub fn read(block: &Block) -> anyhow::Result<Vec<u8>> {
    block.read().with_context(|| block.path.display().to_string())
}

/// Returns what `work` makes of each block, in order.
pub fn on_all_cores<T: Send>(
    blocks: &[Block],
    progress: &Progress,
    work: impl Fn(&[u8]) -> T + Sync,
) -> anyhow::Result<Vec<T>> {
    let waiting = Mutex::new(blocks.iter().enumerate());
    let next = || waiting.lock().expect("no thread panics while it takes a block").next();
    let worker = || -> anyhow::Result<Vec<(usize, T)>> {
        let mut done = Vec::new();
        while let Some((number, block)) = next() {
            done.push((number, work(&read(block)?)));
            progress.add(block.bytes as u64);
        }
        Ok(done)
    };
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    let parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(worker)).collect();
        workers.into_iter().map(|worker| worker.join().expect("work on blocks does not panic")).collect::<Vec<_>>()
    });
    let mut made: Vec<Option<T>> = blocks.iter().map(|_| None).collect();
    for part in parts {
        part?.into_iter().for_each(|(number, of_block)| made[number] = Some(of_block));
    }
    Ok(made.into_iter().map(|of_block| of_block.expect("a thread took each block")).collect())
}
