//! The exchange's socket and clock: carries out the actions of [`Exchange`].
//!
//! A packet that cannot be sent is dropped: counters are cumulative, and the next packet repeats them. Only errors that
//! a person can mend are reported on standard error, each kind once a minute at most.

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::net::{IpAddr, SocketAddr};
use std::rc::{Rc, Weak};
use std::time::{Duration, Instant};

use tokio::net::UdpSocket;
use tokio::time::{MissedTickBehavior, interval};

use super::packet::{GateId, Key, MAX_BYTES, Refusal};
use super::{Action, Charged, Exchange, Traffic};

/// How often gates send each other what they charged, unless configured.
pub const INTERVAL: Duration = Duration::from_millis(25);
/// The interval between two reports of the same error.
const SILENCE: Duration = Duration::from_secs(60);

/// A server of this gate, whose bandwidth is shared.
pub trait Server {
    /// Returns cumulative bytes charged, by application.
    fn charged(&self) -> Charged;
    /// Notes that other servers served an application so many bytes.
    fn served_at_other_servers(&self, application: &str, bytes: u64);
}

/// By name: the address of the upstream server. One that is gone is left out.
pub type Servers = Vec<(Rc<str>, Weak<dyn Server>)>;

/// How to speak with the other gates.
#[derive(Clone, Debug)]
pub struct Settings {
    /// May hold this gate's own address.
    pub peers: Vec<SocketAddr>,
    pub interval: Duration,
    pub key: Option<Key>,
}

/// The state that lasts as long as the process, while settings and servers come and go.
pub struct Link {
    exchange: RefCell<Exchange>,
    servers: RefCell<Servers>,
    logged: RefCell<HashMap<Refusal, Instant>>,
    began: Instant,
}

impl Link {
    /// `me` is random.
    pub fn new(me: GateId) -> Self {
        Link {
            exchange: RefCell::new(Exchange::new(me, None, 0)),
            servers: RefCell::default(),
            logged: RefCell::default(),
            began: Instant::now(),
        }
    }

    /// Takes all servers by name (each upstream address once), and all applications that may come to them.
    pub fn serve<'a>(&self, servers: Servers, applications: impl IntoIterator<Item = &'a Rc<str>>) {
        *self.servers.borrow_mut() = servers;
        self.exchange.borrow_mut().know(applications);
    }

    pub fn live_peers(&self) -> usize {
        self.exchange.borrow().live_peers()
    }

    pub fn traffic(&self) -> Traffic {
        self.exchange.borrow().traffic().clone()
    }

    /// Exchanges between the servers of this gate only, until dropped.
    pub async fn tick_alone(&self) -> Infallible {
        self.exchange.borrow_mut().reconfigure(None, 0);
        let mut ticks = ticks(INTERVAL);
        loop {
            ticks.tick().await;
            self.tick();
        }
    }

    /// Exchanges with peers, until dropped.
    pub async fn talk(&self, socket: &UdpSocket, settings: &Settings) -> Infallible {
        let is_other = |peer: &&SocketAddr| Some(**peer) != socket.local_addr().ok();
        let others: Vec<SocketAddr> = settings.peers.iter().filter(is_other).copied().collect();
        self.exchange.borrow_mut().reconfigure(settings.key.clone(), others.len());
        let mut ticks = ticks(settings.interval);
        // One byte more than a packet may have, so that a longer one is seen to be.
        let mut buffer = [0; MAX_BYTES + 1];
        loop {
            tokio::select! {
                _ = ticks.tick() => {
                    for packet in self.tick() {
                        for peer in &others {
                            let _ = socket.send_to(&packet, peer).await;
                        }
                    }
                }
                received = socket.recv_from(&mut buffer) => match received {
                    Ok((length, from)) => self.hear(&buffer[..length], from, settings),
                    Err(_) => drop(ticks.tick().await),
                },
            }
        }
    }

    /// Packets to be sent.
    fn tick(&self) -> Vec<Vec<u8>> {
        let charged = |(name, server): &(Rc<str>, Weak<dyn Server>)| Some((name.clone(), server.upgrade()?.charged()));
        let charged: Vec<_> = self.servers.borrow().iter().filter_map(charged).collect();
        let actions = self.exchange.borrow_mut().tick(&charged, self.began.elapsed());
        self.perform(actions)
    }

    fn hear(&self, packet: &[u8], from: SocketAddr, settings: &Settings) {
        let heard = if settings.key.is_none() && !is_peer(from.ip(), &settings.peers) {
            self.exchange.borrow_mut().turned_away();
            Err(Refusal::Stranger)
        } else {
            self.exchange.borrow_mut().hear(packet, self.began.elapsed())
        };
        match heard {
            Ok(actions) => drop(self.perform(actions)),
            Err(refusal) => self.note_refusal(refusal, from),
        }
    }

    fn perform(&self, actions: Vec<Action>) -> Vec<Vec<u8>> {
        let mut packets = Vec::new();
        for action in actions {
            match action {
                Action::Send(packet) => packets.push(packet),
                Action::Served { except, application, bytes } => {
                    let servers = self.servers.borrow();
                    let others = servers.iter().filter(|(name, _)| except.as_ref() != Some(name));
                    others
                        .filter_map(|(_, server)| server.upgrade())
                        .for_each(|server| server.served_at_other_servers(&application, bytes));
                }
            }
        }
        packets
    }

    fn note_refusal(&self, refusal: Refusal, from: SocketAddr) {
        let mut logged = self.logged.borrow_mut();
        if logged.get(&refusal).is_none_or(|last| last.elapsed() >= SILENCE) {
            logged.insert(refusal, Instant::now());
            tracing::warn!(peer = %from, "exchange: {refusal} [{}]", refusal.code());
        }
    }
}

