//! The head of a call (RFC 5531, section 9): which procedure, and on whose behalf.

use super::xdr::Xdr;

const CALL: u32 = 0;
const RPC_VERSION: u32 = 2;
/// RFC 5531, section 8.2.
const MAX_AUTH_BYTES: usize = 400;
const MAX_MACHINE_NAME_BYTES: usize = 255;

const AUTH_SYS: u32 = 1;
/// GlusterFS, rpc/rpc-lib/src/rpcsvc.h; the numbers also stand in recorded traffic, testdata/rpc.
const AUTH_GLUSTERFS: u32 = 5;
const AUTH_GLUSTERFS_V2: u32 = 390_039;
const AUTH_GLUSTERFS_V3: u32 = 390_040;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    pub xid: u32,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub caller: Caller,
    /// The arguments, from their first byte; maybe cut off.
    pub arguments: &'a [u8],
}

/// The caller, where the credentials name it in the clear: none with AUTH_NONE and RPCSEC_GSS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Caller {
    pub uid: Option<u32>,
    pub gid: Option<u32>,
}

impl<'a> Call<'a> {
    /// None when this is no call of RPC version 2 or ends within its head; the server says what it thinks of it.
    pub fn decode(message: &'a [u8]) -> Option<Self> {
        let mut xdr = Xdr::new(message);
        let xid = xdr.word()?;
        if (xdr.word()?, xdr.word()?) != (CALL, RPC_VERSION) {
            return None;
        }
        let (program, version, procedure) = (xdr.word()?, xdr.word()?, xdr.word()?);
        let flavor = xdr.word()?;
        let caller = caller(flavor, xdr.opaque(MAX_AUTH_BYTES)?).unwrap_or_default();
        let _verifier = (xdr.word()?, xdr.opaque(MAX_AUTH_BYTES)?);
        Some(Call { xid, program, version, procedure, caller, arguments: xdr.rest() })
    }
}

fn caller(flavor: u32, body: &[u8]) -> Option<Caller> {
    let mut xdr = Xdr::new(body);
    match flavor {
        AUTH_SYS => {
            let (_stamp, _machine) = (xdr.word()?, xdr.opaque(MAX_MACHINE_NAME_BYTES)?);
        }
        // The first version has the lock owner (8 bytes) before the process id, the others have it last.
        AUTH_GLUSTERFS => {
            let (_lock_owner, _process) = (xdr.fixed(8)?, xdr.word()?);
        }
        AUTH_GLUSTERFS_V2 | AUTH_GLUSTERFS_V3 => {
            let _process = xdr.word()?;
        }
        _ => return None,
    }
    Some(Caller { uid: Some(xdr.word()?), gid: Some(xdr.word()?) })
}

#[cfg(test)]
mod tests {
    use super::super::operation::Operation;
    use super::super::record::{Extent, extent, message};
    use super::*;

    /// Returns the calls of a recorded connection: (program, version, procedure), caller, and meaning.
    fn recorded(name: &str) -> Vec<((u32, u32, u32), Caller, Operation)> {
        let path = format!("{}/../../testdata/rpc/{name}", env!("CARGO_MANIFEST_DIR"));
        let queue = std::fs::read(&path).expect(&path);
        let (mut at, mut calls) = (0, Vec::new());
        while let Ok(Extent::Whole(bytes)) = extent(&queue[at..]) {
            let message = message(&queue[at..at + bytes], 1 << 16);
            let call = Call::decode(&message).expect("a call");
            calls.push(((call.program, call.version, call.procedure), call.caller, Operation::of(&call)));
            at += bytes;
        }
        assert_eq!(at, queue.len());
        calls
    }

    fn caller(uid: u32, gid: u32) -> Caller {
        Caller { uid: Some(uid), gid: Some(gid) }
    }

    /// Returns the scheduled, attaching or ordered operations, in order.
    fn meaning(calls: &[((u32, u32, u32), Caller, Operation)]) -> Vec<Operation> {
        calls.iter().map(|(_, _, operation)| operation.clone()).filter(|other| *other != Operation::Other).collect()
    }

