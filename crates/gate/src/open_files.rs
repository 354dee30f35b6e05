//! How many files a process may have open: the gate needs two for each connection, a node one, where shells mostly allow
//! a thousand.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the limit as far as any process may, and returns it. If it stays, fewer connections are served at once.
pub fn raise_limit() -> u64 {
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
