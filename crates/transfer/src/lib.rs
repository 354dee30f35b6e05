//! Frames and streams: how clients and nodes talk, and the client side of everything a node offers.

mod challenge;
pub mod client;
mod connection;
mod error;
pub mod message;
mod one_line;
mod outgoing;
mod random;
mod regular_file;
mod remote;
mod resolve;
mod secret_file;
mod server;
mod service;
mod signals;
mod tls;

use std::time::Duration;

/// A node sends each client a message of life this often.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// A node of which nothing is heard for so long is silent: its connections are given up, and made again.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// Within this a name is resolved.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// Within this an address takes a connection, or counts as out of reach.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub use connection::{Connection, Frame};
pub use error::{Error, Result};
pub use one_line::one_line;
pub use random::random_number;
pub use remote::{Link, Remote, RemoteCatalog, RemoteStore, catalog_error, report_absence, store_error};
pub use secret_file::{
    JOB_SECRET_FILE_VARIABLE, SECRET_FILE_VARIABLE, create_secret, read_secret, secret_of_environment,
};
pub use server::Server;
pub use server::answer_memory::AnswerCharge;
pub use service::{ClientSender, Handler, Hello, Replier, Service};
pub use tls::{Credentials, TLS_CA_VARIABLE, TlsClient, TlsServer, serves_this_job};
