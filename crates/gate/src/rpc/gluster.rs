//! GlusterFS bricks: the file operations that carry data, and the handshake that names the volume.
//!
//! Numbers and layouts are those of gluster/glusterfs, rpc/rpc-lib/src/protocol-common.h and
//! rpc/xdr/src/glusterfs{3,4}-xdr.x; versions 3.3 to 11 share them where they matter here. Recorded traffic of 10.3 is
//! in testdata/rpc.

use super::call::Call;
use super::operation::Operation;
use super::xdr::Xdr;

const FILE_OPERATIONS: u32 = 1_298_437;
/// 330: glusterfs 3.3 and later; 400: 4.0 and later.
const VERSIONS: [u32; 2] = [330, 400];
const TRUNCATE: u32 = 10;
const READ: u32 = 12;
const WRITE: u32 = 13;
const FLUSH: u32 = 15;
const FSYNC: u32 = 16;
const FTRUNCATE: u32 = 24;
const RELEASE: u32 = 41;

const HANDSHAKE: u32 = 14_398_633;
const SET_VOLUME: u32 = 1;

const GFID_BYTES: usize = 16;
const MAX_DICTIONARY_BYTES: usize = 64 << 10;
const MAX_DICTIONARY_ENTRIES: u32 = 256;

pub fn operation(call: &Call) -> Option<Operation> {
    if (call.program, call.procedure) == (HANDSHAKE, SET_VOLUME) {
        return Some(Operation::Attach { volume: volume(call.arguments)? });
    }
    if call.program != FILE_OPERATIONS || !VERSIONS.contains(&call.version) {
        return None;
    }
    match call.procedure {
        READ => Some(Operation::Read { bytes: transfer_bytes(call.arguments)? }),
        WRITE => Some(Operation::Write { bytes: transfer_bytes(call.arguments)? }),
        TRUNCATE | FLUSH | FSYNC | FTRUNCATE | RELEASE => Some(Operation::AfterWrites),
        _ => None,
    }
}

/// READ and WRITE both begin with the file's id, the descriptor, the offset and the size, in either version.
fn transfer_bytes(arguments: &[u8]) -> Option<u64> {
    let mut xdr = Xdr::new(arguments);
    xdr.fixed(GFID_BYTES + 8 + 8)?;
    xdr.word().map(u64::from)
}

/// Returns the client's name for the volume: the key it fetched its description by, which is the volume's name where
/// glusterd manages it; the sub-volume of the brick it attaches to, where it does not.
fn volume(arguments: &[u8]) -> Option<String> {
    let dictionary = Xdr::new(arguments).opaque(MAX_DICTIONARY_BYTES)?;
    let (mut fetched_by, mut attached_to) = (None, None);
    for_each_entry(dictionary, |key, value| match key {
        b"volfile-key" => fetched_by = Some(value),
        b"remote-subvolume" => attached_to = Some(value),
        _ => {}
    })?;
    let name = fetched_by.or(attached_to)?.split(|byte| *byte == 0).next()?;
    Some(str::from_utf8(name).ok()?.trim_start_matches('/').to_owned())
}

/// A serialised dictionary: a count, then for each entry the lengths of key and value, the key, a zero, the value;
/// nothing is padded.
fn for_each_entry<'a>(dictionary: &'a [u8], mut entry: impl FnMut(&'a [u8], &'a [u8])) -> Option<()> {
    let mut left = dictionary;
    let mut take = |length: usize| {
        let (head, rest) = left.split_at_checked(length)?;
        left = rest;
        Some(head)
    };
    let word = |bytes: &'a [u8]| bytes.try_into().ok().map(u32::from_be_bytes);
    let count = word(take(4)?)?;
    if count > MAX_DICTIONARY_ENTRIES {
        return None;
    }
    for _ in 0..count {
        let (key_bytes, value_bytes) = (word(take(4)?)?, word(take(4)?)?);
        let key = take(key_bytes as usize)?;
        take(1)?;
        entry(key, take(value_bytes as usize)?);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::call::Caller;
    use super::*;

    fn dictionary(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut bytes = (entries.len() as u32).to_be_bytes().to_vec();
        for (key, value) in entries {
            bytes.extend((key.len() as u32).to_be_bytes());
            bytes.extend((value.len() as u32 + 1).to_be_bytes());
            bytes.extend([key.as_bytes(), &[0], value.as_bytes(), &[0]].concat());
        }
        let mut arguments = (bytes.len() as u32).to_be_bytes().to_vec();
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        arguments.extend(bytes);
        arguments
    }

    #[test]
    fn a_volume_is_known_by_its_name_or_else_by_its_brick() {
        let brick = ("remote-subvolume", "/bricks/one");
        assert_eq!(volume(&dictionary(&[("process-uuid", "x"), brick])).as_deref(), Some("bricks/one"));
        assert_eq!(volume(&dictionary(&[brick, ("volfile-key", "/data")])).as_deref(), Some("data"));
        assert_eq!(volume(&dictionary(&[("process-uuid", "x")])), None);
    }

    #[test]
    fn a_damaged_dictionary_names_no_volume() {
        let whole = dictionary(&[("volfile-key", "data"), ("remote-subvolume", "brick")]);
        for cut in 0..whole.len() {
            let _ = volume(&whole[..cut]);
            for value in [0, 1, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[cut] = value;
                let _ = volume(&damaged);
            }
        }
        let many = [8u32.to_be_bytes(), u32::MAX.to_be_bytes(), [0; 4]].concat();
        assert_eq!(volume(&many), None);
    }

    #[test]
    fn both_versions_of_the_protocol_are_scheduled_and_no_others() {
        let arguments = [&[7; GFID_BYTES + 16][..], &131_072u32.to_be_bytes(), &[0; 8]].concat();
        let call = |version, procedure| Call {
            xid: 1,
            program: FILE_OPERATIONS,
            version,
            procedure,
            caller: Caller::default(),
            arguments: &arguments,
        };
        for version in VERSIONS {
            assert_eq!(operation(&call(version, READ)), Some(Operation::Read { bytes: 131_072 }));
            assert_eq!(operation(&call(version, WRITE)), Some(Operation::Write { bytes: 131_072 }));
        }
        assert_eq!(operation(&call(310, READ)), None);
        assert_eq!(operation(&Call { arguments: &arguments[..30], ..call(400, READ) }), None);
    }
}
