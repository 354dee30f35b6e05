//! The gate from outside: a client, the gate, and a server that does what the test tells it.
//! One theme a file in `gate/`; all of them are one program, so that it is linked once.

extern crate thalweg_gate as gate;

#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "gate/rpc.rs"]
mod rpc;
#[path = "../../../fuzz/src/rpc.rs"]
mod rpc_records;
#[path = "gate/running.rs"]
mod running;

/// A record is copied whole once, where it may be changed.
const MOST_BYTES: usize = 1 << 20;

#[test]
fn no_stream_of_records_harms_the_gate() {
    mutation::fuzz(&["../rpc"], mutation::INPUTS, MOST_BYTES, rpc_records::rpc_records);
}
