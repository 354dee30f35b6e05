//! Frames and streams: how clients and nodes talk, and the client side of everything a node offers.

pub mod client;
pub mod message;
mod connection;
mod error;
mod remote;
mod server;
mod service;

pub use connection::{Connection, Frame};
pub use error::{Error, Result};
pub use remote::{catalog_error, store_error, Remote, RemoteCatalog, RemoteStore};
pub use server::Server;
pub use service::{Handler, Hello, Outbox, Replier, Service};
