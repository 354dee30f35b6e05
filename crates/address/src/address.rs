//! A store as users write it: a directory, or `thalweg://HOST:PORT` for a node.

use std::ffi::OsStr;
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::{Error, Result, escaped};

/// The prefix of a node's address.
pub const SCHEME: &[u8] = b"thalweg://";
/// The store when none is written.
const DEFAULT_STORE: &str = "THALWEG_STORE";

/// Where a store is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    Directory(PathBuf),
    /// A node's `HOST:PORT`.
    Node(String),
}

impl StoreAddress {
    /// Empty means `$THALWEG_STORE`, and `why` names the need for it.
    pub fn parse(written: &[u8], why: &str) -> Result<Self> {
        if written.is_empty() {
            return Self::from_environment(why);
        }
        let Some(address) = written.strip_prefix(SCHEME) else {
            refuse_other_scheme(written)?;
            return Ok(StoreAddress::Directory(PathBuf::from(OsStr::from_bytes(written))));
        };
        let address = address.strip_suffix(b"/").unwrap_or(address);
        let refuse =
            || Error::Address(format!("{}: a node's address is written thalweg://HOST:PORT", escaped(written)));
        let address = std::str::from_utf8(address).map_err(|_| refuse())?;
        match address.rsplit_once(':') {
            Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok() => {
                Ok(StoreAddress::Node(address.to_owned()))
            }
            _ => Err(refuse()),
        }
    }

    /// `$THALWEG_STORE`; `why` begins the sentence when it is not set.
    pub fn from_environment(why: &str) -> Result<Self> {
        match std::env::var_os(DEFAULT_STORE).filter(|store| !store.is_empty()) {
            Some(store) => Self::parse(store.as_bytes(), why),
            None => Err(Error::Address(format!("{why}, and ${DEFAULT_STORE} is not set"))),
        }
    }
}

/// `s3://bucket` would otherwise become a folder named `s3:`.
fn refuse_other_scheme(written: &[u8]) -> Result<()> {
    let Some(scheme) = scheme_of(written) else { return Ok(()) };
    let (written, scheme) = (escaped(written), escaped(scheme));
    Err(Error::Address(format!(
        "{written}: a store is a directory or thalweg://HOST:PORT, not {scheme}:// (a directory of that name is written \
         ./{written})"
    )))
}

/// Returns the scheme of a text written like a URL.
pub fn scheme_of(written: &[u8]) -> Option<&[u8]> {
    let scheme = &written[..written.windows(3).position(|part| part == b"://")?];
    (!scheme.is_empty() && scheme.iter().all(|byte| is_of_scheme(*byte))).then_some(scheme)
}

/// Letters, digits and `+-.`, as RFC 3986 has them.
fn is_of_scheme(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-.".contains(&byte)
}

impl fmt::Display for StoreAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreAddress::Directory(path) => f.write_str(&escaped(path.as_os_str().as_bytes())),
            StoreAddress::Node(address) => write!(f, "thalweg://{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_and_nodes_are_distinguished() {
        let parse = |written: &str| StoreAddress::parse(written.as_bytes(), "");
        assert_eq!(parse("/scratch/st").unwrap(), StoreAddress::Directory("/scratch/st".into()));
        assert_eq!(parse("thalweg://[::1]:7420/").unwrap(), StoreAddress::Node("[::1]:7420".into()));
        let refused = ["thalweg://host", "thalweg://:1", "thalweg://h:99999", "thalweg://", "s3://bucket", "S3://b/c"];
        for written in refused {
            assert!(parse(written).is_err(), "{written}");
        }
        for written in ["./s3://bucket", "a/b://c", "s3:", "://x"] {
            assert_eq!(parse(written).unwrap(), StoreAddress::Directory(written.into()));
        }
    }
}
