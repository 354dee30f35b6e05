//! Streams of RPC records: where they begin and end, and what the calls and replies in them say.

use gate::rpc::call::Call;
use gate::rpc::nfs::lower_transfer;
use gate::rpc::operation::Operation;
use gate::rpc::record::{Extent, Malformed, Passed, Passing, extent, message};

/// As much of a message in several fragments as is looked at (bytes).
const MESSAGE_BYTES: usize = 4096;

pub fn rpc_records(bytes: &[u8]) {
    let piece = 1 + bytes.first().map_or(0, |first| usize::from(*first));
    let (whole, cut) = (passed(bytes, bytes.len().max(1)), passed(bytes, piece));
    assert_eq!(whole, cut, "the ends of records depend on how the stream is cut");
    let mut at = 0;
    let mut lengths = Vec::new();
    while let Ok(Extent::Whole(length)) = extent(&bytes[at..]) {
        let Some(record) = bytes[at..].get(..length) else { break };
        one(record);
        lengths.push(length);
        at += length;
    }
    assert!(lengths.iter().eq(whole.0.iter().map(|passed| &passed.bytes)), "two ways to find the ends disagree");
}

fn passed(bytes: &[u8], piece: usize) -> (Vec<Passed>, Option<Malformed>) {
    let (mut passing, mut found) = (Passing::default(), Vec::new());
    let wrong = bytes.chunks(piece).find_map(|bytes| passing.follow(bytes, |passed| found.push(passed)).err());
    (found, wrong)
}

fn one(record: &[u8]) {
    let message = message(record, MESSAGE_BYTES);
    if let Some(call) = Call::decode(&message) {
        let _ = Operation::of(&call);
    }
    let mut lowered = record.to_vec();
    lower_transfer(&mut lowered, 65_536);
    let changed = record.iter().zip(&lowered).filter(|(before, after)| before != after).count();
    assert!(changed <= 16, "{changed} bytes changed");
}