    #[test]
    fn calls_of_a_glusterfs_client_are_understood() {
        use Operation::{AfterWrites, Attach, Read, Write};
        let calls = recorded("gluster_10.3.calls");
        assert_eq!(calls.len(), 27);
        assert_eq!(calls[1], ((14_398_633, 2, 1), caller(0, 0), Attach { volume: "brick".into() }));
        let scheduled: Vec<_> =
            calls.iter().filter(|(_, _, operation)| matches!(operation, Read { .. } | Write { .. })).collect();
        assert!(scheduled.iter().all(|(_, who, _)| *who == caller(1234, 567)));
        let expected = [
            Attach { volume: "brick".into() },
            AfterWrites,
            Write { bytes: 600 },
            AfterWrites,
            AfterWrites,
            AfterWrites,
            AfterWrites,
            Read { bytes: 4096 },
            AfterWrites,
            AfterWrites,
            AfterWrites,
            Write { bytes: 512 },
            AfterWrites,
            AfterWrites,
        ];
        assert_eq!(meaning(&calls), expected);
    }

    #[test]
    fn calls_of_an_nfs_client_are_understood() {
        use Operation::{AfterWrites, FileSystemInfo, Read, Write};
        let calls = recorded("nfs_libnfs.calls");
        assert!(calls.iter().all(|((program, version, _), ..)| (*program, *version) == (100_003, 3)));
        let expected =
            [FileSystemInfo, AfterWrites, Write { bytes: 3000 }, AfterWrites, FileSystemInfo, Read { bytes: 3000 }];
        assert_eq!(meaning(&calls), expected);
        assert_eq!(calls.last().map(|(_, who, _)| *who), Some(caller(1234, 567)));
    }

    fn words(words: &[u32]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_be_bytes()).collect()
    }

    #[test]
    fn callers_are_identified_by_each_kind_of_credentials() {
        let none = Caller::default();
        let cases = [
            (AUTH_SYS, words(&[99, 3, 0x61626300, 11, 12, 1, 77]), caller(11, 12)),
            (AUTH_GLUSTERFS, words(&[0, 0, 500, 11, 12, 0]), caller(11, 12)),
            (AUTH_GLUSTERFS_V2, words(&[500, 11, 12, 0, 0]), caller(11, 12)),
            (AUTH_GLUSTERFS_V3, words(&[500, 11, 12, 0, 0, 0, 0, 0, 0]), caller(11, 12)),
            // Kerberos names the caller to the server alone.
            (6, words(&[1, 0, 7, 1, 4, 11]), none),
            (0, Vec::new(), none),
            (AUTH_SYS, words(&[99, 3, 0x61626300, 11]), none),
            (AUTH_SYS, words(&[99, u32::MAX, 0x61626300, 11, 12]), none),
        ];
        for (flavor, body, expected) in cases {
            let head = words(&[1, 0, 2, 100_003, 3, 6, flavor, body.len() as u32]);
            let message = [head, body.clone(), words(&[0, 0, 4, 1])].concat();
            let call = Call::decode(&message).expect("a call");
            assert_eq!(call.caller, expected, "flavor {flavor}, {body:?}");
            assert_eq!(call.arguments, words(&[4, 1]));
        }
    }

    #[test]
    fn what_is_no_whole_call_is_not_understood() {
        let whole = words(&[1, 0, 2, 100_003, 3, 6, 0, 0, 0, 0]);
        assert!(Call::decode(&whole).is_some());
        for cut in 0..whole.len() {
            assert_eq!(Call::decode(&whole[..cut]), None, "cut at {cut}");
        }
        for (at, wrong) in [(1, 1), (2, 3), (7, 401), (7, u32::MAX), (9, 401)] {
            let mut changed = whole.clone();
            changed[4 * at..4 * at + 4].copy_from_slice(&u32::to_be_bytes(wrong));
            assert_eq!(Call::decode(&changed), None, "word {at}: {wrong}");
        }
    }
}
