//! Reading names: one entry, the entries of a directory, the versions of a file.

use format::{Attributes, FileId, FileKind, Root, StorePath, VersionRecord};
use rusqlite::{Connection, Row};

use super::failure::Attempt;
use super::schema;
use super::statement::{all, at_most, first, number};
use crate::refusal::{Refusal, not_found, refused};
use crate::subtree::{bounds, child_end, end, successor};
use crate::{FileEntry, Version};

/// The columns [`read_entry`] reads.
macro_rules! select_entries {
    ($rest:literal) => {
        concat!(
            "SELECT path, f.id, links, f.attributes, v.id, number, committed_ns, size, content, root
             FROM names JOIN files AS f ON f.id = names.file LEFT JOIN versions AS v ON v.id = f.head WHERE ",
            $rest
        )
    };
}

/// Refuses entries of regular files whose version is missing: reading them would give no bytes.
pub(super) fn with_head(path: &StorePath, entry: &FileEntry) -> Attempt<()> {
    if entry.attributes.kind == FileKind::Regular && entry.head.is_none() {
        let why = format!("the newest version of {path} is not there");
        return Err(format::Error::Corrupt { what: "versions", why }.into());
    }
    Ok(())
}

pub(super) fn entry(sql: &Connection, path: &StorePath) -> Attempt<Option<FileEntry>> {
    first(sql, select_entries!("path = ?1"), [path.as_bytes()], read_entry)
}

pub(super) fn list(
    sql: &Connection,
    directory: &StorePath,
    recursive: bool,
    after: Option<&StorePath>,
    limit: usize,
) -> Attempt<Vec<(StorePath, FileEntry)>> {
    match entry(sql, directory)?.map(|entry| entry.attributes.kind) {
        None => return Err(not_found(directory).into()),
        Some(FileKind::Directory) => {}
        Some(_) => return Ok(refused(directory, Refusal::NotDirectory)?),
    }
    let (from, to) = bounds(directory);
    let mut page = Page { directory, recursive, limit, found: Vec::new() };
    let mut next = Some(after.map_or(from.clone(), |after| successor(after).max(from)));
    while let Some(from) = next {
        next = page.read_range(sql, &from, &to)?;
        if next.as_ref().is_some_and(|next| *next <= from) {
            return Err(format::Error::Corrupt { what: "names", why: "they are out of order".to_owned() }.into());
        }
    }
    Ok(page.found)
}

struct Page<'a> {
    directory: &'a StorePath,
    recursive: bool,
    limit: usize,
    found: Vec<(StorePath, FileEntry)>,
}

impl Page<'_> {
    /// Reads names until the page is full or the range ends; or, unless recursive, until a name lies deeper
    /// than the directory's children: then returns where to go on, behind all that lies below that child.
    fn read_range(&mut self, sql: &Connection, from: &[u8], to: &[u8]) -> Attempt<Option<Vec<u8>>> {
        let mut statement = sql.prepare_cached(select_entries!("path >= ?1 AND path < ?2 ORDER BY path"))?;
        let mut rows = statement.query((from, to))?;
        while self.found.len() < self.limit {
            let Some(row) = rows.next()? else { break };
            let path = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
            if !self.recursive
                && let Some(length) = child_end(self.directory, path)
            {
                return Ok(Some(end(&path[..length])));
            }
            self.found.push((StorePath::new(path)?, read_entry(row)?));
        }
        Ok(None)
    }
}

pub(super) fn versions(sql: &Connection, path: &StorePath, after: u64, limit: usize) -> Attempt<Vec<Version>> {
    let file = first(sql, "SELECT file FROM names WHERE path = ?1", [path.as_bytes()], |row| number(row, 0))?;
    let file = file.ok_or_else(|| not_found(path))?;
    // A catalog that is only read may be of an earlier format.
    let text = match schema::keeps_attributes(sql)? {
        true => {
            "SELECT number, committed_ns, size, content, root, attributes FROM versions WHERE file = ?1 AND number > ?2
            ORDER BY number LIMIT ?3"
        }
        false => {
            "SELECT number, committed_ns, size, content, root, NULL FROM versions WHERE file = ?1 AND number > ?2
            ORDER BY number LIMIT ?3"
        }
    };
    all(sql, text, (file as i64, at_most(after as usize), at_most(limit)), |row| {
        let attributes = row.get_ref(5)?.as_blob_or_null().map_err(rusqlite::Error::from)?;
        let attributes = attributes.map(Attributes::decode).transpose()?.map(Box::new);
        Ok(Version { attributes, ..read_version(row, 0)? })
    })
}

fn read_entry(row: &Row) -> Attempt<FileEntry> {
    let head = row.get::<_, Option<i64>>(4)?;
    Ok(FileEntry {
        file: FileId(number(row, 1)?),
        links: number(row, 2)?,
        attributes: Attributes::decode(row.get_ref(3)?.as_blob().map_err(rusqlite::Error::from)?)?,
        head: head.map(|_| read_version(row, 5)).transpose()?,
    })
}

/// Reads number, committed_ns, size, content and root, from the column `first` on.
fn read_version(row: &Row, first: usize) -> Attempt<Version> {
    let root = Root::decode(row.get_ref(first + 4)?.as_blob().map_err(rusqlite::Error::from)?)?;
    Ok(Version {
        number: number(row, first)?,
        committed_ns: row.get(first + 1)?,
        record: VersionRecord { root, size: number(row, first + 2)?, content: row.get(first + 3)? },
        attributes: None,
    })
}
