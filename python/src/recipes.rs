//! Recipes: commands that leave their outputs in a store, and make them again.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use format::{ErrorCode, FileTime, RecipeRecord, StorePath};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use recipe::{
    Agreement, ComputeOptions, FilePlace, RecordRequest, Recorded, RunOptions, ToleranceRequest, UnstoredRun,
};
use repository::{ComputePlan, DropRequest, DroppedContent, OutputState, Recipe, Repository};

use crate::entry::Entry;
use crate::error::{misuse, of_path, of_recipe, of_repository};
use crate::store::{Store, parse};

/// The name from the command's directory on, and the path in the store.
type Place = (Vec<u8>, Vec<u8>);

/// The recipe's name, the seconds that the command took, and the paths and lengths of the outputs.
type RecordedFields = (String, f64, Vec<(Vec<u8>, u64)>);
/// A file in the command's directory and in the store, and where it is on this machine.
type LocalPlace = (Vec<u8>, Vec<u8>, PathBuf);

/// How a command is recorded.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RecordOptions {
    inputs_not_kept: Vec<String>,
    directory: PathBuf,
    environment: Vec<(OsString, Option<OsString>)>,
    programs: Vec<PathBuf>,
    kept_program_bytes: u64,
    /// An output's name or path, or none for all; the share of its largest value; the type of its values.
    tolerances: Vec<(Option<Vec<u8>>, f64, String)>,
    ignore_others: bool,
    timeout_s: Option<f64>,
    scratch: Option<PathBuf>,
}

/// How files are dropped.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct DropOptions {
    directory: PathBuf,
    dry_run: bool,
    /// Only where the commands make the same again.
    check: bool,
}

/// How commands are run again.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct RecomputeOptions {
    directory: PathBuf,
    jobs: usize,
    timeout_s: Option<f64>,
    scratch: Option<PathBuf>,
    accept_different: bool,
}

/// Runs a command, and commits its outputs with a recipe.
#[pyfunction]
pub fn record(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    command: Vec<Vec<u8>>,
    outputs: Vec<Place>,
    inputs: Vec<Place>,
    options: RecordOptions,
) -> PyResult<RecordedFields> {
    let store = store.get();
    let request = options.request(command, outputs, inputs)?;
    let (repository, interrupt) = (store.repository()?, Interrupt::default());
    let recorded =
        py.detach(|| recipe::record(repository, &request, &|| store.claim_owner(), &|| interrupt.has_come()));
    recorded.map(fields).map_err(of_recipe)
}

fn fields(recorded: Recorded) -> RecordedFields {
    let outputs = recorded.outputs.into_iter().map(|(path, bytes)| (path.as_bytes().to_vec(), bytes)).collect();
    (recorded.id, recorded.duration.as_secs_f64(), outputs)
}

impl RecordOptions {
    fn request(self, command: Vec<Vec<u8>>, outputs: Vec<Place>, inputs: Vec<Place>) -> PyResult<RecordRequest> {
        Ok(RecordRequest {
            arguments: command,
            outputs: places(outputs)?,
            inputs: places(inputs)?,
            inputs_not_kept: self.inputs_not_kept,
            directory: self.directory,
            environment: self.environment,
            programs: self.programs,
            kept_program_bytes: self.kept_program_bytes,
            tolerances: self.tolerances.into_iter().map(tolerance).collect::<PyResult<_>>()?,
            ignores_others: self.ignore_others,
            keeps_failed: false,
            timeout: timeout(self.timeout_s)?,
            options: RunOptions { scratch: self.scratch, ..RunOptions::default() },
        })
    }
}

/// A command that ran on copies of its inputs: its recipe, encoded, and the contents of the programs that this keeps.
type EncodedRun<'py> = (Bound<'py, PyBytes>, Vec<Bound<'py, PyBytes>>);

