//! Bodies and frames as bytes: they decode again, damage is noticed, and their layout stays as in the golden files.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::path::PathBuf;

use format::{FRAME_HEADER_BYTES, FrameHeader, PROTOCOL};
use transfer::message::{Reply, Request};

use crate::random::Random;

const ROUNDS: u64 = 200;

/// Decodes a body, and gives the message as text and encoded again.
type Again = fn(u16, &[u8]) -> format::Result<(String, Vec<u8>)>;

/// Kind, body and name of each message, made from one seed; with a way to decode it again.
struct Sample {
    kind: u16,
    name: String,
    body: Vec<u8>,
    again: Again,
    debug: String,
}

fn samples(seed: u64) -> Vec<Sample> {
    let mut random = Random::new(seed);
    let name = |message: &dyn Debug| format!("{message:?}").split(' ').next().unwrap_or_default().to_owned();
    let requests = random.requests().into_iter().map(|message| Sample {
        kind: message.kind(),
        name: name(&message),
        body: message.encode(),
        again: |kind, body| Request::decode(kind, body).map(|message| (format!("{message:?}"), message.encode())),
        debug: format!("{message:?}"),
    });
    let requests: Vec<Sample> = requests.collect();
    let replies = random.replies().into_iter().map(|message| Sample {
        kind: message.kind(),
        name: name(&message),
        body: message.encode(),
        again: |kind, body| Reply::decode(kind, body).map(|message| (format!("{message:?}"), message.encode())),
        debug: format!("{message:?}"),
    });
    requests.into_iter().chain(replies).collect()
}

#[test]
fn every_message_has_a_sample() {
    let known = |kind: &u16| {
        let unknown = |error: format::Error| error.to_string().contains("unknown kind");
        !Request::decode(*kind, &[]).is_err_and(unknown) || !Reply::decode(*kind, &[]).is_err_and(unknown)
    };
    let sampled: BTreeSet<u16> = samples(1).iter().map(|sample| sample.kind).collect();
    assert_eq!(sampled, (0..=u16::MAX).filter(known).collect());
}

#[test]
fn messages_come_back_from_their_bytes() {
    for seed in 1..=ROUNDS {
        for sample in samples(seed) {
            let (debug, body) = (sample.again)(sample.kind, &sample.body).expect("what we wrote can be read");
            assert!(debug == sample.debug && body == sample.body, "seed {seed}: {}", sample.debug);
        }
    }
}

#[test]
fn messages_cut_short_or_drawn_out_are_errors() {
    for seed in 1..=ROUNDS / 10 {
        for sample in samples(seed) {
            for cut in 0..sample.body.len() {
                assert!(
                    (sample.again)(sample.kind, &sample.body[..cut]).is_err(),
                    "seed {seed}: {} at {cut}",
                    sample.name
                );
            }
            let longer = [&sample.body[..], &[0]].concat();
            assert!((sample.again)(sample.kind, &longer).is_err(), "seed {seed}: {} and a byte", sample.name);
        }
    }
}

#[test]
fn damaged_messages_never_panic() {
    for seed in 1..=ROUNDS {
        let mut random = Random::new(seed ^ 0xdaad);
        for sample in samples(seed) {
            let mut body = sample.body;
            for _ in 0..8.min(body.len()) {
                let at = random.below(body.len() as u64) as usize;
                body[at] = [0, 0xff, random.u64() as u8][random.below(3) as usize];
                // Either is fine: the frame's checksum detects damage.
                let _ = (sample.again)(sample.kind, &body);
            }
        }
    }
}

/// Returns the frame of each message as `testdata/v0/frames` has it.
fn golden() -> Vec<(String, Vec<u8>)> {
    let frame = |sample: Sample| {
        let payload: &[u8] = match sample.name.as_str() {
            "PutBlock" | "Write" | "SendBlocks" | "Blocks" | "Bytes" => b"the payload",
            _ => b"",
        };
        let is_unasked = matches!(sample.name.as_str(), "Challenge" | "Durable" | "StripeSetFailed" | "Alive");
        let request = if is_unasked { 0 } else { 0x0102_0304_0506_0708 };
        let header = FrameHeader::new(sample.kind, request, &sample.body, payload);
        (format!("{:04x}-{}.bin", sample.kind, sample.name), [&header.encode()[..], &sample.body, payload].concat())
    };
    samples(2026).into_iter().map(frame).collect()
}

/// With `THALWEG_WRITE_GOLDEN=1` the files are written instead: only when the layout changes on purpose, and with it the
/// number by which peers of other layouts are refused.
#[test]
fn frames_are_those_of_the_golden_files() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0/frames");
    let write = std::env::var_os("THALWEG_WRITE_GOLDEN").is_some();
    if write {
        std::fs::create_dir_all(&folder).expect("the folder of golden files can be made");
    }
    let protocol_before = std::fs::read(folder.join("0001-Hello.bin")).map_or(None, |hello| hello.get(4).copied());
    for (name, bytes) in golden() {
        let path = folder.join(&name);
        if write {
            let is_as_before = std::fs::read(&path).is_ok_and(|kept| kept == bytes);
            assert!(
                is_as_before || protocol_before != Some(PROTOCOL),
                "{name} changes: raise PROTOCOL in crates/format/src/frame.rs, or put the last commit's file back"
            );
            std::fs::write(&path, &bytes).expect("golden files can be written");
        }
        let kept = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert!(kept == bytes, "{name} is not what is sent now");
        let header = FrameHeader::decode(&kept).expect("golden frames have a header");
        let (body, payload) = kept[FRAME_HEADER_BYTES..].split_at(header.body_bytes as usize);
        header.check(body, payload).expect("golden frames are whole");
    }
    let files = std::fs::read_dir(&folder).expect("the folder of golden files is there").count();
    assert_eq!(files, golden().len(), "a file in {} has no message", folder.display());
}
