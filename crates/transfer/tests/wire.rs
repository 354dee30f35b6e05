//! Everything about the wire in one program: messages as bytes, the server, the client's side, and its speed.

extern crate thalweg_transfer as transfer;

#[path = "wire/conformance.rs"]
mod conformance;
#[path = "wire/fake.rs"]
mod fake;
#[path = "wire/messages.rs"]
mod messages;
#[path = "wire/random.rs"]
mod random;
#[path = "wire/remote.rs"]
mod remote;
#[path = "wire/server.rs"]
mod server;
#[path = "wire/speed.rs"]
mod speed;
