//! Manifests as trees of pages: built once, read in ranges, spliced into new versions.
//!
//! A page is cut where its entries' digests say so, so that an unchanged stretch of a file gives the same
//! pages again and they are stored once.

mod builder;
mod cursor;
mod extents;
mod narrow;
mod splice;
mod walk;

pub use builder::{Builder, BuiltManifest};
pub(crate) use cursor::Cursor;
pub(crate) use extents::Extents;
pub(crate) use narrow::{are_named, narrow};
pub(crate) use splice::{append, join, rewrite, splice};
pub(crate) use walk::{
    PageSet, UnreadablePage, all_entries, child_of, collect_new_runs, collect_runs, entries_in, is_leaf_of_pages,
};
