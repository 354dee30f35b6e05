use crate::scenes::*;
use crate::simulator::*;
use thalweg_policy::fairness::Kind;

const NORMAL: Think = Think { least_ns: 200_000, most_ns: 400_000, hiccup_one_in: 0, hiccup_ns: 0 };
const ROUGH: Think = Think { least_ns: 200_000, most_ns: 3_000_000, hiccup_one_in: 100, hiccup_ns: 15_000_000 };

fn show(name: &str, o: &Outcome) {
    let rates: Vec<String> = (0..o.bytes.len()).map(|a| format!("{:.2}", o.rate(a))).collect();
    println!(
        "{name:40} ratio {:8.4} total {:8.2} rates {} depth {:?}",
        o.ratio(),
        o.total_rate(),
        rates.join(" "),
        o.depth_bytes.iter().map(|d| d / 1024).collect::<Vec<_>>()
    );
}

#[test]
#[ignore]
fn explore() {
    for size in [64, 256] {
        for w in [1u32, 2, 4, 8, 16, 32] {
            let mut c = crowd(0, 32, size * KIB, NORMAL, &[0]);
            c.extend(crowd(1, 32, size * KIB, NORMAL, &[0]));
            show(&format!("{w}:1 32 each {size}K"), &run(&scene(&[w, 1], c)));
        }
    }
    let parallel = |k| Work::Parallel { rate: 100.0 * MB_PER_S, parallel: k, jitter: 0.3 };
    for (name, server) in [
        ("link", LINK),
        ("par2", parallel(2)),
        ("par4", parallel(4)),
        ("par8", parallel(8)),
        ("lat2ms", Work::Latency { ns: 2 * MS }),
    ] {
        for think in [NORMAL, Think::between(1 * MS, 2 * MS), Think::between(4 * MS, 6 * MS)] {
            let mut c = crowd(0, 4, 64 * KIB, think, &[0]);
            let mut solo = scene(&[16, 1], c.clone());
            solo.servers = vec![server];
            let s = run(&solo);
            c.extend(crowd(1, 32, 64 * KIB, NORMAL, &[0]));
            let mut sc = scene(&[16, 1], c);
            sc.servers = vec![server];
            let o = run(&sc);
            sc.settings = settings(Kind::Fifo);
            let f = run(&sc);
            sc.settings = settings(Kind::SfqD);
            let q = run(&sc);
            let want = (f.total_rate() * 16.0 / 17.0).min(s.rate(0));
            show(&format!("heavy4 {name} think {}", think.least_ns), &o);
            println!(
                "    solo {:.2} fifo {:.2} heavy/want {:.3} loss {:.3}  sfqd ratio {:.2} total {:.2} depth {}",
                s.rate(0),
                f.total_rate(),
                o.rate(0) / want,
                1.0 - o.total_rate() / f.total_rate(),
                q.ratio(),
                q.total_rate(),
                q.depth_bytes[0]
            );
        }
    }
    let four = [0, 1, 2, 3];
    for work in [BRICK, LINK] {
        for exchange in [0, 25, 50] {
            for think in [NORMAL, ROUGH] {
                let mut c = at_each(0, 8, 64 * KIB, think, &four);
                c.extend(at_each(1, 8, 64 * KIB, think, &four));
                let mut sc = scene(&[16, 1], c);
                sc.servers = vec![work; 4];
                sc.exchange_ns = exchange * MS;
                show(&format!("global 16:1 exch {exchange} think {}", think.most_ns), &run(&sc));
            }
        }
    }
    for size in [64, 256] {
        for (m, n) in [(40, 20), (48, 12), (56, 7), (48, 3)] {
            for striped in [true, false] {
                let mut c = vec![];
                if striped {
                    c.extend((0..m).flat_map(|_| at_each(0, 1, size * KIB, NORMAL, &four)));
                    c.extend((0..n).flat_map(|_| at_each(1, 1, size * KIB, NORMAL, &four)));
                } else {
                    c.extend(crowd(0, m, size * KIB, NORMAL, &four));
                    c.extend(crowd(1, n, size * KIB, NORMAL, &four));
                }
                let mut sc = scene(&[1, 1], c);
                sc.servers = vec![BRICK; 4];
                sc.exchange_ns = 25 * MS;
                show(&format!("clients {m}:{n} striped {striped}"), &run(&sc));
            }
        }
    }
    {
        // 28:3, each of the three at one server.
        let size = 64;
        let mut c: Vec<Client> = (0..28).flat_map(|_| at_each(0, 1, size * KIB, NORMAL, &four)).collect();
        for s in 0..3 {
            c.extend(at_each(1, 1, size * KIB, NORMAL, &[s]));
        }
        let mut sc = scene(&[1, 1], c);
        sc.servers = vec![BRICK; 4];
        sc.exchange_ns = 25 * MS;
        let o = run(&sc);
        show("28:3 single", &o);
        sc.weights = vec![1, 1_000_000];
        show("28:3 single, strict", &run(&sc));
        // Different sets.
        for think in [NORMAL, ROUGH] {
            for (a, b) in [
                (vec![0, 1, 2, 3], vec![0]),
                (vec![0, 1], vec![1, 2, 3]),
                (vec![0, 1, 2], vec![2, 3]),
                (vec![0, 1, 2, 3], vec![0, 1]),
            ] {
                let mut c = at_each(0, 8, 64 * KIB, think, &a);
                c.extend(at_each(1, 8, 64 * KIB, think, &b));
                let mut sc = scene(&[1, 1], c);
                sc.servers = vec![BRICK; 4];
                sc.exchange_ns = 50 * MS;
                show(&format!("sets {a:?} {b:?}"), &run(&sc));
            }
        }
    }
    {
        let c: Vec<Client> = (0..16).flat_map(|a| crowd(a, 4 + a % 5, 64 * KIB, NORMAL, &[0])).collect();
        let o = run(&scene(&[1; 16], c));
        let (s, q): (f64, f64) = o.bytes.iter().fold((0.0, 0.0), |x, &b| (x.0 + b as f64, x.1 + (b as f64).powi(2)));
        println!("jain {:.6} total {:.2}", s * s / 16.0 / q, o.total_rate());
    }
    {
        let mut c: Vec<Client> = crowd(0, 1, 4 * KIB, NORMAL, &[0]);
        c.extend((0..16).map(|_| Client { think: NORMAL, ..Client::new(1, 8, 64 * KIB) }));
        let mut sc = scene(&[1, 1], c.clone());
        let o = run(&sc);
        sc.settings = settings(Kind::Fifo);
        let f = run(&sc);
        show("small one app", &o);
        println!("   p99 {} fifo {}  total fifo {}", o.quantile_ns(0, 0.99), f.quantile_ns(0, 0.99), f.total_rate());
        for (i, c) in c.iter_mut().enumerate() {
            c.application = i;
        }
        let mut sc = scene(&[1; 17], c);
        let o = run(&sc);
        sc.settings = settings(Kind::Fifo);
        let f = run(&sc);
        show("small 16 apps", &o);
        println!("   p99 {} fifo {}  total fifo {}", o.quantile_ns(0, 0.99), f.quantile_ns(0, 0.99), f.total_rate());
    }
    for w in [4, 8, 16, 32] {
        let put =
            |a| vec![Client { burst: 2, think: Think::between(100_000, 600_000), ..Client::new(a, 4, 64 * KIB) }; 32];
        let mut c = put(0);
        c.extend(put(1));
        show(&format!("put {w}:1"), &run(&scene(&[w, 1], c)));
    }
    {
        let mut c = vec![Client { on_ns: S, off_ns: S, ..Client::new(0, 32, 64 * KIB) }];
        c.push(Client::new(1, 32, 64 * KIB));
        let mut sc = scene(&[16, 1], c);
        sc.warm_up_ns = 0;
        let o = run(&sc);
        for t in [0u64, 10, 20, 30, 50, 100, 1000, 1010, 1020, 1030, 1050] {
            println!(
                "on/off at 4 s + {t}: {} {}",
                o.between(0, 4 * S + t * MS, 4 * S + t * MS + TICK_NS),
                o.between(1, 4 * S + t * MS, 4 * S + t * MS + TICK_NS)
            );
        }
        show("on/off", &o);
    }
    for (name, server) in [("link", LINK), ("par4", parallel(4)), ("par32", parallel(32))] {
        let mut c = crowd(0, 64, 64 * KIB, NORMAL, &[0]);
        c.extend(crowd(1, 64, 64 * KIB, NORMAL, &[0]));
        let mut sc = scene(&[1, 1], c);
        sc.servers = vec![server];
        sc.changes = vec![(8 * S, 0.25), (14 * S, 1.0)];
        let o = run(&sc);
        sc.settings = settings(Kind::Fifo);
        let f = run(&sc);
        for (from, to) in [(2, 8), (8, 9), (9, 14), (14, 15), (15, 22)] {
            let sum = |o: &Outcome| (o.between(0, from * S, to * S) + o.between(1, from * S, to * S)) as f64;
            print!("{:.3} ", sum(&o) / sum(&f));
        }
        show(&format!("rate change {name}"), &o);
    }
}
