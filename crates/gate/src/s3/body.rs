//! Where a body ends. Only lengths are read; the content, also `aws-chunked` signatures, is passed unread.

use crate::s3::chunks::Chunks;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// So many bytes are still to come.
    Length(u64),
    Chunked(Chunks),
    /// All that comes until the connection ends: also what we do not understand, which is the other side's to judge.
    Rest,
}

impl Body {
    pub const NONE: Body = Body::Length(0);

    pub fn is_over(&self) -> bool {
        match self {
            Body::Length(left) => *left == 0,
            Body::Chunked(chunks) => chunks.is_over(),
            Body::Rest => false,
        }
    }

    /// Returns the bytes that will certainly come, if the sender keeps its word.
    pub fn declared(&self) -> Option<u64> {
        match self {
            Body::Length(left) => Some(*left),
            Body::Chunked(_) | Body::Rest => None,
        }
    }

    /// Returns how many of these bytes belong to the body; the rest is the next message.
    pub fn advance(&mut self, bytes: &[u8]) -> usize {
        match self {
            Body::Length(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= taken as u64;
                taken
            }
            Body::Chunked(chunks) => match chunks.advance(bytes) {
                Some(taken) => taken,
                None => {
                    *self = Body::Rest;
                    bytes.len()
                }
            },
            Body::Rest => bytes.len(),
        }
    }
}
