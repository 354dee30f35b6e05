//! A moment in the past, as users write it, and a file's state then: `--at TIME`.

use std::str::FromStr;

use anyhow::Context;
use catalog::{FileEntry, Names, Version};
use format::{FileKind, StorePath};

use crate::calendar;
use crate::clock::now_ns;
use crate::error_code::fail;
use crate::retention::span_ns;

const SECOND_NS: i64 = 1_000_000_000;

/// Up to when commits count (nanoseconds since 1970).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutoffTime(i64);

impl CutoffTime {
    /// Nanoseconds since 1970.
    #[cfg(test)]
    pub fn as_ns(self) -> i64 {
        self.0
    }

    /// Whether a commit of this time (nanoseconds since 1970) came since.
    pub fn is_before(self, committed_ns: i64) -> bool {
        self.0 <= committed_ns
    }

    /// Returns a name's entry at that moment; none where its file had no version yet, or has none any more. Directories
    /// and symlinks have no versions, and are as they are.
    pub fn entry(self, catalog: &dyn Names, path: &StorePath, entry: FileEntry) -> catalog::Result<Option<FileEntry>> {
        let is_of_then = entry.head.as_ref().is_none_or(|head| head.committed_ns <= self.0);
        if entry.attributes.kind != FileKind::Regular || is_of_then {
            return Ok(Some(entry));
        }
        let versions = catalog.versions(path)?;
        let then = versions.into_iter().rfind(|version| version.committed_ns <= self.0);
        Ok(then.map(|version| with_version(entry, version)))
    }
}

/// Returns the file as it was when this version was its newest.
pub fn with_version(mut entry: FileEntry, mut version: Version) -> FileEntry {
    if let Some(attributes) = version.attributes.take() {
        entry.attributes = *attributes;
    }
    entry.head = Some(version);
    entry
}

impl FromStr for CutoffTime {
    type Err = anyhow::Error;

    /// A second is meant to its end, since times are shown without what is less.
    fn from_str(text: &str) -> anyhow::Result<Self> {
        let refuse = || {
            format!(
                "{text:?} is no time: write 2026-11-21, 2026-11-21 02:10 or 2026-11-21T02:10:07Z (all in UTC), @SECONDS \
                     since 1970, or how long ago, as in 30m, 12h or 7d"
            )
        };
        if let Some(seconds) = text.strip_prefix('@') {
            let seconds: i64 = seconds.parse().ok().with_context(refuse)?;
            return Ok(CutoffTime(seconds.saturating_mul(SECOND_NS).saturating_add(SECOND_NS - 1)));
        }
        if !text.contains('-') {
            return Ok(CutoffTime(now_ns().saturating_sub(span_ns(text).with_context(refuse)?)));
        }
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, ""));
        let time = time.strip_suffix('Z').unwrap_or(time);
        let day = day_of(date).with_context(refuse)?;
        let (second, is_exact) = second_of(time).with_context(refuse)?;
        let seconds = day * 86_400 + second;
        Ok(CutoffTime(seconds.saturating_mul(SECOND_NS).saturating_add(if is_exact { SECOND_NS - 1 } else { 0 })))
    }
}

/// Days since 1970 of `YYYY-MM-DD`.
fn day_of(date: &str) -> Option<i64> {
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() { None } else { calendar::day(year, month, day) }
}

/// Of the day, and whether a second was written.
fn second_of(time: &str) -> Option<(i64, bool)> {
    if time.is_empty() {
        return Some((0, false));
    }
    let parts: Vec<i64> = time.split(':').map(digits).collect::<Option<_>>()?;
    match parts[..] {
        [hour, minute] if hour < 24 && minute < 60 => Some((hour * 3600 + minute * 60, false)),
        [hour, minute, second] if hour < 24 && minute < 60 && second < 60 => {
            Some((hour * 3600 + minute * 60 + second, true))
        }
        _ => None,
    }
}

fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 4 && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

/// Refuses what has no file at that moment.
pub fn expect(found: Option<FileEntry>, location: &dyn std::fmt::Display) -> anyhow::Result<FileEntry> {
    match found {
        Some(entry) => Ok(entry),
        None => fail!(NoSuchVersion: "{location}: had no version at that time; `thalweg stat` lists them"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shown;

    #[test]
    fn times_that_were_shown_are_read_again() {
        for seconds in [0, 951_782_400, 951_868_800, 1_078_099_199, 1_795_400_407, 4_107_542_399] {
            let shown = shown::time(seconds * SECOND_NS);
            assert_eq!(shown.parse::<CutoffTime>().unwrap().0, seconds * SECOND_NS + SECOND_NS - 1, "{shown}");
            let joined = shown.replace(' ', "T");
            assert_eq!(joined.parse::<CutoffTime>().unwrap(), shown.parse::<CutoffTime>().unwrap());
            assert_eq!(format!("@{seconds}").parse::<CutoffTime>().unwrap(), shown.parse::<CutoffTime>().unwrap());
        }
    }

    #[test]
    fn days_and_minutes_begin() {
        assert_eq!("2026-11-21".parse::<CutoffTime>().unwrap().0, 1_795_219_200 * SECOND_NS);
        assert_eq!("2026-11-21 02:10".parse::<CutoffTime>().unwrap().0, 1_795_227_000 * SECOND_NS);
        let ago = now_ns() - "2h".parse::<CutoffTime>().unwrap().0;
        assert!((7100 * SECOND_NS..7300 * SECOND_NS).contains(&ago));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in ["", "2026", "2026-13-01", "2026-02-29", "2026-11-21T25:00", "2026-11-21 1:2:3:4", "@x", "now", "-"]
        {
            assert!(text.parse::<CutoffTime>().is_err(), "{text:?}");
        }
    }
}
