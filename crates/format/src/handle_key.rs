//! The key of a handle: the capability a client needs to use a path's session.
//!
//! Sessions are numbered one after the other, so their numbers are no secret. The client that opens a path makes a key
//! for its handle, and gives it only to processes that use the file with it. The catalog keeps a digest of the key:
//! keys are looked up by their digests, so that neither the catalog's content nor the time of a look-up reveals them.

use std::fmt;

/// BLAKE3's key derivation keeps these digests apart from all other uses of the same bytes.
const CONTEXT: &str = "thalweg handle key v0";

/// 16 bytes that only the opener could have chosen.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HandleKey(pub [u8; HandleKey::BYTES]);

impl HandleKey {
    pub const BYTES: usize = 16;

    /// Returns the digest that the catalog keeps.
    pub fn digest(&self) -> [u8; 32] {
        blake3::derive_key(CONTEXT, &self.0)
    }

    /// Returns whether the key was never chosen: a client that forgot to would open its handle to every client.
    pub fn is_empty(&self) -> bool {
        self.0 == [0; HandleKey::BYTES]
    }
}

impl fmt::Debug for HandleKey {
    /// Keys do not belong in logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HandleKey(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_not_shown_and_its_digest_does_not_hold_it() {
        let key = HandleKey(*b"sixteen letters!");
        assert_eq!(format!("{key:?}"), "HandleKey(…)");
        assert!(!key.digest().windows(4).any(|part| key.0.windows(4).any(|of_key| of_key == part)));
        assert_ne!(key.digest(), HandleKey(*b"sixteen letters?").digest());
    }
}
