//! `thalweg codecs`: what each encoding makes of a user's data, and what the chooser makes of it.

mod core_watts;
mod document;
mod table;

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use format::Mode;
use laboratory::{Drawn, Measured, Measurement, ModeComparison, REFERENCES, Total};
use policy::compression::Conditions;

use core_watts::CoreWatts;

use crate::byte_size;
use crate::failure::misuse;
use crate::output::Output;
use crate::picture::{self, Picture};
use crate::progress::Progress;
use crate::sampling::{DataBlock, Sampled, draw_blocks, on_all_cores, read};
use crate::{output_file, shown};

/// A slower link than this is none.
const MIN_LINK: u64 = 1 << 10;

/// Compare codecs on your own data, and what each mode would choose
#[derive(clap::Args)]
#[command(
    after_help = "Blocks of the files are encoded in every way that Thalweg chooses from, and once in each mode as a store would encode \
                        them. An oracle that knows what every way gives is what the modes are held against. Times are processor \
                        time of one thread, so that other work on the machine matters little; a block takes about a quarter of a second.\n\n\
                        Example: thalweg codecs run1/ restart.bin --link 1G --plot codecs.svg --plot codecs.png\n\
                        Example: thalweg codecs /scratch/st::run1"
)]
pub struct Arguments {
    /// Files, or folders of files; local ones, or STORE::PATH
    #[arg(required = true, value_name = "DATA")]
    data: Vec<PathBuf>,
    /// Blocks to draw; of each file at least one is
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    blocks: u32,
    /// Let the modes choose by this model, which `thalweg train` wrote (STORE/compression.model), and not by the built-in one
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,
    /// What mode `performance` sends over, in a second: 512K, 100M or 1.5G (KiB, MiB, GiB); may be given several times
    #[arg(long, value_name = "RATE", default_value = "100M", value_parser = link)]
    link: Vec<u64>,
    /// Draw ratios, speeds and choices, those for the first link; may be given several times
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture::parser())]
    plot: Vec<Picture>,
}

fn link(text: &str) -> Result<u64, String> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    let bytes_per_second = byte_size::parse(text).filter(|bytes| has_unit && *bytes >= MIN_LINK);
    bytes_per_second.ok_or_else(|| "a rate of 1K or more: 512K, 100M or 1.5G (KiB, MiB, GiB a second)".to_owned())
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let blocks = draw_blocks(&arguments.data, arguments.blocks)?;
    check_pictures(&arguments.plot, &blocks)?;
    arguments.model.as_deref().map_or(Ok(()), use_model)?;
    // Before anything else keeps cores busy.
    let core_watts = CoreWatts::of_machine();
    let runs = runs(&arguments.link, core_watts);
    let progress = output.progress("codecs");
    progress.set_total(bytes_of(&blocks) * (1 + runs.len() as u64));
    let measure = |raw: &[u8]| (laboratory::measure(raw), laboratory::measure_references(raw));
    let sampled = on_all_cores(blocks, output, &progress, measure)?;
    let results = Results::of(&sampled, core_watts, &runs, &progress)?;
    progress.finish();
    draw(&arguments.plot, &arguments.data, &results)?;
    output.document(&document::document(&results))?;
    table::lines(&results).iter().try_for_each(|line| output.line(line))?;
    sampled.check_complete()
}

/// Lets this process choose by a model file.
fn use_model(file: &Path) -> anyhow::Result<()> {
    let read = || -> std::io::Result<Vec<u8>> {
        if !std::fs::metadata(file)?.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        File::open(file)?.take(format::MAX_MODEL_BYTES as u64 + 1).read_to_end(&mut bytes).map(|_| bytes)
    };
    let why = match read() {
        Ok(bytes) => match segment::use_model(&bytes) {
            Ok(()) => return Ok(()),
            Err(error) => error.to_string(),
        },
        Err(error) => error.to_string(),
    };
    misuse!(InputFile: "{}: {why}; `thalweg train DATA --model FILE` makes a model", shown::local(file))
}

/// Finds out before the work whether the pictures can be written.
fn check_pictures(pictures: &[Picture], blocks: &[DataBlock]) -> anyhow::Result<()> {
    let inputs = || blocks.iter().filter_map(|block| block.file.local_path());
    pictures.iter().try_for_each(|picture| output_file::check(picture.path(), inputs()))
}

