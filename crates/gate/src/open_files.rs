//! How many files a process may have open, and what of it the gate's connections share: two for each connection, one to
//! the client and one to the server.

use std::net::IpAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client_connections::{self, ClientConnections};
use crate::s3::{self, Connections};

/// Kept for listeners, the metrics page, the exchange and files that are read again.
const OWN_FILES: u64 = 64;
const FILES_PER_CONNECTION: u64 = 2;
const MIN_CONNECTIONS: u64 = 8;

/// Raises the limit as far as any process may, and returns it. If it stays, fewer connections are served at once.
pub fn raise_limit() -> u64 {
    let most = getrlimit(Resource::Nofile).maximum;
    let _ = setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The connections that the limit of open files allows, at all listeners together: what clients of one listener, or one
/// client, take of it must leave some for all others.
pub(crate) struct ConnectionPool {
    most: usize,
    open: Connections,
    clients: ClientConnections,
}

/// One connection of the pool; dropping it makes room.
pub(crate) struct PoolPermit {
    _open: s3::ConnectionPermit,
    _of_client: client_connections::ConnectionPermit,
}

impl ConnectionPool {
    pub fn of_open_files(limit: u64) -> Self {
        let most = (limit.saturating_sub(OWN_FILES) / FILES_PER_CONNECTION).max(MIN_CONNECTIONS);
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        ConnectionPool { most, open: Connections::default(), clients: ClientConnections::default() }
    }

    /// How many connections there may be at a time.
    pub fn most(&self) -> usize {
        self.most
    }

    /// Sets how many connections one client may have at each listener; none: a quarter of all.
    pub fn limit_clients(&self, limit: Option<usize>) {
        self.clients.set_limit(limit.map(|limit| limit.max(self.most / 4)));
    }

    /// Refuses with the reason.
    pub fn admit(&self, client: IpAddr) -> Result<PoolPermit, String> {
        let of_client = self.clients.admit(client, self.most).map_err(|refusal| refusal.to_string())?;
        let all = self.open.admit_up_to(self.most).ok_or_else(|| self.exhausted())?;
        Ok(PoolPermit { _open: all, _of_client: of_client })
    }

    fn exhausted(&self) -> String {
        format!(
            "there are {} connections, as many as the limit of open files allows; raise it (LimitNOFILE)",
            self.most
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_connections_for_others_and_all_leave_files_for_the_gate() {
        let pool = ConnectionPool::of_open_files(1024);
        assert_eq!(pool.most(), 480);
        let address = |last| IpAddr::from([127, 0, 0, last]);
        let of = |client| std::iter::from_fn(|| pool.admit(address(client)).ok()).collect::<Vec<_>>();
        let taken: Vec<_> = (1..=5).map(of).collect();
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [120, 120, 120, 120, 0]);
        assert!(pool.admit(address(6)).is_err_and(|why| why.contains("LimitNOFILE")));
        drop(taken);
        assert!(pool.admit(address(1)).is_ok());
    }
}
