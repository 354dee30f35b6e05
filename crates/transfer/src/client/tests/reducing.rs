//! Reduction at the client: what is sent for segments that nodes have, or do not have.

use policy::reduction::{Choice, Conditions};

use super::*;
use crate::client::{Reducer, ZEROS};

/// Fingerprints segments by two checksums and does not compress.
pub struct PlainReducer;

/// The models that clients of all tests were sent.
static MODELS: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl Reducer for PlainReducer {
    fn use_model(&self, model: &[u8]) {
        MODELS.lock().unwrap().push(model.to_owned());
    }

    fn fingerprint(&self, _: &format::Settings, segment: &[u8]) -> format::Fingerprint {
        let mut name = ZEROS;
        if segment.iter().any(|byte| *byte != 0) {
            name.0[..8].copy_from_slice(&format::checksum(segment).to_le_bytes());
            name.0[31] = 1;
        }
        name
    }

    fn digest(&self, entries: &[format::SegmentEntry]) -> [u8; 32] {
        let bytes: Vec<u8> =
            entries.iter().flat_map(|entry| [&entry.fingerprint.0[..], &entry.bytes.to_le_bytes()].concat()).collect();
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&format::checksum(&bytes).to_le_bytes());
        digest
    }

    fn encode(&self, _: &format::Settings, segments: &[(format::Fingerprint, &[u8])]) -> Vec<format::Block> {
        let block = |(fingerprint, bytes): &(format::Fingerprint, &[u8])| format::Block {
            header: format::BlockHeader {
                kind: format::BlockKind::Data,
                codec: format::CodecId::None,
                cipher: 0,
                level: 0,
                filters: [0; 4],
                key_id: 0,
                group: 0,
                record_length: 0,
                phase: 0,
                element: format::ElementId::U8,
                segments: 1,
                raw_bytes: bytes.len() as u32,
                stored_bytes: bytes.len() as u32,
                offset: 0,
                checksum: format::checksum(bytes),
            },
            segments: vec![format::SegmentEntry { fingerprint: *fingerprint, bytes: bytes.len() as u32 }],
            payload: bytes.to_vec(),
        };
        segments.iter().map(block).collect()
    }
}

#[test]
fn reduced_here_equal_segments_travel_once_and_zeros_not_at_all() {
    let (_world, nodes) = nodes(1);
    let client = reducing(settings(&nodes));
    let file = open(&client, READ | WRITE);
    let mut bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 8192) as u8 | 1).collect();
    bytes[400_000..600_000].fill(0);
    file.write(&[source(100, &bytes)]).unwrap();
    nodes[0].break_connections();
    file.write(&[source(2 << 20, &bytes)]).unwrap();
    nodes[0].break_connections();
    file.write(&[source(4 << 20, &bytes)]).unwrap();
    for offset in [100, 2 << 20, 4 << 20] {
        assert!(read(&file, offset, bytes.len()) == bytes);
    }
    let sent = nodes[0].does.written_bytes.load(Ordering::SeqCst);
    assert!(sent < 5 << 19, "{sent} bytes travelled for three times a mebibyte of which a fifth is zeros");
    file.detach(1).unwrap();
}

#[test]
fn what_is_written_over_an_offer_without_answer_stays_above_it_when_another_node_process_stamps_it() {
    let (_world, nodes) = nodes(1);
    let (client, does) = (reducing(settings(&nodes)), &nodes[0].does);
    let file = open(&client, WRITE);
    does.silent_on_offers.store(true, Ordering::SeqCst);
    file.write(&[source(0, &vec![1; 1 << 20])]).unwrap();
    while does.digest_offers.load(Ordering::SeqCst) < u64::from(STREAMS) {
        std::thread::sleep(Duration::from_millis(5));
    }
    file.write(&[source(0, &[2; 5000])]).unwrap();
    while does.written_bytes.load(Ordering::SeqCst) < 5000 {
        std::thread::sleep(Duration::from_millis(5));
    }
    // Its answer arrives.
    std::thread::sleep(Duration::from_millis(50));
    nodes[0].crash();
    does.silent_on_offers.store(false, Ordering::SeqCst);
    nodes[0].revive();
    let mut expected = vec![1; 1 << 20];
    expected[..5000].fill(2);
    file.flush().unwrap();
    let mut bytes = Vec::new();
    nodes[0].bytes(1, STRIPE_BYTES, &mut bytes);
    assert!(bytes == expected, "the older write covers the newer");
    file.detach(1).unwrap();
}

