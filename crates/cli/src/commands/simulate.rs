//! `thalweg simulate`: a cluster on a virtual clock, driven by the policies that drive the real one.

use std::fs::OpenOptions;
use std::io::Read;
use std::ops::RangeInclusive;
use std::os::unix::fs::OpenOptionsExt;

use anyhow::Context;
use format::ErrorCode;
use policy::cache::Eviction;
use policy::placement::Rule;
use policy::provisioning::Growth;
use serde_json::json;
use simulator::{Provisioning, Report, Settings, Testbed, Workload};

use crate::error_code::{Coded, fail};
use crate::output::Output;
use crate::picture::{self, Picture};
use crate::shown;

/// Beyond these a run takes hours, or more memory than most machines have.
const MAX_CPUS: i64 = 1 << 20;
const MAX_CPUS_PER_NODE: i64 = 1024;
const MAX_TASKS: i64 = 100_000_000;
/// All pairs are as many tasks as the square of this.
const MAX_FILES: i64 = 5000;
const MAX_GIGABYTES: f64 = 1e9;
/// Some millions of tasks.
const MAX_TRACE_BYTES: u64 = 256 << 20;

/// Simulate tasks over files in workers' caches: which policy, how much cache, how many nodes
#[derive(clap::Args)]
#[command(after_help = "What is modelled, and with which constants: docs/simulation.md.\n\n\
    Example: thalweg simulate monotonic --policy gcc --cache-gb 2 --figure gcc.svg")]
pub struct Arguments {
    /// monotonic, sine, all-pairs, stacking, profile, or a trace file
    #[arg(value_parser = clap::builder::NonEmptyStringValueParser::new())]
    workload: String,
    /// fa, mch, mcu, gcc (the source's) or thalweg
    #[arg(long, default_value = "thalweg", value_name = "NAME")]
    policy: Rule,
    /// Cache of a node in GB of 10^9 bytes [default: 4; sine and all-pairs 50]
    #[arg(long, value_name = "GB", value_parser = gigabytes)]
    cache_gb: Option<f64>,
    /// static: all nodes from the start; dynamic: as many as the tasks need
    #[arg(long, default_value = "static", value_name = "HOW", value_parser = provisioning)]
    provisioning: Provisioning,
    /// Requests for nodes: one-at-a-time, additive, exponential or all-at-once
    #[arg(long, default_value = "all-at-once", value_name = "HOW")]
    growth: Growth,
    /// Eviction from a full cache: lru, lfu, fifo, random or size-aware
    #[arg(long, default_value = "lru", value_name = "ORDER")]
    eviction: Eviction,
    /// Waiting tasks that a decision examines [default: 2500; thalweg all]
    #[arg(long, value_name = "TASKS", value_parser = clap::value_parser!(u32).range(1..))]
    window: Option<u32>,
    /// The same seed repeats the same run
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Processors, two a node [default: 128; sine 200, all-pairs 4096]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_CPUS))]
    cpus: Option<u32>,
    #[command(flatten)]
    rates: Rates,
    /// Tasks of monotonic, sine and profile [default: 250000, 2000000, 100000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_TASKS))]
    tasks: Option<u32>,
    /// Files in each of the two sets of all-pairs
    #[arg(long, default_value_t = 1000, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_FILES))]
    files: u32,
    /// Time that a task of all-pairs computes
    #[arg(long, default_value_t = 4.0, value_name = "SECONDS", value_parser = seconds)]
    compute_s: f64,
    /// Objects a file of stacking, one of the source's: 1, 1.38, 2, 3, 4, 5, 10, 20, 30
    #[arg(long, default_value_t = 10.0, value_name = "L", value_parser = locality)]
    locality: f64,
    /// Draw throughput, queue, nodes and hit ratios over time
    #[arg(long, value_name = "FILE.svg|FILE.png", value_parser = picture::parser())]
    figure: Option<Picture>,
}

