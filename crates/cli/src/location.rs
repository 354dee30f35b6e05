//! Places as users write them: `STORE::PATH`, with STORE a directory or `thalweg://HOST:PORT`.
//!
//! Both halves are bytes. The first `::` separates them, except inside the brackets of an IPv6 address and in the path of a
//! store that is there.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ::address::SCHEME;
pub use ::address::StoreAddress;
use format::{ErrorCode, StorePath};

use crate::failure::{UsageError, misuse};
use crate::shown;

const NOTHING_BEFORE: &str = "no store is named before the `::`";

/// A path in a store.
#[derive(Clone, Debug)]
pub struct Location {
    pub store: StoreAddress,
    pub path: StorePath,
    /// Written with a slash at its end, or the root: means *into* this directory.
    pub into: bool,
}

/// A store as an argument of its own; without one, `$THALWEG_STORE`.
pub fn store_of_argument(written: Option<&OsStr>) -> anyhow::Result<StoreAddress> {
    let Some(written) = written else { return Ok(StoreAddress::from_environment("no store is named")?) };
    let bytes = written.as_bytes();
    if is_store(bytes) {
        return Ok(StoreAddress::Directory(written.into()));
    }
    match separator(bytes) {
        Some(at) if at + 2 < bytes.len() => {
            misuse!(Address: "{}: this command takes a whole store, without a path (a store's own path should not hold `::`)",
                shown::escaped(bytes)
            )
        }
        Some(at) => Ok(StoreAddress::parse(&bytes[..at], NOTHING_BEFORE)?),
        None => Ok(StoreAddress::parse(bytes, "no store is named: the argument is empty")?),
    }
}

impl Location {
    pub fn parse(written: &OsStr) -> anyhow::Result<Self> {
        let bytes = written.as_bytes();
        let at = separator(bytes).ok_or_else(|| {
            let shown = shown::escaped(bytes);
            let example = if bytes.starts_with(address::SCHEME) { "thalweg://HOST:7420" } else { "/scratch/st" };
            let whole = if is_store(bytes) { format!(", or `{shown}::` for all of it") } else { String::new() };
            let text =
                format!("{shown}: not a place in a store; write STORE::PATH, as in `{example}::run1/out.dat`{whole}");
            UsageError { code: ErrorCode::Address, text }
        })?;
        let (store, path) = (&bytes[..at], &bytes[at + 2..]);
        let store = StoreAddress::parse(store, NOTHING_BEFORE)?;
        let into = path.is_empty() || path.ends_with(b"/");
        let path = StorePath::new(path).map_err(|error| UsageError { code: error.code(), text: error.to_string() })?;
        if repository::is_reserved(&path) && !repository::is_kept_file(&path) {
            let shown = shown::escaped(bytes);
            misuse!(
                ReservedName: "{shown}: stores keep their own files there; `thalweg snapshots` and `thalweg recipes` list them, \
                 `get --snapshot` fetches a snapshot"
            );
        }
        Ok(Location { store, path, into })
    }

    /// Refuses the root, which is there as long as its store.
    pub fn refuse_root(&self, action: &str) -> anyhow::Result<()> {
        if self.path.is_root() {
            misuse!(CannotMove: "{self}: the root of a store cannot be {action}; name what lies in it");
        }
        Ok(())
    }

    /// Several places, which must all be of one store.
    pub fn parse_all(written: &[OsString]) -> anyhow::Result<Vec<Self>> {
        let locations: Vec<_> =
            written.iter().map(|location| Location::parse(location)).collect::<anyhow::Result<_>>()?;
        let first = locations.first().ok_or_else(|| UsageError::new("no place is named"))?;
        if let Some(other) = locations.iter().find(|location| location.store != first.store) {
            misuse!("{} and {} are two stores; a command works on one", first.store, other.store);
        }
        Ok(locations)
    }
}

impl Location {
    /// As a command line takes it, whatever bytes its names have.
    pub fn to_bytes(&self) -> Vec<u8> {
        let store = match &self.store {
            StoreAddress::Directory(path) => path.as_os_str().as_bytes().to_vec(),
            node => node.to_string().into_bytes(),
        };
        [&store, &b"::"[..], self.path.as_bytes()].concat()
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}::{}", self.store, shown::path(&self.path))
    }
}