/// Runs a command on copies of its inputs; its outputs are moved to their targets. What it prints is in the files `stdout` and
/// `stderr` of the directory `printed`.
#[pyfunction]
pub fn run_on_copies<'py>(
    py: Python<'py>,
    command: Vec<Vec<u8>>,
    outputs: Vec<LocalPlace>,
    inputs: Vec<LocalPlace>,
    variables: Vec<(OsString, OsString)>,
    printed: PathBuf,
    options: RecordOptions,
) -> PyResult<EncodedRun<'py>> {
    let apart = |files: Vec<LocalPlace>| -> (Vec<Place>, Vec<PathBuf>) {
        files.into_iter().map(|(name, path, file)| ((name, path), file)).unzip()
    };
    let ((outputs, targets), (inputs, copies)) = (apart(outputs), apart(inputs));
    let mut request = options.request(command, outputs, inputs)?;
    request.options.printed = Some(printed);
    let interrupt = Interrupt::default();
    let run = py.detach(|| recipe::run_on_copies(&request, &copies, &targets, variables, &|| interrupt.has_come()));
    let run = run.map_err(of_recipe)?;
    let programs = run.programs.iter().map(|program| PyBytes::new(py, program)).collect();
    Ok((PyBytes::new(py, &run.record.encode()), programs))
}

/// Stores what a command left on this machine, with its recipe. Of inputs that have no digest in the store, `roots` are those
/// of the versions that were read.
#[pyfunction]
pub fn store_run(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    record: &[u8],
    programs: Vec<Vec<u8>>,
    outputs: Vec<(Vec<u8>, PathBuf)>,
    roots: Vec<(Vec<u8>, Vec<u8>)>,
) -> PyResult<RecordedFields> {
    let (store, record) = (store.get(), RecipeRecord::decode(record).map_err(of_path)?);
    let outputs = outputs.into_iter().map(|(path, file)| Ok((parse(&path)?, file))).collect::<PyResult<Vec<_>>>()?;
    let roots = roots.into_iter().map(|(path, root)| Ok((parse(&path)?, root))).collect::<PyResult<_>>()?;
    let (repository, run) = (store.repository()?, UnstoredRun { record, programs });
    let stored = py.detach(|| recipe::store_run(repository, run, &outputs, &roots, &|| store.claim_owner()));
    stored.map(fields).map_err(of_recipe)
}

/// Drops the data of files that recipes make again. Returns (path, recipe, bytes, snapshots that keep the data) of each.
#[pyfunction]
pub fn drop_recomputable(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    paths: Vec<Vec<u8>>,
    options: DropOptions,
) -> PyResult<Vec<(Vec<u8>, String, u64, Vec<String>)>> {
    let (store, paths, interrupt) = (store.get(), paths_of(&paths)?, Interrupt::default());
    let repository = store.repository()?;
    let dropped = py.detach(|| {
        let mut obstacle = recipe::obstacle(&options.directory);
        let paths: Vec<_> = paths.into_iter().map(|path| (path, DropRequest::Required)).collect();
        let plan = repository.plan_drop(&paths, &mut |recipe| obstacle(&recipe.record))?;
        if options.check {
            let commands = repository.plan_compute(&plan.contents())?;
            let options = ComputeOptions { directory: options.directory, ..ComputeOptions::default() };
            recipe::compute(repository, &commands, &options, &print_note, &|| interrupt.has_come())?;
        }
        if !options.dry_run {
            repository.drop_files(store.claim_owner(), &plan)?;
        }
        Ok::<_, recipe::Error>(plan.files)
    });
    let fields =
        |file: repository::DroppedFile| (file.path.as_bytes().to_vec(), file.recipe_id, file.bytes, file.snapshots);
    Ok(dropped.map_err(of_recipe)?.into_iter().map(fields).collect())
}

/// Returns (recipe, command, seconds it took, host and user that recorded it) of each command that these files take.
#[pyfunction]
pub fn plan_recompute(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    paths: Vec<Vec<u8>>,
) -> PyResult<Vec<(String, Vec<Vec<u8>>, f64, String, u32)>> {
    let (repository, paths) = (store.get().repository()?, paths_of(&paths)?);
    let planned = py.detach(|| planned(repository, &paths));
    let (_, plan) = planned.map_err(of_recipe)?;
    let fields = |step: &repository::ComputeStep| {
        let (id, record) = (step.recipe.id.clone(), &step.recipe.record);
        (id, record.arguments.clone(), seconds(record.duration_ns), record.host.clone(), record.uid)
    };
    Ok(plan.steps.iter().map(fields).collect())
}

