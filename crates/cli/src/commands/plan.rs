//! `thalweg plan`: what data reduction would save of a user's files on a described machine, and by the sources' cost models
//! (`policy::cost`).

mod data;
mod figures;
mod html;
mod measure;
mod recommended;
mod system_file;
mod system_report;
mod table;
mod tables;

use std::path::{Path, PathBuf};

use clap::ArgGroup;
use policy::compression::Conditions;
use policy::cost::machine::Machine;
use serde_json::{Value, json};

use crate::error_code::fail;
use crate::output::Output;
use crate::output_file;
use crate::picture::{self, Picture};
use crate::shown;

use data::Report;
use figures::Figure;
use measure::Measured;
use recommended::Recommended;
use system_file::{KEYS, SystemFile};
use system_report::SystemReport;

/// Where a measurement goes if nothing else is said.
const SYSTEM_FILE: &str = "system.toml";

/// Say what reducing data would save: of your files on your machine, and by cost models as tables and figures
#[derive(clap::Args)]
#[command(
    after_help = "All bytes of DATA are read and nothing is stored. Which equations are behind the tables, from which source, and where a source's sentence disagrees with its equation: docs/models.md.\n\n\
                        Example: thalweg plan --measure --node thalweg://n1:7420 --directory /scratch\n\
                        Example: thalweg plan run1/ --system system.toml --html plan.html --recommended store.toml\n\
                        Example: thalweg plan --tables --figure ddiha-9 --plot speed.svg --plot speed.png"
)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["data", "measure", "tables", "figure"]))]
pub struct Arguments {
    /// Files, or folders of files, whose deduplication and compression are estimated
    #[arg(value_name = "DATA")]
    data: Vec<PathBuf>,
    /// The machine to plan for (docs/commands.md); what it says nothing of is that of the lecture's system of 2015
    #[arg(long, value_name = "FILE", conflicts_with = "measure", requires = "data")]
    system: Option<PathBuf>,
    /// Measure this machine's cores, codecs, disk and link, and write them as a file for --system
    #[arg(long)]
    measure: bool,
    /// The node to which the link is measured
    #[arg(long, value_name = "thalweg://HOST:PORT", requires = "measure")]
    node: Option<String>,
    /// Where the disk is measured: up to 512 MiB are written there, and are gone afterwards
    #[arg(long, value_name = "DIR", default_value = ".", requires = "measure")]
    directory: PathBuf,
    /// Where the measurement goes (default: system.toml, which must not be there)
    #[arg(long, short, value_name = "FILE", requires = "measure")]
    output: Option<PathBuf>,
    /// Write what is recommended, as a file for `thalweg init --config`
    #[arg(long, value_name = "FILE", requires = "data")]
    recommended: Option<PathBuf>,
    /// Write all of it as one page with figures
    #[arg(long, value_name = "FILE.html", requires = "data", value_parser = html::file)]
    html: Option<PathBuf>,
    /// Another number takes other blocks of DATA to compress
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print deduplication nodes (DDiHA), tables' memory, a computing centre from 2009 to 2035, 50 PB, links, energy,
    /// recomputation
    #[arg(long)]
    tables: bool,
    /// Draw gain (ddiha-8) or necessary speed (ddiha-9) of deduplication nodes, links with codecs (network), or costs (cost)
    #[arg(long, value_name = "NAME", requires = "plot")]
    figure: Option<Figure>,
    /// Where the figure goes; may be given several times
    #[arg(long, value_name = "FILE.svg|FILE.png", requires = "figure", value_parser = picture::parser())]
    plot: Vec<Picture>,
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    check_files(arguments)?;
    if let Some(figure) = arguments.figure {
        let page = figure.page();
        arguments.plot.iter().try_for_each(|picture| picture.write(&page))?;
    }
    let measured = arguments.measure.then(|| measure(arguments, output)).transpose()?;
    let system = match (&measured, &arguments.system) {
        (Some(measured), _) => measured.file.clone(),
        (None, Some(path)) => SystemFile::read(path)?,
        (None, None) => SystemFile::default(),
    };
    let plan = (!arguments.data.is_empty()).then(|| Plan::of(arguments, system, output));
    if let Some(plan) = &plan {
        plan.write_files(arguments)?;
    }
    let all = if arguments.tables { tables::all() } else { Vec::new() };
    let of_measured = measured.as_ref().map(|measured| vec![measured.table()]).unwrap_or_default();
    let plots: Value = arguments.plot.iter().map(Picture::name).collect();
    output.document(&json!({
        "measured": table::document(&of_measured)["measured"],
        "data": plan.as_ref().map(Plan::document),
        "tables": table::document(&all),
        "plots": plots,
    }))?;
    let parts = [table::lines(&of_measured), plan.as_ref().map(Plan::lines).unwrap_or_default(), table::lines(&all)];
    let parts: Vec<Vec<String>> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    parts.join(&String::new()).iter().try_for_each(|line| output.line(line))?;
    plan.map_or(Ok(()), |plan| plan.complete(arguments, output))
}

