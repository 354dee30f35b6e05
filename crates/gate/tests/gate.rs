//! The gate from outside: scripted servers behind it, plain sockets before it.

extern crate thalweg_gate as gate;

#[path = "gate/fixture.rs"]
mod fixture;
#[path = "../../../fuzz/src/http.rs"]
mod http;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "../../../fuzz/src/rpc.rs"]
mod rpc_records;

#[path = "gate/crowds.rs"]
mod crowds;
#[path = "gate/endings.rs"]
mod endings;
#[path = "gate/passing.rs"]
mod passing;
#[path = "gate/reload.rs"]
mod reload;
#[path = "gate/rpc.rs"]
mod rpc;
#[path = "gate/sharing.rs"]
mod sharing;
#[path = "gate/tls.rs"]
mod tls;

/// A record is copied whole once, where it may be changed.
const MOST_BYTES: usize = 1 << 20;

#[test]
fn no_stream_of_records_harms_the_gate() {
    mutation::fuzz(&["../rpc"], mutation::INPUTS, MOST_BYTES, rpc_records::rpc_records);
}

#[test]
fn no_stream_of_messages_harms_the_gate() {
    mutation::fuzz(&["../http"], mutation::INPUTS, MOST_BYTES, http::http_framing);
}
