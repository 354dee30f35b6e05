//! `thalweg diff`: what two trees of a store, or one at two times, have different.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::ffi::OsString;

use anyhow::Context;
use catalog::{FileEntry, Names};
use format::{Attributes, FileKind, FileTimes, StorePath, VersionRecord};
use repository::{Access, Repository};
use serde_json::Value;

use crate::failure::{Incomplete, misuse};
use crate::location::Location;
use crate::moment::{self, CutoffTime, with_version};
use crate::opening::open_store;
use crate::output::{Array, Output};
use crate::shown;

/// Names asked of the catalog at a time.
const LISTED_AT_ONCE: usize = 4096;
/// Read at a time of files that have to be compared byte for byte.
const READ_BYTES: usize = 1 << 20;

/// Compare two trees or files, or one at two times
#[derive(clap::Args)]
#[command(
    after_help = "A line for each name, from the compared directories on: `+` only the second has it, `-` only the first has \
                        it, M other content, T another kind, and with --metadata U for other mode, owner, times, target or \
                        extended attributes. Contents are compared by their digests; only files without one are read.\n\n\
                        With one place and one --at (or --version), what was then is compared with what is now. Names are those \
                        of today at any time: files without a version of that time are missing there.\n\n\
                        Exits with 0 whether there are differences or not, with --exit-code with 3 if there are.\n\n\
                        Example: thalweg diff /scratch/st::run1 /scratch/st::run2\n\
                        Example: thalweg diff /scratch/st::run1 --at 12h"
)]
pub struct Arguments {
    /// The first place, and the second (without: the same), each STORE::PATH
    #[arg(required = true, num_args = 1..=2, value_name = "STORE::PATH")]
    locations: Vec<OsString>,
    /// Files as they were then: of the first place, and given twice of the second, too
    #[arg(long, value_name = "TIME", conflicts_with = "version")]
    at: Vec<CutoffTime>,
    /// This version of the first file; given twice of the second, too
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    version: Vec<u64>,
    /// Tell of other attributes, too
    #[arg(long)]
    metadata: bool,
    /// End with 3 if there are differences
    #[arg(long)]
    exit_code: bool,
}

/// One of the two.
struct Side<'a> {
    catalog: &'a dyn Names,
    location: &'a Location,
    at: Option<CutoffTime>,
    version: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    Added,
    Removed,
    Content,
    Kind,
    Metadata,
}

impl Difference {
    fn letter(self) -> char {
        match self {
            Difference::Added => '+',
            Difference::Removed => '-',
            Difference::Content => 'M',
            Difference::Kind => 'T',
            Difference::Metadata => 'U',
        }
    }

    fn name(self) -> &'static str {
        match self {
            Difference::Added => "added",
            Difference::Removed => "removed",
            Difference::Content => "content",
            Difference::Kind => "kind",
            Difference::Metadata => "metadata",
        }
    }
}

struct Comparison<'a> {
    repository: &'a Repository,
    with_metadata: bool,
    output: &'a Output,
    array: Array<'a>,
    /// Names by difference, and bytes that came and went.
    counts: [u64; 5],
    added_bytes: u64,
    removed_bytes: u64,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let locations = Location::parse_all(&arguments.locations)?;
    let (first, second) = (&locations[0], locations.last().unwrap_or(&locations[0]));
    if arguments.at.len() > 2 || arguments.version.len() > 2 {
        misuse!("two sides are compared: --at and --version are given twice at most");
    }
    if locations.len() == 1 && arguments.at.is_empty() && arguments.version.is_empty() {
        misuse!("{first}: with what is it to be compared? Name a second place, --at TIME or --version N");
    }
    let repository = open_store(&first.store, Access::Read)?;
    let side = |location, number: usize| Side {
        catalog: repository.catalog(),
        location,
        at: arguments.at.get(number).copied(),
        version: arguments.version.get(number).copied(),
    };
    let (array, with_metadata) = (output.array(), arguments.metadata);
    let repository_ = &*repository;
    let mut comparison = Comparison {
        repository: repository_,
        with_metadata,
        output,
        array,
        counts: [0; 5],
        added_bytes: 0,
        removed_bytes: 0,
    };
    comparison.run(&side(first, 0), &side(second, 1))?;
    let line = comparison.line();
    let differences: u64 = comparison.counts.iter().sum();
    comparison.array.finish()?;
    output.summary(line)?;
    repository.close()?;
    match differences {
        0 => Ok(()),
        _ if !arguments.exit_code => Ok(()),
        _ => Err(Incomplete(format!("{first} and {second} differ in {}", shown::count(differences, "name"))).into()),
    }
}

