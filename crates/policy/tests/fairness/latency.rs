//! Small requests beside large ones, and how fast shares follow the applications present.

use thalweg_policy::fairness::Kind;

use crate::scenes::*;
use crate::simulator::*;

/// 4 KiB reads, one at a time, beside 16 writers that keep eight slices of 64 KiB outstanding each.
fn small_beside_large(weights: &[u32], writer_of: impl Fn(usize) -> usize) {
    let mut clients = crowd(0, 1, 4 * KIB, NORMAL, &[0]);
    clients.extend((0..16).map(|writer| Client::new(writer_of(writer), 8, 64 * KIB)));
    let mut scene = scene(weights, clients);
    let ours = run(&scene);
    scene.settings = settings(Kind::Fifo);
    let fifo = run(&scene);
    let (p99, fifo_p99) = (ours.quantile_ns(0, 0.99), fifo.quantile_ns(0, 0.99));
    assert!(p99 * 20 <= fifo_p99, "p99 {p99} ns, with FIFO {fifo_p99} ns");
    assert!(ours.total() >= 0.985 * fifo.total(), "{:.2} MB/s", ours.total_rate());
}

#[test]
fn small_reads_beside_16_writers_of_one_application_take_a_20th_of_fifos_time() {
    small_beside_large(&[1, 1], |_| 1);
}

#[test]
fn small_reads_beside_16_writing_applications_take_a_20th_of_fifos_time() {
    small_beside_large(&[1; 17], |writer| 1 + writer);
}

/// A heavy application that is on for a second and off for a second.
#[test]
fn an_idle_share_is_reclaimed_within_20_ms_and_back_within_100_ms() {
    for weight in [1, 16] {
        let heavy = Client { on_ns: S, off_ns: S, ..Client::new(0, 32, 64 * KIB) };
        let mut scene = scene(&[weight, 1], vec![heavy, Client::new(1, 32, 64 * KIB)]);
        scene.warm_up_ns = 0;
        let ours = run(&scene);
        let full = 100.0 * MB_PER_S;
        let share = f64::from(weight) / f64::from(weight + 1);
        for cycle in 1..10 {
            let (on, off) = (2 * cycle * S, (2 * cycle + 1) * S);
            let back = ours.between(0, on + 100 * MS, off) as f64 / (900.0 * MS as f64);
            assert!(back >= 0.98 * share * full, "cycle {cycle}: back to {:.1} MB/s", back * 1e3);
            let soon = ours.between(0, on, on + 100 * MS) as f64 / (100.0 * MS as f64);
            assert!(soon >= 0.9 * share * full, "cycle {cycle}: {:.1} MB/s at first", soon * 1e3);
            // Its outstanding requests at the stop are served within 40 ms; nothing idles for long after.
            let both = ours.between(0, off, off + 100 * MS) + ours.between(1, off, off + 100 * MS);
            assert!(both as f64 >= 0.8 * full * 100.0 * MS as f64, "cycle {cycle}: {both} bytes after it left");
            let alone = ours.between(1, off + 100 * MS, off + S) as f64 / (900.0 * MS as f64);
            assert!(alone >= 0.98 * full, "cycle {cycle}: {:.1} MB/s alone", alone * 1e3);
        }
    }
}
