//! One direction of the link, without I/O: packets and the time in, packets out.
//!
//! A virtual clock says when the link has sent all that was accepted. A packet is sent behind that, and arrives one delay
//! later; it is dropped where more bytes would wait than the queue holds. Loss strikes packets that were sent, as noise on
//! a line does. All follows from the seed and the packets' times; packets never overtake each other.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use crate::settings::Settings;

pub struct Direction {
    pub settings: Settings,
    random: u64,
    /// When the link will have sent all packets.
    free_at: Instant,
    under_way: VecDeque<(Instant, Vec<u8>)>,
    pub counts: Counts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub delivered: u64,
    pub delivered_bytes: u64,
    /// No room in the queue.
    pub dropped: u64,
    /// By chance.
    pub lost: u64,
    /// Delivered later than planned by more than a millisecond: the machine was too busy to be a link.
    pub late: u64,
}

const LATE: Duration = Duration::from_millis(1);

impl Direction {
    pub fn new(settings: Settings, seed: u64, now: Instant) -> Self {
        let (random, under_way) = (seed, VecDeque::new());
        Direction { settings, random, free_at: now, under_way, counts: Counts::default() }
    }

    /// Takes a packet in; gives its buffer back when the packet goes no further.
    pub fn accept(&mut self, packet: Vec<u8>, now: Instant) -> Option<Vec<u8>> {
        let Settings { delay, bytes_per_s, queue_bytes, loss } = self.settings;
        let begin = self.free_at.max(now);
        let waiting_bytes = (begin - now).as_secs_f64() * bytes_per_s;
        if waiting_bytes + packet.len() as f64 > queue_bytes.max(packet.len() as f64) {
            self.counts.dropped += 1;
            return Some(packet);
        }
        self.free_at = begin + Duration::from_secs_f64(packet.len() as f64 / bytes_per_s);
        if self.chance() < loss {
            self.counts.lost += 1;
            return Some(packet);
        }
        let last = self.under_way.back().map(|(arrival, _)| *arrival);
        let arrival = (self.free_at + delay).max(last.unwrap_or(now));
        self.under_way.push_back((arrival, packet));
        None
    }

    /// Returns the next packet that has arrived.
    pub fn arrived(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.next_arrival().filter(|arrival| *arrival <= now)?;
        let (arrival, packet) = self.under_way.pop_front()?;
        self.counts.delivered += 1;
        self.counts.delivered_bytes += packet.len() as u64;
        self.counts.late += u64::from(now - arrival > LATE);
        Some(packet)
    }

    pub fn next_arrival(&self) -> Option<Instant> {
        self.under_way.front().map(|(arrival, _)| *arrival)
    }

    /// Returns a number from 0 to 1, without 1 (splitmix64).
    fn chance(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A megabyte a second, so that a packet of 1000 bytes takes a millisecond.
    fn link(queue_bytes: f64, loss: f64) -> (Direction, Instant) {
        let now = Instant::now();
        let settings = Settings { delay: 90 * MS, bytes_per_s: 1e6, queue_bytes, loss };
        (Direction::new(settings, 7, now), now)
    }

    #[test]
    fn packets_come_one_after_another_at_the_rate_and_one_delay_later() {
        let (mut link, begun) = link(1e6, 0.0);
        (0..10).for_each(|_| assert!(link.accept(vec![0; 1000], begun).is_none()));
        for number in 1..=10 {
            assert_eq!(link.next_arrival(), Some(begun + (90 + number) * MS));
            assert!(link.arrived(begun + (90 + number) * MS - MS / 2).is_none());
            assert!(link.arrived(begun + (90 + number) * MS).is_some());
        }
        assert!(link.accept(vec![0; 1000], begun + 500 * MS).is_none());
        assert_eq!(link.next_arrival(), Some(begun + 591 * MS), "an idle link earns no credit");
    }

    #[test]
    fn the_queue_holds_its_bytes_and_no_more() {
        let (mut link, begun) = link(5000.0, 0.0);
        let accepted = (0..10).filter(|_| link.accept(vec![0; 1000], begun).is_none()).count();
        assert_eq!((accepted, link.counts.dropped), (5, 5));
        assert!(link.accept(vec![0; 1000], begun + MS).is_none(), "the first has been sent");
    }

    #[test]
    fn loss_is_the_part_asked_for_and_the_same_for_the_same_seed() {
        let lost = || {
            let (mut link, begun) = link(1e9, 0.01);
            let kept: Vec<bool> = (0..100_000).map(|_| link.accept(vec![0; 100], begun).is_none()).collect();
            (link.counts.lost, kept)
        };
        let (count, kept) = lost();
        assert!((900..1100).contains(&count), "{count} of 100000");
        assert_eq!(lost(), (count, kept));
    }

    #[test]
    fn a_shorter_delay_lets_no_packet_overtake_another() {
        let (mut link, begun) = link(1e6, 0.0);
        link.accept(vec![1; 1000], begun);
        link.settings.delay = MS;
        link.accept(vec![2; 1000], begun);
        assert!(link.arrived(begun + 50 * MS).is_none());
        let come: Vec<u8> = std::iter::from_fn(|| link.arrived(begun + 91 * MS)).map(|packet| packet[0]).collect();
        assert_eq!(come, [1, 2]);
    }
}
