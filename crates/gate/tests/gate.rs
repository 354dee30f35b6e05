//! The gate from outside: a client, the gate, and a server that does what the test tells it.
//! One theme a file in `gate/`; all of them are one program, so that it is linked once.

#[path = "gate/rpc.rs"]
mod rpc;
#[path = "gate/running.rs"]
mod running;
