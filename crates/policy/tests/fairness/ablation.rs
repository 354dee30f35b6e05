//! The worth of each controller of the anticipating scheduler: the measures of every recorded case, for
//! `bench/ablate`, which runs this on the code as it is and with one controller switched off at a time.

use thalweg_policy::fairness::Kind;
use thalweg_policy::fairness::max_min::{Claim, allocate};

use crate::depth::{BUFFERED, DOWNLOADS, THROTTLE, many_clients, parallel};
use crate::global::{FOUR, before_four};
use crate::scenes::*;
use crate::simulator::*;

const SEEDS: u64 = 3;

struct Case {
    name: String,
    scene: Scene,
    /// Parts of the whole that are due, by application.
    due: Vec<f64>,
}

/// Due by weight.
fn case(name: String, scene: Scene) -> Case {
    let due = scene.weights.iter().map(|&weight| weight.into()).collect();
    Case { name, scene, due }
}

fn cases() -> Vec<Case> {
    [one_server(), few_outstanding(), latencies(), servers(), several_servers()].into_iter().flatten().collect()
}

fn one_server() -> Vec<Case> {
    let mut cases = Vec::new();
    for weight in [1, 4, 16, 32] {
        for kib in [64, 256] {
            let clients = [crowd(0, 32, kib * KIB, NORMAL, &[0]), crowd(1, 32, kib * KIB, NORMAL, &[0])].concat();
            cases.push(case(format!("{weight}:1, 32 each, {kib} KiB"), scene(&[weight, 1], clients)));
        }
        let stream =
            |app| Client { burst: 2, think: Think::between(100_000, 600_000), ..Client::new(app, 4, 64 * KIB) };
        let clients = [vec![stream(0); 32], vec![stream(1); 32]].concat();
        cases.push(case(format!("{weight}:1, uploads in bursts"), scene(&[weight, 1], clients)));
    }
    let clients = [crowd(0, 32, 64 * KIB, NORMAL, &[0]), crowd(1, 32, 256 * KIB, NORMAL, &[0])].concat();
    cases.push(case("8:1, mixed sizes".into(), scene(&[8, 1], clients)));
    let clients = (0..16).flat_map(|app| crowd(app, 4 + 3 * (app % 5), 64 * KIB, NORMAL, &[0])).collect();
    cases.push(case("16 equal applications".into(), scene(&[1; 16], clients)));
    let mut groups = scene(&[2, 1, 1, 4], (0..4).flat_map(|app| crowd(app, 16, 64 * KIB, NORMAL, &[0])).collect());
    (groups.groups, groups.group_of) = (vec![3, 1], vec![0, 0, 1, 1]);
    cases.push(Case { name: "groups".into(), scene: groups, due: vec![50.0, 25.0, 5.0, 20.0] });
    cases
}

/// The heavy application keeps 4 requests outstanding.
fn few_outstanding() -> Vec<Case> {
    let mut cases = Vec::new();
    let thinks = [("0.3 ms", NORMAL), ("1.5 ms", Think::between(MS, 2 * MS)), ("5 ms", Think::between(4 * MS, 6 * MS))];
    let servers =
        [("link", LINK), ("2 at a time", parallel(2)), ("4", parallel(4)), ("8", parallel(8)), ("16", parallel(16))];
    for (server, work) in servers {
        for (named, think) in thinks.into_iter().chain([("rough", ROUGH)]) {
            let clients = [crowd(0, 4, 64 * KIB, think, &[0]), crowd(1, 32, 64 * KIB, NORMAL, &[0])].concat();
            let mut scene = scene(&[16, 1], clients);
            scene.servers = vec![work];
            cases.push(case(format!("16:1, 4 outstanding, {server}, {named}"), scene));
        }
    }
    let clients = [crowd(0, 4, 64 * KIB, NORMAL, &[0]), crowd(1, 32, 64 * KIB, NORMAL, &[0])].concat();
    let mut scene = scene(&[16, 1], clients);
    scene.settings = fixed(Kind::Anticipating, 8 * 64 * KIB);
    cases.push(case("16:1, 4 outstanding, link, depth 512 KiB".into(), scene));
    cases
}

