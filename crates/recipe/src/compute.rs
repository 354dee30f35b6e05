//! Running recipes again: the commands of a plan, each once, with what they make kept in a scratch directory, and checked
//! before anything is done with it.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use catalog::{FileEntry, Version};
use format::{ErrorCode, RecipeOutput, RecipeProgram, StorePath};
use repository::{
    ComputeInput, ComputePlan, ComputeStep, ComputeTarget, DroppedContent, EpochPin, Recipe, Repository, RestoredFile,
};
use store::ClaimOwner;

use crate::check::{Agreement, compare};
use crate::process::{Run, RunOptions};
use crate::programs::{ProgramDigests, source_of};
use crate::schedule::run_in_order;
use crate::scratch::{Scratch, remove};
use crate::working_directory::{Names, make_above, make_directory, place};
use crate::{Error, Result, files};

/// Without a time limit, a command may take so many times what it took, and this.
const TIMES_AS_LONG: u64 = 10;
const LEAST_TIMEOUT: Duration = Duration::from_secs(60);

/// How recipes are run again.
#[derive(Clone, Debug, Default)]
pub struct ComputeOptions {
    /// The caller's directory, in which programs that are not kept are looked for.
    pub directory: PathBuf,
    /// Commands at once; 0 counts as 1.
    pub jobs: usize,
    /// Of each command; by its recorded time without.
    pub timeout: Option<Duration>,
    pub run: RunOptions,
    /// Take what commands make, also where it is not what it was.
    pub accepts_different: bool,
}

/// What the commands of a plan made, as long as this lives.
pub struct Computed {
    /// One for each target of the plan.
    pub files: Vec<ComputedFile>,
    _scratch: Scratch,
    /// What is read beside them stays there too.
    _pin: EpochPin,
}

/// A content that was made again.
#[derive(Clone, Debug)]
pub struct ComputedFile {
    pub path: PathBuf,
    pub agreement: Agreement,
}

/// A plan under way.
struct Computing<'a> {
    repository: &'a Repository,
    plan: &'a ComputePlan,
    options: &'a ComputeOptions,
    scratch: &'a Path,
    digests: Mutex<ProgramDigests>,
    /// For each step, how its outputs agree.
    agreements: Vec<Mutex<Vec<Agreement>>>,
    note: &'a (dyn Fn(&str) + Sync),
    must_stop: &'a (dyn Fn() -> bool + Sync),
}

/// Runs the commands of a plan; an error where one of them fails or makes something else. Nothing is stored.
pub fn compute(
    repository: &Repository,
    plan: &ComputePlan,
    options: &ComputeOptions,
    note: &(dyn Fn(&str) + Sync),
    must_stop: &(dyn Fn() -> bool + Sync),
) -> Result<Computed> {
    let pin = repository.lease().hold();
    let scratch = Scratch::new(options.run.scratch.as_deref())?;
    let computing = Computing {
        repository,
        plan,
        options,
        scratch: scratch.path(),
        digests: Mutex::default(),
        agreements: plan.steps.iter().map(|_| Mutex::default()).collect(),
        note,
        must_stop,
    };
    let needs: Vec<Vec<usize>> = plan.steps.iter().map(needed_steps).collect();
    run_in_order(&needs, options.jobs.max(1), |step| computing.run(step))?;
    let files = plan.targets.iter().map(|target| computing.file(*target)).collect();
    Ok(Computed { files, _scratch: scratch, _pin: pin })
}

fn needed_steps(step: &ComputeStep) -> Vec<usize> {
    let made = step.inputs.iter().filter_map(|input| match input {
        ComputeInput::Made(target) => Some(target.step),
        _ => None,
    });
    made.collect::<BTreeSet<_>>().into_iter().collect()
}

