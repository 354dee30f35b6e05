//! `thalweg stats`: what a store holds and what it spares.

use std::ffi::OsString;

use repository::{Access, StoreFigures, store_statistics};
use serde_json::json;

use crate::location::{StoreAddress, store_of_argument};
use crate::opening::{connect, open_store};
use crate::output::Output;
use crate::shown;

/// Show a store's figures
#[derive(clap::Args)]
#[command(after_help = "Example: thalweg stats /scratch/st --json")]
pub struct Arguments {
    /// The store (default: $THALWEG_STORE)
    store: Option<OsString>,
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let store = store_of_argument(arguments.store.as_deref())?;
    let figures = match &store {
        StoreAddress::Directory(_) => {
            let repository = open_store(&store, Access::Read)?;
            let figures = store_statistics(&repository)?;
            repository.close()?;
            figures
        }
        StoreAddress::Node(address) => remote_figures(address)?,
    };
    show(&figures, output)
}

fn remote_figures(address: &str) -> anyhow::Result<StoreFigures> {
    let far = connect(address)?.statistics()?;
    Ok(StoreFigures {
        logical_bytes: far.logical_bytes,
        unique_bytes: far.unique_bytes,
        stored_bytes: far.stored_bytes,
        segments: far.segments,
        unique_segments: far.unique_segments,
        containers: far.containers,
        files: far.files,
        table_memory_bytes: far.table_memory_bytes,
    })
}

fn show(figures: &StoreFigures, output: &Output) -> anyhow::Result<()> {
    let StoreFigures { logical_bytes, unique_bytes, stored_bytes, segments, .. } = *figures;
    let StoreFigures { unique_segments, containers, files, table_memory_bytes, .. } = *figures;
    let deduplication_ratio = shown::ratio(logical_bytes, unique_bytes);
    let compression_ratio = shown::ratio(unique_bytes, stored_bytes);
    output.document(&json!({
        "logical_bytes": logical_bytes,
        "unique_bytes": unique_bytes,
        "stored_bytes": stored_bytes,
        "segments": segments,
        "unique_segments": unique_segments,
        "containers": containers,
        "files": files,
        "table_memory_bytes": table_memory_bytes,
        "deduplication_ratio": deduplication_ratio,
        "compression_ratio": compression_ratio,
    }))?;
    for (name, text) in [
        ("logical", format!("{logical_bytes} ({})", shown::size(logical_bytes))),
        ("unique", format!("{unique_bytes} ({}, {deduplication_ratio} : 1)", shown::size(unique_bytes))),
        ("stored", format!("{stored_bytes} ({}, {compression_ratio} : 1)", shown::size(stored_bytes))),
        ("segments", format!("{segments}, {unique_segments} of them unique")),
        ("containers", containers.to_string()),
        ("files", files.to_string()),
        ("table memory", shown::size(table_memory_bytes)),
    ] {
        output.line(format_args!("{name:>12}  {text}"))?;
    }
    Ok(())
}
