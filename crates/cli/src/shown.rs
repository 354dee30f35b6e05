//! How things look: paths, sizes, times and modes, in text and in JSON.
//!
//! A path in text has backslashes, control characters and bytes that are not UTF-8 as `\xNN`. In JSON it is a
//! string with U+FFFD for such bytes, and then `path_bytes` beside it has the true bytes in base 16.

use std::fmt::Write;
use std::path::Path;

pub use ::address::escaped;
use catalog::{FileEntry, PathSession};
use format::{Attributes, FileKind, FileTime, StorePath, recipe_id};
use repository::DroppedContent;
use serde_json::{Map, Value, json};

use crate::calendar;
pub use transfer::one_line;

pub fn path(path: &StorePath) -> String {
    escaped(path.as_bytes())
}

pub fn local(path: &Path) -> String {
    escaped(path.as_os_str().as_encoded_bytes())
}

/// `path`, and `path_bytes` where the string cannot say it all.
pub fn path_fields(bytes: &[u8]) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("path".into(), String::from_utf8_lossy(bytes).into());
    if std::str::from_utf8(bytes).is_err() {
        fields.insert("path_bytes".into(), base16(bytes).into());
    }
    fields
}

pub fn base16(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// `1.5 MiB`.
pub fn size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `1 file`, `2 files`.
pub fn count(number: u64, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// `a ÷ b`, 1 where there is nothing to divide.
pub fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 1.0 } else { (a as f64 / b as f64 * 1000.0).round() / 1000.0 }
}

/// `2026-11-21 02:10:07Z`, in UTC.
pub fn time(since_1970_ns: i64) -> String {
    file_time(FileTime::from_ns(since_1970_ns))
}

pub fn file_time(time: FileTime) -> String {
    let (date, time_of_day) = date_and_time(time.seconds);
    format!("{date} {time_of_day}Z")
}

/// `2026-11-21T02:10:07.000000001Z`, in UTC.
pub fn exact_time(time: FileTime) -> String {
    let (date, time_of_day) = date_and_time(time.seconds);
    format!("{date}T{time_of_day}.{:09}Z", time.nanoseconds)
}

fn date_and_time(seconds: i64) -> (String, String) {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = calendar::date(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    (format!("{year:04}-{month:02}-{day:02}"), format!("{hour:02}:{minute:02}:{second:02}"))
}

/// `drwxr-sr-x`.
pub fn mode(attributes: &Attributes) -> String {
    let kind = match attributes.kind {
        FileKind::Regular => '-',
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
    };
    let mut text = String::from(kind);
    for (shift, special, letters) in [(6, 0o4000, ['s', 'S']), (3, 0o2000, ['s', 'S']), (0, 0o1000, ['t', 'T'])] {
        let bits = attributes.mode >> shift & 7;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (attributes.mode & special != 0, bits & 1 != 0) {
            (true, true) => letters[0],
            (true, false) => letters[1],
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    text
}

pub fn kind(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Regular => "file",
        FileKind::Directory => "directory",
        FileKind::Symlink => "symlink",
    }
}

/// Returns an entry as `ls` and `stat` show it; `mode` is octal text, `dropped` the recipe that makes it again.
pub fn entry_fields(path: &StorePath, entry: &FileEntry) -> Map<String, Value> {
    let attributes = &entry.attributes;
    let mut fields = path_fields(path.as_bytes());
    fields.insert("kind".into(), kind(attributes.kind).into());
    fields.insert("mode".into(), format!("{:04o}", attributes.mode).into());
    fields.insert("uid".into(), attributes.uid.into());
    fields.insert("gid".into(), attributes.gid.into());
    let modified = attributes.times.modified;
    fields.insert("modified".into(), exact_time(modified).into());
    // A number of 64 bits ends in the year 2554; a later time is null, and not another time.
    let modified_ns = serde_json::Number::from_i128(modified.as_ns());
    fields.insert("modified_ns".into(), modified_ns.map_or(Value::Null, Value::Number));
    fields.insert("links".into(), entry.links.into());
    if let Some(head) = &entry.head {
        fields.insert("size".into(), head.record.size.into());
        fields.insert("version".into(), head.number.into());
        if let Some(dropped) = DroppedContent::of(&head.record) {
            fields.insert("dropped".into(), recipe_id(&dropped.recipe).into());
        }
    }
    if attributes.kind == FileKind::Symlink {
        fields.insert("target".into(), String::from_utf8_lossy(&attributes.target).into());
    }
    fields
}

/// Returns a session of a path, as `sessions`, `ls` and `stat` show it.
pub fn session_fields(session: &PathSession, size: u64, checkpoints: usize) -> Map<String, Value> {
    let mut fields = path_fields(session.path.as_bytes());
    fields.insert("session".into(), session.id.to_string().into());
    fields.insert("state".into(), state(session).into());
    fields.insert("size".into(), size.into());
    fields.insert("checkpoints".into(), checkpoints.into());
    fields.insert("opened_ns".into(), session.opened_ns.into());
    fields.insert("handles".into(), session.handles.into());
    fields.insert("job".into(), session.job.clone().into());
    fields.insert("nodes".into(), json!(session.nodes));
    fields
}

pub fn state(session: &PathSession) -> &'static str {
    if session.interrupted { "interrupted" } else { "live" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_names_take_one_line() {
        assert_eq!(escaped("a\nb\\ü".as_bytes()), "a\\x0ab\\\\ü");
        assert_eq!(escaped(b"\xff."), "\\xff.");
        assert_eq!(path_fields(b"\xff")["path_bytes"], "ff");
        assert!(!path_fields(b"a").contains_key("path_bytes"));
    }

    #[test]
    fn times_agree_with_the_calendar() {
        assert_eq!(time(0), "1970-01-01 00:00:00Z");
        assert_eq!(time(951_782_400_000_000_000), "2000-02-29 00:00:00Z");
        assert_eq!(time(-1), "1969-12-31 23:59:59Z");
        let late = FileTime { seconds: 10_413_792_000, nanoseconds: 5 };
        assert_eq!(exact_time(late), "2300-01-01T00:00:00.000000005Z");
        assert!(file_time(FileTime { seconds: i64::MAX, nanoseconds: 0 }).starts_with("292277026596-12-04"));
        assert!(file_time(FileTime { seconds: i64::MIN, nanoseconds: 0 }).starts_with("-292277022657-01-27"));
    }

    #[test]
    fn modes_read_as_in_ls() {
        let attributes = Attributes { mode: 0o4755, ..Attributes::default() };
        assert_eq!(mode(&attributes), "-rwsr-xr-x");
        let attributes = Attributes { kind: FileKind::Directory, mode: 0o1777, ..Attributes::default() };
        assert_eq!(mode(&attributes), "drwxrwxrwt");
    }

    #[test]
    fn sizes_have_units() {
        assert_eq!(size(1023), "1023 B");
        assert_eq!(size(3 << 19), "1.5 MiB");
    }
}
