//! How many connections each client has, so that none of them takes all there may be.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::rc::{Rc, Weak};

/// Without a limit of its own, a client may have one of so many of all connections.
const PART: usize = 4;

/// Clients with a connection.
type Clients = Rc<RefCell<HashMap<IpAddr, Weak<OneClient>>>>;

/// Of the clients of one listener, or of several together.
#[derive(Default)]
pub(crate) struct ClientConnections {
    clients: Clients,
    /// The configured limit.
    limit: Cell<Option<usize>>,
}

/// As long as one of its connections is open.
struct OneClient {
    address: IpAddr,
    all: Clients,
}

/// One of a client's connections; dropping it makes room. A thousand of them wait with their connections, so it is no
/// longer than a pointer.
pub(crate) struct ConnectionPermit {
    _client: Rc<OneClient>,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{client} has {limit} connections open, as many as one client may (those that it has closed count until their server \
     answers or the gate gives it up): close some, or raise `connections_per_client`"
)]
pub struct TooManyOfClient {
    client: IpAddr,
    limit: usize,
}

impl ClientConnections {
    pub fn set_limit(&self, limit: Option<usize>) {
        self.limit.set(limit);
    }

    /// `most`: as many as all clients may have together.
    pub fn admit(&self, client: IpAddr, most: usize) -> Result<ConnectionPermit, TooManyOfClient> {
        let limit = self.limit.get().unwrap_or(most.div_ceil(PART));
        let client = counted_as(client);
        let known = self.clients.borrow().get(&client).and_then(Weak::upgrade);
        let known = known.unwrap_or_else(|| self.first_of(client));
        // This one is counted already.
        if Rc::strong_count(&known) > limit {
            return Err(TooManyOfClient { client, limit });
        }
        Ok(ConnectionPermit { _client: known })
    }

    fn first_of(&self, address: IpAddr) -> Rc<OneClient> {
        let client = Rc::new(OneClient { address, all: self.clients.clone() });
        self.clients.borrow_mut().insert(address, Rc::downgrade(&client));
        client
    }
}

impl Drop for OneClient {
    fn drop(&mut self) {
        self.all.borrow_mut().remove(&self.address);
    }
}

/// A machine mostly has a whole /64 of version 6, and may choose its addresses there.
fn counted_as(client: IpAddr) -> IpAddr {
    match client.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn a_client_has_its_part_and_leaves_the_others_theirs() {
        let connections = ClientConnections::default();
        let (one, other) = (address("10.0.0.1"), address("10.0.0.2"));
        let taken: Vec<_> = std::iter::from_fn(|| connections.admit(one, 20).ok()).collect();
        assert_eq!(taken.len(), 5);
        let said = connections.admit(one, 20).err().expect("it is refused").to_string();
        assert!(said.starts_with("10.0.0.1 has 5 connections open"), "{said}");
        assert!(connections.admit(address("::ffff:10.0.0.1"), 20).is_err(), "it is the same client");
        assert!(connections.admit(other, 20).is_ok());
        drop(taken);
        assert!(connections.admit(one, 20).is_ok());
        assert!(connections.clients.borrow().is_empty(), "who has none is not remembered");
    }

    #[test]
    fn the_file_may_say_another_limit_and_networks_of_version_6_count_as_one() {
        let connections = ClientConnections::default();
        connections.set_limit(Some(1));
        let _first = connections.admit(address("fd00::1"), 20).expect("there is room");
        assert!(connections.admit(address("fd00::2"), 20).is_err());
        assert!(connections.admit(address("fd00:0:0:1::1"), 20).is_ok());
    }
}