/// Gives dropped files the data that was made for them, in one transaction. `files` are those of the plan's targets.
pub fn restore(
    repository: &Arc<Repository>,
    computed: &Computed,
    files: Vec<(StorePath, FileEntry)>,
    claim_owners: &dyn Fn() -> ClaimOwner,
) -> Result<()> {
    let mut restored = Vec::new();
    let wanted: Vec<_> = files.iter().map(|(path, entry)| (path.clone(), entry.head.clone())).collect();
    for ((path, entry), file) in files.into_iter().zip(&computed.files) {
        let draft = files::store(repository, claim_owners(), &file.path)?;
        let wanted = entry.head.as_ref().and_then(|head| head.record.content);
        if file.agreement == Agreement::Exact && wanted.is_some() && draft.version().content != wanted {
            return Err(Error::Differs(format!(
                "{path}: what a command made has changed since it was compared: something that it started still writes there"
            )));
        }
        restored.push(RestoredFile { path, entry, draft });
    }
    match repository.restore_files(claim_owners(), &restored) {
        // Another may have restored them meanwhile.
        Err(error) if error.code() == ErrorCode::HeadMoved && are_there(repository, &wanted)? => Ok(()),
        restored => Ok(restored?),
    }
}

/// Whether all of these files have their data.
fn are_there(repository: &Repository, files: &[(StorePath, Option<Version>)]) -> Result<bool> {
    for (path, dropped) in files {
        let now = repository.catalog().entry(path)?.and_then(|entry| entry.head);
        let content = |version: &Version| version.record.content;
        let is_there = now.as_ref().is_some_and(|now| {
            DroppedContent::of(&now.record).is_none() && dropped.as_ref().and_then(content) == content(now)
        });
        if !is_there {
            return Ok(false);
        }
    }
    Ok(true)
}

