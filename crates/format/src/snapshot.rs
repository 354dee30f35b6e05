//! Snapshots of trees: the facts about one, and the records of its listing.

use crate::{
    Attributes, FileId, FileKind, MAX_FILE_BYTES, Reader, Result, StorePath, Writer, check_version, checksum, corrupt,
};

/// The directory in the root of a store where its snapshots lie. It is the store's own.
pub const SNAPSHOT_DIRECTORY: &[u8] = b".thalweg-snapshots";
/// The extended attribute of a snapshot's file that holds its [`SnapshotRecord`].
pub const SNAPSHOT_ATTRIBUTE: &[u8] = b"thalweg.snapshot";

/// Of a machine's name (bytes).
pub const MAX_HOST_BYTES: usize = 255;
/// Of a tag (bytes).
pub const MAX_TAG_BYTES: usize = 255;
/// Of a snapshot.
pub const MAX_TAGS: usize = 100;

const VERSION: u16 = 0;
const VERSION_FIELDS_BYTES: usize = 17;
/// A listing's segment ends after a path whose checksum has so many zero bits at its end (mean: 64 names).
const BOUNDARY_MASK: u64 = 63;
/// It ends here in any case (bytes).
const MAX_LISTING_SEGMENT_BYTES: usize = 256 << 10;

/// The facts of a snapshot that are known without reading it.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct SnapshotRecord {
    /// The machine whose files were put.
    pub host: String,
    /// Each absolute path that was put, with its place in the store; sorted.
    pub sources: Vec<(Vec<u8>, StorePath)>,
    /// Sorted, none twice.
    pub tags: Vec<String>,
    /// Length of the listing (bytes): the contents follow it.
    pub listing_bytes: u64,
    /// Names in the listing.
    pub names: u64,
    /// Of its files, those with several names counted once (bytes).
    pub content_bytes: u64,
    /// Names that could not be read, and are not in it.
    pub missing: u64,
}

impl SnapshotRecord {
    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.u16(VERSION).text(&self.host);
        to.list(&self.sources, |to, (from, target)| {
            to.blob(from).blob(target.as_bytes());
        });
        to.list(&self.tags, |to, tag| {
            to.text(tag);
        });
        to.u64(self.listing_bytes).u64(self.names).u64(self.content_bytes).u64(self.missing);
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let what = "snapshot";
        let mut from = Reader::new(what, bytes);
        check_version(what, from.u16()?)?;
        let facts = SnapshotRecord {
            host: from.text()?,
            sources: from.list(8, |from| Ok((from.blob()?.to_vec(), StorePath::new(from.blob()?)?)))?,
            tags: from.list(4, Reader::text)?,
            listing_bytes: from.u64()?,
            names: from.u64()?,
            content_bytes: from.u64()?,
            missing: from.u64()?,
        };
        from.end()?;
        match facts.refusal() {
            Some(why) => corrupt(what, why),
            None => Ok(facts),
        }
    }

    /// Returns why these cannot be a snapshot's facts.
    fn refusal(&self) -> Option<&'static str> {
        let is_word = |text: &str, most: usize| text.len() <= most && !text.contains(char::is_control);
        let sum = self.listing_bytes.checked_add(self.content_bytes);
        if sum.is_none_or(|sum| sum > MAX_FILE_BYTES) {
            Some("it would be longer than any file")
        } else if !is_word(&self.host, MAX_HOST_BYTES) {
            Some("its host has no possible name")
        } else if self.tags.len() > MAX_TAGS || !self.tags.iter().all(|tag| is_word(tag, MAX_TAG_BYTES)) {
            Some("its tags are too many, too long, or have control characters")
        } else if !self.tags.is_sorted_by(|one, next| one < next) || !self.sources.is_sorted() {
            Some("its tags or sources are not in order")
        } else if self.names > self.listing_bytes {
            Some("its listing is too short for its names")
        } else {
            None
        }
    }
}

/// Whether a name shares its file with others of the same snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum LinkKind {
    /// The only name of its file there.
    #[default]
    Only = 0,
    /// The first of several: the content stands here.
    First = 1,
    /// Another name of a file: its content stands at the first.
    Again = 2,
}

/// The content of a listed name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotContent {
    pub size: u64,
    /// BLAKE3 of the whole, as the version has it.
    pub digest: Option<[u8; 32]>,
    pub file: FileId,
    /// The version's number.
    pub number: u64,
    pub link_kind: LinkKind,
}

