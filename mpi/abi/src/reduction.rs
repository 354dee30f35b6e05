//! Where this process's segments are reduced: what is known of link, node and machine before the first frame.
//!
//! With `auto` they are measured once, while the first file is opened; the policy assumes data that simulations usually
//! write, and learns from the frames (docs/models.md).

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use format::Settings as StoreSettings;
use policy::reduction::{Adaptive, Choice, Conditions, End};
use transfer::client::{AdaptiveReducer, PolicySource, Reducer, Reduction, Settings};
use transfer::{Link, without_signals};

use crate::reducer::SegmentReducer;

const SAMPLE_BYTES: usize = 1 << 20;
const SEGMENT_BYTES: usize = 8 << 10;

/// The part of the first call's time that measuring may take, and its most: a node that answers within it is asked, and
/// one that does not fails when it is used.
const TIMEOUT_PART: u32 = 8;
const MAX_TIMEOUT: Duration = Duration::from_secs(2);

/// Returns the reducer that the settings ask for; none where nodes reduce. With `auto` a measurement begins.
pub fn reducer(settings: &Settings) -> Option<AdaptiveReducer> {
    let policy = match settings.reduction {
        Reduction::Node => return None,
        Reduction::Client => PolicySource::Known(Box::new(Adaptive::fixed(End::Client))),
        Reduction::Auto => {
            let measurement = Measurement::begin(settings);
            PolicySource::Measured(Arc::new(move || Adaptive::new(Choice::Auto, measurement.conditions())))
        }
    };
    Some(AdaptiveReducer { reducer: Arc::new(SegmentReducer), policy })
}

/// A measurement in a thread of its own, since the time of resolving, connecting and the node itself is not known
/// beforehand; after the timeout the thread is left alone.
struct Measurement {
    measured: Mutex<Receiver<Conditions>>,
    until: Instant,
}

impl Measurement {
    fn begin(settings: &Settings) -> Self {
        let (sender, measured) = channel();
        let until = Instant::now() + (settings.timeout / TIMEOUT_PART).min(MAX_TIMEOUT);
        let (nodes, credentials) = (settings.nodes.clone(), settings.credentials_of_nodes().clone());
        let measure = move || {
            if let Some(link) = nodes.first().and_then(|node| Link::measure(node, &credentials).ok()) {
                // The receiver is gone after the timeout.
                let _ = sender.send(conditions(&link, nodes.len()));
            }
        };
        // Where no thread can be had, nothing is measured: the sender is gone with the closure.
        let _ = without_signals(|| thread::Builder::new().name("thalweg-link".into()).spawn(measure));
        Measurement { measured: Mutex::new(measured), until }
    }

    /// A node that does not answer in time is taken for one that is never in the way, until frames show it.
    fn conditions(&self) -> Conditions {
        let measured = self.measured.lock().expect("receiving does not panic");
        let left = self.until.saturating_duration_since(Instant::now());
        measured.recv_timeout(left).unwrap_or(Conditions::UNKNOWN)
    }
}

fn conditions(link: &Link, nodes: usize) -> Conditions {
    // Of the machine: I/O threads are free of the rank's binding.
    let cores = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }.max(1) as f64;
    let neighbours = ranks(&["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"]);
    let client_cores_idle = (cores / neighbours - 1.0).max(0.0);
    weigh_by(link, client_cores_idle);
    let (fingerprint_bytes_per_s, encode_bytes_per_s) = reducing_rates();
    Conditions {
        link_bytes_per_s: link.bytes_per_s,
        fingerprint_bytes_per_s,
        encode_bytes_per_s,
        client_cores_idle,
        node_cores: f64::from(link.workers.max(1)),
        node_clients: (ranks(&["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"]) / nodes as f64).max(1.0),
        ..Conditions::UNKNOWN
    }
}

/// Lets mode `performance` weigh this link and these cores, where this process encodes.
fn weigh_by(link: &Link, idle_cores: f64) {
    let (bytes_per_second, cores) = (link.bytes_per_s as f32, idle_cores.max(1.0) as f32);
    let usual = policy::compression::Conditions::default();
    segment::set_conditions(policy::compression::Conditions { bytes_per_second, cores, ..usual });
}

/// Returns how many processes the launcher started, from its variables; 1 without any.
fn ranks(variables: &[&str]) -> f64 {
    let stated = variables.iter().find_map(|variable| std::env::var(variable).ok()?.parse().ok());
    stated.unwrap_or(1.0f64).max(1.0)
}

/// Returns one core's rates of fingerprinting and of encoding, in bytes a second, on bytes that repeat nowhere and
/// compress badly, as a store with the usual settings reduces them.
fn reducing_rates() -> (f64, f64) {
    let settings = StoreSettings::new(Default::default());
    let sample = unlike_bytes();
    let begun = Instant::now();
    let segments: Vec<_> =
        sample.chunks(SEGMENT_BYTES).map(|segment| (SegmentReducer.fingerprint(&settings, segment), segment)).collect();
    let fingerprinted = begun.elapsed();
    let blocks = SegmentReducer.encode(&settings, &segments);
    assert!(!blocks.is_empty());
    let rate = |time: Duration| SAMPLE_BYTES as f64 / time.as_secs_f64().max(1e-9);
    (rate(fingerprinted), rate(begun.elapsed() - fingerprinted))
}

/// Doubles that wander, the commonest content there is.
fn unlike_bytes() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let value = |index| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        index as f64 + (state >> 40) as f64 * 1e-6
    };
    (0..SAMPLE_BYTES / 8).map(value).flat_map(f64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(settings: &Settings) -> End {
        reducer(settings).map_or(End::Node, |reducer| match reducer.policy {
            PolicySource::Known(policy) => policy.end(),
            PolicySource::Measured(measured) => measured().end(),
        })
    }

    #[test]
    fn a_slow_link_makes_idle_clients_reduce_and_loopback_does_not() {
        let link = |bytes_per_s| Link { bytes_per_s, workers: 16 };
        let end = |bytes_per_s| Adaptive::new(Choice::Auto, conditions(&link(bytes_per_s), 1)).end();
        assert_eq!(end(1e6), End::Client);
        assert_eq!(end(100e9), End::Node);
    }

    #[test]
    fn what_was_asked_for_is_not_measured() {
        let settings =
            Settings { reduction: Reduction::Client, nodes: vec!["192.0.2.1:1".into()], ..Settings::default() };
        assert_eq!(end(&settings), End::Client);
        assert!(reducer(&Settings { reduction: Reduction::Node, ..settings }).is_none());
    }

    #[test]
    fn a_node_that_is_silent_is_measured_for_a_part_of_the_timeout() {
        // Nothing accepts: the kernel takes the connection.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let nodes = vec![listener.local_addr().unwrap().to_string()];
        let timeout = Duration::from_secs(4);
        let settings = Settings { reduction: Reduction::Auto, nodes, timeout, ..Settings::default() };
        let begun = Instant::now();
        assert_eq!(end(&settings), End::Node);
        assert!(begun.elapsed() < Duration::from_secs(2), "{:?}", begun.elapsed());
    }

    #[test]
    fn without_an_answer_the_node_reduces() {
        let settings =
            Settings { reduction: Reduction::Auto, nodes: vec!["127.0.0.1:1".into()], ..Settings::default() };
        assert_eq!(end(&settings), End::Node);
    }
}
