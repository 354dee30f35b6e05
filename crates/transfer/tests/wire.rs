//! Everything about the wire in one program: messages as bytes, the server, the client's side, and its speed.
//! The golden frames, mutated, go to the fuzz target of the same name.

extern crate thalweg_transfer as transfer;

#[path = "wire/conformance.rs"]
mod conformance;
#[path = "../../../fuzz/src/messages.rs"]
mod decoding;
#[path = "wire/fake.rs"]
mod fake;
#[path = "wire/link.rs"]
mod link;
#[path = "wire/messages.rs"]
mod messages;
#[path = "../../../fuzz/src/mutation.rs"]
mod mutation;
#[path = "wire/random.rs"]
mod random;
#[path = "wire/remote.rs"]
mod remote;
#[path = "wire/secret.rs"]
mod secret;
#[path = "wire/server.rs"]
mod server;
#[path = "wire/speed.rs"]
mod speed;
#[path = "wire/tls.rs"]
mod tls;

#[global_allocator]
static ALLOCATOR: mutation::Measured = mutation::Measured;

/// A message of a small frame: what it holds, and room for vectors that grew.
const MAX_BYTES: usize = 256 << 10;

#[test]
fn mutated_frames_are_refused_or_read() {
    mutation::fuzz(&["frames"], mutation::INPUTS, MAX_BYTES, decoding::frame);
}
