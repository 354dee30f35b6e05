//! Converts errors of store and catalog to failures on the wire, and back.
//!
//! A failure's text is the error's whole sentence. Back at the client the same kind of error says the same sentence
//! again, so the parts are cut out of it where the kind has a fixed wording; the tests hold both ends together.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Mutex, PoisonError};

use format::{SessionId, StorePath};

use crate::Error;
use crate::message::{Failure, FailureKind};

impl From<format::Error> for Failure {
    fn from(error: format::Error) -> Self {
        let kind = match error {
            format::Error::TooNew { .. } | format::Error::OtherProtocol { .. } => FailureKind::TooNew,
            format::Error::Truncated { .. } | format::Error::Corrupt { .. } | format::Error::Stranger { .. } => {
                FailureKind::Corrupt
            }
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Self {
        let kind = match error {
            store::Error::Format(source) => return source.into(),
            store::Error::NotFound { .. } => FailureKind::NotFound,
            store::Error::Corrupt { .. } => FailureKind::Corrupt,
            store::Error::Full { .. } => FailureKind::Full,
            store::Error::Unavailable { .. } => FailureKind::Unavailable,
            store::Error::Io { .. } | store::Error::Poisoned { .. } => FailureKind::Io,
        };
        Failure::new(kind, error.to_string())
    }
}

impl From<catalog::Error> for Failure {
    fn from(error: catalog::Error) -> Self {
        use catalog::Error::*;
        let text = error.to_string();
        match error {
            NotFound { path } => about(path, Failure::new(FailureKind::NotFound, text)),
            Refused { path, .. } => about(path, Failure::new(FailureKind::Refused, text)),
            NotLive { containers } => Failure { containers, ..Failure::new(FailureKind::NotLive, text) },
            HeadMoved { path, head } => about(path, Failure { head, ..Failure::new(FailureKind::HeadMoved, text) }),
            LeaseLost { .. } => Failure::new(FailureKind::LeaseLost, text),
            StripeSetLost { .. } => Failure::new(FailureKind::StripeSetLost, text),
            TooNew { .. } | TooOld { .. } => Failure::new(FailureKind::TooNew, text),
            Corrupt { .. } => Failure::new(FailureKind::Corrupt, text),
            Full { .. } => Failure::new(FailureKind::Full, text),
            Io { .. } | ReadOnly { .. } => Failure::new(FailureKind::Io, text),
            Unavailable { .. } => Failure::new(FailureKind::Unavailable, text),
        }
    }
}

fn about(path: StorePath, failure: Failure) -> Failure {
    Failure { path: Some(path), ..failure }
}

/// Returns the store error for a request to `peer` that ended like this.
pub fn store_error(error: Error, peer: &str) -> store::Error {
    let peer = peer.to_owned();
    match error {
        Error::Unavailable { peer, why } => store::Error::Unavailable { peer, why },
        Error::Protocol { peer, source } => store::Error::Unavailable { peer, why: source.to_string() },
        Error::Refused(text) => store::Error::Io { path: peer, source: io::Error::other(text) },
        Error::Failed(Failure { kind, text, .. }) => match kind {
            FailureKind::NotFound => store::Error::NotFound { what: before(&text, " is not in the store") },
            FailureKind::Corrupt => {
                damaged(&text).unwrap_or(store::Error::Corrupt { path: peer, offset: 0, why: text })
            }
            FailureKind::Full => store::Error::Full { path: before(&text, ": the disk is full") },
            FailureKind::Unavailable => store::Error::Unavailable { peer, why: text },
            _ => store::Error::Io { path: peer, source: io::Error::other(text) },
        },
    }
}

/// Returns the catalog error for a request to `peer`, for this session if any, that ended like this.
pub fn catalog_error(error: Error, peer: &str, session: SessionId) -> catalog::Error {
    let peer = peer.to_owned();
    match error {
        Error::Unavailable { peer, why } => catalog::Error::Unavailable { peer, why },
        Error::Protocol { peer, source } => catalog::Error::Unavailable { peer, why: source.to_string() },
        Error::Refused(why) => catalog::Error::Io { path: peer, why },
        Error::Failed(Failure { kind, text, path, containers, head }) => match (kind, path) {
            (FailureKind::NotFound, Some(path)) => catalog::Error::NotFound { path },
            (FailureKind::Refused, Some(path)) => {
                let said = format!("{path}: ");
                catalog::Error::Refused { path, why: lasting(text.strip_prefix(&said).unwrap_or(&text)) }
            }
            (FailureKind::HeadMoved, Some(path)) => catalog::Error::HeadMoved { path, head },
            (FailureKind::NotLive, _) => catalog::Error::NotLive { containers },
            (FailureKind::LeaseLost, _) => catalog::Error::LeaseLost { session },
            (FailureKind::Corrupt, _) => catalog::Error::Corrupt { path: peer, why: text },
            (FailureKind::Full, _) => catalog::Error::Full { path: before(&text, ": the disk is full") },
            (FailureKind::Unavailable, _) => catalog::Error::Unavailable { peer, why: text },
            _ => catalog::Error::Io { path: peer, why: text },
        },
    }
}

/// Returns the text up to the wording that the error adds itself.
fn before(text: &str, wording: &str) -> String {
    text.split_once(wording).map_or(text, |(head, _)| head).to_owned()
}

/// Parses the sentence of [`store::Error::Corrupt`].
fn damaged(text: &str) -> Option<store::Error> {
    let (path, rest) = text.split_once(" is damaged at byte ")?;
    let (offset, rest) = rest.split_once(": ")?;
    let offset = offset.parse().ok()?;
    let why = rest.split_once("; `thalweg verify").map_or(rest, |(why, _)| why);
    Some(store::Error::Corrupt { path: path.to_owned(), offset, why: why.to_owned() })
}

fn lasting(why: &str) -> &'static str {
    static KNOWN: Mutex<Reasons> = Mutex::new(Reasons(BTreeSet::new()));
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner).lasting(why)
}

