//! NFS version 3 (RFC 1813): the calls that carry data, and the reply that says how much one may carry.

use super::call::Call;
use super::operation::Operation;
use super::record::{MARKER_BYTES, marker};
use super::xdr::Xdr;

const PROGRAM: u32 = 100_003;
const VERSION: u32 = 3;
const SETATTR: u32 = 2;
const READ: u32 = 6;
const WRITE: u32 = 7;
const FSINFO: u32 = 19;
const COMMIT: u32 = 21;

const MAX_HANDLE_BYTES: usize = 64;
const ATTRIBUTES_BYTES: usize = 84;
const MAX_VERIFIER_BYTES: usize = 400;

pub fn operation(call: &Call) -> Option<Operation> {
    if (call.program, call.version) != (PROGRAM, VERSION) {
        return None;
    }
    match call.procedure {
        READ => Some(Operation::Read { bytes: transfer_bytes(call.arguments)? }),
        WRITE => Some(Operation::Write { bytes: transfer_bytes(call.arguments)? }),
        SETATTR | COMMIT => Some(Operation::AfterWrites),
        FSINFO => Some(Operation::FileSystemInfo),
        _ => None,
    }
}

/// READ and WRITE both begin with the handle, the offset and the count.
fn transfer_bytes(arguments: &[u8]) -> Option<u64> {
    let mut xdr = Xdr::new(arguments);
    let (_handle, _offset) = (xdr.opaque(MAX_HANDLE_BYTES)?, xdr.fixed(8)?);
    xdr.word().map(u64::from)
}

/// Lowers what a server offers per READ and WRITE (rtmax, rtpref, wtmax, wtpref) in a whole FSINFO reply to `limit`
/// bytes. A reply that is cut into fragments, is an error, or is not understood stays as it is.
pub fn lower_transfer(record: &mut [u8], limit: u32) {
    let Some(at) = transfer_sizes(record) else { return };
    const LOWERED: [usize; 4] = [0, 4, 12, 16];
    for field in LOWERED {
        let word: &mut [u8; 4] = (&mut record[at + field..at + field + 4]).try_into().expect("four bytes");
        *word = u32::from_be_bytes(*word).min(limit).to_be_bytes();
    }
}

/// Returns where rtmax stands: rtmax, rtpref, rtmult, wtmax, wtpref, wtmult follow one another.
fn transfer_sizes(record: &[u8]) -> Option<usize> {
    const REPLY: u32 = 1;
    const SIZES_BYTES: usize = 24;
    let (head, message) = record.split_at_checked(MARKER_BYTES)?;
    if marker(head.try_into().ok()?) != (message.len(), true) {
        return None;
    }
    let mut xdr = Xdr::new(message);
    let (_xid, kind, accepted) = (xdr.word()?, xdr.word()?, xdr.word()?);
    let _verifier = (xdr.word()?, xdr.opaque(MAX_VERIFIER_BYTES)?);
    let (succeeded, status) = (xdr.word()?, xdr.word()?);
    if (kind, accepted, succeeded, status) != (REPLY, 0, 0, 0) {
        return None;
    }
    if xdr.word()? != 0 {
        xdr.fixed(ATTRIBUTES_BYTES)?;
    }
    let left = xdr.rest().len();
    (left >= SIZES_BYTES).then(|| record.len() - left)
}

#[cfg(test)]
mod tests {
    use super::super::record::{Extent, extent};
    use super::*;

    /// Returns the records that answer FSINFO in a server's bytes.
    fn recorded_offers() -> Vec<Vec<u8>> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/rpc/nfs_ganesha_4.3.replies");
        let queue = std::fs::read(path).expect(path);
        let (mut at, mut offers) = (0, Vec::new());
        while let Ok(Extent::Whole(bytes)) = extent(&queue[at..]) {
            let record = &queue[at..at + bytes];
            // It offers 64 MiB.
            if transfer_sizes(record).is_some_and(|at| record[at..].starts_with(&(64u32 << 20).to_be_bytes())) {
                offers.push(record.to_vec());
            }
            at += bytes;
        }
        offers
    }

    fn sizes(record: &[u8]) -> Vec<u32> {
        let at = transfer_sizes(record).expect("an offer");
        record[at..at + 24].chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn an_offer_is_lowered_and_nothing_else_changes() {
        let offers = recorded_offers();
        assert_eq!(offers.len(), 2, "one for each connection");
        let mut lowered = offers[0].clone();
        let before = sizes(&lowered);
        lower_transfer(&mut lowered, 1 << 17);
        assert_eq!(sizes(&lowered), [1 << 17, 1 << 17, before[2], 1 << 17, 1 << 17, before[5]]);
        let differing = lowered.iter().zip(&offers[0]).filter(|(a, b)| a != b).count();
        assert!(differing > 0 && differing <= 16);
        let mut same = offers[0].clone();
        lower_transfer(&mut same, u32::MAX);
        assert_eq!(same, offers[0]);
    }

    #[test]
    fn what_is_no_whole_offer_stays_as_it_is() {
        let offer = &recorded_offers()[0];
        for cut in 0..offer.len() {
            let mut part = offer[..cut].to_vec();
            lower_transfer(&mut part, 1);
            assert_eq!(part, offer[..cut]);
        }
        // A call, a refusal, an error of the server's, an error of the file system's.
        for word in [2, 3, 6, 7] {
            let mut other = offer.clone();
            other[4 * word + 3] ^= 1;
            let before = other.clone();
            lower_transfer(&mut other, 1);
            assert_eq!(other, before, "word {word}");
        }
    }
}
