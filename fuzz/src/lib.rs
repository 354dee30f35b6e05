//! The decoders of everything that comes from outside, as functions that take any bytes and never panic.
//!
//! cargo-fuzz calls them from `fuzz_targets/`. The tests of the crates include the same files and call them on mutated
//! golden files (`mutation`), so that every run of `cargo test` fuzzes for a few seconds. Where a checksum would refuse
//! each mutation at the door, a target also tries the input with its checksums made right: what a forger would do.

pub mod blocks;
pub mod chunks;
pub mod containers;
pub mod http;
pub mod layouts;
pub mod messages;
pub mod packets;
pub mod rpc;
pub mod tables;
