//! An open store: look-ups, reads, and commits of names.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use ::store::ClaimOwner;
use address::{CredentialFiles, StoreAddress, open_store_with, possible_access};
use format::{
    Attributes, Change, CodecChoice, ErrorCode, FileKind, FileTime, FileTimes, Mode, Settings, StoreId, StorePath,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use repository::{CommitEntry, FileWriter, Repository, WriteMode, refuse_reserved};

use crate::entry::Entry;
use crate::error::{misuse, numbered, of_address, of_path, of_repository};
use crate::process::OfProcess;
use crate::recomputed::Recomputed;
use crate::writer::{Draft, Writer};

/// Shared by all threads of the process that opened it.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Store {
    repository: OfProcess<Arc<Repository>>,
    claim_owners: AtomicU64,
    /// Dropped contents that were made again to be read.
    pub recomputed: OfProcess<Recomputed>,
}

/// Keeps versions that were looked up since readable while it lives, also removed and forgotten ones.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct EpochPin {
    _hold: OfProcess<repository::EpochPin>,
}

/// Mode, uid, gid and the time of the last change (ns since 1970).
type Owner = (u32, u32, u32, i64);

fn attributes(kind: FileKind, (mode, uid, gid, modified_ns): Owner) -> Attributes {
    let times = FileTimes { modified: FileTime::from_ns(modified_ns), changed: FileTime::default() };
    Attributes { kind, mode, uid, gid, times, ..Attributes::default() }
}

pub fn parse(path: &[u8]) -> PyResult<StorePath> {
    StorePath::new(path).map_err(of_path)
}

fn write_mode(written: &str) -> PyResult<WriteMode> {
    match written {
        "replace" => Ok(WriteMode::Replace),
        "create" => Ok(WriteMode::Create),
        "append" => Ok(WriteMode::Append),
        other => Err(misuse::<PyValueError>(format_args!("{other:?} is not a write mode"))),
    }
}

fn parse_mode(word: &str) -> PyResult<Mode> {
    word.parse().map_err(of_path)
}

/// Raises ValueError for a word that is no mode.
#[pyfunction]
pub fn check_mode(word: &str) -> PyResult<()> {
    parse_mode(word).map(drop)
}

/// Makes a store, with the settings that `thalweg init` has by default.
///
/// Parameters
/// ----------
/// directory : str or os.PathLike
///     Where; missing or empty.
/// encoding_mode : str, optional
///     How blocks are encoded: "performance", "balanced" (the default), "archival" or "energy".
///
/// Examples
/// --------
/// >>> thalweg.create("/scratch/st", encoding_mode="archival")
#[pyfunction]
#[pyo3(signature = (directory, encoding_mode=None))]
pub fn create(py: Python<'_>, directory: PathBuf, encoding_mode: Option<&str>) -> PyResult<()> {
    let mode = encoding_mode.map(parse_mode).transpose()?.unwrap_or_default();
    py.detach(|| {
        let id = StoreId(transfer::random_bytes().map_err(|error| of_address(error.into()))?);
        let settings = Settings { codec: CodecChoice::Auto(mode), ..Settings::new(id) };
        repository::create(&directory, &settings).map_err(|error| match &error {
            repository::Error::Refused { .. } if is_filled(&directory) => {
                numbered(libc::EEXIST, ErrorCode::FolderNotEmpty, &error)
            }
            _ => of_repository(error),
        })
    })
}

/// Of what is there already, as `os.mkdir` has it.
fn is_filled(directory: &Path) -> bool {
    directory.read_dir().is_ok_and(|mut entries| entries.next().is_some())
}

impl Store {
    pub fn repository(&self) -> PyResult<&Arc<Repository>> {
        self.repository.get()
    }

    pub fn claim_owner(&self) -> ClaimOwner {
        ClaimOwner(self.claim_owners.fetch_add(1, Ordering::Relaxed))
    }

    fn commit(&self, py: Python<'_>, changes: Vec<Change>) -> PyResult<()> {
        let repository = self.repository()?;
        let is_own = |path: &&StorePath| repository::is_reserved(path) && !repository::is_kept_file(path);
        if let Some(path) = changes.iter().map(Change::path).find(is_own) {
            refuse_reserved(path).map_err(of_repository)?;
        }
        let committed = py.detach(|| repository.commit(self.claim_owner(), changes, Default::default(), Vec::new()));
        committed.map(drop).map_err(of_repository)
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // Ending the session of a node that is gone takes its timeout, and Python waits for destructors.
        if let Some(repository) = self.repository.take() {
            std::thread::spawn(move || drop(repository));
        }
    }
}

