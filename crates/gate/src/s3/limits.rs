//! Limits of one client at the gate: connections and time. Servers have limits of their own behind it.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// A head is whole this long after its first byte.
pub(crate) const HEAD_TIMEOUT: Duration = Duration::from_secs(10);
/// A client that asks for nothing for so long is gone.
pub(crate) const IDLE_TIMEOUT: Duration = Duration::from_secs(300);
/// A server is reached by then.
pub(crate) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// A peer has agreed on TLS by then.
pub(crate) const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);
/// Clients of one listener at a time.
pub(crate) const MAX_CONNECTIONS: usize = 16_384;

/// The connections of one listener.
#[derive(Default)]
pub(crate) struct Connections {
    open: Rc<Cell<usize>>,
}

/// One of them; dropping it makes room.
pub(crate) struct ConnectionPermit {
    open: Rc<Cell<usize>>,
}

impl Connections {
    /// None when there are too many.
    pub fn admit(&self) -> Option<ConnectionPermit> {
        self.admit_up_to(MAX_CONNECTIONS)
    }

    pub fn admit_up_to(&self, most: usize) -> Option<ConnectionPermit> {
        (self.open.get() < most).then(|| {
            self.open.set(self.open.get() + 1);
            ConnectionPermit { open: self.open.clone() }
        })
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.open.set(self.open.get() - 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_limited_and_one_that_ends_makes_room() {
        let connections = Connections::default();
        let first = connections.admit_up_to(2).expect("there is room");
        let _second = connections.admit_up_to(2).expect("there is room");
        assert!(connections.admit_up_to(2).is_none());
        drop(first);
        assert!(connections.admit_up_to(2).is_some());
    }
}
