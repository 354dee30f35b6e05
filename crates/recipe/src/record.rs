//! Running a command that leaves its outputs in a store, and a recipe with them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use format::{
    Attributes, ErrorCode, FileId, FileKind, FileTime, FileTimes, FloatType, RecipeInput, RecipeOutput, RecipeProgram,
    RecipeRecord, RecipeTolerance, StorePath, VersionRecord,
};
use repository::{CommitEntry, RecipeDraft, Repository, WriteMode, refuse_reserved};
use store::ClaimOwner;

use crate::process::{Run, RunOptions};
use crate::programs::{ProgramSearch, Programs};
use crate::scratch::Scratch;
use crate::working_directory::{Names, make_above, make_directory, place};
use crate::{Error, Result, check, environment, files};

/// A file or directory of the store, and where the command finds or leaves it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlace {
    /// From the command's working directory on.
    pub name: Vec<u8>,
    pub path: StorePath,
}

/// How far outputs may differ when they are made again.
#[derive(Clone, Debug)]
pub struct ToleranceRequest {
    /// Of the output with this name or path; of all without.
    pub output: Option<Vec<u8>>,
    pub relative: f64,
    pub element: FloatType,
}

/// A command to record.
pub struct RecordRequest {
    pub arguments: Vec<Vec<u8>>,
    pub outputs: Vec<FilePlace>,
    pub inputs: Vec<FilePlace>,
    pub inputs_not_kept: Vec<String>,
    /// The caller's directory, in which programs are looked for.
    pub directory: PathBuf,
    /// Variables to keep besides those that are always kept, with a value or with theirs.
    pub environment: Vec<(OsString, Option<OsString>)>,
    pub programs: Vec<PathBuf>,
    pub kept_program_bytes: u64,
    pub tolerances: Vec<ToleranceRequest>,
    pub ignores_others: bool,
    /// Where the command fails or is refused, leave its directory.
    pub keeps_failed: bool,
    pub timeout: Option<Duration>,
    pub options: RunOptions,
}

/// A command that was run, and whose recipe the store has.
pub struct Recorded {
    pub id: String,
    /// Each with its length (bytes).
    pub outputs: Vec<(StorePath, u64)>,
    pub duration: Duration,
    /// Program files that are not kept.
    pub programs_not_kept: Vec<Vec<u8>>,
}

/// An input, and the version that it is.
struct Input {
    record: RecipeInput,
    version: VersionRecord,
}

/// Runs the command, and commits its outputs with the recipe: all or nothing. `claim_owners` gives each writer its own.
pub fn record(
    repository: &Arc<Repository>,
    request: &RecordRequest,
    claim_owners: &dyn Fn() -> ClaimOwner,
    must_stop: &(dyn Fn() -> bool + Sync),
) -> Result<Recorded> {
    request.check()?;
    // What is read stays there until the recipe keeps it.
    let _pin = repository.lease().hold();
    let mut inputs = request.find_inputs(repository)?;
    let names = inputs.iter().map(|input| input.record.name.clone()).collect();
    let attempt = Attempt::new(request, std::env::vars_os(), names)?;
    inputs.iter_mut().try_for_each(|input| place_input(repository, input, &attempt.work))?;
    let stored = attempt.run(must_stop).and_then(|made| {
        let stored = request.store_outputs(repository, &made.outputs, &attempt.work, claim_owners)?;
        made.names.check_still(&Names::below(&attempt.work)?)?;
        Ok((stored, made.duration))
    });
    let ((entries, outputs), duration) = match stored {
        Err(error) if request.keeps_failed => return Err(attempt.leave(error)?),
        stored => stored?,
    };
    if must_stop() {
        return Err(Error::Stopped);
    }
    let (records, versions) = inputs.into_iter().map(|input| (input.record, input.version)).unzip();
    let (record, programs) = attempt.describe(records, outputs, duration)?;
    let draft = RecipeDraft { record, programs, inputs: versions };
    let recorded = repository.record_recipe(claim_owners(), &draft, &entries)?;
    Ok(Recorded::new(recorded.id, &draft.record))
}