/// Returns each mode with what it is run under; only `performance` asks for the link, and `energy` for a core's watts.
fn runs(links: &[u64], core_watts: CoreWatts) -> Vec<(Mode, Conditions)> {
    let usual = core_watts.conditions();
    let over = |link: &u64| (Mode::Performance, Conditions { bytes_per_second: *link as f32, ..usual });
    let others = [Mode::Balanced, Mode::Archival, Mode::Energy].map(|mode| (mode, usual));
    links.iter().map(over).chain(others).collect()
}

type References = [Measured; REFERENCES.len()];
type MeasuredBlock = (Measurement, References);

/// All that was found out.
struct Results {
    files: usize,
    blocks: usize,
    raw_bytes: u64,
    core_watts: CoreWatts,
    candidates: Vec<Total>,
    references: Vec<Total>,
    /// Those of `performance` first, in the links' order.
    modes: Vec<ModeComparison>,
}

impl Results {
    fn of(
        sampled: &Sampled<MeasuredBlock>,
        core_watts: CoreWatts,
        runs: &[(Mode, Conditions)],
        progress: &Progress,
    ) -> anyhow::Result<Self> {
        let blocks = &sampled.blocks;
        let (measurements, references): (Vec<Measurement>, Vec<References>) = sampled.made.iter().cloned().unzip();
        let modes = runs.iter().map(|(mode, conditions)| compare(*mode, *conditions, blocks, &measurements, progress));
        let lengths = blocks.iter().map(|block| block.bytes);
        let references: Vec<_> = lengths.zip(references).collect();
        Ok(Results {
            files: blocks.chunk_by(|one, next| one.file == next.file).count(),
            blocks: blocks.len(),
            raw_bytes: bytes_of(blocks),
            core_watts,
            candidates: laboratory::candidate_totals(&measurements),
            references: laboratory::reference_totals(&references).to_vec(),
            modes: modes.collect::<anyhow::Result<_>>()?,
        })
    }
}

fn compare(
    mode: Mode,
    conditions: Conditions,
    blocks: &[DataBlock],
    measurements: &[Measurement],
    progress: &Progress,
) -> anyhow::Result<ModeComparison> {
    let raw = blocks.iter().map(|block| {
        progress.add(block.bytes as u64);
        read(block)
    });
    let choices = laboratory::run_chooser(mode, conditions, raw)?;
    Ok(laboratory::compare(policy_mode(mode), conditions, measurements, &choices))
}

fn policy_mode(mode: Mode) -> policy::compression::Mode {
    use policy::compression::Mode as Policy;
    match mode {
        Mode::Performance => Policy::Performance,
        Mode::Balanced => Policy::Balanced,
        Mode::Archival => Policy::Archival,
        Mode::Energy => Policy::Energy,
    }
}

fn bytes_of(blocks: &[DataBlock]) -> u64 {
    blocks.iter().map(|block| block.bytes as u64).sum()
}

fn draw(pictures: &[Picture], data: &[PathBuf], results: &Results) -> anyhow::Result<()> {
    let name = |path: &PathBuf| shown::local(Path::new(path.file_name().unwrap_or(path.as_os_str())));
    let mut title = data.iter().take(3).map(name).collect::<Vec<_>>().join(", ");
    if data.len() > 3 {
        title.push_str(", …");
    }
    let drawn = Drawn {
        title: &format!("Codecs on {title}"),
        subtitle: &table::sampled(results),
        candidates: &results.candidates,
        references: &results.references,
        modes: &drawn_modes(results),
    };
    let page = laboratory::figure(&drawn);
    pictures.iter().try_for_each(|picture| picture.write(&page))
}

/// Of `performance` over several links the first one's: a figure has room for a mode's colour once.
fn drawn_modes(results: &Results) -> Vec<ModeComparison> {
    let repeated =
        |number: usize| results.modes[..number].iter().any(|before| before.mode == results.modes[number].mode);
    let numbers = (0..results.modes.len()).filter(|number| !repeated(*number));
    numbers.map(|number| results.modes[number].clone()).collect()
}