/// [`catalog::Error::Refused`] holds sentences of the program's own text, of which there are a dozen or two. Those
/// received from nodes are kept for good, each once, and no more than one of our nodes could ever send.
struct Reasons(BTreeSet<&'static str>);

impl Reasons {
    const MOST: usize = 64;
    const LONGEST_BYTES: usize = 300;

    fn lasting(&mut self, why: &str) -> &'static str {
        if let Some(sentence) = self.0.get(why) {
            return sentence;
        }
        if self.0.len() >= Self::MOST || why.len() > Self::LONGEST_BYTES {
            return "the node refused it";
        }
        let sentence: &'static str = Box::leak(why.into());
        self.0.insert(sentence);
        sentence
    }
}

#[cfg(test)]
mod tests {
    use format::{ContainerId, FileId, VersionId};

    use super::*;

    const PEER: &str = "node:7420";

    #[test]
    fn store_errors_say_the_same_at_the_client() {
        let errors = [
            store::Error::NotFound { what: "segment 5:7".into() },
            store::Error::Corrupt { path: "/st/c/5".into(), offset: 77, why: "the magic: it is gone".into() },
            store::Error::Full { path: "/st/c/5".into() },
        ];
        for error in errors {
            let (said, kind) = (error.to_string(), std::mem::discriminant(&error));
            let back = store_error(Error::Failed(error.into()), PEER);
            assert_eq!((back.to_string(), std::mem::discriminant(&back)), (said, kind));
        }
    }

    #[test]
    fn other_store_errors_keep_their_sentence_and_name_the_node() {
        let io = store::Error::Io { path: "/st".into(), source: io::Error::other("odd") };
        let poisoned = store::Error::Poisoned { why: "fsync failed".into() };
        let unavailable = store::Error::Unavailable { peer: "s3".into(), why: "no route".into() };
        let damaged = store::Error::Format(format::Error::Truncated { what: "part", needed: 2, found: 1 });
        for error in [io, poisoned, unavailable, damaged] {
            let said = error.to_string();
            let back = store_error(Error::Failed(error.into()), PEER).to_string();
            assert!(back.contains(&said) && back.contains(PEER), "{back}");
        }
    }

    #[test]
    fn catalog_errors_come_back_as_they_were() {
        let path = StorePath::new(b"run1/\xff.dat").unwrap();
        let session = SessionId(4);
        let errors = [
            catalog::Error::NotFound { path: path.clone() },
            catalog::Error::Refused { path: path.clone(), why: "is a directory" },
            catalog::Error::NotLive { containers: vec![ContainerId(3), ContainerId(9)] },
            catalog::Error::HeadMoved { path: path.clone(), head: Some(VersionId { file: FileId(3), number: 8 }) },
            catalog::Error::HeadMoved { path, head: None },
            catalog::Error::LeaseLost { session },
            catalog::Error::Full { path: "/st/catalog".into() },
        ];
        for error in errors {
            let known = format!("{error:?}");
            assert_eq!(format!("{:?}", catalog_error(Error::Failed(error.into()), PEER, session)), known);
        }
    }

    #[test]
    fn reasons_from_afar_are_kept_once_and_not_without_bound() {
        let mut reasons = Reasons(BTreeSet::new());
        assert!(std::ptr::eq(reasons.lasting("a reason"), reasons.lasting("a reason")));
        for number in 0..1000 {
            reasons.lasting(&format!("reason {number}"));
        }
        assert_eq!(reasons.lasting("one reason more"), "the node refused it");
    }
}
