//! Whole networks of clients: `10.1.0.0/16`, `fd00::/8`, or one address.

use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl Network {
    pub fn parse(text: &str) -> Option<Network> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        (bits <= most).then_some(Network { address, bits })
    }

    /// An IPv4 client of a socket that speaks both versions counts as what it is.
    pub fn holds(&self, client: IpAddr) -> bool {
        match (self.address, client.to_canonical()) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let differing = u32::from(ours) ^ u32::from(theirs);
                differing.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let differing = u128::from(ours) ^ u128::from(theirs);
                differing.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Network;

    fn holds(network: &str, client: &str) -> bool {
        Network::parse(network).expect(network).holds(client.parse().expect(client))
    }

    #[test]
    fn a_network_holds_its_addresses_and_no_others() {
        assert!(holds("10.1.0.0/16", "10.1.255.1"));
        assert!(!holds("10.1.0.0/16", "10.2.0.1"));
        assert!(holds("10.1.2.3", "10.1.2.3") && !holds("10.1.2.3", "10.1.2.4"));
        assert!(holds("0.0.0.0/0", "192.0.2.1") && !holds("0.0.0.0/0", "::2"));
        assert!(holds("fd00::/8", "fdff::1") && !holds("fd00::/8", "fe00::1"));
        assert!(holds("10.0.0.0/8", "::ffff:10.3.2.1"));
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "10.0.0.0/33", "10.0.0/8", "host", "::/129", "10.0.0.0/-1"] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
