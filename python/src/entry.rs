//! The target of a name, as it was at the request: reading by it gives one version's bytes, whatever is
//! committed meanwhile.

use catalog::{FileEntry, Version};
use format::{FileKind, StorePath, VersionRecord};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use repository::DroppedContent;

#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Entry {
    path: StorePath,
    entry: FileEntry,
}

impl Entry {
    pub fn new(path: StorePath, entry: FileEntry) -> Self {
        Entry { path, entry }
    }

    pub fn with_head(path: &StorePath, entry: &FileEntry, head: Version) -> Self {
        let attributes = head.attributes.as_deref().unwrap_or(&entry.attributes).clone();
        Entry { path: path.clone(), entry: FileEntry { attributes, head: Some(head), ..entry.clone() } }
    }

    /// None of directories and symbolic links.
    pub fn record(&self) -> Option<&VersionRecord> {
        self.entry.head.as_ref().map(|head| &head.record)
    }
}

#[pymethods]
impl Entry {
    #[getter]
    fn path<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, self.path.as_bytes())
    }

    #[getter]
    fn kind(&self) -> &'static str {
        match self.entry.attributes.kind {
            FileKind::Regular => "file",
            FileKind::Directory => "directory",
            FileKind::Symlink => "link",
        }
    }

    #[getter]
    fn size(&self) -> u64 {
        self.record().map_or(0, |record| record.size)
    }

    /// Whether its data was dropped: a recipe makes it again.
    #[getter]
    fn is_dropped(&self) -> bool {
        self.record().is_some_and(|record| DroppedContent::of(record).is_some())
    }

    #[getter]
    fn mode(&self) -> u32 {
        self.entry.attributes.mode
    }

    #[getter]
    fn uid(&self) -> u32 {
        self.entry.attributes.uid
    }

    #[getter]
    fn gid(&self) -> u32 {
        self.entry.attributes.gid
    }

    #[getter]
    fn links(&self) -> u64 {
        self.entry.links
    }

    #[getter]
    fn modified_ns(&self) -> i128 {
        self.entry.attributes.times.modified.as_ns()
    }

    #[getter]
    fn committed_ns(&self) -> Option<i64> {
        self.entry.head.as_ref().map(|head| head.committed_ns)
    }

    #[getter]
    fn version(&self) -> Option<u64> {
        self.entry.head.as_ref().map(|head| head.number)
    }

    /// BLAKE3 of the whole content, where the store has it.
    #[getter]
    fn content_digest<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        Some(PyBytes::new(py, &self.record()?.content?))
    }

    /// Names the content as well, but equal contents may have several: the digest of the manifest's root page, or that
    /// page itself where it is small.
    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyBytes>> {
        Some(PyBytes::new(py, self.record()?.root.key()))
    }

    #[getter]
    fn target<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.entry.attributes.target)
    }
}