#[pymethods]
impl Store {
    /// A directory, `thalweg://HOST:PORT`, or nothing for `$THALWEG_STORE`. A directory that may not be written to is
    /// opened for reading.
    #[new]
    #[pyo3(signature = (address, secret_file=None, tls_ca=None))]
    fn new(py: Python<'_>, address: &[u8], secret_file: Option<PathBuf>, tls_ca: Option<PathBuf>) -> PyResult<Self> {
        let files = CredentialFiles { secret_file, tls_ca };
        let open = || {
            let store = StoreAddress::parse(address, "no store is named")?;
            open_store_with(&files, &store, possible_access(&store))
        };
        let repository = py.detach(open).map_err(of_address)?;
        Ok(Store {
            repository: OfProcess::new(repository),
            claim_owners: AtomicU64::new(1),
            recomputed: OfProcess::new(Recomputed::default()),
        })
    }

    /// The store's identifier; another store in the same place has another one.
    #[getter]
    fn id(&self) -> PyResult<String> {
        Ok(self.repository()?.settings.id.to_string())
    }

    fn hold(&self, py: Python<'_>) -> PyResult<EpochPin> {
        let repository = self.repository()?;
        Ok(EpochPin { _hold: OfProcess::new(py.detach(|| repository.lease().hold())) })
    }

    fn entry(&self, py: Python<'_>, path: &[u8]) -> PyResult<Option<Entry>> {
        let (repository, path) = (self.repository()?, parse(path)?);
        let found = py.detach(|| repository.catalog().entry(&path)).map_err(|error| of_repository(error.into()))?;
        Ok(found.map(|entry| Entry::new(path, entry)))
    }

