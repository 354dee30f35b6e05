//! A command that is recorded in two halves: it runs on copies of its inputs, with no store; later what it left is stored with
//! its recipe, if the store still has the versions that the copies are of. Data diffusion has copies of its tasks' inputs, and
//! stores the outputs of one attempt only.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use catalog::Version;
use format::{ErrorCode, FileId, RecipeInput, RecipeOutput, RecipeRecord, StorePath};
use repository::{DroppedContent, RecipeDraft, Repository};
use store::ClaimOwner;

use crate::record::{Attempt, FilePlace, RecordRequest, Recorded, refuse_one_place, store_file};
use crate::working_directory::{Names, make_above, place};
use crate::{Error, Result, files};

/// What a command left, and the recipe that makes it again, whose inputs do not name their versions yet.
pub struct UnstoredRun {
    pub record: RecipeRecord,
    /// Contents of the program files that are kept.
    pub programs: Vec<Vec<u8>>,
}

/// Runs the command on copies of its inputs, files or directories, one for each of the request's. Its outputs are moved to
/// `targets`, which are on the same file system as the request's scratch directory. The command sees of `variables` what
/// the recipe keeps.
pub fn run_on_copies(
    request: &RecordRequest,
    copies: &[PathBuf],
    targets: &[PathBuf],
    variables: Vec<(OsString, OsString)>,
    must_stop: &(dyn Fn() -> bool + Sync),
) -> Result<UnstoredRun> {
    request.check()?;
    let mut inputs = Vec::new();
    for (input, copy) in request.inputs.iter().zip(copies) {
        add_files(input, copy, &mut inputs)?;
    }
    refuse_one_place(inputs.iter().map(|(input, _)| &input.name[..]))?;
    let names = inputs.iter().map(|(input, _)| input.name.clone()).collect();
    let attempt = Attempt::new(request, variables.into_iter(), names)?;
    let inputs = inputs.iter().map(|(input, copy)| place_copy(input, copy, &attempt.work));
    let inputs = inputs.collect::<Result<Vec<_>>>()?;
    let made = attempt.run(must_stop)?;
    let outputs = made.outputs.iter().map(|output| describe(request, output, &attempt.work));
    let outputs = outputs.collect::<Result<Vec<_>>>()?;
    for (output, target) in request.outputs.iter().zip(targets) {
        let source = place(&attempt.work, &output.name);
        make_above(target)?;
        fs::rename(&source, target).map_err(|error| Error::io(target, error))?;
    }
    let (record, programs) = attempt.describe(inputs, outputs, made.duration)?;
    Ok(UnstoredRun { record, programs })
}

