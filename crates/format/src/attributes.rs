//! File metadata kept besides the content: kind, mode, owner, times, link target, extended attributes.

use crate::{Reader, Result, Writer, corrupt};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum FileKind {
    #[default]
    Regular = 0,
    Directory = 1,
    Symlink = 2,
}

/// A file's time, as file systems have it: 64 bits of nanoseconds would end in the year 2262, and ext4 and XFS have
/// later times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FileTime {
    /// Since 1970, rounded down: negative before.
    pub seconds: i64,
    /// On top of the seconds; below 10⁹.
    pub nanoseconds: u32,
}

impl FileTime {
    const SECOND_NS: i64 = 1_000_000_000;

    pub fn from_ns(since_1970_ns: i64) -> Self {
        let (seconds, rest) = (since_1970_ns.div_euclid(Self::SECOND_NS), since_1970_ns.rem_euclid(Self::SECOND_NS));
        FileTime { seconds, nanoseconds: rest as u32 }
    }

    /// Returns nanoseconds since 1970.
    pub fn as_ns(&self) -> i128 {
        self.seconds as i128 * Self::SECOND_NS as i128 + self.nanoseconds as i128
    }

    fn write(&self, to: &mut Writer) {
        to.i64(self.seconds).u32(self.nanoseconds);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        let time = FileTime { seconds: from.i64()?, nanoseconds: from.u32()? };
        match time.nanoseconds as i64 {
            0..Self::SECOND_NS => Ok(time),
            more => corrupt("attributes", format!("a time has {more} nanoseconds beside its seconds")),
        }
    }
}

/// A file's times as the file system reported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileTimes {
    pub modified: FileTime,
    /// Only compared, to find out whether a file changed since it was last put; 1970 where that is unknown.
    pub changed: FileTime,
}

/// A file's attributes. ACLs are extended attributes (`system.posix_acl_*`), as Linux has them.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Attributes {
    pub kind: FileKind,
    /// Permission bits, without the file type.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub times: FileTimes,
    /// The source's inode when it was put: recognises an unchanged file and its hard links.
    pub inode: u64,
    /// A symlink's target; empty otherwise.
    pub target: Vec<u8>,
    /// Name and value, sorted by name.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attributes {
    pub fn write(&self, to: &mut Writer) {
        to.u8(self.kind as u8).u32(self.mode).u32(self.uid).u32(self.gid);
        self.times.modified.write(to);
        self.times.changed.write(to);
        to.u64(self.inode).blob(&self.target);
        to.list(&self.extended, |to, (name, value)| {
            to.blob(name).blob(value);
        });
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let kind = match from.u8()? {
            0 => FileKind::Regular,
            1 => FileKind::Directory,
            2 => FileKind::Symlink,
            other => return corrupt("attributes", format!("unknown file kind {other}")),
        };
        let (mode, uid, gid) = (from.u32()?, from.u32()?, from.u32()?);
        let times = FileTimes { modified: FileTime::read(from)?, changed: FileTime::read(from)? };
        let (inode, target) = (from.u64()?, from.blob()?.to_vec());
        let extended = from.list(8, |from| Ok((from.blob()?.to_vec(), from.blob()?.to_vec())))?;
        Ok(Attributes { kind, mode, uid, gid, times, inode, target, extended })
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        self.write(&mut to);
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader::new("attributes", bytes);
        let attributes = Attributes::read(&mut from)?;
        from.end()?;
        Ok(attributes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970_and_after_2262_come_back() {
        let moments = [i64::MIN, -11_644_473_600, -1, 0, 10_413_792_000, 253_402_300_800, i64::MAX];
        for (seconds, nanoseconds) in moments.into_iter().flat_map(|seconds| [(seconds, 0), (seconds, 999_999_999)]) {
            let modified = FileTime { seconds, nanoseconds };
            let changed = FileTime { seconds: -seconds.max(-5), nanoseconds };
            let attributes = Attributes { times: FileTimes { modified, changed }, ..Attributes::default() };
            assert_eq!(Attributes::decode(&attributes.encode()).unwrap(), attributes);
            assert_eq!(modified.as_ns(), seconds as i128 * 1_000_000_000 + nanoseconds as i128);
        }
        assert_eq!(FileTime::from_ns(-1), FileTime { seconds: -1, nanoseconds: 999_999_999 });
    }

    #[test]
    fn a_second_of_too_many_nanoseconds_is_refused() {
        let modified = FileTime { seconds: 1, nanoseconds: 1_000_000_000 };
        let times = FileTimes { modified, changed: FileTime::default() };
        let attributes = Attributes { times, ..Attributes::default() };
        assert!(Attributes::decode(&attributes.encode()).is_err());
    }
}
