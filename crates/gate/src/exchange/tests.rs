//! Whole histories of several gates in one thread: a network that loses, doubles and delays, from one seed.

use random::Random;

use super::*;

const INTERVAL_MS: u64 = 25;

fn ms(number: u64) -> Duration {
    Duration::from_millis(number)
}

fn shown(list: &[(&str, u64)]) -> Charged {
    list.iter().map(|&(name, bytes)| (name.into(), bytes)).collect()
}

/// A gate with one server.
fn one(charged: Charged) -> Vec<(Rc<str>, Charged)> {
    vec![("disk".into(), charged)]
}

fn sent(actions: &[Action]) -> Vec<&[u8]> {
    let packets = actions.iter().filter_map(|action| match action {
        Action::Send(bytes) => Some(bytes.as_slice()),
        Action::Served { .. } => None,
    });
    packets.collect()
}

fn served(actions: &[Action], name: &str) -> u64 {
    let bytes = actions.iter().filter_map(|action| match action {
        Action::Served { application, bytes, .. } if &**application == name => Some(*bytes),
        _ => None,
    });
    bytes.sum()
}

/// Gates with a server each, and packets under way: arrival time, destination, content.
struct World {
    gates: Vec<Exchange>,
    charged: Vec<[u64; 2]>,
    heard: Vec<[u64; 2]>,
    under_way: Vec<(u64, usize, Vec<u8>)>,
    dice: Random,
    now_ms: u64,
}

const NAMES: [&str; 2] = ["climate", "genome"];

impl World {
    fn new(count: usize, seed: u64) -> Self {
        let gate = |number| {
            let mut gate = Exchange::new(GateId(number as u64 + 1), None, count - 1);
            gate.know(&NAMES.map(Rc::from));
            gate
        };
        World {
            gates: (0..count).map(gate).collect(),
            charged: vec![[0; 2]; count],
            heard: vec![[0; 2]; count],
            under_way: Vec::new(),
            dice: Random::new(seed),
            now_ms: 0,
        }
    }

    /// An interval in which every gate serves up to so many bytes; packets take up to 60 ms, `lost` in 100 are lost.
    fn step(&mut self, max_bytes: u64, lost: u64) {
        for number in 0..self.gates.len() {
            for application in 0..2 {
                self.charged[number][application] += self.dice.below(max_bytes + 1);
            }
            let charged = shown(&[(NAMES[0], self.charged[number][0]), (NAMES[1], self.charged[number][1])]);
            let actions = self.gates[number].tick(&one(charged), ms(self.now_ms));
            sent(&actions).into_iter().for_each(|packet| self.post(number, packet, lost));
        }
        self.now_ms += INTERVAL_MS;
        self.deliver();
    }

    fn post(&mut self, from: usize, packet: &[u8], lost: u64) {
        for to in (0..self.gates.len()).filter(|&to| to != from) {
            if self.dice.below(100) < lost {
                continue;
            }
            for _ in 0..1 + self.dice.below(10) / 9 {
                self.under_way.push((self.now_ms + self.dice.below(60), to, packet.to_vec()));
            }
        }
    }

    fn deliver(&mut self) {
        let (arrived, later) = std::mem::take(&mut self.under_way).into_iter().partition(|(at, ..)| *at <= self.now_ms);
        self.under_way = later;
        let mut arrived: Vec<(u64, usize, Vec<u8>)> = arrived;
        arrived.sort();
        for (at, to, packet) in arrived {
            let actions = self.gates[to].hear(&packet, ms(at)).expect("packets are well-formed");
            (0..2).for_each(|application| self.heard[to][application] += served(&actions, NAMES[application]));
        }
    }

    /// The bytes that the other servers served of an application.
    fn served_at_other_servers(&self, gate: usize, application: usize) -> u64 {
        let others = self.charged.iter().enumerate().filter(|(number, _)| *number != gate);
        others.map(|(_, charged)| charged[application]).sum()
    }
}

#[test]
fn through_a_bad_network_every_gate_hears_all_that_the_others_served() {
    for seed in 0..50 {
        let mut world = World::new(4, seed);
        // Gates that have received a packet of each other count from there; before, nothing was served.
        (0..12).for_each(|_| world.step(0, 0));
        world.charged.iter_mut().for_each(|charged| *charged = [1, 1]);
        (0..12).for_each(|_| world.step(0, 0));
        (0..400).for_each(|_| world.step(1 << 20, 20));
        (0..40).for_each(|_| world.step(0, 0));
        for gate in 0..4 {
            for (application, name) in NAMES.iter().enumerate() {
                let (heard, served) =
                    (world.heard[gate][application], world.served_at_other_servers(gate, application));
                assert_eq!(heard, served - 3, "seed {seed}, gate {gate}, {name}");
            }
        }
    }
}

#[test]
fn what_is_said_costs_a_thousandth_of_the_data_or_less() {
    let mut world = World::new(8, 1);
    (0..2400).for_each(|_| world.step(500_000, 0));
    for (gate, charged) in world.gates.iter().zip(&world.charged) {
        let (data, said) = (charged[0] + charged[1], gate.traffic().sent_bytes);
        let greeting = 7 * (packet::bytes_of(2, false) + WRAPPING_BYTES) as u64;
        assert!((said - greeting) * DATA_PER_EXCHANGE <= data, "{said} bytes for {data}");
        // A minute of 25 ms intervals, and seven peers: it is fast all the same.
        assert!(gate.traffic().sent >= 7 * 60 * 20, "{} packets", gate.traffic().sent);
    }
}