/// A name of a snapshot's listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotEntry {
    pub path: StorePath,
    /// Without inode and time of change.
    pub attributes: Attributes,
    /// Of a regular file.
    pub content: Option<SnapshotContent>,
}

impl SnapshotEntry {
    pub fn write(&self, to: &mut Writer) {
        self.attributes.write(to.blob(self.path.as_bytes()));
        if let Some(content) = &self.content {
            to.u64(content.size).option(content.digest.as_ref(), |to, digest| {
                to.put(digest);
            });
            to.put(&version_fields(content.file, content.number, content.link_kind));
        }
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let (path, attributes) = (StorePath::new(from.blob()?)?, Attributes::read(from)?);
        let content = match attributes.kind {
            FileKind::Regular => Some(SnapshotContent {
                size: from.u64()?,
                digest: from.option(|from| from.array())?,
                file: FileId(from.u64()?),
                number: from.u64()?,
                link_kind: match from.u8()? {
                    0 => LinkKind::Only,
                    1 => LinkKind::First,
                    2 => LinkKind::Again,
                    other => return corrupt("snapshot", format!("a name of kind {other}")),
                },
            }),
            FileKind::Directory | FileKind::Symlink => None,
        };
        Ok(SnapshotEntry { path, attributes, content })
    }
}

/// Returns the last fields of a regular file's record, which are known when its version has a number.
pub fn version_fields(file: FileId, number: u64, kind: LinkKind) -> [u8; VERSION_FIELDS_BYTES] {
    let mut fields = [0; VERSION_FIELDS_BYTES];
    fields[..8].copy_from_slice(&file.0.to_le_bytes());
    fields[8..16].copy_from_slice(&number.to_le_bytes());
    fields[16] = kind as u8;
    fields
}

/// Returns whether a segment of a listing ends after the record of this path, `bytes` after it began. Unchanged stretches of
/// two listings have the same segments.
pub fn ends_listing_segment(path: &[u8], bytes: usize) -> bool {
    checksum(path) & BOUNDARY_MASK == 0 || bytes >= MAX_LISTING_SEGMENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> StorePath {
        StorePath::new(text.as_bytes()).unwrap()
    }

    #[test]
    fn facts_come_back() {
        let facts = SnapshotRecord {
            host: "n7".into(),
            sources: vec![(b"/home/\xff".to_vec(), path("a/b"))],
            tags: vec!["x".into(), "y".into()],
            listing_bytes: 100,
            names: 2,
            content_bytes: 3,
            missing: 4,
        };
        let bytes = facts.encode();
        assert_eq!(SnapshotRecord::decode(&bytes).unwrap(), facts);
        assert!((0..bytes.len()).all(|cut| SnapshotRecord::decode(&bytes[..cut]).is_err()));
        for forged in [
            SnapshotRecord { content_bytes: u64::MAX, ..facts.clone() },
            SnapshotRecord { names: 101, ..facts.clone() },
            SnapshotRecord { host: "a\nb".into(), ..facts.clone() },
            SnapshotRecord { host: "h".repeat(MAX_HOST_BYTES + 1), ..facts.clone() },
            SnapshotRecord { tags: vec!["y".into(), "x".into()], ..facts.clone() },
            SnapshotRecord { tags: vec!["x".into(), "x".into()], ..facts.clone() },
            SnapshotRecord { tags: (0..=MAX_TAGS).map(|tag| format!("{tag:04}")).collect(), ..facts.clone() },
        ] {
            assert!(SnapshotRecord::decode(&forged.encode()).is_err(), "{forged:?}");
        }
    }

    #[test]
    fn listed_names_come_back() {
        let content =
            SnapshotContent { size: 7, digest: Some([3; 32]), file: FileId(8), number: 9, link_kind: LinkKind::Again };
        let directory = Attributes { kind: FileKind::Directory, ..Attributes::default() };
        for name in [
            SnapshotEntry { path: path("a/f"), attributes: Attributes::default(), content: Some(content) },
            SnapshotEntry { path: path("a"), attributes: directory, content: None },
        ] {
            let mut to = Writer::new();
            name.write(&mut to);
            let bytes = to.finish();
            let mut from = Reader::new("test", &bytes);
            assert_eq!(SnapshotEntry::read(&mut from).unwrap(), name);
            from.end().unwrap();
            assert!((0..bytes.len()).all(|cut| SnapshotEntry::read(&mut Reader::new("test", &bytes[..cut])).is_err()));
        }
    }
}
