//! Places as users write them: `STORE::PATH`, with STORE a directory or `thalweg://HOST:PORT`.
//!
//! Both halves are bytes. The first `::` separates them, except inside the brackets of an IPv6 address.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use anyhow::{Context, anyhow, bail};
use format::StorePath;

use crate::shown;

const SCHEME: &[u8] = b"thalweg://";
/// The store of places that begin with `::`.
const DEFAULT_STORE: &str = "THALWEG_STORE";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    Directory(PathBuf),
    /// A node's `HOST:PORT`.
    Node(String),
}

/// A path in a store.
#[derive(Clone, Debug)]
pub struct Place {
    pub store: StoreAddress,
    pub path: StorePath,
    /// Written with a slash at its end, or the root: means *into* this directory.
    pub into: bool,
}

impl StoreAddress {
    /// A store as an argument of its own; without one, `$THALWEG_STORE`.
    pub fn of_argument(written: Option<&OsStr>) -> anyhow::Result<Self> {
        match written {
            Some(written) => {
                let bytes = written.as_bytes();
                match separator(bytes) {
                    Some(at) if at + 2 < bytes.len() => {
                        bail!("{}: this command takes a whole store, without a path", shown::escaped(bytes))
                    }
                    Some(at) => Self::parse(&bytes[..at]),
                    None => Self::parse(bytes),
                }
            }
            None => Self::from_environment("no store is named"),
        }
    }

    fn parse(written: &[u8]) -> anyhow::Result<Self> {
        if written.is_empty() {
            return Self::from_environment("no store is named before the `::`");
        }
        let Some(address) = written.strip_prefix(SCHEME) else {
            return Ok(StoreAddress::Directory(PathBuf::from(OsStr::from_bytes(written))));
        };
        let address = address.strip_suffix(b"/").unwrap_or(address);
        let shown = || shown::escaped(written);
        let address = std::str::from_utf8(address).with_context(|| format!("{}: not a node's address", shown()))?;
        match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(StoreAddress::Node(address.to_owned()))
            }
            _ => bail!("{}: a node's address is written thalweg://HOST:PORT", shown()),
        }
    }

    fn from_environment(why: &str) -> anyhow::Result<Self> {
        match std::env::var_os(DEFAULT_STORE).filter(|store| !store.is_empty()) {
            Some(store) => Self::parse(store.as_bytes()),
            None => bail!("{why}, and ${DEFAULT_STORE} is not set"),
        }
    }
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAddress::Directory(path) => f.write_str(&shown::escaped(path.as_os_str().as_bytes())),
            StoreAddress::Node(address) => write!(f, "thalweg://{address}"),
        }
    }
}

impl Place {
    pub fn parse(written: &OsStr) -> anyhow::Result<Self> {
        let bytes = written.as_bytes();
        let at = separator(bytes).ok_or_else(|| {
            let shown = shown::escaped(bytes);
            anyhow!("{shown}: not a place in a store; write STORE::PATH, as in `/scratch/st::run1/out.dat`")
        })?;
        let (store, path) = (&bytes[..at], &bytes[at + 2..]);
        let store = StoreAddress::parse(store)?;
        let into = path.is_empty() || path.ends_with(b"/");
        Ok(Place { store, path: StorePath::new(path)?, into })
    }

    /// Several places, which must all be of one store.
    pub fn parse_all(written: &[OsString]) -> anyhow::Result<Vec<Self>> {
        let places: Vec<_> = written.iter().map(|place| Place::parse(place)).collect::<anyhow::Result<_>>()?;
        let first = places.first().ok_or_else(|| anyhow!("no place is named"))?;
        if let Some(other) = places.iter().find(|place| place.store != first.store) {
            bail!("{} and {} are two stores; a command works on one", first.store, other.store);
        }
        Ok(places)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.store, shown::path(&self.path))
    }
}

/// Whether an argument names a place rather than a local file.
pub fn is_place(written: &OsStr) -> bool {
    separator(written.as_bytes()).is_some()
}

fn separator(written: &[u8]) -> Option<usize> {
    let start = if written.starts_with(b"thalweg://[") { written.iter().position(|byte| *byte == b']')? } else { 0 };
    written[start..].windows(2).position(|pair| pair == b"::").map(|at| start + at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Place {
        Place::parse(OsStr::new(text)).unwrap()
    }

    #[test]
    fn places_of_directories_and_nodes_are_told_apart() {
        let place = parse("/scratch/st::run1//out.dat");
        assert_eq!(place.store, StoreAddress::Directory("/scratch/st".into()));
        assert_eq!(place.path.as_bytes(), b"run1/out.dat");
        assert!(!place.into);
        let place = parse("thalweg://127.0.0.1:7420::run1/");
        assert_eq!(place.store, StoreAddress::Node("127.0.0.1:7420".into()));
        assert!(place.into);
    }

    #[test]
    fn the_colons_of_an_ipv6_address_separate_nothing() {
        let place = parse("thalweg://[::1]:7420::a::b");
        assert_eq!(place.store, StoreAddress::Node("[::1]:7420".into()));
        assert_eq!(place.path.as_bytes(), b"a::b");
    }

    #[test]
    fn the_root_means_into() {
        assert!(parse("st::").into && parse("st::").path.is_root());
    }

    #[test]
    fn paths_are_bytes() {
        let place = Place::parse(OsStr::from_bytes(b"st::\xff\n")).unwrap();
        assert_eq!(place.path.as_bytes(), b"\xff\n");
    }

    #[test]
    fn bad_places_are_refused() {
        for text in ["st", "", "st::../x", "st::a/..", "thalweg://host::x", "thalweg://:1::x", "thalweg://h:99999::x"] {
            assert!(Place::parse(OsStr::new(text)).is_err(), "{text:?}");
        }
        assert!(StoreAddress::of_argument(Some(OsStr::new("st::x"))).is_err());
        assert!(StoreAddress::of_argument(Some(OsStr::new("st::"))).is_ok());
    }
}
