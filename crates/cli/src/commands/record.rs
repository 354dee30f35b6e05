//! `thalweg record`: runs a command whose outputs go into a store, with a recipe that makes them again.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use anyhow::Context;
use format::FloatType;
use recipe::{RecordRequest, Recorded, ToleranceRequest};
use repository::Access;
use serde_json::{Value, json};

use crate::byte_size;
use crate::failure::{UsageError, misuse};
use crate::opening::open_store;
use crate::output::Output;
use crate::recipes::{RunArguments, claim_owners, failed, places, shown_duration};
use crate::shown;
use crate::signals::Interruption;

/// Run a command, and keep with its outputs what makes them again
#[derive(clap::Args)]
#[command(
    override_usage = "thalweg record [OPTIONS] <STORE::OUT>... [--inputs <STORE::IN>...] -- <CMD>...",
    after_help = "The command runs in a fresh directory: it finds each input at its path in the store, and leaves each output \
                  at its own (NAME=STORE::PATH: at NAME). Files of this directory that it names are its programs, and stand \
                  there too. It is given only the environment that is kept: PATH, LANG, LC_*, TZ, OMP_*, LD_LIBRARY_PATH, \
                  PYTHONPATH and the like, variables of modules and containers, and what --env names.\n\n\
                  Example: thalweg record /scratch/st::run1/mean.dat --inputs /scratch/st::run1/out.dat -- python3 mean.py"
)]
pub struct Arguments {
    /// Files that the command makes, or directories of such, each [NAME=]STORE::PATH
    #[arg(required = true, value_name = "STORE::OUT")]
    outputs: Vec<OsString>,
    /// Files or directories that it reads, each [NAME=]STORE::PATH
    #[arg(long, value_name = "STORE::IN", num_args = 1..)]
    inputs: Vec<OsString>,
    /// It also reads this, which no store has: the recipe is for the record, and nothing is dropped by it (repeatable)
    #[arg(long, value_name = "TEXT")]
    input_not_kept: Vec<String>,
    /// A file that the command is made of, besides those that it names (repeatable)
    #[arg(long, value_name = "FILE")]
    program: Vec<PathBuf>,
    /// Keep program files up to this length: 512K, 4M
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4M")]
    keep_programs: u64,
    /// Keep this variable too, with its value or this one (repeatable)
    #[arg(long, value_name = "NAME[=VALUE]")]
    env: Vec<OsString>,
    /// Made again, OUT may differ: its statistics by this share of its largest value, as in `out.dat=relative:1e-6:f64`
    #[arg(long, value_name = "OUT=relative:E:TYPE")]
    tolerance: Vec<OsString>,
    /// The same for all outputs, whose numbers are of --type
    #[arg(long, value_name = "relative:E", requires = "type")]
    statistically_equal: Option<String>,
    /// Of --statistically-equal: f32, f64, f32be or f64be
    #[arg(long, value_name = "TYPE", requires = "statistically_equal")]
    r#type: Option<String>,
    /// Allow other new files in the command's directory; they are not kept
    #[arg(long)]
    ignore_others: bool,
    /// Where the command fails or is refused, leave its directory, and say where it is
    #[arg(long)]
    keep_failed: bool,
    #[command(flatten)]
    run: RunArguments,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn size(text: &str) -> Result<u64, String> {
    byte_size::parse(text).ok_or_else(|| format!("{text:?} is no size; write 512K or 4M"))
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let outputs = places(&arguments.outputs, None)?;
    let store = outputs[0].0.clone();
    let inputs = places(&arguments.inputs, Some(&store))?;
    let tolerances = arguments.tolerances()?;
    // Before the store's threads, which must not get the signals.
    let interruption = Interruption::watch().context("starting the thread that waits for signals")?;
    let repository = open_store(&store.store, Access::Write)?;
    let request = RecordRequest {
        arguments: arguments.command.iter().map(|word| word.clone().into_vec()).collect(),
        outputs: outputs.into_iter().map(|(_, place)| place).collect(),
        inputs: inputs.into_iter().map(|(_, place)| place).collect(),
        inputs_not_kept: arguments.input_not_kept.clone(),
        directory: std::env::current_dir().context("this directory")?,
        environment: arguments.env.iter().map(variable).collect::<anyhow::Result<_>>()?,
        programs: arguments.program.clone(),
        kept_program_bytes: arguments.keep_programs,
        tolerances,
        ignores_others: arguments.ignore_others,
        keeps_failed: arguments.keep_failed,
        timeout: arguments.run.timeout(),
        options: arguments.run.options(output),
    };
    interruption.heed(true);
    let recorded = recipe::record(&repository, &request, &claim_owners(), &|| interruption.has_come());
    interruption.heed(false);
    let recorded = recorded.map_err(|error| failed(error, &interruption))?;
    repository.close()?;
    report(&recorded, &arguments, output)
}

fn report(recorded: &Recorded, arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    for program in recorded.programs_not_kept.iter().filter(|name| !name.starts_with(b"/")) {
        output.note(format_args!(
            "{} is longer than {} and not kept: only where it is can the command be run again",
            shown::escaped(program),
            shown::size(arguments.keep_programs)
        ));
    }
    let outputs = recorded.outputs.iter().map(|(path, bytes)| {
        let mut fields = shown::path_fields(path.as_bytes());
        fields.insert("bytes".into(), (*bytes).into());
        Value::Object(fields)
    });
    output.document(&json!({
        "recipe": recorded.id,
        "seconds": recorded.duration.as_secs_f64(),
        "outputs": outputs.collect::<Vec<_>>(),
    }))?;
    let bytes: u64 = recorded.outputs.iter().map(|(_, bytes)| bytes).sum();
    output.summary(format_args!(
        "recorded recipe {}: {} ({}) in {}",
        recorded.id,
        shown::count(recorded.outputs.len() as u64, "output"),
        shown::size(bytes),
        shown_duration(recorded.duration.as_nanos() as u64)
    ))
}

impl Arguments {
    fn tolerances(&self) -> anyhow::Result<Vec<ToleranceRequest>> {
        let mut tolerances = Vec::new();
        if let (Some(bound), Some(element)) = (&self.statistically_equal, &self.r#type) {
            tolerances.push(tolerance(None, &format!("{bound}:{element}"))?);
        }
        for written in &self.tolerance {
            let bytes = written.clone().into_vec();
            let Some(at) = bytes.iter().rposition(|byte| *byte == b'=') else {
                misuse!("{}: write OUT=relative:E:TYPE, as in out.dat=relative:1e-6:f64", shown::escaped(&bytes));
            };
            let bound = String::from_utf8_lossy(&bytes[at + 1..]).into_owned();
            tolerances.push(tolerance(Some(bytes[..at].to_vec()), &bound)?);
        }
        Ok(tolerances)
    }
}

fn tolerance(output: Option<Vec<u8>>, bound: &str) -> anyhow::Result<ToleranceRequest> {
    let refused =
        || UsageError::new(format!("{bound}: write relative:E:TYPE with E between 0 and 1, as in relative:1e-6:f64"));
    let (relative, element) =
        bound.strip_prefix("relative:").and_then(|rest| rest.split_once(':')).ok_or_else(refused)?;
    let relative: f64 = relative.parse().map_err(|_| refused())?;
    let element: FloatType =
        element.parse().map_err(|error: format::Error| UsageError { code: error.code(), text: error.to_string() })?;
    if relative <= 0.0 || relative >= 1.0 || !relative.is_finite() {
        return Err(refused().into());
    }
    Ok(ToleranceRequest { output, relative, element })
}

fn variable(written: &OsString) -> anyhow::Result<(OsString, Option<OsString>)> {
    let bytes = written.clone().into_vec();
    let at = bytes.iter().position(|byte| *byte == b'=');
    let name = OsString::from_vec(bytes[..at.unwrap_or(bytes.len())].to_vec());
    if name.is_empty() {
        misuse!("--env {}: names no variable", shown::escaped(&bytes));
    }
    Ok((name, at.map(|at| OsString::from_vec(bytes[at + 1..].to_vec()))))
}