    /// Each an entry, None, or the exception that looking it up ended with.
    fn entries<'py>(&self, py: Python<'py>, paths: Vec<Vec<u8>>) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repository = self.repository()?;
        let paths: Vec<_> = paths.iter().map(|path| parse(path)).collect::<PyResult<_>>()?;
        let found = py.detach(|| repository.entries(&paths));
        let objects = paths.into_iter().zip(found).map(|(path, found)| match found {
            Ok(found) => Ok(found.map(|entry| Entry::new(path, entry)).into_pyobject(py)?.into_any()),
            Err(error) => Ok(of_repository(error).into_value(py).into_bound(py).into_any()),
        });
        objects.collect()
    }

    /// The entries of a directory, or all below it, in the order of the bytes of the paths.
    fn list(&self, py: Python<'_>, directory: &[u8], recursive: bool) -> PyResult<Vec<Entry>> {
        let (repository, directory) = (self.repository()?, parse(directory)?);
        let mut listed = Vec::new();
        let done: Result<(), catalog::Error> = py.detach(|| {
            repository::list(repository.catalog(), &directory, recursive, |batch| {
                listed.extend(batch.into_iter().map(|(path, entry)| Entry::new(path, entry)));
                Ok(())
            })
        });
        done.map_err(|error| of_repository(error.into()))?;
        Ok(listed)
    }

    /// The kept versions of a file, oldest first.
    fn versions(&self, py: Python<'_>, path: &[u8]) -> PyResult<Vec<Entry>> {
        let (repository, path) = (self.repository()?, parse(path)?);
        let look = || {
            let Some(entry) = repository.catalog().entry(&path)? else {
                return Err(catalog::Error::NotFound { path: path.clone() });
            };
            let versions = repository.catalog().versions(&path)?;
            Ok(versions.into_iter().map(|version| Entry::with_head(&path, &entry, version)).collect())
        };
        py.detach(look).map_err(|error| of_repository(error.into()))
    }

    /// The bytes of an entry's version from `start` to `end`, or to where it ends.
    fn read<'py>(&self, py: Python<'py>, entry: &Entry, start: u64, end: u64) -> PyResult<Bound<'py, PyBytes>> {
        let repository = self.repository()?;
        let record = entry.record().ok_or_else(no_content)?;
        let length = end.min(record.size).saturating_sub(start) as usize;
        // SAFETY: the interpreter makes a new object, of that length, which no other code has yet.
        let bytes = unsafe {
            let object = pyo3::ffi::PyBytes_FromStringAndSize(std::ptr::null(), length as isize);
            Bound::from_owned_ptr_or_err(py, object)?.cast_into_unchecked::<PyBytes>()
        };
        // SAFETY: the object is not handed out before all of it is written.
        let into = unsafe {
            let first = pyo3::ffi::PyBytes_AsString(bytes.as_ptr()).cast::<u8>();
            std::slice::from_raw_parts_mut(first, length)
        };
        let read = py.detach(|| repository.version_reader(record).read_at_side_by_side(start, into));
        match read.map_err(of_repository)? {
            read if read == length => Ok(bytes),
            read => Err(numbered(
                libc::EIO,
                ErrorCode::Internal,
                &std::io::Error::other(format!("{read} bytes were read instead of {length}")),
            )),
        }
    }

    /// Each the bytes, or the exception that reading them ended with; several at once.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(Bound<'py, Entry>, u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let repository = self.repository()?;
        let ranges: Vec<_> = ranges
            .iter()
            .map(|(entry, start, end)| Ok((entry.get().record().ok_or_else(no_content)?, *start..*end)))
            .collect::<PyResult<_>>()?;
        let read = py.detach(|| repository.read_many(&ranges));
        let objects = read.into_iter().map(|read| match read {
            Ok(bytes) => PyBytes::new(py, &bytes).into_any(),
            Err(error) => of_repository(error).into_value(py).into_bound(py).into_any(),
        });
        Ok(objects.collect())
    }

    /// Encodes in the mode of this name, or as the store's settings say.
    #[pyo3(signature = (encoding_mode=None))]
    fn writer(&self, py: Python<'_>, encoding_mode: Option<&str>) -> PyResult<Writer> {
        let (repository, mode) = (self.repository()?.clone(), encoding_mode.map(parse_mode).transpose()?);
        let writer = py.detach(|| FileWriter::new(repository, self.claim_owner()));
        Ok(Writer::new(match mode {
            Some(mode) => writer.with_codec(CodecChoice::Auto(mode)),
            None => writer,
        }))
    }

    /// A draft of an entry's content, which is not read.
    fn draft_of(&self, py: Python<'_>, entry: &Entry) -> PyResult<Draft> {
        let repository = self.repository()?;
        let record = entry.record().ok_or_else(no_content)?;
        Ok(Draft::new(py.detach(|| repository.draft_of(record)).map_err(of_repository)?))
    }

    /// Commits drafts under their names, all or none: (path, owner, `replace`, `create` or `append`, draft) each.
    fn commit_drafts(&self, py: Python<'_>, drafts: Vec<(Vec<u8>, Owner, String, Bound<'_, Draft>)>) -> PyResult<()> {
        let repository = self.repository()?;
        let mut entries = Vec::with_capacity(drafts.len());
        for (path, owner, mode, draft) in drafts {
            let (path, mode) = (parse(&path)?, write_mode(&mode)?);
            let attributes = attributes(FileKind::Regular, owner);
            entries.push(CommitEntry { path, attributes, mode, draft: draft.get().take()? });
        }
        py.detach(|| repository.name(self.claim_owner(), &entries)).map_err(|error| match &error {
            repository::Error::Catalog(catalog::Error::HeadMoved { path, .. })
                if entries.iter().any(|entry| entry.mode == WriteMode::Create && entry.path == *path) =>
            {
                let (code, why) = (ErrorCode::NameTaken, "the file exists already".into());
                numbered(libc::EEXIST, code, &repository::Error::Refused { code, path: path.to_string(), why })
            }
            _ => of_repository(error),
        })
    }

    fn make_directory(&self, py: Python<'_>, path: &[u8], owner: Owner) -> PyResult<()> {
        let attributes = attributes(FileKind::Directory, owner);
        self.commit(py, vec![Change::Make { path: parse(path)?, attributes }])
    }

    /// All of them or none.
    fn remove(&self, py: Python<'_>, paths: Vec<Vec<u8>>, recursive: bool) -> PyResult<()> {
        let changes = paths.iter().map(|path| Ok(Change::Remove { path: parse(path)?, recursive }));
        self.commit(py, changes.collect::<PyResult<_>>()?)
    }

    fn rename(&self, py: Python<'_>, from: &[u8], to: &[u8]) -> PyResult<()> {
        let (from, to) = (parse(from)?, parse(to)?);
        refuse_reserved(&to).map_err(of_repository)?;
        self.commit(py, vec![Change::Rename { from, to }])
    }

    /// Leaves nothing for others to tidy; the store is not to be used any more. A node that has not answered after
    /// `timeout_s` is left behind: the lease of its session runs out by itself.
    #[pyo3(signature = (timeout_s=None))]
    fn close(&self, py: Python<'_>, timeout_s: Option<f64>) -> PyResult<()> {
        let repository = self.repository()?.clone();
        let closed = py.detach(|| match timeout_s {
            None => repository.close(),
            Some(timeout_s) => close_within(repository, Duration::from_secs_f64(timeout_s)),
        });
        closed.map_err(of_repository)
    }
}

fn close_within(repository: Arc<Repository>, timeout: Duration) -> repository::Result<()> {
    let (sender, closed) = mpsc::channel();
    // Not Python's, which starts no threads while the interpreter ends.
    std::thread::spawn(move || sender.send(repository.close()));
    closed.recv_timeout(timeout).unwrap_or(Ok(()))
}

fn no_content() -> PyErr {
    misuse::<PyValueError>("only files have content")
}
