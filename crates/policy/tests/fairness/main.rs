//! The schedulers before simulated servers and clients.

mod ablation;
mod cost;
mod deadlines;
mod depth;

mod fluid;
mod global;
mod latency;
mod model;
mod ratios;
mod scenes;
mod simulator;
mod trade_off;
