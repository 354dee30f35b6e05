//! Flows into and between nodes: an interface is shared evenly by what passes it, each way by itself.
//!
//! A transfer between peers goes at the least of a peer's rate and the even shares of the sender's and the receiver's
//! interface; a part that one of them cannot use is not given to the others. Flows from the shared store are the
//! store's; here they only count.

use policy::cache::{ItemId, WorkerId};
use policy::placement::{Fetch, Source};

use crate::agenda::{Agenda, Event};
use crate::store::Store;
use crate::testbed::Testbed;

/// Bytes on their way into a node.
pub struct Flow {
    pub to: WorkerId,
    pub item: ItemId,
    pub fetch: Fetch,
    pub bytes: f64,
    /// The tasks that wait for it, the one that asked first.
    pub readers: Vec<u32>,
    /// From a node that leaves to one that stays.
    pub is_handed_over: bool,
    /// Flows that begin when this one is over.
    behind: Vec<u32>,
    rest_bytes: f64,
    rate_bytes_per_s: f64,
    since_s: f64,
    generation: u32,
}

/// Which bytes go where.
#[derive(Clone, Copy)]
pub struct Transfer {
    pub to: WorkerId,
    pub item: ItemId,
    pub bytes: f64,
}

#[derive(Default)]
struct Interface {
    incoming: Vec<u32>,
    outgoing: Vec<u32>,
}

pub struct Network {
    link_bytes_per_s: f64,
    peer_bytes_per_s: f64,
    flows: Vec<Flow>,
    vacant: Vec<u32>,
    interfaces: Vec<Interface>,
    /// Flows that wait behind others, by where they go.
    waiting: Vec<u32>,
    pub store: Store,
}

impl Network {
    pub fn new(testbed: &Testbed) -> Self {
        let Testbed { link_bytes_per_s, peer_bytes_per_s, .. } = *testbed;
        let store = Store::new(testbed.store_bytes_per_s, testbed.store_reader_bytes_per_s, link_bytes_per_s);
        Network {
            link_bytes_per_s,
            peer_bytes_per_s,
            flows: Vec::new(),
            vacant: Vec::new(),
            interfaces: Vec::new(),
            waiting: Vec::new(),
            store,
        }
    }

    pub fn join(&mut self) {
        self.interfaces.push(Interface::default());
    }

    /// Begins to fetch, for a task that runs or for none yet.
    pub fn fetch(&mut self, now_s: f64, agenda: &mut Agenda, wanted: Transfer, fetch: Fetch, reader: Option<u32>) {
        let Transfer { to, item, bytes } = wanted;
        let source = fetch.source;
        let flow = self.occupy(Flow {
            to,
            item,
            fetch,
            bytes,
            readers: Vec::from_iter(reader),
            is_handed_over: reader.is_none(),
            behind: Vec::new(),
            rest_bytes: bytes,
            rate_bytes_per_s: 0.0,
            since_s: now_s,
            generation: 0,
        });
        match source {
            Source::Behind(peer) => {
                let ahead = self.arriving(peer, item).expect("the peer awaits it");
                self.flows[ahead as usize].behind.push(flow);
                self.waiting.push(flow);
            }
            Source::Store | Source::Peer(_) => self.begin(now_s, agenda, flow),
        }
    }

    /// Makes a second task of the node wait for an item on its way there.
    pub fn share(&mut self, to: WorkerId, item: ItemId, reader: u32) {
        let flow = self.arriving(to, item).expect("the item is on its way");
        self.flows[flow as usize].readers.push(reader);
    }

    /// Whether this event is the flow's end, and not one that was foreseen before its rate changed.
    pub fn is_due(&self, flow: u32, generation: u32) -> bool {
        self.flows[flow as usize].generation == generation
    }