impl Side<'_> {
    fn root(&self) -> anyhow::Result<FileEntry> {
        let location = self.location;
        let entry = self.catalog.entry(&location.path)?;
        let entry = entry.with_context(|| format!("{location}: no such file or directory in the store"))?;
        if let Some(number) = self.version {
            if entry.attributes.kind != FileKind::Regular {
                misuse!("{location}: --version is for regular files");
            }
            let version = self.catalog.versions(&location.path)?.into_iter().find(|version| version.number == number);
            let version = version
                .with_context(|| format!("{location}: there is no version {number}; `thalweg stat` lists them"))?;
            return Ok(with_version(entry, version));
        }
        match self.at {
            Some(at) => moment::expect(at.entry(self.catalog, &location.path, entry)?, location),
            None => Ok(entry),
        }
    }

    fn below(&self) -> Below<'_> {
        Below { side: self, after: None, listed: VecDeque::new(), is_last: false }
    }
}

/// What lies below a directory, name by name in byte order.
struct Below<'a> {
    side: &'a Side<'a>,
    after: Option<StorePath>,
    listed: VecDeque<(StorePath, FileEntry)>,
    is_last: bool,
}

/// A path from the compared directory on.
type Named = (Vec<u8>, FileEntry);

impl Below<'_> {
    fn next(&mut self) -> anyhow::Result<Option<Named>> {
        loop {
            if let Some((path, entry)) = self.listed.pop_front() {
                let entry = match self.side.at {
                    Some(at) => at.entry(self.side.catalog, &path, entry)?,
                    None => Some(entry),
                };
                let Some(entry) = entry else { continue };
                let base = &self.side.location.path;
                let below = path.below(base).with_context(|| format!("{path}: was listed below {base}"))?;
                return Ok(Some((below.to_vec(), entry)));
            }
            if self.is_last {
                return Ok(None);
            }
            let directory = &self.side.location.path;
            let listed = self.side.catalog.list(directory, true, self.after.as_ref(), LISTED_AT_ONCE)?;
            self.is_last = listed.len() < LISTED_AT_ONCE;
            self.after = listed.last().map(|(path, _)| path.clone());
            self.listed = listed.into();
        }
    }
}

