//! The counters received from the other gates.
//!
//! Counters are cumulative, so a packet late or doubled adds nothing, and a lost one is made up for by the next. The
//! first counter that a gate sends of an application is the base: bytes served before this gate listened are not
//! charged. The same holds after a silence, for which a gate is forgotten.

use std::collections::HashMap;
use std::time::Duration;

use super::packet::{GateId, NameHash, Packet, Refusal};

/// A gate unheard of for so long takes no part any more.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(1);
/// The most gates kept in mind, the silent ones included.
pub const MAX_PEERS: usize = 1024;
/// The most applications kept in mind of one gate.
pub const MAX_APPLICATIONS: usize = 16_384;

#[derive(Default)]
pub(super) struct Peers {
    known: HashMap<GateId, Peer>,
}

struct Peer {
    heard: Duration,
    /// The highest received; kept over a silence, so that replayed packets are ignored.
    sequence: u64,
    is_silent: bool,
    charged_bytes: HashMap<NameHash, u64>,
}

impl Peers {
    /// Returns the packet's gate's new charges since its last packet.
    pub fn hear(&mut self, packet: &Packet, now: Duration) -> Result<Vec<(NameHash, u64)>, Refusal> {
        if !self.known.contains_key(&packet.gate) {
            self.admit(packet.gate, now)?;
        }
        let peer = self.known.get_mut(&packet.gate).expect("just admitted");
        if peer.is_silent && packet.sequence <= peer.sequence {
            return Ok(Vec::new());
        }
        if packet.sequence > peer.sequence {
            (peer.sequence, peer.heard, peer.is_silent) = (packet.sequence, now, false);
        }
        let news = packet.entries.iter().filter_map(|entry| {
            let more = peer.learn(entry.application, entry.charged_bytes);
            (more > 0).then_some((entry.application, more))
        });
        Ok(news.collect())
    }

    /// Forgets peers that have been silent for too long.
    pub fn forget(&mut self, now: Duration) {
        for peer in self.known.values_mut().filter(|peer| !peer.is_silent) {
            if now.saturating_sub(peer.heard) > SILENCE_TIMEOUT {
                peer.is_silent = true;
                peer.charged_bytes = HashMap::new();
            }
        }
    }

    /// Returns the gates that are not silent.
    pub fn live(&self) -> usize {
        self.known.values().filter(|peer| !peer.is_silent).count()
    }

    /// When all places are taken, the longest silent gate gives up its.
    fn admit(&mut self, gate: GateId, now: Duration) -> Result<(), Refusal> {
        if self.known.len() >= MAX_PEERS {
            let silent = self.known.iter().filter(|(_, peer)| peer.is_silent);
            let longest = silent.min_by_key(|(_, peer)| peer.heard).map(|(gate, _)| *gate);
            self.known.remove(&longest.ok_or(Refusal::TooMany)?);
        }
        let peer = Peer { heard: now, sequence: 0, is_silent: false, charged_bytes: HashMap::new() };
        self.known.insert(gate, peer);
        Ok(())
    }
}

impl Peer {
    /// Returns the bytes beyond the last counter; the first counter is the base. Applications above the limit are
    /// passed over: they are shared locally only.
    fn learn(&mut self, application: NameHash, charged_bytes: u64) -> u64 {
        let is_full = self.charged_bytes.len() >= MAX_APPLICATIONS;
        match self.charged_bytes.get_mut(&application) {
            Some(known) => {
                let more = charged_bytes.saturating_sub(*known);
                *known = charged_bytes.max(*known);
                more
            }
            None if is_full => 0,
            None => {
                self.charged_bytes.insert(application, charged_bytes);
                0
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::packet::Entry;
    use super::*;

    const A: NameHash = NameHash(1);

    fn packet(gate: u64, sequence: u64, charged_bytes: u64) -> Packet {
        Packet { gate: GateId(gate), sequence, entries: vec![Entry { application: A, charged_bytes }] }
    }

    fn ms(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    #[test]
    fn packets_doubled_late_or_lost_change_nothing_in_the_end() {
        let mut peers = Peers::default();
        let mut heard = 0;
        // The third is lost, the second comes last and the fourth twice.
        for (sequence, bytes) in [(1, 100), (4, 130), (4, 130), (2, 110), (5, 145)] {
            let news = peers.hear(&packet(7, sequence, bytes), ms(sequence)).unwrap();
            heard += news.iter().map(|(_, bytes)| bytes).sum::<u64>();
        }
        assert_eq!(heard, 45);
    }

    #[test]
    fn what_was_served_before_the_first_word_is_not_charged() {
        let mut peers = Peers::default();
        assert_eq!(peers.hear(&packet(7, 900, 1 << 40), ms(0)), Ok(vec![]));
        assert_eq!(peers.hear(&packet(7, 901, (1 << 40) + 5), ms(25)), Ok(vec![(A, 5)]));
    }

    #[test]
    fn a_silent_gate_is_forgotten_and_its_silence_not_charged() {
        let mut peers = Peers::default();
        peers.hear(&packet(7, 1, 10), ms(0)).unwrap();
        peers.forget(ms(1000));
        assert_eq!(peers.live(), 1);
        peers.forget(ms(1001));
        assert_eq!(peers.live(), 0);
        assert_eq!(peers.hear(&packet(7, 2, 1_000_000), ms(2000)), Ok(vec![]));
        assert_eq!(peers.live(), 1);
        assert_eq!(peers.hear(&packet(7, 3, 1_000_001), ms(2025)), Ok(vec![(A, 1)]));
    }

    #[test]
    fn old_packets_played_back_after_a_silence_say_nothing() {
        let mut peers = Peers::default();
        (1..=9).for_each(|n| drop(peers.hear(&packet(7, n, n * 10), ms(n)).unwrap()));
        peers.forget(ms(5000));
        assert!((1..=9).all(|n| peers.hear(&packet(7, n, n * 10), ms(5000 + n)) == Ok(vec![])));
        assert_eq!(peers.live(), 0);
    }

    #[test]
    fn a_gate_started_again_is_another_gate() {
        let mut peers = Peers::default();
        peers.hear(&packet(7, 1, 1 << 30), ms(0)).unwrap();
        assert_eq!(peers.hear(&packet(8, 1, 0), ms(10)), Ok(vec![]));
        assert_eq!(peers.hear(&packet(8, 2, 50), ms(20)), Ok(vec![(A, 50)]));
    }

    #[test]
    fn memory_is_bounded_whatever_is_said() {
        let mut peers = Peers::default();
        (0..MAX_PEERS as u64).for_each(|gate| drop(peers.hear(&packet(gate, 1, 1), ms(0)).unwrap()));
        assert_eq!(peers.hear(&packet(1 << 40, 1, 1), ms(1)), Err(Refusal::TooMany));
        peers.forget(ms(2000));
        assert_eq!(peers.hear(&packet(1 << 40, 1, 1), ms(2000)), Ok(vec![]));
        assert_eq!(peers.known.len(), MAX_PEERS);

        let entries = (0..2 * MAX_APPLICATIONS as u64).map(|n| Entry { application: NameHash(n), charged_bytes: n });
        peers.hear(&Packet { gate: GateId(1 << 40), sequence: 2, entries: entries.collect() }, ms(2001)).unwrap();
        assert_eq!(peers.known[&GateId(1 << 40)].charged_bytes.len(), MAX_APPLICATIONS);
    }
}
