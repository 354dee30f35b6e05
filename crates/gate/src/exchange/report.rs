//! This gate's charges to its applications, and which of them are still to be sent to the peers.
//!
//! Servers report cumulative counters; one that shrinks was started again, and all it shows then is new. The totals
//! kept here only grow, whatever servers and configuration do: they are what the peers receive.

use std::collections::HashMap;
use std::rc::Rc;

use super::packet::{Entry, MAX_ENTRIES, NameHash};

/// How often an entry that has stopped changing is sent again, since any packet may be lost.
const REPEATS: u8 = 2;

/// Cumulative bytes by application, as one server has them.
pub type Charged = Vec<(Rc<str>, u64)>;

#[derive(Default)]
pub(super) struct Report {
    totals: Vec<Total>,
    by_name: HashMap<Rc<str>, usize>,
    /// Each server's last counters, by the number of the total.
    shown: HashMap<Rc<str>, HashMap<usize, u64>>,
    /// Where the next refresh goes on.
    grant: usize,
}

struct Total {
    application: NameHash,
    charged_bytes: u64,
    is_news: bool,
    repeats: u8,
}

impl Report {
    /// Takes in a server's counters; returns its charges since the last call.
    pub fn observe(&mut self, server: &Rc<str>, charged: &Charged) -> Charged {
        let mut shown = self.shown.remove(server).unwrap_or_default();
        let mut fresh = Vec::new();
        for (name, bytes) in charged {
            let number = self.number(name);
            let before = shown.insert(number, *bytes).unwrap_or(0);
            let more = bytes.checked_sub(before).unwrap_or(*bytes);
            if more > 0 {
                self.totals[number].charge(more);
                fresh.push((name.clone(), more));
            }
        }
        self.shown.insert(server.clone(), shown);
        fresh
    }

    /// Drops what other servers showed: they are gone.
    pub fn retain(&mut self, is_there: impl Fn(&Rc<str>) -> bool) {
        self.shown.retain(|server, _| is_there(server));
    }

    pub fn has_news(&self) -> bool {
        self.totals.iter().any(|total| total.is_news)
    }

    /// Returns how many entries are news.
    pub fn news(&self) -> usize {
        self.totals.iter().filter(|total| total.is_news).count()
    }

    /// Returns all changed entries, and marks them sent; with `refresh` the last packet is filled up with earlier ones.
    pub fn take_entries(&mut self, refresh: bool) -> Vec<Entry> {
        let mut entries: Vec<Entry> = self.totals.iter_mut().filter_map(Total::take_entry).collect();
        if refresh {
            let room = entries.len().next_multiple_of(MAX_ENTRIES).max(MAX_ENTRIES) - entries.len();
            self.repeat(room, &mut entries);
        }
        entries
    }

    /// Repeats each total at most once, round robin.
    fn repeat(&mut self, room: usize, entries: &mut Vec<Entry>) {
        let taken_now: Vec<NameHash> = entries.iter().map(|entry| entry.application).collect();
        let (count, begin) = (self.totals.len(), self.grant);
        let room = entries.len() + room;
        for step in 0..count {
            if entries.len() == room {
                return;
            }
            self.grant = (begin + step + 1) % count;
            let total = &mut self.totals[(begin + step) % count];
            if total.repeats > 0 && !taken_now.contains(&total.application) {
                total.repeats -= 1;
                entries.push(total.entry());
            }
        }
    }

    fn number(&mut self, name: &Rc<str>) -> usize {
        if let Some(&number) = self.by_name.get(name) {
            return number;
        }
        self.totals.push(Total { application: NameHash::of(name), charged_bytes: 0, is_news: false, repeats: 0 });
        self.by_name.insert(name.clone(), self.totals.len() - 1);
        self.totals.len() - 1
    }
}

impl Total {
    fn charge(&mut self, bytes: u64) {
        // It would take a server of 1 TB/s half a year.
        self.charged_bytes = self.charged_bytes.saturating_add(bytes);
        self.is_news = true;
    }

    fn take_entry(&mut self) -> Option<Entry> {
        let was_news = std::mem::take(&mut self.is_news);
        if was_news {
            self.repeats = REPEATS;
        }
        was_news.then(|| self.entry())
    }

    fn entry(&self) -> Entry {
        Entry { application: self.application, charged_bytes: self.charged_bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn charged(list: &[(&str, u64)]) -> Charged {
        list.iter().map(|&(name, bytes)| (name.into(), bytes)).collect()
    }

    #[test]
    fn packets_carry_changes_of_all_servers_together() {
        let mut report = Report::default();
        assert_eq!(report.observe(&"left".into(), &charged(&[("a", 10), ("b", 0)])), charged(&[("a", 10)]));
        assert_eq!(report.observe(&"right".into(), &charged(&[("a", 5)])), charged(&[("a", 5)]));
        assert_eq!(report.take_entries(false), [Entry { application: NameHash::of("a"), charged_bytes: 15 }]);
        assert!(!report.has_news());
        assert_eq!(report.observe(&"left".into(), &charged(&[("a", 12)])), charged(&[("a", 2)]));
        assert_eq!(report.take_entries(false), [Entry { application: NameHash::of("a"), charged_bytes: 17 }]);
    }

    #[test]
    fn a_server_whose_counters_restart_charges_what_they_show() {
        let mut report = Report::default();
        report.observe(&"left".into(), &charged(&[("a", 100)]));
        assert_eq!(report.observe(&"left".into(), &charged(&[("a", 30)])), charged(&[("a", 30)]));
        assert_eq!(report.take_entries(false)[0].charged_bytes, 130);
    }

    #[test]
    fn entries_are_repeated_twice_and_then_no_more() {
        let mut report = Report::default();
        report.observe(&"left".into(), &charged(&[("a", 1)]));
        assert_eq!(report.take_entries(true).len(), 1);
        assert_eq!(report.take_entries(true).len(), 1);
        assert_eq!(report.take_entries(false).len(), 0);
        assert_eq!(report.take_entries(true).len(), 1);
        assert_eq!(report.take_entries(true).len(), 0);
    }

    #[test]
    fn repetitions_of_many_applications_take_turns_a_packet_at_a_time() {
        let mut report = Report::default();
        let names: Vec<Rc<str>> = (0..3 * MAX_ENTRIES).map(|number| number.to_string().into()).collect();
        report.observe(&"left".into(), &names.iter().map(|name| (name.clone(), 1)).collect());
        assert_eq!(report.take_entries(false).len(), names.len());
        let mut repeated: Vec<NameHash> = Vec::new();
        for _ in 0..3 {
            let entries = report.take_entries(true);
            assert_eq!(entries.len(), MAX_ENTRIES);
            repeated.extend(entries.iter().map(|entry| entry.application));
        }
        repeated.sort();
        repeated.dedup();
        assert_eq!(repeated.len(), names.len(), "every application was repeated once");
    }
}
