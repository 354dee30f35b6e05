//! How each type of field is written: little-endian numbers, counted lists and byte strings.

use catalog::{Checkpoint, Committed, FileEntry, PathSession, Purpose, Session, Version};
use format::{
    Attributes, BlockHeader, Change, ContainerId, FileId, Fingerprint, HandleKey, Label, Mode, Reader, Result, Root,
    Run, SegmentAddress, SegmentEntry, SessionId, StorePath, VersionId, VersionRecord, Writer,
};
use store::Answer;

use super::Extent;
use super::limits::{MAX_CHANGES, MAX_EXTENTS};

pub trait Field: Sized {
    /// The fewest bytes a value takes, so that forged counts are refused before memory is requested.
    const MIN_BYTES: usize;
    /// Longest list of such values, where they take much more memory than bytes of a message.
    const MAX_COUNT: usize = usize::MAX;
    fn write(&self, to: &mut Writer);
    fn read(from: &mut Reader) -> Result<Self>;
}

/// A block as [`store::StoredBlock`] has it, its payload travelling apart.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredBlockHeader {
    pub labels: Vec<Label>,
    pub header: BlockHeader,
    pub segments: Vec<SegmentEntry>,
}

macro_rules! plain {
    ($($type:ty, $bytes:literal, $method:ident);* $(;)?) => {
        $(impl Field for $type {
            const MIN_BYTES: usize = $bytes;
            fn write(&self, to: &mut Writer) {
                to.$method(*self);
            }
            fn read(from: &mut Reader) -> Result<Self> {
                from.$method()
            }
        })*
    };
}

plain! { u8, 1, u8; u16, 2, u16; u32, 4, u32; u64, 8, u64; i64, 8, i64; bool, 1, bool }

macro_rules! own {
    ($($type:ty, $bytes:expr);* $(;)?) => {
        $(impl Field for $type {
            const MIN_BYTES: usize = $bytes;
            fn write(&self, to: &mut Writer) {
                <$type>::write(self, to);
            }
            fn read(from: &mut Reader) -> Result<Self> {
                <$type>::read(from)
            }
        })*
    };
}

own! {
    SegmentAddress, 12; Run, 16; Label, 16; BlockHeader, 64; SegmentEntry, 36; Root, 5; Attributes, 53; VersionRecord, 14; VersionId, 16;
}

macro_rules! record {
    ($($type:ident, $bytes:expr, { $($field:ident),* });* $(;)?) => {
        $(impl Field for $type {
            const MIN_BYTES: usize = $bytes;
            fn write(&self, to: &mut Writer) {
                $(Field::write(&self.$field, to);)*
            }
            fn read(from: &mut Reader) -> Result<Self> {
                Ok($type { $($field: Field::read(from)?),* })
            }
        })*
    };
}

record! {
    StoredBlockHeader, 72, { labels, header, segments };
    Session, 16, { id, epoch };
    Version, 31, { number, committed_ns, record, attributes };
    FileEntry, 62, { file, attributes, head, links };
    Committed, 12, { sequence, numbers };
    PathSession, 41, { id, path, nodes, stripe_bytes, job, opened_ns, handles, interrupted };
    Checkpoint, 58, { session, stripe_set, owner, number, epoch, root, size, resized, frontier, stamps };
}

impl Field for Extent {
    const MIN_BYTES: usize = 16;
    const MAX_COUNT: usize = MAX_EXTENTS;
    fn write(&self, to: &mut Writer) {
        to.u64(self.offset).u64(self.bytes);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        Ok(Extent { offset: from.u64()?, bytes: from.u64()? })
    }
}

impl Field for Change {
    const MIN_BYTES: usize = 5;
    const MAX_COUNT: usize = MAX_CHANGES;
    fn write(&self, to: &mut Writer) {
        Change::write(self, to);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        Change::read(from)
    }
}

macro_rules! wrapped {
    ($($type:ident, $bytes:literal);* $(;)?) => {
        $(impl Field for $type {
            const MIN_BYTES: usize = $bytes;
            fn write(&self, to: &mut Writer) {
                Field::write(&self.0, to);
            }
            fn read(from: &mut Reader) -> Result<Self> {
                Ok($type(Field::read(from)?))
            }
        })*
    };
}

