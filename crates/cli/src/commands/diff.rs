//! `thalweg diff`: what two trees of a store, or one at two times, have different.

use std::cmp::Ordering;
use std::ffi::OsString;

use anyhow::Context;
use catalog::FileEntry;
use format::{Attributes, ErrorCode, FileKind, FileTimes, VersionRecord};
use repository::{Access, Repository};
use serde_json::Value;

use crate::error_code::Coded;
use crate::failure::{Incomplete, misuse};
use crate::location::Location;
use crate::moment::{CutoffTime, with_version};
use crate::opening::open_store;
use crate::output::{Array, Output};
use crate::shown;
use crate::tree_view::TreeView;

/// Read at a time of files that have to be compared byte for byte.
const READ_BYTES: usize = 1 << 20;

/// Compare two trees or files, or one at two times
#[derive(clap::Args)]
#[command(
    after_help = "A line for each name, from the compared directories on: `+` only the second has it, `-` only the first has \
                        it, M other content, T another kind, and with --metadata U for other mode, owner, times, target or \
                        extended attributes. Contents are compared by their digests; only files without one are read.\n\n\
                        With one place and one --at, --snapshot or --version, what was then is compared with what is now. \
                        With --at, names are those of today: files without a version of that time are missing there.\n\n\
                        Exits with 0 whether there are differences or not, with --exit-code with 3 if there are.\n\n\
                        Example: thalweg diff /scratch/st::run1 /scratch/st::run2\n\
                        Example: thalweg diff /scratch/st::run1 --at 12h\n\
                        Example: thalweg diff /scratch/st::run1 --snapshot 1f2e3d4c --snapshot latest"
)]
pub struct Arguments {
    /// The first place, and the second (without: the same), each STORE::PATH
    #[arg(required = true, num_args = 1..=2, value_name = "STORE::PATH")]
    locations: Vec<OsString>,
    /// Files as they were then: of the first place, and given twice of the second, too
    #[arg(long, value_name = "TIME", conflicts_with = "version")]
    at: Vec<CutoffTime>,
    /// The first place as this snapshot has it; given twice the second, too
    #[arg(long, value_name = "ID", conflicts_with_all = ["at", "version"])]
    snapshot: Vec<String>,
    /// This version of the first file; given twice of the second, too
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    version: Vec<u64>,
    /// Report other attributes, too
    #[arg(long)]
    metadata: bool,
    /// End with 3 if there are differences
    #[arg(long)]
    exit_code: bool,
}

/// One of the two.
struct Side<'a> {
    repository: &'a Repository,
    location: &'a Location,
    view: TreeView<'a>,
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
    let Arguments { at, snapshot, version, .. } = arguments;
    if at.len().max(snapshot.len()).max(version.len()) > 2 {
        misuse!("two sides are compared: --at, --snapshot and --version are given twice at most");
    }
    if locations.len() == 1 && at.is_empty() && snapshot.is_empty() && version.is_empty() {
        misuse!(
            "{first}: with what is it to be compared? Name a second place, --at TIME, --snapshot ID or --version N"
        );
    }
    let repository = open_store(&first.store, Access::Read)?;
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
    comparison.run(&Side::of(&repository, first, arguments, 0)?, &Side::of(&repository, second, arguments, 1)?)?;
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

impl<'a> Side<'a> {
    /// The first of the two is number 0.
    fn of(
        repository: &'a Repository,
        location: &'a Location,
        arguments: &Arguments,
        number: usize,
    ) -> anyhow::Result<Self> {
        let snapshot = arguments.snapshot.get(number).map(String::as_str);
        let at = arguments.at.get(number).copied();
        let view = TreeView::of_snapshot(repository, snapshot, &location.path, at)?;
        Ok(Side { repository, location, view, version: arguments.version.get(number).copied() })
    }

    fn root(&self) -> anyhow::Result<FileEntry> {
        let location = self.location;
        let entry = self.view.expect(location)?;
        let Some(number) = self.version else { return Ok(entry) };
        if entry.attributes.kind != FileKind::Regular {
            misuse!(WrongKind: "{location}: --version is for regular files");
        }
        let versions = self.repository.catalog().versions(&location.path)?;
        let version = versions.into_iter().find(|version| version.number == number);
        let version = version.with_context(|| {
            let why = format!("{location}: there is no version {number}; `thalweg stat` lists them");
            Coded::new(ErrorCode::NoSuchVersion, why)
        })?;
        Ok(with_version(entry, version))
    }
}

impl Comparison<'_> {
    fn run(&mut self, first: &Side, second: &Side) -> anyhow::Result<()> {
        let (one, other) = (first.root()?, second.root()?);
        let is_directory = |entry: &FileEntry| entry.attributes.kind == FileKind::Directory;
        if !is_directory(&one) || !is_directory(&other) {
            return self.both(second.location.path.name(), &one, &other);
        }
        let (mut left, mut right) =
            (first.view.below(&first.location.path)?, second.view.below(&second.location.path)?);
        let (mut one, mut other) = (left.next()?, right.next()?);
        loop {
            let order = match (&one, &other) {
                (None, None) => return Ok(()),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some((one, _)), Some((other, _))) => one.cmp(other),
            };
            match (order, &one, &other) {
                (Ordering::Less, Some((path, entry)), _) => {
                    self.report(Difference::Removed, path, Some(entry), None)?
                }
                (Ordering::Greater, _, Some((path, entry))) => {
                    self.report(Difference::Added, path, None, Some(entry))?
                }
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
        self.report(difference, path, Some(one), Some(other))
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
            let read = self.repository.version_reader(one).read_at(offset, &mut left)?;
            let read_too = self.repository.version_reader(other).read_at(offset, &mut right)?;
            if read == 0 || read != read_too || left[..read] != right[..read] {
                return Ok(false);
            }
            offset += read as u64;
        }
        Ok(true)
    }

    fn report(
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
