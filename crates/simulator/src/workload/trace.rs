//! A trace file: one line a file or task, words separated by spaces; `#` begins a comment.
//!
//! ```text
//! file NAME BYTES
//! task SUBMITTED_S COMPUTE_S reads NAME... writes NAME...
//! batch
//! ```
//!
//! `batch` says that all tasks are known from the start. Names of tasks' files are declared before.

use std::collections::HashMap;

use policy::cache::ItemId;

use super::{MAX_SECONDS, Workload, WorkloadTask};

/// A task reads and writes at most so many files each.
const FILES_PER_TASK: usize = 64;

#[derive(Debug, thiserror::Error)]
#[error("line {line}: {why}")]
pub struct TraceError {
    pub line: usize,
    pub why: String,
}

pub fn trace(name: &str, text: &str) -> Result<Workload, TraceError> {
    let mut workload = Workload::new(name, Vec::new());
    let mut names = HashMap::new();
    let mut latest_s = 0.0;
    for (at, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split('#').next().unwrap_or("").split_whitespace().collect();
        let done = match words.as_slice() {
            [] => Ok(()),
            ["batch"] => {
                workload.is_batch = true;
                Ok(())
            }
            ["file", name, bytes] => declare(&mut workload, &mut names, name, bytes),
            ["task", submitted_s, compute_s, files @ ..] => {
                task(&mut workload, &names, submitted_s, compute_s, files, &mut latest_s)
            }
            _ => Err("neither `file NAME BYTES`, `task SUBMITTED_S COMPUTE_S reads ... writes ...` nor `batch`".into()),
        };
        done.map_err(|why| TraceError { line: at + 1, why })?;
    }
    if workload.is_empty() {
        return Err(TraceError { line: text.lines().count().max(1), why: "the trace has no task".into() });
    }
    Ok(workload)
}

fn declare(
    workload: &mut Workload,
    names: &mut HashMap<String, ItemId>,
    name: &str,
    bytes: &str,
) -> Result<(), String> {
    let bytes = bytes.parse().map_err(|_| format!("{bytes} is no number of bytes"))?;
    let file = ItemId(workload.file_bytes.len() as u32);
    workload.file_bytes.push(bytes);
    if names.insert(name.to_owned(), file).is_some() {
        return Err(format!("{name} is declared twice"));
    }
    Ok(())
}

fn task(
    workload: &mut Workload,
    names: &HashMap<String, ItemId>,
    submitted_s: &str,
    compute_s: &str,
    files: &[&str],
    latest_s: &mut f64,
) -> Result<(), String> {
    let (submitted_s, compute_s) = (seconds(submitted_s)?, seconds(compute_s)?);
    if submitted_s < *latest_s {
        return Err(format!("submitted at {submitted_s} s, before the task above it"));
    }
    *latest_s = submitted_s;
    let (mut inputs, mut outputs) = (Vec::new(), Vec::new());
    let mut list = None;
    for &word in files {
        match word {
            "reads" => list = Some(&mut inputs),
            "writes" => list = Some(&mut outputs),
            name => {
                let file = *names.get(name).ok_or_else(|| format!("{name} is not declared above"))?;
                list.as_mut().ok_or_else(|| format!("{name} is neither read nor written"))?.push(file);
            }
        }
    }
    inputs.sort_unstable();
    inputs.dedup();
    if inputs.len() > FILES_PER_TASK || outputs.len() > FILES_PER_TASK {
        return Err(format!("a task reads and writes at most {FILES_PER_TASK} files each"));
    }
    workload.push(WorkloadTask { submitted_s, compute_s, inputs: &inputs, outputs: &outputs });
    Ok(())
}

fn seconds(word: &str) -> Result<f64, String> {
    let seconds = word.parse::<f64>().ok().filter(|seconds| (0.0..=MAX_SECONDS).contains(seconds));
    seconds.ok_or_else(|| format!("{word} is no time in seconds from 0 to {MAX_SECONDS}"))
}
