//! `thalweg plan`: what data reduction would save: of a user's files, and by the sources' cost models (`policy::cost`).

mod data;
mod figures;
mod table;
mod tables;

use std::path::PathBuf;

use clap::ArgGroup;
use serde_json::{Value, json};

use crate::output::Output;
use crate::picture::{self, Picture};

use data::Report;
use figures::Figure;

/// Say what reducing data would save: of your files, and by cost models as tables and figures
#[derive(clap::Args)]
#[command(
    after_help = "All bytes of DATA are read and nothing is stored. Which equations are behind the tables, from which source, and where a source's sentence disagrees with its equation: docs/models.md.\n\n\
                        Example: thalweg plan run1/ --tables --figure ddiha-9 --plot speed.svg --plot speed.png"
)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["data", "tables", "figure"]))]
pub struct Arguments {
    /// Files, or folders of files, whose deduplication and compression are estimated
    #[arg(value_name = "DATA")]
    data: Vec<PathBuf>,
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
    if let Some(figure) = arguments.figure {
        let page = figure.page();
        arguments.plot.iter().try_for_each(|picture| picture.write(&page))?;
    }
    let report = match arguments.data.as_slice() {
        [] => None,
        data => Some(Report::of(data, arguments.seed, output)?),
    };
    let all = if arguments.tables { tables::all() } else { Vec::new() };
    let plots: Value = arguments.plot.iter().map(Picture::name).collect();
    let data = report.as_ref().map(Report::document);
    output.document(&json!({ "data": data, "tables": table::document(&all), "plots": plots }))?;
    let mut lines = report.as_ref().map(Report::lines).unwrap_or_default();
    if !lines.is_empty() && !all.is_empty() {
        lines.push(String::new());
    }
    lines.extend(table::lines(&all));
    lines.iter().try_for_each(|line| output.line(line))?;
    report.map_or(Ok(()), |report| report.complete(output))
}
