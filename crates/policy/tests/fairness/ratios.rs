//! One server: achieved against desired ratios, and the cost of waiting.

use thalweg_policy::fairness::{Kind, Settings};

use crate::scenes::*;
use crate::simulator::*;

/// Whether `got` is within `part` of `wanted`.
fn near(got: f64, wanted: f64, part: f64) -> bool {
    (got / wanted - 1.0).abs() <= part
}

#[test]
fn ratios_hold_up_to_32_to_1_with_many_outstanding() {
    for bytes in [64 * KIB, 256 * KIB] {
        for weight in [1, 2, 4, 8, 16, 32] {
            let clients = [crowd(0, 32, bytes, NORMAL, &[0]), crowd(1, 32, bytes, NORMAL, &[0])].concat();
            let mut scene = scene(&[weight, 1], clients);
            let ours = run(&scene);
            let allowed = if weight <= 8 { 0.01 } else { 0.02 };
            assert!(near(ours.ratio(), weight.into(), allowed), "{weight}:1 became {:.3}", ours.ratio());
            scene.settings = settings(Kind::Fifo);
            let fifo = run(&scene);
            assert!(ours.total() >= 0.99 * fifo.total(), "{weight}:1 gave {:.2} MB/s", ours.total_rate());
        }
    }
}

#[test]
fn mixed_sizes_share_bytes_not_requests() {
    let clients = [crowd(0, 32, 64 * KIB, NORMAL, &[0]), crowd(1, 32, 256 * KIB, NORMAL, &[0])].concat();
    let ours = run(&scene(&[8, 1], clients));
    assert!(near(ours.ratio(), 8.0, 0.01), "{:.3}", ours.ratio());
}

/// The heavy application keeps 4 requests outstanding, which is where ratios used to die.
fn few_outstanding(server: Work, think: Think, settings_of: impl Fn(Kind) -> Settings) {
    let heavy = crowd(0, 4, 64 * KIB, think, &[0]);
    let mut scene = scene(&[16, 1], heavy.clone());
    scene.servers = vec![server];
    scene.settings = settings_of(Kind::Anticipating);
    let solo = run(&scene).rate(0);
    scene.clients = [heavy, crowd(1, 32, 64 * KIB, NORMAL, &[0])].concat();
    let ours = run(&scene);
    scene.settings = settings(Kind::Fifo);
    let fifo = run(&scene);
    let wanted = solo.min(fifo.total_rate() * 16.0 / 17.0);
    let said = format!("heavy {:.2} of {wanted:.2}, total {:.2} MB/s", ours.rate(0), ours.total_rate());
    assert!(ours.rate(0) >= 0.9 * wanted && ours.total() >= 0.95 * fifo.total(), "{said}");
}

#[test]
fn four_outstanding_keep_16_to_1_where_four_are_enough_for_the_server() {
    for (min_ns, max_ns) in [(50_000, 100_000), (200_000, 400_000), (1_000_000, 2_000_000)] {
        few_outstanding(LINK, Think::between(min_ns, max_ns), settings);
        few_outstanding(LINK, Think::between(min_ns, max_ns), |kind| fixed(kind, 8 * 64 * KIB));
    }
    for parallel in [1, 2] {
        few_outstanding(Work::Parallel { rate: 100.0 * MB_PER_S, parallel, jitter: 0.3 }, NORMAL, settings);
    }
}

/// Where four are not enough the shares give way, never the throughput.
#[test]
fn waiting_costs_no_more_than_its_budget() {
    for parallel in [4, 8, 16] {
        for think in [NORMAL, Think::between(4 * MS, 6 * MS), ROUGH] {
            let clients = [crowd(0, 4, 64 * KIB, think, &[0]), crowd(1, 64, 64 * KIB, NORMAL, &[0])].concat();
            let mut scene = scene(&[16, 1], clients);
            scene.servers = vec![Work::Parallel { rate: 100.0 * MB_PER_S, parallel, jitter: 0.3 }];
            let ours = run(&scene).total();
            scene.settings = settings(Kind::Fifo);
            let fifo = run(&scene).total();
            assert!(ours >= 0.94 * fifo, "{parallel} at a time, {} ns: {:.3}", think.max_ns, ours / fifo);
        }
    }
}

#[test]
fn sixteen_equal_applications_get_the_same() {
    let clients = (0..16).flat_map(|app| crowd(app, 4 + 3 * (app % 5), 64 * KIB, NORMAL, &[0])).collect();
    let ours = run(&scene(&[1; 16], clients));
    let sum: f64 = ours.bytes.iter().map(|&bytes| bytes as f64).sum();
    let squares: f64 = ours.bytes.iter().map(|&bytes| (bytes as f64).powi(2)).sum();
    assert!(sum * sum / (16.0 * squares) >= 0.999, "{:?}", ours.bytes);
}

/// Slices of uploads: 32 streams each, four slices ahead, arriving in bursts at the speed of the clients' link.
#[test]
fn uploads_in_bursts_keep_the_ratio() {
    for weight in [4, 8, 16, 32] {
        let think = Think::between(100_000, 600_000);
        let stream = |app| Client { burst: 2, think, ..Client::new(app, 4, 64 * KIB) };
        let ours = run(&scene(&[weight, 1], [vec![stream(0); 32], vec![stream(1); 32]].concat()));
        let allowed = if weight <= 8 { 0.01 } else { 0.02 };
        assert!(near(ours.ratio(), weight.into(), allowed), "{weight}:1 became {:.3}", ours.ratio());
        assert!(ours.total_rate() > 99.0, "{:.2}", ours.total_rate());
    }
}

#[test]
fn groups_share_by_weight_and_applications_within_them() {
    let mut scene = scene(&[1, 1, 1, 1], (0..4).flat_map(|app| crowd(app, 16, 64 * KIB, NORMAL, &[0])).collect());
    // Two groups at 3:1; in the first 2:1, in the second 1:4.
    scene.groups = vec![3, 1];
    scene.weights = vec![2, 1, 1, 4];
    scene.group_of = vec![0, 0, 1, 1];
    let ours = run(&scene);
    for (application, wanted) in [50.0, 25.0, 5.0, 20.0].into_iter().enumerate() {
        assert!(near(ours.rate(application), wanted, 0.01), "{application}: {:.2}", ours.rate(application));
    }
    // The present members get the whole of a group's share.
    scene.clients.retain(|client| client.application != 0);
    let ours = run(&scene);
    for (application, wanted) in [0.0, 75.0, 5.0, 20.0].into_iter().enumerate().skip(1) {
        assert!(near(ours.rate(application), wanted, 0.01), "{application}: {:.2}", ours.rate(application));
    }
}
