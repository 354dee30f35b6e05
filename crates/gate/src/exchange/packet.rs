//! One packet of the exchange, as bytes (docs/format.md, *Exchange packets*).
//!
//! Applications are named by 8 bytes of a hash and counters are cumulative, so that a packet stands alone: it may be
//! lost, doubled or late. A packet may be damaged or forged: decoding returns an error, and trusts only what the length
//! at hand justifies.

use std::fmt;

use format::ErrorCode;

/// The most a packet may have: it must pass any link in one piece.
pub const MAX_BYTES: usize = 1400;
/// The most entries a packet may have, with or without a tag.
pub const MAX_ENTRIES: usize = (MAX_BYTES - HEADER_BYTES - TAG_BYTES) / ENTRY_BYTES;

const MAGIC: [u8; 4] = *b"TWGX";
const VERSION: u8 = 0;
const TAGGED: u8 = 1;
const HEADER_BYTES: usize = 24;
/// The bytes that an entry adds to a packet.
pub const ENTRY_BYTES: usize = 16;
const TAG_BYTES: usize = 16;
/// Separates this use of a secret from any other.
const CONTEXT: &str = "thalweg gate exchange v0";

/// A gate process's random number; another after each start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GateId(pub u64);

/// The first 8 bytes of BLAKE3 of an application's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NameHash(pub u64);

impl NameHash {
    pub fn of(name: &str) -> Self {
        let hash = blake3::hash(name.as_bytes());
        NameHash(u64_at(hash.as_bytes(), 0))
    }
}

/// The bytes that an application was charged at all servers of a gate since the gate started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub application: NameHash,
    pub charged_bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub gate: GateId,
    /// Counts a gate's packets, from 1.
    pub sequence: u64,
    /// At most [`MAX_ENTRIES`].
    pub entries: Vec<Entry>,
}

/// A secret that gates share, so that strangers cannot speak for them.
#[derive(Clone)]
pub struct Key([u8; 32]);

impl Key {
    /// From what stands in the configuration, of any length.
    pub fn from_secret(secret: &str) -> Self {
        Key(blake3::derive_key(CONTEXT, secret.as_bytes()))
    }

    fn tag(&self, signed: &[u8]) -> [u8; TAG_BYTES] {
        let mac = blake3::keyed_hash(&self.0, signed);
        let mut tag = [0; TAG_BYTES];
        tag.copy_from_slice(&mac.as_bytes()[..TAG_BYTES]);
        tag
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Why a packet was not believed. The text says what to do where something can be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    #[error("not a packet of the exchange")]
    Foreign,
    #[error("a packet of a newer version: update this gate")]
    TooNew,
    #[error("a damaged packet")]
    Malformed,
    #[error("a packet without a tag: give all gates the same `key` in [exchange]")]
    Untagged,
    #[error("a packet with a tag, but this gate has no `key` in [exchange]")]
    Unexpected,
    #[error("a packet whose tag is wrong: give all gates the same `key` in [exchange]")]
    Forged,
    #[error("a packet from an address that is no peer's")]
    Stranger,
    #[error("more gates or applications than this gate keeps count of")]
    TooMany,
}

impl Refusal {
    pub fn code(self) -> ErrorCode {
        match self {
            Refusal::Foreign | Refusal::Malformed | Refusal::Stranger => ErrorCode::GatePacketForeign,
            Refusal::TooNew => ErrorCode::TooNew,
            Refusal::Untagged | Refusal::Unexpected | Refusal::Forged => ErrorCode::GateKeysDiffer,
            Refusal::TooMany => ErrorCode::GateExchangeFull,
        }
    }
}

impl Packet {
    pub fn encode(&self, key: Option<&Key>) -> Vec<u8> {
        assert!(self.entries.len() <= MAX_ENTRIES, "{} entries do not fit a packet", self.entries.len());
        let mut bytes = Vec::with_capacity(bytes_of(self.entries.len(), key.is_some()));
        bytes.extend(MAGIC);
        bytes.extend([VERSION, if key.is_some() { TAGGED } else { 0 }]);
        bytes.extend((self.entries.len() as u16).to_le_bytes());
        bytes.extend(self.gate.0.to_le_bytes());
        bytes.extend(self.sequence.to_le_bytes());
        for entry in &self.entries {
            bytes.extend(entry.application.0.to_le_bytes());
            bytes.extend(entry.charged_bytes.to_le_bytes());
        }
        if let Some(key) = key {
            bytes.extend(key.tag(&bytes));
        }
        bytes
    }

