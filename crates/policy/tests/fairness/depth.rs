//! The automatic depth finds the knee of any server, and finds it again when the server changes.

use thalweg_policy::fairness::Kind;

use crate::scenes::*;
use crate::simulator::*;

pub fn many_clients(server: Work) -> Scene {
    let clients = [crowd(0, 64, 64 * KIB, NORMAL, &[0]), crowd(1, 64, 64 * KIB, NORMAL, &[0])].concat();
    let mut scene = scene(&[1, 1], clients);
    scene.servers = vec![server];
    scene
}

pub fn parallel(parallel: usize) -> Work {
    Work::Parallel { rate: 100.0 * MB_PER_S, parallel, jitter: 0.3 }
}

#[test]
fn full_rate_with_little_outstanding() {
    for kind in [Kind::SfqD, Kind::Anticipating] {
        for (server, enough) in [(LINK, 2), (parallel(1), 2), (parallel(4), 4), (parallel(8), 8), (parallel(32), 32)] {
            let mut scene = many_clients(server);
            scene.settings = settings(kind);
            scene.warm_up_ns = 5 * S;
            let ours = run(&scene);
            assert!(ours.total_rate() >= 98.0, "{enough} enough: {:.2} MB/s", ours.total_rate());
            let most = 2 * enough * 64 * KIB + 128 * KIB;
            assert!(ours.depth_bytes[0] <= most, "{enough} enough: depth {}", ours.depth_bytes[0]);
        }
    }
}

/// A server without a knee is given what it takes, up to what there is.
#[test]
fn a_server_of_fixed_latency_gets_all_there_is() {
    let mut scene = many_clients(Work::Latency { ns: 2 * MS });
    scene.warm_up_ns = 5 * S;
    let ours = run(&scene);
    scene.settings = settings(Kind::Fifo);
    let fifo = run(&scene);
    assert!(ours.total() >= 0.9 * fifo.total(), "{:.1} of {:.1} MB/s", ours.total_rate(), fifo.total_rate());
}

#[test]
fn a_fourfold_change_of_the_rate_is_followed_within_seconds() {
    for server in [LINK, parallel(4), parallel(16)] {
        let mut scene = many_clients(server);
        scene.changes = vec![(8 * S, 0.25), (14 * S, 1.0)];
        let ours = run(&scene);
        for (from, to, wanted) in [(3, 8, 100.0), (10, 14, 25.0), (16, 22, 100.0)] {
            let bytes = ours.between(0, from * S, to * S) + ours.between(1, from * S, to * S);
            let got = bytes as f64 / (to - from) as f64 / 1e6;
            assert!(got >= 0.97 * wanted, "{got:.2} of {wanted} MB/s from {from} s to {to} s");
        }
    }
}

/// blkio before a loop device: 14 MB/s, in bursts every 100 ms.
pub const THROTTLE: Work = Work::Bursts { rate: 14.0 * MB_PER_S, slice_ns: 100 * MS, call_ns: 400_000 };

/// A buffer of a megabyte on the way takes what a greater depth gives it at once.
pub const BUFFERED: Work =
    Work::Buffered { rate: 40.0 * MB_PER_S, buffer_bytes: 1 << 20, latency_ns: 200_000, noise: 0.03 };

/// A server that sends with a buffer of its own for every connection.
pub const DOWNLOADS: Work = Work::Link { rate: 40.0 * MB_PER_S, latency_ns: 200_000 };

/// Ratio and rate that come of a depth found automatically on servers that mislead.
fn finds_little(server: Work, think: Think, give_back_ns: u64, (weight, each, bytes): (u32, usize, u64), allowed: f64) {
    let clients = [crowd(0, each, bytes, think, &[0]), crowd(1, each, bytes, think, &[0])].concat();
    for seed in 1..6 {
        let mut scene = scene(&[weight, 1], clients.clone());
        scene.servers = vec![server];
        scene.seed = seed;
        scene.give_back_ns = give_back_ns;
        scene.warm_up_ns = 4 * S;
        scene.run_ns = 60 * S;
        let ours = run(&scene);
        scene.settings = settings(Kind::Fifo);
        let fifo = run(&scene);
        let (ratio, part) = (ours.ratio() / f64::from(weight), ours.total() / fifo.total());
        let said = format!(
            "{weight}:1, {each} each, {bytes} bytes, seed {seed}: {:.2}, rate {part:.3}, depth {} KiB",
            ours.ratio(),
            ours.depth_bytes[0] / KIB
        );
        assert!((ratio - 1.0).abs() <= allowed && part >= 0.985 && ours.depth_bytes[0] <= 2 * bytes, "{said}");
    }
}

#[test]
fn a_throttle_that_lets_bytes_go_in_bursts_keeps_the_ratio() {
    finds_little(THROTTLE, SLOW, 0, (16, 8, 128 * KIB), 0.2);
    finds_little(THROTTLE, SLOW, 0, (8, 32, 128 * KIB), 0.02);
    finds_little(THROTTLE, SLOW, 0, (16, 32, 64 * KIB), 0.02);
}

#[test]
fn a_buffer_that_takes_a_megabyte_at_once_does_not_pass_for_a_gain() {
    finds_little(BUFFERED, NORMAL, 0, (4, 8, 64 * KIB), 0.03);
    finds_little(BUFFERED, NORMAL, 0, (16, 32, 64 * KIB), 0.03);
    finds_little(BUFFERED, NORMAL, 0, (16, 32, 256 * KIB), 0.03);
}

/// Downloads: a grant is given back when nothing comes, and the bytes that came meanwhile are there at once.
#[test]
fn turns_given_back_do_not_pass_for_service() {
    for give_back_ms in [5, 20] {
        finds_little(DOWNLOADS, NORMAL, give_back_ms * MS, (4, 8, 64 * KIB), 0.05);
        finds_little(DOWNLOADS, NORMAL, give_back_ms * MS, (16, 32, 64 * KIB), 0.05);
    }
}
