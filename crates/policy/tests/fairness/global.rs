//! Several gates before several servers, exchanging what they served.

use thalweg_policy::fairness::Kind;
use thalweg_policy::fairness::max_min::{Claim, allocate};

use crate::scenes::*;
use crate::simulator::*;

pub const FOUR: [usize; 4] = [0, 1, 2, 3];

fn four_bricks(weights: &[u32], clients: Vec<Client>, exchange_ms: u64) -> Outcome {
    let mut scene = scene(weights, clients);
    scene.servers = vec![BRICK; 4];
    scene.exchange_ns = exchange_ms * MS;
    run(&scene)
}

/// Gates before four such servers that exchange counters every 25 ms. The initial lag of the few is made good before
/// the measurement.
pub fn before_four(server: Work, clients: Vec<Client>) -> Scene {
    let mut scene = scene(&[1, 1], clients);
    scene.servers = vec![server; 4];
    scene.exchange_ns = 25 * MS;
    scene.warm_up_ns = 5 * S;
    scene
}

fn assert_near_max_min(ours: &Outcome, weights: &[f64], sets: &[&[usize]], part: f64) {
    let claims: Vec<Claim> = weights
        .iter()
        .zip(sets)
        .map(|(&weight, set)| Claim {
            weight,
            demand: f64::INFINITY,
            servers: set.iter().map(|&at| (at, f64::INFINITY)).collect(),
        })
        .collect();
    let feasible = allocate(&[25.0; 4], &claims);
    for (application, wanted) in feasible.iter().enumerate() {
        let got = ours.rate(application);
        assert!((got / wanted - 1.0).abs() <= part, "{application}: {got:.2} of {wanted:.2} MB/s with {sets:?}");
    }
}

#[test]
fn sixteen_to_one_over_four_gates_with_rough_clients() {
    for exchange_ms in [25, 50] {
        for think in [NORMAL, ROUGH] {
            let clients = [at_each(0, 8, 64 * KIB, think, &FOUR), at_each(1, 8, 64 * KIB, think, &FOUR)].concat();
            let ours = four_bricks(&[16, 1], clients, exchange_ms);
            assert!((ours.ratio() / 16.0 - 1.0).abs() < 0.02, "{exchange_ms} ms: {:.3}", ours.ratio());
            assert!(ours.total_rate() > 99.0, "{exchange_ms} ms: {:.2} MB/s", ours.total_rate());
        }
    }
}

/// The counts of clients in the source's figure, each with a request at every server (its files are striped).
#[test]
fn unequal_numbers_of_clients_get_equal_shares() {
    for bytes in [64 * KIB, 256 * KIB] {
        for (many, few) in [(40, 20), (48, 12), (56, 7), (48, 3)] {
            let clients = [at_each(0, many, bytes, NORMAL, &FOUR), at_each(1, few, bytes, NORMAL, &FOUR)].concat();
            let ours = four_bricks(&[1, 1], clients, 25);
            assert!((ours.ratio() - 1.0).abs() < 0.02, "{many}:{few} at {bytes} bytes: {:.4}", ours.ratio());
            assert!(ours.total_rate() > 99.0, "{many}:{few}: {:.2} MB/s", ours.total_rate());
        }
    }
}

/// Where the few cannot keep a server busy all the time they still get their half, if they could have it alone.
#[test]
fn very_few_clients_get_their_half_or_all_they_can_use() {
    for (server, bytes, think) in [(BRICK, 64 * KIB, NORMAL), (BRICK, 256 * KIB, NORMAL), (BURSTS, 256 * KIB, SLOW)] {
        for (many, few) in [(28, 3), (24, 1)] {
            let light = at_each(1, few, bytes, think, &FOUR);
            let mut scene = before_four(server, light.clone());
            scene.run_ns = 40 * S;
            let alone = run(&scene).rate(1);
            scene.clients = [at_each(0, many, bytes, think, &FOUR), light].concat();
            let ours = run(&scene);
            let feasible = alone.min(ours.total_rate() / 2.0);
            let said = format!("{many}:{few} at {bytes} bytes: {:.2} of {feasible:.2} MB/s", ours.rate(1));
            assert!((ours.rate(1) / feasible - 1.0).abs() < 0.02, "{said}");
            scene.settings = settings(Kind::Fifo);
            let fifo = run(&scene).total_rate();
            assert!(ours.total_rate() >= 0.98 * fifo, "{said}; total {:.2} of {fifo:.2}", ours.total_rate());
        }
    }
}