impl Recorded {
    pub(crate) fn new(id: String, record: &RecipeRecord) -> Self {
        let outputs = record.outputs.iter().map(|output| (output.path.clone(), output.bytes)).collect();
        let not_kept = record.programs.iter().filter(|program| !program.is_kept);
        let programs_not_kept = not_kept.map(|program| program.name.clone()).collect();
        Recorded { id, outputs, duration: Duration::from_nanos(record.duration_ns), programs_not_kept }
    }
}

/// One run of a command that leaves a recipe, in a directory of its own.
pub(crate) struct Attempt<'a> {
    request: &'a RecordRequest,
    environment: Vec<(Vec<u8>, Vec<u8>)>,
    programs: Programs,
    /// Where the inputs are to be before it runs.
    pub work: PathBuf,
    temporary: PathBuf,
    scratch: Scratch,
}

/// What a command made.
pub(crate) struct CommandResult {
    /// All that stands in its directory.
    pub names: Names,
    pub outputs: Vec<FilePlace>,
    pub duration: Duration,
}

/// The command's own directory, in its scratch directory.
const WORK: &str = "work";

impl<'a> Attempt<'a> {
    /// `variables` are those of the caller; `inputs` are the names of all input files.
    pub fn new(
        request: &'a RecordRequest,
        variables: impl Iterator<Item = (OsString, OsString)>,
        inputs: Vec<Vec<u8>>,
    ) -> Result<Self> {
        let environment = environment::kept(variables, &request.environment);
        let programs = request.find_programs(&environment, inputs)?;
        let scratch = Scratch::new(request.options.scratch.as_deref())?;
        let (work, temporary) = (scratch.directory(WORK)?, scratch.directory("tmp")?);
        Ok(Attempt { request, environment, programs, work, temporary, scratch })
    }

    pub fn run(&self, must_stop: &(dyn Fn() -> bool + Sync)) -> Result<CommandResult> {
        let (request, work) = (self.request, &self.work);
        self.programs.files.iter().try_for_each(|program| place_program(&program.record, &program.source, work))?;
        let directories = request.output_directories();
        directories.iter().try_for_each(|directory| make_directory(&place(work, directory)))?;
        let before = Names::below(work)?;
        let run = Run {
            arguments: &self.programs.arguments,
            environment: &self.environment,
            working_directory: work,
            temporary: &self.temporary,
            timeout: request.timeout,
            options: &request.options,
        };
        let duration = run.run(must_stop)?;
        let names = Names::below(work)?;
        let outputs = request.find_outputs(&before, &names)?;
        request.check_tolerances(&outputs)?;
        Ok(CommandResult { names, outputs, duration })
    }

    /// Leaves its directory for its user where the command failed or was refused, and returns the error that names it.
    fn leave(self, error: Error) -> Result<Error> {
        let leave = |why: String| -> Result<String> {
            let kept = self.scratch.keep()?;
            Ok(format!("{why}; its directory stays: {}", kept.join(WORK).display()))
        };
        Ok(match error {
            Error::Command(why) => Error::Command(leave(why)?),
            Error::Refused { code, why } => Error::Refused { code, why: leave(why)? },
            other => other,
        })
    }

    /// Returns the recipe, and the contents of the programs that it keeps.
    pub fn describe(
        self,
        inputs: Vec<RecipeInput>,
        outputs: Vec<RecipeOutput>,
        duration: Duration,
    ) -> Result<(RecipeRecord, Vec<Vec<u8>>)> {
        let contents = self.programs.kept_contents(&self.work)?;
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let record = RecipeRecord {
            arguments: self.programs.arguments,
            programs: self.programs.files.into_iter().map(|program| program.record).collect(),
            environment: self.environment,
            inputs,
            inputs_not_kept: self.request.inputs_not_kept.clone(),
            outputs,
            directories: self.request.output_directories(),
            ignores_others: self.request.ignores_others,
            duration_ns: duration.as_nanos() as u64,
            recorded: FileTime { seconds: since_1970.as_secs() as i64, nanoseconds: since_1970.subsec_nanos() },
            host: rustix::system::uname().nodename().to_string_lossy().into_owned(),
            uid: rustix::process::geteuid().as_raw(),
        };
        Ok((record, contents))
    }
}

