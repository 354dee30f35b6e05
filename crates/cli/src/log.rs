//! The log of a node or a gate: one line an event on standard error, with time, level and peer, in words or as JSON.
//!
//! Events are `tracing`'s; their place in the code is their kind. A kind has ten lines in ten seconds, and the rest is
//! counted, so that a hostile peer cannot fill a disk. A thread of its own writes: an unread standard error costs
//! lines, and delays no client.

use std::collections::HashMap;
use std::env::VarError;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::{Event, Level, Metadata, Subscriber, span};

use crate::clock::now_ns;
use crate::failure::misuse;
use crate::shown;

/// Names the level where the command line does not.
const VARIABLE: &str = "THALWEG_LOG";
const LEVELS: &str = "use error, warn, info or debug";
/// Lines of one kind in one interval; more are counted.
const MAX_LINES: u64 = 10;
const INTERVAL: Duration = Duration::from_secs(10);
/// Lines that wait to be written; beyond, they are dropped.
const MAX_QUEUED_LINES: usize = 1024;
/// A line is cut here (bytes): peers choose some of its words.
const MAX_LINE_BYTES: usize = 1000;
/// How soon the thread notices that an interval has ended.
const TICK: Duration = Duration::from_secs(1);
/// How long the last lines are waited for when the process ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// Lines that are queued and not written.
static WAITING: AtomicUsize = AtomicUsize::new(0);

/// How a server logs.
#[derive(clap::Args, Clone, Debug, Default)]
pub struct LogArguments {
    /// Log level on standard error: error, warn, info or debug. Default: $THALWEG_LOG, or warn for a node, info for a
    /// gate
    #[arg(long, value_name = "LEVEL")]
    log: Option<String>,
    /// How a line of the log looks
    #[arg(long, value_name = "FORMAT", value_enum, default_value_t)]
    log_format: Format,
}

#[derive(clap::ValueEnum, Clone, Copy, Debug, Default, PartialEq)]
enum Format {
    #[default]
    Text,
    /// One object a line: time, level, peer, message
    Json,
}

/// Begins to log at the level that the command line or else the environment names, `otherwise` without both.
pub fn start(arguments: &LogArguments, otherwise: Level) -> anyhow::Result<()> {
    let format = arguments.log_format;
    let level = match arguments.log.as_deref() {
        Some(level) => parse(level).with_context(|| format!("--log {level}"))?,
        None => of_environment()?.unwrap_or(LevelFilter::from_level(otherwise)),
    };
    let (lines, queue) = mpsc::sync_channel(MAX_QUEUED_LINES);
    let kinds = Arc::new(Kinds::default());
    let summed = kinds.clone();
    let write = move || write_lines(&queue, &summed, format, &mut std::io::stderr());
    std::thread::Builder::new().name("log".into()).spawn(write).context("starting the thread that logs")?;
    let log = Log { level, lines, kinds };
    tracing::subscriber::set_global_default(log).context("starting to log")
}

/// Refuses a level in the environment that is none.
pub fn check_variable() -> anyhow::Result<()> {
    of_environment().map(drop)
}

fn of_environment() -> anyhow::Result<Option<LevelFilter>> {
    match std::env::var(VARIABLE) {
        Ok(level) if !level.is_empty() => parse(&level).with_context(|| format!("{VARIABLE}={level}")).map(Some),
        Err(VarError::NotUnicode(level)) => {
            misuse!(EnvironmentVariable: "{VARIABLE}={}: is no level; {LEVELS}", shown::escaped(level.as_encoded_bytes()))
        }
        _ => Ok(None),
    }
}