/// Requests that find a server always busy with another's wait for that one: the feasible share without idling is the
/// one they have when they always come first.
#[test]
fn very_few_clients_that_go_round_get_what_coming_first_would_give() {
    for (many, few) in [(28, 3), (24, 1), (48, 3)] {
        let clients = [crowd(0, many, 64 * KIB, NORMAL, &FOUR), crowd(1, few, 64 * KIB, NORMAL, &FOUR)].concat();
        let mut scene = before_four(BRICK, clients);
        let ours = run(&scene);
        scene.weights = vec![1, 1_000_000];
        scene.settings.waiting_share = 0.0;
        let first = run(&scene);
        let feasible = first.rate(1).min(ours.total_rate() / 2.0);
        assert!(ours.rate(1) >= 0.97 * feasible, "{many}:{few}: {:.2} of {feasible:.2} MB/s", ours.rate(1));
        assert!(ours.total_rate() >= 95.0, "{many}:{few}: {:.2} MB/s", ours.total_rate());
    }
}

/// Clients with a single request anywhere, which go round the servers.
#[test]
fn clients_that_go_round_the_servers_get_equal_shares() {
    for (many, few) in [(40, 20), (48, 12), (56, 7)] {
        let clients = [crowd(0, many, 64 * KIB, NORMAL, &FOUR), crowd(1, few, 64 * KIB, NORMAL, &FOUR)].concat();
        let ours = run(&before_four(BRICK, clients));
        assert!((ours.ratio() - 1.0).abs() < 0.02, "{many}:{few}: {:.4}", ours.ratio());
        assert!(ours.total_rate() > 95.0, "{many}:{few}: {:.2} MB/s", ours.total_rate());
    }
}

/// Three clients with one request each, at one server each: their feasible share is the one they have when all others
/// yield, work conserved.
#[test]
fn three_single_requests_get_what_is_feasible() {
    let many = (0..28).flat_map(|_| at_each(0, 1, 64 * KIB, NORMAL, &FOUR));
    let clients: Vec<Client> = many.chain(at_each(1, 1, 64 * KIB, NORMAL, &FOUR[..3])).collect();
    let ours = four_bricks(&[1, 1], clients.clone(), 25);
    let most = four_bricks(&[1, 1_000], clients, 25);
    assert!(ours.rate(1) >= 0.98 * most.rate(1).min(50.0), "{:.2} of {:.2} MB/s", ours.rate(1), most.rate(1));
    assert!(ours.total_rate() >= 95.0, "{:.2} MB/s", ours.total_rate());
}

#[test]
fn different_sets_of_servers_come_to_the_feasible_allocation() {
    let sets: [(&[usize], &[usize]); 5] =
        [(&FOUR, &[0]), (&[0, 1], &[1, 2, 3]), (&[0, 1, 2], &[2, 3]), (&FOUR, &[0, 1]), (&[0], &[1])];
    for think in [NORMAL, ROUGH] {
        for (first, second) in sets {
            for weights in [[1, 1], [4, 1]] {
                let clients = [at_each(0, 8, 64 * KIB, think, first), at_each(1, 8, 64 * KIB, think, second)].concat();
                let mut scene = scene(&weights, clients);
                scene.servers = vec![BRICK; 4];
                scene.exchange_ns = 50 * MS;
                // Corrections pass through the exchange: some seconds until shares are stable.
                scene.warm_up_ns = 5 * S;
                let weights = weights.map(f64::from);
                assert_near_max_min(&run(&scene), &weights, &[first, second], 0.02);
            }
        }
    }
}

#[test]
fn three_applications_on_overlapping_servers() {
    let sets: [&[usize]; 3] = [&[0, 1], &[1, 2], &[2, 3]];
    let clients = (0..3).flat_map(|app| at_each(app, 8, 64 * KIB, NORMAL, sets[app])).collect();
    let ours = four_bricks(&[2, 1, 1], clients, 25);
    assert_near_max_min(&ours, &[2.0, 1.0, 1.0], &sets, 0.02);
}

/// An application that got much elsewhere is served here again at once when alone, and soon when others stay.
#[test]
fn service_elsewhere_delays_but_never_starves() {
    // Application 0 has server 1 for itself; from 8 s on both meet at server 0 only.
    let first = Client { on_ns: 8 * S, off_ns: 100 * S, servers: vec![1], ..Client::new(0, 8, 64 * KIB) };
    let clients = vec![first, Client::new(0, 8, 64 * KIB), Client::new(1, 8, 64 * KIB)];
    let ours = four_bricks(&[1, 1], clients, 25);
    let at_first = ours.between(0, 8 * S, 11 * S) as f64 / 3e6;
    let later = ours.between(0, 11 * S, 20 * S) as f64 / 9e6;
    assert!(at_first >= 2.0 && (later - 12.5).abs() < 0.3, "{at_first:.2} at first, {later:.2} MB/s later");
}