fn latencies() -> Vec<Case> {
    let mut cases = Vec::new();
    for (name, weights) in [("one application", vec![1, 1]), ("16", vec![1; 17])] {
        let mut clients = crowd(0, 1, 4 * KIB, NORMAL, &[0]);
        let applications = weights.len() - 1;
        clients.extend((0..16).map(|writer| Client::new(1 + writer % applications, 8, 64 * KIB)));
        let scene = scene(&weights, clients);
        // The reader wants little and gets it: only its time to an answer, and the whole, count.
        cases.push(Case { name: format!("4 KiB reads beside writers of {name}"), scene, due: Vec::new() });
    }
    for weight in [1, 16] {
        let heavy = Client { on_ns: S, off_ns: S, ..Client::new(0, 32, 64 * KIB) };
        let scene = scene(&[weight, 1], vec![heavy, Client::new(1, 32, 64 * KIB)]);
        let weight = f64::from(weight);
        let due = vec![weight / (weight + 1.0), 1.0 / (weight + 1.0) + 1.0];
        cases.push(Case { name: format!("{weight}:1, heavy on and off each second"), scene, due });
    }
    cases
}

/// Servers whose depth is to be found, and that mislead.
fn servers() -> Vec<Case> {
    let mut cases = Vec::new();
    let works = [("1 at a time", parallel(1)), ("4", parallel(4)), ("8", parallel(8)), ("32", parallel(32))];
    for (name, work) in works.into_iter().chain([("2 ms each", Work::Latency { ns: 2 * MS })]) {
        cases.push(case(format!("1:1, 64 each, {name}"), many_clients(work)));
    }
    for (name, work) in [("link", LINK), ("4 at a time", parallel(4)), ("16", parallel(16))] {
        let mut scene = many_clients(work);
        scene.changes = vec![(8 * S, 0.25), (14 * S, 1.0)];
        cases.push(case(format!("1:1, 64 each, {name}, rate changes"), scene));
    }
    let misleading = [
        ("throttle", THROTTLE, SLOW, 0, [(16, 8, 128), (8, 32, 128), (16, 32, 64)]),
        ("buffer", BUFFERED, NORMAL, 0, [(4, 8, 64), (16, 32, 64), (16, 32, 256)]),
        ("downloads given back", DOWNLOADS, NORMAL, 5, [(4, 8, 64), (8, 32, 64), (16, 32, 64)]),
    ];
    for (name, work, think, give_back_ms, loads) in misleading {
        for (weight, each, kib) in loads {
            let clients = [crowd(0, each, kib * KIB, think, &[0]), crowd(1, each, kib * KIB, think, &[0])].concat();
            let mut scene = scene(&[weight, 1], clients);
            (scene.servers, scene.give_back_ns) = (vec![work], give_back_ms * MS);
            (scene.warm_up_ns, scene.run_ns) = (4 * S, 60 * S);
            cases.push(case(format!("{weight}:1, {each} each, {kib} KiB, {name}"), scene));
        }
    }
    cases
}