fn ticks(period: Duration) -> tokio::time::Interval {
    let mut ticks = interval(period);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// An address of IPv4 in the guise of IPv6 is the same.
fn is_peer(address: IpAddr, peers: &[SocketAddr]) -> bool {
    peers.iter().any(|peer| peer.ip().to_canonical() == address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server whose counters are set by the test; adds up the charges it receives.
    #[derive(Default)]
    struct Disk {
        charged: RefCell<u64>,
        elsewhere: RefCell<u64>,
    }

    impl Server for Disk {
        fn charged(&self) -> Charged {
            vec![("climate".into(), *self.charged.borrow())]
        }

        fn served_at_other_servers(&self, application: &str, bytes: u64) {
            assert_eq!(application, "climate");
            *self.elsewhere.borrow_mut() += bytes;
        }
    }

    fn gate(number: u64, disks: &[Rc<Disk>]) -> Link {
        let link = Link::new(GateId(number));
        let named = |(n, disk): (usize, &Rc<Disk>)| {
            let weak: Weak<Disk> = Rc::downgrade(disk);
            (n.to_string().into(), weak as Weak<dyn Server>)
        };
        link.serve(disks.iter().enumerate().map(named).collect(), &["climate".into()]);
        link
    }

    async fn sockets() -> ([UdpSocket; 2], Vec<SocketAddr>) {
        let sockets = [UdpSocket::bind("127.0.0.1:0").await.unwrap(), UdpSocket::bind("127.0.0.1:0").await.unwrap()];
        let addresses = sockets.iter().map(|socket| socket.local_addr().unwrap()).collect();
        (sockets, addresses)
    }

    fn settings(peers: &[SocketAddr], secret: &str) -> Settings {
        Settings { peers: peers.to_vec(), interval: Duration::from_millis(5), key: Some(Key::from_secret(secret)) }
    }

    fn wait_for(what: impl AsyncFnOnce()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), what()).await.expect("in time") });
    }

    async fn until(condition: impl Fn() -> bool) {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[test]
    fn gates_hear_over_sockets_what_others_served_and_each_server_of_its_neighbour() {
        wait_for(async || {
            let disks: Vec<Rc<Disk>> = (0..3).map(|_| Rc::default()).collect();
            let (sockets, addresses) = sockets().await;
            let (left, right) = (gate(1, &disks[..2]), gate(2, &disks[2..]));
            let settings = settings(&addresses, "river");
            let story = async {
                disks.iter().for_each(|disk| *disk.charged.borrow_mut() = 1 << 20);
                until(|| left.live_peers() == 1 && right.live_peers() == 1).await;
                tokio::time::sleep(Duration::from_millis(100)).await;
                let before: Vec<u64> = disks.iter().map(|disk| *disk.elsewhere.borrow()).collect();
                *disks[0].charged.borrow_mut() += 3 << 20;
                *disks[2].charged.borrow_mut() += 5 << 20;
                let gained = [5 << 20, 8 << 20, 3 << 20];
                until(|| (0..3).all(|n| *disks[n].elsewhere.borrow() == before[n] + gained[n])).await;
            };
            tokio::select! {
                _ = left.talk(&sockets[0], &settings) => {}
                _ = right.talk(&sockets[1], &settings) => {}
                () = story => {}
            }
            assert_eq!(left.traffic().refused, 0);
        });
    }

    #[test]
    fn who_does_not_know_the_key_is_not_heard() {
        wait_for(async || {
            let disks: Vec<Rc<Disk>> = (0..2).map(|_| Rc::default()).collect();
            let (sockets, addresses) = sockets().await;
            let (left, right) = (gate(1, &disks[..1]), gate(2, &disks[1..]));
            let (ours, theirs) = (settings(&addresses, "river"), settings(&addresses, "lake"));
            tokio::select! {
                _ = left.talk(&sockets[0], &ours) => {}
                _ = right.talk(&sockets[1], &theirs) => {}
                () = until(|| left.traffic().refused > 3 && right.traffic().refused > 3) => {}
            }
            assert_eq!((left.live_peers(), right.live_peers()), (0, 0));
        });
    }

    #[test]
    fn without_a_key_only_addresses_of_peers_are_heard() {
        let peers = ["10.0.0.2:9400".parse().unwrap()];
        assert!(is_peer("10.0.0.2".parse().unwrap(), &peers));
        assert!(is_peer("::ffff:10.0.0.2".parse().unwrap(), &peers));
        assert!(!is_peer("10.0.0.3".parse().unwrap(), &peers));
    }
}
