//! The golden packets of the exchange: they read as the values written here, and these are written as they are.
//! `THALWEG_WRITE_GOLDEN=1` rewrites them: only when the layout changes on purpose. Then mutations, also of recorded
//! calls and replies and of HTTP messages, whose decoders have tests of their own.

extern crate thalweg_gate as gate;

use std::path::PathBuf;

use gate::exchange::packet::{Entry, GateId, Key, NameHash, Packet};

#[path = "../../../fuzz/src/http.rs"]
mod http;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/packets.rs"]
mod packets;
#[path = "../../../fuzz/src/rpc.rs"]
mod rpc;

#[global_allocator]
static ALLOCATOR: mutation::Measured = mutation::Measured;

const NAMES: [&str; 2] = ["exchange.bin", "exchange-tagged.bin"];
/// A packet, decoded some times over.
const MAX_BYTES: usize = 64 << 10;
/// Some records or messages, each copied once.
const MAX_STREAM_BYTES: usize = 1 << 20;

fn packet() -> Packet {
    let entry = |name, charged_bytes| Entry { application: NameHash::of(name), charged_bytes };
    let entries = vec![entry("climate", 123_456_789_012), entry("genome", 65_536)];
    Packet { gate: GateId(0x1122_3344_5566_7788), sequence: 42, entries }
}

#[test]
fn golden_packets_read_and_write_the_same() {
    let key = Key::from_secret("golden");
    for (name, key) in NAMES.into_iter().zip([None, Some(&key)]) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../testdata/v0").join(name);
        let bytes = packet().encode(key);
        if std::env::var_os("THALWEG_WRITE_GOLDEN").is_some() {
            std::fs::write(&path, &bytes).unwrap();
        }
        let golden = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        assert_eq!(golden, bytes, "{name}");
        assert_eq!(Packet::decode(&golden, key), Ok(packet()), "{name}");
    }
}

#[test]
fn mutated_packets_do_no_harm() {
    mutation::fuzz(&NAMES, mutation::INPUTS, MAX_BYTES, packets::exchange);
}

#[test]
fn mutated_streams_of_records_do_no_harm() {
    mutation::fuzz(&["../rpc"], mutation::INPUTS, MAX_STREAM_BYTES, rpc::rpc_records);
}

#[test]
fn mutated_streams_of_messages_do_no_harm() {
    mutation::fuzz(&["../http"], mutation::INPUTS, MAX_STREAM_BYTES, http::http_framing);
}
