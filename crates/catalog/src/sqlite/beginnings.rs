//! Whether a catalog's file and its log belong together. SQLite applies any whole log to any file: where one of the two
//! is an older copy, the result was never a state of the catalog.
//!
//! Every transaction writes the row of `counters` (transactions.sql), so its page is in the first transaction of a log, and
//! says what the file had counted when the log was begun. A log is begun once all of the log before it is in the file and
//! synced, so the file never has less than that; and it never has more than the log's last transaction.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags};

use super::failure::Attempt;
use super::schema::counts_transactions;
use super::soundness::last_transaction;
use super::statement::{first, number};
use super::unlocked::{address, log_of};

const LOG_HEADER_BYTES: usize = 32;
const FRAME_HEADER_BYTES: usize = 24;
const LEAF_OF_A_TABLE: u8 = 13;
/// Writers continue while file and log are read: an apparent mismatch is checked again.
const LOOKS: u32 = 4;
const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Where the row of `counters` lies.
struct Columns {
    /// The only page of its table.
    page: u32,
    before: usize,
}

/// Returns why file and log do not belong together, if so; `sql` reads them together.
pub(super) fn mixture(sql: &Connection, path: &Path) -> Attempt<Option<String>> {
    let mut found = None;
    for look in 0..LOOKS {
        if look > 0 {
            std::thread::sleep(LOOK_INTERVAL);
        }
        found = difference(sql, path)?;
        if found.is_none() {
            break;
        }
    }
    Ok(found)
}

/// Compares file and log. Reads the log first and through `sql` last: each counts on, so that in good order it is never
/// beyond the next.
fn difference(sql: &Connection, path: &Path) -> Attempt<Option<String>> {
    if std::fs::metadata(log_of(path)).map_or(0, |found| found.len()) <= LOG_HEADER_BYTES as u64 {
        return Ok(None);
    }
    let Some((columns, _)) = of_file(path) else { return Ok(None) };
    let begun_on = begun_on(&log_of(path), &columns).unwrap_or(0);
    let Some((_, in_file)) = of_file(path) else { return Ok(None) };
    let last = last_transaction(sql)?.unwrap_or(in_file);
    Ok(if in_file < begun_on {
        Some("it is an older copy, put beside the log (catalog.sqlite-wal) of a newer one".to_owned())
    } else if in_file > last {
        Some("its log (catalog.sqlite-wal) is that of an older copy".to_owned())
    } else {
        None
    })
}

/// Returns the last transaction that is in the file itself, whatever the log says; none where that cannot be
/// determined.
pub(super) fn last_in_file(path: &Path) -> Option<u64> {
    of_file(path).map(|(_, last)| last)
}

/// Reads the file through SQLite itself, so that no lock of this process's other connections is lost when it is closed.
fn of_file(path: &Path) -> Option<(Columns, u64)> {
    let address = address(&path.canonicalize().ok()?, "mode=ro&immutable=1");
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_URI;
    read_file(&Connection::open_with_flags(address, flags).ok()?).ok().flatten()
}

fn read_file(sql: &Connection) -> Attempt<Option<(Columns, u64)>> {
    if !counts_transactions(sql)? {
        return Ok(None);
    }
    let address = "SELECT rootpage, (SELECT cid FROM pragma_table_info('counters') WHERE name = 'transactions_before'),
        (SELECT transactions FROM counters) FROM sqlite_schema WHERE name = 'counters'";
    first(sql, address, [], |row| {
        Ok((Columns { page: row.get(0)?, before: number(row, 1)? as usize }, number(row, 2)?))
    })
}