wrapped! { ContainerId, 8; FileId, 8; SessionId, 8; Fingerprint, 32; HandleKey, 16 }

impl<T: Field> Field for Box<T> {
    const MIN_BYTES: usize = T::MIN_BYTES;
    fn write(&self, to: &mut Writer) {
        (**self).write(to);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        T::read(from).map(Box::new)
    }
}

impl<const N: usize> Field for [u8; N] {
    const MIN_BYTES: usize = N;
    fn write(&self, to: &mut Writer) {
        to.put(self);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        from.array()
    }
}

impl Field for String {
    const MIN_BYTES: usize = 4;
    fn write(&self, to: &mut Writer) {
        to.text(self);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        from.text()
    }
}

impl Field for StorePath {
    const MIN_BYTES: usize = 4;
    fn write(&self, to: &mut Writer) {
        to.blob(self.as_bytes());
    }
    fn read(from: &mut Reader) -> Result<Self> {
        StorePath::new(from.blob()?)
    }
}

impl Field for Purpose {
    const MIN_BYTES: usize = 1;
    fn write(&self, to: &mut Writer) {
        to.u8(*self as u8);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        match from.u8()? {
            0 => Ok(Purpose::Read),
            1 => Ok(Purpose::Write),
            2 => Ok(Purpose::Path),
            other => from.refuse(format!("unknown purpose {other}")),
        }
    }
}

impl Field for Mode {
    const MIN_BYTES: usize = 1;
    fn write(&self, to: &mut Writer) {
        to.u8(*self as u8);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        let byte = from.u8()?;
        Mode::from_byte(byte).map_or_else(|| from.refuse(format!("unknown mode {byte}")), Ok)
    }
}

impl Field for Answer {
    const MIN_BYTES: usize = 1;
    fn write(&self, to: &mut Writer) {
        match self {
            Answer::Send => to.u8(0),
            Answer::Claimed => to.u8(1),
            Answer::Have(address) => {
                address.write(to.u8(2));
                to
            }
        };
    }
    fn read(from: &mut Reader) -> Result<Self> {
        match from.u8()? {
            0 => Ok(Answer::Send),
            1 => Ok(Answer::Claimed),
            2 => Ok(Answer::Have(SegmentAddress::read(from)?)),
            other => from.refuse(format!("unknown answer {other}")),
        }
    }
}

impl<T: Field> Field for Vec<T> {
    const MIN_BYTES: usize = 4;
    fn write(&self, to: &mut Writer) {
        to.list(self, |to, item| item.write(to));
    }
    fn read(from: &mut Reader) -> Result<Self> {
        let mut left = T::MAX_COUNT;
        from.list(T::MIN_BYTES, |from| match left.checked_sub(1) {
            Some(less) => {
                left = less;
                T::read(from)
            }
            None => from.refuse(format!("a list of more than {} entries", T::MAX_COUNT)),
        })
    }
}

impl<T: Field> Field for Option<T> {
    const MIN_BYTES: usize = 1;
    fn write(&self, to: &mut Writer) {
        to.option(self.as_ref(), |to, item| item.write(to));
    }
    fn read(from: &mut Reader) -> Result<Self> {
        from.option(T::read)
    }
}

impl<A: Field, B: Field> Field for (A, B) {
    const MIN_BYTES: usize = A::MIN_BYTES + B::MIN_BYTES;
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
        self.1.write(to);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        Ok((A::read(from)?, B::read(from)?))
    }
}

impl<A: Field, B: Field, C: Field> Field for (A, B, C) {
    const MIN_BYTES: usize = A::MIN_BYTES + B::MIN_BYTES + C::MIN_BYTES;
    fn write(&self, to: &mut Writer) {
        self.0.write(to);
        self.1.write(to);
        self.2.write(to);
    }
    fn read(from: &mut Reader) -> Result<Self> {
        Ok((A::read(from)?, B::read(from)?, C::read(from)?))
    }
}
