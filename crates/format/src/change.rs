//! Changes to the catalog: the content of a commit, and its journal record in containers.

use crate::FORMAT_VERSION;
use crate::{Attributes, FileId, Reader, Result, Root, SessionId, StorePath, Writer, check_version, checksum, corrupt};

/// A version of a file. Numbers count within a file, and a file that is made again under the same name counts from 1
/// again, so that a number alone is ambiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionId {
    pub file: FileId,
    pub number: u64,
}

impl VersionId {
    pub fn write(&self, to: &mut Writer) {
        to.u64(self.file.0).u64(self.number);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        Ok(VersionId { file: FileId(from.u64()?), number: from.u64()? })
    }
}

/// One version of a file's content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionRecord {
    pub root: Root,
    /// Logical length (bytes).
    pub size: u64,
    /// BLAKE3 of the whole content, where the bytes passed in order.
    pub content: Option<[u8; 32]>,
}

impl VersionRecord {
    pub fn write(&self, to: &mut Writer) {
        self.root.write(to);
        to.u64(self.size).option(self.content.as_ref(), |to, digest| {
            to.put(digest);
        });
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        Ok(VersionRecord { root: Root::read(from)?, size: from.u64()?, content: from.option(|from| from.array())? })
    }
}

/// One change. A commit carries several, applied in order in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Makes `version` the head of `path`; the path and the directories above it are made when missing.
    /// With `base`, the change is refused when the head is another version by then: the caller rebases.
    Write {
        path: StorePath,
        attributes: Attributes,
        version: VersionRecord,
        base: Option<Option<VersionId>>,
    },
    /// A directory or symlink, made or replaced.
    Make {
        path: StorePath,
        attributes: Attributes,
    },
    /// `path` becomes another name of the file at `target`.
    Link {
        path: StorePath,
        target: StorePath,
    },
    /// Removes the name, with all below it when `recursive`; the last name's removal drops the versions.
    Remove {
        path: StorePath,
        recursive: bool,
    },
    /// Moves the name, with all below it; an existing file at `to` is replaced.
    Rename {
        from: StorePath,
        to: StorePath,
    },
    Attributes {
        path: StorePath,
        attributes: Attributes,
    },
    /// Drops these versions of the file at `path`; the head cannot be dropped. Refused when the path leads to another
    /// file than `file` by then.
    Forget {
        path: StorePath,
        file: FileId,
        versions: Vec<u64>,
    },
    /// The same content of a version of the file at `path` is found by another manifest. Refused when the path leads to
    /// another file than the version's by then, or has a session.
    Manifest {
        path: StorePath,
        version: VersionId,
        root: Root,
    },
}

impl Change {
    pub fn write(&self, to: &mut Writer) {
        match self {
            Change::Write { path, attributes, version, base } => {
                attributes.write(to.u8(0).blob(path.as_bytes()));
                version.write(to);
                to.option(base.as_ref(), |to, base| {
                    to.option(base.as_ref(), |to, version| version.write(to));
                });
            }
            Change::Make { path, attributes } => attributes.write(to.u8(1).blob(path.as_bytes())),
            Change::Link { path, target } => {
                to.u8(2).blob(path.as_bytes()).blob(target.as_bytes());
            }
            Change::Remove { path, recursive } => {
                to.u8(3).blob(path.as_bytes()).bool(*recursive);
            }
            Change::Rename { from, to: target } => {
                to.u8(4).blob(from.as_bytes()).blob(target.as_bytes());
            }
            Change::Attributes { path, attributes } => attributes.write(to.u8(5).blob(path.as_bytes())),
            Change::Forget { path, file, versions } => {
                to.u8(6).blob(path.as_bytes()).u64(file.0).list(versions, |to, number| {
                    to.u64(*number);
                });
            }
            Change::Manifest { path, version, root } => {
                version.write(to.u8(7).blob(path.as_bytes()));
                root.write(to);
            }
        }
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let kind = from.u8()?;
        let path = StorePath::new(from.blob()?)?;
        Ok(match kind {
            0 => Change::Write {
                path,
                attributes: Attributes::read(from)?,
                version: VersionRecord::read(from)?,
                base: from.option(|from| from.option(VersionId::read))?,
            },
            1 => Change::Make { path, attributes: Attributes::read(from)? },
            2 => Change::Link { path, target: StorePath::new(from.blob()?)? },
            3 => Change::Remove { path, recursive: from.bool()? },
            4 => Change::Rename { from: path, to: StorePath::new(from.blob()?)? },
            5 => Change::Attributes { path, attributes: Attributes::read(from)? },
            6 => Change::Forget { path, file: FileId(from.u64()?), versions: from.list(8, |from| from.u64())? },
            7 => Change::Manifest { path, version: VersionId::read(from)?, root: Root::read(from)? },
            other => return corrupt("catalog change", format!("unknown kind {other}")),
        })
    }

