//! The scheduler's weighted tree, group → application → stream, as the gate's applications fill it.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use policy::fairness::{NodeId, Scheduler, Time};

use super::grant::QueueKey;
use crate::applications::{Application, Applications};

/// An application without streams stays this long: its scheduler may owe it a little.
const IDLE_KEPT_NS: u64 = 60_000_000_000;

pub(super) struct Tree {
    applications: Rc<Applications>,
    nodes: HashMap<NodeKey, Node>,
    groups: HashMap<Rc<str>, NodeId>,
    /// Bytes charged, by application; few names, so those of removed nodes stay.
    charged: BTreeMap<Rc<str>, u64>,
}

/// An application that changes its group gets another node; streams it has stay where they are.
type NodeKey = (Rc<str>, Option<Rc<str>>);

struct Node {
    application: Rc<Application>,
    flow: Option<NodeId>,
    streams: HashMap<u64, NodeId>,
    open_streams: usize,
    idle_since: Time,
}

impl Tree {
    pub fn new(applications: Rc<Applications>) -> Self {
        Tree { applications, nodes: HashMap::new(), groups: HashMap::new(), charged: BTreeMap::new() }
    }

    pub fn applications(&self) -> &Rc<Applications> {
        &self.applications
    }

    pub fn open(&mut self, application: &Rc<Application>) -> NodeKey {
        let place = (application.name().clone(), application.group());
        let node = self.nodes.entry(place.clone()).or_insert_with(|| Node {
            application: application.clone(),
            flow: None,
            streams: HashMap::new(),
            open_streams: 0,
            idle_since: Time(0),
        });
        node.open_streams += 1;
        place
    }

    pub fn close(&mut self, scheduler: &mut dyn Scheduler, key: &QueueKey, now: Time) {
        let Some(node) = self.nodes.get_mut(&key.place) else { return };
        node.open_streams -= 1;
        node.idle_since = now;
        if let Some(flow) = node.streams.remove(&key.number) {
            scheduler.remove(flow);
        }
    }

    /// Returns the stream's queue, made when it is first used and again after each `forget_nodes`.
    pub fn queue_node(&mut self, scheduler: &mut dyn Scheduler, key: &QueueKey) -> NodeId {
        let node = self.nodes.get_mut(&key.place).expect("a stream keeps its node");
        if let Some(flow) = node.streams.get(&key.number) {
            return *flow;
        }
        let parent = node.flow.unwrap_or_else(|| {
            let group = key.place.1.as_ref().map(|name| {
                let weight = self.applications.group_weight(name);
                *self.groups.entry(name.clone()).or_insert_with(|| scheduler.add(None, weight))
            });
            let flow = scheduler.add(group, node.application.weight());
            scheduler.set_deadline(flow, deadline_ns(&node.application));
            flow
        });
        node.flow = Some(parent);
        let flow = scheduler.add(Some(parent), 1);
        node.streams.insert(key.number, flow);
        flow
    }

    pub fn application(&self, key: &QueueKey) -> &Application {
        &self.nodes.get(&key.place).expect("a stream keeps its node").application
    }

    pub fn set_weights(&self, scheduler: &mut dyn Scheduler) {
        for (name, flow) in &self.groups {
            scheduler.set_weight(*flow, self.applications.group_weight(name));
        }
        for node in self.nodes.values() {
            let Some(flow) = node.flow else { continue };
            scheduler.set_weight(flow, node.application.weight());
            scheduler.set_deadline(flow, deadline_ns(&node.application));
        }
    }

    /// A new scheduler knows none of them.
    pub fn forget_nodes(&mut self) {
        self.groups.clear();
        for node in self.nodes.values_mut() {
            node.flow = None;
            node.streams.clear();
        }
    }

    pub fn sweep(&mut self, scheduler: &mut dyn Scheduler, now: Time) {
        self.nodes.retain(|_, node| {
            let is_idle = node.open_streams == 0 && now.since(node.idle_since) > IDLE_KEPT_NS;
            !(is_idle && node.flow.is_none_or(|flow| scheduler.remove(flow)))
        });
        let nodes = &self.nodes;
        self.groups.retain(|name, flow| {
            let is_used = nodes.keys().any(|(_, group)| group.as_ref() == Some(name));
            is_used || !scheduler.remove(*flow)
        });
    }

    pub fn charge(&mut self, application: &Rc<str>, bytes: u64) {
        match self.charged.get_mut(application) {
            Some(charged) => *charged += bytes,
            None => _ = self.charged.insert(application.clone(), bytes),
        }
    }

    pub fn charged(&self) -> Vec<(Rc<str>, u64)> {
        self.charged.iter().map(|(name, bytes)| (name.clone(), *bytes)).collect()
    }

    /// Returns the application's own node; while it changes groups, the one in use.
    pub fn node_of(&self, application: &str) -> Option<NodeId> {
        let nodes = self.nodes.iter().filter(|((name, _), node)| **name == *application && node.flow.is_some());
        nodes.max_by_key(|(_, node)| node.open_streams)?.1.flow
    }
}

fn deadline_ns(application: &Application) -> Option<u64> {
    application.deadline().map(|within| u64::try_from(within.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use policy::fairness::{Completion, Next, Request, Settings, scheduler};

    use super::*;
    use crate::config::{Config, Facts};

    const SECOND_NS: u64 = 1_000_000_000;

    fn applications() -> Rc<Applications> {
        let file = "[[listen]]\nprotocol = \"s3\"\naddress = \"127.0.0.1:0\"\nupstream = \"server:9000\"\n\
                    [[group]]\nname = \"physics\"\n[[application]]\nname = \"climate\"\ngroup = \"physics\"\n";
        Rc::new(Applications::new(&Config::parse(Path::new("gate.toml"), file).expect("it is right")))
    }

    #[test]
    fn queues_come_with_the_first_request_and_go_a_minute_after_the_last_stream() {
        let applications = applications();
        let climate = applications.of(&Facts::default());
        let mut scheduler = scheduler(&Settings::default());
        let mut tree = Tree::new(applications);
        let count = |tree: &Tree| {
            let queues = tree.nodes.values().map(|node| node.streams.len() + usize::from(node.flow.is_some()));
            tree.groups.len() + queues.sum::<usize>()
        };
        let streams: Vec<_> = (0..2).map(|number| QueueKey { number, place: tree.open(&climate) }).collect();
        assert_eq!(count(&tree), 0, "no application has asked for anything");
        let flows: Vec<_> = streams.iter().map(|key| tree.queue_node(scheduler.as_mut(), key)).collect();
        assert_eq!(count(&tree), 4, "the group, the application and its streams");
        scheduler.enqueue(
            flows[0],
            Request { id: 1, cost_bytes: 1, deadline: None, completion: Completion::Served },
            Time(0),
        );
        assert_eq!(scheduler.next(Time(0)), Next::Start { flow: flows[0], id: 1 });
        scheduler.complete(flows[0], 1, 1, Time(0));
        tree.close(scheduler.as_mut(), &streams[0], Time(0));
        tree.sweep(scheduler.as_mut(), Time(100 * SECOND_NS));
        assert_eq!(count(&tree), 3, "one stream is there still");
        tree.close(scheduler.as_mut(), &streams[1], Time(100 * SECOND_NS));
        tree.sweep(scheduler.as_mut(), Time(160 * SECOND_NS));
        assert_eq!(count(&tree), 2, "what the scheduler owes is kept for a minute");
        tree.sweep(scheduler.as_mut(), Time(161 * SECOND_NS));
        assert_eq!((count(&tree), tree.nodes.len()), (0, 0));
    }
}
