//! The messages: one enum for clients' requests, one for nodes' replies.
//!
//! Each variant is a frame kind and a list of fields, written in the order they stand here (see `docs/format.md`).
//! Bulk bytes are not fields: they travel as the frame's payload.

mod extent;
mod failure;
mod field;
mod limits;
mod reply;
mod request;

pub use extent::Extent;
pub use failure::{Failure, FailureKind, Subject};
pub use field::{Field, StoredBlockHeader};
pub use limits::{
    MAX_CHANGES, MAX_COUNT, MAX_EXTENTS, MAX_FINGERPRINTS, MAX_JOB_FAILURES, MAX_LEASE_MS, MAX_LISTED, MAX_NAME_BYTES,
    MAX_NODES, MAX_STRIPE_BYTES,
};
pub use reply::{Reply, StoreStatistics};
pub use request::Request;

/// Defines an enum of messages: the check of its numbers; kind number, variant, fields. Generates `kind`, `encode` and
/// `decode`.
macro_rules! messages {
    ($(#[$enum_doc:meta])* $name:ident checked by $check:path {
        $($(#[$doc:meta])* $number:literal $variant:ident { $($field:ident: $type:ty),* $(,)? }),* $(,)?
    }) => {
        $(#[$enum_doc])*
        #[derive(Clone, Debug, PartialEq)]
        pub enum $name {
            $($(#[$doc])* $variant { $($field: $type),* }),*
        }

        impl $name {
            /// Returns the frame's kind.
            pub fn kind(&self) -> u16 {
                match self { $(Self::$variant { .. } => $number),* }
            }

            /// Returns the frame's body.
            pub fn encode(&self) -> Vec<u8> {
                #[allow(unused_mut)]
                let mut to = format::Writer::new();
                match self {
                    $(Self::$variant { $($field),* } => { $($crate::message::Field::write($field, &mut to);)* })*
                }
                to.finish()
            }

            /// Decodes a frame's message; all its numbers are within their limits.
            pub fn decode(kind: u16, body: &[u8]) -> format::Result<Self> {
                let mut from = format::Reader::new("message", body);
                let message = match kind {
                    $($number => Self::$variant { $($field: $crate::message::Field::read(&mut from)?),* },)*
                    _ => return from.refuse(format!("unknown kind {kind}; the peer is newer")),
                };
                from.end()?;
                $check(&message)?;
                Ok(message)
            }
        }
    };
}
pub(crate) use messages;