/// Finds out before the work whether all files can be written, and that none is read.
fn check_files(arguments: &Arguments) -> anyhow::Result<()> {
    let inputs = || arguments.data.iter().chain(&arguments.system).map(PathBuf::as_path);
    if arguments.measure && arguments.output.is_none() {
        system_file::check_new(Path::new(SYSTEM_FILE))?;
    }
    let measurement = arguments.measure.then(|| measurement_file(arguments));
    let written = [measurement, arguments.recommended.as_deref(), arguments.html.as_deref()];
    let pictures = arguments.plot.iter().map(Picture::path);
    let all: Vec<&Path> = written.into_iter().flatten().chain(pictures).collect();
    output_file::check_apart(&all)?;
    all.into_iter().try_for_each(|path| output_file::check(path, inputs()))
}

fn measurement_file(arguments: &Arguments) -> &Path {
    arguments.output.as_deref().unwrap_or(Path::new(SYSTEM_FILE))
}

fn measure(arguments: &Arguments, output: &Output) -> anyhow::Result<Measured> {
    let measured = measure::measure(arguments.node.as_deref(), &arguments.directory, output)?;
    output_file::write(measurement_file(arguments), measured.text().as_bytes())?;
    Ok(measured)
}

/// All that is found out about a user's data.
struct Plan {
    report: Report,
    system: SystemFile,
    system_line: &'static str,
    /// None where the data have no byte.
    of_system: Option<(SystemReport, Recommended)>,
}

impl Plan {
    fn of(arguments: &Arguments, system: SystemFile, output: &Output) -> Self {
        let machine = with_core_speed(&system);
        segment::set_conditions(conditions(&machine));
        let report = Report::of(&arguments.data, arguments.seed, output);
        let of_system = SystemReport::of(&report, &machine).map(|of_system| {
            let recommended = Recommended::of(&report.surveyed, &of_system);
            (of_system, recommended)
        });
        let system_line = match (arguments.measure, &arguments.system) {
            (true, _) => "For this machine, as measured",
            (false, Some(_)) => "For the system that --system describes",
            (false, None) => {
                "For the lecture's system of 2015; describe yours by --system, or measure this one by --measure"
            }
        };
        Plan { report, system, system_line, of_system }
    }

    fn write_files(&self, arguments: &Arguments) -> anyhow::Result<()> {
        if let (Some(path), Some((_, recommended))) = (&arguments.recommended, &self.of_system) {
            output_file::write(path, recommended.file().as_bytes())?;
        }
        if let Some(path) = &arguments.html {
            output_file::write(path, html::page(self, &arguments.data).as_bytes())?;
        }
        Ok(())
    }

    /// Fails where something was asked for and cannot be had.
    fn complete(&self, arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
        self.report.complete(output)?;
        match &arguments.recommended {
            Some(path) if self.of_system.is_none() => {
                fail!(NothingToRecommend: "{}: is not written: of data without a byte nothing is recommended", shown::local(path))
            }
            _ => Ok(()),
        }
    }

    fn document(&self) -> Value {
        let mut document = self.report.document();
        let mut system = json!({});
        KEYS.iter().for_each(|key| system[key.section][key.name] = self.system.value(key).into());
        document["system"] = system;
        let tables = self.of_system.as_ref().map(|(report, _)| table::document(&report.tables()));
        document["of_system"] = tables.unwrap_or(Value::Null);
        document["recommended"] =
            self.of_system.as_ref().map_or(Value::Null, |(_, recommended)| recommended.document());
        document
    }

    fn lines(&self) -> Vec<String> {
        let mut lines = vec![self.report.read(), String::new()];
        lines.extend(table::lines(&self.report.tables()));
        if let Some((report, recommended)) = &self.of_system {
            lines.extend([String::new(), self.system_line.to_owned(), String::new()]);
            lines.extend(table::lines(&report.tables()));
            lines.extend(recommended.lines());
        } else {
            lines.extend([String::new(), "Nothing is recommended: the data have no byte".to_owned()]);
        }
        lines
    }
}

/// Cores are compared by sample data where the file says what they do with these.
fn with_core_speed(system: &SystemFile) -> Machine {
    let mut machine = system.machine.clone();
    if system.has_codecs() {
        machine.core_speed =
            system.core_speed(&laboratory::encode_mb_per_s(system.codec_mb_per_s.map(|rate| rate > 0.0)));
    }
    machine
}

/// What mode `performance` weighs there: a node's part of the storage, and its cores.
fn conditions(machine: &Machine) -> Conditions {
    let storage_mb_per_s = machine.storage_mb_per_s_of(machine.nodes) / machine.nodes;
    let cores = if machine.idle_cores > 0.0 { machine.idle_cores } else { machine.cores };
    // Encoding is timed here, by cores of another speed.
    let cores = (cores * machine.core_speed) as f32;
    let bytes_per_second = (storage_mb_per_s.min(machine.link_mb_per_s) * 1e6) as f32;
    Conditions { bytes_per_second, cores, ..Conditions::default() }
}