    /// Ends the flow; those that wait behind it begin.
    pub fn end(&mut self, now_s: f64, agenda: &mut Agenda, flow: u32) -> Flow {
        let (to, source) = (self.flows[flow as usize].to, self.flows[flow as usize].fetch.source);
        self.interfaces[to.0 as usize].incoming.retain(|other| *other != flow);
        if let Source::Peer(from) | Source::Behind(from) = source {
            self.interfaces[from.0 as usize].outgoing.retain(|other| *other != flow);
            self.reshare(now_s, agenda, from, false);
        }
        self.reshare(now_s, agenda, to, true);
        let generation = self.flows[flow as usize].generation + 1;
        let vacant = Flow {
            to,
            item: ItemId(u32::MAX),
            fetch: Fetch { source, kept: false, evicted: Vec::new() },
            bytes: 0.0,
            readers: Vec::new(),
            is_handed_over: false,
            behind: Vec::new(),
            rest_bytes: 0.0,
            rate_bytes_per_s: 0.0,
            since_s: now_s,
            generation,
        };
        let ended = std::mem::replace(&mut self.flows[flow as usize], vacant);
        self.vacant.push(flow);
        for &next in &ended.behind {
            self.waiting.retain(|other| *other != next);
            self.begin(now_s, agenda, next);
        }
        ended
    }

    fn begin(&mut self, now_s: f64, agenda: &mut Agenda, flow: u32) {
        let Flow { to, ref fetch, bytes, .. } = self.flows[flow as usize];
        let source = fetch.source;
        self.flows[flow as usize].since_s = now_s;
        self.interfaces[to.0 as usize].incoming.push(flow);
        if let Source::Peer(from) | Source::Behind(from) = source {
            self.interfaces[from.0 as usize].outgoing.push(flow);
            self.reshare(now_s, agenda, from, false);
        } else {
            self.store.begin(now_s, flow, bytes, self.interfaces[to.0 as usize].incoming.len());
        }
        self.reshare(now_s, agenda, to, true);
    }

    /// After the flows through one side of an interface changed.
    fn reshare(&mut self, now_s: f64, agenda: &mut Agenda, node: WorkerId, is_incoming: bool) {
        let interface = &self.interfaces[node.0 as usize];
        let flows = if is_incoming { interface.incoming.clone() } else { interface.outgoing.clone() };
        for flow in flows {
            match self.flows[flow as usize].fetch.source {
                Source::Store => {
                    let incoming = self.interfaces[self.flows[flow as usize].to.0 as usize].incoming.len();
                    self.store.relink(now_s, flow, incoming);
                }
                Source::Peer(from) | Source::Behind(from) => self.set_rate(now_s, agenda, flow, from),
            }
        }
    }

    fn set_rate(&mut self, now_s: f64, agenda: &mut Agenda, flow: u32, from: WorkerId) {
        let outgoing = self.interfaces[from.0 as usize].outgoing.len();
        let incoming = self.interfaces[self.flows[flow as usize].to.0 as usize].incoming.len();
        let shared = self.link_bytes_per_s / outgoing.max(incoming) as f64;
        let rate = shared.min(self.peer_bytes_per_s);
        let changed = &mut self.flows[flow as usize];
        if changed.rate_bytes_per_s == rate {
            return;
        }
        changed.rest_bytes -= (now_s - changed.since_s) * changed.rate_bytes_per_s;
        changed.since_s = now_s;
        changed.rate_bytes_per_s = rate;
        changed.generation += 1;
        let end_s = now_s + (changed.rest_bytes / rate).max(0.0);
        agenda.add(end_s, Event::Transferred { flow, generation: changed.generation });
    }

    fn arriving(&self, to: WorkerId, item: ItemId) -> Option<u32> {
        let is_it = |&&flow: &&u32| {
            let flow = &self.flows[flow as usize];
            flow.to == to && flow.item == item && flow.fetch.kept
        };
        let begun = self.interfaces[to.0 as usize].incoming.iter().find(is_it);
        begun.or_else(|| self.waiting.iter().find(is_it)).copied()
    }

    fn occupy(&mut self, flow: Flow) -> u32 {
        let Some(slot) = self.vacant.pop() else {
            self.flows.push(flow);
            return self.flows.len() as u32 - 1;
        };
        let generation = self.flows[slot as usize].generation;
        self.flows[slot as usize] = Flow { generation, ..flow };
        slot
    }
}
