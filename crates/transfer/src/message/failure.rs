//! The failure a node answers instead of a result.

use catalog::Refusal;
use format::{ContainerId, ErrorCode, Reader, Result, StorePath, VersionId, Writer};

use super::Field;

/// Kinds of failure, by what the caller does about them. The numbers never change meaning; `thalweg.h` has the same
/// kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FailureKind {
    NotFound = 1,
    Exists = 2,
    Refused = 3,
    /// Trying again later may help.
    Unavailable = 4,
    Full = 5,
    Corrupt = 6,
    Io = 7,
    /// The commit's containers are no longer live: see [`Failure::containers`].
    NotLive = 9,
    /// The path's head moved: see [`Failure::head`].
    HeadMoved = 10,
    LeaseLost = 11,
    /// Another node owns the stripe set now: ask the catalog, attach there, send again.
    StripeSetLost = 12,
    TooNew = 13,
    /// The data was dropped; a recipe makes it again.
    DataDropped = 14,
}

impl FailureKind {
    const ALL: [FailureKind; 13] = {
        use FailureKind::*;
        [
            NotFound,
            Exists,
            Refused,
            Unavailable,
            Full,
            Corrupt,
            Io,
            NotLive,
            HeadMoved,
            LeaseLost,
            StripeSetLost,
            TooNew,
            DataDropped,
        ]
    };
}

#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    pub kind: FailureKind,
    /// A whole sentence for the user.
    pub text: String,
    /// The path in the store it is about, where there is one.
    pub path: Option<StorePath>,
    pub containers: Vec<ContainerId>,
    pub head: Option<VersionId>,
    /// Why a change was refused, where the catalog refused it.
    pub refusal: Option<Refusal>,
    /// The object on the node that it is about, if it names one. Boxed: results carry failures everywhere.
    pub subject: Option<Box<Subject>>,
}

/// A file or segment at the node that a failure names.
#[derive(Clone, Debug, PartialEq)]
pub struct Subject {
    pub name: String,
    /// Where it is damaged, and how; 0 and empty unless that is the failure.
    pub offset: u64,
    pub damage: String,
}

impl Failure {
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        let text = text.into();
        Failure { kind, text, path: None, containers: Vec::new(), head: None, refusal: None, subject: None }
    }

    /// Returns the code that the kind, and what is known beside it, amount to.
    pub fn code(&self) -> ErrorCode {
        match self.kind {
            // A container or segment has a subject; a name in the store has none.
            FailureKind::NotFound if self.subject.is_some() => ErrorCode::DataMissing,
            FailureKind::NotFound => ErrorCode::NoSuchPath,
            FailureKind::Exists => ErrorCode::NameTaken,
            FailureKind::Refused => self.refusal.map_or(ErrorCode::NodeRefused, Refusal::code),
            FailureKind::Unavailable => ErrorCode::NodeUnreachable,
            FailureKind::Full => ErrorCode::DiskFull,
            FailureKind::Corrupt => ErrorCode::DataDamaged,
            FailureKind::Io => ErrorCode::NodeFailed,
            FailureKind::NotLive => ErrorCode::SegmentsCollected,
            FailureKind::HeadMoved => ErrorCode::HeadMoved,
            FailureKind::LeaseLost => ErrorCode::LeaseLost,
            FailureKind::StripeSetLost => ErrorCode::StripeSetLost,
            FailureKind::TooNew => ErrorCode::ProtocolMismatch,
            FailureKind::DataDropped => ErrorCode::DataDropped,
        }
    }
}

/// A peer's sentence is shown to users as it is, however long: no honest one is longer.
const MAX_TEXT_BYTES: usize = 8 << 10;
/// The same with the path, which is shown too where the text does not contain it.
const MAX_SHOWN_BYTES: usize = MAX_TEXT_BYTES + MAX_SUBJECT_BYTES;
/// The same of what a failure is about, which is shown with the damage instead of the text.
const MAX_SUBJECT_BYTES: usize = 4 << 10;

/// Returns the length as shown: control characters are shown as `\xNN` for each byte, so that they count fourfold.
fn shown_bytes(character: char) -> usize {
    character.len_utf8() * if character.is_control() { 4 } else { 1 }
}

