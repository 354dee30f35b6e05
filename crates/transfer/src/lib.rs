//! Frames and streams: how clients and nodes talk, and the client side of everything a node offers.

mod back_off;
pub mod client;
mod connection;
mod environment;
mod error;
mod frame_pace;
mod handshake;
mod liveness;
pub mod message;
mod node_connection;
mod one_line;
mod outgoing;
mod random;
mod rate_limit;
mod regular_file;
mod remote;
mod resolve;
mod secret_file;
mod server;
mod service;
mod signals;
mod tls;

use std::time::Duration;

/// A node sends each client a heartbeat this often.
pub(crate) const ALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// A node not heard from for this long is silent: its connections are given up, and made again.
pub(crate) const SILENCE_TIMEOUT: Duration = Duration::from_secs(10);
/// A name must resolve within this.
pub(crate) const RESOLVE_TIMEOUT: Duration = Duration::from_secs(5);
/// An address must accept a connection within this, or counts as out of reach.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

pub use self::random::{random_bytes, random_number};
pub use connection::{Connection, Frame};
pub use environment::{check_name, name_in_variable, variable};
pub use error::{Error, OpenError, Result};
pub use one_line::{misleads, one_line};
pub use rate_limit::{MIN_RATE, limit_rates};
pub use regular_file::read_regular;
pub use remote::{Link, Remote, RemoteCatalog, RemoteStore, catalog_error, report_absence, store_error};
pub use secret_file::{
    JOB_SECRET_FILE_VARIABLE, SECRET_FILE_VARIABLE, create_secret, read_secret, secret_of_environment,
};
pub use server::Server;
pub use server::answer_memory::AnswerCharge;
pub use service::{ClientSender, Handler, Hello, Replier, Service};
pub use signals::without_signals;
pub use tls::{Credentials, TLS_CA_VARIABLE, TlsClient, TlsServer, serves_this_job};
