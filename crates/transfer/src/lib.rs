//! Frames and streams: how clients and nodes talk, and the client side of everything a node offers.

pub mod client;
mod connection;
mod error;
pub mod message;
mod outgoing;
mod random;
mod remote;
mod server;
mod service;

pub use connection::{Connection, Frame};
pub use error::{Error, Result};
pub use remote::{Link, Remote, RemoteCatalog, RemoteStore, catalog_error, store_error};
pub use server::{MAX_REFUSALS, Server};
pub use service::{Handler, Hello, Outbox, Replier, Service};