/// Stores what a command left, now at `places`, with its recipe: all or nothing. `roots` are those of versions that are
/// known to be what was read; of others the digest is compared.
pub fn store_run(
    repository: &Arc<Repository>,
    run: UnstoredRun,
    places: &[(StorePath, PathBuf)],
    roots: &BTreeMap<StorePath, Vec<u8>>,
    claim_owners: &dyn Fn() -> ClaimOwner,
) -> Result<Recorded> {
    // What was read stays there until the recipe keeps it.
    let _pin = repository.lease().hold();
    let UnstoredRun { mut record, programs } = run;
    let mut versions = Vec::new();
    for input in &mut record.inputs {
        let (file, version) = find_version(repository, input, roots.get(&input.path))?;
        (input.file, input.number) = (file, version.number);
        versions.push(version.record);
    }
    let mut entries = Vec::new();
    for output in &record.outputs {
        let file = place_of(output, places);
        let (entry, digest) = store_file(repository, claim_owners(), &output.path, &file)?;
        if digest != output.digest {
            let why = format!("{}: was changed after the command had left it", output.path);
            return Err(Error::refused(ErrorCode::ChangedWhileRead, why));
        }
        entries.push(entry);
    }
    let draft = RecipeDraft { record, programs, inputs: versions };
    match repository.record_recipe(claim_owners(), &draft, &entries) {
        Ok(recorded) => Ok(Recorded::new(recorded.id, &draft.record)),
        // An earlier try, whose answer was lost, may have stored it.
        Err(error) if error.code() == ErrorCode::HeadMoved => {
            let digest = RecipeRecord::digest(&draft.record.encode());
            match repository.recipe(&digest)? {
                Some(Ok(stored)) => Ok(Recorded::new(stored.id, &draft.record)),
                _ => Err(error.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Adds the files that a copy consists of.
fn add_files(input: &FilePlace, copy: &Path, files: &mut Vec<(FilePlace, PathBuf)>) -> Result<()> {
    if !copy.is_dir() {
        files.push((input.clone(), copy.to_path_buf()));
        return Ok(());
    }
    for name in Names::below(copy)?.regular() {
        let path = input.path.join(name).map_err(repository::Error::from)?;
        files.push((FilePlace { name: [&input.name[..], b"/", name].concat(), path }, place(copy, name)));
    }
    Ok(())
}

/// The command has a copy of its own, as it might change it.
fn place_copy(input: &FilePlace, copy: &Path, work: &Path) -> Result<RecipeInput> {
    let target = place(work, &input.name);
    make_above(&target)?;
    fs::copy(copy, &target).map_err(|error| Error::io(&target, error))?;
    let (digest, bytes) = files::digest(&target)?;
    let FilePlace { name, path } = input.clone();
    Ok(RecipeInput { name, path, file: FileId(0), number: 0, bytes, digest })
}

fn describe(request: &RecordRequest, output: &FilePlace, work: &Path) -> Result<RecipeOutput> {
    let file = place(work, &output.name);
    let (digest, bytes) = files::digest(&file)?;
    let tolerance = request.tolerance(&output.name, &output.path, &file)?;
    let FilePlace { name, path } = output.clone();
    Ok(RecipeOutput { name, path, bytes, digest, tolerance })
}

/// Finds the version that the command read, the newest first.
fn find_version(repository: &Repository, input: &RecipeInput, root: Option<&Vec<u8>>) -> Result<(FileId, Version)> {
    let path = &input.path;
    let entry = repository.catalog().entry(path)?;
    let found = entry.as_ref().and_then(|entry| Some((entry.file, entry.head.clone()?)));
    if let Some((file, head)) = found {
        if is_what_was_read(repository, input, &head, root)? {
            return Ok((file, head));
        }
        for older in repository.catalog().versions(path)?.into_iter().rev() {
            if older.number != head.number && is_what_was_read(repository, input, &older, root)? {
                return Ok((file, older));
            }
        }
    }
    let why = format!(
        "{path}: was changed or removed in the store after it had been read for this task, so a recipe with it would make \
         something else; nothing was stored: run the task again"
    );
    Err(Error::refused(ErrorCode::ChangedWhileRead, why))
}

fn is_what_was_read(
    repository: &Repository,
    input: &RecipeInput,
    version: &Version,
    root: Option<&Vec<u8>>,
) -> Result<bool> {
    let record = &version.record;
    if record.size != input.bytes {
        return Ok(false);
    }
    if let Some(dropped) = DroppedContent::of(record)
        && !comes_back_exactly(repository, &dropped)?
    {
        return Ok(false);
    }
    match record.content {
        Some(digest) => Ok(digest == input.digest),
        None if root.is_some_and(|root| root == record.root.key()) => Ok(true),
        None if DroppedContent::of(record).is_some() => Ok(false),
        None => Ok(files::digest_of_version(repository, record)? == input.digest),
    }
}

/// Whether a dropped content is made again bit for bit, and not within a tolerance alone.
fn comes_back_exactly(repository: &Repository, dropped: &DroppedContent) -> Result<bool> {
    let recipe = repository.recipe(&dropped.recipe)?.and_then(std::result::Result::ok);
    let output = recipe.as_ref().and_then(|recipe| recipe.record.outputs.get(dropped.output as usize));
    Ok(output.is_some_and(|output| output.tolerance.is_none()))
}

fn place_of(output: &RecipeOutput, places: &[(StorePath, PathBuf)]) -> PathBuf {
    let found = places.iter().find_map(|(path, place)| {
        if *path == output.path {
            return Some(place.clone());
        }
        output.path.below(path).map(|rest| place.join(OsStr::from_bytes(rest)))
    });
    found.unwrap_or_default()
}