impl RecordRequest {
    pub(crate) fn check(&self) -> Result<()> {
        if self.arguments.is_empty() || self.outputs.is_empty() {
            return Err(Error::refused(ErrorCode::Usage, "a recipe needs a command and at least one output"));
        }
        let mut seen = BTreeMap::<&[u8], ()>::new();
        for place in self.outputs.iter().chain(&self.inputs) {
            let name = String::from_utf8_lossy(&place.name);
            let is_inside =
                StorePath::new(&place.name).is_ok_and(|path| !path.is_root() && path.as_bytes() == place.name);
            if !is_inside {
                return Err(Error::refused(
                    ErrorCode::InvalidName,
                    format!("{name}: is no name in the command's own directory"),
                ));
            }
            if seen.insert(&place.name, ()).is_some() {
                return Err(Error::refused(
                    ErrorCode::SameTarget,
                    format!("{name}: is named twice; give one of them another name, as in NAME=STORE::PATH"),
                ));
            }
        }
        refuse_twice(&self.outputs)?;
        self.outputs.iter().try_for_each(|output| refuse_reserved(&output.path))?;
        self.check_tolerances(&self.outputs)
    }

    /// Refuses tolerances that are for none of these outputs, nor for what may lie below one.
    fn check_tolerances(&self, outputs: &[FilePlace]) -> Result<()> {
        let is_at = |wanted: &[u8], name: &[u8]| {
            wanted.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        let is_for = |wanted: &[u8]| {
            let matches = |output: &FilePlace| is_at(wanted, &output.name) || is_at(wanted, output.path.as_bytes());
            outputs.iter().any(matches)
        };
        let mut named = self.tolerances.iter().filter_map(|tolerance| tolerance.output.as_deref());
        match named.find(|wanted| !is_for(wanted)) {
            Some(wanted) => {
                let wanted = String::from_utf8_lossy(wanted);
                Err(Error::refused(
                    ErrorCode::Usage,
                    format!("{wanted}: a tolerance is stated for it, and it is no output"),
                ))
            }
            None => Ok(()),
        }
    }

    /// Returns the directories that the outputs are made in.
    fn output_directories(&self) -> Vec<Vec<u8>> {
        let above = |output: &FilePlace| {
            output.name.iter().rposition(|byte| *byte == b'/').map(|at| output.name[..at].to_vec())
        };
        self.outputs.iter().filter_map(above).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn find_inputs(&self, repository: &Repository) -> Result<Vec<Input>> {
        let mut inputs = Vec::new();
        for place in &self.inputs {
            let entry = repository.catalog().entry(&place.path)?;
            let entry = entry.ok_or_else(|| catalog::Error::NotFound { path: place.path.clone() })?;
            match entry.attributes.kind {
                FileKind::Directory => self.add_below(repository, place, &mut inputs)?,
                _ => inputs.push(input(place.clone(), entry)?),
            }
        }
        refuse_one_place(inputs.iter().map(|input| &input.record.name[..]))?;
        Ok(inputs)
    }

    fn add_below(&self, repository: &Repository, directory: &FilePlace, inputs: &mut Vec<Input>) -> Result<()> {
        repository::list(repository.catalog(), &directory.path, true, |listed| {
            for (path, entry) in listed {
                let below = path.below(&directory.path).unwrap_or_default();
                let name = [&directory.name[..], b"/", below].concat();
                if entry.attributes.kind != FileKind::Directory {
                    inputs.push(input(FilePlace { name, path }, entry)?);
                }
            }
            Ok(())
        })
    }

    fn find_programs(&self, kept: &[(Vec<u8>, Vec<u8>)], inputs: Vec<Vec<u8>>) -> Result<Programs> {
        let others = inputs.into_iter().chain(self.outputs.iter().map(|output| output.name.clone())).collect();
        let path = kept.iter().find(|(name, _)| name == b"PATH").map_or(&b"/usr/bin:/bin"[..], |(_, value)| value);
        let (directory, more, kept_bytes) = (&self.directory, &self.programs[..], self.kept_program_bytes);
        ProgramSearch { directory, path, more, others, kept_bytes }.find(&self.arguments)
    }

    /// Returns the regular files that are outputs; refuses a directory in which anything else has changed.
    fn find_outputs(&self, before: &Names, after: &Names) -> Result<Vec<FilePlace>> {
        let mut found = Vec::new();
        for output in &self.outputs {
            let name = String::from_utf8_lossy(&output.name);
            if after.is_regular(&output.name) {
                found.push(output.clone());
            } else if after.is_directory(&output.name) {
                // What it was given is no output.
                let files = after.regular_below(&output.name).filter(|file| !before.is_there(file));
                let files: Vec<_> = files.map(|file| below(output, file)).collect::<Result<_>>()?;
                if files.is_empty() {
                    return Err(Error::Command(format!("the command left no files in {name}, which is an output")));
                }
                found.extend(files);
            } else if after.is_there(&output.name) {
                return Err(Error::Command(format!(
                    "the command made {name}, which is an output, as a link or special file: only regular files are kept"
                )));
            } else {
                return Err(Error::Command(format!("the command did not make {name}, which is an output")));
            }
        }
        refuse_twice(&found)?;
        found.iter().try_for_each(|output| refuse_reserved(&output.path))?;
        before.check_unchanged(after)?;
        if !self.ignores_others {
            after.check_others(before, &found.iter().map(|place| &place.name[..]).collect())?;
        }
        Ok(found)
    }

    fn store_outputs(
        &self,
        repository: &Arc<Repository>,
        outputs: &[FilePlace],
        work: &Path,
        claim_owners: &dyn Fn() -> ClaimOwner,
    ) -> Result<(Vec<CommitEntry>, Vec<RecipeOutput>)> {
        let (mut entries, mut records) = (Vec::new(), Vec::new());
        for FilePlace { name, path } in outputs {
            let file = place(work, name);
            let (entry, digest) = store_file(repository, claim_owners(), path, &file)?;
            let (bytes, tolerance) = (entry.draft.version().size, self.tolerance(name, path, &file)?);
            records.push(RecipeOutput { name: name.clone(), path: path.clone(), bytes, digest, tolerance });
            entries.push(entry);
        }
        Ok((entries, records))
    }

    pub(crate) fn tolerance(&self, name: &[u8], path: &StorePath, file: &Path) -> Result<Option<RecipeTolerance>> {
        let is_meant = |output: &[u8]| output == name || output == path.as_bytes();
        let of_it = |tolerance: &&ToleranceRequest| tolerance.output.as_deref().is_none_or(is_meant);
        let Some(found) = self.tolerances.iter().rev().find(of_it) else { return Ok(None) };
        let ToleranceRequest { relative, element, .. } = *found;
        let bytes = fs::metadata(file).map_err(|error| Error::io(file, error))?.len();
        let name = String::from_utf8_lossy(name);
        if bytes == 0 || !bytes.is_multiple_of(element.bytes() as u64) {
            let why = format!("{name}: has {bytes} bytes, which are no values of {element}: no tolerance is for it");
            return Err(Error::Command(why));
        }
        if let Some(kind) = files::array_format(file)? {
            let why = format!(
                "{name}: is {kind}, with more in it than values, and a tolerance is for files of values alone; leave out \
                 the tolerance, or let the command write the values to a file of their own"
            );
            return Err(Error::Command(why));
        }
        Ok(Some(RecipeTolerance { relative, element, statistics: check::count(element, file)? }))
    }
}

impl Programs {
    /// Reads the programs that are kept, from where the command had them.
    fn kept_contents(&self, work: &Path) -> Result<Vec<Vec<u8>>> {
        let kept = self.files.iter().filter(|program| program.record.is_kept);
        let read = |path: PathBuf| fs::read(&path).map_err(|error| Error::io(&path, error));
        kept.map(|program| read(place(work, &program.record.name))).collect()
    }
}

/// Stores a file's content for a path; returns its digest too.
pub(crate) fn store_file(
    repository: &Arc<Repository>,
    claim_owner: ClaimOwner,
    path: &StorePath,
    file: &Path,
) -> Result<(CommitEntry, [u8; 32])> {
    let draft = files::store(repository, claim_owner, file)?;
    let digest = draft.version().content.map_or_else(|| files::digest(file).map(|(digest, _)| digest), Ok)?;
    let (path, attributes) = (path.clone(), attributes(file)?);
    Ok((CommitEntry { path, attributes, mode: WriteMode::Replace, draft }, digest))
}

fn input(place: FilePlace, entry: catalog::FileEntry) -> Result<Input> {
    let FilePlace { name, path } = place;
    let file = entry.file;
    let Some(head) = entry.head else {
        return Err(Error::refused(
            ErrorCode::WrongKind,
            format!("{path}: only regular files and directories of them can be inputs"),
        ));
    };
    let (number, bytes) = (head.number, head.record.size);
    let record = RecipeInput { name, path, file: FileId(file.0), number, bytes, digest: [0; 32] };
    Ok(Input { record, version: head.record })
}

/// Refuses inputs that would stand in one place.
pub(crate) fn refuse_one_place<'a>(mut names: impl Iterator<Item = &'a [u8]>) -> Result<()> {
    let mut seen = BTreeSet::new();
    match names.find(|name| !seen.insert(*name)) {
        Some(twice) => {
            let name = String::from_utf8_lossy(twice);
            let why = format!("{name}: two inputs would stand there; name one of them NAME=STORE::PATH");
            Err(Error::refused(ErrorCode::SameTarget, why))
        }
        None => Ok(()),
    }
}

/// Refuses outputs of one name or path, and one that is below another, which stands for all below it.
fn refuse_twice(outputs: &[FilePlace]) -> Result<()> {
    for bytes in [|output: &FilePlace| output.name.clone(), |output: &FilePlace| output.path.as_bytes().to_vec()] {
        let mut sorted: Vec<Vec<u8>> = outputs.iter().map(bytes).collect();
        // So that what is below a name follows it.
        sorted.sort_by(|one, next| one.split(|byte| *byte == b'/').cmp(next.split(|byte| *byte == b'/')));
        let is_below = |one: &[u8], above: &[u8]| {
            one.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
        };
        if let Some(pair) = sorted.windows(2).find(|pair| is_below(&pair[1], &pair[0])) {
            let [above, below] = [0, 1].map(|at| String::from_utf8_lossy(&pair[at]).into_owned());
            let why = match above == below {
                true => format!("{below}: is two outputs"),
                false => format!("{below}: is an output twice, as {above} stands for all below it"),
            };
            return Err(Error::refused(ErrorCode::SameTarget, why));
        }
    }
    Ok(())
}

/// The digest is known when it has been written.
fn place_input(repository: &Repository, input: &mut Input, work: &Path) -> Result<()> {
    let stretch = files::Stretch { version: &input.version, start: 0, bytes: input.version.size };
    input.record.digest = files::write_out(repository, &stretch, &place(work, &input.record.name))
        .map_err(|error| of_input(&input.record.path, error))?;
    Ok(())
}

fn of_input(path: &StorePath, error: Error) -> Error {
    match error {
        Error::Repository(error @ repository::Error::Dropped(_)) => {
            Error::refused(ErrorCode::DataDropped, format!("{path}: cannot be an input: {error}"))
        }
        other => other,
    }
}

/// Copies a program of the caller's directory; others are run where they are.
fn place_program(program: &RecipeProgram, source: &Path, work: &Path) -> Result<()> {
    if program.name.starts_with(b"/") {
        return Ok(());
    }
    let target = place(work, &program.name);
    make_above(&target)?;
    fs::copy(source, &target).map_err(|error| Error::io(&target, error))?;
    if files::digest(&target)? != (program.digest, program.bytes) {
        let why = format!("{}: changed while it was copied; run this again", source.display());
        return Err(Error::refused(ErrorCode::ChangedWhileRead, why));
    }
    Ok(())
}

/// Returns an output below an output directory.
fn below(directory: &FilePlace, file: &[u8]) -> Result<FilePlace> {
    let rest = &file[directory.name.len() + 1..];
    let path = directory.path.join(rest).map_err(repository::Error::from)?;
    Ok(FilePlace { name: file.to_vec(), path })
}

fn attributes(file: &Path) -> Result<Attributes> {
    let found = fs::metadata(file).map_err(|error| Error::io(file, error))?;
    let modified = FileTime { seconds: found.mtime(), nanoseconds: found.mtime_nsec() as u32 };
    let times = FileTimes { modified, ..FileTimes::default() };
    let (uid, gid) = (found.uid(), found.gid());
    Ok(Attributes { mode: found.mode() & 0o7777, uid, gid, times, ..Attributes::default() })
}

/// Without another name the command finds a file at its path.
impl From<StorePath> for FilePlace {
    fn from(path: StorePath) -> Self {
        FilePlace { name: path.as_bytes().to_vec(), path }
    }
}
