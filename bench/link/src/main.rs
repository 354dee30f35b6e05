//! `thalweg-link`: the emulated link of `bench/wan`, and what measures it.
//!
//!     thalweg-link forward NEAR_DEVICE FAR_DEVICE seed=N KEY=VALUE...    carries packets between two TUN devices
//!     thalweg-link echo ADDRESS                                          answers a probe
//!     thalweg-link probe ADDRESS RATE_MBIT                               prints delay, rate and loss towards an echo
//!
//! `bench/wan` makes the network namespaces around it; see bench/README.md.

mod direction;
mod echo;
mod forward;
mod probe;
mod settings;
mod tun;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match run(&words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("thalweg-link: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(words: &[String]) -> Result<()> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["forward", near, far, settings @ ..] => forward::run(near, far, settings),
        ["echo", address] => echo::run(address),
        ["probe", address, rate_mbit] => probe::run(address, rate_mbit.parse().context("RATE_MBIT is no number")?),
        _ => bail!("usage: thalweg-link forward NEAR FAR seed=N KEY=VALUE... | echo ADDRESS | probe ADDRESS RATE_MBIT"),
    }
}