/// Returns the file's count when the log was begun; none for a log without a whole transaction, and where its pages are
/// not as this program writes them.
fn begun_on(log: &Path, columns: &Columns) -> Option<u64> {
    let mut log = BufReader::with_capacity(1 << 16, File::open(log).ok()?);
    let mut header = [0; LOG_HEADER_BYTES];
    log.read_exact(&mut header).ok()?;
    let sums = Sums::of_magic(u32_at(&header, 0)?)?;
    let page_bytes = usize::try_from(u32_at(&header, 8)?).ok().filter(|bytes| (512..=65536).contains(bytes))?;
    let mut sum = sums.add((0, 0), &header[..24]);
    if sum != (u32_at(&header, 24)?, u32_at(&header, 28)?) {
        return None;
    }
    let (mut frame, mut found) = (vec![0; FRAME_HEADER_BYTES + page_bytes], None);
    loop {
        log.read_exact(&mut frame).ok()?;
        let (of_frame, page) = frame.split_at(FRAME_HEADER_BYTES);
        sum = sums.add(sums.add(sum, &of_frame[..8]), page);
        if of_frame[8..16] != header[16..24] || sum != (u32_at(of_frame, 16)?, u32_at(of_frame, 20)?) {
            return None;
        }
        if u32_at(of_frame, 0)? == columns.page {
            found = found.or(Some(integer_of_only_row(page, columns.before)?));
        }
        // Set in the last frame of a transaction.
        if u32_at(of_frame, 4)? > 0 && found.is_some() {
            return found;
        }
    }
}

/// The sums over header and frames of a log: see "WAL File Format" in SQLite's description of its files.
#[derive(Clone, Copy)]
struct Sums {
    word: fn([u8; 4]) -> u32,
}

impl Sums {
    fn of_magic(magic: u32) -> Option<Self> {
        match magic {
            0x377f_0682 => Some(Sums { word: u32::from_le_bytes }),
            0x377f_0683 => Some(Sums { word: u32::from_be_bytes }),
            _ => None,
        }
    }