fn shortened(mut text: String, max_bytes: usize) -> String {
    let mut all_bytes = 0;
    let first_beyond = text.char_indices().find(|(_, character)| {
        all_bytes += shown_bytes(*character);
        all_bytes > max_bytes
    });
    if let Some((end, _)) = first_beyond {
        text.truncate(end);
        text.push_str(" …");
    }
    text
}

/// Drops the path where text and path together are too long to be shown.
fn without_long_path(failure: Failure) -> Failure {
    let shown = |text: &str| text.chars().map(shown_bytes).sum::<usize>();
    let path_bytes = failure.path.as_ref().map_or(0, |path| shown(&path.to_string()));
    let is_long = shown(&failure.text) + path_bytes > MAX_SHOWN_BYTES;
    Failure { path: failure.path.filter(|_| !is_long), ..failure }
}

fn refusal_of(number: u16) -> Option<Refusal> {
    Refusal::ALL.into_iter().find(|refusal| *refusal as u16 == number)
}

impl Field for Box<Subject> {
    const MIN_BYTES: usize = 16;

    fn write(&self, to: &mut Writer) {
        to.text(&self.name).u64(self.offset).text(&self.damage);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        let name = shortened(from.text()?, MAX_SUBJECT_BYTES);
        let (offset, damage) = (from.u64()?, shortened(from.text()?, MAX_TEXT_BYTES));
        Ok(Box::new(Subject { name, offset, damage }))
    }
}

impl Field for Failure {
    const MIN_BYTES: usize = 15;

    fn write(&self, to: &mut Writer) {
        to.u16(self.kind as u16).text(&self.text);
        self.path.write(to);
        self.containers.write(to);
        self.head.write(to);
        to.u16(self.refusal.map_or(0, |refusal| refusal as u16));
        self.subject.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        let number = from.u16()?;
        let kind = FailureKind::ALL.into_iter().find(|kind| *kind as u16 == number).unwrap_or(FailureKind::Io);
        Ok(without_long_path(Failure {
            kind,
            text: shortened(from.text()?, MAX_TEXT_BYTES),
            path: Field::read(from)?,
            containers: Field::read(from)?,
            head: Field::read(from)?,
            refusal: refusal_of(from.u16()?),
            subject: Field::read(from)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_s_text_is_cut_at_a_length_that_can_be_shown() {
        for (character, shown_bytes) in [('é', 2), ('\u{1b}', 4), ('\u{85}', 8)] {
            let mut to = Writer::new();
            let long = character.to_string().repeat(10 << 20);
            let subject = Some(Box::new(Subject { name: long.clone(), offset: 0, damage: long.clone() }));
            Failure { subject, ..Failure::new(FailureKind::Io, long) }.write(&mut to);
            let bytes = to.finish();
            let read = Failure::read(&mut Reader::new("failure", &bytes)).unwrap();
            let count = |text: &str| text.strip_suffix(" …").unwrap().chars().count();
            assert_eq!(count(&read.text), MAX_TEXT_BYTES / shown_bytes, "{character:?}");
            let subject = read.subject.unwrap();
            assert_eq!(count(&subject.damage), MAX_TEXT_BYTES / shown_bytes, "{character:?}");
            assert_eq!(count(&subject.name), MAX_SUBJECT_BYTES / shown_bytes, "{character:?}");
        }
    }

    #[test]
    fn a_failure_s_path_is_left_out_where_it_is_too_long_to_be_shown_with_the_text() {
        for (text, name, is_kept) in [
            ("full".to_owned(), "a".repeat(4096), true),
            ("x".repeat(4096 + 100), "a".repeat(4096), true),
            ("x".repeat(MAX_TEXT_BYTES + 1), "a".repeat(4096), false),
            ("full".to_owned(), "\u{1b}".repeat(4096), false),
        ] {
            let path = StorePath::new(name.as_bytes()).unwrap();
            let mut to = Writer::new();
            Failure { path: Some(path), ..Failure::new(FailureKind::Refused, text) }.write(&mut to);
            let read = Failure::read(&mut Reader::new("failure", &to.finish())).unwrap();
            assert_eq!(read.path.is_some(), is_kept, "{:?}", &name[..1]);
        }
    }
}
