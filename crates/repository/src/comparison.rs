//! A catalog compared with its journal: every name, its attributes and versions.

use catalog::{CatalogView, FileEntry, Version};
use format::{FileKind, StorePath};

use crate::Result;

/// Names fetched at a time.
const LISTED_AT_ONCE: usize = 4096;

/// Where the two differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub path: StorePath,
    pub why: String,
    /// The journal misses a record that the catalog has: a rebuild would lose it.
    pub is_lost_in_journal: bool,
    /// The catalog misses a record that the journal has: a collection would lose it.
    pub is_lost_in_catalog: bool,
}

/// Hands over the differences between a catalog and what its journal gives, in the order of the paths.
pub(crate) fn compare(
    catalog: &dyn CatalogView,
    journal: &dyn CatalogView,
    differs: &mut dyn FnMut(Difference),
) -> Result<()> {
    let mut left = Names::of(catalog);
    let mut right = Names::of(journal);
    let (mut here, mut there) = (left.next()?, right.next()?);
    loop {
        match (&here, &there) {
            (None, None) => return Ok(()),
            (Some((path, _)), other) if other.as_ref().is_none_or(|(other, _)| path < other) => {
                let why = "the catalog has it, the journal in the containers does not".to_owned();
                differs(Difference { path: path.clone(), why, is_lost_in_journal: true, is_lost_in_catalog: false });
                here = left.next()?;
            }
            (Some((path, entry)), Some((other, kept))) if path == other => {
                compare_entries(catalog, journal, path, entry, kept, differs)?;
                (here, there) = (left.next()?, right.next()?);
            }
            (_, Some((path, _))) => {
                let why = "the catalog does not have it, the journal in the containers does".to_owned();
                differs(Difference { path: path.clone(), why, is_lost_in_journal: false, is_lost_in_catalog: true });
                there = right.next()?;
            }
            (Some(_), None) => unreachable!("a name without another is less than it"),
        }
    }
}

fn compare_entries(
    catalog: &dyn CatalogView,
    journal: &dyn CatalogView,
    path: &StorePath,
    entry: &FileEntry,
    kept: &FileEntry,
    differs: &mut dyn FnMut(Difference),
) -> Result<()> {
    let mut differ = |why: &str, is_lost_in_journal, is_lost_in_catalog| {
        differs(Difference { path: path.clone(), why: why.to_owned(), is_lost_in_journal, is_lost_in_catalog });
    };
    let is_file = kept.attributes.kind == FileKind::Regular;
    if entry.attributes.kind != kept.attributes.kind || (is_file && entry.file != kept.file) {
        differ("it is another file in the catalog than in the journal", true, true);
        return Ok(());
    }
    if entry.attributes != kept.attributes {
        differ("the catalog has other attributes than the journal", true, false);
    }
    if entry.links != kept.links {
        differ("the catalog counts its names otherwise than the journal", false, true);
    }
    if !is_file {
        return Ok(());
    }
    if entry.head != kept.head {
        differ("the catalog has another newest version than the journal", false, true);
    }
    let (versions, kept) = (catalog.versions(path)?, journal.versions(path)?);
    for version in &kept {
        match find(&versions, version.number) {
            None => {
                differ(&format!("the catalog does not have version {}, the journal does", version.number), false, true)
            }
            Some(found) if found.record != version.record || found.committed_ns != version.committed_ns => {
                differ(
                    &format!("version {} is another in the catalog than in the journal", version.number),
                    true,
                    true,
                );
            }
            Some(found) if has_other_attributes(found, version) => {
                let why = format!("version {} has other attributes in the catalog than in the journal", version.number);
                differ(&why, true, false);
            }
            Some(_) => {}
        }
    }
    for version in versions.iter().filter(|version| find(&kept, version.number).is_none()) {
        differ(&format!("the catalog has version {}, the journal does not", version.number), true, false);
    }
    Ok(())
}

/// Catalogs of earlier formats have kept none.
fn has_other_attributes(version: &Version, kept: &Version) -> bool {
    matches!((&version.attributes, &kept.attributes), (Some(one), Some(other)) if one != other)
}

fn find(versions: &[Version], number: u64) -> Option<&Version> {
    versions.binary_search_by_key(&number, |version| version.number).ok().map(|at| &versions[at])
}

/// All names of a view, a batch at a time.
struct Names<'a> {
    view: &'a dyn CatalogView,
    batch: std::vec::IntoIter<(StorePath, FileEntry)>,
    last: Option<StorePath>,
    is_over: bool,
}

impl<'a> Names<'a> {
    fn of(view: &'a dyn CatalogView) -> Self {
        Names { view, batch: Vec::new().into_iter(), last: None, is_over: false }
    }

    fn next(&mut self) -> Result<Option<(StorePath, FileEntry)>> {
        if self.batch.len() == 0 && !self.is_over {
            let listed = self.view.list(self.last.as_ref(), LISTED_AT_ONCE)?;
            self.is_over = listed.len() < LISTED_AT_ONCE;
            self.batch = listed.into_iter();
        }
        let next = self.batch.next();
        if let Some((path, _)) = &next {
            self.last = Some(path.clone());
        }
        Ok(next)
    }
}