impl Computing<'_> {
    /// Runs one command, and keeps its outputs alone.
    fn run(&self, number: usize) -> Result<()> {
        if (self.must_stop)() {
            return Err(Error::Stopped);
        }
        let step = &self.plan.steps[number];
        let directory = self.scratch.join(number.to_string());
        let (work, temporary) = (directory.join("work"), directory.join("tmp"));
        [&work, &temporary].into_iter().try_for_each(|directory| make_directory(directory))?;
        self.place_inputs(step, &work)?;
        self.place_programs(&step.recipe, &work)?;
        let outputs = &step.recipe.record.outputs;
        step.recipe.record.directories.iter().try_for_each(|directory| make_directory(&place(&work, directory)))?;
        let before = Names::below(&work)?;
        self.run_command(&step.recipe, &work, &temporary)?;
        self.check(number, &before, &work)?;
        for (at, output) in outputs.iter().enumerate() {
            let kept = self.path(ComputeTarget { step: number, output: at });
            fs::rename(place(&work, &output.name), &kept).map_err(|error| Error::io(&kept, error))?;
        }
        remove(&directory);
        Ok(())
    }

    /// Returns where an output stands when its command is done.
    fn path(&self, target: ComputeTarget) -> PathBuf {
        self.scratch.join(format!("{}-{}", target.step, target.output))
    }

    fn file(&self, target: ComputeTarget) -> ComputedFile {
        let agreements = self.agreements[target.step].lock().unwrap_or_else(PoisonError::into_inner);
        ComputedFile { path: self.path(target), agreement: agreements[target.output] }
    }

    fn place_inputs(&self, step: &ComputeStep, work: &Path) -> Result<()> {
        for (input, found) in step.recipe.record.inputs.iter().zip(&step.inputs) {
            let target = place(work, &input.name);
            let (version, start) = match found {
                ComputeInput::Kept(start) => (step.recipe.version(), *start),
                ComputeInput::Stored(version) => (version, 0),
                ComputeInput::Made(made) => {
                    make_above(&target)?;
                    fs::copy(self.path(*made), &target).map_err(|error| Error::io(&target, error))?;
                    fs::set_permissions(&target, fs::Permissions::from_mode(0o644))
                        .map_err(|error| Error::io(&target, error))?;
                    continue;
                }
            };
            let stretch = files::Stretch { version, start, bytes: input.bytes };
            if files::write_out(self.repository, &stretch, &target)? != input.digest {
                let (id, path) = (&step.recipe.id, &input.path);
                return Err(Error::refused(
                    ErrorCode::DataDamaged,
                    format!("recipe {id}: its input {path} is not what it was; `thalweg verify` says what is damaged"),
                ));
            }
        }
        Ok(())
    }

    fn place_programs(&self, recipe: &Recipe, work: &Path) -> Result<()> {
        for (program, start) in recipe.record.programs.iter().zip(recipe.program_starts()) {
            let target = place(work, &program.name);
            match start {
                Some(start) => {
                    let stretch = files::Stretch { version: recipe.version(), start, bytes: program.bytes };
                    if files::write_out(self.repository, &stretch, &target)? != program.digest {
                        let (id, name) = (&recipe.id, String::from_utf8_lossy(&program.name));
                        let why = format!(
                            "recipe {id}: its program {name} is not what it was; `thalweg verify` says what is damaged"
                        );
                        return Err(Error::refused(ErrorCode::DataDamaged, why));
                    }
                }
                None if program.name.starts_with(b"/") => {
                    self.check_program(recipe, program)?;
                    continue;
                }
                None => {
                    let source = self.check_program(recipe, program)?;
                    make_above(&target)?;
                    fs::copy(&source, &target).map_err(|error| Error::io(&source, error))?;
                }
            }
            let mode = fs::Permissions::from_mode(program.mode | 0o400);
            fs::set_permissions(&target, mode).map_err(|error| Error::io(&target, error))?;
        }
        Ok(())
    }

    /// Refuses a program that is not there; notes another one, whose results are checked.
    fn check_program(&self, recipe: &Recipe, program: &RecipeProgram) -> Result<PathBuf> {
        let source = source_of(program, &self.options.directory);
        let (id, shown) = (&recipe.id, source.display());
        let digest = self.digests.lock().unwrap_or_else(PoisonError::into_inner).of(&source);
        match digest {
            None => Err(Error::refused(
                ErrorCode::NotRecomputable,
                format!(
                    "recipe {id}: its program {shown} is not kept, and is not there; bring it back, or run this where it is"
                ),
            )),
            Some(digest) if digest != program.digest => {
                (self.note)(&format!("recipe {id}: {shown} is another program than when it was recorded"));
                Ok(source)
            }
            Some(_) => Ok(source),
        }
    }

    fn run_command(&self, recipe: &Recipe, work: &Path, temporary: &Path) -> Result<()> {
        let recorded = Duration::from_nanos(recipe.record.duration_ns.saturating_mul(TIMES_AS_LONG));
        let run = Run {
            arguments: &recipe.record.arguments,
            environment: &recipe.record.environment,
            working_directory: work,
            temporary,
            timeout: Some(self.options.timeout.unwrap_or(recorded.saturating_add(LEAST_TIMEOUT))),
            options: &self.options.run,
        };
        match run.run(self.must_stop) {
            Err(Error::Command(why)) => Err(of_recipe(recipe, why)),
            done => done.map(drop),
        }
    }

    fn check(&self, number: usize, before: &Names, work: &Path) -> Result<()> {
        let recipe = &self.plan.steps[number].recipe;
        let after = Names::below(work)?;
        let outputs = &recipe.record.outputs;
        if let Some(missing) = outputs.iter().find(|output| !after.is_regular(&output.name)) {
            let name = String::from_utf8_lossy(&missing.name);
            return Err(of_recipe(recipe, format!("the command did not make {name}, which is an output")));
        }
        let mut checked = before.check_unchanged(&after);
        if checked.is_ok() && !recipe.record.ignores_others {
            checked = after.check_others(before, &outputs.iter().map(|output| &output.name[..]).collect());
        }
        if let Err(Error::Command(why)) = checked {
            return Err(of_recipe(recipe, why));
        }
        let compared = outputs.iter().map(|output| self.compare(output, &recipe.id, &place(work, &output.name)));
        let compared = compared.collect::<Result<Vec<Agreement>>>()?;
        *self.agreements[number].lock().unwrap_or_else(PoisonError::into_inner) = compared;
        Ok(())
    }

    fn compare(&self, output: &RecipeOutput, recipe_id: &str, made: &Path) -> Result<Agreement> {
        match compare(output, recipe_id, made) {
            Err(Error::Differs(why)) if self.options.accepts_different => {
                (self.note)(&why);
                Ok(Agreement::None)
            }
            compared => compared,
        }
    }
}

fn of_recipe(recipe: &Recipe, why: String) -> Error {
    Error::Command(format!("recipe {}: {why}", recipe.id))
}
