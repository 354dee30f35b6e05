//! Where to deduplicate and compress: at the node, or at the client before its link.
//!
//! DESIGN rule 9 and DDiHA's equation (4), per byte written and for one client: at the node every byte crosses the link
//! and the node's cores serve all its clients; at the client only new data cross, the node fingerprints them again, and
//! the cores come from the program unless some are idle. Stages of one pipeline overlap (equation 5), so the slowest
//! counts; work of the program's own cores does not overlap, so it adds.

mod adaptive;

pub use adaptive::{Adaptive, Receipt};

/// The end of the link where segments are fingerprinted and encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Node,
    Client,
}

/// The user's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Choice {
    Node,
    Client,
    Auto,
}

/// The model's inputs; rates in bytes of raw data per second, measured or estimated, above zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conditions {
    /// One client's share of its link to the node.
    pub link_bytes_per_s: f64,
    /// Cutting and fingerprinting on one core.
    pub fingerprint_bytes_per_s: f64,
    /// Encoding what is new on one core.
    pub encode_bytes_per_s: f64,
    /// Cores of the client's machine that the program leaves alone, per client.
    pub client_cores_idle: f64,
    /// Cores of the node that reduce.
    pub node_cores: f64,
    /// Clients that write to the node at the same time.
    pub node_clients: f64,
    /// Share of the bytes that will be found stored already (0 to 1).
    pub duplicate_share: f64,
    /// The share that compression leaves of the rest (0 to 1).
    pub encoded_share: f64,
}

/// The predicted gain of the client must be at least this: estimates are rough, and the program's cores are dear.
const MIN_GAIN: f64 = 1.1;

/// The baseline is a fixed choice; `Auto` leaves the node only when the model predicts a clear gain.
pub fn choose(choice: Choice, conditions: &Conditions) -> End {
    match choice {
        Choice::Node => End::Node,
        Choice::Client => End::Client,
        Choice::Auto if conditions.client_seconds() * MIN_GAIN < conditions.node_seconds() => End::Client,
        Choice::Auto => End::Node,
    }
}

impl Conditions {
    /// The assumptions where nothing was measured: a link and a node that are never in the way, rates of one core of
    /// 2026, and of the data the lower end of what is published of simulations' output.
    pub const UNKNOWN: Conditions = Conditions {
        link_bytes_per_s: 1e12,
        fingerprint_bytes_per_s: 2e9,
        encode_bytes_per_s: 500e6,
        client_cores_idle: 0.0,
        node_cores: 1e6,
        node_clients: 1.0,
        duplicate_share: 0.2,
        encoded_share: 0.8,
    };

    /// Returns the seconds a byte when the node reduces.
    pub fn node_seconds(&self) -> f64 {
        let link = 1.0 / self.link_bytes_per_s;
        link.max(self.node_seconds_per_byte())
    }

    /// Returns the seconds a byte when the client reduces.
    pub fn client_seconds(&self) -> f64 {
        let new_share = 1.0 - self.duplicate_share;
        let link = new_share * self.encoded_share / self.link_bytes_per_s;
        let onwards = link.max(new_share * self.node_seconds_per_byte());
        if self.client_cores_idle > 0.0 {
            onwards.max(self.reducing_seconds() / self.client_cores_idle)
        } else {
            onwards + self.reducing_seconds()
        }
    }

    /// One core's time for a byte: all are fingerprinted, new ones are encoded.
    fn reducing_seconds(&self) -> f64 {
        1.0 / self.fingerprint_bytes_per_s + (1.0 - self.duplicate_share) / self.encode_bytes_per_s
    }

    /// For one client's byte while the node's cores serve all of them.
    fn node_seconds_per_byte(&self) -> f64 {
        self.node_clients * self.reducing_seconds() / self.node_cores
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST_LINK: Conditions = Conditions {
        link_bytes_per_s: 10e9,
        fingerprint_bytes_per_s: 2e9,
        encode_bytes_per_s: 500e6,
        client_cores_idle: 0.0,
        node_cores: 16.0,
        node_clients: 4.0,
        duplicate_share: 0.3,
        encoded_share: 0.8,
    };

    #[test]
    fn busy_clients_on_a_fast_link_leave_it_to_the_node() {
        assert_eq!(choose(Choice::Auto, &FAST_LINK), End::Node);
    }

    #[test]
    fn a_slow_link_and_many_duplicates_make_the_client_reduce() {
        let slow = Conditions { link_bytes_per_s: 20e6, duplicate_share: 0.8, ..FAST_LINK };
        assert_eq!(choose(Choice::Auto, &slow), End::Client);
    }

    #[test]
    fn a_slow_link_alone_is_no_reason_when_everything_is_new_and_incompressible() {
        let slow = Conditions { link_bytes_per_s: 20e6, duplicate_share: 0.0, encoded_share: 1.0, ..FAST_LINK };
        assert_eq!(choose(Choice::Auto, &slow), End::Node);
    }

    #[test]
    fn idle_client_cores_relieve_a_crowded_node() {
        let crowded = Conditions { node_clients: 64.0, client_cores_idle: 1.0, duplicate_share: 0.5, ..FAST_LINK };
        assert_eq!(choose(Choice::Auto, &crowded), End::Client);
    }

    #[test]
    fn what_the_user_asked_for_is_done() {
        assert_eq!(choose(Choice::Client, &FAST_LINK), End::Client);
        let slow = Conditions { link_bytes_per_s: 1e6, ..FAST_LINK };
        assert_eq!(choose(Choice::Node, &slow), End::Node);
    }

    #[test]
    fn more_duplicates_never_speak_against_the_client() {
        let seconds = |share| Conditions { duplicate_share: share, ..FAST_LINK }.client_seconds();
        assert!((1..=10).all(|tenth| seconds(tenth as f64 / 10.0) <= seconds((tenth - 1) as f64 / 10.0)));
    }
}