#[test]
fn an_idle_gate_says_four_times_a_second_that_it_is_there() {
    let mut gate = Exchange::new(GateId(1), None, 1);
    let charged = one(shown(&[("climate", 1 << 30)]));
    let mut lengths = Vec::new();
    for interval in 0..400 {
        let actions = gate.tick(&charged, ms(interval * INTERVAL_MS));
        lengths.extend(sent(&actions).iter().map(|packet| packet.len()));
    }
    assert_eq!(lengths.len(), 40);
    assert!(lengths[5..].iter().all(|&length| length == packet::bytes_of(0, false)), "{lengths:?}");
}

#[test]
fn many_applications_take_several_packets_and_each_fits() {
    let mut gate = Exchange::new(GateId(1), None, 2);
    let names: Vec<Rc<str>> = (0..1000).map(|number| format!("application {number}").into()).collect();
    let charged: Charged = names.iter().map(|name| (name.clone(), 1 << 20)).collect();
    let actions = gate.tick(&one(charged), ms(0));
    let packets = sent(&actions);
    assert_eq!(packets.len(), 1000usize.div_ceil(MAX_ENTRIES));
    assert!(packets.iter().all(|packet| packet.len() <= packet::MAX_BYTES));

    let mut other = Exchange::new(GateId(2), None, 1);
    other.know(&names);
    assert!(packets.iter().all(|packet| other.hear(packet, ms(1)) == Ok(vec![])), "the first word only begins");
    let charged = vec![(names[999].clone(), (1 << 20) + 7)];
    let actions = gate.tick(&one(charged), ms(300));
    let heard = other.hear(sent(&actions)[0], ms(301)).unwrap();
    assert_eq!(heard, [Action::Served { except: None, application: names[999].clone(), bytes: 7 }]);
}

#[test]
fn servers_of_one_gate_hear_of_each_other_without_a_packet() {
    let mut gate = Exchange::new(GateId(1), None, 0);
    let (left, right): (Rc<str>, Rc<str>) = ("left".into(), "right".into());
    let both = [(left.clone(), shown(&[("climate", 10)])), (right.clone(), shown(&[("climate", 5), ("genome", 1)]))];
    let delivery = |except: &Rc<str>, name: &str, bytes| {
        let (except, application) = (Some(except.clone()), name.into());
        Action::Served { except, application, bytes }
    };
    let expected = [delivery(&left, "climate", 10), delivery(&right, "climate", 5), delivery(&right, "genome", 1)];
    assert_eq!(gate.tick(&both, ms(0)), expected);
    assert_eq!(gate.tick(&both, ms(25)), []);
}

#[test]
fn with_all_peers_silent_nothing_is_served_elsewhere_and_the_silence_is_not_charged_after() {
    let mut world = World::new(3, 5);
    (0..40).for_each(|_| world.step(1 << 20, 0));
    world.under_way.clear();
    let heard = world.heard.clone();
    (0..100).for_each(|_| world.step(1 << 20, 100));
    assert!(world.gates.iter().all(|gate| gate.live_peers() == 0));
    assert_eq!(world.heard, heard);

    let before = world.charged.clone();
    (0..40).for_each(|_| world.step(1 << 20, 0));
    for (gate, heard) in heard.iter().enumerate() {
        let others = (0..3).filter(|&other| other != gate);
        let since: u64 = others.map(|other| world.charged[other][0] - before[other][0]).sum();
        let gained = world.heard[gate][0] - heard[0];
        assert!(gained > since / 2 && gained <= since, "gate {gate} heard of {gained} of {since}");
    }
}

#[test]
fn a_gate_does_not_hear_itself_and_knows_only_its_own_applications() {
    let mut gate = Exchange::new(GateId(1), None, 1);
    let first = gate.tick(&one(shown(&[("climate", 10)])), ms(0));
    assert_eq!(gate.hear(sent(&first)[0], ms(1)), Ok(vec![]));
    assert_eq!(gate.live_peers(), 0);

    let mut other = Exchange::new(GateId(2), None, 1);
    other.hear(sent(&first)[0], ms(1)).unwrap();
    let next = gate.tick(&one(shown(&[("climate", 1 << 30)])), ms(300));
    assert_eq!(other.hear(sent(&next)[0], ms(301)), Ok(vec![]));
    assert_eq!(other.live_peers(), 1);
}

#[test]
fn refused_packets_are_counted_and_change_nothing() {
    let mut gate = Exchange::new(GateId(1), Some(Key::from_secret("river")), 1);
    let mut stranger = Exchange::new(GateId(2), None, 1);
    let actions = stranger.tick(&one(shown(&[("climate", 10)])), ms(0));
    assert_eq!(gate.hear(sent(&actions)[0], ms(1)), Err(Refusal::Untagged));
    assert_eq!(gate.hear(b"GET / HTTP/1.1\r\n\r\n......", ms(1)), Err(Refusal::Foreign));
    assert_eq!((gate.traffic().received, gate.traffic().refused, gate.live_peers()), (2, 2, 0));
}
