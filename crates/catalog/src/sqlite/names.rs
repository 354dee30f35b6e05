//! Names, their targets, and the changes a commit makes to them.
//!
//! Every change checks all that can refuse it before it alters a row: in replay a refused change is left out
//! while the transaction goes on.

use format::{Attributes, Change, FileId, FileKind, Root, StorePath, VersionId, VersionRecord};
use rusqlite::Connection;

use super::failure::Attempt;
use super::statement::{all, counted, first, number, run};
use super::writing::WriteTransaction;
use crate::Error;
use crate::rebuild::LIMIT;
use crate::refusal::*;
use crate::subtree::{MAX_PATH_BYTES, bounds};

/// The target of a name, as far as changes need it.
#[derive(Clone, Copy)]
struct Found {
    file: FileId,
    kind: FileKind,
    last_version: u64,
}

impl Found {
    /// Returns the newest version. It can never be forgotten: the last number given is its own.
    fn head(&self) -> Option<VersionId> {
        (self.kind == FileKind::Regular).then_some(VersionId { file: self.file, number: self.last_version })
    }
}

/// Returns the attributes of directories that were made implicitly.
pub(super) fn implicit_directory() -> Attributes {
    Attributes { kind: FileKind::Directory, mode: 0o755, ..Default::default() }
}