    pub fn decode(bytes: &[u8], key: Option<&Key>) -> Result<Packet, Refusal> {
        if bytes.len() < HEADER_BYTES || bytes[..4] != MAGIC {
            return Err(Refusal::Foreign);
        }
        if bytes[4] > VERSION {
            return Err(Refusal::TooNew);
        }
        let (signed, tag) = split(bytes)?;
        check(signed, tag, key)?;
        let entries = signed[HEADER_BYTES..].chunks_exact(ENTRY_BYTES);
        let entries =
            entries.map(|entry| Entry { application: NameHash(u64_at(entry, 0)), charged_bytes: u64_at(entry, 8) });
        Ok(Packet { gate: GateId(u64_at(signed, 8)), sequence: u64_at(signed, 16), entries: entries.collect() })
    }
}

/// Returns the length of a packet with so many entries.
pub fn bytes_of(entries: usize, is_tagged: bool) -> usize {
    HEADER_BYTES + entries * ENTRY_BYTES + if is_tagged { TAG_BYTES } else { 0 }
}

/// Returns the header and entries, and the tag if there is one; together they are all there is.
fn split(bytes: &[u8]) -> Result<(&[u8], Option<&[u8]>), Refusal> {
    let tagged = match bytes[5] {
        0 => false,
        TAGGED => true,
        _ => return Err(Refusal::Malformed),
    };
    let entries = u16::from_le_bytes([bytes[6], bytes[7]]) as usize;
    let signed_bytes = bytes_of(entries, false);
    if entries > MAX_ENTRIES || bytes.len() != bytes_of(entries, tagged) {
        return Err(Refusal::Malformed);
    }
    let (signed, tag) = bytes.split_at(signed_bytes);
    Ok((signed, tagged.then_some(tag)))
}

fn check(signed: &[u8], tag: Option<&[u8]>, key: Option<&Key>) -> Result<(), Refusal> {
    match (key, tag) {
        (None, None) => Ok(()),
        (None, Some(_)) => Err(Refusal::Unexpected),
        (Some(_), None) => Err(Refusal::Untagged),
        (Some(key), Some(tag)) if same(&key.tag(signed), tag) => Ok(()),
        (Some(_), Some(_)) => Err(Refusal::Forged),
    }
}

/// Compares in constant time: the time taken does not reveal where the first difference is.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("a slice of 8 bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(entries: usize) -> Packet {
        let entry = |n: usize| Entry { application: NameHash(n as u64 * 7), charged_bytes: u64::MAX - n as u64 };
        Packet { gate: GateId(0x0102_0304_0506_0708), sequence: 9, entries: (0..entries).map(entry).collect() }
    }

    #[test]
    fn packets_come_back_as_they_went() {
        let key = Key::from_secret("river");
        for entries in [0, 1, 2, MAX_ENTRIES] {
            for key in [None, Some(&key)] {
                let packet = sample(entries);
                let bytes = packet.encode(key);
                assert!(bytes.len() <= MAX_BYTES);
                assert_eq!(Packet::decode(&bytes, key), Ok(packet));
            }
        }
    }

    #[test]
    fn every_length_but_the_right_one_is_refused() {
        let bytes = sample(3).encode(None);
        for length in 0..bytes.len() {
            assert!(Packet::decode(&bytes[..length], None).is_err(), "{length} bytes were believed");
        }
        let longer = [bytes.as_slice(), &[0]].concat();
        assert_eq!(Packet::decode(&longer, None), Err(Refusal::Malformed));
    }

    #[test]
    fn a_count_beyond_a_packet_is_refused_before_memory_is_asked_for() {
        let mut bytes = sample(1).encode(None);
        bytes[6..8].copy_from_slice(&u16::MAX.to_le_bytes());
        assert_eq!(Packet::decode(&bytes, None), Err(Refusal::Malformed));
    }

    #[test]
    fn a_newer_version_is_distinguished_from_damage() {
        let mut bytes = sample(1).encode(None);
        bytes[4] = 1;
        assert_eq!(Packet::decode(&bytes, None), Err(Refusal::TooNew));
    }

    #[test]
    fn with_a_key_any_changed_byte_is_noticed() {
        let key = Key::from_secret("river");
        let bytes = sample(2).encode(Some(&key));
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            assert!(Packet::decode(&changed, Some(&key)).is_err(), "byte {at} was changed unnoticed");
        }
    }

    #[test]
    fn strangers_and_forgetful_peers_are_distinguished() {
        let (ours, theirs) = (Key::from_secret("river"), Key::from_secret("lake"));
        let packet = sample(2);
        assert_eq!(Packet::decode(&packet.encode(Some(&theirs)), Some(&ours)), Err(Refusal::Forged));
        assert_eq!(Packet::decode(&packet.encode(None), Some(&ours)), Err(Refusal::Untagged));
        assert_eq!(Packet::decode(&packet.encode(Some(&theirs)), None), Err(Refusal::Unexpected));
    }
}
