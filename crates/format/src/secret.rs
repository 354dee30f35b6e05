//! The secret that a node and its clients share, and how each proves to the other that it has it.
//!
//! The secret itself is never sent. Both ends choose a nonce, and each sends a tag over both nonces, its own role, the
//! protocol and the client's Hello: an overheard tag is valid on no other connection and in no other direction.

use std::fmt;

use crate::{PROTOCOL, Result, corrupt};

pub const SECRET_BYTES: usize = 32;
/// BLAKE3's key derivation keeps these tags apart from all other uses of the same bytes.
const CONTEXT: &str = "thalweg node secret v0";

/// Bytes that only one end could have chosen, fresh for each connection.
pub type Nonce = [u8; 32];

/// 32 random bytes, written as 64 hexadecimal digits.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret {
    key: [u8; 32],
}

/// The end whose proof a tag is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    Client,
    Node,
}

impl Secret {
    pub fn new(bytes: &[u8; SECRET_BYTES]) -> Self {
        Secret { key: blake3::derive_key(CONTEXT, bytes) }
    }

    /// Parses the text of a secret file: 64 hexadecimal digits, and white space around them.
    pub fn from_text(text: &str) -> Result<Self> {
        let text = text.trim().as_bytes();
        let mut bytes = [0; SECRET_BYTES];
        if text.len() != 2 * SECRET_BYTES || !text.iter().all(u8::is_ascii_hexdigit) {
            // The text found is not repeated: it may be another secret.
            return corrupt("secret", "64 hexadecimal digits are expected, as `thalweg secret` writes them");
        }
        for (byte, digits) in bytes.iter_mut().zip(text.chunks(2)) {
            let value = |digit: u8| (digit as char).to_digit(16).expect("only digits are left") as u8;
            *byte = value(digits[0]) << 4 | value(digits[1]);
        }
        Ok(Self::new(&bytes))
    }

    /// Returns the text of a secret file.
    pub fn text_of(bytes: &[u8; SECRET_BYTES]) -> String {
        let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        digits + "\n"
    }

    /// Returns the tag by which `role` proves the secret. `hello` is the body of the connection's Hello.
    pub fn proof(&self, role: Role, of_node: &Nonce, of_client: &Nonce, hello: &[u8]) -> [u8; 32] {
        *self.tag(role, of_node, of_client, hello).as_bytes()
    }

    /// Returns whether `proof` is the tag of `role`; takes the same time wherever they differ.
    pub fn proves(&self, proof: &[u8; 32], role: Role, of_node: &Nonce, of_client: &Nonce, hello: &[u8]) -> bool {
        self.tag(role, of_node, of_client, hello) == blake3::Hash::from_bytes(*proof)
    }

    fn tag(&self, role: Role, of_node: &Nonce, of_client: &Nonce, hello: &[u8]) -> blake3::Hash {
        let role = match role {
            Role::Client => 1,
            Role::Node => 2,
        };
        let mut hasher = blake3::Hasher::new_keyed(&self.key);
        hasher.update(&[role, PROTOCOL]).update(of_node).update(of_client).update(hello);
        hasher.finalize()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_holds_for_one_role_one_pair_of_nonces_and_one_hello() {
        let secret = Secret::new(&[7; 32]);
        let proof = secret.proof(Role::Client, &[1; 32], &[2; 32], b"hello");
        assert!(secret.proves(&proof, Role::Client, &[1; 32], &[2; 32], b"hello"));
        assert!(!secret.proves(&proof, Role::Node, &[1; 32], &[2; 32], b"hello"));
        assert!(!secret.proves(&proof, Role::Client, &[2; 32], &[1; 32], b"hello"));
        assert!(!secret.proves(&proof, Role::Client, &[1; 32], &[2; 32], b"hallo"));
        assert!(!Secret::new(&[8; 32]).proves(&proof, Role::Client, &[1; 32], &[2; 32], b"hello"));
    }

    #[test]
    fn secrets_are_64_digits_and_are_not_repeated_in_errors() {
        let text = Secret::text_of(&[0xab; 32]);
        assert_eq!(Secret::from_text(&text).unwrap(), Secret::new(&[0xab; 32]));
        assert!(!format!("{:?}", Secret::new(&[0xab; 32])).contains("ab"));
        let short = &text[..62];
        for text in ["", "password", short, &format!("{short}xy"), &format!("{}00", text.trim())] {
            let error = Secret::from_text(text).unwrap_err().to_string();
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }
}
