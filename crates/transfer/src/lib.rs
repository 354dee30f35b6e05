//! Frames and streams: how clients and nodes talk, and the client side of everything a node offers.

mod challenge;
pub mod client;
mod connection;
mod error;
pub mod message;
mod outgoing;
mod random;
mod remote;
mod secret_file;
mod server;
mod service;

pub use connection::{Connection, Frame};
pub use error::{Error, Result};
pub use remote::{Link, Remote, RemoteCatalog, RemoteStore, catalog_error, store_error};
pub use secret_file::{SECRET_FILE_VARIABLE, create_secret, read_secret, secret_of_environment};
pub use server::Server;
pub use service::{Handler, Hello, Outbox, Replier, Service};
