//! Transparent fair proxies for unmodified data servers.

pub mod exchange;