fn several_servers() -> Vec<Case> {
    let mut cases = Vec::new();
    let at_four = |name: String, clients: Vec<Client>| case(name, before_four(BRICK, clients));
    for (named, think) in [("normal", NORMAL), ("rough", ROUGH)] {
        for exchange_ms in [25, 50] {
            let clients = [at_each(0, 8, 64 * KIB, think, &FOUR), at_each(1, 8, 64 * KIB, think, &FOUR)].concat();
            let mut scene = before_four(BRICK, clients);
            (scene.weights, scene.exchange_ns) = (vec![16, 1], exchange_ms * MS);
            cases.push(case(format!("four gates, 16:1, 8 each, {named}, {exchange_ms} ms"), scene));
        }
    }
    for (many, few) in [(40, 20), (48, 12), (56, 7), (48, 3), (28, 3), (24, 1)] {
        let striped = [at_each(0, many, 64 * KIB, NORMAL, &FOUR), at_each(1, few, 64 * KIB, NORMAL, &FOUR)].concat();
        cases.push(at_four(format!("four gates, 1:1, {many}:{few} striped"), striped));
        let round = [crowd(0, many, 64 * KIB, NORMAL, &FOUR), crowd(1, few, 64 * KIB, NORMAL, &FOUR)].concat();
        cases.push(at_four(format!("four gates, 1:1, {many}:{few} go round"), round));
    }
    for (many, few) in [(28, 3), (24, 1)] {
        let clients = [at_each(0, many, 256 * KIB, SLOW, &FOUR), at_each(1, few, 256 * KIB, SLOW, &FOUR)].concat();
        cases.push(case(format!("four gates, 1:1, {many}:{few}, bursts"), before_four(BURSTS, clients)));
    }
    let sets: [(&[usize], &[usize]); 5] =
        [(&FOUR, &[0]), (&[0, 1], &[1, 2, 3]), (&[0, 1, 2], &[2, 3]), (&FOUR, &[0, 1]), (&[0], &[1])];
    for (first, second) in sets {
        for weights in [[1, 1], [4, 1]] {
            let clients = [at_each(0, 8, 64 * KIB, ROUGH, first), at_each(1, 8, 64 * KIB, ROUGH, second)].concat();
            cases.push(overlapping(&weights, &[first, second], clients));
        }
    }
    let sets: [&[usize]; 3] = [&[0, 1], &[1, 2], &[2, 3]];
    let clients = (0..3).flat_map(|app| at_each(app, 8, 64 * KIB, NORMAL, sets[app])).collect();
    cases.push(overlapping(&[2, 1, 1], &sets, clients));
    let first = Client { on_ns: 8 * S, off_ns: 100 * S, servers: vec![1], ..Client::new(0, 8, 64 * KIB) };
    let mut scene = before_four(BRICK, vec![first, Client::new(0, 8, 64 * KIB), Client::new(1, 8, 64 * KIB)]);
    scene.warm_up_ns = 8 * S;
    cases.push(case("four gates, 1:1, first alone elsewhere".into(), scene));
    cases
}

/// Each application at a set of servers: due is the max-min allocation.
fn overlapping(weights: &[u32], sets: &[&[usize]], clients: Vec<Client>) -> Case {
    let claim = |(&weight, set): (&u32, &&[usize])| Claim {
        weight: weight.into(),
        demand: f64::INFINITY,
        servers: set.iter().map(|&at| (at, f64::INFINITY)).collect(),
    };
    let due = allocate(&[25.0; 4], &weights.iter().zip(sets).map(claim).collect::<Vec<_>>());
    let mut scene = before_four(BRICK, clients);
    (scene.weights, scene.exchange_ns) = (weights.to_vec(), 50 * MS);
    Case { name: format!("four gates, {weights:?} on {sets:?}"), scene, due }
}

/// How far apart the applications are in achieved ÷ due; 1 is exact.
fn spread(rates: &[f64], due: &[f64]) -> f64 {
    let parts = || rates.iter().zip(due).map(|(rate, due)| (rate / due).max(1e-6));
    parts().fold(0.0, f64::max) / parts().fold(f64::INFINITY, f64::min)
}

#[test]
#[ignore = "prints a table for bench/ablate"]
fn measures_of_all_cases() {
    for Case { name, mut scene, due } in cases() {
        let applications = scene.weights.len();
        let (mut rates, mut latencies_ns) = (vec![0.0; applications], vec![Vec::<u64>::new(); applications]);
        for seed in 1..=SEEDS {
            scene.seed = seed;
            let ours = run(&scene);
            for application in 0..applications {
                rates[application] += ours.rate(application) / SEEDS as f64;
                latencies_ns[application].extend(&ours.latencies_ns[application]);
            }
        }
        let p99_ms = latencies_ns.iter_mut().map(|ns| {
            ns.sort_unstable();
            ns[((ns.len() - 1) as f64 * 0.99) as usize] as f64 / 1e6
        });
        let p99_ms: Vec<String> = p99_ms.map(|ms| format!("{ms:.4}")).collect();
        let spread = if due.is_empty() { 1.0 } else { spread(&rates, &due) };
        println!("CASE;{name};{spread:.5};{:.4};{}", rates.iter().sum::<f64>(), p99_ms.join(","));
    }
}
