//! The node's log: one line an event on standard error, with time, level and peer.
//!
//! Events are `tracing`'s; their place in the code is their kind. A kind has ten lines in ten seconds, and the rest is
//! counted, so that a hostile peer cannot fill a disk. A thread of its own writes: a standard error that nobody reads
//! costs lines, and delays no client.

use std::collections::HashMap;
use std::env::VarError;
use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
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

/// From now on the process logs: at the level that the command line or else the environment names, `warn` without both.
pub(super) fn start(level: Option<&str>) -> anyhow::Result<()> {
    let level = match (level, std::env::var(VARIABLE)) {
        (Some(level), _) => parse(level).with_context(|| format!("--log {level}"))?,
        (None, Ok(level)) if !level.is_empty() => parse(&level).with_context(|| format!("{VARIABLE}={level}"))?,
        (None, Err(VarError::NotUnicode(level))) => {
            misuse!("{VARIABLE}={}: is no level; {LEVELS}", shown::escaped(level.as_encoded_bytes()))
        }
        (None, _) => LevelFilter::WARN,
    };
    let (lines, queue) = mpsc::sync_channel(MAX_QUEUED_LINES);
    let kinds = Arc::new(Kinds::default());
    let summed = kinds.clone();
    let write = move || write_lines(&queue, &summed, &mut std::io::stderr());
    std::thread::Builder::new().name("log".into()).spawn(write).context("starting the thread that logs")?;
    let log = Log { level, lines, kinds };
    tracing::subscriber::set_global_default(log).context("starting to log")
}

/// Waits a moment until what was logged is written.
pub(super) fn flush() {
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
    lines: SyncSender<String>,
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
        let mut said = EventText::default();
        event.record(&mut said);
        let line = said.line(event.metadata().level());
        let metadata = event.metadata();
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

fn queue(lines: &SyncSender<String>, line: String) {
    WAITING.fetch_add(1, Ordering::SeqCst);
    if lines.try_send(line).is_err() {
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The thread that writes, until the process ends.
fn write_lines(queue: &Receiver<String>, kinds: &Kinds, out: &mut dyn std::io::Write) {
    loop {
        let line = match queue.recv_timeout(TICK) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        for summary in kinds.take_summaries(Instant::now()) {
            // A log that cannot be written harms nobody else.
            let _ = writeln!(out, "{summary}");
        }
        if let Some(line) = line {
            let _ = writeln!(out, "{line}");
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
    last: String,
}

impl Kinds {
    /// Whether the line is written. The places in the code are as many as the kinds can be.
    fn admits(&self, kind: Identifier, line: &str, now: Instant) -> bool {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kind = kinds.entry(kind).or_insert_with(|| Kind { begun: now, count: 0, last: String::new() });
        if kind.count <= MAX_LINES && now >= kind.begun + INTERVAL {
            *kind = Kind { begun: now, count: 0, last: String::new() };
        }
        kind.count += 1;
        if kind.count > MAX_LINES {
            kind.last = line.to_owned();
        }
        kind.count <= MAX_LINES
    }

    /// One line for each kind whose interval has ended and of which some were only counted.
    fn take_summaries(&self, now: Instant) -> Vec<String> {
        let mut kinds = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut summaries = Vec::new();
        kinds.retain(|_, kind| {
            if now < kind.begun + INTERVAL {
                return true;
            }
            if kind.count > MAX_LINES {
                let more = kind.count - MAX_LINES;
                let seconds = now.duration_since(kind.begun).as_secs();
                summaries.push(format!("{} … {more} more like this in the last {seconds} s", kind.last));
            }
            false
        });
        summaries
    }
}

/// What an event says.
#[derive(Default)]
struct EventText {
    peer: String,
    message: String,
}

impl EventText {
    fn line(&self, level: &Level) -> String {
        static NOBODY: OnceLock<String> = OnceLock::new();
        let peer = if self.peer.is_empty() { NOBODY.get_or_init(|| "-".to_owned()) } else { &self.peer };
        let level = level.as_str().to_ascii_lowercase();
        let text = shown::one_line(&format!("{} {level} {peer} {}", shown::time(now_ns()), self.message));
        match text.char_indices().map(|(at, _)| at).take_while(|at| *at <= MAX_LINE_BYTES).last() {
            Some(cut) if text.len() > MAX_LINE_BYTES => format!("{}…", &text[..cut]),
            _ => text,
        }
    }
}

impl Visit for EventText {
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
        struct SegmentAddress;
        impl tracing::callsite::Callsite for SegmentAddress {
            fn set_interest(&self, _: tracing::subscriber::Interest) {}
            fn metadata(&self) -> &Metadata<'_> {
                unreachable!("nobody asks a place of this test")
            }
        }
        static PLACE: SegmentAddress = SegmentAddress;
        Identifier(&PLACE)
    }

    #[test]
    fn a_kind_has_ten_lines_in_ten_seconds_and_the_rest_is_counted() {
        let (kinds, begun) = (Kinds::default(), Instant::now());
        let admitted = (0..322).filter(|number| kinds.admits(kind(), &format!("line {number}"), begun)).count();
        assert_eq!(admitted, 10);
        assert!(kinds.take_summaries(begun + INTERVAL / 2).is_empty());
        assert_eq!(kinds.take_summaries(begun + INTERVAL), ["line 321 … 312 more like this in the last 10 s"]);
        assert!(kinds.admits(kind(), "again", begun + INTERVAL));
    }

    #[test]
    fn rare_lines_are_all_written() {
        let (kinds, begun) = (Kinds::default(), Instant::now());
        assert!((0..100).all(|second| kinds.admits(kind(), "rare", begun + Duration::from_secs(second * 2))));
        assert!(kinds.take_summaries(begun + Duration::from_secs(300)).is_empty());
    }

    #[test]
    fn what_a_peer_says_neither_breaks_a_line_nor_makes_it_long() {
        let said = EventText { peer: "1.2.3.4:5".into(), message: format!("a\nfake \u{1b}[2J{}", "é".repeat(5000)) };
        let line = said.line(&Level::WARN);
        assert!(!line.contains(char::is_control) && line.len() < MAX_LINE_BYTES + 8, "{line}");
        assert!(line.contains(" warn 1.2.3.4:5 a\\x0afake "), "{line}");
    }

    #[test]
    fn a_level_that_does_not_exist_is_refused() {
        for level in ["error", "warn", "info", "debug"] {
            assert!(parse(level).is_ok());
        }
        assert!(parse("loud").unwrap_err().to_string().contains("use error, warn, info or debug"));
    }
}
