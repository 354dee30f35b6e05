//! How many files the gate may have open: two for each connection, where shells mostly allow a thousand.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as anybody may. If it stays, a gate serves fewer connections at once.
pub(crate) fn raise_limit() {
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
}