/// The source's testbed has these in docs/simulation.md.
#[derive(clap::Args)]
struct Rates {
    /// Processors a node [default: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=MAX_CPUS_PER_NODE))]
    cpus_per_node: Option<u32>,
    /// The shared store to all readers together, in 10^6 bytes a second [default: 560; sine and all-pairs 1000]
    #[arg(long, value_name = "MB/S", value_parser = rate)]
    store_mb_s: Option<f64>,
    /// The shared store to one reader [default: 100]
    #[arg(long, value_name = "MB/S", value_parser = rate)]
    reader_mb_s: Option<f64>,
    /// A peer's cache to one reader [default: 50]
    #[arg(long, value_name = "MB/S", value_parser = rate)]
    peer_mb_s: Option<f64>,
}

impl Rates {
    fn apply(&self, testbed: &mut Testbed) {
        for (given, location) in [
            (self.store_mb_s, &mut testbed.store_bytes_per_s),
            (self.reader_mb_s, &mut testbed.store_reader_bytes_per_s),
            (self.peer_mb_s, &mut testbed.peer_bytes_per_s),
        ] {
            *location = given.map_or(*location, |mb_s| mb_s * 1e6);
        }
        testbed.cpus_per_node = self.cpus_per_node.unwrap_or(testbed.cpus_per_node);
    }
}

fn rate(word: &str) -> Result<f64, String> {
    number(word, 1e-6..=1e9).ok_or_else(|| "a rate in MB/s, above 0".to_owned())
}

fn gigabytes(word: &str) -> Result<f64, String> {
    number(word, 0.0..=MAX_GIGABYTES).ok_or_else(|| format!("a number of GB from 0 to {MAX_GIGABYTES}"))
}

fn seconds(word: &str) -> Result<f64, String> {
    let max_s = simulator::MAX_SECONDS;
    number(word, 0.0..=max_s).ok_or_else(|| format!("a number of seconds from 0 to {max_s}"))
}

fn locality(word: &str) -> Result<f64, String> {
    let known = simulator::STACKING.map(|(locality, ..)| locality);
    let found = word.parse().ok().filter(|found| known.contains(found));
    found.ok_or_else(|| format!("one of {}", known.map(|locality| locality.to_string()).join(", ")))
}

fn number(word: &str, within: RangeInclusive<f64>) -> Option<f64> {
    word.parse().ok().filter(|number| within.contains(number))
}

fn provisioning(word: &str) -> Result<Provisioning, String> {
    match word {
        "static" => Ok(Provisioning::Static),
        "dynamic" => Ok(Provisioning::Dynamic),
        _ => Err("static or dynamic".to_owned()),
    }
}

pub fn execute(arguments: Arguments, output: &Output) -> anyhow::Result<()> {
    let (workload, testbed) = chosen(&arguments)?;
    let settings = Settings {
        window: arguments.window.map(|window| window as usize),
        eviction: arguments.eviction,
        provisioning: arguments.provisioning,
        growth: arguments.growth,
        seed: arguments.seed,
        ..Settings::new(testbed, arguments.policy)
    };
    let report = simulator::simulate(&workload, &settings);
    if let Some(picture) = &arguments.figure {
        let title = format!("{}, {}, {} GB a node", workload.name, arguments.policy.name(), cache_gb(&testbed));
        picture.write(&simulator::figure(&title, &report))?;
    }
    show(&workload, &settings, &report, output)
}

