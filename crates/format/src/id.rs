//! Identifiers: fingerprints, containers, segment addresses, sessions, stores.

use std::fmt;

use crate::{Reader, Result, TableEntry, Writer};

/// The digest that identifies a segment. Shorter digests (SHA-1: 20 bytes) are padded with zeros.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    pub const BYTES: usize = 32;

    /// Returns eight of its bytes as a number, for hashing into maps and shards.
    pub fn low(&self) -> u64 {
        u64::from_le_bytes(self.0[..8].try_into().expect("eight of 32 bytes"))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0[..6].iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

macro_rules! number {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        pub struct $name(pub u64);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:016x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({:x})"), self.0)
            }
        }
    };
}

number! {
    /// A container's logical number: given by the catalog, never reused.
    ContainerId
}
number! {
    /// The target of a name; several names (hard links) may share one.
    FileId
}
number! {
    /// A lease in the catalog: a writer's, a reader's or a path's.
    SessionId
}

/// A segment that could not be read at the address that manifests name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostSegment {
    pub address: SegmentAddress,
    /// All zeros when the container's index was lost too.
    pub fingerprint: Fingerprint,
    /// Where the same content was stored again, or was found.
    pub copy: Option<SegmentAddress>,
}

/// One segment: a container and the segment's ordinal in it. Neither ever changes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SegmentAddress {
    pub container: ContainerId,
    pub ordinal: u32,
}

impl SegmentAddress {
    pub fn new(container: ContainerId, ordinal: u32) -> Self {
        SegmentAddress { container, ordinal }
    }

    /// Returns whether a container can have this number, and a segment in it this ordinal. Others come only from
    /// outside.
    pub fn is_possible(&self) -> bool {
        self.container.0 <= TableEntry::MAX_CONTAINER && self.ordinal <= TableEntry::MAX_ORDINAL
    }

    pub fn write(&self, to: &mut Writer) {
        to.u64(self.container.0).u32(self.ordinal);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        Ok(SegmentAddress { container: ContainerId(from.u64()?), ordinal: from.u32()? })
    }
}

impl fmt::Display for SegmentAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.container, self.ordinal)
    }
}

/// A store's own random id; containers have it, so that none can stray into another store.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct StoreId(pub [u8; 16]);

impl fmt::Display for StoreId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl std::str::FromStr for StoreId {
    type Err = crate::Error;

    fn from_str(text: &str) -> Result<Self> {
        let refuse =
            || crate::Error::Corrupt { what: "store id", why: format!("{text:?} is not 32 hexadecimal digits") };
        if text.len() != 32 || !text.is_ascii() {
            return Err(refuse());
        }
        let mut id = [0; 16];
        for (i, byte) in id.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).map_err(|_| refuse())?;
        }
        Ok(StoreId(id))
    }
}