    fn add(self, (mut first, mut second): (u32, u32), bytes: &[u8]) -> (u32, u32) {
        for pair in bytes.chunks_exact(8) {
            let word = |at: usize| (self.word)([pair[at], pair[at + 1], pair[at + 2], pair[at + 3]]);
            first = first.wrapping_add(word(0)).wrapping_add(second);
            second = second.wrapping_add(word(4)).wrapping_add(first);
        }
        (first, second)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// Returns a column of the only row of a table that is one page, where it holds an integer.
fn integer_of_only_row(page: &[u8], column: usize) -> Option<u64> {
    let rows = u16::from_be_bytes(page.get(3..5)?.try_into().ok()?);
    if *page.first()? != LEAF_OF_A_TABLE || rows != 1 {
        return None;
    }
    let cell = page.get(usize::from(u16::from_be_bytes(page.get(8..10)?.try_into().ok()?))..)?;
    let (_, cell) = varint(cell)?;
    let (_, record) = varint(cell)?;
    let (header_bytes, types) = varint(record)?;
    let header_bytes = usize::try_from(header_bytes).ok()?;
    let mut types = types.get(..header_bytes.checked_sub(record.len() - types.len())?)?;
    let mut at = header_bytes;
    for _ in 0..column {
        let (kind, rest) = varint(types)?;
        (types, at) = (rest, at.checked_add(usize::try_from(length_of(kind)).ok()?)?);
    }
    let (kind, _) = varint(types)?;
    match kind {
        8 => Some(0),
        9 => Some(1),
        1..=6 => {
            let bytes = record.get(at..at.checked_add(length_of(kind) as usize)?)?;
            Some(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
        }
        _ => None,
    }
}

/// Returns how many bytes a value of this serial type takes.
fn length_of(kind: u64) -> u64 {
    match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind,
        5 => 6,
        6 | 7 => 8,
        _ => (kind.saturating_sub(12)) / 2,
    }
}

/// Decodes a varint: seven bits a byte, the highest first; a ninth byte has eight.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0;
    for (at, byte) in bytes.iter().take(8).enumerate() {
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[at + 1..]));
        }
    }
    Some((number << 8 | u64::from(*bytes.get(8)?), &bytes[9..]))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;
    use crate::{LocalCatalog, Names, Purpose, SqliteCatalog};

    const SUFFIXES: [&str; 2] = ["", "-wal"];

    fn with(path: &Path, suffix: &str) -> PathBuf {
        PathBuf::from(format!("{}{suffix}", path.display()))
    }

    /// Copies file and log as they are at this moment.
    fn copy(path: &Path, to: &Path) {
        for suffix in SUFFIXES {
            if fs::copy(with(path, suffix), with(to, suffix)).is_err() {
                let _ = fs::remove_file(with(to, suffix));
            }
        }
    }

    fn mixture_of(path: &Path) -> Option<String> {
        SqliteCatalog::open(path, false).unwrap().connections.mixture().map(str::to_owned)
    }

    fn begin(catalog: &SqliteCatalog, times: u32) {
        for _ in 0..times {
            catalog.begin(Purpose::Read, 1000).unwrap();
        }
    }

    fn checkpoint(path: &Path) {
        let sql = Connection::open(path).unwrap();
        sql.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(())).unwrap();
    }

    #[test]
    fn every_copy_of_file_and_log_made_at_one_moment_belongs_together_and_no_others_do() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("catalog");
        let catalog = SqliteCatalog::open(&path, true).unwrap();
        let at = |moment: usize| scratch.path().join(format!("moment {moment}"));
        // Each log is begun again after its checkpoint, and has three moments.
        for moment in 0..12 {
            begin(&catalog, 3);
            copy(&path, &at(moment));
            if moment % 3 == 2 {
                checkpoint(&path);
            }
        }
        for of_file in 0..12 {
            for of_log in 0..12 {
                let mixed = scratch.path().join("mixed");
                fs::copy(with(&at(of_file), ""), &mixed).unwrap();
                fs::copy(with(&at(of_log), "-wal"), with(&mixed, "-wal")).unwrap();
                // The file changes with a checkpoint alone, which may come before the end of its log as well as after.
                let is_whole = of_log % 3 == 2 && of_file / 3 == of_log / 3 + 1;
                let belongs = of_file / 3 == of_log / 3 || is_whole;
                for _ in 0..2 {
                    assert_eq!(
                        mixture_of(&mixed).is_none(),
                        belongs,
                        "file {of_file}, log {of_log}: closing changes nothing"
                    );
                    if belongs {
                        break;
                    }
                }
                let _ = fs::remove_file(with(&mixed, "-wal"));
                let _ = fs::remove_file(with(&mixed, "-shm"));
            }
        }
    }

    #[test]
    fn a_log_that_is_partly_in_the_file_belongs_to_it() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, to) = (scratch.path().join("catalog"), scratch.path().join("copy"));
        let catalog = SqliteCatalog::open(&path, true).unwrap();
        begin(&catalog, 3);
        // A reader keeps what comes after it from being moved into the file.
        let view = catalog.view().unwrap();
        begin(&catalog, 3);
        checkpoint(&path);
        begin(&catalog, 3);
        copy(&path, &to);
        assert_eq!(mixture_of(&to), None);
        drop(view);
        checkpoint(&path);
        copy(&path, &to);
        assert_eq!(mixture_of(&to), None, "all of it is in the file, and the log still there");
    }

    #[test]
    fn a_log_whose_first_transaction_is_torn_says_nothing() {
        let scratch = tempfile::tempdir().unwrap();
        let (path, to) = (scratch.path().join("catalog"), scratch.path().join("copy"));
        let catalog = SqliteCatalog::open(&path, true).unwrap();
        begin(&catalog, 1);
        let length = fs::metadata(with(&path, "-wal")).unwrap().len();
        for cut in [1, 31, 32, 33, 500, length - 4000, length - 1] {
            copy(&path, &to);
            fs::OpenOptions::new().write(true).open(with(&to, "-wal")).unwrap().set_len(cut).unwrap();
            assert_eq!(mixture_of(&to), None, "{cut} of {length} bytes");
        }
    }

    #[test]
    fn the_log_of_a_catalog_that_was_rebuilt_since_does_not_belong_to_the_new_one() {
        let scratch = tempfile::tempdir().unwrap();
        let (former, new) = (scratch.path().join("former"), scratch.path().join("new"));
        let catalog = SqliteCatalog::open(&former, true).unwrap();
        begin(&catalog, 9);
        begin(&SqliteCatalog::open(&new, true).unwrap(), 3);
        fs::copy(with(&former, "-wal"), with(&new, "-wal")).unwrap();
        assert!(mixture_of(&new).is_some());
    }
}
