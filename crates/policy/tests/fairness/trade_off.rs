//! The curve between shares and throughput where the heavy application has four requests outstanding: a table for
//! `docs/fairness.md`, printed by
//! `cargo test --release -p thalweg-policy --test fairness -- --ignored --nocapture trade_off`.

use thalweg_policy::fairness::Kind;

use crate::scenes::*;
use crate::simulator::*;

#[test]
#[ignore = "prints a table"]
fn trade_off() {
    let parallel = |parallel| Work::Parallel { rate: 100.0 * MB_PER_S, parallel, jitter: 0.3 };
    let servers = [("paced link", LINK), ("2 at a time", parallel(2)), ("4", parallel(4)), ("8", parallel(8))];
    println!("| server | turnaround, ms | alone | wanted | sfq-depth | ours | SFQ(D) total | ours total |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, server) in servers {
        for (min_ns, max_ns) in [(200_000, 400_000), (MS, 2 * MS), (4 * MS, 6 * MS)] {
            let heavy = crowd(0, 4, 64 * KIB, Think::between(min_ns, max_ns), &[0]);
            let mut scene = scene(&[16, 1], heavy.clone());
            scene.servers = vec![server];
            let alone = run(&scene).rate(0);
            scene.clients = [heavy, crowd(1, 32, 64 * KIB, NORMAL, &[0])].concat();
            let ours = run(&scene);
            scene.settings = settings(Kind::SfqD);
            let sfq = run(&scene);
            println!(
                "| {name} | {:.1} | {alone:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} |",
                (min_ns + max_ns) as f64 / 2e6,
                alone.min(1600.0 / 17.0),
                sfq.rate(0),
                ours.rate(0),
                sfq.total_rate(),
                ours.total_rate(),
            );
        }
    }
}