/// Whether an argument names a place rather than a local file.
pub fn is_location(written: &OsStr) -> bool {
    separator(written.as_bytes()).is_some()
}

/// Whether an argument that may name either names local files: a name with `::` does where it is there, and the directory
/// of a store does not.
pub fn is_local(written: &OsStr) -> bool {
    let bytes = written.as_bytes();
    let is_there = || Path::new(written).symlink_metadata().is_ok();
    !is_store(bytes) && (is_there() || !(bytes.starts_with(SCHEME) || is_location(written)))
}

fn separator(written: &[u8]) -> Option<usize> {
    let bracket = [SCHEME, b"["].concat();
    let start = if written.starts_with(&bracket) { written.iter().position(|byte| *byte == b']')? } else { 0 };
    let mut found = (start..written.len()).filter(|at| written[*at..].starts_with(b"::"));
    let first = found.clone().next()?;
    // A store whose own path holds `::` is found by its being there.
    if written.starts_with(SCHEME) || is_store(&written[..first]) {
        return Some(first);
    }
    found.find(|at| is_store(&written[..*at])).or(Some(first))
}

/// Whether a store lies in this directory.
fn is_store(path: &[u8]) -> bool {
    !path.is_empty() && Path::new(OsStr::from_bytes(path)).join("store.toml").is_file()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Location {
        Location::parse(OsStr::new(text)).unwrap()
    }

    #[test]
    fn locations_of_directories_and_nodes_are_distinguished() {
        let location = parse("/scratch/st::run1//out.dat");
        assert_eq!(location.store, StoreAddress::Directory("/scratch/st".into()));
        assert_eq!(location.path.as_bytes(), b"run1/out.dat");
        assert!(!location.into);
        let location = parse("thalweg://127.0.0.1:7420::run1/");
        assert_eq!(location.store, StoreAddress::Node("127.0.0.1:7420".into()));
        assert!(location.into);
    }

    #[test]
    fn the_colons_of_an_ipv6_address_separate_nothing() {
        let location = parse("thalweg://[::1]:7420::a::b");
        assert_eq!(location.store, StoreAddress::Node("[::1]:7420".into()));
        assert_eq!(location.path.as_bytes(), b"a::b");
    }

    #[test]
    fn the_root_means_into() {
        assert!(parse("st::").into && parse("st::").path.is_root());
    }

    #[test]
    fn paths_are_bytes() {
        let location = Location::parse(OsStr::from_bytes(b"st::\xff\n")).unwrap();
        assert_eq!(location.path.as_bytes(), b"\xff\n");
    }

    #[test]
    fn what_may_be_local_is_local_unless_a_store_is_meant() {
        let folder = tempfile::tempdir().unwrap();
        let [store, named] = ["st", "a::b"].map(|name| folder.path().join(name));
        std::fs::create_dir(&store).unwrap();
        std::fs::write(store.join("store.toml"), "").unwrap();
        std::fs::write(&named, "").unwrap();
        let [inside, other] = ["st::run1", "c::d"].map(|name| folder.path().join(name));
        for local in [named.as_os_str(), OsStr::new("missing")] {
            assert!(is_local(local), "{local:?}");
        }
        for stored in [store.as_os_str(), inside.as_os_str(), other.as_os_str(), OsStr::new("thalweg://host:1")] {
            assert!(!is_local(stored), "{stored:?}");
        }
    }

    #[test]
    fn bad_places_are_refused() {
        for text in ["st", "", "st::../x", "st::a/..", "thalweg://host::x", "thalweg://:1::x", "thalweg://h:99999::x"] {
            assert!(Location::parse(OsStr::new(text)).is_err(), "{text:?}");
        }
        assert!(store_of_argument(Some(OsStr::new("st::x"))).is_err());
        assert!(store_of_argument(Some(OsStr::new("st::"))).is_ok());
    }
}