/// Makes the data of dropped files again, and stores it. Returns (path, bytes, whether it is the same bit for bit) of each.
#[pyfunction]
pub fn recompute(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    paths: Vec<Vec<u8>>,
    options: RecomputeOptions,
) -> PyResult<Vec<(Vec<u8>, u64, bool)>> {
    let (store, paths, interrupt) = (store.get(), paths_of(&paths)?, Interrupt::default());
    let repository = store.repository()?;
    let options = ComputeOptions {
        directory: options.directory,
        jobs: options.jobs,
        timeout: timeout(options.timeout_s)?,
        run: RunOptions { scratch: options.scratch, ..RunOptions::default() },
        accepts_different: options.accept_different,
    };
    let made = py.detach(|| {
        let (files, plan) = planned(repository, &paths)?;
        let computed = recipe::compute(repository, &plan, &options, &print_note, &|| interrupt.has_come())?;
        recipe::restore(repository, &computed, files.clone(), &|| store.claim_owner())?;
        let made = files.into_iter().zip(&computed.files).map(|((path, entry), file)| {
            let bytes = entry.head.map_or(0, |head| head.record.size);
            (path.as_bytes().to_vec(), bytes, file.agreement == Agreement::Exact)
        });
        Ok(made.collect())
    });
    made.map_err(of_recipe)
}

/// Makes the data of dropped files again, for this process to read them until it closes the store.
#[pyfunction]
pub fn provide(
    py: Python<'_>,
    store: &Bound<'_, Store>,
    entries: Vec<Bound<'_, Entry>>,
    directory: PathBuf,
) -> PyResult<()> {
    let (store, interrupt) = (store.get(), Interrupt::default());
    let (repository, recomputed) = (store.repository()?, store.recomputed.get()?);
    let wanted: Vec<DroppedContent> =
        entries.iter().filter_map(|entry| entry.get().record().and_then(DroppedContent::of)).collect();
    let provided = py.detach(|| recomputed.provide(repository, &wanted, &directory, &|| interrupt.has_come()));
    provided.map_err(of_recipe)
}

/// Returns a dict for each recipe that can be read.
#[pyfunction]
pub fn list_recipes<'py>(
    py: Python<'py>,
    store: &Bound<'py, Store>,
    directory: PathBuf,
) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let repository = store.get().repository()?;
    let found = py.detach(|| repository.recipes()).map_err(of_repository)?;
    let order = found.order();
    let mut obstacle = recipe::obstacle(&directory);
    let mut dicts = Vec::new();
    for recipe in &found.readable {
        let needed = order.needed(recipe).and_then(|needed| {
            let hindered = needed.iter().find_map(|one| obstacle(&one.record));
            hindered.map_or(Ok(needed.iter().map(|one| seconds(one.record.duration_ns)).sum::<f64>()), Err)
        });
        let states = py.detach(|| states(repository, recipe)).map_err(of_repository)?;
        dicts.push(dict(py, recipe, &needed, &states)?);
    }
    Ok(dicts)
}

