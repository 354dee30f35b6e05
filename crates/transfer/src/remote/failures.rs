//! Converts errors of store and catalog to failures on the wire, and back.
//!
//! A failure's text is the error's whole sentence; its other fields are the parts of which the client makes the same
//! error again. Nothing is cut out of the text.

use format::{SessionId, StorePath};

use crate::Error;
use crate::message::{Failure, FailureKind, Subject};

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
        use store::Error::*;
        let text = error.to_string();
        match error {
            Format(source) => source.into(),
            NotFound { what } => at(what, Failure::new(FailureKind::NotFound, text)),
            Corrupt { path, offset, why } => {
                let subject = Some(Box::new(Subject { name: path, offset, damage: why }));
                Failure { subject, ..Failure::new(FailureKind::Corrupt, text) }
            }
            Full { path } => at(path, Failure::new(FailureKind::Full, text)),
            Unavailable { .. } => Failure::new(FailureKind::Unavailable, text),
            Io { .. } | Node { .. } | Failed { .. } | Replaced { .. } => Failure::new(FailureKind::Io, text),
        }
    }
}

impl From<catalog::Error> for Failure {
    fn from(error: catalog::Error) -> Self {
        use catalog::Error::*;
        let text = error.to_string();
        match error {
            NotFound { path } => about(path, Failure::new(FailureKind::NotFound, text)),
            Refused { path, why } => {
                about(path, Failure { refusal: Some(why), ..Failure::new(FailureKind::Refused, text) })
            }
            NotLive { containers } => Failure { containers, ..Failure::new(FailureKind::NotLive, text) },
            HeadMoved { path, head } => about(path, Failure { head, ..Failure::new(FailureKind::HeadMoved, text) }),
            LeaseLost { .. } => Failure::new(FailureKind::LeaseLost, text),
            StripeSetLost { .. } => Failure::new(FailureKind::StripeSetLost, text),
            TooNew { .. } | TooOld { .. } => Failure::new(FailureKind::TooNew, text),
            Corrupt { .. } => Failure::new(FailureKind::Corrupt, text),
            Full { path } => at(path, Failure::new(FailureKind::Full, text)),
            Io { .. } | Node { .. } | ReadOnly { .. } | Replaced { .. } => Failure::new(FailureKind::Io, text),
            Unavailable { .. } => Failure::new(FailureKind::Unavailable, text),
        }
    }
}

fn about(path: StorePath, failure: Failure) -> Failure {
    Failure { path: Some(path), ..failure }
}

fn at(name: String, failure: Failure) -> Failure {
    Failure { subject: Some(Box::new(Subject { name, offset: 0, damage: String::new() })), ..failure }
}

/// Returns the store error for a request to `peer` that ended like this.
pub fn store_error(error: Error, peer: &str) -> store::Error {
    let peer = peer.to_owned();
    match error {
        Error::Unavailable { peer, why } => store::Error::Unavailable { peer, why },
        Error::Protocol { peer, source } => store::Error::Unavailable { peer, why: source.to_string() },
        Error::Replaced { peer } => store::Error::Replaced { peer },
        Error::Refused(code, why) => store::Error::Node { peer, why, code },
        Error::Failed(failure) => match failure.kind {
            FailureKind::NotFound => store::Error::NotFound { what: subject(failure) },
            FailureKind::Corrupt => match failure.subject {
                Some(subject) => {
                    store::Error::Corrupt { path: subject.name, offset: subject.offset, why: subject.damage }
                }
                None => store::Error::Corrupt { path: peer, offset: 0, why: failure.text },
            },
            FailureKind::Full => store::Error::Full { path: subject(failure) },
            FailureKind::Unavailable => store::Error::Unavailable { peer, why: failure.text },
            _ => store::Error::Node { peer, code: failure.code(), why: failure.text },
        },
    }
}

/// Returns the catalog error for a request to `peer`, for this session if any, that ended like this.
pub fn catalog_error(error: Error, peer: &str, session: SessionId) -> catalog::Error {
    let peer = peer.to_owned();
    match error {
        Error::Unavailable { peer, why } => catalog::Error::Unavailable { peer, why },
        Error::Protocol { peer, source } => catalog::Error::Unavailable { peer, why: source.to_string() },
        Error::Replaced { peer } => catalog::Error::Replaced { peer },
        Error::Refused(code, why) => catalog::Error::Node { peer, why, code },
        Error::Failed(failure) => failed(failure, peer, session),
    }
}

fn failed(mut failure: Failure, peer: String, session: SessionId) -> catalog::Error {
    match (failure.kind, failure.path.take(), failure.refusal) {
        (FailureKind::NotFound, Some(path), _) => catalog::Error::NotFound { path },
        (FailureKind::Refused, Some(path), Some(why)) => catalog::Error::Refused { path, why },
        (FailureKind::HeadMoved, Some(path), _) => catalog::Error::HeadMoved { path, head: failure.head },
        (FailureKind::NotLive, ..) => catalog::Error::NotLive { containers: failure.containers },
        (FailureKind::LeaseLost, ..) => catalog::Error::LeaseLost { session },
        (FailureKind::Corrupt, ..) => catalog::Error::Corrupt { path: peer, why: failure.text },
        (FailureKind::Full, ..) => catalog::Error::Full { path: subject(failure) },
        (FailureKind::Unavailable, ..) => catalog::Error::Unavailable { peer, why: failure.text },
        _ => catalog::Error::Node { peer, code: failure.code(), why: failure.text },
    }
}

/// Returns what the failure is about at the node; the whole sentence where it names nothing.
fn subject(failure: Failure) -> String {
    failure.subject.map_or(failure.text, |subject| subject.name)
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
            // Names with the sentences' own words in them.
            store::Error::Full { path: "/st/x: the disk is full of it/5".into() },
            store::Error::Corrupt {
                path: "/a is damaged at byte 3: /5".into(),
                offset: 7,
                why: "; `thalweg verify".into(),
            },
        ];
        for error in errors {
            let (said, kind) = (error.to_string(), std::mem::discriminant(&error));
            let back = store_error(Error::Failed(error.into()), PEER);
            assert_eq!((back.to_string(), std::mem::discriminant(&back)), (said, kind));
        }
    }

    #[test]
    fn other_store_errors_keep_their_sentence_and_name_the_node() {
        let io = store::Error::Io { path: "/st".into(), source: std::io::Error::other("odd") };
        let failed = store::Error::Failed { why: "fsync failed".into() };
        let unavailable = store::Error::Unavailable { peer: "s3".into(), why: "no route".into() };
        let damaged = store::Error::Format(format::Error::Truncated { what: "part", needed: 2, found: 1 });
        for error in [io, failed, unavailable, damaged] {
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
            catalog::Error::Refused { path: path.clone(), why: catalog::Refusal::NotEmpty },
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
}