    pub fn path(&self) -> &StorePath {
        match self {
            Change::Write { path, .. } | Change::Make { path, .. } | Change::Link { path, .. } => path,
            Change::Remove { path, .. } | Change::Attributes { path, .. } | Change::Forget { path, .. } => path,
            Change::Manifest { path, .. } => path,
            Change::Rename { from, .. } => from,
        }
    }
}

/// One committed transaction as containers keep it: replaying all of them in the order of `sequence` restores the
/// catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRecord {
    /// The catalog's count of transactions; a record written twice has the same.
    pub sequence: u64,
    /// Time of the commit, by the catalog's clock (nanoseconds since 1970).
    pub committed_ns: i64,
    pub session: SessionId,
    /// File and version numbers given by this transaction, in the order of its [`Change::Write`]s.
    pub numbers: Vec<(FileId, u64)>,
    pub changes: Vec<Change>,
}

impl JournalRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.u16(FORMAT_VERSION).u64(self.sequence).i64(self.committed_ns).u64(self.session.0);
        to.list(&self.numbers, |to, (file, version)| {
            to.u64(file.0).u64(*version);
        });
        to.list(&self.changes, |to, change| change.write(to));
        to.finish()
    }

    /// Returns a checksum that distinguishes records of the same sequence; `encoded` is the whole record.
    pub fn checksum_of(encoded: &[u8]) -> u64 {
        checksum(encoded)
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let what = "journal record";
        let mut from = Reader::new(what, bytes);
        check_version(what, from.u16()?)?;
        let (sequence, committed_ns, session) = (from.u64()?, from.i64()?, SessionId(from.u64()?));
        let numbers = from.list(16, |from| Ok((FileId(from.u64()?), from.u64()?)))?;
        let record = JournalRecord { sequence, committed_ns, session, numbers, changes: from.list(5, Change::read)? };
        from.end()?;
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn journal_records_come_back() {
        let path = |text: &str| StorePath::new(text.as_bytes()).unwrap();
        let attributes =
            Attributes { mode: 0o644, extended: vec![(b"user.a".to_vec(), b"1".to_vec())], ..Default::default() };
        let version = VersionRecord { root: Root::Inline(vec![1, 2]), size: 2, content: Some([4; 32]) };
        let record = JournalRecord {
            sequence: 9,
            committed_ns: -1,
            session: SessionId(4),
            numbers: vec![(FileId(1), 2)],
            changes: vec![
                Change::Write {
                    path: path("a"),
                    attributes: attributes.clone(),
                    version,
                    base: Some(Some(VersionId { file: FileId(1), number: 3 })),
                },
                Change::Make { path: path("d"), attributes: attributes.clone() },
                Change::Link { path: path("b"), target: path("a") },
                Change::Remove { path: path("d"), recursive: true },
                Change::Rename { from: path("a"), to: path("c") },
                Change::Attributes { path: path("c"), attributes },
                Change::Forget { path: path("c"), file: FileId(1), versions: vec![1, 2] },
                Change::Manifest {
                    path: path("c"),
                    version: VersionId { file: FileId(1), number: 3 },
                    root: Root::Inline(vec![3]),
                },
            ],
        };
        let bytes = record.encode();
        assert_eq!(JournalRecord::decode(&bytes).unwrap(), record);
        for cut in 0..bytes.len() {
            assert!(JournalRecord::decode(&bytes[..cut]).is_err(), "cut at {cut}");
        }
    }
}