#[test]
fn the_model_of_a_store_is_asked_for_once_and_used() {
    let (_world, nodes) = nodes(1);
    *nodes[0].does.model.lock().unwrap() = b"the model of this test".to_vec();
    let count = || MODELS.lock().unwrap().iter().filter(|model| *model == b"the model of this test").count();
    let client = reducing(settings(&nodes));
    for _ in 0..2 {
        open(&client, READ | WRITE).detach(1).unwrap();
        assert_eq!(count(), 1);
    }
}

pub fn reducing(settings: Settings) -> Client {
    reducing_by(settings, Adaptive::fixed(End::Client))
}

fn reducing_by(settings: Settings, policy: Adaptive) -> Client {
    Client::new(settings, Some(plain(PolicySource::Known(Box::new(policy)))))
}

pub fn plain(policy: PolicySource) -> AdaptiveReducer {
    AdaptiveReducer { reducer: Arc::new(PlainReducer), policy }
}

fn in_large_stripes(nodes: &[Arc<Node>]) -> Settings {
    Settings { stripe_bytes: 4 << 20, ..settings(nodes) }
}

/// Returns segments that all differ, and differ from those of other numbers.
pub fn distinct(segments: u64, number: u64) -> Vec<u8> {
    (0..segments).flat_map(|at| [1 + number as u8, at as u8].repeat(SEGMENT_BYTES as usize / 2)).collect()
}

#[test]
fn lists_are_sent_once_to_a_node_and_again_when_it_has_forgotten() {
    let (_world, nodes) = nodes(1);
    let clients = [reducing(in_large_stripes(&nodes)), reducing(in_large_stripes(&nodes))];
    let files: Vec<File> = clients.iter().map(|client| open(client, READ | WRITE)).collect();
    let (many, few) = (distinct(100, 0), distinct(7, 1));
    let sent_in_full = |file: usize, offset: u64, bytes: &[u8]| {
        let before = nodes[0].does.offered_names.load(Ordering::SeqCst);
        files[file].write(&[source(offset, bytes)]).unwrap();
        nodes[0].does.offered_names.load(Ordering::SeqCst) - before
    };
    assert_eq!(sent_in_full(0, 0, &many), 100);
    assert_eq!(sent_in_full(1, 1 << 20, &many), 0);
    assert_eq!(sent_in_full(0, 2 << 20, &many), 0);
    assert_eq!((sent_in_full(0, 3 << 20, &few), sent_in_full(1, 4 << 20, &few)), (7, 7), "few are offered at once");
    nodes[0].make_durable();
    clients.iter().for_each(wait_until_nothing_is_kept);
    nodes[0].crash();
    nodes[0].revive();
    assert_eq!(sent_in_full(1, 5 << 20, &many), 100);
    assert_eq!(sent_in_full(0, 6 << 20, &many), 0);
    for offset in [0, 1 << 20, 2 << 20, 5 << 20, 6 << 20] {
        assert!(read(&files[0], offset, many.len()) == many, "at {offset}");
    }
}

/// Returns the digests and full lists that a client with reduction sent, over one stream, for frames of ten segments
/// each, of which the node knows none or all.
fn digests_and_lists(client: &Client, node: &Node, numbers: std::ops::Range<u64>) -> (u64, u64) {
    let counts = || [&node.does.digest_offers, &node.does.offered_names].map(|count| count.load(Ordering::SeqCst));
    let before = counts();
    let file = open(client, WRITE);
    for number in numbers {
        file.write(&[source(number * 10 * SEGMENT_BYTES as u64, &distinct(10, number))]).unwrap();
        file.flush().unwrap();
    }
    file.detach(1).unwrap();
    let after = counts();
    (after[0] - before[0], after[1] - before[1])
}