impl Comparison<'_> {
    fn run(&mut self, first: &Side, second: &Side) -> anyhow::Result<()> {
        let (one, other) = (first.root()?, second.root()?);
        let is_directory = |entry: &FileEntry| entry.attributes.kind == FileKind::Directory;
        if !is_directory(&one) || !is_directory(&other) {
            return self.both(second.location.path.name(), &one, &other);
        }
        let (mut left, mut right) = (first.below(), second.below());
        let (mut one, mut other) = (left.next()?, right.next()?);
        loop {
            let order = match (&one, &other) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, _)), Some((other, _))) => one.cmp(other),
            };
            match (order, &one, &other) {
                (Ordering::Less, Some((path, entry)), _) => self.tell(Difference::Removed, path, Some(entry), None)?,
                (Ordering::Greater, _, Some((path, entry))) => self.tell(Difference::Added, path, None, Some(entry))?,
                (_, Some((path, one)), Some((_, other))) => self.both(path, one, other)?,
                _ => {}
            }
            if order != Ordering::Greater {
                one = left.next()?;
            }
            if order != Ordering::Less {
                other = right.next()?;
            }
        }
    }

    fn both(&mut self, path: &[u8], one: &FileEntry, other: &FileEntry) -> anyhow::Result<()> {
        let difference = if one.attributes.kind != other.attributes.kind {
            Difference::Kind
        } else if one.attributes.target != other.attributes.target || !self.is_same_content(path, one, other)? {
            Difference::Content
        } else if self.with_metadata && !look_alike(&one.attributes, &other.attributes) {
            Difference::Metadata
        } else {
            return Ok(());
        };
        self.tell(difference, path, Some(one), Some(other))
    }

    fn is_same_content(&self, path: &[u8], one: &FileEntry, other: &FileEntry) -> anyhow::Result<bool> {
        let (Some(one), Some(other)) = (&one.head, &other.head) else { return Ok(true) };
        let (one, other) = (&one.record, &other.record);
        if one.size != other.size || one.root == other.root {
            return Ok(one.size == other.size);
        }
        match (one.content, other.content) {
            (Some(one), Some(other)) => Ok(one == other),
            _ => self.is_same_bytes(one, other).with_context(|| shown::escaped(path)),
        }
    }

    fn is_same_bytes(&self, one: &VersionRecord, other: &VersionRecord) -> anyhow::Result<bool> {
        let (mut left, mut right) = (vec![0; READ_BYTES], vec![0; READ_BYTES]);
        let mut offset = 0;
        while offset < one.size {
            let read = self.repository.reader(&one.root, one.size).read_at(offset, &mut left)?;
            let read_too = self.repository.reader(&other.root, other.size).read_at(offset, &mut right)?;
            if read == 0 || read != read_too || left[..read] != right[..read] {
                return Ok(false);
            }
            offset += read as u64;
        }
        Ok(true)
    }

    fn tell(
        &mut self,
        difference: Difference,
        path: &[u8],
        one: Option<&FileEntry>,
        other: Option<&FileEntry>,
    ) -> anyhow::Result<()> {
        let size = |entry: Option<&FileEntry>| Some(entry?.head.as_ref()?.record.size);
        let (before, after) = (size(one), size(other));
        self.counts[difference as usize] += 1;
        if difference != Difference::Metadata {
            self.added_bytes += after.unwrap_or(0);
            self.removed_bytes += before.unwrap_or(0);
        }
        if self.output.is_json() {
            let mut fields = shown::path_fields(path);
            fields.insert("difference".into(), difference.name().into());
            fields.insert("size_before".into(), before.into());
            fields.insert("size_after".into(), after.into());
            return self.array.push(&Value::Object(fields));
        }
        let is_directory = one.or(other).is_some_and(|entry| entry.attributes.kind == FileKind::Directory);
        let slash = if is_directory { "/" } else { "" };
        let sizes = match (before, after) {
            (Some(before), Some(after)) if difference != Difference::Metadata => {
                format!(" ({} -> {})", shown::size(before), shown::size(after))
            }
            (Some(size), _) | (_, Some(size)) if difference != Difference::Metadata => {
                format!(" ({})", shown::size(size))
            }
            _ => String::new(),
        };
        self.output.line(format_args!("{} {}{slash}{sizes}", difference.letter(), shown::escaped(path)))
    }

    fn line(&self) -> String {
        let [added, removed, content, kind, metadata] = self.counts;
        if added + removed + content + kind + metadata == 0 {
            return "no differences".to_owned();
        }
        let mut line = format!(
            "{added} added, {removed} removed, {} changed; +{}, -{}",
            content + kind,
            shown::size(self.added_bytes),
            shown::size(self.removed_bytes)
        );
        if self.with_metadata {
            line += &format!("; {metadata} with other attributes alone");
        }
        line
    }
}

/// But for what is not restored: when the inode was changed last, and its number.
fn look_alike(one: &Attributes, other: &Attributes) -> bool {
    let times = FileTimes { changed: other.times.changed, ..one.times };
    Attributes { times, inode: other.inode, ..one.clone() } == *other
}
