//! How fast a disk takes bytes, until they are durable.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Context;
use transfer::random_bytes;

use crate::progress::Progress;
use crate::shown;

const WRITE_BYTES: usize = 4 << 20;
const MAX_BYTES: usize = 512 << 20;
/// A slow disk gets no more bytes after this.
const WRITE_TIME: Duration = Duration::from_secs(3);

/// Writes random bytes to a file without a name below a directory; returns MB/s with the time until they are durable.
pub fn write_mb_per_s(directory: &Path, progress: &Progress) -> anyhow::Result<f64> {
    let noise = noise()?;
    let written = nameless(directory).and_then(|file| write(file, &noise, progress));
    let (bytes, took) =
        written.with_context(|| format!("{}: cannot be written to measure it", shown::local(directory)))?;
    Ok(bytes as f64 / 1e6 / took.as_secs_f64().max(1e-6))
}

/// A file that is gone when it is closed, however the process ends.
fn nameless(directory: &Path) -> io::Result<File> {
    let path = directory.join(format!(".thalweg-plan-{}", std::process::id()));
    let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

fn write(mut file: File, noise: &[u8], progress: &Progress) -> io::Result<(usize, Duration)> {
    let begun = Instant::now();
    let mut bytes = 0;
    while bytes < MAX_BYTES && begun.elapsed() < WRITE_TIME {
        file.write_all(noise)?;
        begin_writing_back(&file, bytes);
        bytes += noise.len();
        progress.add(noise.len() as u64);
    }
    file.sync_data()?;
    Ok((bytes, begun.elapsed()))
}

/// Has the disk begin with what was written from an offset on: left to itself the kernel lets it stand idle for the first
/// hundreds of MB.
fn begin_writing_back(file: &File, offset: usize) {
    let (from, bytes) = (offset as libc::off64_t, WRITE_BYTES as libc::off64_t);
    // SAFETY: the file is open. A file system that cannot do this writes when the file is synced.
    unsafe { libc::sync_file_range(file.as_raw_fd(), from, bytes, libc::SYNC_FILE_RANGE_WRITE) };
}

/// Bytes that no disk compresses.
fn noise() -> anyhow::Result<Vec<u8>> {
    const SEED_BYTES: usize = 8;
    let mut state = u64::from_le_bytes(random_bytes::<SEED_BYTES>()?) | 1;
    let word = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    Ok((0..WRITE_BYTES / SEED_BYTES).map(word).flat_map(u64::to_le_bytes).collect())
}
