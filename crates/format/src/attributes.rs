//! What is kept of a file besides its content: kind, mode, owner, times, link target, extended attributes.

use crate::{Reader, Result, Writer, corrupt};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum FileKind {
    #[default]
    Regular = 0,
    Directory = 1,
    Symlink = 2,
}

/// Nanoseconds since 1970, as the file system reported them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct FileTimes {
    pub modified_ns: i64,
    /// Only compared, to tell whether a file changed since it was last put.
    pub changed_ns: i64,
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
    /// Of the source when it was put: recognises an unchanged file and its hard links.
    pub inode: u64,
    /// A symlink's target; empty otherwise.
    pub target: Vec<u8>,
    /// Name and value, sorted by name.
    pub extended: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Attributes {
    pub fn write(&self, to: &mut Writer) {
        to.u8(self.kind as u8).u32(self.mode).u32(self.uid).u32(self.gid);
        to.i64(self.times.modified_ns).i64(self.times.changed_ns).u64(self.inode).blob(&self.target);
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
        let times = FileTimes { modified_ns: from.i64()?, changed_ns: from.i64()? };
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
