//! Frames and streams: how clients and nodes talk, and the client side of everything a node offers.

pub mod message;
mod error;

pub use error::{Error, Result};