fn chosen(arguments: &Arguments) -> anyhow::Result<(Workload, Testbed)> {
    let seed = arguments.seed;
    let tasks = arguments.tasks.map(|tasks| tasks as usize);
    let (workload, mut testbed) = match arguments.workload.as_str() {
        "monotonic" => (simulator::monotonic(tasks.unwrap_or(250_000), seed), Testbed::monotonic()),
        "sine" => (simulator::sine(tasks.unwrap_or(2_000_000), seed), Testbed::sine()),
        "profile" => (simulator::profile(tasks.unwrap_or(100_000), seed), Testbed::monotonic()),
        "all-pairs" => (simulator::all_pairs(arguments.files, arguments.compute_s), Testbed::all_pairs(4096)),
        "stacking" => (simulator::stacking(arguments.locality), Testbed::monotonic()),
        path => (from_file(path)?, Testbed::monotonic()),
    };
    let cpus = arguments.cpus.unwrap_or(testbed.slots());
    arguments.rates.apply(&mut testbed);
    testbed.nodes = cpus.div_ceil(testbed.cpus_per_node);
    if let Some(cache_gb) = arguments.cache_gb {
        testbed.cache_bytes = (cache_gb * 1e9) as u64;
    }
    Ok((workload, testbed))
}

fn from_file(path: &str) -> anyhow::Result<Workload> {
    let no_trace = || format!("{path}: neither monotonic, sine, all-pairs, stacking, profile nor a trace file");
    // Do not wait for the other end of a pipe.
    let opened = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path);
    let opened = opened.with_context(|| Coded::new(ErrorCode::Trace, no_trace()))?;
    if !opened.metadata().with_context(|| Coded::new(ErrorCode::Trace, no_trace()))?.is_file() {
        fail!(Trace: "{}: it is no regular file", no_trace());
    }
    let mut text = String::new();
    opened
        .take(MAX_TRACE_BYTES + 1)
        .read_to_string(&mut text)
        .with_context(|| Coded::new(ErrorCode::Trace, no_trace()))?;
    if text.len() as u64 > MAX_TRACE_BYTES {
        fail!(Trace: "{path}: a trace has at most {}", shown::size(MAX_TRACE_BYTES));
    }
    simulator::trace(path, &text).with_context(|| path.to_owned())
}

fn cache_gb(testbed: &Testbed) -> f64 {
    testbed.cache_bytes as f64 / 1e9
}

fn show(workload: &Workload, settings: &Settings, report: &Report, output: &Output) -> anyhow::Result<()> {
    output.document(&json!({
        "workload": workload.name,
        "policy": settings.rule.name(),
        "cache_gb": cache_gb(&settings.testbed),
        "cpus": settings.testbed.slots(),
        "seed": settings.seed,
        "tasks": report.tasks,
        "makespan_s": report.makespan_s,
        "ideal_s": report.ideal_s,
        "efficiency": report.efficiency(),
        "response_mean_s": report.response_mean_s,
        "response_p95_s": report.response_p95_s,
        "response_p99_s": report.response_p99_s,
        "cpu_hours": report.cpu_hours,
        "bytes_unique": workload.unique_bytes(),
        "bytes_local": report.bytes_local,
        "bytes_peer": report.bytes_peer,
        "bytes_store": report.bytes_store,
        "local_hit_ratio": report.local_hit_ratio(),
        "performance_index": report.performance_index,
    }))?;
    let bytes = |bytes: f64| shown::size(bytes as u64);
    for (name, text) in [
        (
            "makespan",
            format!("{:.1} s, ideal {:.1} s: {:.3} of it", report.makespan_s, report.ideal_s, report.efficiency()),
        ),
        (
            "response",
            format!("{:.2} s in the mean, 99 % within {:.2} s", report.response_mean_s, report.response_p99_s),
        ),
        ("processors", format!("{} at most, {:.1} CPU-hours", settings.testbed.slots(), report.cpu_hours)),
        ("own cache", format!("{}, {:.1} % of inputs", bytes(report.bytes_local), 100.0 * report.local_hit_ratio())),
        ("peers", bytes(report.bytes_peer)),
        ("store", format!("{}, of {} unique", bytes(report.bytes_store), shown::size(workload.unique_bytes()))),
    ] {
        output.line(format_args!("{name:>12}  {text}"))?;
    }
    Ok(())
}