/// Waits a moment until all logged lines are written.
pub fn flush() {
    let deadline = Instant::now() + FLUSH_TIMEOUT;
    while WAITING.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn parse(level: &str) -> anyhow::Result<LevelFilter> {
    match level {
        "error" => Ok(LevelFilter::ERROR),
        "warn" => Ok(LevelFilter::WARN),
        "info" => Ok(LevelFilter::INFO),
        "debug" => Ok(LevelFilter::DEBUG),
        _ => misuse!("is no level; {LEVELS}"),
    }
}

struct Log {
    level: LevelFilter,
    lines: SyncSender<Line>,
    kinds: Arc<Kinds>,
}

impl Log {
    fn is_ours(metadata: &Metadata<'_>) -> bool {
        metadata.is_event() && metadata.target().starts_with("thalweg")
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= self.level && Log::is_ours(metadata)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(self.level)
    }

    fn event(&self, event: &Event<'_>) {
        let metadata = event.metadata();
        let mut line = Line::of(*metadata.level());
        event.record(&mut line);
        line.cut();
        if self.kinds.admits(metadata.callsite(), &line, Instant::now()) {
            queue(&self.lines, line);
        }
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn queue(lines: &SyncSender<Line>, line: Line) {
    WAITING.fetch_add(1, Ordering::SeqCst);
    if lines.try_send(line).is_err() {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Runs the thread that writes, until the process ends.
fn write_lines(queue: &Receiver<Line>, kinds: &Kinds, format: Format, out: &mut dyn std::io::Write) {
    loop {
        let line = match queue.recv_timeout(TICK) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for summary in kinds.take_summaries(Instant::now()) {
            // A log that cannot be written harms nothing else.
            let _ = writeln!(out, "{}", summary.shown(format));
        }
        if let Some(line) = line {
            let _ = writeln!(out, "{}", line.shown(format));
            WAITING.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// How often each kind was seen in its current interval.
#[derive(Default)]
struct Kinds(Mutex<HashMap<Identifier, Kind>>);

struct Kind {
    begun: Instant,
    count: u64,
    /// The last one that was only counted.
    last: Option<Line>,
}

impl Kinds {
    /// Whether the line is written. The places in the code are as many as the kinds can be.
    fn admits(&self, kind: Identifier, line: &Line, now: Instant) -> bool {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(kind).or_insert_with(|| Kind { begun: now, count: 0, last: None });
        if kind.count <= MAX_LINES && now >= kind.begun + INTERVAL {
            *kind = Kind { begun: now, count: 0, last: None };
        }
        kind.count += 1;
        if kind.count > MAX_LINES {
            kind.last = Some(line.clone());
        }
        kind.count <= MAX_LINES
    }

    /// Returns one line for each kind whose interval has ended and of which some were only counted.
    fn take_summaries(&self, now: Instant) -> Vec<Line> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut summaries = Vec::new();
        kinds.retain(|_, kind| {
            if now < kind.begun + INTERVAL {
                return true;
            }
            if let Some(mut last) = kind.last.take() {
                let (more, seconds) = (kind.count - MAX_LINES, now.duration_since(kind.begun).as_secs());
                // Writing to a string does not fail.
                let _ = write!(last.message, " … {more} more like this in the last {seconds} s");
                summaries.push(last);
            }
            false
        });
        summaries
    }
}

/// The fields of an event.
#[derive(Clone, Debug)]
struct Line {
    time: String,
    level: Level,
    /// Empty where it concerns none.
    peer: String,
    message: String,
}

impl Line {
    fn of(level: Level) -> Line {
        Line { time: shown::time(now_ns()), level, peer: String::new(), message: String::new() }
    }

    /// Peers choose some of its words, and may choose many.
    fn cut(&mut self) {
        for words in [&mut self.peer, &mut self.message] {
            if words.len() > MAX_LINE_BYTES {
                let end = (0..=MAX_LINE_BYTES).rev().find(|at| words.is_char_boundary(*at));
                words.truncate(end.unwrap_or(0));
                words.push('…');
            }
        }
    }

    fn shown(&self, format: Format) -> String {
        let Line { time, peer, message, .. } = self;
        let level = self.level.as_str().to_ascii_lowercase();
        match format {
            Format::Text => {
                let peer = if peer.is_empty() { "-" } else { peer };
                shown::one_line(&format!("{time} {level} {peer} {message}"))
            }
            Format::Json => {
                let (time, peer) = (time.replacen(' ', "T", 1), (!peer.is_empty()).then_some(peer));
                serde_json::json!({ "time": time, "level": level, "peer": peer, "message": message }).to_string()
            }
        }
    }
}

impl Visit for Line {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let into = if field.name() == "peer" { &mut self.peer } else { &mut self.message };
        // Writing to a string does not fail.
        let _ = write!(into, "{value:?}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind() -> Identifier {
        struct Location;
        impl tracing::callsite::Callsite for Location {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &Metadata<'_> {
                unreachable!("this test needs no place")
            }
        }
        static PLACE: Location = Location;
        Identifier(&PLACE)
    }

    fn line(message: &str) -> Line {
        Line { time: "2026-11-21 02:10:07Z".into(), level: Level::WARN, peer: String::new(), message: message.into() }
    }

    #[test]
    fn a_kind_has_ten_lines_in_ten_seconds_and_the_rest_is_counted() {
        let (kinds, begun) = (Kinds::default(), Instant::now());
        let admitted = (0..322).filter(|number| kinds.admits(kind(), &line(&format!("line {number}")), begun)).count();
        assert_eq!(admitted, 10);
        assert!(kinds.take_summaries(begun + INTERVAL / 2).is_empty());
        let summaries = kinds.take_summaries(begun + INTERVAL);
        let said: Vec<&str> = summaries.iter().map(|line| line.message.as_str()).collect();
        assert_eq!(said, ["line 321 … 312 more like this in the last 10 s"]);
        assert!(kinds.admits(kind(), &line("again"), begun + INTERVAL));
    }

    #[test]
    fn rare_lines_are_all_written() {
        let (kinds, begun) = (Kinds::default(), Instant::now());
        assert!((0..100).all(|second| kinds.admits(kind(), &line("rare"), begun + Duration::from_secs(second * 2))));
        assert!(kinds.take_summaries(begun + Duration::from_secs(300)).is_empty());
    }

    #[test]
    fn what_a_peer_says_neither_breaks_a_line_nor_makes_it_long() {
        let mut said = line(&format!("a\nfake \u{1b}[2J{}", "é".repeat(5000)));
        said.peer = "1.2.3.4:5".into();
        said.cut();
        let text = said.shown(Format::Text);
        assert!(!text.contains(char::is_control) && text.len() < MAX_LINE_BYTES + 64, "{text}");
        assert!(text.contains(" warn 1.2.3.4:5 a\\x0afake "), "{text}");
        let json = said.shown(Format::Json);
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert!(
            !json.contains(char::is_control) && read["message"].as_str().unwrap().starts_with("a\nfake "),
            "{json}"
        );
        assert_eq!((&read["time"], &read["level"]), (&"2026-11-21T02:10:07Z".into(), &"warn".into()));
        assert_eq!(
            (&read["peer"], &line("x").shown(Format::Json).contains("\"peer\":null")),
            (&"1.2.3.4:5".into(), &true)
        );
    }

    #[test]
    fn a_level_that_does_not_exist_is_refused() {
        for level in ["error", "warn", "info", "debug"] {
            assert!(parse(level).is_ok());
        }
        assert!(parse("loud").unwrap_err().to_string().contains("use error, warn, info or debug"));
    }
}