#[test]
fn digests_that_never_hit_are_hardly_sent_and_those_that_hit_always() {
    let (_world, nodes) = nodes(1);
    let settings = Settings { streams: Some(1), stripe_bytes: 64 << 20, ..settings(&nodes) };
    let clients = [reducing(settings.clone()), reducing(settings)];
    let alone = digests_and_lists(&clients[0], &nodes[0], 0..100);
    assert_eq!(alone, (12, 1000), "of a hundred frames that no other process writes");
    let after_another = digests_and_lists(&clients[1], &nodes[0], 0..100);
    assert_eq!(after_another, (100, 0), "of the same by another");
    let again = digests_and_lists(&clients[0], &nodes[0], 0..100);
    assert_eq!(again, (87, 130), "one that hits makes all ask again");
}

#[test]
fn a_node_that_wants_more_segments_than_there_are_gets_no_more() {
    let window = Arc::new(window::Window::new(8 << 20, Arc::new(waker::Waker::new().unwrap())));
    let mut payload = window::Payload::new(&window);
    assert!(payload.append(&distinct(3, 0), 0));
    let extents = vec![crate::message::Extent { offset: 0, bytes: 3 * SEGMENT_BYTES as u64 }];
    let contents = reduce::divide(extents, payload, SEGMENT_BYTES);
    let frame::Content::Whole(whole) = &contents[0] else { panic!("all segments are whole") };
    let settings = format::Settings::new(format::StoreId::default());
    whole.fingerprint(&PlainReducer, &settings);
    assert_eq!(whole.blocks(&[2, 7], &PlainReducer, &settings).len(), 1);
    assert_eq!(whole.blocks(&[1; 1000], &PlainReducer, &settings).len(), 3);
}

/// Writes frames until a time has passed; returns how many of their bytes travelled, as a share.
fn travelled_share(client: &Client, node: &Node, seconds: u64, mut content: impl FnMut(u64) -> Vec<u8>) -> f64 {
    let before = node.does.written_bytes.load(Ordering::SeqCst);
    let file = open(client, WRITE);
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut written = 0;
    while Instant::now() < end {
        let bytes = content(written);
        // The fake node copies all it has at each checkpoint.
        file.write(&[source(written % (8 << 20), &bytes)]).unwrap();
        written += bytes.len() as u64;
    }
    file.commit().unwrap();
    file.detach(1).unwrap();
    (node.does.written_bytes.load(Ordering::SeqCst) - before) as f64 / written as f64
}

#[test]
fn a_slow_link_carries_fingerprints_while_data_repeat_and_bytes_while_they_do_not() {
    let (_world, nodes) = nodes(1);
    nodes[0].does.bytes_per_s.store(20_000_000, Ordering::SeqCst);
    let conditions = Conditions { client_cores_idle: 1.0, ..Conditions::UNKNOWN };
    let settings = Settings { streams: Some(1), window_bytes: 8 << 20, ..in_large_stripes(&nodes) };
    let client = reducing_by(settings, Adaptive::new(Choice::Auto, conditions));
    let mut random = random::Random::new(7);
    let mut unique = |_| random.bytes(1 << 20);
    let repeated = unique(0);
    let once = travelled_share(&client, &nodes[0], 2, &mut unique);
    assert!(once > 0.9, "{once} of unique bytes");
    // Two seconds are enough on a quiet machine. On a busy one a trial may seem slower, and the next comes ten later.
    let repeats_are_left_out = || travelled_share(&client, &nodes[0], 1, |_| repeated.clone()) < 0.2;
    eventually("less than a fifth of repeated bytes travels", repeats_are_left_out);
}
