mod codec;
mod cut;
mod error;
pub use cut::*;
pub use error::{Error, Result};
pub mod try_it {
    use super::*;
    pub fn enc(c: policy::Compression, raw: &[u8]) -> usize { codec::encoded_bytes(c, raw) }
    pub fn full(c: policy::Compression, raw: &[u8]) -> Option<Vec<u8>> { codec::encode(c, raw) }
    pub fn dec(c: format::CodecId, raw: &[u8], n: usize) -> Vec<u8> { codec::decode(c, raw, n).unwrap() }
}
