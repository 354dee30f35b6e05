//! The repository's errors, as clients receive them.

use repository::Error;
use transfer::message::{Failure, FailureKind};

pub(super) fn of(error: Error) -> Failure {
    match error {
        Error::Store(error) => error.into(),
        Error::Catalog(error) => error.into(),
        Error::Damaged { .. } | Error::LostManifests(_) | Error::Segment(_) | Error::Format(_) => {
            Failure::new(FailureKind::Corrupt, error.to_string())
        }
        Error::NoStore { .. } => Failure::new(FailureKind::NotFound, error.to_string()),
        Error::Refused { .. } => Failure::new(FailureKind::Refused, error.to_string()),
        Error::Dropped(_) => Failure::new(FailureKind::DataDropped, error.to_string()),
        Error::NoRoom(_) => Failure::new(FailureKind::Full, error.to_string()),
        Error::Io { .. } if error.is_full() => Failure::new(FailureKind::Full, error.to_string()),
        Error::Io { .. } | Error::Failed(_) => Failure::new(FailureKind::Io, error.to_string()),
    }
}
