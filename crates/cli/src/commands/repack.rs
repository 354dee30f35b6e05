//! `thalweg repack`: re-encodes what is stored, for the archive.

use std::ffi::OsString;
use std::time::Instant;

use format::{CodecChoice, Mode};
use repository::{Access, Repack, RepackReport};
use serde_json::{Value, json};

use crate::failure::Incomplete;
use crate::location::{StoreAddress, store_of_argument};
use crate::opening::directory;
use crate::output::Output;
use crate::pacing::{Pace, rate};
use crate::shown;

/// Re-encode what is stored by a codec that takes longer and saves more
#[derive(clap::Args)]
#[command(
    after_help = "Runs beside readers and writers. Containers that become shorter by a hundredth or more are written again; \
                        blocks that do not shrink stay as they are. A run that was killed is gone on with by running it \
                        again: what bears the codec already is passed over. Exits with 3 when a container cannot be read \
                        whole.\n\n\
                        Example: thalweg repack /scratch/st --codec xz:6 --limit-rate 50M"
)]
pub struct Arguments {
    /// The store's directory (default: $THALWEG_STORE)
    store: Option<OsString>,
    #[command(flatten)]
    encoding: WantedEncoding,
    /// Read no more of the containers in a second: 512K, 10M or 1.5G (KiB, MiB, GiB)
    #[arg(long, value_name = "RATE", value_parser = rate)]
    limit_rate: Option<u64>,
}

/// The ways to say by what to encode.
#[derive(clap::Args)]
struct WantedEncoding {
    /// auto (chosen per block), lz4, lz4hc, zstd, zlib (or gzip) or xz; the last four also with :LEVEL
    #[arg(long, value_name = "CODEC", default_value = "zstd:19")]
    codec: CodecChoice,
    /// Choose the codec of each block: performance, balanced, archival (the smallest) or energy
    #[arg(long, value_name = "MODE", conflicts_with = "codec")]
    mode: Option<Mode>,
}

impl WantedEncoding {
    fn choice(&self) -> CodecChoice {
        self.mode.map_or(self.codec, CodecChoice::Auto)
    }
}

pub fn execute(arguments: &Arguments, output: &Output) -> anyhow::Result<()> {
    let (store, codec, begun) =
        (store_of_argument(arguments.store.as_deref())?, arguments.encoding.choice(), Instant::now());
    let repository = repository::open(directory(&store, "repack")?, Access::Write)?;
    let repack = Repack::begin(&repository, codec)?;
    let (progress, mut pace) = (output.progress("repack"), Pace::new(arguments.limit_rate));
    progress.set_total(repack.total_bytes());
    let repacked = repack.run(&mut |bytes| {
        progress.add(bytes);
        pace.spend(bytes);
    });
    progress.finish();
    let repacked = repacked?;
    repository.close()?;
    output.document(&fields(&repacked, codec, begun))?;
    output.summary(line(&repacked, codec))?;
    if repacked.waiting > 0 {
        let (old, bytes) = (shown::count(repacked.waiting, "old container"), shown::size(repacked.waiting_bytes));
        output.summary(format!(
            "{old} ({bytes}) kept for processes that may still read them; `thalweg collect` frees them"
        ))?;
    }
    judge(&store, &repacked)
}

fn fields(repacked: &RepackReport, codec: CodecChoice, begun: Instant) -> Value {
    json!({
        "codec": codec.to_string(),
        "containers": repacked.containers,
        "rewritten": repacked.rewritten,
        "damaged": repacked.damaged,
        "before_bytes": repacked.before_bytes,
        "after_bytes": repacked.after_bytes,
        "saved_bytes": repacked.saved_bytes(),
        "waiting": repacked.waiting,
        "waiting_bytes": repacked.waiting_bytes,
        "seconds": begun.elapsed().as_secs_f64(),
    })
}

fn line(repacked: &RepackReport, codec: CodecChoice) -> String {
    let containers = shown::count(repacked.containers, "container");
    if repacked.rewritten == 0 {
        return format!("nothing to do: none of {containers} becomes shorter by {codec}");
    }
    format!(
        "re-encoded {} of {containers} by {codec}: {} became {}, {} less",
        repacked.rewritten,
        shown::size(repacked.before_bytes),
        shown::size(repacked.after_bytes),
        shown::size(repacked.saved_bytes())
    )
}

fn judge(store: &StoreAddress, repacked: &RepackReport) -> anyhow::Result<()> {
    if repacked.damaged == 0 {
        return Ok(());
    }
    let damaged = shown::count(repacked.damaged, "container");
    let why = format!(
        "{store}: {damaged} cannot be read whole and stayed as they are; `thalweg verify {store} --data` names the damage, \
         and `thalweg collect {store}` replaces what can be read elsewhere"
    );
    Err(Incomplete(why).into())
}
