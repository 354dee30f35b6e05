//! The scheduler's weighted tree, group → application → stream, as the gate's applications fill it.

use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

use policy::fairness::{FlowId, Scheduler, Time};

use super::turn::StreamKey;
use crate::applications::{Application, Applications};

/// An application without streams stays this long: its scheduler may owe it a little.
const IDLE_KEPT_NS: u64 = 60_000_000_000;

pub(super) struct Tree {
    applications: Rc<Applications>,
    nodes: HashMap<Place, Node>,
    groups: HashMap<Rc<str>, FlowId>,
    /// Bytes charged, by application; few names, so those of removed nodes stay.
    charged: BTreeMap<Rc<str>, u64>,
}

/// An application that changes its group gets another node; streams it has stay where they are.
type Place = (Rc<str>, Option<Rc<str>>);

struct Node {
    application: Rc<Application>,
    flow: Option<FlowId>,
    streams: HashMap<u64, FlowId>,
    open_streams: usize,
    idle_since: Time,
}

impl Tree {
    pub fn new(applications: Rc<Applications>) -> Self {
        Tree { applications, nodes: HashMap::new(), groups: HashMap::new(), charged: BTreeMap::new() }
    }

    pub fn open(&mut self, application: &Rc<Application>) -> Place {
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

    pub fn close(&mut self, scheduler: &mut dyn Scheduler, key: &StreamKey, now: Time) {
        let Some(node) = self.nodes.get_mut(&key.place) else { return };
        node.open_streams -= 1;
        node.idle_since = now;
        if let Some(flow) = node.streams.remove(&key.number) {
            scheduler.remove(flow);
        }
    }

    /// The stream's queue, made when it is first used and again after each `forget_flows`.
    pub fn stream_flow(&mut self, scheduler: &mut dyn Scheduler, key: &StreamKey) -> FlowId {
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
    pub fn forget_flows(&mut self) {
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

    /// The application's own node; while it changes groups, the one in use.
    pub fn flow_of(&self, application: &str) -> Option<FlowId> {
        let nodes = self.nodes.iter().filter(|((name, _), node)| **name == *application && node.flow.is_some());
        nodes.max_by_key(|(_, node)| node.open_streams)?.1.flow
    }
}

fn deadline_ns(application: &Application) -> Option<u64> {
    application.deadline().map(|within| u64::try_from(within.as_nanos()).unwrap_or(u64::MAX))
}
