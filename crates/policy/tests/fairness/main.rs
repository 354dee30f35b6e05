//! The schedulers before simulated servers and clients.

mod explore;
mod scenes;
mod simulator;
