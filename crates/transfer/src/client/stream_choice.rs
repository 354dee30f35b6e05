//! How many streams the process has to each node: the number asked for, or what the measured link needs.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use policy::streams;

pub(super) struct StreamChoice {
    asked: Option<u32>,
    nodes: Mutex<HashMap<String, Link>>,
}

/// What is known of the link to a node.
#[derive(Default)]
struct Link {
    /// The least that was measured.
    round_trip: Option<Duration>,
    /// Pairs of a process and a node that may use it at once; 0: not known.
    sharers: u32,
}

impl StreamChoice {
    pub fn new(asked: Option<u32>) -> Self {
        StreamChoice { asked, nodes: Mutex::default() }
    }

    pub fn of(&self, node: &str) -> u32 {
        self.count(self.nodes().entry(node.to_owned()).or_default())
    }

    /// Notes how many may share the link to the node; returns the number of streams then.
    pub fn share(&self, node: &str, sharers: u32) -> u32 {
        let mut nodes = self.nodes();
        let link = nodes.entry(node.to_owned()).or_default();
        link.sharers = sharers;
        self.count(link)
    }

    /// Notes a time there and back; returns the number of streams then.
    pub fn measured(&self, node: &str, round_trip: Duration) -> u32 {
        let mut nodes = self.nodes();
        let link = nodes.entry(node.to_owned()).or_default();
        link.round_trip = Some(link.round_trip.map_or(round_trip, |least| least.min(round_trip)));
        self.count(link)
    }

    /// Returns the least time there and back that was measured; zero where none was.
    pub fn round_trip(&self, node: &str) -> Duration {
        self.nodes().get(node).and_then(|link| link.round_trip).unwrap_or_default()
    }

    /// What only asks something of a node, and does not say who else does, needs no more streams than a near link.
    fn count(&self, link: &Link) -> u32 {
        let round_trip_s = match link.round_trip {
            Some(round_trip) if link.sharers > 0 => round_trip.as_secs_f64(),
            _ => 0.0,
        };
        self.asked.unwrap_or_else(|| streams::count(round_trip_s, link.sharers))
    }

    fn nodes(&self) -> MutexGuard<'_, HashMap<String, Link>> {
        self.nodes.lock().expect("nothing panics while it holds what is known of links")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: Duration = Duration::from_millis(180);

    #[test]
    fn a_link_is_near_until_it_was_measured_and_its_sharers_are_known() {
        let counts = StreamChoice::new(None);
        let near = counts.of("far:1");
        assert_eq!(counts.measured("far:1", FAR), near);
        assert!(counts.share("far:1", 1) > near);
        assert!(counts.of("far:1") > counts.share("far:1", 4));
        assert_eq!(counts.share("near:1", 1), near);
    }

    #[test]
    fn the_least_measured_time_counts() {
        let counts = StreamChoice::new(None);
        let near = counts.share("n:1", 1);
        counts.measured("n:1", Duration::from_micros(200));
        assert_eq!(counts.measured("n:1", FAR), near);
    }

    #[test]
    fn a_number_that_is_asked_for_stands() {
        let counts = StreamChoice::new(Some(3));
        counts.share("far:1", 1);
        assert_eq!(counts.measured("far:1", FAR), 3);
    }
}
