//! From an address to an open store, and the requirement that it be on this machine.

use std::path::Path;

pub use ::address::{connect, open_remote, open_store};

use crate::failure::misuse;
use crate::location::StoreAddress;

/// Returns the directory of a store that must be on this machine.
pub fn directory<'a>(store: &'a StoreAddress, verb: &str) -> anyhow::Result<&'a Path> {
    match store {
        StoreAddress::Directory(path) => Ok(path),
        StoreAddress::Node(_) => {
            misuse!(NeedsDirectory: "{store}: `thalweg {verb}` runs on the node's own machine, on the store's directory")
        }
    }
}
