//! `thalweg plan`: what data reduction would save, by the sources' cost models (`policy::cost`).

mod figures;
mod table;
mod tables;

use clap::ArgGroup;
use serde_json::{Value, json};

use crate::output::Output;
use crate::picture::{self, Picture};

use figures::Figure;

/// Say what reducing data would save: the cost models as tables and figures
#[derive(clap::Args)]
#[command(
    after_help = "What is computed, from which source, and where a source's sentence disagrees with its equation: docs/models.md.\n\n\
                        Example: thalweg plan --tables --figure ddiha-9 --plot speed.svg --plot speed.png"
)]
#[command(group = ArgGroup::new("what").required(true).multiple(true).args(["tables", "figure"]))]
pub struct Arguments {
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
    let all = if arguments.tables { tables::all() } else { Vec::new() };
    let plots: Value = arguments.plot.iter().map(Picture::name).collect();
    output.document(&json!({ "tables": table::document(&all), "plots": plots }))?;
    table::lines(&all).iter().try_for_each(|line| output.line(line))
}
