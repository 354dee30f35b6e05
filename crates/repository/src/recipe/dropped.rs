//! Contents that are not kept: a recipe makes them again.

use std::fmt;

use format::{Entry, EntryKind, Page, Root, VersionRecord, recipe_id};

use super::own_path;
use super::stored::attribute_of;
use crate::{Error, Repository};

/// The output of a recipe that a version consists of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DroppedContent {
    /// The recipe's digest.
    pub recipe: [u8; 32],
    /// Its number among the recipe's outputs.
    pub output: u32,
}

/// Why a content cannot be read now.
#[derive(Debug)]
pub struct Dropped {
    pub recipe_id: String,
    /// How long the recipe's command took (nanoseconds); none where the store has no such recipe.
    pub duration_ns: Option<u64>,
}

impl DroppedContent {
    /// Returns what makes this version again; none of a version that is kept.
    pub fn of(version: &VersionRecord) -> Option<Self> {
        let Root::Inline(page) = &version.root else { return None };
        match &Page::decode(page).ok()?.entries[..] {
            [Entry { kind: EntryKind::Dropped { output, recipe }, .. }] => {
                Some(DroppedContent { recipe: *recipe, output: *output })
            }
            _ => None,
        }
    }

    pub(super) fn entry(self, length: u64) -> Entry {
        Entry { length, kind: EntryKind::Dropped { output: self.output, recipe: self.recipe } }
    }

    /// Returns the manifest of a file of so many bytes that has nothing else.
    pub(super) fn root(self, length: u64) -> Root {
        Root::Inline(Page { level: 0, entries: vec![self.entry(length)] }.encode())
    }
}

impl fmt::Display for Dropped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let id = &self.recipe_id;
        match self.duration_ns {
            Some(duration_ns) => write!(
                f,
                "the data was dropped; recipe {id} makes it again in about {:.1} s: `thalweg recompute STORE::PATH` (-n says what \
                 it takes), or read it with --recompute",
                duration_ns as f64 / 1e9
            ),
            None => {
                write!(f, "the data was dropped, and the store has no recipe {id} any more, which would make it again")
            }
        }
    }
}

impl Repository {
    /// Returns the error of reading content that this recipe makes again.
    pub fn dropped(&self, recipe: &[u8; 32]) -> Error {
        let recipe_id = recipe_id(recipe);
        let entry = match self.catalog.entry(&own_path(&recipe_id)) {
            Ok(entry) => entry,
            Err(error) => return error.into(),
        };
        let attribute = entry.and_then(|entry| attribute_of(&entry.attributes).ok());
        let duration_ns = attribute.filter(|found| found.digest == *recipe).map(|found| found.duration_ns);
        Error::Dropped(Box::new(Dropped { recipe_id, duration_ns }))
    }
}