fn dict<'py>(
    py: Python<'py>,
    recipe: &Recipe,
    needed: &Result<f64, String>,
    states: &[OutputState],
) -> PyResult<Bound<'py, PyDict>> {
    let (record, dict) = (&recipe.record, PyDict::new(py));
    let bytes = |bytes: &[u8]| PyBytes::new(py, bytes);
    let outputs = record.outputs.iter().zip(states);
    let outputs = outputs.map(|(output, state)| (bytes(output.path.as_bytes()), output.bytes, state.name()));
    dict.set_item("id", &recipe.id)?;
    dict.set_item("command", record.arguments.iter().map(|word| bytes(word)).collect::<Vec<_>>())?;
    dict.set_item("recorded_ns", nanoseconds(record.recorded))?;
    dict.set_item("host", &record.host)?;
    dict.set_item("uid", record.uid)?;
    dict.set_item("outputs", outputs.collect::<Vec<_>>())?;
    dict.set_item("inputs", record.inputs.iter().map(|input| bytes(input.path.as_bytes())).collect::<Vec<_>>())?;
    dict.set_item("inputs_not_kept", &record.inputs_not_kept)?;
    dict.set_item("seconds", seconds(record.duration_ns))?;
    dict.set_item("seconds_with_inputs", needed.as_ref().ok())?;
    dict.set_item("why_not", needed.as_ref().err())?;
    Ok(dict)
}

fn states(repository: &Repository, recipe: &Recipe) -> repository::Result<Vec<OutputState>> {
    let outputs = &recipe.record.outputs;
    let paths: Vec<StorePath> = outputs.iter().map(|output| output.path.clone()).collect();
    let entries = repository.entries(&paths).into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(outputs.iter().zip(&entries).map(|(output, entry)| OutputState::of(output, entry.as_ref())).collect())
}

fn print_note(line: &str) {
    eprintln!("thalweg: {line}");
}

type DroppedFiles = Vec<(StorePath, catalog::FileEntry)>;

fn planned(repository: &Repository, paths: &[StorePath]) -> recipe::Result<(DroppedFiles, ComputePlan)> {
    let (mut files, mut contents) = (Vec::new(), Vec::new());
    for path in paths {
        let entry = repository.catalog().entry(path)?;
        let entry = entry.ok_or_else(|| catalog::Error::NotFound { path: path.clone() })?;
        let content = entry.head.as_ref().and_then(|head| DroppedContent::of(&head.record));
        let content = content.ok_or_else(|| recipe::Error::Refused {
            code: ErrorCode::NotRecomputable,
            why: format!("{path}: is not dropped"),
        })?;
        contents.push(content);
        files.push((path.clone(), entry));
    }
    let plan = repository.plan_compute(&contents)?;
    Ok((files, plan))
}

fn places(written: Vec<Place>) -> PyResult<Vec<FilePlace>> {
    written.into_iter().map(|(name, path)| Ok(FilePlace { name, path: parse(&path)? })).collect()
}

fn paths_of(written: &[Vec<u8>]) -> PyResult<Vec<StorePath>> {
    written.iter().map(|path| parse(path)).collect()
}

fn tolerance((output, relative, element): (Option<Vec<u8>>, f64, String)) -> PyResult<ToleranceRequest> {
    if !(relative > 0.0 && relative < 1.0) {
        return Err(misuse::<PyValueError>(format_args!("{relative}: a tolerance is a share between 0 and 1")));
    }
    Ok(ToleranceRequest { output, relative, element: element.parse().map_err(of_path)? })
}

fn timeout(timeout_s: Option<f64>) -> PyResult<Option<Duration>> {
    let parsed = |timeout_s: f64| Duration::try_from_secs_f64(timeout_s).ok().filter(|timeout| !timeout.is_zero());
    let refused =
        |timeout_s| misuse::<PyValueError>(format_args!("{timeout_s}: a time limit is a number of seconds above 0"));
    timeout_s.map(|timeout_s| parsed(timeout_s).ok_or_else(|| refused(timeout_s))).transpose()
}

fn seconds(duration_ns: u64) -> f64 {
    duration_ns as f64 / 1e9
}

fn nanoseconds(time: FileTime) -> i128 {
    time.as_ns()
}

/// Asks Python for signals while a command runs.
#[derive(Default)]
struct Interrupt(AtomicBool);

impl Interrupt {
    /// True from the first signal on whose handler raised something.
    fn has_come(&self) -> bool {
        if Python::attach(|py| py.check_signals()).is_err() {
            self.0.store(true, Ordering::Relaxed);
        }
        self.0.load(Ordering::Relaxed)
    }
}
