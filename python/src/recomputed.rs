//! Dropped contents that a process has made again, to be read until it closes their store.

use std::collections::HashSet;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use recipe::{ComputeOptions, Computed};
use repository::{DroppedContent, Repository};

#[derive(Default)]
pub struct Recomputed(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    contents: HashSet<DroppedContent>,
    /// Their files are there as long as these.
    runs: Vec<Computed>,
}

impl Recomputed {
    /// Makes these contents again, each once for all threads: others that want one wait here.
    pub fn provide(
        &self,
        repository: &Repository,
        wanted: &[DroppedContent],
        directory: &Path,
        must_stop: &(dyn Fn() -> bool + Sync),
    ) -> recipe::Result<()> {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let missing: HashSet<DroppedContent> =
            wanted.iter().filter(|content| !kept.contents.contains(content)).copied().collect();
        if missing.is_empty() {
            return Ok(());
        }
        let missing: Vec<DroppedContent> = missing.into_iter().collect();
        let plan = repository.plan_compute(&missing)?;
        let options = ComputeOptions { directory: directory.to_owned(), ..ComputeOptions::default() };
        let computed = recipe::compute(repository, &plan, &options, &|line| eprintln!("thalweg: {line}"), must_stop)?;
        for (content, file) in missing.iter().zip(&computed.files) {
            repository.provide(*content, file.path.clone());
        }
        kept.contents.extend(missing);
        kept.runs.push(computed);
        Ok(())
    }
}
