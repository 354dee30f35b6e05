//! What a node answers instead of a result.

use format::{ContainerId, Reader, Result, StorePath, VersionId, Writer};

use super::Field;

/// By what the caller does about it. The numbers never change meaning; `thalweg.h` has the same kinds.
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
    /// Another node holds the seat now: ask the catalog, attach there, send again.
    SeatLost = 12,
    TooNew = 13,
}

impl FailureKind {
    const ALL: [FailureKind; 12] = {
        use FailureKind::*;
        [NotFound, Exists, Refused, Unavailable, Full, Corrupt, Io, NotLive, HeadMoved, LeaseLost, SeatLost, TooNew]
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
}

impl Failure {
    pub fn new(kind: FailureKind, text: impl Into<String>) -> Self {
        Failure { kind, text: text.into(), path: None, containers: Vec::new(), head: None }
    }
}

/// A peer's sentence is shown to users as it is, however long: no honest one is longer.
const MAX_TEXT_BYTES: usize = 8 << 10;

/// Control characters are shown as `\xNN` for each byte, so that they count fourfold.
fn shortened(mut text: String) -> String {
    let mut shown_bytes = 0;
    let first_beyond = text.char_indices().find(|(_, character)| {
        shown_bytes += character.len_utf8() * if character.is_control() { 4 } else { 1 };
        shown_bytes > MAX_TEXT_BYTES
    });
    if let Some((end, _)) = first_beyond {
        text.truncate(end);
        text.push_str(" …");
    }
    text
}

impl Field for Failure {
    const LEAST_BYTES: usize = 12;

    fn write(&self, to: &mut Writer) {
        to.u16(self.kind as u16).text(&self.text);
        self.path.write(to);
        self.containers.write(to);
        self.head.write(to);
    }

    fn read(from: &mut Reader) -> Result<Self> {
        let number = from.u16()?;
        let kind = FailureKind::ALL.into_iter().find(|kind| *kind as u16 == number).unwrap_or(FailureKind::Io);
        Ok(Failure {
            kind,
            text: shortened(from.text()?),
            path: Field::read(from)?,
            containers: Field::read(from)?,
            head: Field::read(from)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_s_text_is_cut_at_a_length_that_can_be_shown() {
        for (character, shown_bytes) in [('é', 2), ('\u{1b}', 4), ('\u{85}', 8)] {
            let mut to = Writer::new();
            Failure::new(FailureKind::Io, character.to_string().repeat(10 << 20)).write(&mut to);
            let bytes = to.finish();
            let read = Failure::read(&mut Reader::new("failure", &bytes)).unwrap();
            let count = read.text.strip_suffix(" …").unwrap().chars().count();
            assert_eq!(count, MAX_TEXT_BYTES / shown_bytes, "{character:?}");
        }
    }
}
