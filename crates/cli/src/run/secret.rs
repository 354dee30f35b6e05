//! The secret of a job's own node: other users of the machine reach its address too.

use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// A new secret in a folder that only this user can enter; removed in the end.
pub(super) struct JobSecret {
    folder: PathBuf,
}

impl JobSecret {
    pub fn create() -> anyhow::Result<Self> {
        let number = u64::from_ne_bytes(::place::random_bytes()?);
        let folder = std::env::temp_dir().join(format!("thalweg-run-{}-{number:016x}", std::process::id()));
        let made = std::fs::DirBuilder::new().mode(0o700).create(&folder);
        made.with_context(|| format!("making a folder for the job's secret, {}", folder.display()))?;
        let secret = JobSecret { folder };
        transfer::create_secret(&secret.file())?;
        Ok(secret)
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    pub fn file(&self) -> PathBuf {
        self.folder.join("secret")
    }
}

impl Drop for JobSecret {
    fn drop(&mut self) {
        remove(Some(&self.folder));
    }
}

pub(super) fn remove(folder: Option<&Path>) {
    // Left behind it harms nobody: only its owner can read it, and its node is gone.
    let _ = folder.map(std::fs::remove_dir_all);
}

/// Processes of the job may work in other directories.
pub(super) fn absolute(file: &Path) -> anyhow::Result<PathBuf> {
    std::path::absolute(file).with_context(|| file.display().to_string())
}
