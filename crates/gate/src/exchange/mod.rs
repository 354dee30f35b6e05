//! Global shares: each gate sends its peers what it charged each application, so that the total counts, wherever it was
//! served (DSFQ, Wang and Merchant, FAST 2007, with gates in the place of coordinators).
//!
//! [`Exchange`] is a machine without I/O: a tick or a packet in, [`Action`]s out; `link` does them. The same machine
//! carries what one server of a gate served over to the gate's other servers. The packets cost at most a thousandth of
//! the bytes they report, besides a small keep-alive; without packets, each gate is fair by itself.

mod exchanging;
pub mod link;
pub mod packet;
mod peers;
mod report;

use std::collections::HashMap;
use std::rc::Rc;
use std::time::Duration;

pub(crate) use exchanging::{Bound, Exchanging};
pub(crate) use link::Link;
use packet::{GateId, Key, MAX_ENTRIES, NameHash, Packet, Refusal};
use peers::Peers;
pub use report::Charged;
use report::Report;

/// At least so often a gate says that it is there, and repeats what may have been lost.
pub const KEEP_ALIVE: Duration = Duration::from_millis(250);
/// So many bytes of data pay for one of the exchange.
pub const DATA_PER_EXCHANGE: u64 = 1000;
/// The bytes that UDP and IPv4 add to a packet.
pub const WRAPPING_BYTES: usize = 28;
/// The limit on saved-up sending credit, in bytes: counters of ten thousand applications to four peers.
const MAX_SAVED_BYTES: u64 = 1 << 20;

/// An action for the caller to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// To every peer.
    Send(Vec<u8>),
    /// To every server of this gate, or every one but the one that served it.
    Served { except: Option<Rc<str>>, application: Rc<str>, bytes: u64 },
}

/// Counts of one gate since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets, to each peer one.
    pub sent: u64,
    /// With what UDP and IP add.
    pub sent_bytes: u64,
    pub received: u64,
    pub refused: u64,
}

pub struct Exchange {
    me: GateId,
    key: Option<Key>,
    /// The number of receivers.
    peer_count: usize,
    report: Report,
    peers: Peers,
    names: HashMap<NameHash, Rc<str>>,
    sequence: u64,
    saved_bytes: u64,
    unpaid_data_bytes: u64,
    last_sent: Option<Duration>,
    last_refresh: Duration,
    traffic: Traffic,
}

impl Exchange {
    /// `me` is random; times are since any moment before the first call.
    pub fn new(me: GateId, key: Option<Key>, peer_count: usize) -> Self {
        Exchange {
            me,
            key,
            peer_count,
            report: Report::default(),
            peers: Peers::default(),
            names: HashMap::new(),
            sequence: 0,
            saved_bytes: 0,
            unpaid_data_bytes: 0,
            last_sent: None,
            last_refresh: Duration::ZERO,
            traffic: Traffic::default(),
        }
    }

    /// Adds the applications whose service elsewhere matters here, besides those charged here.
    pub fn know<'a>(&mut self, applications: impl IntoIterator<Item = &'a Rc<str>>) {
        for name in applications {
            self.names.entry(NameHash::of(name)).or_insert_with(|| name.clone());
        }
    }

    /// Applies another configuration; the state of gates and servers stays.
    pub fn reconfigure(&mut self, key: Option<Key>, peer_count: usize) {
        (self.key, self.peer_count) = (key, peer_count);
    }

    /// Advances time: `charged` has the counters of each server of this gate, by the server's name.
    pub fn tick(&mut self, charged: &[(Rc<str>, Charged)], now: Duration) -> Vec<Action> {
        self.peers.forget(now);
        self.report.retain(|server| charged.iter().any(|(name, _)| *name == *server));
        let mut actions = Vec::new();
        for (server, shown) in charged {
            for (application, bytes) in self.report.observe(server, shown) {
                self.know([&application]);
                self.save_up(bytes);
                if charged.len() > 1 {
                    actions.push(Action::Served { except: Some(server.clone()), application, bytes });
                }
            }
        }
        if self.peer_count > 0 {
            self.speak(now, &mut actions);
        }
        actions
    }

    /// Takes in a packet that arrived. Entries of applications unknown here are ignored.
    pub fn hear(&mut self, bytes: &[u8], now: Duration) -> Result<Vec<Action>, Refusal> {
        let heard = Packet::decode(bytes, self.key.as_ref()).and_then(|packet| match packet.gate {
            // All gates may have one list of peers, with their own address in it.
            me if me == self.me => Ok(Vec::new()),
            _ => self.peers.hear(&packet, now),
        });
        self.traffic.received += 1;
        self.traffic.refused += heard.is_err() as u64;
        let known = heard?.into_iter().filter_map(|(hash, bytes)| {
            let application = self.names.get(&hash)?.clone();
            Some(Action::Served { except: None, application, bytes })
        });
        Ok(known.collect())
    }

    /// Returns how many gates sent a packet within the last second.
    pub fn live_peers(&self) -> usize {
        self.peers.live()
    }

    pub fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// Notes that a packet was turned away before it was read.
    pub fn turned_away(&mut self) {
        self.traffic.received += 1;
        self.traffic.refused += 1;
    }

    fn save_up(&mut self, data_bytes: u64) {
        self.unpaid_data_bytes = self.unpaid_data_bytes.saturating_add(data_bytes);
        let saved_bytes = self.saved_bytes.saturating_add(self.unpaid_data_bytes / DATA_PER_EXCHANGE);
        self.saved_bytes = saved_bytes.min(MAX_SAVED_BYTES);
        self.unpaid_data_bytes %= DATA_PER_EXCHANGE;
    }

    /// Says what is new when that is paid for, and something in any case when the keep-alive is due.
    fn speak(&mut self, now: Duration, actions: &mut Vec<Action>) {
        let is_due = self.last_sent.is_none_or(|last| now.saturating_sub(last) >= KEEP_ALIVE);
        let is_paid = self.report.has_news() && self.saved_bytes >= self.cost_bytes(self.report.news());
        if !is_due && !is_paid {
            return;
        }
        let refresh = now.saturating_sub(self.last_refresh) >= KEEP_ALIVE;
        let entries = self.report.take_entries(refresh);
        if refresh {
            self.last_refresh = now;
        }
        self.saved_bytes = self.saved_bytes.saturating_sub(self.cost_bytes(entries.len()));
        self.last_sent = Some(now);
        let (first, rest) = entries.split_at(entries.len().min(MAX_ENTRIES));
        for entries in std::iter::once(first).chain(rest.chunks(MAX_ENTRIES)) {
            self.sequence += 1;
            let packet = Packet { gate: self.me, sequence: self.sequence, entries: entries.to_vec() };
            let bytes = packet.encode(self.key.as_ref());
            self.traffic.sent += self.peer_count as u64;
            self.traffic.sent_bytes += ((bytes.len() + WRAPPING_BYTES) * self.peer_count) as u64;
            actions.push(Action::Send(bytes));
        }
    }

    /// Returns the cost of sending so many entries to all peers.
    fn cost_bytes(&self, entries: usize) -> u64 {
        let packets = entries.div_ceil(MAX_ENTRIES).max(1);
        let bytes =
            packets * (packet::bytes_of(0, self.key.is_some()) + WRAPPING_BYTES) + entries * packet::ENTRY_BYTES;
        (bytes * self.peer_count) as u64
    }
}

#[cfg(test)]
mod tests;
