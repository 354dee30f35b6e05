//! Long lists, a page at a time: a catalog's content has no bound, and a frame's has.

use format::Writer;
use transfer::message::{Failure, Field, MAX_LISTED};

/// Of the entries of one page together; one that is longer by itself stands alone.
pub(super) const MAX_PAGE_BYTES: usize = 16 << 20;
/// Entries that the catalog is asked for at a time: one of them may have a megabyte.
const STEP: usize = 128;

/// Returns the entries of one page, in order, whether there may be more behind them, and their bytes. `next` asks the
/// catalog for so many that follow the given one.
pub(super) fn page<T: Field>(
    limit: usize,
    mut next: impl FnMut(Option<&T>, usize) -> Result<Vec<T>, Failure>,
) -> Result<(Vec<T>, bool, usize), Failure> {
    let limit = limit.min(MAX_LISTED);
    let (mut page, mut bytes) = (Vec::new(), 0);
    while page.len() < limit {
        let wanted = STEP.min(limit - page.len());
        let found = next(page.last(), wanted)?;
        let is_last = found.len() < wanted;
        for entry in found {
            bytes += encoded_bytes(&entry);
            if bytes > MAX_PAGE_BYTES && !page.is_empty() {
                return Ok((page, true, bytes));
            }
            page.push(entry);
        }
        if is_last {
            return Ok((page, false, bytes));
        }
    }
    Ok((page, true, bytes))
}

fn encoded_bytes<T: Field>(entry: &T) -> usize {
    let mut to = Writer::new();
    entry.write(&mut to);
    to.finish().len()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All entries, and how many pages they came in.
    fn all(entries: &[Vec<u8>], limit: usize) -> (Vec<Vec<u8>>, usize) {
        let (mut read, mut pages) = (Vec::<Vec<u8>>::new(), 0);
        loop {
            let (found, more, _) = page(limit, |after: Option<&Vec<u8>>, wanted| {
                assert!(wanted <= STEP);
                let before = |entry: &&Vec<u8>| after.or(read.last()).is_some_and(|after| *entry <= after);
                Ok(entries.iter().skip_while(before).take(wanted).cloned().collect())
            })
            .unwrap();
            pages += 1;
            assert!(!found.is_empty() || !more, "a page with more behind it has entries");
            read.extend(found);
            if !more {
                return (read, pages);
            }
        }
    }

    fn numbered(count: usize, bytes: usize) -> Vec<Vec<u8>> {
        let numbered = |number: usize| number.to_be_bytes().into_iter().chain(vec![7; bytes]).collect();
        (0..count).map(numbered).collect()
    }

    #[test]
    fn pages_are_cut_by_bytes_and_by_entries_and_together_hold_everything() {
        for (count, bytes, limit, pages) in [
            (0, 0, 10, 1),
            (300, 0, usize::MAX, 1),
            (MAX_LISTED + 1, 0, usize::MAX, 2),
            (300, 0, 100, 4),
            (40, MAX_PAGE_BYTES / 8, usize::MAX, 6),
            (3, MAX_PAGE_BYTES, usize::MAX, 3),
        ] {
            let entries = numbered(count, bytes);
            let (read, found) = all(&entries, limit);
            assert!(read == entries, "{count} entries of {bytes} bytes");
            assert_eq!(found, pages, "{count} entries of {bytes} bytes");
        }
    }
}