impl WriteTransaction<'_> {
    /// Applies one change; `number` is given in replay only, where bases do not count. Returns the numbers of a write.
    pub fn apply(
        &mut self,
        change: &Change,
        committed_ns: i64,
        number: Option<(FileId, u64)>,
    ) -> Attempt<Option<(FileId, u64)>> {
        match change {
            Change::Write { path, attributes, version, base } => {
                let base = base.filter(|_| number.is_none());
                let found = self.check_write(path, attributes, base)?;
                return Ok(Some(self.write(path, found, attributes, version, committed_ns, number)?));
            }
            Change::Make { path, attributes } => self.make(path, attributes)?,
            Change::Link { path, target } => self.link(path, target)?,
            Change::Remove { path, recursive } => self.remove(path, *recursive)?,
            Change::Rename { from, to } => self.rename(from, to)?,
            Change::Attributes { path, attributes } => self.set_attributes(path, attributes)?,
            Change::Forget { path, file, versions } => self.forget(path, *file, versions)?,
            Change::Manifest { path, version, root } => self.set_root(path, *version, root)?,
        }
        Ok(None)
    }

    /// Returns the number of the newest version a file has or had; 0 for a file that does not exist.
    pub fn last_version(&self, file: FileId) -> Attempt<u64> {
        Ok(load(self.sql, file)?.map_or(0, |found| found.last_version))
    }

    fn check_write(
        &mut self,
        path: &StorePath,
        attributes: &Attributes,
        base: Option<Option<VersionId>>,
    ) -> Attempt<Option<Found>> {
        if attributes.kind != FileKind::Regular {
            return Ok(refused(path, Refusal::WriteIsRegular)?);
        }
        let found = find(self.sql, path)?;
        if found.is_some_and(|found| found.kind == FileKind::Directory) {
            return Ok(refused(path, Refusal::IsDirectory)?);
        }
        let head = found.and_then(|found| found.head());
        if base.is_some_and(|base| base != head) {
            return Err(Error::HeadMoved { path: path.clone(), head }.into());
        }
        if found.is_none() {
            self.make_above(path)?;
        }
        Ok(found)
    }

    fn write(
        &mut self,
        path: &StorePath,
        found: Option<Found>,
        attributes: &Attributes,
        record: &VersionRecord,
        committed_ns: i64,
        given: Option<(FileId, u64)>,
    ) -> Attempt<(FileId, u64)> {
        let present = match given {
            // In replay the number decides which file it is, whatever the name points to.
            Some((file, _)) => load(self.sql, file)?,
            None => found.filter(|found| found.kind == FileKind::Regular),
        };
        let file = match (given, present) {
            (Some((file, _)), _) => file,
            (None, Some(present)) => present.file,
            (None, None) => self.counters.next_versioned(),
        };
        let last_version = present.map_or(0, |present| present.last_version);
        if present.is_some() {
            self.keep_attributes(file)?;
        }
        let number = given.map_or(last_version + 1, |(_, number)| number);
        let head = self.insert_version(file, number, committed_ns, record)?;
        let last_version = last_version.max(number) as i64;
        let text = match present {
            Some(_) => "UPDATE files SET last_version = ?2, head = ?3, attributes = ?4 WHERE id = ?1",
            None => "INSERT INTO files (id, kind, links, last_version, head, attributes) VALUES (?1, 0, 0, ?2, ?3, ?4)",
        };
        run(self.sql, text, (file.0 as i64, last_version, head, attributes.encode()))?;
        if found.map(|found| found.file) != Some(file) {
            self.point(path, found, file)?;
        }
        Ok((file, number))
    }

    /// Stores the attributes of the version that was written last, before another becomes the newest.
    fn keep_attributes(&self, file: FileId) -> Attempt<()> {
        let text = "UPDATE versions SET attributes = (SELECT attributes FROM files WHERE id = ?1)
            WHERE id = (SELECT head FROM files WHERE id = ?1)";
        run(self.sql, text, [file.0 as i64])?;
        Ok(())
    }

    /// Returns the version's row. A number that is there already is only met in replay, and replaced.
    fn insert_version(&self, file: FileId, number: u64, committed_ns: i64, record: &VersionRecord) -> Attempt<i64> {
        let text = "INSERT OR REPLACE INTO versions (file, number, committed_ns, size, content, root)
            VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let VersionRecord { root, size, content } = record;
        let content = content.as_ref().map(|digest| digest.as_slice());
        run(self.sql, text, (file.0 as i64, number as i64, committed_ns, *size as i64, content, root.encode()))?;
        Ok(self.sql.last_insert_rowid())
    }

    fn make(&mut self, path: &StorePath, attributes: &Attributes) -> Attempt<()> {
        if attributes.kind == FileKind::Regular {
            return Ok(refused(path, Refusal::MakeIsNotRegular)?);
        }
        let found = find(self.sql, path)?;
        match found.map(|found| found.kind) {
            Some(kind) if kind == attributes.kind => return self.set_attributes(path, attributes),
            Some(FileKind::Directory) => return Ok(refused(path, Refusal::IsDirectory)?),
            Some(_) if attributes.kind == FileKind::Directory => return Ok(refused(path, Refusal::NotDirectory)?),
            Some(_) => {}
            None => self.make_above(path)?,
        }
        self.create(path, found, attributes)
    }

    fn link(&mut self, path: &StorePath, target: &StorePath) -> Attempt<()> {
        let Found { file, kind, .. } = find(self.sql, target)?.ok_or_else(|| not_found(target))?;
        if kind == FileKind::Directory {
            return Ok(refused(target, Refusal::IsDirectory)?);
        }
        let found = find(self.sql, path)?;
        match found {
            Some(found) if found.kind == FileKind::Directory => Ok(refused(path, Refusal::IsDirectory)?),
            Some(found) if found.file == file => Ok(()),
            Some(_) => self.point(path, found, file),
            None => {
                self.make_above(path)?;
                self.point(path, None, file)
            }
        }
    }

    fn remove(&mut self, path: &StorePath, recursive: bool) -> Attempt<()> {
        if path.is_root() {
            return Ok(refused(path, Refusal::RootStays)?);
        }
        let found = find(self.sql, path)?.ok_or_else(|| not_found(path))?;
        if found.kind == FileKind::Directory {
            self.remove_below(path, recursive)?;
        }
        run(self.sql, "DELETE FROM names WHERE path = ?1", [path.as_bytes()])?;
        self.drop_links(found.file, 1)
    }

    fn remove_below(&mut self, path: &StorePath, recursive: bool) -> Attempt<()> {
        let range = bounds(path);
        let any = "SELECT 1 FROM names WHERE path >= ?1 AND path < ?2 LIMIT 1";
        if !recursive && first(self.sql, any, (&range.0, &range.1), |_| Ok(()))?.is_some() {
            return Ok(refused(path, Refusal::NotEmpty)?);
        }
        self.known_directory = None;
        let links = "SELECT file, count(*) FROM names WHERE path >= ?1 AND path < ?2 GROUP BY file";
        let counted = |row: &rusqlite::Row| Ok((FileId(number(row, 0)?), number(row, 1)?));
        for (file, links) in all(self.sql, links, (&range.0, &range.1), counted)? {
            self.drop_links(file, links)?;
        }
        run(self.sql, "DELETE FROM names WHERE path >= ?1 AND path < ?2", (&range.0, &range.1))?;
        Ok(())
    }

    fn rename(&mut self, from: &StorePath, to: &StorePath) -> Attempt<()> {
        if from.is_root() {
            return Ok(refused(from, Refusal::RootStays)?);
        }
        let moving = find(self.sql, from)?.ok_or_else(|| not_found(from))?;
        if from == to {
            return Ok(());
        }
        if to.is_within(from) {
            return Ok(refused(to, Refusal::IntoItself)?);
        }
        let replaced = find(self.sql, to)?;
        match replaced.map(|replaced| replaced.kind) {
            Some(FileKind::Directory) => return Ok(refused(to, Refusal::IsDirectory)?),
            Some(_) if moving.kind == FileKind::Directory => return Ok(refused(to, Refusal::NotDirectory)?),
            _ => {}
        }
        if moving.kind == FileKind::Directory {
            self.check_lengths(from, to)?;
        }
        if replaced.is_none() {
            self.make_above(to)?;
        }
        run(self.sql, "DELETE FROM names WHERE path = ?1", [from.as_bytes()])?;
        let text = "INSERT OR REPLACE INTO names VALUES (?1, ?2)";
        run(self.sql, text, (to.as_bytes(), moving.file.0 as i64))?;
        if let Some(replaced) = replaced {
            self.drop_links(replaced.file, 1)?;
        }
        if moving.kind == FileKind::Directory {
            self.move_below(from, to)?;
        }
        Ok(())
    }

    fn check_lengths(&self, from: &StorePath, to: &StorePath) -> Attempt<()> {
        let range = bounds(from);
        let text = "SELECT coalesce(max(length(path)), 0) FROM names WHERE path >= ?1 AND path < ?2";
        let longest = first(self.sql, text, (range.0, range.1), |row| number(row, 0))?.unwrap_or(0) as usize;
        if longest + to.as_bytes().len() > MAX_PATH_BYTES + from.as_bytes().len() {
            return Ok(refused(to, Refusal::TooLong)?);
        }
        Ok(())
    }

    fn move_below(&mut self, from: &StorePath, to: &StorePath) -> Attempt<()> {
        self.known_directory = None;
        let range = bounds(from);
        // `||` makes text of its operands; the bytes stay what they are.
        let text = "UPDATE names SET path = CAST(?3 || substr(path, ?4) AS BLOB) WHERE path >= ?1 AND path < ?2";
        let tail = from.as_bytes().len() as i64 + 1;
        run(self.sql, text, (range.0, range.1, to.as_bytes(), tail))?;
        Ok(())
    }

    fn set_attributes(&mut self, path: &StorePath, attributes: &Attributes) -> Attempt<()> {
        let found = find(self.sql, path)?.ok_or_else(|| not_found(path))?;
        if found.kind != attributes.kind {
            return Ok(refused(path, Refusal::KindStays)?);
        }
        let text = "UPDATE files SET attributes = ?2 WHERE id = ?1";
        run(self.sql, text, (found.file.0 as i64, attributes.encode()))?;
        Ok(())
    }

    fn set_root(&mut self, path: &StorePath, version: VersionId, root: &Root) -> Attempt<()> {
        let found = find(self.sql, path)?.ok_or_else(|| not_found(path))?;
        if found.file != version.file {
            return Ok(refused(path, Refusal::IsAnotherFile)?);
        }
        let text = "UPDATE versions SET root = ?3 WHERE file = ?1 AND number = ?2";
        match run(self.sql, text, (version.file.0 as i64, version.number as i64, root.encode()))? {
            0 => Err(not_found(path).into()),
            _ => Ok(()),
        }
    }

    fn forget(&mut self, path: &StorePath, file: FileId, versions: &[u64]) -> Attempt<()> {
        let found = find(self.sql, path)?.ok_or_else(|| not_found(path))?;
        if found.file != file {
            return Ok(refused(path, Refusal::IsAnotherFile)?);
        }
        if found.head().is_some_and(|head| versions.contains(&head.number)) {
            return Ok(refused(path, Refusal::HeadStays)?);
        }
        for version in versions {
            let text = "DELETE FROM versions WHERE file = ?1 AND number = ?2";
            run(self.sql, text, (found.file.0 as i64, *version as i64))?;
        }
        Ok(())
    }

    /// Makes the directories above `path` that are missing.
    fn make_above(&mut self, path: &StorePath) -> Attempt<()> {
        let parent = path.parent();
        if parent.is_some() && parent == self.known_directory {
            return Ok(());
        }
        let mut missing = Vec::new();
        let mut above = parent.clone();
        while let Some(directory) = above {
            match find(self.sql, &directory)?.map(|found| found.kind) {
                Some(FileKind::Directory) => break,
                Some(_) => return Ok(refused(path, Refusal::AboveNotDirectory)?),
                None => above = directory.parent(),
            }
            missing.push(directory);
        }
        for directory in missing.iter().rev() {
            self.create(directory, None, &implicit_directory())?;
        }
        self.known_directory = parent;
        Ok(())
    }

    /// Makes a directory or symlink, in the place of `replaced`.
    fn create(&mut self, path: &StorePath, replaced: Option<Found>, attributes: &Attributes) -> Attempt<()> {
        let file = self.counters.next_unversioned();
        let text = "INSERT INTO files (id, kind, links, attributes) VALUES (?1, ?2, 0, ?3)";
        run(self.sql, text, (file.0 as i64, attributes.kind as u8, attributes.encode()))?;
        self.point(path, replaced, file)
    }

    /// Points a name at `file`, and no longer at `replaced`.
    fn point(&mut self, path: &StorePath, replaced: Option<Found>, file: FileId) -> Attempt<()> {
        let text = "INSERT OR REPLACE INTO names VALUES (?1, ?2)";
        run(self.sql, text, (path.as_bytes(), file.0 as i64))?;
        run(self.sql, "UPDATE files SET links = links + 1 WHERE id = ?1", [file.0 as i64])?;
        match replaced {
            Some(replaced) => self.drop_links(replaced.file, 1),
            None => Ok(()),
        }
    }

    /// Takes names away from a file; with the last the file goes, and its versions with it.
    fn drop_links(&mut self, file: FileId, links: u64) -> Attempt<()> {
        let text = "UPDATE files SET links = links - ?2 WHERE id = ?1 RETURNING links";
        if first(self.sql, text, (file.0 as i64, links as i64), |row| number(row, 0))? == Some(0) {
            run(self.sql, "DELETE FROM versions WHERE file = ?1", [file.0 as i64])?;
            run(self.sql, "DELETE FROM files WHERE id = ?1", [file.0 as i64])?;
        }
        Ok(())
    }
}

fn find(sql: &Connection, path: &StorePath) -> Attempt<Option<Found>> {
    let text = "SELECT id, kind, last_version FROM names JOIN files ON id = file WHERE path = ?1";
    first(sql, text, [path.as_bytes()], read_found)
}

fn load(sql: &Connection, file: FileId) -> Attempt<Option<Found>> {
    first(sql, "SELECT id, kind, last_version FROM files WHERE id = ?1", [file.0 as i64], read_found)
}

fn read_found(row: &rusqlite::Row) -> Attempt<Found> {
    let kind = match number(row, 1)? {
        0 => FileKind::Regular,
        1 => FileKind::Directory,
        2 => FileKind::Symlink,
        other => return Err(format::Error::Corrupt { what: "file", why: format!("kind {other} is unknown") }.into()),
    };
    Ok(Found { file: FileId(number(row, 0)?), kind, last_version: counted(row, 2, LIMIT)? })
}
