//! Where a store is, as users write it, and how it is opened: the one crate that knows both ways, for every door that
//! takes an address (the command, Python).

mod address;
mod error;
mod escaping;
mod opening;

pub use address::{SCHEME, StoreAddress, scheme_of};
pub use error::{Error, Result};
pub use escaping::{escape_bytes, escaped};
pub use opening::{CredentialFiles, connect, connect_with, open_remote, open_store, open_store_with, possible_access};
